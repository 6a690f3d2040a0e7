"""The examples of the documentation run as they stand."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from pydantic import BaseModel

from agentorchestra.core.settings import (
    AnalysisSettings,
    AOrchestraSettings,
    CoralSettings,
    ModelProfile,
    PartSettings,
    PolicySettings,
    ResearchSettings,
    SandboxSettings,
    SearchSettings,
    Settings,
    WebSettings,
)
from agentorchestra.workspace import load_settings
from tests.support.patience import LONGEST_S
from tests.warm import run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^```(?:(?P<console>console)|\w+ (?P<file>\S+))\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(language: str) -> list[tuple[str, str]]:
    return [
        (page.name, match[2]) for page in PAGES for match in BLOCK.finditer(page.read_text()) if match[1] == language
    ]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the examples beside it, as in a clone."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


SLOW_EXAMPLES = {"evaluation.md", "mcp.md", "mobile.md", "models.md", "programs.md", "search.md"}
"""Pages whose programs take seconds."""


@pytest.mark.parametrize(
    ("page", "code"),
    [
        pytest.param(page, code, marks=[pytest.mark.long] if page in SLOW_EXAMPLES else [])
        for page, code in _blocks("python")
        if page != "README.md"  # has a test of its own
    ],
)
def test_python_examples_run(place: Path, page: str, code: str) -> None:
    done = run(["-c", code], cwd=place, environ=os.environ, timeout=LONGEST_S)
    assert done.returncode == 0, f"{page}: {done.stderr}"
    assert done.stdout.strip() or "print(" not in code


OF_THE_SHELL = re.compile(r"[|<>&;$*?`#]")
"""What makes more of a line than a command and its words, outside of quotes."""
QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")


SLOW = {
    *(
        "bundles.md",
        "components.md",
        "evaluation.md",
        "evolution.md",
        "fork.md",
        "scaling.md",
        "schedule.md",
        "search.md",
    ),
    "sessions.md",
}
"""Pages whose commands take seconds."""


@pytest.mark.parametrize(
    ("page", "text"),
    [
        pytest.param(page, text, marks=[pytest.mark.long] if page in SLOW else [])
        for page, text in _blocks("console")
        if page != "README.md"  # has a test of its own
    ],
)
def test_console_examples_run(place: Path, page: str, text: str) -> None:
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    assert commands
    for command in commands:
        words = shlex.split(command)
        if words[0] == "agentorchestra" and not OF_THE_SHELL.search(QUOTED.sub("", command)):
            done = run(["-m", *words], cwd=place, environ=os.environ, timeout=LONGEST_S)
        else:
            line = command.replace("agentorchestra", f"{sys.executable} -m agentorchestra", 1)
            done = subprocess.run(line, cwd=place, shell=True, capture_output=True, text=True, timeout=LONGEST_S)
        assert done.returncode == 0, f"{page}: {command}: {done.stderr}"


def test_each_command_of_the_pages_is_run_or_says_what_it_needs() -> None:
    """A reader sees which commands are not for trying out: the first line of their block says what they need."""
    for page in (*PAGES, *TUTORIALS):
        text = page.read_text()
        outside = BLOCK.sub("", STEP.sub("", text))
        loose = re.findall(r"^    (?:agentorchestra|pip|docker|curl|python) .*", outside, re.MULTILINE)
        assert not loose or page.name == "cli.md", f"{page.name}: {loose} stand in no block of a shell"
        for language, block in BLOCK.findall(text):
            if language == "bash":
                installs = all(line.startswith("pip install ") for line in block.splitlines()) or page.name == "web.md"
                assert installs or block.startswith("# Needs "), f"{page.name}: {block}"
            assert language not in ("shell", "sh-session", "zsh"), f"{page.name}: {language}: nothing runs this"
            assert language != "sh" or page.name == "web.md", f"{page.name}: {block}"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has what `make demo` installs and nothing else of this one.

    The distributions are links to those here: which ones is what their metadata and `scripts/setup-venv.sh` say.
    """
    folder = tmp_path_factory.mktemp("demo") / ".venv"
    venv.EnvBuilder(symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    script = (ROOT / "scripts" / "setup-venv.sh").read_text()
    (also,) = re.findall(r"^runtime\) targets=\(--editable \.(.*)\) ;;$", script, re.MULTILINE)
    for one in _with_what_they_need(["agentorchestra", *also.split()]):
        for file in one.files or ():
            top, found = file.parts[0], Path(str(one.locate_file(file)))
            if found.parent.name == "bin" and top == ".." and not found.read_bytes().startswith(b"#!"):
                (folder / "bin" / found.name).symlink_to(found.resolve())
            elif top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(str(one.locate_file(top)))
    if not (site / "agentorchestra").exists():  # the one that is tested, whatever the editable installation names
        (site / "agentorchestra").symlink_to(ROOT / "src" / "agentorchestra")
    program = folder / "bin" / "agentorchestra"
    program.write_text(
        f"#!{folder / 'bin' / 'python'}\nimport sys\n\nfrom agentorchestra.cli import main\n\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    return folder / "bin"


def _with_what_they_need(names: list[str]) -> list[metadata.Distribution]:
    """The distributions with these names and all that they require, with the extras that are asked for."""
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    open_ = [(name, "") for name in names]
    while open_:
        name, extra = asked = open_.pop()
        if asked in seen:
            continue
        seen.add(asked)
        one = found[name] = metadata.distribution(name)
        for line in one.requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                open_ += [(wanted.name.lower(), each) for each in ("", *wanted.extras)]
    return list(found.values())


def _environment(programs: Path) -> dict[str, str]:
    """Return the environment of a user whose shell finds these programs: no key, no setting, no other Python's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTORCHESTRA_", "PYTHON"))}
    kept.pop("VIRTUAL_ENV", None)
    return {**kept, "PATH": f"{programs}:{kept['PATH']}", "PYTEST_ADDOPTS": "-p no:cacheprovider"}


def _as_printed(command: str, expected: str, where: str, *, place: Path, demo: Path) -> None:
    """Run a command of a page and compare what it prints; `...` stands for anything."""
    done = subprocess.run(
        command, cwd=place, env=_environment(demo), shell=True, capture_output=True, text=True, timeout=LONGEST_S
    )
    assert done.returncode == 0, f"{where}: {command}: {done.stdout + done.stderr}"
    if expected and "..." not in expected:
        assert done.stdout == expected, f"{where}: {command}"
        return
    rest = done.stdout
    for wanted in expected.splitlines():
        parts = (re.escape(part.strip()) for part in wanted.split("..."))
        match = re.search(".*".join(parts), rest)
        assert match, f"{where}: {command}: {wanted!r} is not in {rest}"
        rest = rest[match.end() :]


def _commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what stands below it."""
    steps = (step.partition("\n") for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:])
    return [(command, expected) for command, _, expected in steps]


IN_ANY_FOLDER, IN_A_CLONE = [one for page, one in _blocks("console") if page == "README.md"]

FROM_WHEEL = pytest.param("wheel", marks=[pytest.mark.long, pytest.mark.timeout(1200)])


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel and pytest, as the package index gives the rest."""
    folder = tmp_path_factory.mktemp("wheel")
    built = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(built, check=True, capture_output=True)
    (package,) = folder.glob("*.whl")
    venv.EnvBuilder(symlinks=True, with_pip=True).create(folder / "fresh")
    python, versions = str(folder / "fresh" / "bin" / "python"), str(ROOT / "constraints.txt")
    install = [python, "-m", "pip", "install", "-c", versions, str(package), "pytest"]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "fresh" / "bin"


@pytest.fixture
def programs(request: pytest.FixtureRequest) -> Path:
    """The programs of the environment that the parameter names."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Path)
    return found


@pytest.mark.parametrize("programs", [pytest.param("demo", marks=pytest.mark.long), FROM_WHEEL], indirect=True)
def test_the_first_page_in_any_folder(tmp_path: Path, programs: Path) -> None:
    for command, expected in _commands(IN_ANY_FOLDER):
        _as_printed(command, expected, "README.md", place=tmp_path, demo=programs)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_first_page_in_a_clone(place: Path, demo: Path) -> None:
    commands = _commands(IN_A_CLONE)
    assert all(expected for _, expected in commands)
    for command, expected in commands:
        _as_printed(command, expected, "README.md", place=place, demo=demo)


@pytest.mark.parametrize("programs", ["demo", FROM_WHEEL], indirect=True)
def test_the_library_example_of_the_first_page_prints_what_stands_there(tmp_path: Path, programs: Path) -> None:
    ((code, expected),) = re.findall(r"^```python\n(.*?)^```\n+It prints\n+```text\n(.*?)^```", README, re.S | re.M)
    (tmp_path / "example.py").write_text(code)
    _as_printed("python example.py", expected, "README.md", place=tmp_path, demo=programs)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_demo_ends_with_commands_that_work(place: Path, demo: Path) -> None:
    (place / ".venv").symlink_to(demo.parent)
    done = subprocess.run(
        [demo / "python", "examples/demo.py"],
        cwd=place,
        env=_environment(demo),
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [line.strip() for line in done.stdout.partition("\nNext:\n")[2].splitlines()]
    assert len(steps) == 3
    for step in steps:
        _as_printed(step, "", "make demo", place=place, demo=demo)


@pytest.mark.long
@pytest.mark.parametrize(("page", "code"), [one for one in _blocks("python") if one[0] != "README.md"])
def test_python_examples_run_in_the_environment_of_the_demo_or_name_their_extra(
    place: Path, page: str, code: str, demo: Path
) -> None:
    """What a page needs besides `make demo` stands on it."""
    (place / "example.py").write_text(code)
    done = subprocess.run(
        ["python", "example.py"], cwd=place, env=_environment(demo), capture_output=True, text=True, timeout=LONGEST_S
    )
    if done.returncode:
        named = re.findall(r"agentorchestra\[(\w+)\]|extra (\w+)", done.stderr)
        extras = {one or other for one, other in named}
        text = (ROOT / "docs" / page).read_text()
        assert extras, f"{page}: {done.stderr}"
        assert any(f"agentorchestra[{one}]" in text or f"extra `{one}`" in text for one in extras), f"{page}: {extras}"


@pytest.mark.parametrize(
    "page",
    [pytest.param(one, marks=[pytest.mark.long, pytest.mark.timeout(1200)]) for one in TUTORIALS],
    ids=lambda page: page.stem,
)
@pytest.mark.parametrize("programs", ["demo", "wheel"], indirect=True)
def test_tutorials_run(tmp_path: Path, page: Path, programs: Path) -> None:
    """A tutorial is one walk: its files are written, its commands run and say what stands below them."""
    steps = list(STEP.finditer(page.read_text()))
    assert len(steps) > 3
    for step in steps:
        if step["file"]:
            (tmp_path / step["file"]).parent.mkdir(exist_ok=True)
            (tmp_path / step["file"]).write_text(step["text"])
            continue
        for command, expected in _commands(step["text"]):
            _as_printed(command, expected, page.name, place=tmp_path, demo=programs)
    rules = [
        "--no-cache",
        "--config",
        str(ROOT / "pyproject.toml"),
        "--config",
        'src=["."]',
        "--config",
        "format.skip-magic-trailing-comma=false",  # a list to which more is added keeps an element a line
        *map(str, tmp_path.glob("*.py")),
    ]
    for what in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *what, *rules], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("page", "text"), _blocks("toml"))
