"""Parts of a run, driven in the same process over the memory store: what they do, and what they hand back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Bound, Budget, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Provenance, Tag
from agentorchestra.core.errors import StoreUnavailableError
from agentorchestra.core.events import Event, Told, new_event
from agentorchestra.core.ids import PART, EffectKey, part_id
from agentorchestra.core.policy import Policy, PolicyView, Verdict
from agentorchestra.core.settings import PolicySettings
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store.memory import MemoryStore
from agentorchestra.runtime import job
from agentorchestra.runtime.budget import BudgetNode
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.run import Run, wait_for
from agentorchestra.trust.policy import AllowAll, DefaultPolicy
from tests.runtime.beside import Beside, Done
from tests.runtime.support import Bench, agent, tool
from tests.runtime.support import _top as top

NAMES = ("ann", "ben", "cid")


async def boss(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Delegates to three."""
    outcomes = await ctx.perform_all([agent(name, ["work", "other"]) for name in NAMES])
    return [one.value for one in outcomes]


async def main(root: BranchContext[Any]) -> Any:
    """Calls the top agent."""
    return (await root.perform(agent("boss", ["work", "other"]))).value


async def work(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Costs ten tokens."""
    return Outcome(value=f"{effect.arguments['x']} worked", usage=Usage(input_tokens=10), trust=Trust.UNTRUSTED)


async def worker(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Works once."""
    return (await ctx.perform(tool("work", Mode.REPEATABLE, tags=[Tag.READ], x=effect.name))).value


def bench_of(worker: Any = worker, *, boss: Any = boss, **more: Any) -> Bench:
    """A store with a boss and three workers."""
    functions = {"boss": boss, "work": work, "other": work, **dict.fromkeys(NAMES, worker)}
    return Bench(MemoryStore(), functions, **more)


async def driven(bench: Bench, **fields: Any) -> tuple[Beside, Run, Any]:
    """A run whose delegations are parts, driven to its end."""
    await bench.store.open()
    await bench.create(**fields)
    beside = bench.services.elsewhere = Beside(bench, main)
    run = await bench.load()
    result = await job.drive(run, top(main))
    return beside, run, result


async def test_the_log_is_as_if_all_had_worked_here() -> None:
    here = bench_of()
    await here.store.open()
    await here.create()
    expected = await here.drive(main)
    bench = bench_of()
    beside, run, result = await driven(bench)
    assert (result.status, result.answer, result.usage) == (RunStatus.COMPLETED, expected.answer, expected.usage)
    assert beside.ended == {f"/1.boss#{n}": RunStatus.COMPLETED for n in (1, 2, 3)}
    assert Counter(key for key in bench.handler.executed if "#" in key and key.count("/") == 2) == {
        f"/1.boss/{n}.{name}#1": 1 for n, name in enumerate(NAMES, 1)
    }

    def rows(events: list[Event]) -> list[Any]:
        return sorted((one.branch, one.n, one.attempt, one.type) for one in events if one.branch)

    events = await bench.store.load("run_test")
    assert rows(events) == rows(await here.store.load("run_test"))
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    assert beside.listed == {"run_test"}
    assert [one.id for one in await bench.store.run_states()] == ["run_test"]
    assert run.budget.spent == Bound(tokens=30)
    await bench.replay(main)
    loaded = await bench.load(replay=True)
    assert loaded.ledger.spent_under("/") == run.budget.spent
    assert loaded.usage_by_model == run.usage_by_model


class Counting:
    """A policy of one's own, which may count."""

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        """Allow."""
        return Verdict()


SPENDING = Effect(
    kind=EffectKind.INVOKE_TOOL,
    component="other@1.0.0",
    arguments={"x": "other"},
    tags=frozenset({Tag.SPEND}),
    provenance=(Provenance(kind="web", ref="x", trust=Trust.UNTRUSTED),),
)
BEYOND: dict[str, tuple[Effect, Policy | None]] = {
    "ask_human": (Effect(kind=EffectKind.ASK_HUMAN, component="human@1", arguments={"question": "?"}), None),
    "wait": (Effect(kind=EffectKind.WAIT, component="timer@1", arguments={"mail": False, "timeout_s": 0.0}), None),
    "send_message": (
        Effect(kind=EffectKind.SEND_MESSAGE, component="mail@1", arguments={"to": ["cid"], "content": "x"}),
        None,
    ),
    "spawn": (agent("ann", kind=EffectKind.SPAWN), None),
    "spends": (SPENDING, DefaultPolicy(PolicySettings(plan="off"))),
}


@pytest.mark.parametrize("what", BEYOND)
async def test_what_concerns_the_run_is_handed_back(what: str) -> None:
    effect, policy = BEYOND[what]
    asked: list[bool] = []

    async def worker(one: Effect, ctx: BranchContext[Any]) -> Any:
        first = await ctx.perform(tool("work", Mode.REPEATABLE, tags=[Tag.READ], x=one.name))
        if one.name == "ben":
            asked.append(ctx.run.manifest.part_of is None)
            outcome = await ctx.perform(effect)
            assert ctx.run.manifest.part_of is None, "it went on in the part"
            return f"{first.value}, {outcome.status}"
        return first.value

    async def asker(question: Any) -> bool:
        return True

    bench = bench_of(worker, policy=policy, asker=asker)
    beside, _, result = await driven(bench)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "['ann worked', 'ben worked, ok', 'cid worked']")
    assert beside.ended == {
        "/1.boss#1": RunStatus.COMPLETED,
        "/1.boss#2": RunStatus.BLOCKED,
        "/1.boss#3": RunStatus.COMPLETED,
    }
    assert sum("handed back: " in error for error in beside.errors) == 1
    assert asked == [False, True]
    work = Counter(key for key in bench.handler.executed if key.startswith("/1.boss/") and key.endswith("#1"))
    assert work == {f"/1.boss/{n}.{name}#1": 1 for n, name in enumerate(NAMES, 1)}
    await bench.replay(main)


