"""Rival steps and runs: what each may do, what is done once for the winner, what a short budget leaves."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Bound, Budget
from agentorchestra.core.content import TextBlock, text_of
from agentorchestra.core.effects import Effect, EffectKind, Mode, Tag
from agentorchestra.core.errors import ModelUnavailableError, UsageError
from agentorchestra.core.messages import Message, ToolCall
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.log.store import MemoryStore, SqliteStore
from agentorchestra.loop import Choose, Decide, Decision, Parts, Rival, Seen, State, beam, best_of, environment_state
from agentorchestra.runtime.context import BranchContext
from tests.runtime.counter import Counter
from tests.runtime.support import Bench, agent, best_by, tool
from tests.runtime.test_worlds import act


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ws")
    await made.open()
    yield made
    await made.close()


def said(calls: Sequence[Effect], step: int, **more: Any) -> Decision:
    """A decision with these calls."""
    asked = tuple(ToolCall(id=f"c{step}.{place}", name=one.name, arguments={}) for place, one in enumerate(calls))
    message = Message(role="assistant", content=(TextBlock(text=f"step {step}"),), tool_calls=asked)
    return Decision(message=message, tool_calls=asked, calls=tuple(calls), **more)


def number(state: State) -> int:
    """Which candidate a state belongs to, from 1; 1 without rivals."""
    return int(state.candidate.partition("/")[0] or 1)


def until(steps: int, decide: Decide, **more: Any) -> Parts:
    """The parts of an agent that ends after so many steps."""

    async def stop(state: State, ctx: BranchContext[Any]) -> State:
        done = AgentResult(answer=" ".join(text_of(one.content) for one in state.messages))
        return state if state.step < steps else state.model_copy(update={"result": done})

    return Parts(decide=decide, observe=(stop,), **more)


def third(seen: list[str]) -> Choose:
    """Chooses the third candidate, and keeps what it was shown."""

    async def score(state: State, ctx: BranchContext[Any]) -> float:
        seen.append(text_of(state.messages[-1].content))
        return float(number(state) == 3)

    return best_by(score)


@pytest.mark.parametrize(
    "one_way",
    [
        {"mode": Mode.ONCE},
        {"mode": Mode.REPEATABLE, "tags": [Tag.WRITE]},
        {"mode": Mode.COMPOSITE, "tags": [Tag.SEND]},
        {"mode": Mode.PURE, "tags": [Tag.SPEND]},
    ],
)
async def test_a_call_that_cannot_be_taken_back_is_made_once_for_the_winner(
    store: Store, one_way: dict[str, Any]
) -> None:
    made: list[str] = []

    async def send(effect: Effect, ctx: BranchContext[Any]) -> str:
        made.append(f"send {effect.arguments['to']}")
        return "sent"

    async def look(effect: Effect, ctx: BranchContext[Any]) -> str:
        made.append("look")
        return "seen"

    bench = Bench(store, {"send": send, "look": look})
    await bench.create()
    shown: list[str] = []

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        return said([tool("look", Mode.PURE), tool("send", to=number(state), **one_way)], state.step)

    async def main(root: BranchContext[Any]) -> AgentResult | None:
        return (await beam(State(messages=()), root, until(1, decide), choose=third(shown), candidates=4)).result

    result = await bench.drive(main)
    assert sorted(made) == ["look"] * 4 + ["send 3"]
    assert all(text.startswith("Proposed: it cannot be taken back") for text in shown) and len(shown) == 4
    assert result.answer == "step 0 seen sent"
    assert (await bench.drive(main)).answer == result.answer and len(made) == 5
    assert (await bench.replay(main)) is not None


async def test_a_sub_agent_is_a_proposal_too(store: Store) -> None:
    told: list[str] = []

    async def helper(effect: Effect, ctx: BranchContext[Any]) -> str:
        told.append(str(effect.arguments["instruction"]))
        return "helped"

    bench = Bench(store, {"helper": helper})
    await bench.create()

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        return said([agent("helper", instruction=str(number(state)))], state.step)

    async def main(root: BranchContext[Any]) -> AgentResult | None:
        return (await beam(State(messages=()), root, until(1, decide), choose=third([]), candidates=3)).result

    assert (await bench.drive(main)).answer == "step 0 helped" and told == ["3"]


async def test_rivals_look_at_an_environment_that_cannot_branch_and_the_winner_acts(store: Store) -> None:
    made: list[Counter] = []

    def counter() -> Counter:
        made.append(Counter("none"))
        return made[-1]

    bench = Bench(store, {}, environments={"counter": counter})
    await bench.create()
    seen: list[str] = []

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        seen.append(f"{state.step}: {text_of(view[0].blocks)}")
        # The look comes after the addition, so it waits with it.
        return said([act("look"), act("add", by=number(state)), act("look")], state.step)

    async def main(root: BranchContext[Any]) -> str:
        parts = until(2, decide, perceive=(environment_state("counter@1.0.0"),))
        done = await beam(State(messages=()), root, parts, choose=third([]), candidates=3)
        assert done.result is not None
        return f"{done.result.answer} | {(await root.perform(act('look'))).value}"

    result = await bench.drive(main)
    assert result.answer == "step 0 0 3 3 step 1 3 6 6 | 6"
    assert sum(one.acted for one in made) == 2 and len(set(seen)) == 2 and len(seen) == 6
    assert (await bench.replay(main)) is not None


async def test_a_beam_goes_on_alone_after_what_cannot_be_taken_back(store: Store) -> None:
    made: list[str] = []

    async def send(effect: Effect, ctx: BranchContext[Any]) -> str:
        made.append(f"{effect.arguments['step']}.{effect.arguments['to']}")
        return "sent"

    bench = Bench(store, {"send": send}, environments={"counter": Counter})
    await bench.create()
    worlds: dict[int, set[str]] = {}

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        worlds.setdefault(state.step, set()).add(ctx.world)
        calls = [act("add", by=number(state))]
        if state.step == 1 and number(state) == 2:
            calls.append(tool("send", step=state.step, to=number(state)))
        return said(calls, state.step)

    async def score(state: State, ctx: BranchContext[Any]) -> float:
        return float(number(state))

    async def main(root: BranchContext[Any]) -> str:
        parts = until(3, decide)
        await beam(State(messages=()), root, parts, choose=best_by(score), width=2, candidates=2)
        return str((await root.perform(act("look"))).value)

    # Two are kept after the first step, the winner alone after the second: 2 + 2 + 2.
    assert (await bench.drive(main)).answer == "6" and made == ["1.2"]
    assert [len(worlds[step]) for step in range(3)] == [2, 4, 2]
    assert (await bench.drive(main)).answer == "6" and len(made) == 1


async def test_what_is_called_from_within_a_call_is_refused_in_rivals(store: Store) -> None:
    made: list[str] = []

    async def send(effect: Effect, ctx: BranchContext[Any]) -> str:
        made.append("send")
        return "sent"

    async def both(effect: Effect, ctx: BranchContext[Any]) -> str:
        return str((await ctx.perform(tool("send"))).error)

    bench = Bench(store, {"send": send, "both": both})
    await bench.create()

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        return said([tool("both", Mode.COMPOSITE)], state.step)

    async def main(root: BranchContext[Any]) -> AgentResult | None:
        return (await beam(State(messages=()), root, until(1, decide), choose=third([]), candidates=3)).result

    assert "send was not called: several rivals do this work" in (await bench.drive(main)).answer
    assert made == []


async def test_the_best_of_whole_runs_brings_its_world(store: Store) -> None:
    bench = Bench(store, {"send": lambda *_: pytest.fail("it cannot be taken back")}, environments={"counter": Counter})
    await bench.create(budget=Budget(steps=9))
    shares: list[Any] = []

    async def drive(state: State, ctx: BranchContext[Any]) -> State:
        shares.append(ctx.node.limits.steps)
        refused = await ctx.perform(tool("send"))
        await ctx.perform(act("add", by=number(state)))
        value = (await ctx.perform(act("add", by=10))).value
        return state.model_copy(update={"result": AgentResult(answer=f"{value} {refused.status}")})

    async def score(state: State, ctx: BranchContext[Any]) -> float:
        return float(number(state) == 2)

    async def main(root: BranchContext[Any]) -> str:
        done = await best_of(State(messages=()), root, drive, choose=best_by(score), runs=3)
        assert done.result is not None
        return f"{done.result.answer} {(await root.perform(act('look'))).value}"

    result = await bench.drive(main)
    assert result.answer == "12 denied 12" and shares == [3, 3, 3]
    assert (await bench.drive(main)).answer == result.answer and (await bench.replay(main)) is not None


# -- budgets and models ------------------------------------------------------------------------------------------------


def request(label: str, *, final: bool) -> Effect:
    """A decision's RequestModel."""
    return Effect(
        kind=EffectKind.REQUEST_MODEL,
        component="model@1.0.0",
        arguments={"label": label},
        mode=Mode.REPEATABLE,
        purpose="final" if final else "decision",
    )


