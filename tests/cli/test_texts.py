"""`components show`, `history`, coloured `diff`, `prompts edit`: the texts of components, and another one in use."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from agentorchestra.cli.output import coloured
from tests.cli.support import Folder

OTTERS = "Be kind to otters."
ADDED = f"sed -i 's/^You .*/{OTTERS}/'"


def asked_of_otters(folder: Folder) -> bool:
    """Whether the model of a new run was told of otters."""
    assert folder.run("run", "PLAN escape").code == 0
    return OTTERS in folder.run("show", "last", "--json").out


def test_an_edited_prompt_is_used_from_the_next_run_on_and_can_be_taken_back(app: Folder) -> None:
    first = app.run("prompts", "info", "react", "--json").json["version"]
    before = app.run("prompts", "show", "react").out
    assert before.startswith("---\nname: react\n")
    app.environment["EDITOR"] = ADDED
    edited = app.run("prompts", "edit", "react", "--reason", "otters")
    assert edited.code == 0, edited.err
    second = app.run("prompts", "info", "react", "--json").json["version"]
    assert edited.out == f"prompt react@{second} is what its name means from the next run on\n"
    assert edited.err == f"to go back: agentorchestra prompts restore react@{first}\n"
    assert asked_of_otters(app)
    assert OTTERS in app.run("components", "show", "react", "--kind", "prompt").out
    assert app.run("prompts", "show", f"react@{first}").out == before
    lines = app.run("prompts", "history", "react").out.splitlines()
    assert lines[0].startswith(f"  {first}  ") and lines[1].startswith(f"* {second}  ")
    assert lines[1].endswith(f"  by user, otters, from react@{first}")
    assert lines[2] == f"    patch: 1 line more and 1 less since {first}"
    assert len(lines) == 3 and app.run("prompts", "versions", "react").out.splitlines() == lines
    assert f"+{OTTERS}" in app.run("prompts", "diff", "react", first).out
    assert app.run(*edited.err.removeprefix("to go back: agentorchestra ").split()).code == 0
    assert not asked_of_otters(app)


@pytest.mark.long
def test_the_last_edit_of_a_prompt_is_taken_back_without_a_version(folder: Folder) -> None:
    def text(name: str) -> str:
        return str(folder.run("prompts", "show", name).out)

    first, including = text("available_tools"), text("planner")
    folder.write("edited.md", f"{first}{OTTERS}\n")
    assert folder.run("prompts", "edit", "available_tools", "--from", "edited.md").code == 0
    assert OTTERS in text("planner")
    back = folder.run("prompts", "restore", "available_tools")
    assert back.out.startswith("prompt available_tools@1.0.0 is what its name means now, in place of 1.0.1; with it ")
    assert "planner, " in back.out
    assert (text("available_tools"), text("planner")) == (first, including)
    again = folder.run("prompts", "restore", "available_tools")
    assert again.out == "prompt available_tools@1.0.0 is what its name means now, as before\n"


@pytest.mark.long
def test_what_includes_an_edited_prompt_changes_with_it(folder: Folder) -> None:
    """`planner` includes `tool_rules`, which includes `available_tools`."""
    folder.environment["EDITOR"] = "sed -i '$ s/$/\\nBe kind to otters./'"
    edited = folder.run("prompts", "edit", "available_tools", "--json").json
    assert (edited["name"], edited["changed"]) == ("available_tools", True)
    assert {"planner", "tool_rules"} <= {*edited["also"]}
    # One that was edited itself keeps its text, and is named; the others change each time.
    folder.environment["EDITOR"] = ADDED
    assert folder.run("prompts", "edit", "planner").code == 0
    folder.environment["EDITOR"] = "sed -i 's/otters/seals/'"
    again = folder.run("prompts", "edit", "available_tools")
    assert "with it changed what includes it: " in again.err and "tool_rules" in again.err
    assert "keep its former text, because they were edited themselves: planner\n" in again.err
    assert "Be kind to seals." in folder.run("prompts", "show", "react").out
    assert "seals" not in folder.run("prompts", "show", "planner").out


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("editor", "sentence"),
    [
        ("sed -i s/^name:/nome:/", "has the unknown field 'nome'"),
        ("sed -i 's/^name: .*/name: other/'", "says that its name is 'other'"),
        ("sed -i '$ s/$/{{ otters }}/'", "uses otters, which it does not declare"),
    ],
)
def test_a_text_that_is_no_prompt_is_refused_and_kept(folder: Folder, editor: str, sentence: str) -> None:
    folder.environment |= {"EDITOR": editor, "TMPDIR": str(folder.path)}
    refused = folder.run("prompts", "edit", "planner")
    assert refused.code == 2 and sentence in refused.error
    kept = Path(refused.error.partition("your text is kept in ")[2].partition(":")[0])
    assert kept.read_text(encoding="utf-8").startswith("---\n")
    kept.unlink()
    assert len(folder.run("prompts", "versions", "planner", "--json").json) == 1


@pytest.mark.long
def test_nothing_to_change_and_nothing_to_change_it_with(folder: Folder) -> None:
    text = folder.run("prompts", "show", "planner").out
    same = folder.run("prompts", "edit", "planner", "--from", folder.write("same.md", text))
    assert (same.code, same.out.partition(" is ")[2]) == (0, "as it was: the text did not change\n")
    folder.environment["EDITOR"] = "false"
    assert folder.run("prompts", "edit", "planner").error == (
        "the editor failed (false: Editing failed), nothing was changed; set EDITOR to another one"
    )
    del folder.environment["EDITOR"]
    assert "there is no terminal for an editor here" in folder.run("prompts", "edit", "planner").error
    (folder.path / "bad.md").write_bytes(b"\xff")
    assert "bad.md is not UTF-8 (byte 0)" in folder.run("prompts", "edit", "planner", "--from", "bad.md").error
    assert "none.md cannot be read" in folder.run("prompts", "edit", "planner", "--from", "none.md").error
    (folder.workspace / "prompts").mkdir()
    (folder.workspace / "prompts" / "planner.md").write_text(text, encoding="utf-8")
    assert "prompts/planner.md; change that file" in folder.run("prompts", "edit", "planner").error


def test_the_source_of_a_tool(app: Folder) -> None:
    assert "async def send_mail(to: str, body: str)" in app.run("tools", "show", "send_mail").out
    packaged = app.run("tools", "show", "read_file", "--json").json
    assert packaged["text"].startswith('@tool(effect="read")\nasync def read_file(')
    none = app.run("components", "show", "reporter", "--kind", "agent")
    assert none.code == 2 and "its prompt: `agentorchestra prompts show reporter`" in none.error


def test_a_diff_has_colours_at_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("+new\x1b[31m", Terminal()) == "\x1b[32m+new[31m\x1b[0m"
    assert (coloured("-old", io.StringIO()), coloured(" as it was", Terminal())) == ("-old", " as it was")
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("-old", Terminal()) == "-old"
