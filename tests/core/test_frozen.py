"""Values that remember what was computed from them: a changed copy computes anew."""

from __future__ import annotations

from agentorchestra.core.content import TextBlock
from agentorchestra.core.effects import Effect, EffectKind
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
    for messages in (history, history[:2], (history[0], history[5], *history[2:4]), ()):
        alone = ModelRequest(model="m", messages=messages)
        assert ModelRequest(model="m", messages=messages).after(first).chain == alone.chain
    assert (
        ModelRequest(model="m", messages=history).after(None).chain == ModelRequest(model="m", messages=history).chain
    )
