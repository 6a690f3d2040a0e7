"""What agents ask of models beside their steps: vectors of texts, what is said in recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import MediaBlock
from agentorchestra.core.effects import ArtifactRef, Effect, EffectKind, Mode
from agentorchestra.core.errors import SettingsError, ToolError, UnknownComponentError
from agentorchestra.core.spec import FileRef, first_names
from agentorchestra.core.vectors import unpack
from agentorchestra.runtime.branch import Branch

MOST_TEXTS, MOST_CHARS = 256, 200_000  # texts that are embedded by one effect


async def embed(branch: Branch, texts: Sequence[str], model: str) -> list[list[float]]:
    if isinstance(texts, str):
        raise ToolError("embed takes a list of texts, not one text; write [text]")
    name = _model_name(model, branch.run.manifest.embedding_model, "embedding_model")
    # Many texts are several effects: what was embedded before a failure is not paid again.
    requests: list[dict[str, JsonValue]] = [{"texts": [*part], "model": name} for part in _in_parts(texts)]
    vectors: list[list[float]] = []
    for value in await _beside(branch, EffectKind.EMBED, name, requests):
        vectors += unpack(await branch.run.blob(value["vectors"]), value["dimensions"])
    return vectors


async def transcribe(branch: Branch, recording: str | ArtifactRef | MediaBlock, model: str) -> str:
    name = _model_name(model, branch.run.manifest.transcription_model, "transcription_model")
    ref: FileRef | ArtifactRef | MediaBlock
    if isinstance(recording, str):
        files = branch.run.files
        try:
            ref = files.get(recording) or branch.run.artifact_ref(recording)
        except UnknownComponentError as exc:
            names = first_names(files)
            raise UnknownComponentError(f"the run has no file {recording!r}; its files: {names}; {exc}") from None
    else:
        ref = recording
    request: dict[str, JsonValue] = {"file": ref.name, "model": name}
    request |= {"sha256": ref.sha256, "size": ref.size, "media_type": ref.media_type}
    (value,) = await _beside(branch, EffectKind.TRANSCRIBE, name, [request])
    return str(value["text"])


def _model_name(name: str, default: str, setting: str) -> str:
    if name or default:
        return name or default
    raise SettingsError(f"no model is named for this; set {setting} in agentorchestra.toml, or give model=")


async def _beside(
    branch: Branch, kind: EffectKind, model: str, arguments: Sequence[dict[str, JsonValue]]
) -> list[dict[str, Any]]:
    effects = [
        Effect(
            kind=kind,
            component=f"{model}@1.0.0",
            arguments=part,
            mode=Mode.REPEATABLE,
            role=branch.role,
            purpose="tool",
            provenance=branch.provenance,
        )
        for part in arguments
    ]
    values = []
    for outcome in await branch.perform_all(effects):
        if not outcome.ok or not isinstance(outcome.value, dict):
            raise ToolError(outcome.error or f"{model} gave no result")
        values.append(outcome.value)
    return values


def _in_parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in portions of a size that every provider takes at once."""
    part: list[str] = []
    chars = 0
    for text in texts:
        if part and (len(part) >= MOST_TEXTS or chars + len(text) > MOST_CHARS):
            yield part
            part, chars = [], 0
        part.append(text)
        chars += len(text)
    if part:
        yield part
