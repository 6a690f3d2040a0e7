"""How effects are written: the short way gives what the model would write, and nothing shared can be changed."""

from __future__ import annotations

import json
from typing import Any

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance, Tag
from agentorchestra.core.messages import ModelRequest, user
from agentorchestra.log.codec import EffectCodec

SEEN = (Provenance(kind="task", trust=Trust.USER), Provenance(kind="file", ref="a.pdf"))

EFFECTS = [
    Effect(kind=EffectKind.RECEIVE, component="inbox@1.0.0", mode=Mode.PURE),
    Effect(
        kind=EffectKind.INVOKE_TOOL,
        component="add@1.0.0",
        content_hash="ab" * 32,
        arguments={"a": [1, {"b": None}], "text": "é\ud83d"},
        tags=frozenset({Tag.WRITE, Tag.NETWORK, Tag.READ}),
        role="agent",
        purpose="question",
        provenance=SEEN,
        instance="tool:add",
        world="main/3.0",
        invalid="",
        timeout_s=0.0,
    ),
]


def test_an_effect_is_written_as_the_model_would() -> None:
    codec = EffectCodec()
    for effect in EFFECTS:
        expected = effect.model_dump(mode="json", exclude_defaults=True, exclude={"request"})
        if "tags" in expected:
            expected["tags"] = sorted(expected["tags"])
        assert json.dumps(codec.encode(effect)) == json.dumps(expected)
        assert codec.decode(codec.encode(effect)) == effect


def test_what_is_stored_does_not_change_with_the_arguments() -> None:
    arguments: dict[str, Any] = {"rows": [1, 2]}
    effect = Effect(kind=EffectKind.INVOKE_TOOL, component="add@1.0.0", arguments=arguments)
    stored = EffectCodec().encode(effect)
    effect.arguments["rows"].append(3)  # type: ignore[union-attr]
    assert stored["arguments"] == {"rows": [1, 2]}


def test_sources_that_changed_are_written_anew() -> None:
    codec = EffectCodec()
    seen = [EFFECTS[0].model_copy(update={"provenance": one}) for one in (SEEN, SEEN[:1], SEEN, ())]
    assert [len(list(codec.encode(one).get("provenance", ()))) for one in seen] == [2, 1, 2, 0]  # type: ignore[arg-type]


def test_what_a_process_keeps_of_a_request_is_read_back_whole() -> None:
    codec = EffectCodec()
    history = tuple(user(f"message {n}") for n in range(5))
    for count in (2, 3, 5, 2):
        request = ModelRequest(model="m", messages=history[:count])
        effect = Effect(kind=EffectKind.REQUEST_MODEL, component="m@1.0.0", request=request, mode=Mode.REPEATABLE)
        stored = codec.encode(effect)
        kept = codec.lean_body(stored, effect)
        assert "appended" in stored["request"] and "appended" not in kept["request"]  # type: ignore[operator]
        assert codec.decode(kept) == codec.decode(stored) == effect
