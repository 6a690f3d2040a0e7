"""The model of a run, made of the logs of real runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import agent_effect
from agentorchestra.cli.view.model import AgentView, RunView
from agentorchestra.cli.view.tree import step_line, tree_lines
from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.events import Event
from agentorchestra.core.spec import AgentResult, AgentSpec, RunResult, RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.run import active_seconds
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.tools.todo import PlanStep
from agentorchestra.workspace import Workspace
from tests.cli.team import ANSWER, STEPS, TASK, Gate, team


async def run_team(folder: Path, *, fail_first: bool = False) -> tuple[RunResult, list[Event]]:
    async with team(folder, fail_first=fail_first) as ws:
        result = await ws.run(TASK, model="scripted", system="react")
        return result, await ws.log.events(result.run_id)


def agents(view: RunView) -> dict[str, AgentView]:
    return {agent.name: agent for agent in view.agents.values()}


async def test_the_tree_of_agents(tmp_path: Path) -> None:
    result, events = await run_team(tmp_path)
    assert result.answer == ANSWER
    view = RunView.of(events)
    shape = [(depth, agent.name) for depth, agent in view.root.walk()]
    assert shape == [(0, "run"), (1, "react"), (2, "reader-A"), (2, "reader-B")]
    reader = agents(view)["reader-A"]
    assert (reader.role, reader.system, reader.task, reader.status) == (
        "analyzer",
        "react",
        "Read offer A.",
        "completed",
    )
    assert reader.model == "scripted"
    assert str(reader.key) == "/1.react/6.study#1"
    assert view.status is RunStatus.COMPLETED
    assert not view.is_driven
    assert not any(agent.open for agent in view.agents.values())


async def test_sums_are_those_of_the_result(tmp_path: Path) -> None:
    result, events = await run_team(tmp_path, fail_first=True)
    view = RunView.of(events)
    assert view.usage == result.usage
    assert view.steps == result.steps == view.root.total_steps == 8
    assert {name: agent.steps for name, agent in agents(view).items()} == {"react": 4, "reader-A": 2, "reader-B": 2}
    charged = Usage()
    for charge in view.charges:
        charged = charged + charge.usage
    assert charged == result.usage
    assert {charge.model for charge in view.charges} == set(result.usage_by_model) == {"scripted"}
    planner = agents(view)["react"]
    assert 0 < planner.usage.tokens < planner.total.tokens == result.usage.tokens
    assert view.last is not None
    assert view.active_s(view.last) == pytest.approx(active_seconds(events))
    # Read from a clock of its own, a moment before the event that says it: a busy machine makes that longer.
    assert 0 < result.duration_s == pytest.approx(active_seconds(events), abs=30)


async def test_the_plan_is_its_agents_own(tmp_path: Path) -> None:
    _, events = await run_team(tmp_path)
    found = agents(RunView.of(events))
    plan = found["react"].plan
    assert plan is not None
    assert [(step.text, step.status) for step in plan.steps] == [(STEPS[0], "completed"), (STEPS[1], "not_started")]
    assert found["reader-A"].plan is None


async def test_while_it_runs(tmp_path: Path) -> None:
    """Cut after each event: what is under way is what was started and has not ended."""
    _, events = await run_team(tmp_path, fail_first=True)
    view = RunView()
    most, retrying, looked = 0, [], False
    for event in events:
        view.apply(event)
        found = agents(view)
        open_spans = [span for agent in view.agents.values() for span in agent.open.values()]
        assert all(span.ended is None and span.record.outcome is None for span in open_spans)
        readers = [agent for name, agent in found.items() if name.startswith("reader")]
        most = max(most, sum(1 for agent in readers if agent.open))
        if event.type == "attempt_failed":
            (retrying,) = [span.failures for span in open_spans if span.failures]
        if event.type == "started" and event.span == "/1.react/6.study/1.reader-A#1":
            looked = True
            assert found["react"].status == found["reader-A"].status == "running"
            assert [span.effect["component"] for span in found["react"].open.values()] == ["study@1.0.0"]
            assert view.active_s(event.ts + timedelta(seconds=60)) > 60
    assert looked
    assert most >= 1  # both at once only if one does not end before the other begins
    assert [(one.number, one.error, one.retry_in_s) for one in retrying] == [(1, "the server is overloaded", 0.0)]


async def test_a_question_is_open_until_it_is_answered(tmp_path: Path) -> None:
    async with team(tmp_path, asks=True) as ws:
        waiting = await ws.run(TASK, model="scripted", system="react")
        assert waiting.status is RunStatus.WAITING
        view = RunView.of(await ws.log.events(waiting.run_id))
        (question,) = view.questions
        assert question.question == "In euros?"
        assert view.status.value == "waiting"
        assert not any(agent.open for agent in view.agents.values())
        await ws.tell(waiting.run_id, "only the cheaper one")
        await ws.answer(waiting.run_id, "yes")
        await ws.resume(waiting.run_id)
        for event in await ws.log.events(waiting.run_id, after=view.seq):
            view.apply(event)
    assert view.questions == ()
    assert view.status.value == "completed"
    assert [(note.level, note.text) for note in view.notes] == [("told", "only the cheaper one")]
    # What was recorded before is not shown twice.
    assert [agent.name for _, agent in view.root.walk()] == ["run", "react", "reader-A", "reader-B"]


async def test_a_larger_budget_takes_back_what_was_limited(tmp_path: Path) -> None:
    async with team(tmp_path) as ws:
        short = await ws.run(TASK, model="scripted", system="react", budget=Budget(steps=5))
        view = RunView.of(await ws.log.events(short.run_id))
        limited = [
            span for span in view.spans.values() if span.record.outcome and span.record.outcome.status == "limited"
        ]
        assert limited
        assert view.budget.steps == 5
        whole = await ws.resume(short.run_id, budget=Budget(steps=50))
        for event in await ws.log.events(short.run_id, after=view.seq):
            view.apply(event)
    assert whole.status is RunStatus.COMPLETED
    assert view.budget.steps == 50
    assert view.usage == whole.usage
    assert view.steps == whole.steps
    shown = [span for span in view.spans.values() if not span.superseded]
    assert not [span for span in shown if span.record.outcome is not None and span.record.outcome.status == "limited"]
    assert any("the budget is now: steps 50" in note.text for note in view.notes)


async def test_a_run_that_was_stopped_and_goes_on(tmp_path: Path) -> None:
    """Sums and agents are those of the result, wherever it was stopped: nothing twice, nothing lost."""
    for stop_after in (2, 7, 12, 15):
        gate = Gate()
        async with team(tmp_path / str(stop_after), tools=gate, in_memory=False) as ws:
            run_id = await ws.create(TASK, model="scripted", system="react")
            async with ws.runs.watch(run_id) as queue:
                work = asyncio.create_task(ws.resume(run_id))
                for _ in range(stop_after):
                    while (await queue.get()).kind != "event":
                        pass
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            view = RunView.of(await ws.log.events(run_id))
            assert view.status.value == "cancelled"
            assert not view.is_driven
            assert not any(agent.open for agent in view.agents.values())
            assert {agent.status for agent in view.agents.values()} <= {"interrupted", "completed"}
            gate.opened.set()
            result = await ws.resume(run_id)
            for event in await ws.log.events(run_id, after=view.seq):
                view.apply(event)
            assert view.usage == result.usage
            assert view.steps == result.steps == view.root.total_steps
            assert [agent.name for _, agent in view.root.walk()] == ["run", "react", "reader-A", "reader-B"]
            assert {agent.status for agent in view.agents.values()} == {"completed"}
            whole = RunView.of(await ws.log.events(run_id))
            assert tree_lines(whole) == tree_lines(view)


async def test_spawned_agents_and_rivals(tmp_path: Path) -> None:
    """Agents that are joined later, and candidates of a step, whose numbers no effect has."""

    async def system(spec: AgentSpec, ctx: BranchContext[Any], kit: Any) -> AgentResult:
        spawned = [
            await ctx.perform(agent_effect(AgentSpec(name=name, instruction=name), ctx, kind=EffectKind.SPAWN))
            for name in ("first", "second")
        ]
        keys = [str(one.value["key"]) for one in spawned if isinstance(one.value, dict)]
        await ctx.join(keys)
        left, _ = ctx.candidates(2)
        await ctx.rivals([lambda: left.call_agent(AgentSpec(name="rival", instruction="rival")), _nothing])
        await ctx.adopt(left)
        return AgentResult(answer="done", steps=0)

    async def _nothing() -> None:
        return None

    model = ScriptedModel(lambda request: call("done", answer="yes"))
    async with Workspace(tmp_path, systems={"boss": system}, models={"scripted": model}, store=MemoryStore()) as ws:
        result = await ws.run("Lead.", model="scripted", system="boss")
        assert result.status is RunStatus.COMPLETED
        view = RunView.of(await ws.log.events(result.run_id))
    assert {depth: agent.name for depth, agent in view.root.walk()}.keys() == {0, 1, 2}
    found = agents(view)
    assert {name: found[name].status for name in ("first", "second", "rival")} == dict.fromkeys(
        ("first", "second", "rival"), "completed"
    )
    assert all(found[name].parent is found["boss"] for name in ("first", "second", "rival"))
    assert view.usage == result.usage
    lines = tree_lines(view)
    (candidates,) = [index for index, line in enumerate(lines) if line.endswith("candidates")]
    assert lines[candidates].strip() == "/1.boss#4  candidates"
    assert lines[candidates + 1].strip() == "/1.boss/4.0"
    assert lines[candidates + 2].strip().startswith("/1.boss/4.0#1  agent rival: rival  ok  1 step")


async def test_a_branch_that_is_asked_about_too_early(tmp_path: Path) -> None:
    """The bus is faster than the log: text of an agent may come before its start was read."""
    _, events = await run_team(tmp_path)
    view = RunView()
    for event in events:
        view.owner("/1.react/6.study/1.reader-A")
        view.apply(event)
    assert agents(view)["reader-A"].steps == 2
    assert view.owner("/1.react/6.study/1.reader-A") is agents(view)["reader-A"]


def test_a_step_of_a_plan() -> None:
    step = PlanStep(text="read\nthe offers", status="in_progress", agent="deep_analyzer", notes="two\x1b[2J")
    assert step_line(step) == "[>] read the offers -> deep_analyzer (two[2J)"


async def test_kinds_of_spans(tmp_path: Path) -> None:
    _, events = await run_team(tmp_path)
    view = RunView.of(events)
    kinds = [span.kind for span in view.spans.values()]
    assert kinds.count(EffectKind.INVOKE_AGENT) == 3
    asked = [span for span in view.spans.values() if span.kind is EffectKind.REQUEST_MODEL]
    assert all(span.seconds is not None and span.seconds >= 0 for span in asked)
