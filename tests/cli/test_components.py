"""`components`: list, info, search, versions, diff, restore, deprecate, contract; and its short forms."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from unittest.mock import ANY

import pytest

from agentorchestra import Workspace
from agentorchestra.cli.group import COMMANDS
from tests.cli.reference import SHORT_FORMS
from tests.cli.support import APP, Folder

MAIL = 'async def send_mail(to: str, body: str) -> str:\n    """Send a mail.\n'
LATER = (
    'async def send_mail(to: str, body: str, subject: str = "") -> str:\n    """Send a mail\\x1b[31m with a subject.\n'
)
OTHER = 'async def send_mail(body: str) -> str:\n    """Send a mail to everybody.\n'


def edited(app: Folder, text: str) -> Folder:
    """The application with another `send_mail`."""
    assert MAIL in APP
    source = APP.replace(MAIL, text)
    app.write("app.py", source if "to: str" in text else source.replace("        to: the address.\n", ""))
    return app


@pytest.mark.long
def test_components_of_an_application(app: Folder) -> None:
    listed = app.run("components", "list")
    assert listed.code == 0
    lines = listed.out.splitlines()
    assert any(line.startswith("tool ") and "send_mail@1.0.0" in line and line.endswith("(yours)") for line in lines)
    assert any(line.startswith("agent ") and "reporter@" in line and "(yours)" not in line for line in lines)
    tools = app.run("components", "list", "--kind", "tool", "--json").json
    assert {one["kind"] for one in tools} == {"tool"}
    assert {one["failure"] for one in tools} == {None}
    found = app.run("components", "search", "write a mail to an address")
    assert "send_mail" in found.out.splitlines()[0]
    scored = app.run("components", "search", "mail", "--kind", "tool", "--limit", "1", "--json").json
    assert [one["name"] for one in scored] == ["send_mail"]
    nothing = app.run("components", "search", "zzzqqq")
    assert (nothing.code, nothing.out) == (0, "")
    assert "nothing fits 'zzzqqq'" in nothing.err
    info = app.run("components", "info", "send_mail")
    assert info.out.startswith("tool  (yours)\n")
    assert "- `to` (string): the address." in info.out
    assert app.run("components", "info", "send_mail@1.0.0", "--json").json["operations"][0]["name"] == "send_mail"


@pytest.mark.long
def test_a_branch_of_the_tree(app: Folder) -> None:
    code = app.run("components", "list", "--under", "code", "--json").json
    every = app.run("components", "list", "--json").json
    assert "send_mail" in {one["name"] for one in code}
    assert [one for one in every if one["origin"] == "code"] == code
    packaged = app.run("tools", "list", "--under", "package").out
    assert "read_file@" in packaged and "send_mail" not in packaged
    assert app.run("components", "search", "mail", "--under", "code", "--limit", "1", "--json").json[0] == {
        "score": app.run("components", "search", "mail", "--limit", "1", "--json").json[0]["score"],
        **{
            key: value
            for key, value in code[[one["name"] for one in code].index("send_mail")].items()
            if key != "failure"
        },
    }
    assert "send_mail" not in app.run("components", "search", "mail", "--under", "package").out
    for words in (["list"], ["search", "mail"]):
        none = app.run("tools", *words, "--under", "mcp/github")
        assert (none.code, none.out) == (2, "")
        assert none.error == "there are no tools under 'mcp/github'; the branches there: code, package"


def test_contracts(app: Folder) -> None:
    one = app.run("components", "contract", "--kind", "agent")
    assert one.out.startswith("# Agents\n")
    every = app.run("components", "contract", "--json").json
    assert [each["kind"] for each in every] == ["tool", "environment", "agent", "prompt", "memory"]
    assert every[2]["contract"].strip() == one.out.strip()
    text = app.run("components", "contract").out
    places = [text.index(f"# {kind}\n") for kind in ("Tools", "Environments", "Agents", "Prompts", "Memories")]
    assert places == sorted(places)


@pytest.mark.long
def test_short_forms_are_the_same_commands(app: Folder) -> None:
    assert set(COMMANDS) >= SHORT_FORMS
    tools = app.run("tools", "list", "--json")
    assert tools.json == app.run("components", "list", "--kind", "tool", "--json").json
    assert app.run("agents", "info", "reporter").out == app.run("components", "info", "reporter", "--kind", "agent").out
    assert {one["kind"] for one in app.run("prompts", "list", "--json").json} == {"prompt"}
    assert app.run("tools", "search", "mail", "--limit", "1").out.split()[1:3] == ["tool", "send_mail:"]
    for plural in sorted(SHORT_FORMS):
        assert app.run(plural, "list", "--json").code == 0
    kind = app.run("tools", "list", "--kind", "agent")
    assert kind.code == 2
    assert kind.error.startswith("No such option '--kind'") and "`agentorchestra tools list --help`" in kind.error
    unknown = app.run("agents", "info", "send_mail")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.error == "there is no agent 'send_mail'; `agentorchestra agents list` shows all"