def asking(asked: list[tuple[int, str]]) -> Decide:
    """Decides by asking a model; notes the step and the kept state of each that was answered."""

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        final = bool(state.must_answer)
        outcome = await ctx.perform(request(f"{state.step} {state.candidate}", final=final))
        if not outcome.ok:
            limited = outcome.error if outcome.status == "limited" else None
            return Decision(shortage=limited, problem=None if limited else outcome.error, final=final)
        asked.append((state.step, state.memory))
        return said([], state.step, memory=f"{state.memory}{number(state)}", final=final, words="done" if final else "")

    return decide


async def answers(effect: Effect, ctx: BranchContext[Any]) -> str:
    """A model that has always an answer."""
    return "yes"


async def _length(state: State, ctx: BranchContext[Any]) -> float:
    return float(number(state))


@pytest.mark.parametrize(
    ("steps", "width", "rounds"),
    [
        (5, 1, [3, 1, 1]),  # the second round has room for one, the third is the last answer
        (8, 2, [3, 4, 1]),  # the second round has room for four of six: two for each kept state
        (1, 1, [1]),
    ],
)
async def test_a_short_budget_cuts_candidates_evenly(store: Store, steps: int, width: int, rounds: list[int]) -> None:
    bench = Bench(store, {"model": answers}, bounds={"model": Bound()})
    await bench.create(budget=Budget(steps=steps))
    asked: list[tuple[int, str]] = []

    async def main(root: BranchContext[Any]) -> AgentResult | None:
        parts = Parts(decide=asking(asked))
        done = await beam(State(messages=()), root, parts, choose=best_by(_length), width=width, candidates=3)
        return done.result

    result = await bench.drive(main)
    assert list(Counted(step for step, _ in asked).values()) == rounds
    assert {len({*Counted(group for at, group in asked if at == step).values()}) for step, _ in asked} == {1}
    assert result.status is RunStatus.PARTIAL and result.answer
    asked.clear()
    again = await bench.drive(main)
    assert again.answer == result.answer_text and (await bench.replay(main)) is not None


