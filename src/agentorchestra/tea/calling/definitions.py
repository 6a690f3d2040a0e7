"""Tools known by their schema only: found and described like others, and refused when they are called."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic import JsonValue, ValidationError

from agentorchestra.core.content import Trust
from agentorchestra.core.errors import ToolDefinitionError, ToolError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.calling.tool import Tool, tool_from_schema

_SOURCE = "definition"


def tool_of_definition(name: str, description: str, parameters: dict[str, JsonValue]) -> Tool[..., Any]:
    """Return a tool that has a schema and no code; raise ToolDefinitionError for a name or schema of none."""
    try:
        schema = ToolSchema(name=name, description=description, parameters=parameters)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ToolDefinitionError(f"the definition of the tool {name!r}: {place}: {first['msg']}") from None
    return defined_tool(schema)


def defined_tool(schema: ToolSchema, *, checked: bool = False) -> Tool[..., Any]:
    """Return a tool with a schema and no code, or raise ToolDefinitionError; its words count as untrusted."""

    problem = "" if checked else _problem(schema)
    if problem:
        raise ToolDefinitionError(f"the parameters of the tool {schema.name!r} are no JSON schema: {problem}")

    def absent(**_arguments: Any) -> None:
        raise ToolError(
            f"the tool {schema.name!r} is known by its definition only; register it with code to have it called"
        )

    def check(arguments: dict[str, Any]) -> list[str]:
        return schema_problems(arguments, _without_patterns(schema.parameters))

    return tool_from_schema(absent, schema, effect="pure", source=_SOURCE, trust=Trust(schema.trust), check=check)


def _without_patterns(schema: Any) -> Any:
    """Return a schema without what may take for ever to check."""
    if isinstance(schema, list):
        return [_without_patterns(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_patterns(value)
        for key, value in schema.items()
        if key != "patternProperties" and not (key == "pattern" and isinstance(value, str))
    }


def _problem(schema: ToolSchema) -> str:
    try:
        return _problem_of(json.dumps(schema.parameters, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        return f"they cannot be written as JSON ({str(exc)[:120]})"


@lru_cache(maxsize=4096)
def _problem_of(text: str) -> str:
    import jsonschema  # here: it is needed only where a schema comes from elsewhere

    try:
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
    except jsonschema.SchemaError as exc:
        return f"{exc.json_path}: {exc.message[:200]}"
    except RecursionError:
        return "they are nested too deep"
    return ""


def is_definition(tool: Tool[..., Any]) -> bool:
    """Return True if a tool is known by its schema only."""
    return tool.source_text == _SOURCE