@pytest.mark.long
def test_how_often_components_were_called(app: Folder) -> None:
    nothing = app.run("tools", "stats")
    assert (nothing.code, nothing.out) == (0, "") and "no calls of tools are in the log" in nothing.err
    assert app.run("run", "PLAN fill").code == 0
    (large,) = [one for one in app.run("tools", "stats", "--json").json if one["name"] == "large"]
    assert (large["calls"], large["succeeded"], large["runs"], large["generated"]) == (15, 15, 1, False)
    assert "tool         large" in app.run("components", "stats", "--all").out
    assert app.run("tools", "stats", "--generated").out == ""
    assert app.run("prompts", "stats").code == 2  # prompts are not called


def test_a_tool_that_was_edited(app: Folder) -> None:
    assert app.run("tools", "list").code == 0
    edited(app, LATER)
    listed = app.run("tools", "list").out
    assert "send_mail@1.1.0" in listed and "Send a mail[31m with a subject." in listed and "\x1b" not in listed
    assert "\x1b" not in app.run("tools", "info", "send_mail").out + app.run("tools", "contract").out
    versions = app.run("components", "versions", "send_mail", "--json").json
    assert [(one["kind"], one["version"], one["current"], one["state"]) for one in versions] == [
        ("tool", "1.0.0", False, "active"),
        ("tool", "1.1.0", True, "active"),
    ]
    lines = app.run("tools", "versions", "send_mail").out.splitlines()
    assert [line.split()[:2] for line in lines] == [["1.0.0", "active"], ["*", "1.1.0"], ["minor:", "2"]]
    assert lines[1].endswith("from send_mail@1.0.0") and lines[2].split()[0] == "minor:"

    diff = app.run("tools", "diff", "send_mail", "1.0.0")
    assert diff.out.splitlines()[0] == "tool send_mail: 1.0.0 -> 1.1.0, minor"
    assert re.search("^  .*subject", diff.out, re.MULTILINE)
    assert '+async def send_mail(to: str, body: str, subject: str = "") -> str:' in diff.out.splitlines()
    as_json = app.run("tools", "diff", "send_mail", "1.1.0", "1.0.0", "--json").json
    assert (as_json["kind"], as_json["level"], as_json["after"]) == ("tool", "major", "1.0.0")
    assert app.run("tools", "info", "send_mail@1.0.0", "--json").json["version"] == "1.0.0"

    back = app.run("tools", "restore", "send_mail@1.0.0", "--reason", "the old one was right")
    assert back.out == "tool send_mail@1.0.0 is what its name means now, in place of 1.1.0\n"
    # The edited code is at hand all the same; the choice of the user stays.
    assert app.run("tools", "info", "send_mail", "--json").json["version"] == "1.0.0"
    forward = app.run("tools", "restore", "send_mail@1.1.0", "--json").json
    assert (forward["name"], forward["version"]) == ("send_mail", "1.1.0")

    edited(app, OTHER)
    assert "send_mail@2.0.0" in app.run("tools", "list").out or "send_mail@1.1.0" in app.run("tools", "list").out
    old = app.run("components", "deprecate", "send_mail@1.0.0", "--reason", "use 1.1.0")
    assert old.out == "tool send_mail@1.0.0 is deprecated\n"
    first = app.run("tools", "versions", "send_mail").out.splitlines()[0]
    assert first.split()[:2] == ["1.0.0", "deprecated"] and first.endswith("use 1.1.0")
    again = app.run("components", "deprecate", "send_mail@1.0.0", "--json")
    assert again.code == 2
    assert again.json["error_type"] == "LifecycleError"
    assert "tool send_mail@1.0.0 is deprecated and cannot become deprecated" in again.error


async def _candidates(folder: Path) -> None:
    async with Workspace(folder) as workspace:
        for words in ("Keep a list.", "Keep another list."):
            await workspace.tcp.setvars("todo", {"description": words}, candidate=True, author="ann", reason="short")


