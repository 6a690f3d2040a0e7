"""The packaged tools in whole runs: a workspace, a scripted model, and what is left afterwards."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.dataclasses import dataclass

from agentorchestra.core.effects import Mode
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.tools.registry import builtin_tools
from agentorchestra.workspace import Workspace
from tests.support.interpreters import ended, interpreters


class Grade(enum.Enum):
    GOOD = "good"
    POOR = "poor"


class Line(BaseModel):
    text: str
    grade: Grade = Grade.GOOD


class Report(BaseModel):
    day: date
    lines: list[Line]
    next: Report | None = None


@dataclass
class Pair:
    left: int
    right: int


RIGHT: dict[str, Any] = {
    "day": "2024-02-29",
    "lines": [{"text": "a", "grade": "poor"}],
    "next": {"day": "2024-03-01", "lines": []},
}


def workspace(folder: Path, model: ScriptedModel) -> Workspace[Any]:
    return Workspace(folder / "ws", store=MemoryStore(), models={model.name: model}, environ={})


async def run(folder: Path, steps: Any, **options: Any) -> RunResult:
    model = ScriptedModel(steps)
    async with workspace(folder, model) as ws:
        return await ws.run("a task", model=model, **options, system="react")


def told(sentence: str, answer: Any) -> Callable[[ModelRequest], ModelResponse]:
    """An answer that is given once the model was told this."""

    def reply(request: ModelRequest) -> ModelResponse:
        shown = request.messages[-2]
        assert sentence in shown.text, shown.text
        assert shown.is_error
        return decide(calls=[answer])

    return reply


def finish(**arguments: Any) -> ModelResponse:
    return decide(calls=[call("done", **arguments)])


async def test_an_output_is_an_instance_after_wrong_ones_were_corrected(tmp_path: Path) -> None:
    steps = [
        finish(answer="no output"),
        told("output", call("done", output={"day": "2024-02-29"})),
        told("'lines' is a required property", call("done", output={**RIGHT, "lines": [{"text": "a", "grade": "?"}]})),
        told("'?' is not one of ['good', 'poor']", call("done", output=RIGHT)),
    ]
    result = await run(tmp_path, steps, output_type=Report)
    assert result.status is RunStatus.COMPLETED
    assert result.output == Report(
        day=date(2024, 2, 29), lines=[Line(text="a", grade=Grade.POOR)], next=Report(day=date(2024, 3, 1), lines=[])
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Pair, {"left": 1, "right": 2}, Pair(1, 2)),
        (list[int], [1, 2], [1, 2]),
        (int, 0, 0),
        (bool, False, False),
        (dict[str, Line], {"x": {"text": "t"}}, {"x": Line(text="t")}),
        (Grade, "poor", Grade.POOR),
    ],
)
async def test_outputs_of_other_types(kind: Any, given: Any, value: Any, tmp_path: Path) -> None:
    result = await run(tmp_path, [finish(output=given)], output_type=kind)
    assert result.output == value


async def test_without_a_type_the_output_is_the_answer(tmp_path: Path) -> None:
    result = await run(tmp_path, [finish(answer="  42 ")])
    assert (result.answer, result.output) == ("42", "42")


async def test_an_empty_answer_is_refused_and_a_reason_accepted(tmp_path: Path) -> None:
    steps = [finish(answer=" "), told("give the best answer you have", call("done", answer="none", status="blocked"))]
    result = await run(tmp_path, steps)
    assert (result.answer, result.status) == ("none", RunStatus.BLOCKED)


async def test_a_computation_is_replayed_and_its_interpreter_ends_with_the_workspace(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        return finish(answer=request.messages[-2].text)

    model = ScriptedModel([decide(calls=[call("python", code="import random\nprint(6 * 7)\nrandom.random()")]), answer])
    async with workspace(tmp_path, model) as ws:
        result = await ws.run("a task", model=model, system="react")
        assert result.answer.startswith("42\n0.")
        pids = interpreters()
        assert pids
        report = await ws.replay(result.run_id)
        assert report.answer == result.answer_text
    await ended(pids)


async def test_the_tools_every_workspace_has(tmp_path: Path) -> None:
    before = interpreters()
    found = builtin_tools(tmp_path)
    programs = ["bash", "python"]
    names = ["check_quotes", "describe_files", "files_in_view", "read_artifact", "read_file", "search_files", "todo"]
    composites = [*programs, "ask_media", "wait_until"]
    network = ["fetch"]
    assert sorted(found.tools) == sorted(names + composites + network)
    for name, one in found.tools.items():
        repeatable = Mode.REPEATABLE if name in network else Mode.PURE
        assert one.mode is (Mode.COMPOSITE if name in composites else repeatable)
        assert one.name == name and one.description
        for argument, schema in one.schema.parameters["properties"].items():
            assert schema.get("description"), f"{name}.{argument}"
    assert interpreters() == before  # nothing starts before it is used
    assert builtin_tools(tmp_path).tools["python"].content_hash == found.tools["python"].content_hash
    await found.aclose()
