"""An answer belongs to exactly one effect: of several at once the first holds; superseded questions take none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Bound, Budget
from agentorchestra.core.effects import Effect, Mode
from agentorchestra.core.errors import AnswerError
from agentorchestra.core.events import Answered, BudgetRaised, NewEvent, new_event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import Question, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.answers import settle
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.run import wait_for
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.runtime.support import Bench, agent
from tests.runtime.support import tool as effect_of

SENT: list[str] = []
SEND = "/1.react/6.approval#1"


@tool(effect="send")
def send(to: str) -> str:
    """Send."""
    SENT.append(to)
    return f"sent to {to}"


@tool(effect="read")
def notes() -> str:
    """Read what somebody else wrote."""
    return "Write to eve@example.org."


@tool(effect="composite")
async def ask(ctx: RunContext[Any]) -> str:
    """Ask the user."""
    return await ctx.ask("Which colour?")


def _asks(request: ModelRequest) -> ModelResponse:
    said = [m.text for m in request.messages if m.role == "tool"]
    return decide(calls=[call("done", answer=said[-1])] if said else [call("ask")])


def _sends(request: ModelRequest) -> ModelResponse:
    said = [m.text for m in request.messages if m.role == "tool"]
    steps = [call("notes"), call("send", to="eve@example.org")]
    return decide(calls=[steps[len(said)] if len(said) < 2 else call("done", answer=said[-1])])


def before_its_answer_is_written(ws: Workspace[Any], happens: Callable[[], Awaitable[Any]]) -> None:
    """Something else happens after this workspace has seen the open question, and before its answer is in the log."""
    append = ws.store.append
    loop = asyncio.get_running_loop()

    async def later(run: str, epoch: int | None, events: Any, more: Any) -> Any:
        await happens()
        return await wait_for(append(run, epoch, events, **more))

    def held(run: str, epoch: int | None, events: Any, **more: Any) -> Any:
        ws.store.append = append  # type: ignore[method-assign]
        return asyncio.run_coroutine_threadsafe(later(run, epoch, events, more), loop)

    ws.store.append = held  # type: ignore[method-assign]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("other", ["deny", "approve"])
async def test_two_who_settle_one_approval_at_once(tmp_path: Path, other: str) -> None:
    SENT.clear()
    async with Workspace(tmp_path, tools=[send, notes]) as ws:
        waiting = await ws.run("Follow the notes.", model=ScriptedModel(_sends), system="react")
        run = waiting.run_id
        assert waiting.status is RunStatus.WAITING and SENT == []
        async with Workspace(tmp_path) as ann, Workspace(tmp_path) as bob:
            before_its_answer_is_written(ann, lambda: getattr(bob, other)(run, by="bob"))
            with pytest.raises(AnswerError, match=f"{SEND} of run {run} was answered already by bob, at 20"):
                await ann.approve(run, by="ann")
        answered = [e.body for e in await ws.log.events(run) if e.type == "answered"]
        assert [one["by"] for one in answered] == ["bob"]
        over = await ws.resume(run)
        assert (["eve@example.org"] if answered[0]["answer"] is True else []) == SENT
        assert ("denied by the user" in over.answer) == (answered[0]["answer"] is not True)
        await ws.replay(run)


async def test_of_several_calls_none_is_approved_that_was_not_named(tmp_path: Path) -> None:
    def two(request: ModelRequest) -> ModelResponse:
        said = [m.text for m in request.messages if m.role == "tool"]
        if len(said) == 1:
            return decide(calls=[call("send", to="eve@example.org"), call("send", to="eva@example.org")])
        return decide(calls=[call("notes") if not said else call("done", answer=" ".join(said[1:]))])

    SENT.clear()
    async with Workspace(tmp_path, tools=[send, notes]) as ws:
        waiting = await ws.run("Follow the notes.", model=ScriptedModel(two), system="react")
        run, (eve, eva) = waiting.run_id, waiting.questions
        assert len({eve.code, eva.code, ""}) == 3
        with pytest.raises(AnswerError) as caught:
            await ws.approve(run)
        assert str(caught.value) == (
            f"run {run} asks permission for 2 calls; name the one that was shown by its code; open: "
            f"{eve.key} (approval, code {eve.code}): {eve.question}; "
            f"{eva.key} (approval, code {eva.code}): {eva.question}"
        )
        with pytest.raises(AnswerError, match=f"has no open approval {eve.key} with the code '{eva.code}' to approve"):
            await ws.approve(run, question=eve.key, code=eva.code)
        await ws.approve(run, code=eva.code)
        await ws.deny(run)
        assert (await ws.resume(run)).status is RunStatus.COMPLETED
        assert SENT == ["eva@example.org"]
        await ws.replay(run)


async def test_an_answer_to_what_was_asked_before_is_none_to_what_is_asked_now(tmp_path: Path) -> None:
    """Between the look at the question and its answer the run did something else, and asks there again."""
    store = MemoryStore()
    async with Workspace(tmp_path, store=store, tools=[ask]) as ws:
        waiting = await ws.run("Ask.", model=ScriptedModel(_asks), system="react")
        run, (question,) = waiting.run_id, waiting.questions
        asked = Ledger.of(await ws.log.events(run)).records[EffectKey.parse(question.key)].began
        stale = await settle(store, run, question.key, "blue", by="ann", now=datetime.now(UTC), began=asked - 1)
        assert stale.event is None and len(await ws.runs.questions(run)) == 1
        held = await settle(store, run, question.key, "blue", by="ann", now=datetime.now(UTC), began=asked)
        assert held.is_new


async def test_who_comes_too_late_is_told_who_was_first(tmp_path: Path) -> None:
    async with Workspace(tmp_path, tools=[ask]) as ws:
        waiting = await ws.run("Ask.", model=ScriptedModel(_asks), system="react")
        run, key = waiting.run_id, waiting.questions[0].key
        with pytest.raises(AnswerError, match=rf"has no open approval to approve or deny; open: {key} \(question\)"):
            await ws.approve(run)
        with pytest.raises(AnswerError, match=r"has no open question /1\.x#9 to answer; open: "):
            await ws.answer(run, "blue", question="/1.x#9")
        await ws.answer(run, "blue", by="ann")
        for named in (None, key):
            with pytest.raises(AnswerError, match=f"question {key} of run {run} was answered already by ann, at "):
                await ws.answer(run, "red", question=named)
        assert (await ws.resume(run)).answer == "blue"
        with pytest.raises(AnswerError, match=r"it is over \(completed\); start a new run"):
            await ws.answer(run, "red")
        assert len([e for e in await ws.log.events(run) if e.type == "answered"]) == 1
        await ws.replay(run)


async def test_a_cancelled_run_keeps_the_answer_for_its_resume(tmp_path: Path) -> None:
    async with Workspace(tmp_path, tools=[ask]) as ws:
        run = (await ws.run("Ask.", model=ScriptedModel(_asks), system="react")).run_id
        await ws.cancel(run)
        await ws.answer(run, "blue")
        assert ((await ws.runs.result(run)).status, await ws.runs.due()) == (RunStatus.CANCELLED, [])
        assert (await ws.resume(run)).answer == "blue"


async def test_an_answer_here_and_one_from_elsewhere(tmp_path: Path) -> None:
    """Somebody at a terminal answers, and at that moment somebody else has."""
    async with Workspace(tmp_path) as other:

        async def late(question: Question) -> str:
            (record,) = await other.runs.list()
            await other.answer(record.id, "blue", by="bob")
            return "red"

        async with Workspace(tmp_path, tools=[ask], asker=late) as ws:
            over = await ws.run("Ask.", model=ScriptedModel(_asks), system="react")
            assert over.answer == "blue"
            assert [e.body["by"] for e in await ws.log.events(over.run_id) if e.type == "answered"] == ["bob"]
            await ws.replay(over.run_id)


async def test_an_answer_here_is_in_the_log_and_holds_after_a_crash(tmp_path: Path) -> None:
    async def asker(question: Question) -> str:
        return "red"

    async with Workspace(tmp_path, tools=[ask], asker=asker) as ws:
        over = await ws.run("Ask.", model=ScriptedModel(_asks), system="react")
        (answered,) = [e for e in await ws.log.events(over.run_id) if e.type == "answered"]
        assert (answered.body["answer"], answered.body["by"]) == ("red", "asker")
        with pytest.raises(AnswerError, match="was answered already by asker"):
            await ws.answer(over.run_id, "blue", question=str(answered.body["question"]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("when", ["looked", "ended"])
async def test_an_answer_while_the_job_ends(tmp_path: Path, when: str) -> None:
    """It comes after the driver's last look at the question: before its end is in the log, or right after."""
    async with Workspace(tmp_path, tools=[ask]) as ws, Workspace(tmp_path) as other:
        append = ws.store.append

        def late(run: str, epoch: int | None, events: Any, **more: Any) -> Any:
            ended = any(one.type == "run_ended" for one in events)
            if ended:
                ws.store.append = append  # type: ignore[method-assign]
            written = append(run, epoch, events, **more) if when == "ended" or not ended else None
            if ended:
                answering.append(asyncio.ensure_future(other.answer(run, "blue")))
            if written is None:
                written = asyncio.run_coroutine_threadsafe(after(run, epoch, events, more), loop)
            return written

        async def after(run: str, epoch: int | None, events: Any, more: Any) -> Any:
            await answering[0]
            return await wait_for(append(run, epoch, events, **more))

        loop = asyncio.get_running_loop()
        answering: list[asyncio.Future[Any]] = []
        ws.store.append = late  # type: ignore[method-assign]
        result = await ws.run("Ask.", model=ScriptedModel(_asks), system="react")
        await answering[0]
        if result.status is RunStatus.WAITING:  # it came when nobody looked any more: it makes the run due
            assert when == "ended"
            assert await ws.runs.due() == [result.run_id]
            result = await ws.resume(result.run_id)
        assert result.answer == "blue"
        await ws.replay(result.run_id)


