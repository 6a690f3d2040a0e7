"""Embedding models on this machine: a small one is made here, in the format of ONNX, and read as any other."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest

from agentorchestra.core.errors import ModelRequestError, SettingsError
from agentorchestra.core.messages import ModelRequest, user
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.models.local_embedding import LONGEST, LocalEmbedder
from agentorchestra.models.manager import ModelManager

WORDS = {"[UNK]": 0, "rain": 1, "umbrella": 2, "boat": 3}
TABLE = [[0.0, 0.0, 1.0], [1.0, 0.1, 0.0], [0.9, 0.2, 0.0], [0.1, 1.0, 0.0]]


def _number(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def _int(field: int, value: int) -> bytes:
    return _number(field << 3) + _number(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _number(field << 3 | 2) + _number(len(data)) + data


def _value(name: str, kind: int, axes: tuple[str, ...]) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, axis)) for axis in axes)
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, kind) + _bytes(2, shape)))


def network(inputs: tuple[str, ...] = ("input_ids", "attention_mask")) -> bytes:
    """A model that looks every token up in a table (the wire format of protobuf, by hand)."""
    flat = b"".join(struct.pack("<f", number) for row in TABLE for number in row)
    table = _int(1, len(TABLE)) + _int(1, len(TABLE[0])) + _int(2, 1) + _bytes(8, "table") + _bytes(9, flat)
    look_up = _bytes(1, "table") + _bytes(1, inputs[0]) + _bytes(2, "hidden") + _bytes(4, "Gather")
    graph = _bytes(1, look_up) + _bytes(2, "words") + _bytes(5, table)
    graph += b"".join(_bytes(11, _value(name, 7, ("batch", "length"))) for name in inputs)
    graph += _bytes(12, _value("hidden", 1, ("batch", "length", "size")))
    return _int(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _int(2, 13))


def write_model(folder: Path, *, inputs: tuple[str, ...] = ("input_ids", "attention_mask")) -> str:
    """A folder with a model; its name."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": WORDS, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "onnx").mkdir(exist_ok=True)
    (folder / "onnx" / "model.onnx").write_bytes(network(inputs))
    return f"local:{folder}"


def _manager(embedding_model: str = "") -> ModelManager:
    return ModelManager(Settings(embedding_model=embedding_model), {})


async def test_texts_become_vectors_of_length_one(tmp_path: Path) -> None:
    name = write_model(tmp_path)
    manager = _manager(embedding_model=name)
    manager.check(name)
    assert manager.free(name)
    client = manager.client(name)
    assert isinstance(client, LocalEmbedder)
    texts = ["boat", "rain umbrella rain", "", *["rain boat"] * 40]
    vectors, usage = await client.embed(texts)
    assert [round(math.hypot(*one), 5) for one in vectors] == [1, 1, 0, *[1] * 40]
    expected = [(1.0 + 0.9 + 1.0) / 3, (0.1 + 0.2 + 0.1) / 3]
    length = math.hypot(*expected)
    assert vectors[1] == pytest.approx([expected[0] / length, expected[1] / length, 0.0], abs=1e-5)
    # However many go together, and in whatever order, a text has its own vector.
    assert vectors[0] == pytest.approx([0.0995, 0.9950, 0.0], abs=1e-3)
    assert all(one == pytest.approx(vectors[3]) for one in vectors[3:])
    assert (usage.input_tokens, usage.cost_usd) == (1 + 3 + 80, 0.0)
    _, cut = await client.embed(["rain " * 10_000])
    assert cut.input_tokens == LONGEST
    with pytest.raises(ModelRequestError, match="only embeds texts; name another model for requests"):
        await client.request(ModelRequest(model=name, messages=(user("hello"),)), media=_no_media)
    await manager.aclose()


async def _no_media(sha256: str) -> bytes:
    raise AssertionError(sha256)


async def test_models_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"holds no model\.onnx \(there or in onnx/\); give the folder of a"):
        _manager().check(f"local:{tmp_path}")
    name = write_model(tmp_path / "a")
    (tmp_path / "a" / "tokenizer.json").unlink()
    with pytest.raises(SettingsError, match=r"holds no tokenizer\.json"):
        _manager().check(name)
    broken = write_model(tmp_path / "b")
    (tmp_path / "b" / "onnx" / "model.onnx").write_bytes(b"nothing of the sort")
    with pytest.raises(ModelRequestError, match="b cannot be read: "):
        await LocalEmbedder(ModelProfile(model=broken)).embed(["rain"])
    strange = write_model(tmp_path / "c", inputs=("input_ids", "pixels"))
    with pytest.raises(ModelRequestError, match="wants the inputs pixels, which no text gives"):
        await LocalEmbedder(ModelProfile(model=strange)).embed(["rain"])