@pytest.mark.long
def test_candidates_are_shown_named_by_a_run_and_taken_into_use(app: Folder) -> None:
    asyncio.run(_candidates(app.workspace))
    assert "candidate 1.0.1: by ann, short, from todo@1.0.0" in app.run("tools", "info", "todo").err
    assert [line.split()[:3] for line in app.run("tools", "versions", "todo").out.splitlines()][:2] == [
        ["*", "1.0.0", "active"],
        ["1.0.1", "candidate", ANY],
    ]
    assert "+Keep a list.\n" in app.run("tools", "diff", "todo", "1.0.0", "1.0.1").out

    named = app.run("run", "PLAN escape", "--component", "tool:todo@1.0.1", "--json")
    assert (named.code, named.err) == (0, "")
    run = named.json["run_id"]
    other = ["--set", "component:tool:todo=1.0.0"]
    fork = app.run("fork", run, "--at", "2", *other, "--no-resume", "--json").json["run_id"]
    shown = app.run("show", fork).out
    assert "components: tool:todo@1.0.0\n" in shown and "(changed: component:tool:todo 1.0.0)" in shown
    wrong = app.run("run", "x", "--component", "todo")
    assert (wrong.code, "'todo' is not of the form KIND:NAME@VERSION" in wrong.err) == (2, True)

    taken = app.run("tools", "activate", "todo@1.0.1", "--reason", "it is clear")
    assert taken.out == "tool todo@1.0.1 is what its name means now\n"
    assert app.run("tools", "archive", "todo@1.0.2").out == "tool todo@1.0.2 is archived\n"
    over = app.run("run", "x", "--component", "tool:todo@1.0.2")
    assert (over.code, "the tool todo@1.0.2 is archived" in over.err) == (2, True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["archive", "send_mail"], "'send_mail' names no version; write send_mail@1.0.1"),
        (["info", "send_mails"], "there is no component 'send_mails'; did you mean 'send_mail'?"),
        (["info", "SEND_MAIL"], "there is no component 'SEND_MAIL'; did you mean 'send_mail'?"),
        (["versions", "send_mial"], "there is no component 'send_mial'; did you mean 'send_mail'?"),
        (["diff", "send_mail", "1.0.1"], "tool 'send_mail' has no version '1.0.1'; its versions: 1.0.0"),
        (["info", "send_mail@9.9.9"], "tool 'send_mail' has no version '9.9.9'; its versions: 1.0.0"),
        (["restore", "send_mail@9.9.9"], "tool 'send_mail' has no version '9.9.9'; its versions: 1.0.0"),
        (["restore", "nothing"], "there is no component 'nothing'; `agentorchestra components list` shows all"),
        (["deprecate", "send_mail", "--kind", "agent"], "there is no agent 'send_mail'; `agentorchestra agents list`"),
        (["info", "@1.0.0"], "Invalid value for 'NAME[@VERSION]': the name is empty"),
        (["info", "send_mail@"], "there is no version behind the @ of 'send_mail@'"),
        (["info", "../../etc/passwd"], "there is no component '../../etc/passwd'; "),
        (["info", "x" * 10_000], "there is no component 'xxxx"),
        (["list", "--kind", "thing"], "'thing' is not one of 'tool', 'environment', 'agent', 'prompt', 'memory'"),
        (["search", "x", "--limit", "0"], "0 is not in the range x>=1"),
    ],
)
def test_bad_input(app: Folder, words: list[str], sentence: str) -> None:
    done = app.run("components", *words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.error
    assert len(done.err) < 1000 and "Traceback" not in done.err


def test_a_name_of_several_kinds(app: Folder) -> None:
    both = app.run("components", "info", "reporter", "--json").json
    assert [one["kind"] for one in both] == ["agent", "prompt"]
    several = app.run("components", "versions", "reporter")
    assert several.code == 2
    assert several.error == "there is more than one component 'reporter' (agent and prompt); say which with --kind"
    assert "came with agentorchestra " in app.run("prompts", "versions", "reporter").out


async def _unregister(folder: Path, name: str) -> None:
    async with Workspace(folder) as workspace:
        await workspace.tcp.unregister(name, reason="not wanted")


def test_a_name_that_was_unregistered_comes_back(folder: Folder) -> None:
    asyncio.run(_unregister(folder.workspace, "read_file"))
    assert "read_file" not in folder.run("tools", "list").out
    gone = folder.run("tools", "info", "read_file")
    assert gone.code == 2 and gone.error.startswith("there is no tool 'read_file'; ")
    versions = folder.run("components", "versions", "read_file")
    assert versions.out.startswith("  1.0.0")
    assert (
        "tool read_file is not registered any more; `agentorchestra components restore` brings it back" in versions.err
    )
    assert folder.run("tools", "info", "read_file@1.0.0").code == 0
    assert folder.run("components", "restore", "read_file").out.endswith("is what its name means now\n")
    assert "read_file@1.0.0" in folder.run("tools", "list").out