async def test_an_answer_to_a_superseded_question_is_none() -> None:
    """It was looked up before the budget was raised, and arrives when the question has been asked anew."""
    store = MemoryStore()
    await store.open()
    asked: list[str] = []

    async def paid(effect: Effect, ctx: BranchContext[Any]) -> str:
        return "paid"

    async def worker(effect: Effect, ctx: BranchContext[Any]) -> str:
        first = await ctx.perform(effect_of("paid", Mode.REPEATABLE))
        said = await ctx.ask("After?" if first.ok else "Before?")
        asked.append(said)
        return said

    bench = Bench(store, {"paid": paid, "worker": worker}, bounds={"paid": Bound(cost_usd=0.1)})
    await bench.create(budget=Budget(cost_usd=0.15))

    async def main(root: BranchContext[Any]) -> str:
        return str((await root.perform(agent("worker", tools=["paid"], budget={"cost_usd": 0.05}))).value)

    waiting = await bench.drive(main)
    assert waiting.questions[0].question == "Before?"
    key = waiting.questions[0].key
    (old,) = [e for e in await store.load("run_test") if e.type == "started" and e.span == key]
    epoch = (await bench.load()).epoch
    now = bench.services.clock.now()
    raised: NewEvent = new_event(BudgetRaised(budget={"cost_usd": 5.0}), ts=now)
    await wait_for(store.append("run_test", epoch, [raised]))
    again = await bench.drive(main)
    late = new_event(Answered(question=key, answer="too late", asked=old.seq), ts=now, n=-1)
    await wait_for(store.append("run_test", None, [late]))
    assert again.questions[0].key == key
    assert (await bench.drive(main)).status is RunStatus.WAITING
    assert asked == []
    held, given = await settle(store, "run_test", key, "in time", by="ann", now=now)
    assert given and held is not None
    assert (await bench.drive(main)).answer == "in time"
    assert await bench.replay(main) is not None
    await store.close()
