"""Environments made of smaller ones: local rules hold, new actions come with the whole, one instance of each part."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.counter import Counter
from tests.runtime.support import Bench

from agentorchestra.core.conditions import Condition
from agentorchestra.core.content import without_numbers
from agentorchestra.core.effects import EffectKind, Tag
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.protocols import RunContext, instance_of
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.environments.files.environment import FilesEnvironment
from agentorchestra.environments.nested import NestedEnvironment
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect, action_tags
from agentorchestra.tea.calling.environment import ActionEnvironment, action
from agentorchestra.tea.calling.tool import tool
from agentorchestra.tea.transformations.t2e import t2e
from agentorchestra.workspace import Workspace


class Room(ActionEnvironment):
    """A room with things; the door is shut at first."""

    name = "room"

    def __init__(self) -> None:
        self.things = ["milk"]
        self.door = "shut"

    @action
    def open_door(self) -> str:
        """Open the door."""
        self.door = "open"
        return "it is open"

    @action(
        before=[Condition("the door is open", lambda self, arguments: self.door == "open")], effect=("write", "send")
    )
    def take(self, thing: str) -> str:
        """Take a thing.

        Args:
            thing: which one.
        """
        self.things.remove(thing)
        return thing

    @action(effect="read")
    def look(self) -> list[str]:
        """What is there."""
        return self.things


class House(NestedEnvironment):
    """Two rooms and a corridor."""

    name = "house"
    parts = {"kitchen": Room, "living": Room}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.carried = 0

    @action
    async def carry(self, ctx: RunContext[Any], thing: str) -> str:
        """Carry a thing from the kitchen to the living room.

        Args:
            thing: which one.
        """
        await self.do("kitchen", "take", {"thing": thing}, ctx)
        self.part("living").things.append(thing)
        self.carried += 1
        return f"carried {thing}"


class Office(NestedEnvironment):
    """A house with files."""

    name = "office"
    parts = {"house": House, "files": FilesEnvironment}  # noqa: RUF012


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    made = MemoryStore()
    await made.open()
    yield made
    await made.close()


def test_the_parts_keep_their_schemas_tags_and_rules() -> None:
    house = House()
    assert [one.name for one in house.actions()] == [
        "carry",
        *(f"{room}_{name}" for room in ("kitchen", "living") for name in ("open_door", "take", "look")),
    ]
    taken = next(one for one in house.actions() if one.name == "kitchen_take")
    assert taken.parameters == Room().actions()[1].parameters and taken.description == "Take a thing."
    assert action_tags(house, "kitchen_take") == {Tag.WRITE, Tag.SEND} and action_tags(house, "carry") == {Tag.WRITE}
    assert not house.mutates("living_look") and house.mutates("living_take")
    assert house.rules().startswith("Two rooms and a corridor.\n\nkitchen:\nA room with things")
    assert "- take: only when the door is open" in house.rules()
    assert House().content_hash == house.content_hash != Office().content_hash
    assert (instance_of(house), instance_of(Office())) == ("house", "folder")
    assert action_effect(Office(), "files_write", {}).mode == "repeatable"


async def test_local_rules_hold_and_the_whole_does_more(store: MemoryStore) -> None:
    one = Bench(store, {}, environments={"house": House})
    await one.create()
    crash = True

    def act(name: str, **arguments: Any) -> Any:
        return action_effect(House(), name, arguments)

    async def main(root: BranchContext[Any]) -> str:
        shut = await root.perform(act("kitchen_take", thing="milk"))
        assert shut.error == "house does not allow kitchen_take now: not true that the door is open"
        through = await root.perform(act("carry", thing="milk"))
        assert through.error == "kitchen does not allow take now: not true that the door is open"
        await root.perform(act("kitchen_open_door"))
        assert (await root.perform(act("carry", thing="milk"))).value == "carried milk"
        if crash:
            raise RuntimeError("the process ends here")
        state = await root.perform(act("state"))
        return "\n".join(getattr(block, "text", "") for block in state.blocks())

    assert (await one.drive(main)).status is RunStatus.FAILED
    crash = False
    answer = (await one.drive(main)).answer
    assert answer == ('carried: 1\nkitchen:\nthings: []\ndoor: "open"\nliving:\nthings: ["milk","milk"]\ndoor: "shut"')
    assert (await one.replay(main)) is not None


async def test_a_part_that_works_on_the_folder_works_on_the_runs(store: MemoryStore, tmp_path: Path) -> None:
    one = Bench(store, {}, environments={"office": Office, "files": FilesEnvironment}, folder=tmp_path)
    await one.create()
    crash = True

    def act(name: str, **arguments: Any) -> Any:
        return action_effect(Office(), name, arguments)

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(act("files_write", path="a.txt", content="a"))
        before = root.vars["env:folder"]
        await root.perform(act("house_kitchen_open_door"))
        await root.perform(act("house_carry", thing="milk"))
        read = await root.perform(action_effect(FilesEnvironment(), "read", {"path": "a.txt"}))
        left, right = root.candidates(2)
        await left.perform(act("files_write", path="left.txt", content=""))
        await right.perform(act("house_living_open_door"))
        if crash:
            raise RuntimeError("the process ends here")
        await root.adopt(right)
        state = await root.perform(act("state"))
        text = "\n".join(getattr(block, "text", "") for block in state.blocks())
        back = await root.perform(back_to(before))
        first = await root.perform(act("state"))
        again = "\n".join(getattr(block, "text", "") for block in first.blocks())
        return f"{without_numbers(read.blocks()[0])}|{back.status}|{text}|{again}"

    def back_to(snapshot: Any) -> Any:
        wanted = action_effect(Office(), "state", {})
        return wanted.model_copy(update={"kind": EffectKind.RESTORE, "arguments": {"snapshot": snapshot}})

    await one.drive(main)
    crash = False
    ended = await one.drive(main)
    assert ended.answer, ended.error
    read, back, text, again = ended.answer.split("|")
    assert (read, back) == ("a", "ok")
    assert "carried: 1" in text and text.count('door: "open"') == 2 and "left.txt" not in text and "a.txt" in text
    assert "carried: 0" in again and 'door: "open"' not in again and "a.txt (1 bytes)" in again


async def test_it_is_used_like_any_other(tmp_path: Path) -> None:
    settings = Settings(model="offline")
    (tmp_path / "ws").mkdir()
    given: dict[str, Any] = {"house": House}
    async with Workspace(tmp_path / "ws", settings=settings, environments=given, store=MemoryStore()) as ws:
        assert (await ws.ecp.invoke("house", "kitchen_open_door", {})).value == "it is open"
        wrong = await ws.ecp.invoke("house", "carry", {"thing": 3})
        assert "Its arguments: thing (string, required)" in str(wrong.error)
        assert "kitchen_take" in [one.name for one in (await ws.ecp.info("house")).operations]
        result = await ws.run("house_kitchen_look()", system="react", model="offline")
        assert "milk" in result.answer  # its own house: the door of this one is shut


def test_it_branches_as_its_weakest_part_does() -> None:
    class Loose(NestedEnvironment):
        """With a counter that keeps no snapshots."""

        name = "loose"
        parts = {"room": Room, "counter": lambda: Counter("none")}  # noqa: RUF012

    assert (Loose().branching, Office().branching) == ("none", "snapshot")


def test_what_cannot_be_a_part_is_refused() -> None:
    @tool(effect="pure")
    def press() -> str:
        """Press."""
        return "pressed"

    class Panel(NestedEnvironment):
        """With tools as a part."""

        name = "panel"
        parts = {"tools": t2e([press], name="pressing")}  # noqa: RUF012

    with pytest.raises(ToolDefinitionError, match="'pressing' cannot be a part of 'panel': its actions perform"):
        Panel()

    class Twice(NestedEnvironment):
        """Two actions of one name."""

        name = "twice"
        parts = {"a_open": Room, "a": lambda: Named()}  # noqa: RUF012

    class Named(ActionEnvironment):
        """Its action reads like another part's."""

        name = "named"

        @action(effect="read")
        def open_look(self) -> str:
            """Look."""
            return ""

    with pytest.raises(ToolDefinitionError, match="'twice' has two actions 'a_open_look'"):
        Twice()
