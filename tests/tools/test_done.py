"""done: answers, sources, structured output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Mode
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.tools.done import done_tool
from tests.tea.support import ToolBench, refused, seen, validated


class Part(BaseModel):
    """A part."""

    name: str
    parts: list[Part] = []


class Order(BaseModel):
    """A whole."""

    total: int
    parts: list[Part] = []


async def _finish(tool: Any, tmp_path: Path, **arguments: Any) -> AgentResult:
    outcome = await ToolBench([tool], tmp_path).one(tool, **arguments)
    assert outcome.ok, outcome.error
    return AgentResult.model_validate(outcome.value)


async def test_an_answer_with_sources(tmp_path: Path) -> None:
    result = await _finish(
        done_tool(),
        tmp_path,
        answer=" 42 ",
        status="partial",
        report="Long.",
        sources=[{"source": "a.txt", "place": "line 3", "quote": "it is 42"}, {"source": "b.txt"}],
    )
    assert (result.answer, result.status, result.report, result.output) == ("42", RunStatus.PARTIAL, "Long.", None)
    first, second = result.sources
    assert (first.source, first.place, first.quote) == ("a.txt", "line 3", "it is 42")
    assert (second.source, second.place, second.quote) == ("b.txt", "", "")


def test_it_is_pure_and_needs_no_thread() -> None:
    tool = done_tool()
    assert (tool.component, tool.mode, tool.tags, tool.threaded) == ("done@1.0.0", Mode.PURE, frozenset(), False)
    assert list(tool.schema.parameters["properties"]) == ["answer", "status", "report", "sources"]
    assert tool.schema.parameters["required"] == ["answer"]


async def test_its_answer_is_as_trusted_as_what_was_in_view(tmp_path: Path) -> None:
    tool = done_tool()
    (outcome,) = await ToolBench([tool], tmp_path).call((tool, {"answer": "a"}), provenance=seen(Trust.UNTRUSTED))
    assert outcome.trust is Trust.UNTRUSTED


async def test_a_long_answer_is_not_cut(tmp_path: Path) -> None:
    tool = done_tool()
    outcome = await ToolBench([tool], tmp_path, max_result_chars=100).one(tool, answer="x" * 5000)
    assert AgentResult.model_validate(outcome.value).answer == "x" * 5000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "done: answer: it is empty; give the best answer you have, or say that there is none and why"),
        ({"answer": " \n"}, "answer: it is empty"),
        ({"answer": "a", "status": "done"}, "status: Input should be 'completed', 'partial' or 'blocked'"),
        ({"answer": "a", "sources": ["b"]}, "sources.0: Input should be"),
        ({"answer": "a", "sources": [{"quote": "b"}]}, "sources.0.source: Field required"),
        ({"answer": "a", "result": 1}, "result: Extra inputs are not permitted"),
    ],
)  # fmt: skip
def test_mistakes(arguments: dict[str, Any], said: str) -> None:
    sentence = refused(done_tool(), arguments)
    assert said in sentence
    assert 'Its arguments: answer (string, required), status ("completed" | "partial" | "blocked"' in sentence


async def test_an_output_nobody_asked_for_is_left_out(tmp_path: Path) -> None:
    assert (await _finish(done_tool(), tmp_path, answer="a", output={"x": 1})).output is None
    assert "it is empty" in refused(done_tool(), {"output": {"x": 1}})


# -- structured output -------------------------------------------------------------------------------------------------


def test_the_schema_takes_the_place_of_the_output() -> None:
    parameters = done_tool(Order.model_json_schema()).schema.parameters
    assert parameters["required"] == ["output"]
    assert parameters["properties"]["output"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Part"}
    assert set(parameters["$defs"]) == {"Part"}


async def test_an_output_that_fits(tmp_path: Path) -> None:
    output = {"total": 1, "parts": [{"name": "a", "parts": [{"name": "b"}]}]}
    result = await _finish(done_tool(Order.model_json_schema()), tmp_path, output=output)
    assert (result.output, result.answer, result.status) == (output, "", RunStatus.COMPLETED)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"answer": "1"}, "`output` does not fit the format that was asked for: None is not of type 'object'"),
        ({"output": {"total": "one"}}, "asked for: total: 'one' is not of type 'integer'"),
        ({"output": {"total": 1, "parts": [{"name": "a", "parts": [{}]}]}}, "parts.0.parts.0: 'name' is a required"),
        ({"output": {}, "status": "partial"}, "asked for: 'total' is a required property"),
        ({"output": {"total": 1}, "status": "no"}, "status: Input should be"),
        ({"status": "blocked"}, "answer: it is empty"),
    ],
)
def test_an_output_that_does_not_fit_is_a_mistake(arguments: dict[str, Any], said: str) -> None:
    assert said in refused(done_tool(Order.model_json_schema()), arguments)


async def test_whoever_is_blocked_needs_no_output(tmp_path: Path) -> None:
    result = await _finish(done_tool(Order.model_json_schema()), tmp_path, status="blocked", answer="No file.")
    assert (result.status, result.answer, result.output) == (RunStatus.BLOCKED, "No file.", None)


async def test_outputs_that_are_no_objects(tmp_path: Path) -> None:
    tool = done_tool({"type": "array", "items": {"type": "integer"}})
    assert (await _finish(tool, tmp_path, output=[])).output == []
    assert "0: 'x' is not of type 'integer'" in refused(tool, {"output": ["x"]})


async def test_a_schema_that_refers_to_itself_and_one_with_a_taken_name(tmp_path: Path) -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "n": {"type": "integer"}}}
    tool = done_tool(tree)
    assert tool.schema.parameters["properties"]["output"]["$ref"] == "#/$defs/Output"
    assert tool.schema.parameters["$defs"]["Output"]["properties"]["left"] == {"$ref": "#/$defs/Output"}
    assert "left.left.n: 'x' is not of type" in refused(tool, {"output": {"left": {"left": {"n": "x"}}}})
    taken = done_tool({"$ref": "#/$defs/SourceArgument", "$defs": {"SourceArgument": {"type": "integer"}}})
    assert taken.schema.parameters["properties"]["output"]["$ref"] == "#/$defs/SourceArgument"
    result = await _finish(taken, tmp_path, output=3, sources=[{"source": "a"}])
    assert (result.output, result.sources[0].source) == (3, "a")


def test_a_validator_instead_of_the_schema() -> None:
    tool = done_tool({"type": "object"}, validator=lambda output: [] if output == "odd" else [f"{output!r} is not odd"])
    assert validated(tool, output="odd") == {"output": "odd"}
    assert "`output` does not fit the format that was asked for: 'even' is not odd" in refused(tool, {"output": "even"})


def test_a_schema_that_is_none() -> None:
    with pytest.raises(ToolDefinitionError, match=r"the output schema is no JSON schema: .*; give e\.g\. what"):
        done_tool({"type": "thing"})


def test_each_schema_has_its_own_hash() -> None:
    hashes = {done_tool(schema).content_hash for schema in (None, {"type": "string"}, {"type": "integer"})}
    assert len(hashes) == 3
    assert done_tool().content_hash == done_tool().content_hash
