"""`NestedEnvironment`: a larger environment made of smaller ones, which keep their own rules (000, app. A.1.1).

    class House(NestedEnvironment):
        \"\"\"A house with two rooms.\"\"\"

        name = "house"
        parts = {"kitchen": Kitchen, "living": LivingRoom}

        @action
        async def carry(self, ctx: RunContext[Any], thing: str) -> str:
            \"\"\"Carry a thing from the kitchen to the living room.\"\"\"
            await self.do("kitchen", "take", {"thing": thing}, ctx)
            return str(await self.do("living", "put", {"thing": thing}, ctx))

Its actions are those of its parts, as `kitchen_take` and `living_put`, with their schemas, tags and conditions, and its
own. Whoever has it acts on one instance of each part; a part that works on the run's folder works on the one that
`files` and `terminal` have too.
"""

from __future__ import annotations

import base64
import binascii
import copy
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Literal, cast

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from agentorchestra.core.conditions import Conditions, conditions_of, untrue
from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.effects import Tag
from agentorchestra.core.errors import ToolDefinitionError, ToolError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment, Ground, Grounded
from agentorchestra.environments.folder import FolderGround
from agentorchestra.runtime.open_environments import as_grounded
from agentorchestra.tea.calling.actions import composes, is_repeatable
from agentorchestra.tea.calling.environment import ActionEnvironment

Branching = Literal["stateless", "snapshot", "none"]

_OWN = "own"
_PARTS = "parts"


