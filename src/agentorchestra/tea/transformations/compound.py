"""Compound tools: a checked sequence of tools that is one tool (000, app. A.2: "macro-tools").

    quote = compound(
        "quote",
        "A price in another currency.",
        [
            Step(price_of, {"item": Given("item")}),
            Step(convert, {"amount": Result("price_of"), "currency": Given("currency")}),
        ],
    )

It is checked when it is made. When it is called each step is an effect of its own, through the door.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import ToolDefinitionError, ToolError
from agentorchestra.core.ids import canonical_json, sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool_from_schema
from agentorchestra.tea.transformations.base import Carried


@dataclass(frozen=True)
class Given:
    """An argument that is an argument of the whole, by its name there."""

    name: str


@dataclass(frozen=True)
class Result:
    """An argument that is the result of an earlier step, or a part of it.

    Attributes:
        step: the step's name.
        path: names and places inside the result: `("rows", 0, "price")`.
    """

    step: str
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Step:
    """One call.

    Attributes:
        arguments: Given, Result, or a JSON value as it is; arguments of the tool that are optional may be left out.
        name: of the step; the tool's by default.
    """

    tool: Tool[..., Any]
    arguments: Mapping[str, Given | Result | Any] = field(default_factory=dict)
    name: str = ""

    @property
    def key(self) -> str:
        return self.name or self.tool.name


def compound(
    name: str, description: str, steps: Sequence[Step], *, returns: str = "", version: str = "1.0.0"
) -> Tool[..., Any]:
    """Return the steps as one tool, whose arguments are what is `Given`.

    Args:
        returns: the step whose result is the result; the last one by default.

    Raises:
        ToolDefinitionError: for an unknown or missing argument, a step that is not there or comes later, a value that
            does not fit the argument. Whether a result fits, the call says.
    """
    if not steps:
        raise ToolDefinitionError(f"compound tool {name!r} has no steps; give at least one Step")
    _check(name, steps, returns)
    parameters = _parameters(name, steps)
    last = returns or steps[-1].key

    async def run(ctx: Any, **arguments: JsonValue) -> ToolResult:
        results: dict[str, JsonValue] = {}
        trusts: list[Trust] = []
        artifacts = []
        for step in steps:
            outcome = await ctx.call_tool(step.tool.name, **_arguments(name, step, arguments, results))
            if not outcome.ok:
                raise ToolError(f"{name}: step {step.key!r} failed: {outcome.error or outcome.status}")
            results[step.key] = _value(outcome)
            trusts.append(outcome.trust)
            artifacts += outcome.artifacts
        return ToolResult(content=results[last], trust=lowest(*trusts), artifacts=tuple(artifacts))

    tool = tool_from_schema(
        run,
        ToolSchema(name=name, description=description, parameters=parameters),
        effect="composite",
        takes_context=True,
        source=sha256_json(["compound", [_identity(step) for step in steps], last]),
        traits=ToolTraits(version=version),
        trust=lowest(Trust.SYSTEM, *(step.tool.schema.trust for step in steps)),
    )
    tools = {step.tool.name: step.tool for step in steps}
    return tool.backed_by(Carried(tools=tuple(tools.values())), tools)


# -- checks ------------------------------------------------------------------------------------------------------------


def _check(name: str, steps: Sequence[Step], returns: str) -> None:
    before: dict[str, Step] = {}
    for step in steps:
        if not isinstance(step.tool, Tool):
            raise ToolDefinitionError(f"a step of compound tool {name!r} is {step.tool!r}; a step calls a tool (@tool)")
        label = f"step {step.key!r} of compound tool {name!r}"
        if step.key in before:
            raise ToolDefinitionError(f"two steps of compound tool {name!r} are called {step.key!r}; give one a name=")
        if any(other.tool.name == step.tool.name and other.tool is not step.tool for other in before.values()):
            raise ToolDefinitionError(f"{label} calls another {step.tool.name!r} than an earlier step; rename one")
        schema = step.tool.schema.parameters
        properties = schema.get("properties", {})
        for argument, value in step.arguments.items():
            if argument not in properties:
                raise ToolDefinitionError(
                    f"{label} gives {argument!r}, which {step.tool.name} does not take; it takes: "
                    f"{', '.join(properties) or 'nothing'}"
                )
            _check_bound(label, argument, value, schema, before)
        missing = [parameter for parameter in schema.get("required", ()) if parameter not in step.arguments]
        if missing:
            raise ToolDefinitionError(
                f"{label} does not give {missing[0]!r}, which {step.tool.name} needs; bind it to Given(...), "
                "Result(...) or a value"
            )
        before[step.key] = step
    if returns and returns not in before:
        raise ToolDefinitionError(
            f"compound tool {name!r} has no step {returns!r} to return; it has {', '.join(before)}"
        )


def _check_bound(label: str, argument: str, value: Any, schema: Mapping[str, Any], before: Mapping[str, Step]) -> None:
    target = {**schema["properties"][argument], "$defs": schema.get("$defs", {})}
    if isinstance(value, Given):
        return
    if not isinstance(value, Result):
        problems = schema_problems(value, target)
        if problems:
            raise ToolDefinitionError(f"{label} gives {argument}={value!r}, which does not fit: {problems[0]}")
        return
    if value.step not in before:
        raise ToolDefinitionError(
            f"{label} takes {argument!r} from the step {value.step!r}, which does not come before it; before it come: "
            f"{', '.join(before) or 'none'}"
        )


def _parameters(name: str, steps: Sequence[Step]) -> dict[str, Any]:
    """Return the schema of what is given: as the first tool that takes it says; needed where any tool needs it."""
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required: list[str] = []
    for step in steps:
        schema = step.tool.schema.parameters
        for argument, value in step.arguments.items():
            if not isinstance(value, Given):
                continue
            properties.setdefault(value.name, schema["properties"][argument])
            for ref, definition in schema.get("$defs", {}).items():
                if definitions.setdefault(ref, definition) != definition:
                    raise ToolDefinitionError(
                        f"two tools of compound tool {name!r} call different types {ref!r}; rename one of the types"
                    )
            if argument in schema.get("required", ()) and value.name not in required:
                required.append(value.name)
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        parameters["required"] = required
    return {"$defs": definitions, **parameters} if definitions else parameters


# -- a call ------------------------------------------------------------------------------------------------------------


def _arguments(
    name: str, step: Step, arguments: Mapping[str, JsonValue], results: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    values: dict[str, JsonValue] = {}
    for argument, value in step.arguments.items():
        if isinstance(value, Given):
            if value.name in arguments:  # else the tool's own default holds
                values[argument] = arguments[value.name]
        elif isinstance(value, Result):
            values[argument] = _part(name, step, value, results[value.step])
        else:
            values[argument] = value
    return values


def _part(name: str, step: Step, reference: Result, value: Any) -> JsonValue:
    for place in reference.path:
        try:
            value = value[place]
        except (KeyError, IndexError, TypeError):
            raise ToolError(
                f"{name}: step {step.key!r} needs {place!r} of the result of {reference.step!r}, which has none: "
                f"{canonical_json(value)[:200]}"
            ) from None
    part: JsonValue = value
    return part


def _value(outcome: Outcome) -> JsonValue:
    """Return the result as JSON; content blocks as their text."""
    if isinstance(outcome.value, dict) and "$blocks" in outcome.value:
        return "\n".join(str(getattr(block, "text", "")) for block in outcome.blocks())
    return outcome.value


def _identity(step: Step) -> list[Any]:
    bindings: dict[str, Any] = {}
    for argument, value in step.arguments.items():
        if isinstance(value, Given):
            bindings[argument] = ["given", value.name]
        elif isinstance(value, Result):
            bindings[argument] = ["result", value.step, *value.path]
        else:
            bindings[argument] = ["value", value]
    return [step.key, step.tool.content_hash, bindings]
