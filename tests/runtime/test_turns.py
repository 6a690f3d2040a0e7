"""Agents that write to each other, each of whose turns is a part of the run: what the log has, and what is repeated."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import pytest

from agentorchestra.core.budget import Bound, Budget, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Tag
from agentorchestra.core.events import Event
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store.memory import MemoryStore
from agentorchestra.runtime import job
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.run import Run
from tests.runtime.beside import Beside, Done
from tests.runtime.support import Bench, agent, tool
from tests.runtime.support import _top as top

ROUNDS = 2
THINK = Effect(kind=EffectKind.REQUEST_MODEL, component="think@1.0.0", mode=Mode.REPEATABLE, purpose="decision")


def mail(sender: str, to: str, content: str) -> Effect:
    """A message."""
    arguments: dict[str, Any] = {"sender": sender, "thread": "t", "content": content, "to": [to]}
    return Effect(kind=EffectKind.SEND_MESSAGE, component="mail@1.0.0", arguments=arguments, mode=Mode.PURE)


async def heard(ctx: BranchContext[Any]) -> list[str]:
    """What is written to who waits."""
    effect = Effect(kind=EffectKind.WAIT, component="mail@1.0.0", arguments={"actor": ctx.actor}, mode=Mode.REPEATABLE)
    return [one.content for one in ctx.mail(await ctx.perform(effect))]


async def main(root: BranchContext[Any]) -> Any:
    """Calls the top agent."""
    return (await root.perform(agent("boss", ["work", "listen"]))).value


async def boss(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Asks two agents, each round with what they said last."""
    for name in ("ann", "ben"):
        await ctx.perform(agent(name, ["work", "listen"], kind=EffectKind.SPAWN))
    said = ["begin"]
    for _ in range(ROUNDS):
        for name in ("ann", "ben"):
            await ctx.perform(mail("boss", name, "; ".join(sorted(said))))
        said = []
        while len(said) < 2:
            said += await heard(ctx)
    return sorted(said)