async def test_a_policy_of_ones_own_judges_in_the_run() -> None:
    beside, _, result = await driven(bench_of(policy=Counting()))
    assert (result.status, {*beside.ended.values()}) == (RunStatus.COMPLETED, {RunStatus.BLOCKED})


async def test_a_part_whose_code_goes_another_way_is_handed_back() -> None:
    async def wayward(effect: Effect, ctx: BranchContext[Any]) -> Any:
        if ctx.run.manifest.part_of is not None:
            await ctx.perform(agent("cid"))  # in place of the delegations
        return await boss(effect, ctx)

    async def lost(effect: Effect, ctx: BranchContext[Any]) -> Any:
        if ctx.run.manifest.part_of is None:
            return await boss(effect, ctx)
        return "all done"

    for way in (wayward, lost):
        beside, _, result = await driven(bench_of(boss=way))
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "['ann worked', 'ben worked', 'cid worked']")
        assert len(beside.ended) == 3
        if way is wayward:
            assert "it asks otherwise than its run" in beside.errors[0]


async def test_an_agent_that_works_here_may_have_parts_of_its_own() -> None:
    class Deep(Beside):
        async def __call__(self, run: Run, name: str, key: EffectKey, *args: Any, **more: Any) -> Done | None:
            return None if key.branch == "/1.boss" else await super().__call__(run, name, key, *args, **more)

    async def boss(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return [one.value for one in await ctx.perform_all([agent(name, ["work"]) for name in ("ann", "ben")])]

    async def worker(one: Effect, ctx: BranchContext[Any]) -> Any:
        first = (await ctx.perform(tool("work", Mode.REPEATABLE, tags=[Tag.READ], x=one.name))).value
        if one.name == "cid":
            return first
        return [first, (await ctx.perform(agent("cid", ["work"]))).value]

    bench = bench_of(worker, boss=boss)
    await bench.store.open()
    await bench.create()
    beside = bench.services.elsewhere = Deep(bench, main)
    result = await bench.drive(main)
    assert result.answer == "[['ann worked', 'cid worked'], ['ben worked', 'cid worked']]"
    assert beside.ended == {"/1.boss/1.ann#2": RunStatus.COMPLETED, "/1.boss/2.ben#2": RunStatus.COMPLETED}
    work = Counter(key for key in bench.handler.executed if key.endswith(("ann#1", "ben#1", "cid#1")))
    assert {*work.values()} == {1} and len(work) == 4
    await bench.replay(main)


async def test_who_cannot_take_a_part_over_does_not_double_it() -> None:
    class Dies(Beside):
        async def __call__(self, *args: Any, **more: Any) -> Done | None:
            await super().__call__(*args, **more)
            raise StoreUnavailableError("gone")  # before anything was taken over

    bench = bench_of()
    await bench.store.open()
    await bench.create()
    bench.services.elsewhere = Dies(bench, main)
    with pytest.raises(StoreUnavailableError):
        await bench.drive(main)
    bench.services.elsewhere = None
    executed = len([key for key in bench.handler.executed if key.count("/") == 2])
    result = await bench.drive(main)
    assert (result.status, result.error_type) == (RunStatus.FAILED, "PartElsewhereError")
    name = part_id("run_test", EffectKey("/1.boss", 1))
    assert result.error == (
        f"the sub-agent at /1.boss#1 of run run_test is a job of its own ({name}), which only a worker takes over; "
        "let one go on with the run: `agentorchestra submit --again run_test`"
    )
    assert len([key for key in bench.handler.executed if key.count("/") == 2]) == executed


async def test_a_worker_that_fails_in_its_part_is_tried_here() -> None:
    async def fails(effect: Effect, ctx: BranchContext[Any]) -> Any:
        value = await worker(effect, ctx)
        if ctx.run.manifest.part_of is not None:
            from agentorchestra.core.errors import ModelRequestError

            raise ModelRequestError("no model here")
        return value

    bench = bench_of(fails)
    beside, _, result = await driven(bench)
    assert {*beside.ended.values()} == {RunStatus.FAILED}
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "['ann worked', 'ben worked', 'cid worked']")
    await bench.replay(main)


