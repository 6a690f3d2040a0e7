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
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
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
