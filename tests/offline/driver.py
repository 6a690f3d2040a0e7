"""The smallest loop around a model and the file tools: what a run does, without a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.files import FakeContext

from agentorchestra.core.content import Block, TextBlock, Trust, block_from
from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import Message, ModelRequest, ToolCall, ToolSchema, system, user
from agentorchestra.core.spec import Citation, FileRef
from agentorchestra.models.offline.model import OfflineModel
from agentorchestra.tools.files import file_tools

DONE = ToolSchema(
    name="done",
    description="Finish.",
    parameters={
        "type": "object",
        "properties": {
            "answer": {"type": "string"},
            "status": {"enum": ["completed", "partial", "blocked"]},
            "sources": {"type": "array"},
        },
        "required": ["answer"],
    },
)
SEARCH = ToolSchema(
    name="search_files",
    description="Search.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}},
)
PYTHON = ToolSchema(
    name="python",
    description="Compute.",
    parameters={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)
ALL = (DONE, PYTHON, SEARCH)


@dataclass
class Reply:
    """What a run gave, and the calls it made."""

    answer: str
    status: str = "completed"
    sources: tuple[Citation, ...] = ()
    calls: list[ToolCall] = field(default_factory=list)


def task_message(task: str, refs: Sequence[FileRef]) -> Message:
    """The first user message."""
    listed = "\n".join(f"- {ref.name} ({ref.media_type}, {ref.size} bytes)" for ref in refs) or "none"
    return user(f"<task>\n{task}\n</task>\n<files>\n{listed}\n</files>")


def tail_message(step: int, max_steps: int) -> Message:
    """The last message of a request."""
    last = "<last_step>\nThis is the last allowed step.\nCall `done` now.\n</last_step>" if step == max_steps else ""
    return Message(
        role="user",
        content=(TextBlock(text=f"<progress>\nStep {step} of {max_steps}.\n</progress>\n{last}", trust=Trust.SYSTEM),),
    )


async def run_offline(
    task: str, files: Sequence[Path], folder: Path, *, tools: Sequence[ToolSchema] = ALL, max_steps: int = 12
) -> Reply:
    """Ask the offline model and carry out its calls until it is done."""
    ctx: Any = FakeContext(files, folder)
    built = {tool.name: tool for tool in file_tools(folder)}
    model = OfflineModel()
    messages = [system("You work on one task in steps."), task_message(task, ctx.manifest.files)]
    calls: list[ToolCall] = []
    for step in range(1, max_steps + 1):
        request = ModelRequest(model="offline", messages=(*messages, tail_message(step, max_steps)), tools=tuple(tools))
        response = await model.request(request, media={})
        assert response.tool_calls, response.text
        calls += response.tool_calls
        messages.append(
            Message(
                role="assistant",
                content=(TextBlock(text=response.text, trust=Trust.AGENT),),
                tool_calls=response.tool_calls,
            )
        )
        for call in response.tool_calls:
            assert isinstance(call.arguments, dict)
            if call.name == "done":
                arguments: dict[str, Any] = call.arguments
                sources = tuple(Citation.model_validate(one) for one in arguments.get("sources", ()))
                return Reply(arguments["answer"], arguments.get("status", "completed"), sources, calls)
            content, is_error = await _carry_out(built, call, ctx)
            messages.append(
                Message(role="tool", content=content, tool_call_id=call.id, name=call.name, is_error=is_error)
            )
    raise AssertionError("the model did not finish")


async def _carry_out(built: dict[str, Any], call: ToolCall, ctx: Any) -> tuple[tuple[Block, ...], bool]:
    assert isinstance(call.arguments, dict)
    if call.name == "python":
        value = eval(str(call.arguments["code"]), {"__builtins__": {"abs": abs, "round": round}})  # noqa: S307
        return (block_from(value),), False
    try:
        result = await built[call.name].call(call.arguments, ctx)
    except ToolError as error:
        return (block_from(str(error)),), True
    return tuple(block_from(block) for block in result.content), False
