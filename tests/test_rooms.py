"""The rooms of the house: each says what lives in it, and uses only the rooms it may use."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "agentorchestra"
PROJECT = ROOT / "pyproject.toml"

CONTRACT = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
# The contract lists the highest room first.
ROOMS: list[str] = [layer.strip("()") for layer in reversed(CONTRACT["layers"])]
ROOM_FOLDERS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


def lint_imports(*, first_on_path: Path | None = None) -> subprocess.CompletedProcess[str]:
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    environment = dict(os.environ)
    if first_on_path is not None:
        environment["PYTHONPATH"] = str(first_on_path)
    return subprocess.run(
        [sys.executable, "-c", program, "--no-logo", "--no-cache", "--config", str(PROJECT)],
        cwd=first_on_path or ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


# What `make lint` has ruff check in the whole project, each time with its own options.
CHECKS = [
    line.split()
    for line in re.findall(r"^\t\$\(BIN\)/ruff check (.*)\.$", (ROOT / "Makefile").read_text(), re.MULTILINE)
]


def banned_names(filename: str, code: str) -> str:
    """Return what `make lint` complains of banned names in `code`, as if it stood in `filename`."""
    options = ["--no-cache", "--output-format", "concise", "--stdin-filename", filename]
    complaints = []
    for check in CHECKS:
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "check", *check, *options, "-"],
            cwd=ROOT,
            input=code,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1), done.stderr
        complaints += [line for line in done.stdout.splitlines() if "TID251" in line]
    return "\n".join(complaints)


@pytest.mark.parametrize("folder", ROOM_FOLDERS, ids=lambda folder: folder.name)
def test_room_has_a_readme(folder: Path) -> None:
    readme = folder / "README.md"
    assert readme.is_file(), f"{folder.relative_to(ROOT)} has no README.md: what lives here, what does not?"
    words = readme.read_text(encoding="utf-8").split()
    assert len(words) >= 10, f"{readme.relative_to(ROOT)} says too little"


@pytest.mark.parametrize("folder", ROOM_FOLDERS, ids=lambda folder: folder.name)
def test_room_is_in_the_contract(folder: Path) -> None:
    assert folder.name in ROOMS, f"{folder.name} is no room of [tool.importlinter] in pyproject.toml"


def test_documentation_lists_the_rooms_in_the_order_of_the_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", page, re.MULTILINE)
    assert rows == ROOMS


def test_rooms_use_only_what_they_may() -> None:
    done = lint_imports()
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_import_is_found(tmp_path: Path) -> None:
    package = tmp_path / "agentorchestra"
    for room in ("agents", "core", "tea"):
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "core" / "ids.py").write_text("import agentorchestra.tea\n")
    done = lint_imports(first_on_path=tmp_path)
    assert done.returncode == 1
    assert "agentorchestra.core is not allowed to import agentorchestra.tea" in done.stdout


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", ["loop.py", "agents/a.py", "systems/a.py", "tea/deep/a.py"])
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import uuid\n\nuuid.uuid4()\n", "uuid.uuid4"),
        ("from uuid import uuid4\n", "uuid.uuid4"),
        ("import random\n", "random"),
        ("from time import monotonic\n", "time"),
        ("from datetime import datetime\n\ndatetime.now()\n", "datetime.datetime.now"),
    ],
)
def test_rooms_that_are_run_again_take_ids_time_and_chance_from_the_session(place: str, code: str, name: str) -> None:
    assert f"`{name}` is banned" in banned_names(f"src/agentorchestra/{place}", code)


def test_other_rooms_may_use_the_clock() -> None:
    code = "import random\nimport time\n"
    for place in ("src/agentorchestra/runtime/a.py", "src/agentorchestra/core/clock.py", "tests/test_a.py"):
        assert not banned_names(place, code)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "place",
    [
        "src/agentorchestra/loop.py",
        "src/agentorchestra/tea/deep/a.py",
        "src/agentorchestra/cli/a.py",
        "tests/cli/a.py",
        "benchmarks/a.py",
        "examples/a.py",
        "scripts/a.py",
    ],
)
@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\n\nasyncio.wait_for(future, 1)\n",
        "from asyncio import wait_for\n",
        "import asyncio as a\n\na.wait_for\n",
    ],
)
def test_no_code_uses_wait_for_which_swallows_cancellations(place: str, code: str) -> None:
    assert "`asyncio.wait_for` is banned" in banned_names(place, code)


def imported_modules(file: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a file imports anywhere, for types too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{one.name}" for one in node.names]
            found |= {name if name in modules else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found & modules.keys()


def test_no_files_import_each_other() -> None:
    modules = {
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in PACKAGE.rglob("*.py")
    }
    graph = {name: imported_modules(file, modules) - {name} for name, file in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' -> '.join(error.args[1])}")