class NestedEnvironment(ActionEnvironment):
    """An environment with parts; see this module.

    Attributes:
        parts: makers of the parts, by the name under which each is a part.

    Raises:
        ToolDefinitionError: when it is made, for parts that cannot be parts of one.
    """

    parts: ClassVar[Mapping[str, Callable[[], Environment]]] = {}
    snapshot_type = "application/json"

    def __init__(self) -> None:
        self._parts: dict[str, Environment] = {name: make() for name, make in self.parts.items()}
        self._ground: FolderGround | None = None
        self._begun: Mapping[str, JsonValue] = {}
        self._where: dict[str, tuple[str, str]] = {}
        for name, part in self._parts.items():
            if bool(getattr(part, "composite", False)):
                raise ToolDefinitionError(
                    f"{part.name!r} cannot be a part of {self.name!r}: its actions perform effects of their own; make "
                    "tools of it, or use it beside"
                )
            for schema in part.actions():
                if composes(part, schema.name):  # it acts on its environment by name, which is the whole here
                    continue
                whole = f"{name}_{schema.name}"
                if whole in self._actions or whole in self._where:
                    raise ToolDefinitionError(f"{self.name!r} has two actions {whole!r}; give a part another name")
                self._where[whole] = (name, schema.name)
        own = type(self).content_hash
        self.content_hash = sha256_json([own, {name: part.content_hash for name, part in self._parts.items()}])
        # With state of its own it is never `stateless`.
        self.branching: Branching = "none" if "none" in [p.branching for p in self._parts.values()] else "snapshot"
        self.durable = bool(self._parts) and all(part.durable for part in self._parts.values())

    def part(self, name: str) -> Any:
        """Return a part, for the code of own actions. It ignores the part's rules; `do` checks them."""
        return self._parts[name]

    async def do(self, part: str, action: str, arguments: Mapping[str, JsonValue], ctx: Any) -> Any:
        """Perform an action of a part, with its rules.

        Args:
            action: by the part's name for it.
            arguments: as for the action.
            ctx: the context of the own action that does it.

        Raises:
            ToolError: what must hold before or after it does not, or it failed.
        """
        environment, inputs = self._parts[part], dict(arguments)
        conditions = conditions_of(environment, action)
        if missing := untrue(conditions.before, inputs):
            raise ToolError(f"{part} does not allow {action} now: not true that {' and '.join(missing)}")
        value = await environment.act(action, inputs, ctx)
        if violations := untrue(conditions.after, inputs, value):
            raise ToolError(f"{action} was done in {part}, but then it was not true that {' and '.join(violations)}")
        return value

    def actions(self) -> tuple[ToolSchema, ...]:
        schemas = {name: {action.name: action for action in part.actions()} for name, part in self._parts.items()}
        pairs = ((schemas[part][action], whole) for whole, (part, action) in self._where.items())
        return (*super().actions(), *(schema.model_copy(update={"name": whole}) for schema, whole in pairs))

    def _target(self, action: str) -> tuple[Environment, str] | None:
        target = self._where.get(action)
        return None if target is None else (self._parts[target[0]], target[1])

    def mutates(self, action: str) -> bool:
        target = self._target(action)
        return super().mutates(action) if target is None else target[0].mutates(target[1])

    def tags(self, action: str) -> frozenset[Tag]:
        if (target := self._target(action)) is None:
            return super().tags(action)
        tags = getattr(target[0], "tags", None)
        return frozenset() if tags is None else frozenset(tags(target[1]))

    def conditions(self, action: str) -> Conditions:
        """Return the conditions of the part: they hold in the larger environment too."""
        target = self._target(action)
        return super().conditions(action) if target is None else conditions_of(*target)

    def repeatable(self, action: str) -> bool:
        """Return True if the part says so; own actions are never repeatable."""
        target = self._target(action)
        return target is not None and is_repeatable(*target)

    @property
    def confined(self) -> bool:
        return bool(self._parts) and all(bool(getattr(part, "confined", False)) for part in self._parts.values())

    def rules(self) -> str:
        texts = [super().rules(), *(f"{name}:\n{part.rules()}" for name, part in self._parts.items() if part.rules())]
        return "\n\n".join(text for text in texts if text)

    async def act(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Any:
        target = self._target(action)
        try:
            if target is None:
                return await super().act(action, arguments, ctx)
            return await target[0].act(target[1], arguments, ctx)
        finally:
            if self.mutates(action):
                await self._keep_beside()

    async def state(self) -> tuple[Block, ...]:
        blocks = [*await super().state()]
        for name, part in self._parts.items():
            head = TextBlock(text=f"{name}:", source=Source(kind="environment", ref=self.name), trust=Trust.UNTRUSTED)
            blocks += [head, *await part.state()]
        return tuple(blocks)

    async def open(self, ctx: Any) -> None:
        """Open the parts; on a ground, put those that have none where it stands."""
        async with AsyncExitStack() as stack:
            for part in self._parts.values():
                await part.open(ctx)
                stack.push_async_callback(part.close)
            stack.pop_all()
        self._begun = await self._gather()
        if self._ground is not None and self._record:
            await self._scatter(self._record or self._begun)

    async def close(self) -> None:
        """Close the parts, whatever one of them says."""
        errors: list[Exception] = []
        for part in self._parts.values():
            try:
                await part.close()
            except Exception as exc:
                errors.append(exc)
        if self._ground is not None and self in self._ground.members:
            self._ground.members.remove(self)
        if errors:
            raise errors[0]

    async def snapshot(self) -> bytes:
        if self._ground is not None:
            return await self._ground.snapshot()
        return json.dumps(await self._gather(), sort_keys=True).encode()

    async def restore(self, data: bytes) -> None:
        if self._ground is not None:
            await self._ground.restore(data)
        else:
            await self._scatter(json.loads(data))

    async def _gather(self) -> dict[str, JsonValue]:
        apart = {name: part for name, part in self._parts.items() if as_grounded(part) is None}
        inner: dict[str, JsonValue] = {
            name: _to_json(await part.snapshot()) for name, part in apart.items() if part.branching == "snapshot"
        }
        return {_OWN: to_jsonable_python(self._public_state()), _PARTS: inner}

    async def _keep_beside(self) -> None:
        """Note what stands beside the ground, so that the ground's snapshot has it."""
        if self._ground is None:
            return
        for part in self._parts.values():
            if isinstance(part, NestedEnvironment):
                await part._keep_beside()
        self._record.clear()
        self._record.update(await self._gather())

    async def _scatter(self, record: Mapping[str, Any]) -> None:
        vars(self).update(copy.deepcopy(record.get(_OWN, {})))
        for name, state in record.get(_PARTS, {}).items():
            if name in self._parts:
                await self._parts[name].restore(_read(state))

    @property
    def _standing(self) -> list[Grounded]:
        return [member for part in self._parts.values() if (member := as_grounded(part)) is not None]

    @property
    def ground(self) -> str:
        """That of its parts; "" where they have none."""
        return next((member.ground for member in self._standing), "")

    @property
    def _record(self) -> dict[str, JsonValue]:
        assert self._ground is not None
        return self._ground.kept.setdefault(self.name, {})

    async def lay(self, ctx: Any) -> Ground:
        return await self._standing[0].lay(ctx)

    def stand_on(self, ground: Ground) -> None:
        self._ground = cast(FolderGround, ground)
        for member in self._standing:
            member.stand_on(ground)
        self._ground.members.append(self)

    async def leave(self) -> None:
        """Do nothing: its parts on the ground are told themselves."""

    async def restored(self) -> None:
        await self._scatter(self._record)


def _to_json(data: bytes) -> JsonValue:
    """Return a snapshot for use inside another; as JSON where it is, so that the blobs it names are found."""
    try:
        value: JsonValue = json.loads(data)
    except ValueError:
        return {"base64": base64.b64encode(data).decode()}
    return {"json": value}


def _read(state: Any) -> bytes:
    try:
        if "json" in state:
            return json.dumps(state["json"], sort_keys=True).encode()
        return base64.b64decode(state["base64"])
    except (KeyError, TypeError, binascii.Error) as exc:
        raise ToolError(f"the snapshot of a part cannot be read: {exc}") from None
