"""What `import agentorchestra` gives, what it costs, and that the wheel holds all of it."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "agentorchestra"

agentorchestra = importlib.import_module("agentorchestra")
PUBLIC_NAMES: list[str] = list(getattr(agentorchestra, "__all__", []))

HEAVY_LIBRARIES = [
    "alembic",
    "click",
    "genai_prices",
    "jinja2",
    "openai",
    "psycopg",
    "pydantic_ai",
    "pydantic_monty",
    "pypdf",
    "rich",
    "sqlalchemy",
    "starlette",
    "uvicorn",
]


def test_public_names_are_listed_once() -> None:
    assert PUBLIC_NAMES, "agentorchestra.__all__ is the public API: it must list at least one name"
    assert len(PUBLIC_NAMES) == len(set(PUBLIC_NAMES)), "a name stands twice in agentorchestra.__all__"
    assert len(PUBLIC_NAMES) <= 50, "agentorchestra.__all__ is what most programs use; leave the rest in its module"
    assert {"Event", "ModelClient", "Evaluation", "evolve"} <= {*PUBLIC_NAMES}


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_name_resolves_and_is_documented(name: str) -> None:
    assert name == "__version__" or not name.startswith("_"), f"{name} looks private"
    value = getattr(agentorchestra, name)
    if not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)):
        return  # a constant or a type alias has no docstring of its own
    doc = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    assert doc and doc.strip(), f"agentorchestra.{name} has no docstring"
    # A dataclass without a docstring gets its signature as one, which documents nothing.
    assert not doc.startswith(f"{name}("), f"agentorchestra.{name} has no docstring of its own"


def test_dir_lists_every_public_name() -> None:
    missing = set(PUBLIC_NAMES) - set(dir(agentorchestra))
    assert not missing, f"dir(agentorchestra) does not show {sorted(missing)}"


def test_unknown_name_is_named_in_the_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = agentorchestra.no_such_name


def test_every_name_that_the_documentation_imports_is_public() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *PACKAGE.glob("**/*.md")]
    statement = re.compile(r"^\s*from agentorchestra import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)
    unknown: list[str] = []
    for page in pages:
        for in_parentheses, on_one_line in statement.findall(page.read_text(encoding="utf-8")):
            names = (in_parentheses or on_one_line).split("#")[0].replace("\n", " ").split(",")
            imported = [words[0] for item in names if (words := item.split())]
            unknown += [f"{page.relative_to(ROOT)}: {name}" for name in imported if name not in PUBLIC_NAMES]
    assert not unknown, f"documented, but not in agentorchestra.__all__: {unknown}"


PUBLIC_MODULES = {"agentorchestra", "agentorchestra.testing"}
"""What programs of users import from."""

ALSO_PUBLIC = {"core.settings", "core.errors", "core.query", "core.spec", "core.content", "web", "testing.github"}
"""What pages on one subject import besides, below `agentorchestra`."""

SHOWN_ROOMS = {"sandbox", "sandbox.factory", "evaluation.statistics", "evaluation.published.tables", "evolution.tips"}
SHOWN_ROOMS |= {"evolution.evidence", "agents.optimiser.evidence", "tea.programs.imports", "tea.programs.dynamic"}
SHOWN_ROOMS |= {"tools.files", "tools.web.search.types", "workspace", "models.render", "core.messages"}
SHOWN_ROOMS |= {"environments.folder", "tea.transformations.compound", "tea.transformations.t2e"}
SHOWN_ROOMS |= {"agents.transformations.a2e", "evaluation.plan"}
"""Rooms that a page is about, or that the examples which are programs of the project's own use."""


def imported_from(text: str) -> set[str]:
    return set(re.findall(r"^\s*(?:from|import) (agentorchestra[\w.]*)(?: import|$)", text, re.MULTILINE))


def test_what_tutorials_and_everyday_programs_use_comes_from_no_inner_room() -> None:
    pages = [ROOT / "README.md", ROOT / "docs/library.md", *(ROOT / "docs/tutorials").glob("*.md")]
    pages += (ROOT / "examples/ten-things").glob("*.py")
    found = {page.name: imported_from(page.read_text(encoding="utf-8")) for page in pages}
    assert all(found[name] for name in ("README.md", "ten_things.py", "tool.md"))
    assert {name: inner for name, some in found.items() if (inner := some - PUBLIC_MODULES)} == {}
    listed = PUBLIC_MODULES | {f"agentorchestra.{one}" for one in ALSO_PUBLIC | SHOWN_ROOMS}
    others = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.py")]
    strange = {str(page): imported_from(page.read_text(encoding="utf-8")) - listed for page in others}
    assert {page: inner for page, inner in strange.items() if inner} == {}


def test_ten_everyday_programs_take_few_lines() -> None:
    """Counted as in other frameworks: lines that are not blank between the marks, without imports and end."""
    lines: dict[str, int] = {}
    title = "imports"
    for line in (ROOT / "examples/ten-things/ten_things.py").read_text(encoding="utf-8").splitlines():
        if mark := re.match(r"#= (.*)", line):
            title = mark[1]
        elif line.strip():
            lines[title] = lines.get(title, 0) + 1
    counted = {name: count for name, count in lines.items() if name not in ("imports", "end")}
    assert len(counted) == 10 and sum(counted.values()) <= 60, counted


def test_import_loads_no_heavy_library_and_makes_no_file(tmp_path: Path) -> None:
    program = "import agentorchestra, json, sys; print(json.dumps(sorted(sys.modules)))"
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    loaded = set(json.loads(done.stdout))
    assert "agentorchestra" in loaded
    heavy = loaded & set(HEAVY_LIBRARIES)
    assert not heavy, f"`import agentorchestra` loads {sorted(heavy)}: import them where they are first used"
    made = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert not made, f"`import agentorchestra` made files: {made}"


def test_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        entry_points = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "agentorchestra = agentorchestra.cli:main" in archive.read(entry_points).decode()
    written = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "agentorchestra/py.typed" in packed
    assert packed == written


MOST_BYTES = 250_000_000


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_base_install_stays_small(tmp_path: Path) -> None:
    def call(*words: str | Path) -> str:
        done = subprocess.run([*map(str, words)], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    call(sys.executable, "-m", "venv", tmp_path / "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    call(python, "-m", "pip", "install", "-c", ROOT / "constraints.txt", wheel)
    packages = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    sizes = {
        # Blocks on the disk, as `du` counts them.
        entry.name: sum(one.lstat().st_blocks * 512 for one in (entry, *entry.rglob("*")))
        for entry in packages.iterdir()
        if entry.name != "pip"
        and not entry.name.startswith(
            ("pip-", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
        )
    }
    total = sum(sizes.values())
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    about = f"{total / 1e6:.0f} MB: " + ", ".join(f"{name} {size / 1e6:.0f}" for name, size in largest)
    print(f"base install: {about}")
    assert "agentorchestra" in sizes
    assert total <= MOST_BYTES, about
