"""`done`: how every agent finishes, with its answer, status and sources."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.json_schema import JsonSchemaValue

from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.spec import Citation
from agentorchestra.tea.tool import Tool, tool


class SourceArgument(BaseModel):
    """A quote and where it stands."""

    model_config = ConfigDict(extra="ignore")

    source: str = Field(description="Name of the file, or address.")
    place: str = Field(default="", description='Where in it: "line 12", "p. 3", "B7".')
    quote: str = Field(default="", description="The words, verbatim.")


def done_tool(output_schema: JsonSchemaValue | None = None) -> Tool[..., Any]:
    """The tool for one agent.

    Args:
        output_schema: JSON schema of a structured answer; then `output` must fit it.
    """

    @tool(effect="read")
    def done(
        answer: str = "",
        status: Literal["completed", "partial", "blocked"] = "completed",
        report: str = "",
        sources: list[SourceArgument] | None = None,
        output: JsonValue = None,
    ) -> dict[str, Any]:
        """Finish the task with the final answer.

        Args:
            answer: The answer, in the language of the task.
            status: completed if the task is fulfilled, partial if something is missing, blocked if nothing worked.
            report: A longer account, where one was asked for.
            sources: The quotes the answer stands on, with their places.
            output: The structured answer, when a format was given.
        """
        if output_schema is not None and (output is not None or status == "completed"):
            problem = check_schema(output, output_schema)
            if problem is not None:
                raise ToolError(f"`output` does not fit the format that was asked for: {problem}; correct it")
        if not answer.strip() and output is None:
            raise ToolError("the answer is empty; give the best answer you have, or say that there is none and why")
        cited = [Citation(source=s.source, place=s.place, quote=s.quote) for s in sources or ()]
        return {
            "status": status,
            "answer": answer.strip(),
            "output": output,
            "report": report,
            "sources": [one.model_dump(mode="json") for one in cited],
        }

    if output_schema is None:
        return _without_output(done)
    return _with_output(done, output_schema)


def _schema(
    one: Tool[..., Any], properties: dict[str, Any], required: list[str], defs: dict[str, Any]
) -> Tool[..., Any]:
    import dataclasses

    parameters = {**one.schema.parameters, "properties": properties, "required": required}
    if defs:
        parameters["$defs"] = defs
    schema = ToolSchema(name=one.name, description=one.description, parameters=parameters)
    return dataclasses.replace(one, schema=schema)


def _without_output(one: Tool[..., Any]) -> Tool[..., Any]:
    properties = {k: v for k, v in one.schema.parameters["properties"].items() if k != "output"}
    return _schema(one, properties, ["answer"], dict(one.schema.parameters.get("$defs", {})))


def _with_output(one: Tool[..., Any], wanted: dict[str, Any]) -> Tool[..., Any]:
    """The schema the user asked for, in place of `output`; its definitions move to the top."""
    inner = dict(wanted)
    defs = {**one.schema.parameters.get("$defs", {}), **inner.pop("$defs", {})}
    inner["description"] = "The structured answer, in the format that was asked for."
    properties = {**one.schema.parameters["properties"], "output": inner}
    return _schema(one, properties, ["output"], defs)


def check_schema(value: JsonValue, schema: dict[str, Any]) -> str | None:
    """Why a value does not fit a JSON schema, None if it does."""
    import jsonschema

    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(value))
    if error is None:
        return None
    place = ".".join(str(part) for part in error.absolute_path) or "output"
    return f"{place}: {error.message[:300]}"


__all__ = ["check_schema", "done_tool"]