async def test_shares_of_the_budget_are_never_more_than_it() -> None:
    async def worker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        for _ in range(5):
            await ctx.perform(tool("work", Mode.REPEATABLE, tags=[Tag.READ], x=effect.name))
        return effect.name

    bench = bench_of(worker, bounds={"work": Bound(tokens=10)})
    beside, run, result = await driven(bench, budget=Budget(tokens=100))
    assert [one.tokens for one in beside.lent] == [25, 25, 25]
    assert {*beside.ended.values()} == {RunStatus.BLOCKED}, "a share that is spent is no outcome"
    assert result.status is RunStatus.BUDGET_EXHAUSTED
    assert run.budget.spent == Bound(tokens=100) and run.budget.held == Bound()


async def test_a_carve_is_what_its_part_may_spend() -> None:
    async def boss(effect: Effect, ctx: BranchContext[Any]) -> Any:
        carve = {"tokens": 30}
        return [one.value for one in await ctx.perform_all([agent(name, ["work"], budget=carve) for name in NAMES])]

    async def worker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        outcomes = [await ctx.perform(tool("work", Mode.REPEATABLE, tags=[Tag.READ], x=effect.name)) for _ in range(4)]
        return [one.status for one in outcomes]

    beside, run, result = await driven(
        bench_of(worker, boss=boss, bounds={"work": Bound(tokens=10)}), budget=Budget(tokens=1000)
    )
    assert [one.tokens for one in beside.lent] == [30, 30, 30]
    assert run.budget.spent == Bound(tokens=90)
    assert result.answer == str([["ok", "ok", "ok", "limited"]] * 3)


async def test_what_is_told_meanwhile_reaches_the_run() -> None:
    told = Effect(kind=EffectKind.RECEIVE, component="inbox@1", mode=Mode.PURE)

    async def worker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        if ctx.run.manifest.part_of is not None and effect.name == "ann":
            body = Told(text="hurry")
            await wait_for(bench.store.append("run_test", None, [new_event(body, ts=ctx.run.clock.now())]))
        return (await ctx.perform(told)).value

    async def boss(effect: Effect, ctx: BranchContext[Any]) -> Any:
        parts = [(await ctx.perform(agent(name))).value for name in NAMES[:1]]
        run = ctx.run
        run.on_external([one for one in await bench.store.load("run_test") if not one.branch])
        return [*parts, (await ctx.perform(told)).value]

    bench = bench_of(worker, boss=boss)
    _, _, result = await driven(bench)
    assert result.answer == "[[], ['hurry']]"


@pytest.mark.parametrize(
    ("effect", "private", "alone"),
    [
        (tool("note", tags=[Tag.WRITE], x="a"), False, True),
        (tool("note", tags=[Tag.WRITE], x="/etc/passwd"), False, False),
        (tool("pay", tags=[Tag.SPEND], x="a task"), False, False),
        (tool("read", Mode.REPEATABLE, tags=[Tag.READ, Tag.NETWORK], url="https://example.org/a"), False, True),
        (tool("read", Mode.REPEATABLE, tags=[Tag.READ, Tag.NETWORK], url="https://example.org/a"), True, False),
        (tool("read", Mode.REPEATABLE, tags=[Tag.READ, Tag.NETWORK], url="https://example.org/b"), False, False),
        (tool("denied", tags=[Tag.READ]), False, False),
        (tool("allowed", tags=[Tag.SEND], x="b"), False, True),
    ],
)
def test_which_calls_the_default_policy_allows_a_part(
    effect: Effect, private: bool, alone: bool, tmp_path: Path
) -> None:
    settings = PolicySettings(deny=("denied",), allow=("allowed",))
    links = frozenset({"https://example.org/a"})
    view = PolicyView(user_content=("a task",), folder=tmp_path, links=lambda: links, private=lambda: private)
    assert DefaultPolicy(settings, folder=tmp_path).alone(effect, view) is alone
    assert AllowAll().alone(effect, view)


def test_what_is_lent_is_held_until_it_is_given_back() -> None:
    root = BudgetNode("/", Budget(tokens=100, cost_usd=1.0, steps=10))
    child = BudgetNode("/1.a", Budget(steps=4), root)
    root.final_reserve = Bound(steps=1, tokens=20)
    lent = child.lend(2)
    assert lent is not None
    limits, hold = lent
    assert limits == Budget(tokens=40, cost_usd=0.5, steps=4)
    assert root.held == Bound(tokens=40, cost_usd=0.5, steps=4)
    hold.release()
    assert root.held == Bound() == root.spent
    root.spent = Bound(steps=10)
    assert child.lend(2) is None


def test_a_part_has_one_id() -> None:
    key = EffectKey("/1.boss", 2)
    assert part_id("run_a", key) == part_id("run_a", key) != part_id("run_a", EffectKey("/1.boss", 3))
    assert part_id("run_a", key).startswith(PART)
