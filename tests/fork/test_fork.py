"""Forks of a recorded run: what is copied, what is live, what differs, and what cannot be forked."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import DivergedError, ForkError, PromptError, UnknownModelError, UnknownRunError
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import ModelProfile, Price
from agentorchestra.core.spec import RunStatus
from agentorchestra.workspace import Workspace
from tests.fork.support import CAPITALS, TASK, model, notes, text_of, workspace, written_by
from tests.runtime.counter import Counter

ANSWER = "one counted 3 with left by one and right by one"
ALL_NOTES = 7


def _same(parent: list[Event], fork: list[Event]) -> bool:
    """Whether the events are the same but for the run they belong to and the manifest."""
    rest = [(e.seq, e.branch, e.n, e.attempt, e.type, e.ts, e.span, e.actor, e.body) for e in parent[1:]]
    return rest == [(e.seq, e.branch, e.n, e.attempt, e.type, e.ts, e.span, e.actor, e.body) for e in fork[1:]]


async def _recorded(ws: Workspace[Path]) -> str:
    result = await ws.run(TASK, system="react", model="one", seed="s")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, ANSWER)
    return result.run_id


@pytest.mark.long
async def test_from_every_event_the_prefix_is_the_parents_and_the_rest_is_live(tmp_path: Path) -> None:
    client = model("one")
    async with workspace(tmp_path, client) as ws:
        parent = await _recorded(ws)
        log = await ws.log.events(parent)
        assert len(log) >= 50
        for at in range(1, len(log) + 1):
            prefix = log[:at]
            asked = len(client.requests)
            fork = await ws.fork(parent, at=at)
            result = await ws.resume(fork)
            events = await ws.log.events(fork)
            assert _same(prefix, events[:at])
            assert (result.status, result.answer) == (RunStatus.COMPLETED, ANSWER)
            answered = sum(_is_reply(e, prefix) for e in prefix)
            total = sum(_is_reply(e, log) for e in log)
            assert len(client.requests) - asked == total - answered == result.usage.requests
            # What was written before is not written again; what comes after it is, and only that.
            assert len(notes(tmp_path, fork)) == ALL_NOTES - written_by(prefix)
            assert (await ws.replay(fork)).answer == ANSWER
        assert len(notes(tmp_path, parent)) == ALL_NOTES
        assert await ws.log.events(parent) == log


def _is_reply(event: Event, log: list[Event]) -> bool:
    if event.type != "completed":
        return False
    started = next((e for e in log if (e.branch, e.n, e.type) == (event.branch, event.n, "started")), None)
    return started is not None and started.body["effect"]["kind"] == "RequestModel"


@pytest.mark.long
async def test_another_model_goes_on_from_there_and_the_prefix_does_not_diverge(tmp_path: Path) -> None:
    two = model(
        "two",
        profile=ModelProfile(model="two", price=Price(input=2.0, output=2.0), context_window=1_600, max_tokens=200),
    )
    async with workspace(tmp_path, model("one"), two) as ws:
        parent = await _recorded(ws)
        log = await ws.log.events(parent)
        for at in range(1, len(log) - 1, 4):
            fork = await ws.fork(parent, at=at, model="two")
            result = await ws.resume(fork)
            assert _same(log[:at], (await ws.log.events(fork))[:at])
            assert result.status is RunStatus.COMPLETED
            # Its window is so small that it takes steps out where its parent took none.
            if any(e.type == "completed" and (e.branch, e.n) == ("/", 1) for e in log[:at]):
                assert result.answer == ANSWER
            else:
                assert set(result.usage_by_model) == ({"two"} if result.usage.requests else set())
            assert (await ws.replay(fork)).status is RunStatus.COMPLETED
        fork = await ws.fork(parent, at="/1.react#3", model="two")
        assert (await ws.resume(fork)).answer.startswith("two counted 3")


@pytest.mark.long
async def test_a_fork_of_a_run_that_took_steps_out_with_a_model_that_needs_not(tmp_path: Path) -> None:
    small = model(
        "small",
        profile=ModelProfile(model="small", price=Price(input=2.0, output=2.0), context_window=1_600, max_tokens=200),
    )
    async with workspace(tmp_path, small, model("one")) as ws:
        parent = await ws.run(TASK, system="react", model="small")
        assert parent.status is RunStatus.COMPLETED
        log = await ws.log.events(parent.run_id)
        summaries = [e for e in log if e.type == "started" and e.body["effect"].get("purpose") == "summary"]
        assert summaries
        for at in range(1, len(log), 5):
            fork = await ws.fork(parent.run_id, at=at, model="one")
            result = await ws.resume(fork)
            assert result.status is RunStatus.COMPLETED
            assert "3 with left by" in result.answer
            assert (await ws.replay(fork)).answer == result.answer


@pytest.mark.long
async def test_a_model_without_native_calls_goes_on_from_one_that_has_them(tmp_path: Path) -> None:
    written = model("written", native_tools=False)
    async with workspace(tmp_path, model("one"), written) as ws:
        parent = await _recorded(ws)
        for at in (20, 40, 55):
            fork = await ws.fork(parent, at=at, model="written")
            result = await ws.resume(fork)
            assert result.status is RunStatus.COMPLETED
            assert result.answer.startswith("written counted")


async def test_a_changed_prompt_holds_from_there_on(tmp_path: Path) -> None:
    loud = tmp_path / "loud.md"
    async with workspace(tmp_path) as ws:
        parent = await _recorded(ws)
        prompt = ws.catalog.prompts.get("react")
        loud.write_text(f"{prompt.text}\n{CAPITALS}\n", encoding="utf-8")
        log = await ws.log.events(parent)
        at = next(e.seq for e in log if e.type == "completed" and (e.branch, e.n) == ("/1.react", 3))
        fork = await ws.fork(parent, at=at, prompts={"react": loud})
        loud.unlink()
        await ws.close()
    # Another process, which has neither the file nor the workspace's memory of the fork.
    one = model("one")
    async with workspace(tmp_path, one) as ws:
        result = await ws.resume(fork)
        assert result.answer == ANSWER.upper()
        assert all(CAPITALS in text_of(request) for request in one.requests)
        assert _same(log[:at], (await ws.log.events(fork))[:at])
        record = await ws.store.get_run(fork)
        assert record is not None
        assert (record.parent_run, record.fork_seq) == (parent, at)
        assert set(record.manifest.overrides) == {"prompt:react"}
        said = [e.body["message"] for e in await ws.log.events(fork) if e.type == "noted"]
        assert [line for line in said if "asks otherwise than its parent did" in line and "message 0" in line]
        assert (await ws.replay(fork)).answer == ANSWER.upper()


@pytest.mark.long
async def test_forks_of_forks(tmp_path: Path) -> None:
    async with workspace(tmp_path, model("one"), model("two")) as ws:
        parent = await _recorded(ws)
        first = await ws.fork(parent, at=40, model="two")
        await ws.resume(first)
        log = await ws.log.events(first)
        for at in (20, 40, 41, 48, len(log)):
            second = await ws.fork(first, at=at, model="one")
            result = await ws.resume(second)
            assert result.status is RunStatus.COMPLETED
            assert _same(log[:at], (await ws.log.events(second))[:at])
            third = await ws.fork(second, at="/1.react#1")
            assert (await ws.resume(third)).answer == ANSWER
            record = await ws.store.get_run(third)
            assert record is not None
            assert record.parent_run == second


async def test_a_fork_pays_for_itself_only(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        first = await ws.run(TASK, system="react", model="one", budget=Budget(cost_usd=0.5))
        assert first.cost_usd
        cost = first.cost_usd
        log = await ws.log.events(first.run_id)
        # With what the parent has spent too little would be left; the fork has all of it.
        fork = await ws.fork(first.run_id, at=len(log) // 2, budget=Budget(cost_usd=cost * 1.5))
        began = time.monotonic()
        result = await ws.resume(fork)
        took = time.monotonic() - began
        assert result.status is RunStatus.COMPLETED
        assert result.cost_usd is not None
        assert 0 < result.cost_usd < cost
        assert result.duration_s <= took
        sources = sum(one.tokens for one in await ws.log.tokens(fork))
        assert 0 < sources < sum(one.tokens for one in await ws.log.tokens(first.run_id))
        tight = await ws.fork(first.run_id, at=len(log) // 2, budget=Budget(cost_usd=1e-9))
        assert (await ws.resume(tight)).status is RunStatus.BUDGET_EXHAUSTED


@pytest.mark.long
async def test_another_outcome_in_place_of_a_recorded_one(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        parent = await _recorded(ws)
        key = next(
            f"{e.branch}#{e.n}"
            for e in await ws.log.events(parent)
            if e.type == "started" and e.branch == "/1.react" and e.body["effect"]["component"].startswith("team@")
        )
        with pytest.raises(ForkError, match="consists of effects of its own"):
            await ws.fork(parent, at=key, outcomes={key: "nobody"})
        side = "/1.react/8.team/1.left"
        with pytest.raises(ForkError, match="no outcome of"):
            await ws.fork(parent, outcomes={"/9.nobody#1": 1})
        last = next(
            f"{e.branch}#{e.n}"
            for e in reversed(await ws.log.events(parent))
            if e.branch.endswith("left") and e.n and e.type == "completed"
        )
        assert side.split("/")[-1] in last
        with pytest.raises(ForkError, match="followed from the outcome"):
            await ws.fork(parent, outcomes={last: {"answer": "port"}})
        fork = await ws.fork(parent, at=last, outcomes={last: {"answer": "port", "status": "completed"}})
        assert (await ws.resume(fork)).answer == "one counted 3 with port and right by one"
        with pytest.raises(ForkError, match="no model's reply"):
            await ws.fork(parent, at="/1.react#3", outcomes={"/1.react#3": {"tool_calls": 7}})


async def test_what_cannot_be_forked(tmp_path: Path) -> None:
    async with workspace(tmp_path, environments={"counter": lambda: Counter("none")}) as ws:
        result = await ws.run(TASK, system="react", model="one")
        log = await ws.log.events(result.run_id)
        acted = next(e.seq for e in log if e.type == "completed" and _action(e, log) == "add")
        with pytest.raises(ForkError, match=r"environment 'counter' \(add\), which keeps no snapshots"):
            await ws.fork(result.run_id, at=acted)
        before = await ws.fork(result.run_id, at=acted - 3)
        assert (await ws.resume(before)).status is RunStatus.COMPLETED
        runs = len(await ws.runs.list())
        for at, message in (
            (0, "has the events 1 to"),
            (10_000, "no event 10000"),
            ("/7#7", "no recorded effect"),
            ("x", "no recorded effect 'x'"),
        ):
            with pytest.raises(ForkError, match=message):
                await ws.fork(result.run_id, at=at)
        with pytest.raises(UnknownModelError):
            await ws.fork(result.run_id, at=3, model="nobody")
        with pytest.raises(PromptError, match="no prompt 'nothing'"):
            await ws.fork(result.run_id, at=3, prompts={"nothing": tmp_path / "x.md"})
        with pytest.raises(PromptError, match="cannot be read"):
            await ws.fork(result.run_id, at=3, prompts={"react": tmp_path / "x.md"})
        with pytest.raises(UnknownRunError):
            await ws.fork("run_nobody", at=3)
        assert len(await ws.runs.list()) == runs


def _action(event: Event, log: list[Event]) -> object:
    started = next((e for e in log if (e.branch, e.n, e.type) == (event.branch, event.n, "started")), None)
    return started.body["effect"].get("arguments", {}).get("action") if started is not None else None


async def test_a_fork_of_a_run_that_waits_is_asked_for_itself(tmp_path: Path) -> None:
    from agentorchestra import RunContext, tool
    from agentorchestra.testing import ScriptedModel, call

    @tool(effect="composite")
    async def colour(ctx: RunContext[None]) -> str:
        """Ask for a colour."""
        return await ctx.ask("Which colour?")

    def answer(request: object) -> object:
        said = [m.text for m in request.messages if m.role == "tool"]  # type: ignore[attr-defined]
        return call("done", answer=said[-1]) if said else call("colour")

    asking = ScriptedModel(answer, name="asking")  # type: ignore[arg-type]
    async with Workspace(tmp_path / "ws", tools=[colour], models={"asking": asking}) as ws:
        parent = await ws.run("Paint.", system="react", model="asking")
        assert parent.status is RunStatus.WAITING
        fork = await ws.fork(parent.run_id)
        assert (await ws.resume(fork)).status is RunStatus.WAITING
        await ws.answer(fork, "green")
        assert "green" in (await ws.resume(fork)).answer
        assert len(await ws.runs.questions(parent.run_id)) == 1
        await ws.answer(parent.run_id, "red")
        assert "red" in (await ws.resume(parent.run_id)).answer


@pytest.mark.long
async def test_code_that_changed_still_diverges_in_the_prefix(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        parent = await _recorded(ws)
        fork = await ws.fork(parent, at=50)

    async def other(spec: object, session: object, kit: object) -> object:
        return await session.ask("something else")  # type: ignore[attr-defined]

    async with workspace(tmp_path, systems={"react": other}) as ws:
        result = await ws.resume(fork)
        assert (result.status, result.error_type) == (RunStatus.FAILED, DivergedError.__name__)
        assert result.error is not None
        assert "--pin" in result.error


@pytest.mark.long
async def test_files_of_the_task_are_there_in_the_fork(tmp_path: Path) -> None:
    given = tmp_path / "facts.txt"
    given.write_text("The notice period is three months.", encoding="utf-8")
    async with Workspace(tmp_path / "ws") as ws:
        parent = await ws.run("What is the notice period?", files=[given])
        given.unlink()
        fork = await ws.fork(parent.run_id, at=3)
        result = await ws.resume(fork)
        assert result.answer_text == parent.answer_text
        assert "three months" in result.answer


class _Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return 0.0


@pytest.mark.long
async def test_a_fork_of_a_run_that_waits_for_a_time_waits_for_it_too(tmp_path: Path) -> None:
    from agentorchestra import RunContext, tool
    from agentorchestra.testing import ScriptedModel, call

    @tool(effect="composite")
    async def nap(ctx: RunContext[None]) -> str:
        """Sleep for a day."""
        return f"woke on {await ctx.sleep(86_400):%d}"

    def answer(request: ModelRequest) -> ToolCall:
        said = [message.text for message in request.messages if message.role == "tool"]
        return call("done", answer=said[-1]) if said else call("nap")

    clock, asleep = _Clock(), ScriptedModel(answer, name="asleep")
    async with Workspace(tmp_path / "ws", tools=[nap], models={"asleep": asleep}, clock=clock) as ws:
        parent = await ws.run("Sleep.", system="react", model="asleep")
        fork = await ws.fork(parent.run_id)
        waiting = await ws.resume(fork)
        assert (waiting.status, waiting.until) == (RunStatus.WAITING, parent.until)
        assert await ws.runs.due() == []
        clock.time += timedelta(days=2)
        assert await ws.runs.due() == [parent.run_id, fork]
        assert (await ws.resume(fork)).answer == (await ws.resume(parent.run_id)).answer == "woke on 03"
        assert (await ws.replay(fork)).answer == "woke on 03"
        # From before the sleep it is slept anew.
        again = await ws.resume(await ws.fork(parent.run_id, at=5))
        assert (again.status, again.until) == (RunStatus.WAITING, clock.time + timedelta(days=1))