def test_settings_examples_fit(tmp_path: Path, page: str, text: str) -> None:
    (tmp_path / "agentorchestra.toml").write_text(text)
    assert load_settings(tmp_path / "ws") != Settings(), page


@pytest.mark.parametrize("model", [Settings, ModelProfile, PolicySettings, SandboxSettings])
def test_every_setting_is_documented(model: type[Settings]) -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    for name in model.model_fields:
        assert f"`{name}`" in page, f"docs/settings.md does not name {name}"
    tables = (Settings, ModelProfile, SearchSettings, WebSettings, AnalysisSettings)
    known = {name for one in tables for name in one.model_fields}
    for name in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE):
        assert name in known, f"docs/settings.md names {name}, which is no setting"


@pytest.mark.parametrize(
    ("page", "model"),
    [
        ("research.md", ResearchSettings),
        ("aorchestra.md", AOrchestraSettings),
        ("coral.md", CoralSettings),
        ("oagents.md", PartSettings),
    ],
)
def test_the_settings_of_workflows_are_documented(page: str, model: type[BaseModel]) -> None:
    table = (ROOT / "docs" / page).read_text().partition("\n## Settings\n")[2]
    for name, one in model.model_fields.items():
        row = next((line for line in table.splitlines() if line.startswith("| ") and f"`{name}`" in line), "")
        default = "none" if one.default in ((), {}) else str(one.default).lower().removesuffix(".0")
        assert row and re.search(rf"\b{default}\b", row.split("|")[2]), f"{name}: {default} is not in {row!r}"


def test_the_architecture_says_what_is_not_built() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    (note,) = re.findall(r"^\*\*Not built yet\*\*.*$", page, re.MULTILINE)
    rooms = re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)
    for room in rooms:
        built = (ROOT / "src" / "agentorchestra" / room).is_dir()
        assert built != (f"`{room}/`" in note.split(";")[0]), f"docs/architecture.md is wrong about {room}/"
