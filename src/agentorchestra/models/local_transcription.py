"""A model on this machine that writes down what is said: `local:FOLDER`, of faster-whisper (extra `audio`).

The folder is what models of Whisper are published as in CTranslate2's form: `model.bin` beside `config.json` and
`tokenizer.json`. Nothing is downloaded, and nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import threading
from pathlib import Path
from typing import Any

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import MissingExtraError, ModelRequestError, SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.client import Media, OnDelta
from agentorchestra.models.endpoint import LOCAL

WEIGHTS = "model.bin"
"""By this file a folder is one of a model that hears, and not one that embeds (models/local_embedding.py)."""

_FILES = (WEIGHTS, "config.json", "tokenizer.json")


class LocalTranscriber:
    """A `ModelClient` that only transcribes; raise as `speech_folder`."""

    native_tools = False

    def __init__(self, profile: ModelProfile) -> None:
        self.name = profile.model
        self.profile = profile
        self._folder = speech_folder(profile.model)
        self._loaded: Any = None
        self._busy = asyncio.Lock()

    async def request(self, request: ModelRequest, *, media: Media, on_delta: OnDelta | None = None) -> ModelResponse:
        """Refuse with ModelRequestError: it answers nothing."""
        raise ModelRequestError(
            f"{self.name} only writes down what is said; name another model for requests (model = ...)"
        )

    async def transcribe(self, data: bytes, name: str, media_type: str) -> tuple[str, Usage]:
        """Return what is said in a recording, at no cost; raise ModelRequestError if it cannot be read."""
        stop = threading.Event()
        async with self._busy:
            try:
                text = await asyncio.to_thread(self._transcript, data, name, stop)
            finally:
                stop.set()  # nobody awaits a cancelled call's thread: it stops after a sentence
        return text, Usage(requests=1, cost_usd=0.0)

    def price(self, usage: Usage) -> float:
        """Return nothing: it runs here."""
        return 0.0

    def sound_price(self, usage: Usage, seconds: float) -> float:
        """Return nothing: it runs here."""
        return 0.0

    async def aclose(self) -> None:
        """Forget the model; it is read again when it is needed."""
        self._loaded = None

    def _load(self) -> Any:
        if self._loaded is None:
            from faster_whisper import WhisperModel  # type: ignore[import-untyped]

            try:
                self._loaded = WhisperModel(str(self._folder), local_files_only=True)
            except Exception as exc:  # each of its libraries has errors of its own, down to bare Exception
                raise ModelRequestError(f"{self.name} cannot be read: {str(exc)[:200]}") from exc
        return self._loaded

    def _transcript(self, data: bytes, name: str, stop: threading.Event) -> str:
        model = self._load()
        texts: list[str] = []
        try:
            sentences, _ = model.transcribe(io.BytesIO(data))
            for sentence in sentences:
                if stop.is_set():
                    break
                texts.append(sentence.text.strip())
        except Exception as exc:  # see above; broken recordings come as errors of the decoder
            raise ModelRequestError(f"{self.name} cannot write down {name}: {str(exc)[:200]}") from exc
        return " ".join(texts)


def hears(name: str) -> bool:
    """Return whether the folder of `local:FOLDER` holds a model that writes down what is said."""
    return (Path(name.removeprefix(LOCAL)).expanduser() / WEIGHTS).is_file()


def speech_folder(name: str) -> Path:
    """Return the folder of `local:FOLDER`; raise SettingsError or MissingExtraError with what is missing."""
    folder = Path(name.removeprefix(LOCAL)).expanduser()
    missing = [file for file in _FILES if not (folder / file).is_file()]
    if missing:
        raise SettingsError(
            f"model {name!r}: {folder} holds no {' and no '.join(missing)}; give the folder of a Whisper model in the "
            "form of CTranslate2, as faster-whisper reads it"
        )
    if importlib.util.find_spec("faster_whisper") is None:
        raise MissingExtraError(
            f"model {name!r} needs the package faster-whisper, which is not installed; "
            'run: pip install "agentorchestra[audio]"'
        )
    return folder
