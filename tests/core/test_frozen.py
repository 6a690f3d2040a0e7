"""Values that remember what was computed from them: a changed copy computes anew."""

from __future__ import annotations

import pytest

from agentorchestra.core import messages
from agentorchestra.core.content import TextBlock
from agentorchestra.core.effects import Effect, EffectKind
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import Message, ModelRequest, user
from agentorchestra.models.prices import estimate_messages_tokens


def test_a_changed_copy_has_a_hash_and_a_size_of_its_own() -> None:
    long = user("word " * 1_000)
    before = (long.digest, long.chars, estimate_messages_tokens((long,)))
    short = long.model_copy(update={"content": (TextBlock(text="word"),)})
    assert short.digest == Message(role="user", content=(TextBlock(text="word"),)).digest != before[0]
    assert estimate_messages_tokens((short,)) < 100 < before[2]
    assert (long.digest, long.chars) == before[:2]
    assert long.content[0].model_copy(update={"text": "word"}).digest != long.content[0].digest


def test_a_changed_effect_has_a_fingerprint_of_its_own() -> None:
    effect = Effect(kind=EffectKind.INVOKE_TOOL, component="add@1.0.0", arguments={"a": 1})
    assert effect.fingerprint != effect.model_copy(update={"arguments": {"a": 2}}).fingerprint


def test_a_request_after_another_has_the_chain_it_would_have_alone() -> None:
    history = tuple(user(f"message {n}") for n in range(6))
    first = ModelRequest(model="m", messages=history[:3])
    for shown in (history, history[:2], (history[0], history[5], *history[2:4]), ()):
        alone = ModelRequest(model="m", messages=shown)
        assert ModelRequest(model="m", messages=shown).after(first).chain == alone.chain
    assert (
        ModelRequest(model="m", messages=history).after(None).chain == ModelRequest(model="m", messages=history).chain
    )


def test_a_late_step_hashes_no_more_than_an_early_one(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = 0

    def counting(text: str) -> str:
        nonlocal hashed
        hashed += 1
        return sha256_text(text)

    monkeypatch.setattr(messages, "sha256_text", counting)
    history: tuple[Message, ...] = (user("task"),)
    last: ModelRequest | None = None
    counts = []
    for step in range(100):
        before = hashed
        last = ModelRequest(model="m", messages=(*history, user(f"progress {step}"))).after(last)
        assert len(last.chain) == len(history) + 1
        counts.append(hashed - before)
        history += (user(f"decision {step}"), user(f"result {step}"))
    assert set(counts[1:]) == {3}
