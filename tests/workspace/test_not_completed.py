"""A run without an answer cannot be mistaken for one whose answer is empty."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ModelAuthError, RunNotCompleted
from agentorchestra.core.spec import Question, RunResult, RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace


@tool(effect="composite")
async def consult(ctx: Any) -> str:
    """Ask the user."""
    return str(await ctx.ask("Which colour?"))


async def test_a_run_that_waits_says_so_until_it_has_its_answer(tmp_path: Path) -> None:
    model = ScriptedModel([call("consult"), call("done", answer="blue it is", output={"colour": "blue"})])
    options: dict[str, Any] = {"output_type": dict[str, str], "model": model}
    async with Workspace(tmp_path / "ws", tools=[consult]) as ws:
        waiting = await ws.run("Ask.", system="react", **options)
        assert waiting.status is RunStatus.WAITING and (waiting.answer_text, waiting.output_value) == ("", None)
        for read in (lambda: waiting.answer, lambda: waiting.output):
            with pytest.raises(RunNotCompleted) as refused:
                read()
        said = str(refused.value)
        assert "is waiting and gives no answer: it waits for an answer: Which colour?" in said, said
        assert f'ws.answer("{waiting.run_id}", "...")' in said and "ws.resume(" in said, said
        assert (refused.value.status, refused.value.run_id) == ("waiting", waiting.run_id)
        assert str(waiting) == said
        await ws.answer(waiting.run_id, "blue")
        over = await ws.resume(waiting.run_id, **options)
        assert (over.answer, over.output) == ("blue it is", {"colour": "blue"})
        assert str(over) == f"blue it is\n[completed, {over.run_id}]"


def test_a_failed_run_raises_without_async_too(tmp_path: Path) -> None:
    def broken(request: Any) -> Any:
        raise ModelAuthError("the key is refused")

    result = Workspace(tmp_path / "ws").run_sync("x", system="react", model=ScriptedModel(broken))
    assert result.status is RunStatus.FAILED and "the key is refused" in str(result)
    with pytest.raises(
        RunNotCompleted, match=r"is failed and gives no answer: .*the key is refused; `await ws\.resume"
    ):
        _ = result.answer


@pytest.mark.parametrize("status", RunStatus)
def test_what_a_status_gives(status: RunStatus) -> None:
    """An end with something to say is an answer; a text of a run that goes on, or failed, is none."""
    ended = {RunStatus.COMPLETED, RunStatus.PARTIAL, RunStatus.BLOCKED, RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT}
    spoken = RunResult[Any](status=status, answer_text="half", output_value="half", run_id="run_1")
    silent = RunResult[Any](status=status, run_id="run_1")
    assert spoken.has_answer is (status in ended) and silent.has_answer is (status is RunStatus.COMPLETED)
    if status in ended:
        assert spoken.answer == spoken.output == "half" and status.value in str(spoken)
    else:
        with pytest.raises(RunNotCompleted, match=r"`result\.answer_text` has what it wrote so far"):
            _ = spoken.answer
    if status is not RunStatus.COMPLETED:
        with pytest.raises(RunNotCompleted, match=f"run run_1 is {status.value}"):
            _ = silent.output


def test_what_to_do_next_is_named() -> None:
    asked = Question(key="/#1", question="Pay Bob?", kind="approval")
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"status": "waiting", "questions": (asked,)},
            'approval: Pay Bob?; `ws.approve("run_1")` or `ws.deny("run_1")`',
        ),
        ({"status": "waiting", "until": datetime(2027, 1, 31, 8, tzinfo=UTC)}, "waits until 2027-01-31T08:00:00+00:00"),
        ({"status": "budget_exhausted", "error": "1 US dollar is spent"}, 'spent; `await ws.resume("run_1", budget='),
        ({"status": "partial", "report": "nothing was found"}, 'nothing was found; `await ws.session("run_1").run('),
        ({"status": "cancelled"}, "it gave none; `await ws.resume("),
    ]
    for fields, sentence in cases:
        assert sentence in str(RunResult[Any](run_id="run_1", **fields)), fields
    words = RunResult[Any](run_id="run_1", status=RunStatus.PARTIAL, answer_text="about four")
    with pytest.raises(RunNotCompleted, match=r"not the type that was asked for; `result\.answer` has it in words"):
        _ = words.output


def test_the_json_of_a_result_has_the_keys_that_it_had() -> None:
    result = RunResult[Any](status=RunStatus.COMPLETED, answer_text="4", output_value=4, run_id="run_1")
    body = json.loads(result.model_dump_json())
    assert list(body)[:3] == ["status", "answer", "output"] and (body["answer"], body["output"]) == ("4", 4)
    assert RunResult.model_validate(body) == result
