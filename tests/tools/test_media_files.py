"""Pictures and recordings given with a task: shown to models that take them, written down by one that listens."""

from __future__ import annotations

import base64
import io
import json
import wave
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, ServerReply, call, decide
from agentorchestra.workspace import Workspace

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


def spoken() -> bytes:
    """Half a second of a recording."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(bytes(8000))
    return buffer.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "dot.png", tmp_path / "talk.wav", tmp_path / "notes.txt"]
    for path, data in zip(paths, (PNG, spoken(), b"The boat costs 40 pounds."), strict=True):
        path.write_bytes(data)
    return paths


async def test_a_picture_is_shown(tmp_path: Path, files: list[Path]) -> None:
    replies = [decide(calls=[call("read_file", name="dot.png")]), decide(calls=[call("done", answer="A dot.")])]
    async with LoopbackModelServer(replies) as server:
        models = {"m": ModelProfile(model="openai:gpt-5", base_url=server.base_url)}
        async with Workspace(tmp_path / "ws", settings=Settings(models=models, model="m", system="react")) as ws:
            result = await ws.run("What is in the picture?", files=files)
            assert (await ws.replay(result.run_id)).answer == "A dot."
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "A dot.")
    assert base64.b64encode(PNG).decode() in json.dumps(server.requests[1])
    assert base64.b64encode(PNG).decode() not in json.dumps(server.requests[0])


async def test_a_recording_is_written_down(tmp_path: Path, files: list[Path]) -> None:
    def answer(body: dict[str, Any]) -> ServerReply:
        assert body["endpoint"] == "audio/transcriptions" and body["file"] == "talk.wav"
        return ServerReply(answer="Meet me at noon.")

    script = ScriptedModel(
        [
            decide(calls=[call("transcribe_file", name="talk.wav")]),
            lambda request: decide(calls=[call("done", answer=request.messages[-2].text)]),
        ]
    )
    async with LoopbackModelServer(answer) as server:
        models = {"ears": ModelProfile(model="openai:ears", base_url=server.base_url)}
        settings = Settings(models=models, transcription_model="ears", system="react")
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("What is said?", files=files, model=script)
            assert (await ws.replay(result.run_id)).answer == result.answer_text
    assert result.answer == "Meet me at noon."
    assert server.count == 1


@tool(effect="composite")
async def describe(ctx: RunContext[Any]) -> str:
    """What the analyzer is told before its first step."""
    return "\n".join(block.text for block in (await ctx.call_tool("describe_files")).blocks() if block.type == "text")


async def test_the_other_tools_say_what_they_are(tmp_path: Path, files: list[Path]) -> None:
    script = ScriptedModel(
        [
            decide(calls=[call("describe"), call("search_files", query="boat"), call("read_file", name="talk.wav")]),
            lambda request: decide(
                calls=[call("done", answer="\n".join(one.text for one in request.messages if one.role == "tool"))]
            ),
        ]
    )
    async with Workspace(tmp_path / "ws", settings=Settings(system="react")) as ws:
        assert "transcribe_file" not in ws.catalog.tools, "nobody listens: no model is named"
        result = await ws.run("Look.", files=files, model=script, tools=[describe])
    assert "dot.png: image/png, 69 bytes; dot.png is a picture (image/png)" in result.answer
    assert "talk.wav is a recording (audio/wav): it holds no text that could be searched" in result.answer
    assert "The boat costs 40 pounds." in result.answer
    assert "[audio/wav talk.wav, 8044 bytes]" in result.answer


async def test_a_picture_disturbs_no_question_about_words(tmp_path: Path, files: list[Path]) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("How much does the boat cost?", files=files)
    assert "40 pounds" in result.answer, result.answer
