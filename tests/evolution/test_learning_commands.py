"""`agentorchestra evolve tips`, `judge` and `frontier`, as their users meet them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.support import Folder
from tests.evaluation.support import write_set

APP = '''
"""An application whose model is a function of its prompt: it looks into the drawer that a tip names."""

import json
import re

from agentorchestra import Workspace, tool
from agentorchestra.core.settings import ModelProfile, Price
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel, call, decide, say


@tool(effect="pure")
def look(drawer: str) -> str:
    """Look into a drawer.

    Args:
        drawer: `left` or `right`.
    """
    return "the key" if drawer == "right" else "nothing"


def reply(request):
    text = "\\n".join(render_message(one) for one in request.messages)
    seen = [one.text for one in request.messages if one.role == "tool"]
    if not request.tools:
        worked = re.findall(r"\\[(\\d+\\.\\d+)\\] It called look with\\ndrawer = (\\w+)\\nand got\\nthe key", text)
        tips = [{"kind": "tip", "text": f"Look into the {one} drawer.", "evidence": [n]} for n, one in worked]
        return say(json.dumps({"tips": tips}))
    if not seen:
        return decide(calls=[call("look", drawer="right" if "Look into the right" in text else "left")])
    if seen[-1] == "nothing" and "Search everything" in text and len(seen) < 2:
        return decide(calls=[call("look", drawer="right")])
    return decide(calls=[call("done", answer=seen[-1])])


profile = ModelProfile(model="clerk", price=Price(input=1, output=1))
workspace = Workspace(tools=[look], models={"clerk": ScriptedModel(reply, name="clerk", profile=profile)})
'''


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agentorchestra.toml", 'app = "office:workspace"\nmodel = "clerk"\nsystem = "react"\n')
    made.write("office.py", APP)
    lines = [{"id": f"q{n}", "question": f"What is in desk {n}?", "answer": "the key"} for n in range(6)]
    write_set(tmp_path / "data", lines)
    return made


def test_a_tip_is_distilled_tried_and_told(folder: Folder) -> None:
    assert folder.run("run", "What is in the desk? Search everything.").out.strip().startswith("the key")
    made = folder.run("evolve", "tips", "last")
    assert made.code == 0, made.err
    (ref, said) = re.findall(r"^(run_\w+:mem_\w+)  tip  (.*?)  \[run_\w+/1\.react#\d+\]$", made.out, re.MULTILINE)[0]
    assert said == "Look into the right drawer."
    judged = folder.run("evolve", "judge", ref, "local", "--data", "data")
    assert judged.code == 0, judged.err
    assert judged.out.startswith("kept: +100.0 [") and "over 6 questions, better on 6, worse on 0" in judged.out
    assert folder.run("run", "What is in desk 9?").out.strip().startswith("nothing")
    assert folder.run("run", "What is in the desk?", "--memory", "workflow").out.strip().startswith("the key")
    for words, why in (
        (("tips",), "say what is to be read: RUN ..., or --evaluation NAME"),
        (("tips", "last", "--evaluation", "x"), "say what is to be read: RUN ..., or --evaluation NAME"),
        (("judge", "run_x:mem_y", "local", "--data", "data"), "no tip 'run_x:mem_y' is told in this workspace"),
    ):
        refused = folder.run("evolve", *words)
        assert refused.code == 2 and why in refused.err


def test_a_frontier_refuses_what_cannot_be_learnt(folder: Folder) -> None:
    begun = ("evolve", "frontier", "local", "--data", "data", "--name", "route", "--system", "react")
    for words, why in (
        (("--on", "tool:look"), "'tool:look' is no prompt; name the orchestrator's, as prompt:aorchestra"),
        (("--on", "prompt:nothing"), "'nothing'"),
        (("--variable", "prompt:aorchestra/x"), "prompt:aorchestra/x is no variable of the prompt; it has: "),
        (("--trajectories", "7"), "a sample of 7 cannot be drawn from 6 questions"),
    ):
        refused = folder.run(*begun, *words)
        assert refused.code == 2 and why in refused.err, refused.err
    assert folder.run("runs", "--json").json == []
