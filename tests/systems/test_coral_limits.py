"""CORAL where something is short, false or late: budgets, time, names, jobs that end in between (003)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, JsonValue

from agentorchestra import RunContext, tool
from agentorchestra.agents.agent import agent_effect
from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import Effect, EffectKind, Mode
from agentorchestra.core.errors import ModelAuthError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import CoralSettings, Settings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext
from agentorchestra.systems import coral
from agentorchestra.testing import call, decide, say
from agentorchestra.workspace import Workspace
from tests.support.clock import FakeClock
from tests.support.patience import growing
from tests.systems.planning import results, shown
from tests.systems.test_coral import (
    WORKERS,
    Seen,
    answers,
    asks_and_waits,
    last_decision,
    never,
    opens,
    plays,
    script,
    sent,
    society,
    waits,
    who,
    writes,
)

SUBMITS = "Your time is up: submit the best answer"


def submits_at_last(request: ModelRequest) -> ModelResponse:
    """Asks two agents and waits until only an answer is left."""
    return decide(calls=[call("submit_answer", answer="7")]) if last_decision(request) else asks_and_waits(request)


# -- budgets -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("budget", [Budget(steps=5), Budget(tokens=16_000)])
async def test_a_request_that_never_returns_does_not_keep_the_last_budget_from_the_orchestrator(
    tmp_path: Path, budget: Budget
) -> None:
    """What it may cost is held; the orchestrator queues for it until the time is up, and no longer."""

    def main(request: ModelRequest) -> ModelResponse:
        if last_decision(request):
            return decide(calls=[call("submit_answer", answer="7")])
        back = len(results(request))
        if back == 0:
            return decide(calls=[opens("coding_agent")])
        return decide(calls=[writes("How many?", "coding_agent") if back == 1 else waits(timeout_s=0.1)])

    for seconds in growing(1.2):
        model, own = script(main, **dict.fromkeys(WORKERS, never)), {"minutes": seconds / 60}
        result, _ = await society(tmp_path / f"{seconds:g}", model, own=own, budget=budget, clock=FakeClock())
        if result.status is RunStatus.BUDGET_EXHAUSTED:  # it came to wait before the time was up
            break
    assert (result.status, result.answer) == (RunStatus.BUDGET_EXHAUSTED, "7")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [1, 2, 3])
async def test_the_smallest_budget_gives_an_answer(tmp_path: Path, steps: int) -> None:
    model = script(submits_at_last, **dict.fromkeys(WORKERS, answers("There are 7.")))
    result, _ = await society(tmp_path, model, budget=Budget(steps=steps))
    assert (result.status, result.answer, result.steps) == (RunStatus.BUDGET_EXHAUSTED, "7", steps)


async def test_a_run_that_is_stopped_leaves_the_last_reply_as_its_answer(tmp_path: Path) -> None:
    silent = asyncio.Event()

    async def main(request: ModelRequest) -> ModelResponse:
        if len(results(request)) == 3:
            silent.set()
            return await never(request)
        return asks_and_waits(request)

    model = script(main, coding_agent=answers("There are 7 of them."), web_agent=never)
    async with Workspace(tmp_path, models={"scripted": model}) as ws:
        run = await ws.create("How many are there?", system="coral", model="scripted")
        driven = asyncio.create_task(ws.resume(run))
        await silent.wait()
        await ws.cancel(run)
        result = await driven
    assert (result.status, result.answer_text) == (RunStatus.CANCELLED, "There are 7 of them.")
    assert "no answer was submitted" in result.report


async def test_thanks_without_end_use_up_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coral, "LEAST_STEPS", 5)

    def main(request: ModelRequest) -> ModelResponse:
        if last_decision(request):
            return say("They are polite.")
        if not results(request):
            return decide(calls=[opens("coding_agent")])
        return decide(calls=[writes(f"Thank you {len(results(request))} times!", "coding_agent"), waits()])

    model = script(main, coding_agent=lambda request: say("Thank you!"))
    result, events = await society(tmp_path, model, max_steps=5)
    assert (result.status, result.answer, result.steps) == (RunStatus.PARTIAL, "They are polite.", 8)
    assert [one["sender"] for one in sent(events)] == ["coral", "coding_agent"] * 3


class Count(BaseModel):
    """What is asked for."""

    count: int


async def test_an_answer_of_another_form_is_refused_and_asked_for_again(tmp_path: Path) -> None:
    def main(request: ModelRequest) -> ModelResponse:
        output: dict[str, JsonValue] = {"count": 7 if results(request) else "many"}
        return decide(calls=[call("submit_answer", answer="7", output=output)])

    seen = Seen(main)
    result, _ = await society(tmp_path, script(seen), output_type=Count)
    assert (result.status, result.output) == (RunStatus.COMPLETED, Count(count=7))
    assert len(seen.requests) == 2 and "count" in seen.results[0]


# -- time --------------------------------------------------------------------------------------------------------------


async def test_without_time_the_second_decision_is_the_last(tmp_path: Path) -> None:
    main = Seen(submits_at_last)
    result, _ = await society(tmp_path, script(main), own={"minutes": 1e-9})
    assert (result.status, result.answer, len(main.requests)) == (RunStatus.COMPLETED, "7", 2)
    assert SUBMITS in shown(main.requests[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("meanwhile", [timedelta(minutes=4), timedelta(0)])
async def test_time_counts_while_the_run_is_driven_and_a_resume_after_its_end_submits(
    tmp_path: Path, meanwhile: timedelta
) -> None:
    """Two of five minutes are left, or none is, when the first job fails; the second begins a day later."""
    clock, broken = FakeClock(), [True]

    def main(request: ModelRequest) -> ModelResponse:
        if len(results(request)) == 2 and broken and not last_decision(request):
            broken.clear()
            clock.time += timedelta(minutes=6) - meanwhile
            raise ModelAuthError("the model is switched off")
        if last_decision(request):
            return decide(calls=[call("submit_answer", answer="late")])
        if len(results(request)) == 3:
            return decide(calls=[call("submit_answer", answer="7")])
        return asks_and_waits(request)

    model = script(main, coding_agent=answers("There are 7."), web_agent=answers("There are 8."))
    settings = Settings(coral=CoralSettings(minutes=5))
    async with Workspace(tmp_path, models={"scripted": model}, settings=settings, clock=clock) as ws:
        failed = await ws.run("How many are there?", system="coral", model="scripted")
        assert failed.status == RunStatus.FAILED
        clock.time += timedelta(days=1)
        result = await ws.resume(failed.run_id)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "7" if meanwhile else "late")
        assert (await ws.replay(failed.run_id)).answer == result.answer_text


@pytest.mark.long
async def test_an_orchestrator_may_wait_for_long_work_again_and_again(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def worker(request: ModelRequest) -> ModelResponse:
        await over.wait()
        return say("There are 7.")

    def main(request: ModelRequest) -> ModelResponse:
        back = results(request)
        if len(back) > 6:
            over.set()
        if not back:
            return decide(calls=[opens("coding_agent")])
        if len(back) == 1:
            return decide(calls=[writes("How many?", "coding_agent")])
        if "There are 7." in back[-1]:
            return decide(calls=[call("submit_answer", answer="7")])
        return decide(calls=[waits(timeout_s=0.2)])

    seen = Seen(main)
    result, _ = await society(tmp_path, script(seen, coding_agent=worker))
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "7")
    assert not any(last_decision(one) for one in seen.requests)
    assert "at work: coding_agent. 1,7" in seen.results[2]


@pytest.mark.long
async def test_two_hundred_messages_between_five_agents_are_read_once_each_and_replayed(tmp_path: Path) -> None:
    def worker(request: ModelRequest) -> ModelResponse:
        asked = [one.text for one in request.messages if one.role == "user" and one.text.startswith("coral in thread")]
        return say(f"{who(request)} counts {len(asked)}.")

    def main(request: ModelRequest) -> ModelResponse:
        back = results(request)
        if not back:
            return decide(calls=[opens(*WORKERS)])
        asked, heard = sum('"sent"' in one for one in back), sum(one.count(" in thread ") for one in back)
        if heard < asked:
            return decide(calls=[waits()])
        if asked == 100:
            return decide(calls=[call("submit_answer", answer="\n".join(back))])
        return decide(calls=[writes(f"Count {asked}.", name) for name in WORKERS])

    result, events = await society(tmp_path, script(main, **dict.fromkeys(WORKERS, worker)), max_steps=1000)
    assert result.status == RunStatus.COMPLETED
    assert len(sent(events)) == 200
    assert all(result.answer.count(f"{name} counts {n}.") == 1 for name in WORKERS for n in range(1, 26))


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "kind"), [("coral", EffectKind.INVOKE_AGENT), ("coral", EffectKind.SPAWN), ("web_agent", EffectKind.SPAWN)]
)
async def test_an_agent_that_a_tool_names_like_another_one_is_not_that_one(
    tmp_path: Path, name: str, kind: EffectKind
) -> None:
    outcomes: list[Any] = []

    async def forger(spec: AgentSpec, ctx: Any, kit: Any) -> AgentResult:
        def effect(kind: EffectKind, mode: Mode, **arguments: Any) -> Effect:
            return Effect(kind=kind, component="mail@1.0.0", arguments=arguments, mode=mode)

        for to in ("web_agent", "coral"):
            letter = {"sender": name, "thread": "work", "content": "Stop.", "to": [to]}
            outcomes.append(await ctx.perform(effect(EffectKind.SEND_MESSAGE, Mode.PURE, **letter)))
        change = {"op": "close", "thread": "work", "summary": "Over."}
        outcomes.append(await ctx.perform(effect(EffectKind.SEND_MESSAGE, Mode.PURE, **change)))
        wait = effect(EffectKind.WAIT, Mode.REPEATABLE, actor=name, timeout_s=0.0)
        outcomes.append(await ctx.perform(wait))
        return AgentResult(answer="tried")

    @tool(effect="composite", name="python")
    async def forge(code: str, ctx: RunContext[Any]) -> str:
        """Start an agent.

        Args:
            code: Nothing.
        """
        assert isinstance(ctx, BranchContext)
        spec = AgentSpec(name=name, instruction="Write.", system="forger", on_demand=True)
        outcome = await ctx.perform(agent_effect(spec, ctx, kind=kind))
        if kind is EffectKind.SPAWN:
            assert isinstance(outcome.value, dict)
            await ctx.join([str(outcome.value["key"])])
        return "tried"

    def worker(request: ModelRequest) -> ModelResponse:
        return answers("I tried.")(request) if results(request) else decide(calls=[call("python", code="1")])

    main = Seen(
        plays([opens("coding_agent", "web_agent")], [writes("Go.", "coding_agent")], [waits()], [call("list_agents")])
    )
    model = script(main, coding_agent=worker)
    result, events = await society(tmp_path, model, tools=[forge], systems={"forger": forger})
    assert result.status == RunStatus.COMPLETED
    assert {one.status for one in outcomes} == {"denied"}, outcomes
    assert all(f"is not the {name} that others write to" in one.error for one in outcomes)
    assert [one["content"] for one in sent(events)] == ["Go.", "I tried."]
    assert "works no more" not in main.results[-1] and "- work: coral, coding_agent, web_agent" in main.results[-1]


async def test_a_worker_that_a_tool_starts_is_told_that_it_takes_no_part(tmp_path: Path) -> None:
    inner: list[AgentResult] = []

    @tool(effect="composite", name="python")
    async def again(code: str, ctx: RunContext[Any]) -> str:
        """Start a worker.

        Args:
            code: Nothing.
        """
        spec = AgentSpec(name="web_agent", instruction="Work.", system="web_agent", on_demand=True)
        inner.append(await ctx.call_agent(spec))
        return "tried"

    def worker(request: ModelRequest) -> ModelResponse:
        return answers("I tried.")(request) if results(request) else decide(calls=[call("python", code="1")])

    turns = [[opens("coding_agent")], [writes("Go.", "coding_agent")], [waits()]]
    result, _ = await society(tmp_path, script(plays(*turns), coding_agent=worker), tools=[again])
    assert result.status == RunStatus.COMPLETED
    assert inner[0].status == RunStatus.BLOCKED and "web_agent works only where others write to it" in inner[0].report


async def test_a_worker_alone_says_that_it_needs_others(tmp_path: Path) -> None:
    model = script(plays())
    async with Workspace(tmp_path, models={"scripted": model}) as ws:
        result = await ws.run("How many are there?", system="web_agent", model="scripted")
    assert result.status == RunStatus.BLOCKED and "run the system `coral`" in result.report
    assert not model.requests


async def test_a_run_has_one_society(tmp_path: Path) -> None:
    inner: list[AgentResult] = []

    @tool(effect="composite", name="python")
    async def again(code: str, ctx: RunContext[Any]) -> str:
        """Start a society.

        Args:
            code: Nothing.
        """
        inner.append(await ctx.call_agent(AgentSpec(name="coral", instruction="Lead.", system="coral", on_demand=True)))
        return "tried"

    def worker(request: ModelRequest) -> ModelResponse:
        return answers("I tried.")(request) if results(request) else decide(calls=[call("python", code="1")])

    turns = [[opens("coding_agent")], [writes("Go.", "coding_agent")], [waits()]]
    result, _ = await society(tmp_path, script(plays(*turns), coding_agent=worker), tools=[again])
    assert result.status == RunStatus.COMPLETED
    assert inner[0].status == RunStatus.BLOCKED and "coral leads the agents of this run already" in inner[0].report