async def test_without_a_model_for_some_candidates_the_others_go_on(store: Store) -> None:
    async def down(effect: Effect, ctx: BranchContext[Any]) -> str:
        if str(effect.arguments["label"]).endswith(("1/3", "3/3")):
            raise ModelUnavailableError("nobody answers")
        return "yes"

    bench = Bench(store, {"model": down})
    await bench.create()
    asked: list[tuple[int, str]] = []
    came: list[str] = []

    async def main(root: BranchContext[Any]) -> AgentResult | None:
        async def choose(rivals: Sequence[Rival], ctx: BranchContext[Any]) -> Sequence[Rival]:
            came.append(" ".join(one.state.memory for one in rivals))
            return rivals

        parts = Parts(decide=asking(asked))
        return (await beam(State(messages=(), max_steps=3), root, parts, choose=choose, candidates=3)).result

    result = await bench.drive(main)
    assert result.status is RunStatus.PARTIAL and came == ["2", "22", "222"] and result.answer == "step 2"
    assert (await bench.drive(main)).answer == result.answer


async def test_without_any_model_the_run_fails_as_it_does_without_rivals_and_goes_on_later(store: Store) -> None:
    async def down(effect: Effect, ctx: BranchContext[Any]) -> str:
        if away:
            raise ModelUnavailableError("nobody answers")
        return "yes"

    bench = Bench(store, {"model": down})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        parts = Parts(decide=asking([]))
        return (await beam(State(messages=(), max_steps=2), root, parts, choose=best_by(_length), candidates=3)).memory

    away = True
    failed = await bench.drive(main)
    assert (failed.status, failed.error) == (RunStatus.FAILED, "nobody answers")
    away = False
    assert (await bench.drive(main)).answer == "13"


async def test_what_was_told_meanwhile_is_heard_once_whatever_becomes_of_the_rivals(store: Store) -> None:
    async def down(effect: Effect, ctx: BranchContext[Any]) -> str:
        if ctx.world != "main":
            raise ModelUnavailableError("nobody answers")
        return "yes"

    bench = Bench(store, {"model": down})
    await bench.create()
    told = ["look north"]

    async def hear(state: State, ctx: BranchContext[Any]) -> Seen | None:
        return Seen(blocks=(TextBlock(text=told.pop()),), keep=True) if told else None

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        outcome = await ctx.perform(request(f"{state.step} {state.candidate}", final=False))
        heard = tuple(Message(role="user", content=one.blocks) for one in view)
        return said([], state.step, mail=heard) if outcome.ok else Decision(problem=outcome.error, mail=heard)

    async def main(root: BranchContext[Any]) -> AgentResult | None:
        parts = replace(until(1, decide), perceive=(hear,))
        return (await beam(State(messages=()), root, parts, choose=best_by(_length), candidates=3)).result

    assert (await bench.drive(main)).answer == "look north step 0"


async def test_a_run_among_rivals_ends_where_even_its_last_answer_is_not_paid(store: Store) -> None:
    short = Decision(shortage="the budget is spent")
    state = State(messages=(), memory="so far").add(short, [])
    assert state.must_answer == "budget" and not state.is_over
    ended = state.add(short, []).result
    assert ended is not None and (ended.status, ended.memory) == (RunStatus.PARTIAL, "so far")


async def test_a_beam_of_nothing_is_refused(store: Store) -> None:
    bench = Bench(store, {})
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        for width, candidates in ((0, 3), (1, 0)):
            with pytest.raises(UsageError, match=f"a beam of width {width} with {candidates} candidates is empty"):
                parts = Parts(decide=asking([]))
                choose = best_by(_length)
                await beam(State(messages=()), root, parts, choose=choose, width=width, candidates=candidates)
        return "refused"

    assert (await bench.drive(main)).answer == "refused"
