"""Environments, rival worlds, beam, mail and joins through the door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.content import TextBlock
from agentorchestra.core.effects import Effect, EffectKind, Mode
from agentorchestra.core.messages import Message, ToolCall
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.log.store import MemoryStore, SqliteStore
from agentorchestra.loop import Decision, Parts, Seen, State, beam, environment_state, linear
from agentorchestra.runtime.context import BranchContext
from tests.runtime.counter import Counter
from tests.runtime.support import Bench, agent, best_by, tool


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ws")
    await made.open()
    yield made
    await made.close()


def act(action: str, *, instance: str = "counter", **arguments: Any) -> Effect:
    """An InvokeAction on the counter."""
    return Effect(
        kind=EffectKind.INVOKE_ACTION,
        component="counter@1.0.0",
        arguments={"action": action, "arguments": arguments},
        mode=Mode.ONCE if action == "add" else Mode.REPEATABLE,
        instance=instance,
    )


# -- environments ------------------------------------------------------------------------------------------------------


async def test_calls_on_one_instance_run_in_listed_order(store: Store) -> None:
    bench = Bench(store, {}, environments={"counter": Counter})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        many = await root.perform_all([act("add", by=1), act("add", by=10), act("look"), act("look", instance="b")])
        return str([o.value for o in many])

    assert (await bench.drive(main)).answer == "[1, 11, 11, 0]"
    assert (await bench.replay(main)) is not None


async def test_a_resume_restores_the_snapshot_and_never_acts_again(store: Store) -> None:
    made: list[Counter] = []

    def factory() -> Counter:
        made.append(Counter())
        return made[-1]

    bench = Bench(store, {}, environments={"counter": factory})
    await bench.create()
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(act("add", by=5))
        await root.perform(act("add", by=7))
        if crash:
            raise RuntimeError("the process ends here")
        await root.perform(act("add", by=100))
        return str((await root.perform(act("look"))).value)

    assert (await bench.drive(main)).status is RunStatus.FAILED
    crash = False
    assert (await bench.drive(main)).answer == "112"
    assert [one.acted for one in made] == [2, 1]
    assert not any(one.opened for one in made)


async def test_after_a_crash_a_branch_that_saw_an_older_state_takes_nothing_back(store: Store) -> None:
    steps: dict[str, asyncio.Event] = {}
    left: list[asyncio.Future[Any]] = []

    async def one(effect: Effect, ctx: BranchContext[Any]) -> str:
        await ctx.perform(act("add", by=1))
        steps["one began"].set()
        await steps["two acted"].wait()
        await ctx.perform(act("add", by=100))  # what the process recorded last
        steps["one acted"].set()
        if crash:
            await asyncio.Event().wait()
        await ctx.perform(act("add", by=1_000))
        steps["one ended"].set()
        return "ended"

    async def two(effect: Effect, ctx: BranchContext[Any]) -> str:
        await steps["one began"].wait()
        await ctx.perform(act("add", by=10))
        steps["two acted"].set()
        await steps["one ended"].wait()
        await ctx.perform(act("add", by=10_000))  # its branch saw 11 last
        return str((await ctx.perform(act("look"))).value)

    bench = Bench(store, {"one": one, "two": two}, environments={"counter": Counter})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        steps.update({name: asyncio.Event() for name in ("one began", "two acted", "one acted", "one ended")})
        both = asyncio.ensure_future(root.perform_all([agent("one", ["counter"]), agent("two", ["counter"])]))
        if crash:
            await steps["one acted"].wait()
            left.append(both)
            raise RuntimeError("the process ends here")
        return str((await both)[1].value)

    crash = True
    assert (await bench.drive(main)).status is RunStatus.FAILED
    for one_left in left:
        one_left.cancel()
    crash = False
    assert (await bench.drive(main)).answer == "11111"


async def test_without_snapshots_the_state_is_reported_lost(store: Store) -> None:
    bench = Bench(store, {}, environments={"counter": lambda: Counter("none")})
    await bench.create()
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        first = await root.perform(act("add", by=5))
        if crash:
            raise RuntimeError("the process ends here")
        lost = await root.perform(act("add", by=1))
        again = await root.perform(act("add", by=2))
        return f"{first.value} {lost.status} {again.value}"

    await bench.drive(main)
    crash = False
    assert (await bench.drive(main)).answer == "5 environment_lost 2"


async def test_unknown_actions_are_mistakes(store: Store) -> None:
    bench = Bench(store, {}, environments={"counter": Counter})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        outcome = await root.perform(act("jump"))
        return f"{outcome.status}: {outcome.error}"

    assert (await bench.drive(main)).answer == "mistake: counter has no action 'jump'; its actions: add, look"


# -- beam --------------------------------------------------------------------------------------------------------------


def _parts(log: list[str]) -> Parts:
    """Each candidate adds its own number; it sees the state of its own world."""

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        block = view[0].blocks[0]
        assert isinstance(block, TextBlock)
        log.append(f"{ctx.world}: {block.text}")
        by = int(state.candidate.partition("/")[0] or 1)
        effect = act("add", by=by)
        message = Message(role="assistant", content=(TextBlock(text=f"add {by}"),))
        call = ToolCall(id=f"c{state.step}", name="counter_add", arguments={"by": by})
        return Decision(message=message, tool_calls=(call,), calls=(effect,), memory=f"added {by}")

    async def stop(state: State, ctx: BranchContext[Any]) -> State:
        if state.step < 3:
            return state
        value = (await ctx.perform(act("look"))).value
        return state.model_copy(update={"result": AgentResult(answer=str(value))})

    return Parts(
        decide=decide, perceive=(environment_state("counter@1.0.0"),), observe=(stop,), environments=("counter",)
    )


async def _value(state: State, ctx: BranchContext[Any]) -> float:
    """The value of the world after the step."""
    value = (await ctx.perform(act("look"))).value
    assert isinstance(value, int)
    return float(-abs(value - 7))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("width", "expected"), [(1, "7"), (2, "7")])
async def test_beam_keeps_the_best_worlds_apart(store: Store, width: int, expected: str) -> None:
    log: list[str] = []
    bench = Bench(store, {}, environments={"counter": Counter})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        state = State(messages=(Message(role="user", content=(TextBlock(text="reach 7"),)),))
        done = await beam(state, root, _parts(log), choose=best_by(_value), width=width, candidates=3)
        # The winner's world is the run's from here on.
        after = await root.perform(act("add", by=100))
        assert done.result is not None
        return f"{done.result.answer} {after.value}"

    result = await bench.drive(main)
    assert result.answer == f"{expected} {100 + int(expected)}"
    assert (await bench.drive(main)).answer == result.answer
    replayed = await bench.replay(main)
    assert replayed is not None and replayed.answer == result.answer_text
    assert len({line.partition(":")[0] for line in log}) > 3


async def test_linear_over_the_same_parts(store: Store) -> None:
    bench = Bench(store, {}, environments={"counter": Counter})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        done = await linear(State(messages=()), root, _parts([]))
        assert State.model_validate_json(done.model_dump_json()) == done
        assert done.result is not None
        return done.result.answer

    assert (await bench.drive(main)).answer == "3"


# -- spawn, join, mail -------------------------------------------------------------------------------------------------


def spawn(name: str, **spec: Any) -> Effect:
    """A Spawn."""
    return agent(name, kind=EffectKind.SPAWN, **spec)


def send(sender: str, to: list[str], content: str) -> Effect:
    """A SendMessage."""
    arguments: dict[str, Any] = {"sender": sender, "to": to, "content": content}
    return Effect(kind=EffectKind.SEND_MESSAGE, component="mail@1.0.0", arguments=arguments, mode=Mode.PURE)


def wait(timeout_s: float | None = None, **more: Any) -> Effect:
    """A Wait."""
    arguments: dict[str, Any] = {**({} if timeout_s is None else {"timeout_s": timeout_s}), **more}
    return Effect(kind=EffectKind.WAIT, component="mail@1.0.0", arguments=arguments, mode=Mode.REPEATABLE)


def _key(outcome: Any) -> str:
    return str(outcome.value["key"])


async def test_two_actors_exchange_mail(store: Store) -> None:
    async def ping(effect: Effect, ctx: BranchContext[Any]) -> Any:
        heard = []
        for turn in range(3):
            await ctx.perform(send("ping", ["pong"], f"ping {turn}"))
            heard += [mail.content for mail in ctx.mail(await ctx.perform(wait(actor="ping")))]
        return heard

    async def pong(effect: Effect, ctx: BranchContext[Any]) -> Any:
        heard: list[str] = []
        while True:
            outcome = await ctx.perform(wait(actor="pong"))
            if outcome.value["reason"] == "all_waiting":  # type: ignore[index,call-overload]
                return heard
            for mail in ctx.mail(outcome):
                heard.append(mail.content)
                await ctx.perform(send("pong", ["ping"], mail.content.replace("ping", "pong")))

    bench = Bench(store, {"ping": ping, "pong": pong})
    await bench.create()

    async def main(root: BranchContext[Any]) -> Any:
        keys = [_key(await root.perform(spawn("ping"))), _key(await root.perform(spawn("pong")))]
        outcome = await root.join(keys)
        assert isinstance(outcome.value, dict)
        return outcome.value["results"]

    result = await bench.drive(main)
    assert "['pong 0', 'pong 1', 'pong 2']" in result.answer and "['ping 0', 'ping 1', 'ping 2']" in result.answer
    assert (await bench.drive(main)).answer == result.answer
    replayed = await bench.replay(main)
    assert replayed is not None and replayed.answer == result.answer_text


async def test_all_waiting_wakes_the_outermost_and_timers_count(store: Store) -> None:
    async def sleeper(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return (await ctx.perform(wait(actor=ctx.actor))).value["reason"]  # type: ignore[index,call-overload]

    async def timed(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return (await ctx.perform(wait(0.05, mail=False))).value["reason"]  # type: ignore[index,call-overload]

    bench = Bench(store, {"sleeper": sleeper, "timed": timed})
    await bench.create()

    async def main(root: BranchContext[Any]) -> Any:
        keys = [_key(await root.perform(spawn(name))) for name in ("sleeper", "timed")]
        first = (await root.perform(wait(actor="root"))).value["reason"]  # type: ignore[index,call-overload]
        outcome = await root.join(keys)
        assert isinstance(outcome.value, dict)
        return [first, *outcome.value["results"].values()]  # type: ignore[union-attr]

    result = await bench.drive(main)
    assert result.answer == "['all_waiting', 'all_waiting', 'timeout']"
    assert (await bench.drive(main)).answer == result.answer


async def test_join_any_records_the_winner_and_ends_the_losers(store: Store) -> None:
    ended: list[str] = []

    async def quick(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return "quick"

    async def slow(effect: Effect, ctx: BranchContext[Any]) -> Any:
        try:
            await ctx.perform(wait(60, mail=False))
        finally:
            ended.append("slow")

    bench = Bench(store, {"quick": quick, "slow": slow})
    await bench.create()

    async def race(effect: Effect, ctx: BranchContext[Any]) -> Any:
        keys = [_key(await ctx.perform(spawn(name))) for name in ("slow", "quick")]
        outcome = await ctx.join(keys, mode="any")
        assert isinstance(outcome.value, dict)
        return outcome.value["winner"]

    bench.handler.functions["race"] = race

    async def main(root: BranchContext[Any]) -> Any:
        return (await root.perform(tool("race", Mode.COMPOSITE))).value

    manifest = await bench.create("run_2", tools={**(await bench.load()).manifest.tools, "race": _pin()})
    assert "race" in manifest.tools
    result = await bench.drive(main, "run_2")
    assert result.answer == "/1.race#2"
    assert ended == ["slow"]
    assert "interrupted" in await bench.types("run_2")
    assert (await bench.drive(main, "run_2")).answer == result.answer
    assert (await bench.replay(main, "run_2")) is not None
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left


def _pin() -> Any:
    from agentorchestra.core.spec import Pinned

    return Pinned(version="1.0.0", content_hash="")


async def test_a_joined_failure_goes_up_and_a_question_lets_the_others_finish(store: Store) -> None:
    async def asks(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return await ctx.ask("May I?")

    async def works(effect: Effect, ctx: BranchContext[Any]) -> Any:
        await asyncio.sleep(0.02)
        return "worked"

    bench = Bench(store, {"asks": asks, "works": works})
    await bench.create()

    async def main(root: BranchContext[Any]) -> Any:
        keys = [_key(await root.perform(spawn(name))) for name in ("asks", "works")]
        return (await root.join(keys)).value

    result = await bench.drive(main)
    assert result.status is RunStatus.WAITING
    assert [q.question for q in result.questions] == ["May I?"]
    completed = [e for e in await store.load("run_test") if e.type == "completed"]
    assert [e.span for e in completed] == ["/#2"]
