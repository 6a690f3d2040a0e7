"""`memories entries` and `forget`: what the workspace remembers, seen and hidden."""

from __future__ import annotations

import pytest

from agentorchestra.cli.commands.components.memories import _line
from agentorchestra.core.content import Trust
from agentorchestra.tea.memory.base import Entry
from tests.cli.support import Folder


def remembering(folder: Folder) -> None:
    folder.write("a.txt", "The key of the cellar hangs in the hall.\n")
    for task in ("Where does the key of the cellar hang?", "Which key hangs in the hall?"):
        done = folder.run("run", task, "-f", "a.txt", "--memory", "workflow", "--system", "react")
        assert done.code == 0
        # What is kept for later tasks is shown, the writing down of each step is not.
        assert [line for line in done.err.splitlines() if "emor" in line or "emember" in line] == [
            line for line in done.err.splitlines() if line.startswith(f"  remembers: Task: {task}")
        ]
        assert done.err.count("  remembers: ") == 1


def test_nothing_is_remembered_yet(folder: Folder) -> None:
    found = folder.run("memories", "entries")
    assert (found.code, found.out) == (0, "") and "runs remember with --memory" in found.err
    assert folder.run("memories", "entries", "--json").json == []


def test_what_is_not_told_any_more_says_why() -> None:
    held = Entry(id="mem_1", kind="insight", text="It is in the east.", agent="react", task="run_1", trust=Trust.AGENT)
    once = held.model_copy(update={"misled": 1, "why": "The east was empty."})
    assert _line(once) == (
        "run_1:mem_1  insight  react  agent  It is in the east. [misled 1: The east was empty.; not told any more]"
    )
    assert _line(once.model_copy(update={"times": 2})).endswith(
        "2x  It is in the east. [misled 1: The east was empty.]"
    )
    doubt = held.model_copy(update={"id": "mem_2", "text": "The east was empty.", "against": (held.ref,)})
    assert _line(doubt) == "run_1:mem_2  insight  react  agent  against run_1:mem_1: The east was empty."


@pytest.mark.long
def test_what_is_remembered_is_listed_and_forgotten(folder: Folder) -> None:
    remembering(folder)
    listed = folder.run("memories", "entries", "--json").json
    assert [one["kind"] for one in listed] == ["summary", "summary"]
    assert "Which key" in listed[0]["text"] and "key of the cellar" in listed[1]["text"]
    assert listed[0]["trust"] == "untrusted" and listed[0]["name"].startswith("run_")
    lines = folder.run("memories", "entries", "--search", "cellar", "--limit", "1").out.splitlines()
    assert len(lines) == 1 and lines[0].startswith(listed[1]["name"] + "  summary  react  untrusted  Task: Where")
    events = folder.run("memories", "entries", "--kind", "event", "--json").json
    assert {one["kind"] for one in events} == {"event"} and len(events) >= 4
    # By its name, or by the end of it that only one run has.
    gone = folder.run("memories", "forget", listed[0]["name"].partition(":")[2])
    assert gone.out == "1 entry is forgotten\n"
    assert [one["name"] for one in folder.run("memories", "entries", "--json").json] == [listed[1]["name"]]
    assert folder.run("memories", "entries", "--agent", "nobody").out == ""
    assert folder.run("memories", "forget", "--all", "--agent", "nobody").out == "0 entries are forgotten\n"
    assert folder.run("memories", "forget", "--all", "--json").json == [listed[1]["name"]]
    assert folder.run("memories", "entries", "--json").json == []
    # The log has them still: forgetting is one more event, and the run can be replayed.
    assert folder.run("replay", "last").code == 0
    assert "forgotten" in folder.run("log", "--type", "forgotten").out
    assert "entries of the memory that are forgotten: 1" in folder.run("show", "last").out


def test_what_cannot_be_forgotten(folder: Folder) -> None:
    for words, said in (
        ((), "say what is to be forgotten: names of `agentorchestra memories entries`, or --all"),
        (("mem_x", "--all"), "say what is to be forgotten"),
        (("mem_x", "--kind", "event"), "--kind and --agent belong to --all"),
        (("mem_x",), "'mem_x' is no entry of the memory; `agentorchestra memories entries` lists them"),
    ):
        result = folder.run("memories", "forget", *words)
        assert result.code == 2 and said in " ".join(result.err.split())
