"""A run goes on with other code than recorded it: its outcomes hold, and nothing acts that nobody allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentorchestra.core.effects import Effect, Mode
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store.memory import MemoryStore
from agentorchestra.runtime.context import BranchContext
from tests.runtime.support import Bench, agent, tool


class _Tide:
    """Tools and a main function as two versions of the code have them: the texts that they ask differ."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.hold = asyncio.Event()

    async def look(self, effect: Effect, ctx: BranchContext[Any]) -> str:
        self.calls.append(f"look {effect.arguments['text']}")
        return str(effect.arguments["text"])

    async def act(self, effect: Effect, ctx: BranchContext[Any]) -> str:
        self.calls.append(f"act {effect.arguments['text']}")
        self.hold.set()
        if len(self.calls) == 2:  # the process ends in the middle of it
            await asyncio.Event().wait()
        return "acted"

    def main(self, look: str, act: str) -> Any:
        async def of(root: BranchContext[Any]) -> str:
            seen = await root.perform(tool("look", Mode.REPEATABLE, text=look))
            done = await root.perform(tool("act", Mode.REPEATABLE, text=act))
            return f"{seen.value} {done.status}"

        return of


@pytest.fixture
async def tide() -> AsyncIterator[tuple[_Tide, Bench]]:
    """A run that was stopped while its second tool acted."""
    tide, store = _Tide(), MemoryStore()
    await store.open()
    bench = Bench(store, {"look": tide.look, "act": tide.act, "helper": tide.look})
    await bench.create()
    driving = asyncio.ensure_future(bench.drive(tide.main("low", "go"), code="a"))
    await tide.hold.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    yield tide, bench
    await store.close()


async def test_the_same_code_that_asks_otherwise_has_diverged(tide: tuple[_Tide, Bench]) -> None:
    made, bench = tide
    result = await bench.drive(made.main("high", "go"), code="a")
    assert (result.status, result.error_type) == (RunStatus.FAILED, "DivergedError")
    assert made.calls == ["look low", "act go"]


async def test_what_other_code_recorded_holds(tide: tuple[_Tide, Bench]) -> None:
    made, bench = tide
    result = await bench.drive(made.main("high", "go"), code="b")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "low ok")
    assert made.calls == ["look low", "act go", "act go"]  # it is repeatable, and the call that was allowed
    notes = [str(event.body["message"]) for event in await bench.store.load("run_test") if event.type == "noted"]
    assert len(notes) == 1
    assert "on the run asks otherwise than it did before, and what is recorded holds" in notes[0]
    replayed = await bench.replay(made.main("high", "go"))
    assert replayed is not None and replayed.answer == "low ok"


async def test_what_was_to_act_is_that_very_call_or_none(tide: tuple[_Tide, Bench]) -> None:
    """Policy judged it once, before it began: another one in its place would be judged by nobody."""
    made, bench = tide
    result = await bench.drive(made.main("low", "further"), code="b")
    assert (result.status, result.error_type) == (RunStatus.FAILED, "DivergedError")
    assert made.calls == ["look low", "act go"]


async def test_another_kind_of_effect_is_a_divergence_for_any_code(tide: tuple[_Tide, Bench]) -> None:
    made, bench = tide

    async def main(root: BranchContext[Any]) -> str:
        return str((await root.perform(agent("helper", text="low"))).value)

    result = await bench.drive(main, code="b")
    assert (result.status, result.error_type) == (RunStatus.FAILED, "DivergedError")
    assert made.calls == ["look low", "act go"]
