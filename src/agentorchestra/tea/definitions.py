"""Tools known by their schema only: found and described like others, and refused when they are called."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.content import Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.tea.tool import Tool, tool_from_schema

_SOURCE = "definition"


def defined_tool(schema: ToolSchema) -> Tool[..., Any]:
    """A tool that has a schema and no code.

    Args:
        schema: name, description and the JSON schema of its arguments; its words count as untrusted.

    Raises:
        ToolDefinitionError: for a name or schema that no tool can have.
    """

    def absent(**_arguments: Any) -> None:
        raise ToolError(
            f"the tool {schema.name!r} is known by its definition only; register it with code to have it called"
        )

    return tool_from_schema(absent, schema, effect="pure", source=_SOURCE, trust=Trust(schema.trust))


def is_definition(tool: Tool[..., Any]) -> bool:
    """Whether a tool is known by its schema only."""
    return tool.source_text == _SOURCE


__all__ = ["defined_tool", "is_definition"]
