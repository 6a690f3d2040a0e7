"""Generated tools and the runs beside the one that made them: no tool comes into a run after its creation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import Question, RunStatus
from agentorchestra.sandbox.bubblewrap import Bubblewrap
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.agents.generating import RIGHT, TASK, Model, limited
from tests.agents.giving_program import ASK, model, opened
from tests.systems.planning import results


@pytest.fixture(autouse=True)
async def _sandbox() -> None:
    if problem := await Bubblewrap().problem():
        pytest.skip(problem)


async def test_a_run_begun_before_a_tool_was_registered_is_replayed_as_it_was(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        assert "roman" not in str(request.tools)
        return decide(calls=[call("done", answer="Nothing to do.")])

    def workspace() -> Workspace:
        return Workspace(tmp_path / "ws", models={"scripted": ScriptedModel(answer)}, settings=limited())

    async with workspace() as ws:
        result = await ws.run("Say that there is nothing to do.", system="agentorchestra", model="scripted")
        assert result.status is RunStatus.COMPLETED
        await ws.tcp.register(source=RIGHT, name="roman", trusted=False)
        assert "roman" in await ws.tcp.list()
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    async with workspace() as ws:
        assert (await ws.replay(result.run_id)).answer == result.answer_text


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("answer", "kept"), [(None, False), ("no", False), ("Yes", True)])
async def test_the_user_is_asked_whether_a_tool_stays(tmp_path: Path, answer: str | None, kept: bool) -> None:
    asked: list[Question] = []

    async def person(question: Question) -> str | None:
        asked.append(question)
        return answer

    making = Model()
    given: dict[str, Any] = {"models": {"scripted": making.client}, "settings": limited(keep="ask")}
    asker = person if answer is not None else None
    async with Workspace(tmp_path / "ws", asker=asker, **given) as ws:
        result = await ws.run(TASK, system="tool_generator", model="scripted")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "MCMXCIV"), result.report
        assert ("roman" in await ws.tcp.list()) is kept
        assert [one.kind for one in asked] == (["question"] if answer else [])
        if asked:
            assert "Keep the generated tool 'roman'" in asked[0].question and "def roman" in str(asked[0].details)
        assert (await ws.replay(result.run_id)).answer == result.answer_text


async def test_a_tool_that_stays_in_its_run_serves_that_run_again(tmp_path: Path) -> None:
    """Two needs in one run: the second is met by the tool of the first, which no other run gets."""

    def twice(request: ModelRequest) -> ModelResponse:
        came = results(request)
        if len(came) < 2:
            return decide(calls=[call(ASK, task=TASK if not came else TASK.replace("1994", "2024"))])
        return decide(calls=[call("done", answer=" ".join(came))])

    making = Model()
    async with opened(tmp_path / "ws", model(twice, making), settings=limited(keep="run")) as ws:
        result = await ws.run("Write 1994 and 2024 as Roman numerals.", system="react", model="scripted")
        assert "MCMXCIV" in result.answer and "MMXXIV" in result.answer, result
        assert making.asked.count("written") == 1
        assert "roman" not in await ws.tcp.list()
        assert (await ws.replay(result.run_id)).answer == result.answer_text


def test_another_word_is_refused() -> None:
    with pytest.raises(ValidationError, match="Input should be 'run', 'ask' or 'workspace'"):
        Settings.model_validate({"generator": {"keep": "always"}})
