"""The managers of the three protocols: the operations of a context manager, and calls (000, definitions 4, 7, 10)."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Block
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import LifecycleError, UnknownComponentError, UsageError
from agentorchestra.core.ids import is_flat
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.spec import RunResult
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.registry.context import ContextManager
from agentorchestra.tea.registry.kinds import EnvironmentFactory

_ENCODER = json.JSONEncoder(default=str)


class TCPServer(ContextManager[Tool[..., Any]]):
    """The Tool Context Protocol (000, definition 4)."""

    async def invoke(
        self, name: str, arguments: Mapping[str, JsonValue] | None = None, *, version: str | None = None
    ) -> Outcome:
        """Call a tool outside of a run: checked, allowed, limited and recorded as within one.

        Args:
            version: another than the current one; a candidate is called so.

        Returns:
            The outcome: `value`, or `error` with a `status` that says what went wrong.

        Raises:
            UnknownComponentError, VersionError, NotAllowedError.
        """
        await self.access.ready()
        if version is not None and self.stock.config(name, version).state == "archived":
            raise LifecycleError(
                f"the tool {name}@{version} is archived: it can be read and not called; restore another"
            )
        return await self.access.invoke_tool(await self.stock.version(name, version), _arguments(arguments))


class ECPServer(ContextManager[EnvironmentFactory]):
    """The Environment Context Protocol (000, definition 7)."""

    async def invoke(self, name: str, action: str, arguments: Mapping[str, JsonValue] | None = None) -> Outcome:
        """Perform an action outside of a run, on one instance that lives as long as the workspace is open.

        Raises:
            UnknownComponentError: for an environment or action that is not there.
        """
        await self.access.ready()
        actions = [operation.name for operation in self.stock.entry(name, None).config.operations]
        if action not in actions:
            guess = did_you_mean(str(action), actions, f"its actions: {', '.join(actions) or 'none'}")
            raise UnknownComponentError(f"the environment {name!r} has no action {reprlib.repr(action)}; {guess}")
        return await self.access.invoke_action(name, action, _arguments(arguments))

    async def state(self, name: str) -> tuple[Block, ...]:
        await self.access.ready()
        self.stock.history(name)
        return await self.access.state_of(name)


class ACPServer(ContextManager[Any]):
    """The Agent Context Protocol (000, definition 10)."""

    async def invoke(self, name: str, task: str, **options: Any) -> RunResult:
        """Let an agent do a task, in a run of its own; `options` as for `Workspace.run`."""
        if not isinstance(task, str):
            raise UsageError(f"the task is {reprlib.repr(task)}; give text")
        await self.access.ready()
        self.stock.config(name)
        return await self.access.invoke_agent(name, task, options)


def _arguments(arguments: Mapping[str, JsonValue] | None) -> Mapping[str, JsonValue]:
    """Return arguments that can be recorded; whether they fit the tool is another question."""
    if arguments is None:
        return {}
    if type(arguments) is dict and is_flat(arguments):
        return arguments
    value: object = arguments
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"the arguments are {reprlib.repr(arguments)}; give them by name: {{'number': 4}}")
    try:
        _ENCODER.encode(arguments if isinstance(arguments, dict) else dict(arguments))
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"the arguments cannot be written as JSON: {str(exc)[:120]}") from None
    return arguments
