"""Packaged tools that the settings take away: no agent of a run has them, and runs recorded so go on so."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

MEDIA = ("ask_media", "transcribe_file", "analyze_file")


class Asked:
    """Delegates once where it can; keeps the tools that each request showed."""

    def __init__(self) -> None:
        self.tools: list[set[str]] = []

    def __call__(self, request: ModelRequest) -> ModelResponse:
        names = {schema.name for schema in request.tools}
        self.tools.append(names)
        if "deep_analyzer" in names and request.messages[-1].role != "tool" and len(self.tools) == 1:
            return decide(calls=[call("deep_analyzer", task="Look at the picture.")])
        return decide(calls=[call("done", answer="seen")])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", ["oagents", "agentorchestra"])
async def test_no_agent_of_a_run_has_them(system: str, tmp_path: Path) -> None:
    shown: dict[bool, set[str]] = {}
    for without in (False, True):
        settings = Settings(
            system=system, first_tools="all", model="asked", without_tools=MEDIA if without else (), max_steps=4
        )
        place, model = tmp_path / str(without), Asked()
        async with Workspace(place, settings=settings, models={"asked": ScriptedModel(model)}) as ws:
            result = await ws.run("What stands in the picture?")
        assert result.answer == "seen"
        shown[without] = set().union(*model.tools)
        async with Workspace(place, settings=settings, models={"asked": ScriptedModel([])}) as ws:
            assert (await ws.replay(result.run_id)).answer == "seen"
            assert (await ws.resume(result.run_id)).answer == "seen"
    assert {"ask_media", "analyze_file"} <= shown[False]
    assert not {*MEDIA} & shown[True]
    assert "read_file" in shown[True]


async def test_a_tool_that_is_not_packaged_cannot_be_taken_away(tmp_path: Path) -> None:
    async with Workspace(tmp_path, settings=Settings(without_tools=("ask_medium",))) as ws:
        with pytest.raises(UnknownComponentError, match=r"take away \(without_tools\) ask_medium; .* ask_media"):
            await ws.create("Why?")
        assert await ws.runs.list() == []
