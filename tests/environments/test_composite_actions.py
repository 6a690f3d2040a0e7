"""Actions that do nothing but perform effects: they act on their own environment, are entered again, hold no lock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
from tests.runtime.support import Bench

from agentorchestra.core.conditions import Condition
from agentorchestra.core.content import Block, MediaBlock, TextBlock
from agentorchestra.core.effects import Mode
from agentorchestra.core.errors import ToolDefinitionError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import RunStatus
from agentorchestra.environments.nested import NestedEnvironment
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.tea.calling.environment import ActionEnvironment, action


class Till(ActionEnvironment):
    """A till."""

    name = "till"

    def __init__(self) -> None:
        self.coins = 0

    @action
    def put(self, amount: int) -> int:
        """Put coins in."""
        if amount < 0:
            raise ToolError(f"{amount} coins cannot be put in; take them out")
        self.coins += amount
        return self.coins

    @action(effect="composite")
    async def put_twice(self, ctx: RunContext[Any], amount: int) -> str:
        """Put coins in two times, and ask how it was."""
        await self.call("put", {"amount": amount}, ctx)
        there = (await self.call("put", {"amount": amount}, ctx)).content
        assert self.coins == 0  # it holds nothing of the instance that it acts on
        return f"{there} coins; {await ctx.ask('All well?')}"

    @action(effect="read")
    async def receipt(self, ctx: RunContext[Any]) -> ToolResult:
        """What is in it, as a file too."""
        ref = await ctx.artifact("receipt.txt", str(self.coins).encode())
        return ToolResult(TextBlock(text=f"{self.coins} coins"), artifacts=(ref,))

    async def state_for(self, ctx: RunContext[Any]) -> tuple[Block, ...]:
        """Who looks, and what there is."""
        return (TextBlock(text=f"{ctx.manifest.task}: {self.coins}"),)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    made = MemoryStore()
    await made.open()
    yield made
    await made.close()


def _act(name: str, **arguments: Any) -> Any:
    return action_effect(Till(), name, arguments)


async def test_a_composite_action_acts_on_its_environment_and_is_entered_again(store: MemoryStore) -> None:
    one = Bench(store, {}, environments={"till": Till})
    await one.create()

    async def main(root: BranchContext[Any]) -> str:
        outcome = await root.perform(_act("put_twice", amount=3))
        state = await root.perform(_act("state"))
        seen = state.blocks()[0]
        assert not isinstance(seen, MediaBlock)
        return f"{outcome.value} | {seen.text}"

    assert _act("put_twice", amount=3).mode is Mode.COMPOSITE and _act("put", amount=3).mode is Mode.ONCE
    assert (await one.drive(main)).status is RunStatus.WAITING  # for the person; the coins are in

    async def yes(*_: Any) -> str:
        return "yes"

    answering = Bench(store, {}, environments={"till": Till}, asker=yes)
    ended = await answering.drive(main)
    assert ended.answer == "6 coins; yes | a task: 6", ended.error
    assert (await answering.replay(main)) is not None


async def test_what_it_calls_fails_as_an_action_does_and_artifacts_are_the_outcomes(store: MemoryStore) -> None:
    one = Bench(store, {}, environments={"till": Till})
    await one.create()

    async def main(root: BranchContext[Any]) -> str:
        wrong = await root.perform(_act("put_twice", amount=-1))
        paper = await root.perform(_act("receipt"))
        return f"{wrong.status}: {wrong.error} | {[one.name for one in paper.artifacts]}"

    ended = await one.drive(main)
    assert ended.answer == "error: -1 coins cannot be put in; take them out | ['receipt.txt']"


def test_what_it_may_not_have() -> None:
    with pytest.raises(
        ToolDefinitionError, match="'pay' is composite: put its conditions on the actions that it calls"
    ):

        @action(effect="composite", before=[Condition("it is open", lambda self, arguments: True)])
        def pay(self: Any) -> None:
            """Pay."""


def test_it_is_no_action_of_a_whole() -> None:
    class Shop(NestedEnvironment):
        """A shop."""

        name = "shop"
        parts: ClassVar[Any] = {"till": Till}

    assert [one.name for one in Shop().actions()] == ["till_put", "till_receipt"]