async def think(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """A decision, which costs ten tokens."""
    return Outcome(value="thought", usage=Usage(input_tokens=10), trust=Trust.AGENT)


async def work(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Says who worked on what, and whether in a part."""
    return f"{effect.arguments['x']} on {effect.arguments['on']}"


async def listen(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Waits for a message and works on it."""
    (one,) = await ctx.wait_for_mail()
    return (await ctx.perform(tool("work", tags=[Tag.WRITE], x="listened", on=one.content))).value


async def actor(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Each time thinks, works, thinks again, and replies."""
    rounds = 0
    while True:
        rounds += 1
        for words in await heard(ctx):
            await ctx.perform(THINK)
            done = await ctx.perform(tool("work", tags=[Tag.WRITE], x=f"{effect.name}{rounds}", on=words))
            await ctx.perform(THINK)
            await ctx.perform(mail(effect.name, "boss", str(done.value)))


FUNCTIONS: dict[str, Any] = {"boss": boss, "ann": actor, "ben": actor, "think": think, "work": work, "listen": listen}
BEN = "ben2 on ann1 on begin; ben1 on begin"
ANSWER = str([BEN.replace("ben2", "ann2"), BEN])


def rows(events: list[Event]) -> list[Any]:
    """What a log has of effects, in no order."""
    return sorted((one.branch, one.n, one.attempt, one.type) for one in events if one.branch and one.type != "woken")


async def driven(functions: dict[str, Any], **fields: Any) -> tuple[Bench, Beside, Any]:
    """A run whose turns are parts, driven to its end."""
    bench = Bench(MemoryStore(), functions)
    await bench.store.open()
    await bench.create(**fields)
    beside = bench.services.elsewhere = Beside(bench, main)
    return bench, beside, await bench.drive(main)


async def test_the_log_is_as_if_all_had_worked_here() -> None:
    here = Bench(MemoryStore(), FUNCTIONS)
    await here.store.open()
    await here.create()
    expected = await here.drive(main)
    assert (expected.status, expected.answer) == (RunStatus.COMPLETED, ANSWER)
    bench, beside, result = await driven(FUNCTIONS)
    assert (result.answer, result.usage, result.steps) == (ANSWER, expected.usage, expected.steps)
    turns = Counter(beside.done)
    assert turns == {("/1.boss#1", RunStatus.BLOCKED): ROUNDS, ("/1.boss#2", RunStatus.BLOCKED): ROUNDS}
    assert {*beside.errors} == {"handed back: SendMessage concerns the whole run"}
    events = await bench.store.load("run_test")
    assert rows(events) == rows(await here.store.load("run_test"))
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    assert beside.listed == {"run_test"}
    assert [one.id for one in await bench.store.run_states()] == ["run_test"]
    done = Counter(key for key in bench.handler.executed if "/1.boss/" in key)
    assert {*done.values()} == {1} and len(done) == 2 * 3 * ROUNDS
    await bench.replay(main)
    loaded = await bench.load(replay=True)
    assert loaded.ledger.spent_under("/").tokens == 2 * 2 * ROUNDS * 10


async def test_an_agent_that_ends_in_its_turn_ends_in_the_run() -> None:
    async def once(effect: Effect, ctx: BranchContext[Any]) -> Any:
        (words,) = await heard(ctx)
        await ctx.perform(THINK)
        return f"{effect.name} read {words!r}"

    async def asker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        handles = [await ctx.perform(agent(name, ["work"], kind=EffectKind.SPAWN)) for name in ("ann", "ben")]
        for name in ("ann", "ben"):
            await ctx.perform(mail("boss", name, "hello"))
        joined = cast("Any", await ctx.join([cast("Any", one.value)["key"] for one in handles]))
        return [*joined.value["results"].values()]

    bench, beside, result = await driven({**FUNCTIONS, "boss": asker, "ann": once, "ben": once})
    assert result.answer == str([f"{name} read 'hello'" for name in ("ann", "ben")])
    assert beside.done == [("/1.boss#1", RunStatus.COMPLETED), ("/1.boss#2", RunStatus.COMPLETED)]
    completed = [one.span for one in await bench.store.load("run_test") if one.type == "completed"]
    assert len(completed) == len({*completed}) and {"/1.boss#1", "/1.boss#2"} <= {*completed}
    await bench.replay(main)


async def test_who_delegates_in_its_turn_has_its_sub_agent_there_and_one_that_leads_has_parts() -> None:
    places: list[bool] = []

    async def sub(effect: Effect, ctx: BranchContext[Any]) -> Any:
        if not ctx.run.replaying:
            places.append(ctx.run.manifest.part_of is not None)
        return "a result"

    async def delegates(effect: Effect, ctx: BranchContext[Any]) -> Any:
        while True:
            await heard(ctx)
            await ctx.perform(THINK)
            outcome = await ctx.perform(agent("sub"))
            await ctx.perform(mail(effect.name, "boss", f"{effect.name} had {outcome.value}"))

    async def leads(effect: Effect, ctx: BranchContext[Any]) -> Any:
        said = await boss(effect, ctx)
        own = [one.value for one in await ctx.perform_all([agent("sub"), agent("sub")])]
        return [*said, *own]

    bench, beside, result = await driven({**FUNCTIONS, "boss": leads, "ann": delegates, "ben": delegates, "sub": sub})
    assert result.answer == str(["ann had a result", "ben had a result", "a result", "a result"])
    assert places == [True] * (2 * ROUNDS + 2)
    assert [status for key, status in beside.done if key.startswith("/1.boss#") and key[-1] not in "12"] == [
        RunStatus.COMPLETED,
        RunStatus.COMPLETED,
    ]
    await bench.replay(main)


async def test_an_agent_that_only_delegates_has_parts_of_its_own() -> None:
    async def sub(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return (await ctx.perform(tool("work", tags=[Tag.WRITE], x="sub", on=effect.arguments["instruction"]))).value

    async def passes_on(effect: Effect, ctx: BranchContext[Any]) -> Any:
        while True:
            for words in await heard(ctx):
                done = await ctx.perform(agent("sub", ["work"], instruction=words))
                await ctx.perform(mail(effect.name, "boss", f"{effect.name}: {done.value}"))

    bench, beside, result = await driven({**FUNCTIONS, "ann": passes_on, "ben": passes_on, "sub": sub})
    assert result.answer == str([f"{name}: sub on ann: sub on begin; ben: sub on begin" for name in ("ann", "ben")])
    assert sorted(beside.done) == [
        (f"/1.boss/{n}.{name}#{2 + 3 * turn}", RunStatus.COMPLETED)
        for n, name in ((1, "ann"), (2, "ben"))
        for turn in range(ROUNDS)
    ]
    done = Counter(key for key in bench.handler.executed if ".sub#" in key)
    assert {*done.values()} == {1} and len(done) == 2 * ROUNDS
    await bench.replay(main)


async def test_a_tool_that_waits_ends_the_turn_and_goes_on_in_the_run() -> None:
    async def listens(effect: Effect, ctx: BranchContext[Any]) -> Any:
        while True:
            await ctx.perform(THINK)
            said = await ctx.perform(tool("listen", Mode.COMPOSITE))
            assert said.ok, said.error
            await ctx.perform(THINK)
            await ctx.perform(mail(effect.name, "boss", f"{effect.name} {said.value}"))

    functions = {**FUNCTIONS, "ann": listens, "ben": listens}
    here = Bench(MemoryStore(), functions)
    await here.store.open()
    await here.create()
    expected = await here.drive(main)
    assert expected.status is RunStatus.COMPLETED
    bench, beside, result = await driven(functions)
    assert (result.status, result.answer) == (expected.status, expected.answer)
    assert {*beside.errors} == {
        "handed back: Wait concerns the whole run",
        "handed back: SendMessage concerns the whole run",
    }
    done = Counter(key for key in bench.handler.executed if "/1.boss/" in key)
    # The code of a composite tool is entered again; what it did is not done again.
    assert {key for key, count in done.items() if count > 1} == {
        f"/1.boss/{n}.{name}#{2 + 4 * turn}" for n, name in ((1, "ann"), (2, "ben")) for turn in range(ROUNDS)
    }
    worked = {key for key in done if ".listen" in key}
    assert worked == {key for key in here.handler.executed if ".listen" in key} and len(worked) == 2 * ROUNDS
    await bench.replay(main)


async def test_a_share_that_is_spent_is_no_outcome() -> None:
    async def hungry(effect: Effect, ctx: BranchContext[Any]) -> Any:
        await heard(ctx)
        for _ in range(5):
            await ctx.perform(THINK)
        await ctx.perform(mail(effect.name, "boss", effect.name))

    async def asker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        for name in ("ann", "ben"):
            await ctx.perform(agent(name, ["work"], kind=EffectKind.SPAWN))
            await ctx.perform(mail("boss", name, "go"))
        said: list[str] = []
        while len(said) < 2:
            said += await heard(ctx)
        return sorted(said)

    bench = Bench(
        MemoryStore(), {**FUNCTIONS, "boss": asker, "ann": hungry, "ben": hungry}, bounds={"think": Bound(tokens=10)}
    )
    await bench.store.open()
    await bench.create(budget=Budget(tokens=110))
    beside = bench.services.elsewhere = Beside(bench, main)
    run = await bench.load()
    result = await job.drive(run, top(main))
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "['ann', 'ben']")
    assert all(one.tokens is not None and one.tokens < 110 / 2 for one in beside.lent), beside.lent
    assert any("its share of the budget is spent" in error for error in beside.errors)
    assert (run.budget.spent, run.budget.held) == (Bound(tokens=100, steps=10), Bound())
    await bench.replay(main)


@pytest.mark.parametrize("found", [True, False])
async def test_a_turn_whose_rows_were_not_taken_over_is_not_done_again(found: bool) -> None:
    class Keeps(Beside):
        """Takes the first part over when somebody drives the run again."""

        def __init__(self, bench: Bench) -> None:
            super().__init__(bench, main)
            self.made: dict[str, Done] = {}
            self.kept = asyncio.Event()

        async def __call__(self, run: Run, name: str, *args: Any, **more: Any) -> Done | None:
            if (kept := self.made.get(name)) is not None and more["anew"]:
                return kept
            done = await super().__call__(run, name, *args, **more)
            if done is not None and not self.made:
                self.made[name] = done
                self.kept.set()
                await asyncio.Event().wait()
            return done

    bench = Bench(MemoryStore(), FUNCTIONS)
    await bench.store.open()
    await bench.create()
    keeps = bench.services.elsewhere = Keeps(bench)
    driving = asyncio.create_task(bench.drive(main))
    await keeps.kept.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    if not found:
        bench.services.elsewhere = None
        before = [*bench.handler.executed]
        result = await bench.drive(main)
        assert (result.status, result.error_type) == (RunStatus.FAILED, "PartElsewhereError"), result
        assert "/1.boss#1 of run run_test is a job of its own" in str(result.error)
        assert not [key for key in bench.handler.executed[len(before) :] if "/1.ann" in key]
        return
    result = await bench.drive(main)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, ANSWER)
    done = Counter(key for key in bench.handler.executed if "/1.boss/" in key)
    assert {*done.values()} == {1} and len(done) == 2 * 3 * ROUNDS
    await bench.replay(main)
