"""The door: ledger, policy, reserve, mark, execute, record - over the real stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Bound, Budget, Usage
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import ConcurrentUseError, DivergedError, DoorError, ModelUnavailableError, ReplayError
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import MemoryStore, SqliteStore
from agentorchestra.runtime.context import BranchContext
from tests.runtime.support import Bench, agent, tool


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ws")
    await made.open()
    yield made
    await made.close()


async def _echo(effect: Effect, ctx: BranchContext[Any]) -> Any:
    return effect.arguments.get("x")


async def test_a_recorded_effect_is_not_executed_again(store: Store) -> None:
    bench = Bench(store, {"echo": _echo})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        one = await root.perform(tool("echo", x=1))
        many = await root.perform_all([tool("echo", x=2), tool("echo", Mode.PURE, x=3)])
        return f"{one.value} {[o.value for o in many]}"

    first = await bench.drive(main)
    assert (first.status, first.answer) == (RunStatus.COMPLETED, "1 [2, 3]")
    assert len(bench.handler.executed) == 3
    again = await bench.drive(main)
    assert again.answer_text == first.answer_text
    assert len(bench.handler.executed) == 3
    replayed = await bench.replay(main)
    assert replayed is not None and replayed.answer == first.answer_text
    assert len(bench.handler.executed) == 3
    assert await bench.keys() == {"/#1", "/#2", "/#3"}


async def test_pure_effects_have_no_started_row(store: Store) -> None:
    bench = Bench(store, {"echo": _echo})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(tool("echo", Mode.PURE, x=1))
        await root.perform(tool("echo", Mode.REPEATABLE, x=1))
        return ""

    await bench.drive(main)
    assert (await bench.types()).count("started") == 1
    assert (await bench.types()).count("completed") == 2


async def test_divergence_names_the_first_effect(store: Store) -> None:
    bench = Bench(store, {"echo": _echo})
    await bench.create()
    x = 1

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(tool("echo", x=0))
        await root.perform(tool("echo", x=x))
        return ""

    await bench.drive(main)
    x = 2
    with pytest.raises(
        DivergedError, match=r"diverged at /#2: InvokeTool echo is asked with other arguments"
    ) as caught:
        await bench.replay(main)
    assert (caught.value.branch, caught.value.n) == ("/", 2)
    failed = await bench.drive(main)
    assert failed.status is RunStatus.FAILED
    assert failed.error_type == "DivergedError"


async def test_a_replay_that_asks_for_less_is_found(store: Store) -> None:
    bench = Bench(store, {"echo": _echo})
    await bench.create()
    count = 3

    async def main(root: BranchContext[Any]) -> str:
        for x in range(count):
            await root.perform(tool("echo", x=x))
        return ""

    await bench.drive(main)
    count = 2
    with pytest.raises(ReplayError, match=r"never asked for 1 recorded effects, first /#3"):
        await bench.replay(main)


async def test_composites_are_short_circuited_on_resume_and_entered_on_replay(store: Store) -> None:
    entered = 0

    async def worker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        nonlocal entered
        entered += 1
        ctx.vars["seen"] = effect.arguments["x"]
        inner = await ctx.perform(tool("echo", x=effect.arguments["x"]))
        return inner.value

    bench = Bench(store, {"echo": _echo, "worker": worker})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        outcomes = await root.perform_all([tool("worker", Mode.COMPOSITE, x=x) for x in (1, 2)])
        return f"{[o.value for o in outcomes]} {root.vars['seen']}"

    assert (await bench.drive(main)).answer == "[1, 2] 2"
    assert entered == 2
    assert (await bench.drive(main)).answer == "[1, 2] 2"
    assert entered == 2
    assert (await bench.replay(main)) is not None
    assert entered == 4
    assert await bench.keys() == {"/#1", "/#2", "/1.worker#1", "/2.worker#1"}


async def test_a_leaf_may_not_perform(store: Store) -> None:
    async def sneaky(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return await ctx.perform(tool("echo", x=1))

    bench = Bench(store, {"echo": _echo, "sneaky": sneaky})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(tool("sneaky"))
        return ""

    result = await bench.drive(main)
    assert result.status is RunStatus.FAILED
    assert result.error is not None and 'effect="composite"' in result.error


async def test_concurrent_use_of_a_branch_is_an_error(store: Store) -> None:
    async def wait(effect: Effect, ctx: BranchContext[Any]) -> Any:
        await asyncio.sleep(0.01)

    bench = Bench(store, {"wait": wait})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        first = asyncio.ensure_future(root.perform(tool("wait", x=1)))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentUseError, match="two tasks at once"):
            await root.perform(tool("wait", x=2))
        await first
        return "ok"

    assert (await bench.drive(main)).answer == "ok"


async def test_mistakes_are_numbered_and_recorded(store: Store) -> None:
    bench = Bench(store, {"echo": _echo})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        calls = [tool("echo", x=1), tool("echo", invalid="x is missing; give x"), tool("echo", x=3)]
        outcomes = await root.perform_all(calls)
        return " ".join(o.status for o in outcomes)

    assert (await bench.drive(main)).answer == "ok mistake ok"
    assert (await bench.drive(main)).answer == "ok mistake ok"
    assert await bench.keys() == {"/#1", "/#2", "/#3"}
    assert len(bench.handler.executed) == 2


async def test_errors_and_time_limits_are_outcomes(store: Store) -> None:
    async def broken(effect: Effect, ctx: BranchContext[Any]) -> Any:
        raise RuntimeError("no such thing")

    async def slow(effect: Effect, ctx: BranchContext[Any]) -> Any:
        await asyncio.sleep(60)

    bench = Bench(store, {"broken": broken, "slow": slow})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        outcomes = await root.perform_all([tool("broken"), tool("slow", timeout_s=0.05)])
        return " | ".join(f"{o.status}: {o.error}" for o in outcomes)

    answer = (await bench.drive(main)).answer
    assert "error: broken failed: RuntimeError: no such thing" in answer
    assert "timeout: slow was stopped after its time limit of 0.05 s" in answer


async def test_derived_ids_do_not_depend_on_the_run(store: Store) -> None:
    async def name(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return [ctx.id("a_"), ctx.id(), ctx.random.random(), ctx.key.n]

    bench = Bench(store, {"name": name})
    for run in ("run_a", "run_b"):
        await bench.create(run)

    async def main(root: BranchContext[Any]) -> str:
        return str([(await root.perform(tool("name"))).value for _ in range(2)])

    one = await bench.drive(main, "run_a")
    two = await bench.drive(main, "run_b")
    assert one.answer_text == two.answer_text
    assert len(set(eval(one.answer)[0][:2])) == 2  # noqa: S307


async def test_now_is_the_recorded_time(store: Store) -> None:
    bench = Bench(store, {"echo": _echo})
    manifest = await bench.create()
    seen = []

    async def main(root: BranchContext[Any]) -> str:
        assert root.now == manifest.created
        outcome = await root.perform(tool("echo", x=1))
        assert outcome.ended_at == root.now
        seen.append(root.now)
        return ""

    await bench.drive(main)
    await bench.drive(main)
    assert seen[0] == seen[1] > manifest.created


# -- capabilities ------------------------------------------------------------------------------------------------------


async def test_a_sub_agent_is_refused_what_is_not_on_its_list(store: Store) -> None:
    async def sub(effect: Effect, ctx: BranchContext[Any]) -> Any:
        allowed = await ctx.perform(tool("echo", x=1))
        refused = await ctx.perform(tool("other", x=1))
        nested = await ctx.perform(agent("sub2", ["other"]))
        return [allowed.status, refused.status, str(refused.error), nested.status, str(nested.error)]

    async def sub2(effect: Effect, ctx: BranchContext[Any]) -> Any:
        raise AssertionError("never entered")

    bench = Bench(store, {"echo": _echo, "other": _echo, "sub": sub, "sub2": sub2})
    await bench.create()

    async def main(root: BranchContext[Any]) -> Any:
        return (await root.perform(agent("sub", ["echo"]))).value

    answer = eval((await bench.drive(main)).answer)  # noqa: S307
    assert answer[0] == "ok"
    assert answer[1] == "denied" and "'other' is not among the tools this agent may use: done, echo" in answer[2]
    assert answer[3] == "denied" and "which its caller may not use itself" in answer[4]


# -- interruption ------------------------------------------------------------------------------------------------------


async def test_uncertain_once_effects_are_reported_not_repeated(store: Store) -> None:
    calls: list[Any] = []
    started = asyncio.Event()

    async def act(effect: Effect, ctx: BranchContext[Any]) -> Any:
        calls.append(effect.arguments["x"])
        if effect.arguments["x"] == 2 and not started.is_set():
            started.set()
            await asyncio.sleep(60)
        return effect.arguments["x"]

    bench = Bench(store, {"act": act})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        outcomes = await root.perform_all([tool("act", x=x, instance="i") for x in (1, 2, 3)])
        return " ".join(o.status for o in outcomes)

    task = asyncio.ensure_future(bench.drive(main))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    record = await store.get_run("run_test")
    assert record is not None and record.status is RunStatus.CANCELLED
    assert "interrupted" in await bench.types()
    result = await bench.drive(main)
    assert result.answer == "ok uncertain skipped"
    assert calls == [1, 2]
    assert (await bench.drive(main)).answer == "ok uncertain skipped"
    assert (await bench.replay(main)) is not None


@pytest.mark.parametrize(("mode", "policy", "expected"), [(Mode.REPEATABLE, "report", 2), (Mode.ONCE, "retry", 2)])
async def test_repeatable_effects_and_retry_repeat(store: Store, mode: Mode, policy: str, expected: int) -> None:
    calls = 0
    started = asyncio.Event()

    async def act(effect: Effect, ctx: BranchContext[Any]) -> Any:
        nonlocal calls
        calls += 1
        if not started.is_set():
            started.set()
            await asyncio.sleep(60)
        return "done"

    bench = Bench(store, {"act": act})
    await bench.create(on_uncertain=policy)

    async def main(root: BranchContext[Any]) -> str:
        return str((await root.perform(tool("act", mode))).value)

    task = asyncio.ensure_future(bench.drive(main))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await bench.drive(main)).answer == "done"
    assert calls == expected
    attempts = [(e.type, e.attempt) for e in await store.load("run_test") if e.span == "/#1"]
    assert attempts == [("started", 1), ("interrupted", 1), ("started", 2), ("completed", 2)]


async def test_a_failing_model_fails_the_run_and_a_resume_asks_again(store: Store) -> None:
    up = False

    async def ask(effect: Effect, ctx: BranchContext[Any]) -> Any:
        if not up:
            raise ModelUnavailableError("the model server at http://127.0.0.1:1 refused the connection")
        return Outcome(value="answer", usage=Usage(requests=1, input_tokens=7, output_tokens=3))

    async def slow(effect: Effect, ctx: BranchContext[Any]) -> Any:
        await asyncio.sleep(0.05)
        return "kept"

    bench = Bench(store, {"ask": ask, "slow": slow})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        outcomes = await root.perform_all([tool("ask", Mode.REPEATABLE), tool("slow")])
        return " ".join(str(o.value) for o in outcomes)

    result = await bench.drive(main)
    assert (result.status, result.error_type) == (RunStatus.FAILED, "ModelUnavailableError")
    up = True
    result = await bench.drive(main)
    assert result.answer == "answer kept"
    assert bench.handler.executed.count("/#2") == 1


async def test_doors_own_errors_are_not_swallowed(store: Store) -> None:
    async def bad(effect: Effect, ctx: BranchContext[Any]) -> Any:
        raise DoorError("a rule was broken")

    bench = Bench(store, {"bad": bad})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(tool("bad"))
        return ""

    assert (await bench.drive(main)).error == "a rule was broken"


# -- waiting -----------------------------------------------------------------------------------------------------------


async def test_a_question_in_one_branch_does_not_cost_the_others_their_work(store: Store) -> None:
    from agentorchestra.core.clock import SystemClock
    from agentorchestra.core.events import Answered, new_event

    async def asker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return await ctx.ask("Which colour?")

    async def worker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        await asyncio.sleep(0.02)
        outcomes = [await ctx.perform(tool("echo", x=x)) for x in range(3)]
        return sum(int(str(o.value)) for o in outcomes)

    bench = Bench(store, {"echo": _echo, "asker": asker, "worker": worker})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        calls = [agent("worker", ["echo"]), agent("asker"), agent("worker", ["echo"])]
        return str([o.value for o in await root.perform_all(calls)])

    result = await bench.drive(main)
    assert result.status is RunStatus.WAITING
    assert [q.question for q in result.questions] == ["Which colour?"]
    assert len(bench.handler.executed) == 3 + 6
    key = result.questions[0].key
    body = Answered(question=key, answer="blue", by="test")
    await asyncio.wrap_future(store.append("run_test", None, [new_event(body, ts=SystemClock().now())]))
    result = await bench.drive(main)
    assert result.answer == "[3, 'blue', 3]"
    assert len(bench.handler.executed) == 3 + 6 + 1
    assert (await bench.replay(main)) is not None


async def test_code_that_catches_everything_cannot_hide_that_the_run_waits(store: Store) -> None:
    async def careless(effect: Effect, ctx: BranchContext[Any]) -> Any:
        try:
            return await ctx.ask("May I?")
        except Exception:
            return "swallowed"

    bench = Bench(store, {"careless": careless})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        return str((await root.perform(tool("careless", Mode.COMPOSITE))).value)

    result = await bench.drive(main)
    assert result.status is RunStatus.WAITING and len(result.questions) == 1


async def test_on_ask_deny_is_an_outcome(store: Store) -> None:
    async def asker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return await ctx.ask("Which colour?")

    bench = Bench(store, {"asker": asker})
    await bench.create(on_ask="deny")

    async def main(root: BranchContext[Any]) -> str:
        return str((await root.perform(agent("asker"))).value)

    assert "nobody can be asked" in (await bench.drive(main)).answer


# -- budgets -----------------------------------------------------------------------------------------------------------


def _request(purpose: str = "decision") -> Effect:
    return Effect(
        kind=EffectKind.REQUEST_MODEL, component="m@1.0.0", arguments={}, mode=Mode.REPEATABLE, purpose=purpose
    )


async def test_the_final_reserve_keeps_the_last_answer_affordable(store: Store) -> None:
    async def m(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return Outcome(value={"model": "m"}, usage=Usage(requests=1, input_tokens=60, output_tokens=40))

    bench = Bench(store, {"m": m}, bounds={"m": Bound(tokens=100)})
    await bench.create(budget=Budget(tokens=350))

    async def main(root: BranchContext[Any]) -> str:
        seen = []
        while True:
            outcome = await root.perform(_request())
            seen.append(outcome.status)
            if outcome.status == "limited":
                seen.append((await root.perform(_request("final"))).status)
                return " ".join(seen)

    result = await bench.drive(main)
    assert result.answer == "ok ok limited ok"
    assert result.usage.tokens == 300
    assert (await bench.drive(main)).answer == result.answer


async def test_exhaustion_is_a_run_event_and_a_resume_may_raise_it(store: Store) -> None:
    from agentorchestra.core.clock import SystemClock
    from agentorchestra.core.events import BudgetRaised, new_event

    async def m(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return Outcome(value={"model": "m"}, usage=Usage(requests=1, input_tokens=100))

    bench = Bench(store, {"m": m}, bounds={"m": Bound(tokens=100)})
    await bench.create(budget=Budget(tokens=250))

    async def main(root: BranchContext[Any]) -> str:
        for _ in range(4):
            outcome = await root.perform(_request("summary"))
            assert outcome.ok, outcome.error
        return "all four"

    # A summary keeps no reserve of its own, so the third one is refused as an outcome of the run's budget.
    first = await bench.drive(main)
    assert first.status is RunStatus.BUDGET_EXHAUSTED
    assert first.error is not None and "250 tokens does not cover the next effect" in first.error
    assert "budget_exhausted" in await bench.types()
    run = await bench.load()
    raised = new_event(BudgetRaised(budget={"tokens": 1000}), ts=SystemClock().now())
    await asyncio.wrap_future(store.append("run_test", run.epoch, [raised]))
    second = await bench.drive(main)
    assert second.answer == "all four"
    assert second.usage.tokens == 400
    assert bench.handler.executed == ["/#1", "/#2", "/#3", "/#4"]


async def test_a_carve_is_a_ceiling_under_the_chain(store: Store) -> None:
    async def m(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return Outcome(value={"model": "m"}, usage=Usage(requests=1, input_tokens=100))

    async def sub(effect: Effect, ctx: BranchContext[Any]) -> Any:
        seen = []
        for _ in range(4):
            seen.append((await ctx.perform(_request())).status)
        return seen

    bench = Bench(store, {"m": m, "sub": sub}, bounds={"m": Bound(tokens=100)})
    await bench.create(budget=Budget(tokens=10_000))

    async def main(root: BranchContext[Any]) -> str:
        subs = [agent("sub", budget={"tokens": 300}), agent("sub", budget={"steps": 2})]
        return str([o.value for o in await root.perform_all(subs)])

    result = await bench.drive(main)
    assert result.answer == "[['ok', 'ok', 'limited', 'limited'], ['ok', 'limited', 'limited', 'limited']]"


async def test_outstanding_holds_queue_instead_of_refusing(store: Store) -> None:
    running = peak = 0

    async def m(effect: Effect, ctx: BranchContext[Any]) -> Any:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.01)
        running -= 1
        return Outcome(value={"model": "m"}, usage=Usage(requests=1, input_tokens=1))

    bench = Bench(store, {"m": m}, bounds={"m": Bound(tokens=100)})
    await bench.create(budget=Budget(tokens=250))

    async def main(root: BranchContext[Any]) -> str:
        return " ".join(o.status for o in await root.perform_all([_request("summary") for _ in range(6)]))

    assert (await bench.drive(main)).answer == "ok ok ok ok ok ok"
    assert peak == 2


async def test_the_time_limit_ends_the_run_with_its_status(store: Store) -> None:
    begun = 0

    async def slow(effect: Effect, ctx: BranchContext[Any]) -> Any:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    bench = Bench(store, {"echo": _echo, "slow": slow})

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(tool("echo", x=1))
        await root.perform_all([tool("slow", Mode.REPEATABLE) for _ in range(3)])
        return "never"

    for active_s in (0.2, 4.0, 80.0):  # a busy machine may need more until all three have begun
        run, begun = f"run_{active_s}", 0
        await bench.create(run, budget=Budget(active_s=active_s))
        assert (await bench.drive(main, run)).status is RunStatus.TIMED_OUT
        if begun == 3:
            break
    assert (await bench.types(run)).count("interrupted") == 3
    assert (await bench.types(run))[-1] == "run_ended"
    again = await bench.drive(main, run)
    assert again.status is RunStatus.TIMED_OUT


# -- secrets -----------------------------------------------------------------------------------------------------------


async def test_secrets_never_reach_the_log(store: Store) -> None:
    async def leak(effect: Effect, ctx: BranchContext[Any]) -> Any:
        ctx.vars["kept"] = f"x {ctx.secret('TOKEN')}"
        return {"header": f"Bearer {ctx.secret('TOKEN')}"}

    bench = Bench(store, {"leak": leak}, secrets={"TOKEN": "s3cr3t-value-1234"})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        outcome = await root.perform(tool("leak", given="s3cr3t-value-1234"))
        return str(outcome.value)

    result = await bench.drive(main)
    assert result.answer == "{'header': 'Bearer secret:TOKEN'}"
    log = str([event.body for event in await store.load("run_test")])
    assert "s3cr3t-value-1234" not in log
    assert "secret:TOKEN" in log
