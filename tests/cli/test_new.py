"""`agentorchestra new`: what it writes is checked and run as a user's own code would be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Folder, clean_environment

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"tool": "x", "agent": "reader_of_the_files", "system": "a_name_that_is_as_long_as_names_may_be_x"}


def called(folder: Folder, *words: str) -> str:
    """What `python -m ...` says in the folder, as a user runs it there."""
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder.path, env=clean_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Folder]]:
    """A folder for each kind, with an application around it; then all three kinds in each of them."""
    folders = {}
    for kind, name in NAMES.items():
        folder = folders[kind] = Folder(tmp_path_factory.mktemp(kind))
        first = folder.run("new", kind, name)
        assert first.code == 0, first.err
        written = {"app.py", "agentorchestra.toml", f"{name}.py", f"test_{name}.py"}
        assert written <= set(first.out.split()), first.out
        assert sorted(first.out.split()) == sorted(
            path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*.*")
        )
    yield folders


# A list to which more is added keeps an element a line, and its comma.
COMMAS = ("--config", "format.skip-magic-trailing-comma=false")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", NAMES)
def test_the_code_keeps_to_the_rules_of_this_project(made: dict[str, Folder], kind: str) -> None:
    rules = ["--no-cache", "--config", str(ROOT / "pyproject.toml"), "--config", 'src=["."]', "."]
    called(made[kind], "ruff", "check", *rules)
    called(made[kind], "ruff", "format", "--check", *COMMAS, *rules)


def test_long_names_break_no_line(folder: Folder) -> None:
    for kind in NAMES:
        assert folder.run("new", kind, f"{kind}_{'long_' * 7}x"[:40]).code == 0
    rules = ["--no-cache", "--config", str(ROOT / "pyproject.toml"), "--config", 'src=["."]', "."]
    called(folder, "ruff", "check", *rules)
    called(folder, "ruff", "format", "--check", *COMMAS, *rules)


@pytest.mark.long
def test_the_types_fit(made: dict[str, Folder], tmp_path: Path) -> None:
    for folder in made.values():
        files = sorted(path.name for path in folder.path.glob("*.py"))
        assert len(files) == 3
        called(folder, "mypy", "--strict", "--cache-dir", str(tmp_path), *files)


@pytest.mark.parametrize(
    "kind", [one if one == "agent" else pytest.param(one, marks=pytest.mark.long) for one in NAMES]
)
@pytest.mark.long
def test_its_test_passes(made: dict[str, Folder], kind: str) -> None:
    said = called(made[kind], "pytest", "-p", "no:cacheprovider", "-q", f"test_{NAMES[kind]}.py")
    assert " passed" in said


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("tool", "[:most]", "[:0]"),
        pytest.param("agent", '"search_files", ', "", marks=pytest.mark.long),
        pytest.param("system", "context=context,", "", marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_its_test_can_fail(made: dict[str, Folder], tmp_path: Path, kind: str, old: str, new: str) -> None:
    copy = Folder(tmp_path)
    for path in made[kind].path.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and ".agentorchestra" not in path.parts:
            target = copy.path / path.relative_to(made[kind].path)
            target.parent.mkdir(exist_ok=True)
            text = path.read_text(encoding="utf-8")
            if path.name == f"{NAMES[kind]}.py":
                assert text.count(old) == 1
                text = text.replace(old, new)
            target.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"test_{NAMES[kind]}.py"],
        cwd=copy.path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and " failed" in done.stdout, done.stdout


def test_the_application_is_found_by_every_command(made: dict[str, Folder]) -> None:
    ran = made["system"].run("run", "6 * 7?", "--system", NAMES["system"], "--model", "offline", "--json")
    assert ran.json["status"] == "completed" and "42" in ran.json["answer"], ran.err
    shown = made["system"].assert_readable(ran.json["run_id"])
    assert {"first", "second"} <= {event["actor"] for event in shown["events"]}
    doctor = made["agent"].run("doctor", "--json")
    assert doctor.json["ok"], doctor.out


def test_a_second_one_is_wired_as_it_says(made: dict[str, Folder]) -> None:
    folder = made["tool"]
    before = (folder.path / "app.py").read_text(encoding="utf-8")
    added = folder.run("new", "agent", "clerk")
    assert added.code == 0 and "app.py" not in added.out.split()
    assert (folder.path / "app.py").read_text(encoding="utf-8") == before
    lines = [line.strip() for line in added.err.splitlines()]
    assert "to wire it, edit app.py:" in lines
    imports = [line for line in lines if line.startswith("from ")]
    arguments = [line for line in lines if line.endswith("],")]
    assert len(imports) == 2 and len(arguments) == 2
    edited = before.replace("\nfrom agentorchestra", "\n" + "\n".join(imports) + "\nfrom agentorchestra", 1)
    edited = edited.replace("        tools=", f"        {' '.join(arguments)}\n        tools=")
    ast.parse(edited)
    folder.write("app.py", edited)
    refused = folder.run("new", "tool", "clerk")
    assert refused.code == 2 and refused.error == "there is an agent named 'clerk' already; choose another name"
    refused = folder.run("new", "system", NAMES["tool"])
    assert refused.code == 2 and refused.error.startswith(f"there is a tool named {NAMES['tool']!r} already")


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Longest", "use lower case letters"),
        ("two words", "use lower case letters"),
        ("../outside", "use lower case letters"),
        ("1st", "use lower case letters"),
        ("_own", "use lower case letters"),
        ("class", "no word of Python"),
        ("n" * 41, "at most 40"),
        ("", "use lower case letters"),
        ("done", "there is a tool named 'done' already"),
        ("read_file", "there is a tool named 'read_file' already"),
        ("react", "there is a system named 'react' already"),
        ("summary", "there is a prompt named 'summary' already"),
        ("json", "there is a module named 'json' already"),
        ("pytest", "there is a module named 'pytest' already"),
        ("app", "there is a module named 'app' already"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(folder: Folder, name: str, why: str) -> None:
    for kind in NAMES:
        if name == "" and kind != "tool":
            continue
        refused = folder.run("new", kind, name)
        assert refused.code == 2 and repr(name) in refused.error and why in refused.error, refused.error
        assert not list(folder.path.rglob("*.py"))


def test_nothing_is_overwritten(folder: Folder) -> None:
    folder.write("test_mine.py", "mine\n")
    refused = folder.run("new", "tool", "mine")
    assert refused.code == 2 and "test_mine.py is there already and is not overwritten" in refused.error
    assert sorted(path.name for path in folder.path.iterdir()) == ["lease.txt", "test_mine.py"]
    assert (folder.path / "test_mine.py").read_text() == "mine\n"


def test_settings_that_are_there_are_left_alone(folder: Folder) -> None:
    folder.write("agentorchestra.toml", 'model = "offline"\n')
    made = folder.run("new", "tool", "mine")
    assert made.out.split() == ["mine.py", "test_mine.py", "app.py"]
    assert 'add to the top of agentorchestra.toml: app = "app:workspace"' in made.err.replace(f"{folder.path}/", "")
    assert (folder.path / "agentorchestra.toml").read_text() == 'model = "offline"\n'


def test_another_folder_is_made(folder: Folder) -> None:
    made = folder.run("new", "system", "mine", "--folder", "deep/project")
    assert made.code == 0 and (folder.path / "deep/project/prompts/mine_judge.md").is_file()
    assert "(in deep/project)" in made.err
    blocked = folder.run("new", "tool", "mine", "--folder", "lease.txt/project")
    assert blocked.code == 2 and "lease.txt" in blocked.error


def test_a_broken_application_is_no_obstacle(app: Folder) -> None:
    app.write("app.py", "raise RuntimeError('broken')\n")
    made = app.run("new", "tool", "mine")
    assert made.code == 0 and "warning: the app 'app:workspace' cannot be loaded" in made.err
    assert "to wire it, edit app.py:" in made.err
