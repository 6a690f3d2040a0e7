"""Calls outside of runs: of one tool, of one action, of an environment's state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.core.content import Block, Source
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import NotAllowedError
from agentorchestra.core.protocols import instance_of
from agentorchestra.core.spec import RunManifest
from agentorchestra.runtime.direct_calls import DirectCalls
from agentorchestra.runtime.run import Services
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.workspace.catalog import Stock
from agentorchestra.workspace.place import Place

if TYPE_CHECKING:
    from agentorchestra.tea.calling.tool import Tool


class Calling:
    """Lets the user's own calls through the door (runtime/direct_calls.py).

    Args:
        place: where they are recorded.
        stock: has the environments.
        create: writes the run that holds them; its id and manifest.
        services: what they are driven with, from the tools that are called, by `name@version`.
    """

    def __init__(
        self,
        place: Place,
        stock: Stock,
        create: Callable[[], Awaitable[tuple[str, RunManifest]]],
        services: Callable[[Mapping[str, Any]], Services],
    ) -> None:
        self._stock = stock
        self._called: dict[str, Any] = {}
        self._calls = DirectCalls(place.engine, place.store, create, lambda: services(self._called))
        self.perform = self._calls.perform
        self.close = self._calls.close

    @property
    def run_id(self) -> str | None:
        """The run that holds the calls, None before the first."""
        return self._calls.run_id

    async def invoke_tool(self, tool: Tool[..., Any], arguments: Mapping[str, JsonValue]) -> Outcome:
        """Call a tool.

        Raises:
            NotAllowedError: it is not for users.
        """
        allowed = tool.traits.invokers
        if allowed is not None and "user" not in allowed:
            raise NotAllowedError(
                f"the tool {tool.name!r} may be called by {', '.join(allowed) or 'nobody'} only; register it with "
                "invokers=[..., 'user'] to call it here"
            )
        self._called[tool.component] = tool
        return await self.perform(lambda root: effect_for(tool, dict(arguments), role="user"))

    async def invoke_action(self, name: str, action: str, arguments: Mapping[str, JsonValue]) -> Outcome:
        """Call an action of an environment."""
        from agentorchestra.tea.calling.actions import action_effect
        from agentorchestra.tea.calling.signatures import mistake, schema_problems

        one = self._stock.every_environment[name]()
        schema = next(schema for schema in one.actions() if schema.name == action)
        problems = schema_problems(dict(arguments), schema.parameters)
        invalid = mistake(f"{name}: {action}", problems, schema.parameters) if problems else None
        return await self.perform(
            lambda root: action_effect(one, action, arguments, role="user", invalid=invalid, declared=schema)
        )

    async def state_of(self, name: str) -> tuple[Block, ...]:
        """What an environment says of its state."""
        one = self._stock.every_environment[name]()
        effect = Effect(
            kind=EffectKind.INVOKE_ACTION,
            component=f"{one.name}@{one.version}",
            arguments={"action": "state"},
            mode=Mode.REPEATABLE,
            instance=instance_of(one),
            role="user",
        )
        outcome = await self.perform(lambda root: effect)
        return tuple(outcome.blocks(Source(kind="environment", ref=name)))


__all__ = ["Calling"]
