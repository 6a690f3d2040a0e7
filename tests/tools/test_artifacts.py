"""`read_artifact`: what was cut is kept whole and read in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

WHOLE = "".join(f"line {n}: {'abc ' * 10}\n" for n in range(2_000))


@tool(effect="pure")
def long() -> str:
    """Give a long text."""
    return WHOLE


@tool(effect="read")
async def picture(ctx: RunContext[Any]) -> ToolResult:
    """Make a picture."""
    return ToolResult(content="made", artifacts=(await ctx.artifact("p.png", b"\x89PNG\xff", "image/png"),))


NAME = "1.react_3-long.txt"


async def read(tmp_path: Path, **arguments: Any) -> str:
    """What an agent sees that reads an artifact of its run."""

    def model(request: ModelRequest) -> ModelResponse:
        results = [message for message in request.messages if message.role == "tool"]
        if len(results) < 2:
            return decide(calls=[call("long"), call("picture")])
        if len(results) == 2:
            return decide(calls=[call("read_artifact", **{"name": NAME, **arguments})])
        return decide(calls=[call("done", answer=results[-1].text)])

    async with Workspace(tmp_path / "ws", tools=[long, picture]) as ws:
        result = await ws.run("Read it.", model=ScriptedModel(model), system="react")
        events = await ws.log.events(result.run_id)
        (whole,) = [ref for ref in result.artifacts if ref.name == NAME]
        assert (await ws.files.artifact(result.run_id, NAME)).decode() == WHOLE and whole.size == len(WHOLE)
        (said,) = [e.body["outcome"] for e in events if e.type == "completed" and e.span == "/1.react#7"]
        assert said.get("trust", "untrusted") == "untrusted"
        return result.answer


async def test_a_part_says_how_to_go_on(tmp_path: Path) -> None:
    assert await read(tmp_path, start=10, chars=20) == (
        f"{WHOLE[10:30]}\n[characters 10 to 30 of {len(WHOLE):,}; {len(WHOLE) - 30:,} more follow, go on with start=30]"
    )


async def test_the_last_part_says_so(tmp_path: Path) -> None:
    start = len(WHOLE) - 5
    assert await read(tmp_path, start=start, chars=20) == (
        f"{WHOLE[-5:]}\n[characters {start:,} to {len(WHOLE):,} of {len(WHOLE):,}; this is the end]"
    )


async def test_a_search_gives_the_places(tmp_path: Path) -> None:
    found = await read(tmp_path, search="LINE 1999:")
    at = WHOLE.index("line 1999:")
    assert found.startswith(f"[at {at:,}]\n") and WHOLE[at : at + 40] in found


async def test_a_search_with_many_places_says_how_many_are_left_out(tmp_path: Path) -> None:
    assert (await read(tmp_path, search="line 7")).endswith("[101 more places]")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"search": "linne"}, f"'linne' does not stand in it ({len(WHOLE):,} characters); did you mean 'line'?"),
        ({"start": 10**7}, f"start is 10,000,000, and {NAME} has {len(WHOLE):,} characters; choose a smaller start"),
        ({"name": "nothing"}, "the run has no artifact 'nothing'; its artifacts: "),
        ({"name": "p.png"}, "the artifact 'p.png' is no text (5 bytes); it cannot be read in parts"),
    ],
)
async def test_what_cannot_be_read_is_said(tmp_path: Path, arguments: dict[str, Any], sentence: str) -> None:
    assert sentence in await read(tmp_path, **arguments)
