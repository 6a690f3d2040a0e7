"""Code that the user did not write: read here, run in the sandbox only."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Mode, Tag
from agentorchestra.core.errors import SourceError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.log.store import MemoryStore
from agentorchestra.sandbox import SandboxLimits
from agentorchestra.sandbox.bubblewrap import Bubblewrap
from agentorchestra.tea.programs.foreign import foreign_tool, read_schema
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.tools.workbench import INTERPRETER, Workbench
from agentorchestra.workspace import Workspace
from tests.tea.support import ToolBench

COUNT = '''
from __future__ import annotations

import re

from agentorchestra import ToolError, tool

PATTERN = re.compile(r"\\w+")


@tool(effect="pure")
async def count(text: str, least: int = 1, kind: Literal["words", "letters"] = "words") -> dict[str, int]:
    """Count the words of a text.

    Args:
        text: what is counted.
        least: the shortest word that counts.
    """
    if not text:
        raise ToolError("there is nothing to count")
    found = PATTERN.findall(text)
    print("noise that is no result")
    return {kind: len([one for one in found if len(one) >= least]), "lines": len(json.dumps(text).split("\\\\n"))}
'''


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    sandbox = Bubblewrap()
    if problem := await sandbox.problem():
        pytest.skip(problem)
    workbench = Workbench(sandbox, SandboxLimits(seconds=20))
    yield workbench
    await workbench.aclose()


def test_what_a_function_takes_is_read_from_its_text() -> None:
    schema = read_schema(COUNT, "count")
    assert schema.trust is Trust.UNTRUSTED and schema.description == "Count the words of a text."
    assert schema.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "what is counted."},
            "least": {"type": "integer", "description": "the shortest word that counts.", "default": 1},
            "kind": {"enum": ["words", "letters"], "default": "words"},
        },
        "additionalProperties": False,
        "required": ["text"],
    }


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("list[str] | None", {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}),
        ("'Optional[float]'", {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        ("typing.Union[int, str, bool]", {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "boolean"}]}),
        (
            "dict[str, list[int]]",
            {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
        ),
        ("Any", {}),
        ("Annotated[int, Field(description='how many')]", {"type": "integer", "description": "how many"}),
        ("Annotated[int, 'how many']", {"type": "integer", "description": "how many"}),
    ],
)
def test_types_of_json(annotation: str, schema: dict[str, Any]) -> None:
    assert read_schema(f"def f(*, a: {annotation}): ...", "f").parameters["properties"] == {"a": schema}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(a: int: ...", r"the source of 'f' is not Python: line 1"),
        ("import socket\ndef f(): ...", r"imports 'socket' in line 1, which code from elsewhere may not"),
        ("def g(): ...", r"does not define the function 'f'; it defines g"),
        ("def f(*a: int): ...", r"line 1: it is called with arguments by name"),
        ("def f(a, /): ...", r"by name; leave out '/'"),
        ("def f(a): ...", r"line 1: the parameter 'a' has no type"),
        ("def f(a: Path): ...", r"line 1: the type Path of 'a' is not one"),
        ("def f(a: dict[int, str]): ...", r"the type dict\[int, str\] of 'a'"),
        ("def f(ctx: RunContext[Any]): ...", r"'ctx' takes the run's context, which code from elsewhere does not get"),
        ("def f(a: int = len('x')): ...", r"the default of 'a' is not a JSON value"),
        ("def f(a: " + "list[" * 90 + "int" + "]" * 90 + "): ...", ""),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_its_line(text: str, said: str) -> None:
    if not said:
        assert read_schema(text, "f").name == "f"
        return
    with pytest.raises(SourceError, match=said):
        read_schema(text, "f")


def test_nothing_of_the_text_is_executed_here(tmp_path: Path) -> None:
    made = tmp_path / "made"
    text = f"import pathlib\npathlib.Path({str(made)!r}).touch()\ndef f(a: int = 1): ...\n"
    found = foreign_tool(text, "f", Workbench(None))
    assert found.tags == {Tag.EXECUTE} and found.mode is Mode.COMPOSITE and found.timeout_s == 60.0
    assert not made.exists()


async def test_a_call_runs_in_the_sandbox_and_gives_json(bench: Workbench, tmp_path: Path) -> None:
    found = foreign_tool(COUNT, "count", bench)
    tools = ToolBench([found], tmp_path, interpreters={INTERPRETER: bench})
    outcome = await tools.one(found, text="a bee\nsees", least=2)
    assert outcome.ok, outcome.error
    assert outcome.value == {"words": 2, "lines": 2} and outcome.trust is Trust.UNTRUSTED


WRONG = f"""
import os, time

def home() -> list[str]:
    seen = os.path.exists({str(Path(__file__))!r})
    return [os.environ.get("SECRET", ""), str(seen), str(os.getpid() == {os.getpid()})]

def fails(a: int):
    return {{}}["x"]

def no_json():
    return {{1, 2}}

def large():
    return "x" * 600_000

def leaves():
    os._exit(3)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fails", r"fails failed: KeyError: 'x' \(line 9\)"),
        ("no_json", "no_json failed: it returned a set, which is not JSON"),
        ("large", "large failed: it returned 600,002 characters of JSON; at most 500,000"),
        ("leaves", "leaves ended without a result .*exit code 3"),
    ],
)
async def test_a_failing_call_is_a_sentence(bench: Workbench, tmp_path: Path, name: str, said: str) -> None:
    found = foreign_tool(WRONG, name, bench)
    tools = ToolBench([found], tmp_path, interpreters={INTERPRETER: bench})
    outcome = await tools.one(found, **({"a": 1} if name == "fails" else {}))
    assert outcome.status == "error"
    assert re.search(said, outcome.error or "")


async def test_a_call_reaches_nothing_of_this_machine(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    found = foreign_tool(WRONG, "home", bench)
    tools = ToolBench([found], tmp_path, interpreters={INTERPRETER: bench})
    outcome = await tools.one(found)
    assert outcome.value == ["", "False", "False"]


async def test_a_call_that_does_not_end_is_stopped(bench: Workbench, tmp_path: Path) -> None:
    text = "def forever():\n    while True:\n        pass\n"
    found = foreign_tool(text, "forever", bench, timeout_s=1.0)
    tools = ToolBench([found], tmp_path, interpreters={INTERPRETER: bench})
    outcome = await tools.one(found)
    assert outcome.status == "timeout" and "1 s" in (outcome.error or "")


async def test_an_agent_uses_a_tool_from_elsewhere_and_a_replay_runs_nothing(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_sandbox(*_: Any, **__: Any) -> Any:
        raise AssertionError("a replay ran a program")

    def counts(request: ModelRequest) -> ModelResponse:
        results = [one for one in request.messages if one.role == "tool"]
        if not results:
            return decide(calls=[call("count", text="a bee", kind="letters")])
        assert [block.trust for block in results[0].content] == [Trust.UNTRUSTED]
        return decide(calls=[call("done", answer=results[0].text)])

    model = ScriptedModel(counts)
    async with Workspace(tmp_path / "ws", store=MemoryStore(), environ={}) as ws:
        (config,) = await ws.tcp.register(source=COUNT, name="count", trusted=False)
        assert config.metadata["tags"] == ["execute"]
        result = await ws.run("Count.", model=model, system="react")
        assert '"letters":2' in result.answer
        monkeypatch.setattr(Bubblewrap, "run", no_sandbox)
        assert (await ws.replay(result.run_id)).answer == result.answer_text
