"""An embedding model on this machine: `local:FOLDER`, an ONNX file beside its tokenizer (extra `embeddings`).

The folder is what models of sentence-transformers are published as: `tokenizer.json`, and `model.onnx` there or in
`onnx/`. Texts become the mean of their tokens' vectors, of length 1, as those models were trained. Nothing is
downloaded, and nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import MissingExtraError, ModelRequestError, SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.client import Media, OnDelta
from agentorchestra.models.endpoint import LOCAL

LONGEST = 256  # tokens of a text; what comes after them is not read, as these models were trained
TOGETHER = 16  # texts of similar length that go through the model at once


class LocalEmbedder:
    """A `ModelClient` that only embeds; raise SettingsError if the folder has no model."""

    native_tools = False

    def __init__(self, profile: ModelProfile) -> None:
        self.name = profile.model
        self.profile = profile
        self._files = model_files(profile.model)
        self._loaded: tuple[Any, Any] | None = None
        self._busy = asyncio.Lock()

    async def request(self, request: ModelRequest, *, media: Media, on_delta: OnDelta | None = None) -> ModelResponse:
        """Refuse with ModelRequestError: it writes nothing."""
        raise ModelRequestError(f"{self.name} only embeds texts; name another model for requests (model = ...)")

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """Return a vector of length 1 for each text, at no cost; raise ModelRequestError, MissingExtraError."""
        async with self._busy:
            vectors, tokens = await asyncio.to_thread(self._vectors, list(texts))
        return vectors, Usage(requests=1, input_tokens=tokens, cost_usd=0.0)

    def price(self, usage: Usage) -> float:
        """Return nothing: it runs here."""
        return 0.0

    async def aclose(self) -> None:
        """Forget the model; it is read again when it is needed."""
        self._loaded = None

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            try:
                import onnxruntime  # type: ignore[import-untyped]
                from tokenizers import Tokenizer
            except ImportError as exc:
                raise MissingExtraError(
                    f"model {self.name!r} needs the package {exc.name}, which is not installed; "
                    'run: pip install "agentorchestra[embeddings]"'
                ) from None
            network, words = self._files
            try:
                tokenizer = Tokenizer.from_file(str(words))
                session = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
            except Exception as exc:  # each library has errors of its own, down to bare Exception
                raise ModelRequestError(f"{self.name} cannot be read: {str(exc)[:200]}") from exc
            tokenizer.no_padding()
            tokenizer.enable_truncation(LONGEST)
            self._loaded = tokenizer, session
        return self._loaded

    def _vectors(self, texts: list[str]) -> tuple[list[list[float]], int]:
        tokenizer, session = self._load()
        read = tokenizer.encode_batch(texts)
        vectors: list[list[float]] = [[] for _ in texts]
        # What is padded costs as much as what is not: texts of one length go together.
        order = sorted(range(len(texts)), key=lambda place: len(read[place].ids))
        for start in range(0, len(order), TOGETHER):
            places = order[start : start + TOGETHER]
            batch = self._run(session, [read[place].ids for place in places])
            for place, vector in zip(places, batch, strict=True):
                vectors[place] = vector
        return vectors, sum(len(encoding.ids) for encoding in read)

    def _run(self, session: Any, ids: list[list[int]]) -> list[list[float]]:
        import numpy

        width = max(1, *(len(sequence) for sequence in ids))
        tokens = numpy.zeros((len(ids), width), dtype=numpy.int64)
        mask = numpy.zeros_like(tokens)
        for row, sequence in enumerate(ids):
            tokens[row, : len(sequence)], mask[row, : len(sequence)] = sequence, 1
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": numpy.zeros_like(tokens)}
        names = [node.name for node in session.get_inputs()]
        unknown = sorted(set(names) - set(inputs))
        if unknown:
            raise ModelRequestError(f"{self.name} wants the inputs {', '.join(unknown)}, which no text gives")
        try:
            hidden = session.run(None, {name: inputs[name] for name in names})[0]
        except Exception as exc:  # the library's errors have no common class
            raise ModelRequestError(f"{self.name} failed: {str(exc)[:200]}") from exc
        if hidden.ndim == 3:
            weight = mask[:, :, None].astype(numpy.float32)
            hidden = (hidden * weight).sum(axis=1) / numpy.maximum(weight.sum(axis=1), 1e-9)
        length = numpy.maximum(numpy.linalg.norm(hidden, axis=1, keepdims=True), 1e-12)
        rows: list[list[float]] = (hidden / length).astype(numpy.float32).tolist()
        return rows


def model_files(name: str) -> tuple[Path, Path]:
    """Return the network and the tokenizer of `local:FOLDER`; raise SettingsError if one is missing."""
    folder = Path(name.removeprefix(LOCAL)).expanduser()
    network = next((path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()), None)
    words = folder / "tokenizer.json"
    if network is None or not words.is_file():
        missing = "model.onnx (there or in onnx/)" if network is None else "tokenizer.json"
        raise SettingsError(
            f"model {name!r}: {folder} holds no {missing}; give the folder of a sentence-transformers model with its "
            "ONNX file"
        )
    return network, words
