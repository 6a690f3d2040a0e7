"""`done`: how an agent finishes - with its answer, status, report and sources, and a structured output if asked.

`complete` and `submit` are what an orchestrator that only delegates finishes with (002, app. D.1). Each is marked as
the call that ends the work (`ToolTraits.finishes`); nothing else depends on their names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.spec import Citation
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool, tool_from_schema

Status = Literal["completed", "partial", "blocked"]
Validator = Callable[[JsonValue], list[str]]  # what is wrong with an output, a phrase each


class SourceArgument(BaseModel):
    """A quote and where it stands."""

    source: str = Field(description="The file's name, or the address.")
    place: str = Field(default="", description='As it was shown: "line 12", "p. 3", "B7".')
    quote: str = Field(default="", description="The words, exactly.")


@tool(effect="pure", thread=False)
def done(
    answer: str,
    status: Status = "completed",
    report: str = "",
    sources: list[SourceArgument] | None = None,
    output: Any = None,
) -> dict[str, JsonValue]:
    """Finish with the answer.

    Args:
        answer: The answer, as short as the task asks for, in its language.
        status: partial if something is missing, blocked if nothing worked.
        report: A longer account, where one was asked for.
        sources: What the answer rests on.
        output: The structured answer.
    """
    citations = [Citation(source=source.source, place=source.place, quote=source.quote) for source in sources or ()]
    return {
        "status": status,
        "answer": answer.strip(),
        "output": output,
        "report": report,
        "sources": [citation.model_dump(mode="json") for citation in citations],
    }


@tool(effect="pure", thread=False)
def complete(answer: str, status: Status = "completed", output: Any = None) -> dict[str, JsonValue]:
    """Finish the whole task with its final answer.

    Args:
        answer: The answer, as short as the task asks for, in its language.
        status: partial if something is missing, blocked if nothing worked.
        output: The structured answer.
    """
    return {"status": status, "answer": answer.strip(), "output": output}


@tool(effect="pure", thread=False)
def submit(reason: str) -> dict[str, JsonValue]:
    """Submit the work as it stands; tests decide whether the task is solved.

    Args:
        reason: Why it is done: what was checked, and how.
    """
    return {"status": "completed", "answer": reason.strip()}


submit_answer = complete.with_name("submit_answer", "1.0.0")
"""The same under the name that the leader of a society calls it by (003, app. A)."""


@tool(effect="pure", thread=False)
def wait_for_mention(answer: str = "") -> dict[str, JsonValue]:
    """Wait until somebody mentions you again. It ends your turn, and your reply goes out with it.

    Args:
        answer: Your reply. It goes to whoever wrote to you.
    """
    return {"status": "completed", "answer": answer.strip()}


def wait_tool() -> Tool[..., Any]:
    """Return `wait_for_mention` of an agent that works from mention to mention: it ends the turn."""
    return wait_for_mention.finishing()


def submit_tool() -> Tool[..., Any]:
    return submit.finishing()


def done_tool(
    output_schema: dict[str, Any] | None = None, validator: Validator | None = None, base: Tool[..., Any] = done
) -> Tool[..., Any]:
    """Return the tool by which one agent finishes. Its value has the fields of core's AgentResult.

    What does not fit is a mistake that the agent can correct: an empty answer, or an `output` that `validator`, else
    the schema, refuses. With a schema the text may be left out; `blocked` and `partial` may then come without an
    output. `base` is `done` or `complete`. ToolDefinitionError if the schema is none.
    """
    return _done_tool(base) if output_schema is None else _with_output(base, output_schema, validator)


@functools.cache
def _done_tool(base: Tool[..., Any]) -> Tool[..., Any]:
    return _with_output(base)


def _with_output(
    base: Tool[..., Any], output_schema: dict[str, Any] | None = None, validator: Validator | None = None
) -> Tool[..., Any]:
    parameters = _parameters(base, output_schema)

    def check(arguments: dict[str, Any]) -> list[str]:
        problems = []
        output = arguments.get("output")
        plain = {name: value for name, value in arguments.items() if name != "output"}
        if output_schema is not None and (output is not None or plain.get("status", "completed") == "completed"):
            # A whole answer needs its output; a failed one may have none, but not a wrong one.
            faults = validator(output) if validator is not None else schema_problems(output, output_schema)
            problems += [f"`output` does not fit the format that was asked for: {problem}" for problem in faults]
        _, sentence = base.validate({"answer": "", **plain})
        if sentence is not None:
            problems.append(sentence.removeprefix(f"{base.name}: ").partition(". Its arguments:")[0])
        elif (output is None or output_schema is None) and not str(plain.get("answer", "")).strip():
            problems.append(
                "answer: it is empty; give the best answer you have, or say that there is none and why, "
                "with status partial or blocked"
            )
        return problems

    def finish(**arguments: Any) -> dict[str, JsonValue]:
        if output_schema is None:
            arguments.pop("output", None)  # nobody asked for one
        values, _ = base.validate({"answer": "", **arguments})
        return dict(base(**(values or {})))

    return tool_from_schema(
        finish,
        ToolSchema(name=base.name, description=base.description, parameters=parameters),
        effect="pure",
        check=check,
        source=base.content_hash,
        traits=ToolTraits(thread=False, cut=False, finishes=True),  # the answer is the run's result: it is never cut
        trust=Trust.SYSTEM,
    )


def _parameters(base: Tool[..., Any], output_schema: dict[str, Any] | None) -> dict[str, Any]:
    parameters = {name: value for name, value in base.schema.parameters.items() if name != "$defs"}
    properties = {name: schema for name, schema in parameters["properties"].items() if name != "output"}
    if "sources" in properties:
        entry = base.schema.parameters["$defs"][SourceArgument.__name__]
        # In its place: one reference less to follow, for a model as for a decoder that keeps to the schema.
        items = {"type": "object", "properties": {name: _plain(schema) for name, schema in entry["properties"].items()}}
        properties["sources"] = {**properties["sources"], "items": {**items, "required": entry["required"]}}
    properties = {name: _plain(schema) for name, schema in properties.items()}
    parameters["properties"] = properties
    if output_schema is None:
        return parameters
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(output_schema)
    except jsonschema.exceptions.SchemaError as exc:
        raise ToolDefinitionError(
            f"the output schema is no JSON schema: {exc.message}; give e.g. what pydantic's model_json_schema() returns"
        ) from None
    inner, definitions = _inner_schema(output_schema)
    properties["output"] = {**inner, "description": "The structured answer, in the format that was asked for."}
    if definitions:
        parameters["$defs"] = definitions
    parameters["required"] = ["output"]
    return parameters


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without a default that says no more than that it may be left out."""
    return {name: value for name, value in schema.items() if (name, value) != ("default", "")}


def _inner_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema with its definitions taken out, for a place inside another one."""
    definitions = schema.get("$defs", {})
    names = {name: name for name in definitions}
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema", "$id")}
    if "#" in _references(schema):
        # It refers to itself as a whole: the whole becomes a definition.
        names["#"] = "Output"
        extra = {"Output": _rename(inner, names)}
        inner = {"$ref": "#/$defs/Output"}
    else:
        extra = {}
        inner = _rename(inner, names)
    return inner, {**extra, **{names[name]: _rename(definition, names) for name, definition in definitions.items()}}


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(item) for item in value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()


def _rename(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_rename(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {key: _rename(item, names) for key, item in value.items()}
    ref = value.get("$ref")
    if isinstance(ref, str):
        head, _, rest = ref.removeprefix("#/$defs/").partition("/")
        if ref == "#" and "#" in names:
            copy["$ref"] = f"#/$defs/{names['#']}"
        elif ref.startswith("#/$defs/") and head in names:
            copy["$ref"] = f"#/$defs/{names[head]}" + (f"/{rest}" if rest else "")
    return copy
