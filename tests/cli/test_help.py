"""Help: complete, light, and the same in the documentation."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import click
import pytest

from agentorchestra.cli.group import COMMANDS, GROUPS, SYNONYMS, LazyGroup, cli
from tests.cli.reference import PAGE, help_text, reference
from tests.cli.support import Folder, clean_environment

assert isinstance(cli, LazyGroup)


def command(name: str) -> click.Command:
    found = LazyGroup.get_command(cli, click.Context(cli), name)
    assert found is not None
    return found


def test_help_imports_no_command_and_no_library_but_click() -> None:
    program = (
        "import json, sys\n"
        "from agentorchestra.cli import main\n"
        "assert main(['--help']) == 0\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean_environment(), capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stderr)
    heavy = ("pydantic", "sqlalchemy", "rich", "asyncio", "agentorchestra.workspace", "agentorchestra.cli.commands")
    assert [name for name in loaded if name.startswith(heavy)] == []
    assert "Run a task and print the answer." in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_complete_help(name: str) -> None:
    found = command(name)
    assert found.short_help == COMMANDS[name].summary
    text = help_text(name)
    assert "Examples:" in text
    assert f"agentorchestra {name}" in text
    assert "Exit codes:" in text
    # `new` opens no workspace: it writes into the folder of an application; `presets` and `completion` belong to no
    # folder.
    where = "--folder" if name == "new" else "--workspace"
    for one in found.commands.values() if isinstance(found, click.Group) else [found]:
        assert one.short_help
        for parameter in one.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts}: no help"
        assert name in ("presets", "completion") or any(where in parameter.opts for parameter in one.params)


def test_the_list_of_commands_has_each_of_them_once_in_its_group() -> None:
    text = help_text()
    listed = [line.split()[0] for line in text.partition("The first day:")[2].splitlines() if line[2:3].isalpha()]
    assert sorted(name for name in listed if name in COMMANDS) == sorted(COMMANDS)
    titles = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", "The first day:", *(f"{group}:" for group in GROUPS)]
    assert {one.group for one in COMMANDS.values()} == {*GROUPS}


def test_what_is_typed_instead_is_a_command() -> None:
    for name, instead in SYNONYMS.items():
        assert name not in COMMANDS
        assert all(line.split()[0] in {*COMMANDS, "--version", "--help"} for line in instead)


def test_the_page_is_in_sync_with_the_help() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `python -m tests.cli.reference`"


@pytest.mark.parametrize("module", ["agentorchestra", "agentorchestra.cli"])
def test_modules_are_the_command(folder: Folder, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"],
        env=clean_environment(),
        cwd=folder.path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"agentorchestra {metadata.version('agentorchestra')}\n"
    assert done.stderr == ""


def test_no_command_shows_the_help_and_is_wrong_usage(folder: Folder) -> None:
    done = folder.run()
    assert done.code == 2
    assert done.out == ""
    assert "Usage: agentorchestra" in done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rum"], "there is no command 'rum'; did you mean 'run'"),
        (["run"], "Missing argument 'TASK' (or --task-file, --task-folder); see `agentorchestra run --help`"),
        (["run", "x", "--nope"], "No such option '--nope'"),
        (["run", "x", "y"], "put the whole of it into quotation marks: 'x y'"),
        (["run", "x", "--budget-usd", "0"], "Invalid value for '--budget-usd': '0' is not a number above 0"),
        (["run", "x", "--budget-usd", "nan"], "Invalid value for '--budget-usd': 'nan' is not a number above 0"),
        (["run", "x", "--timeout-s", "-1"], "Invalid value for '--timeout-s': '-1' is not a number above 0"),
        (["run", "x", "--timeout-s", "soon"], "'soon' is not a number above 0"),
        (["run", "x", "--max-steps", "0"], "Invalid value for '--max-steps': 0 is not in the range x>=1"),
        (["run", "x", "--on-ask", "maybe"], "'maybe' is not one of 'wait', 'deny'"),
        (["run", "x", "--label", "none"], "Invalid value for '--label': 'none' is not of the form name=value"),
        (["run", "x", "--label", "=v"], "Invalid value for '--label': '=v' is not of the form name=value"),
        (["run", "x", "--workspace", ""], "the folder's name is empty"),
        (["run", "x", "--file", ""], "the name is empty"),
        (["runs", "--limit", "0"], "0 is not in the range x>=1"),
    ],
)
def test_wrong_usage_is_one_sentence(folder: Folder, words: list[str], sentence: str) -> None:
    done = folder.run(*words)
    assert done.code == 2
    assert done.out == ""
    assert sentence in done.error
    assert len(done.err.splitlines()) == 1
    assert not folder.workspace.exists()


def test_wrong_usage_with_json_is_an_object_too(folder: Folder) -> None:
    done = folder.run("run", "x", "--max-steps", "0", "--json")
    assert done.code == 2
    assert done.json == {"status": "failed", "error": done.error, "error_type": "BadParameter"}


def test_bytes_that_are_no_text_are_refused(folder: Folder) -> None:
    for words in (["run", "caf\udce9"], ["answer", "last", "caf\udce9"], ["run", "x", "--file", "caf\udce9"]):
        done = folder.run(*words)
        assert done.code == 2
        assert "bytes that are not UTF-8" in done.error
