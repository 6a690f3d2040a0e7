"""Edge cases of a society, found by a model that reads its messages: what it is shown, and what is taken from it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.society.reader import NAME, TASK, edge_cases, options_for
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.conversation import AgentExchange, Conversation
from agentorchestra.testing import ScriptedModel, say
from agentorchestra.workspace import Workspace
from tests.cli.support import Folder
from tests.cli.test_sequence import TALK

TASK_OF_RUN = "List the winners with their birth dates."
CLAIM = "Done: all 45 winners. The birth dates of three are unknown."
DEMAND = "A winner without a birth date does not count. Find the three that are missing."

APP = f'''
import re

from agentorchestra import Workspace
from agentorchestra.testing import ScriptedModel, call, decide, say

CLAIM, DEMAND = {CLAIM!r}, {DEMAND!r}


def model(request):
    """The orchestrator asks twice; the web agent claims success; the reader finds both by their words."""
    said = [message.text for message in request.messages]
    if not request.tools:
        numbers = [re.search(r"\\[(\\d+)\\] message[^\\[]*" + re.escape(one[:30]), said[-1]) for one in (CLAIM, DEMAND)]
        messages = ", ".join(found[1] for found in numbers)
        case = '{{"why": "Dates were missing.", "case": "criterion_tightened", "messages": [%s]}}' % messages
        return say('{{"cases": [%s]}}' % case)
    if not any(tool.name == "submit_answer" for tool in request.tools):
        return say(CLAIM if DEMAND not in said[-1] else "Here are the three: 1970, 1981, 1990.")
    back = len([one for one in request.messages if one.role == "tool"])
    send = {{"thread": "work", "mentions": ["web_agent"]}}
    return decide(calls=[
        [call("create_thread", thread="work", participants=["web_agent"])],
        [call("send_message", content="List the winners with their birth dates, all of them.", **send)],
        [call("wait_for_mention")],
        [call("send_message", content=DEMAND, **send)],
        [call("wait_for_mention")],
        [call("submit_answer", answer="45 winners")],
    ][back])


def workspace():
    return Workspace(models={{"scripted": ScriptedModel(model)}})
'''


def test_a_model_finds_edge_cases_in_a_run_of_their_own(folder: Folder) -> None:
    folder.write("app.py", APP)
    folder.write("agentorchestra.toml", 'app = "app:workspace"\nmodel = "scripted"\n')
    assert folder.run("run", TASK_OF_RUN, "--system", "coral").code == 0
    plain = folder.run("show", "last", "--patterns")
    assert "direct dispatch: message 2\n  2  " in plain.out
    assert "instruction refinement: messages 2, 3, 4\n" in plain.out and "agent substitution: none" in plain.out
    assert "edge cases not looked for: a model finds them; name one with --model" in plain.out
    run = json.loads(folder.run("show", "last", "--json").out)["run"]["id"]
    found = folder.run("show", run, "--patterns", "--model", "scripted")
    assert found.code == 0, found.err
    assert CLAIM in found.out and DEMAND in found.out
    assert "criterion tightened: messages 3, 4\n  Dates were missing.\n" in found.out
    assert "assumption audited: none" in found.out and "misaligned instruction corrected: none" in found.out
    assert "edge_cases" in folder.run("runs").out
    as_json = json.loads(folder.run("show", run, "--patterns", "--model", "scripted", "--json").out)
    (case,) = as_json["edge_cases"]
    assert (case["case"], case["messages"], as_json["edge_cases_missing"]) == ("criterion_tightened", [3, 4], None)
    assert json.loads(folder.run("show", run, "--patterns", "--json").out)["edge_cases"] is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--patterns", "--html"), "--html and --patterns exclude each other"),
        (("--model", "offline"), "--model is for --patterns"),
    ],
)
def test_options_that_exclude_each_other_are_refused(folder: Folder, words: tuple[str, ...], sentence: str) -> None:
    refused = folder.run("show", "last", *words)
    assert refused.code == 2 and sentence in refused.err


def test_a_run_whose_agents_do_not_write_to_each_other_has_no_patterns(app: Folder) -> None:
    assert app.run("run", "PLAN escape").code == 0
    refused = app.run("show", "last", "--patterns")
    assert refused.code == 2 and "(react) do not write to each other" in refused.err and "a run of coral" in refused.err


async def _read(folder: Path, replies: list[str], talk: Conversation = TALK) -> tuple[RunResult, list[ModelRequest]]:
    """The run of a reader whose model gives these replies, and what it was asked."""
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> ModelResponse:
        asked.append(request)
        return say(replies[len(asked) - 1])

    async with Workspace(folder, models={"scripted": ScriptedModel(model)}) as ws:
        options: dict[str, Any] = {"options": options_for(talk)}
        result = await ws.run(TASK.format(run="run_1"), system=NAME, model="scripted", **options)
        replayed = await ws.replay(result.run_id)
        assert (replayed.status, replayed.answer) == (result.status, result.answer_text)
    return result, asked


def _reply(*messages: int) -> str:
    return json.dumps({"cases": [{"why": "It was late.", "case": "assumption_audited", "messages": [*messages]}]})


def test_the_model_is_shown_the_task_the_agents_and_each_message(tmp_path: Path) -> None:
    result, (request,) = asyncio.run(_read(tmp_path, [_reply(5, 3)]))
    assert result.status is RunStatus.COMPLETED
    assert [(one.case, one.messages) for one in edge_cases(result.output)] == [("assumption_audited", (3, 5))]
    shown = request.messages[-1].text
    assert re.findall(r"\[(\d+)\] (\w+) of (\w+)", shown) == [
        (str(one.n), one.kind, one.sender) for one in TALK.exchanges
    ]
    assert "How many?" in shown and "- web_agent: Works." in shown
    assert "(refused: it takes no part)" in shown
    schema = request.settings.output_schema
    assert schema is not None and schema["required"] == ["cases"]
    trust = {block.trust.value for block in request.messages[-1].content}
    assert trust == {"system", "untrusted"}


_OTHER = '{"cases": [{"case": "other", "messages": [1, 2]}]}'


@pytest.mark.sampled(4)
@pytest.mark.parametrize("wrong", [_reply(3, 9), _reply(0, 3), _reply(3), _OTHER])
def test_numbers_of_messages_that_do_not_exist_are_refused(tmp_path: Path, wrong: str) -> None:
    result, (_, second) = asyncio.run(_read(tmp_path, [wrong, _reply(2, 3)]))
    assert [one.messages for one in edge_cases(result.output)] == [(2, 3)]
    assert "Your last reply was of no use" in second.messages[-1].text


def test_a_model_that_names_no_messages_twice_is_asked_no_more(tmp_path: Path) -> None:
    result, _ = asyncio.run(_read(tmp_path, [_reply(3, 9), _reply(3, 3)]))
    assert result.status is RunStatus.FAILED and edge_cases(result.output_value) == []
    assert "no cases that name messages of this conversation, asked twice" in (result.report or result.error or "")


def test_long_messages_are_shown_by_their_beginnings(tmp_path: Path) -> None:
    long = AgentExchange(n=1, seconds=0.0, kind="message", sender="coral", to=("planner",), content="x" * 300_000)
    talk = TALK.model_copy(update={"exchanges": (long, long.model_copy(update={"n": 2}))})
    _, (request,) = asyncio.run(_read(tmp_path, [_reply(1, 2)], talk))
    shown = request.messages[-1].text
    assert shown.count("x" * 100_000) == 2 and len(shown) < 205_000
    assert shown.count("(The rest is left out.)") == 2


async def test_a_reader_without_a_conversation_is_refused(tmp_path: Path) -> None:
    async with Workspace(tmp_path, models={"scripted": ScriptedModel(lambda _: say(""))}) as ws:
        with pytest.raises(SettingsError, match="edge_cases reads the option `conversation`, which is none"):
            await ws.run("Read it.", system=NAME, model="scripted")
