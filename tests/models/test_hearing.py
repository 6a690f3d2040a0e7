"""Recordings where no model hears: a model on this machine, or a sentence before anything is spent.

No weights can be had in the tests: what the library says of a model that it cannot read is held.
"""

from __future__ import annotations

import wave
from pathlib import Path

import pytest

from agentorchestra.core.errors import ModelRequestError, SettingsError, UnheardRecordingError
from agentorchestra.core.messages import ModelRequest, user
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.models.local_transcription import LocalTranscriber
from agentorchestra.models.manager import ModelManager
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.models.support import no_media


def recording(folder: Path) -> Path:
    """A second of silence."""
    path = folder / "talk.wav"
    with wave.open(str(path), "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(2)
        made.setframerate(16_000)
        made.writeframes(bytes(32_000))
    return path


def damaged(folder: Path) -> str:
    """A folder that looks like a model; its name."""
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"nothing of the sort")
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    return f"local:{folder}"


async def test_a_model_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    name = damaged(tmp_path / "whisper")
    manager = ModelManager(Settings(transcription_model=name), {})
    manager.check(name)
    assert manager.free(name) and manager.price_known(name)
    client = manager.client(name)
    assert isinstance(client, LocalTranscriber)
    with pytest.raises(ModelRequestError, match=r"whisper cannot be read: Unsupported model binary version"):
        await client.transcribe(recording(tmp_path).read_bytes(), "talk.wav", "audio/wav")
    with pytest.raises(ModelRequestError, match="only writes down what is said; name another model for requests"):
        await client.request(ModelRequest(model=name, messages=(user("hello"),)), media=no_media)
    await manager.aclose()


def test_an_empty_folder_is_refused_before_it_is_used(tmp_path: Path) -> None:
    name = f"local:{tmp_path}"
    says = r"holds no model\.bin and no config\.json and no tokenizer\.json; give the folder of a Whisper model"
    with pytest.raises(SettingsError, match=says):
        ModelManager(Settings(transcription_model=name), {}).check(name)
    with pytest.raises(SettingsError, match=says):
        LocalTranscriber(ModelProfile(model=name))


async def test_a_recording_that_nobody_hears_is_refused_before_a_run_spends_anything(tmp_path: Path) -> None:
    model = ScriptedModel([], profile=ModelProfile(model="scripted", audio=False))
    talk = recording(tmp_path)
    async with Workspace(tmp_path / "ws", settings=Settings(system="react")) as ws:
        with pytest.raises(UnheardRecordingError, match=r"talk\.wav is a recording, and no model of this run") as told:
            await ws.run("What is said?", files=[talk], model=model)
        assert not await ws.runs.list() and not model.requests
    assert "transcription_model in agentorchestra.toml" in str(told.value) and "local:FOLDER" in str(told.value)
    scribe = Settings(system="react", transcription_model=f"local:{tmp_path / 'none'}")
    async with Workspace(tmp_path / "ws", settings=scribe) as ws:
        with pytest.raises(SettingsError, match=r"holds no model\.bin"):
            await ws.run("What is said?", files=[talk], model=model)
        assert not await ws.runs.list()


async def test_the_run_hears_of_a_model_that_cannot_be_read(tmp_path: Path) -> None:
    """It is an observation: the agent may go on without the recording."""
    steps = [
        decide(calls=[call("transcribe_file", name="talk.wav")]),
        decide(calls=[call("done", answer="nobody could hear it")]),
    ]
    model = ScriptedModel(steps, profile=ModelProfile(model="scripted", audio=False))
    settings = Settings(system="react", transcription_model=damaged(tmp_path / "whisper"))
    async with Workspace(tmp_path / "ws", settings=settings) as ws:
        result = await ws.run("What is said?", files=[recording(tmp_path)], model=model)
    assert result.answer == "nobody could hear it" and not result.usage.uncertain
    assert "cannot be read: Unsupported model binary version" in str(model.requests[1].messages)
