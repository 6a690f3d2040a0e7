"""What tools, environments and prompts say of themselves; agents do so in their room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.tea.context import ComponentConfig, Kind, Operation
from agentorchestra.tea.prompts import Prompt
from agentorchestra.tea.tool import Tool


def _operation(schema: ToolSchema) -> Operation:
    return Operation(name=schema.name, description=schema.description, parameters=schema.parameters)


def _tool(name: str, tool: Tool[..., Any], builtin: bool) -> ComponentConfig:
    metadata: dict[str, JsonValue] = {"tags": [*sorted(tag.value for tag in tool.tags)], "mode": tool.mode.value}
    if tool.timeout_s is not None:
        metadata["timeout_s"] = tool.timeout_s
    return ComponentConfig(
        kind="tool",
        name=name,
        description=tool.description,
        version=tool.version,
        content_hash=tool.content_hash,
        operations=(_operation(tool.schema),),
        metadata=metadata,
        builtin=builtin,
    )


def _environment(name: str, factory: Callable[[], Environment], builtin: bool) -> ComponentConfig:
    one = factory()
    doc = " ".join((type(one).__doc__ or "").split())
    return ComponentConfig(
        kind="environment",
        name=name,
        description=doc,
        version=one.version,
        content_hash=one.content_hash,
        operations=tuple(_operation(action) for action in one.actions()),
        rules=one.rules(),
        metadata={"branching": one.branching, "durable": one.durable},
        builtin=builtin,
    )


def _prompt(name: str, prompt: Prompt, builtin: bool) -> ComponentConfig:
    return ComponentConfig(
        kind="prompt",
        name=name,
        description=prompt.description,
        version=prompt.version,
        content_hash=prompt.content_hash,
        metadata={"variables": list(prompt.variables)},
        builtin=builtin,
    )


TOOL: Kind[Tool[..., Any]] = Kind("tool", "tools", _tool)
ENVIRONMENT: Kind[Callable[[], Environment]] = Kind("environment", "environments", _environment)
PROMPT: Kind[Prompt] = Kind("prompt", "prompts", _prompt)

__all__ = ["ENVIRONMENT", "PROMPT", "TOOL"]
