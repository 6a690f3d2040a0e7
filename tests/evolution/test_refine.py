"""`refine`: an answer is criticised and written anew inside its run, by a model that reckons what it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, PartSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.evolution.optimising import under
from tests.systems.support import seen

TASK = "What is 17 + 26, and what is 8 + 5?"
_SUM = re.compile(r"(\d+) \+ (\d+) = (\d+)")
_REPLACE = re.compile(r"(\d+ \+ \d+) = \d+ should be (\d+)")


def wrong_sums(text: str) -> list[str]:
    """Reckon every sum of a text; return those that are wrong, with what is right."""
    return [
        f"{a} + {b} = {c} should be {int(a) + int(b)}" for a, b, c in _SUM.findall(text) if int(a) + int(b) != int(c)
    ]


class Reckoner:
    """A model that answers hastily, and reckons when it is asked to look at an answer.

    Attributes:
        asked: which form each request wanted.
        mends: the wrong sums that it mends in one go.
    """

    def __init__(self, *, mends: int = 9, hasty: str = "17 + 26 = 53 and 8 + 5 = 12") -> None:
        self.asked: list[str] = []
        self.requests: list[ModelRequest] = []
        self._mends, self._hasty = mends, hasty

    def __call__(self, request: ModelRequest) -> ModelResponse:
        """Reply."""
        self.requests.append(request)
        form = (request.settings.output_schema or {}).get("properties", {})
        answer = under(request, "The answer:")
        if "problems" in form:
            self.asked.append("loss")
            return _json({"problems": wrong_sums(answer)})
        if "failures" in form:
            self.asked.append("reflection")
            return _json({"failures": wrong_sums(answer), "missing": [], "assumptions": [], "unsafe": []})
        if "feedback" in form:
            self.asked.append("gradient")
            return _json({"feedback": "; ".join(_joined(under(request, "The problems:")))})
        if "answer" in form:
            self.asked.append("step")
            for old, right in _REPLACE.findall(under(request, "What is to be bettered:"))[: self._mends]:
                answer = re.sub(re.escape(old) + r" = \d+", f"{old} = {right}", answer)
            reply: dict[str, Any] = {"answer": answer}
            if "output" in form:
                reply["output"] = {"sum": int(_SUM.findall(answer)[0][2])}
            return _json(reply)
        if request.tools:
            self.asked.append("decision")
            done: dict[str, Any] = (
                {"output": {"sum": 53}} if "output" in json.dumps(request.tools[-1].parameters) else {}
            )
            return decide(calls=[call("done", answer=self._hasty, **done)])
        self.asked.append("other")
        return ModelResponse(text=self._hasty)


def _joined(text: str) -> list[str]:
    return [f"{old} = 0 should be {right}" for old, right in _REPLACE.findall(text)]


def _json(value: Any) -> ModelResponse:
    return ModelResponse(text=json.dumps(value))


def _workspace(folder: Path, reply: Callable[[ModelRequest], ModelResponse], **more: Any) -> Workspace[Any]:
    model = ScriptedModel(reply, name="reckoner")
    return Workspace(folder / "ws", models={"reckoner": model}, settings=Settings(model="reckoner", **more))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("system", ["direct", "react", "oagents"])
@pytest.mark.parametrize(
    ("how", "asked"),
    [("textgrad", ["loss", "gradient", "step", "loss"]), ("reflect", ["reflection", "step", "reflection"])],
)
async def test_an_answer_is_criticised_and_written_anew(
    tmp_path: Path, system: str, how: Any, asked: list[str]
) -> None:
    reckoner = Reckoner()
    async with _workspace(tmp_path, reckoner) as ws:
        result = await ws.run(TASK, system=system, parts=PartSettings(refine=how))
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "17 + 26 = 43 and 8 + 5 = 13")
        assert (await ws.replay(result.run_id)).answer == result.answer
    assert [one for one in reckoner.asked if one not in ("decision", "other")] == asked


@pytest.mark.parametrize(("rounds", "answer"), [(1, "17 + 26 = 43 and 8 + 5 = 12"), (2, "17 + 26 = 43 and 8 + 5 = 13")])
async def test_there_are_at_most_so_many_rounds(tmp_path: Path, rounds: int, answer: str) -> None:
    reckoner = Reckoner(mends=1)
    async with _workspace(tmp_path, reckoner, parts=PartSettings(refine="reflect", rounds=rounds)) as ws:
        assert (await ws.run(TASK, system="direct")).answer == answer
    assert reckoner.asked.count("step") == rounds


async def test_an_answer_without_fault_costs_one_critique(tmp_path: Path) -> None:
    reckoner = Reckoner(hasty="17 + 26 = 43 and 8 + 5 = 13")
    async with _workspace(tmp_path, reckoner) as ws:
        await ws.run(TASK, system="direct", parts=PartSettings(refine="textgrad"))
    assert reckoner.asked == ["other", "loss"]


async def test_by_itself_nothing_is_refined(tmp_path: Path) -> None:
    reckoner = Reckoner()
    async with _workspace(tmp_path, reckoner) as ws:
        assert (await ws.run(TASK, system="direct")).answer == "17 + 26 = 53 and 8 + 5 = 12"
        with_setting = PartSettings(refine="none")
        assert (await ws.run(TASK, system="direct", parts=with_setting)).answer == "17 + 26 = 53 and 8 + 5 = 12"
    assert reckoner.asked == ["other", "other"]


class Sum(BaseModel):
    """The first sum."""

    sum: int


async def test_an_answer_of_a_type_keeps_its_type(tmp_path: Path) -> None:
    async with _workspace(tmp_path, Reckoner()) as ws:
        result = await ws.run(TASK, system="react", output_type=Sum, parts=PartSettings(refine="reflect"))
    assert result.output == Sum(sum=43)


async def test_without_a_reply_of_use_the_answer_stays(tmp_path: Path) -> None:
    async with _workspace(tmp_path, lambda request: ModelResponse(text="17 + 26 = 53")) as ws:
        result = await ws.run(TASK, system="direct", parts=PartSettings(refine="textgrad"))
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "17 + 26 = 53")


async def test_the_budget_holds(tmp_path: Path) -> None:
    """Room for an answer and a critique, and not for what would follow: the answer stays as it is."""
    reckoner = Reckoner()
    model = ScriptedModel(reckoner, name="short", profile=ModelProfile(model="short", max_tokens=400))
    async with Workspace(tmp_path / "ws", models={"short": model}, settings=Settings(model="short")) as ws:
        parts = PartSettings(refine="textgrad")
        result = await ws.run(TASK, system="direct", parts=parts, budget=Budget(tokens=1_300))
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "17 + 26 = 53 and 8 + 5 = 12")
        assert result.usage.tokens <= 1_300
        assert (await ws.replay(result.run_id)).answer == result.answer
    assert reckoner.asked[:2] == ["other", "loss"] and "step" not in reckoner.asked


async def test_what_tools_gave_is_shown_to_whoever_criticises(tmp_path: Path) -> None:
    from agentorchestra import tool

    @tool(effect="pure")
    def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    def reply(request: ModelRequest) -> ModelResponse:
        if request.tools and "43" not in seen(request):
            return decide(calls=[call("add", first=17, second=26)])
        return reckoner(request)

    reckoner = Reckoner()
    model = ScriptedModel(reply, name="reckoner")
    async with Workspace(
        tmp_path / "ws", models={"reckoner": model}, settings=Settings(model="reckoner"), tools=[add]
    ) as ws:
        await ws.run(TASK, system="react", parts=PartSettings(refine="textgrad", rounds=1))
    loss = next(one for one in reckoner.requests if "problems" in json.dumps(one.settings.output_schema))
    assert 'called add: {"first":17,"second":26}\nIt gave: 43' in seen(loss)


async def test_a_wrong_choice_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    wrong: Any = {"refine": "again"}
    reckoner = Reckoner()
    async with _workspace(tmp_path, reckoner) as ws:
        with pytest.raises(SettingsError, match=r"parts.rounds = 2, and nothing is refined; set parts.refine to"):
            await ws.run(TASK, parts=PartSettings(rounds=2))
        with pytest.raises(SettingsError, match=r"parts.refine = 'again' does not fit: "):
            await ws.run(TASK, parts=wrong)
        with pytest.raises(SettingsError, match=r"parts.width = 3 follows several courses, and there is one candidate"):
            await ws.run(TASK, parts=PartSettings.model_construct(width=3))
        assert await ws.runs.list() == []
    assert reckoner.asked == []


async def test_the_requests_are_foreseen(tmp_path: Path) -> None:
    async with _workspace(tmp_path, Reckoner()) as ws:
        plain = await ws.runs.foresee(TASK, system="react")
        refined = await ws.runs.foresee(TASK, system="react", parts=PartSettings(refine="textgrad", rounds=2))
    assert refined.requests_at_most - plain.requests_at_most == 2 * 3 * 2  # each is asked twice at most
