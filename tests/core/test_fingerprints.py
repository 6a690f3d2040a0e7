"""Fingerprints and requests: what identifies an effect, and how the log stores it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, blocks_value
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import Message, ModelRequest, ToolSchema, system, user
from agentorchestra.log.codec import EffectCodec
from agentorchestra.log.ledger import parent_key, within


def _request(count: int, schemas: tuple[ToolSchema, ...] = ()) -> ModelRequest:
    messages = [system("Be brief."), user("a task")]
    messages += [Message(role="assistant", content=(TextBlock(text=f"step {i}"),)) for i in range(count)]
    return ModelRequest(model="m", messages=(*messages, user(f"step {count} of many")), tools=schemas)


def _effect(request: ModelRequest) -> Effect:
    return Effect(kind=EffectKind.REQUEST_MODEL, component="m@1.0.0", request=request, mode=Mode.REPEATABLE)


def test_version_and_hash_lie_beside_the_fingerprint() -> None:
    one = Effect(kind=EffectKind.INVOKE_TOOL, component="a@1.0.0", content_hash="x", arguments={"b": 1, "a": 2})
    two = Effect(kind=EffectKind.INVOKE_TOOL, component="a@2.0.0", content_hash="y", arguments={"a": 2, "b": 1})
    other = Effect(kind=EffectKind.INVOKE_TOOL, component="a@1.0.0", arguments={"a": 2, "b": 3})
    assert one.fingerprint == two.fingerprint != other.fingerprint


@pytest.mark.long
def test_a_long_run_stores_each_message_once() -> None:
    codec = EffectCodec()
    schema = ToolSchema(name="t", description="d" * 500, parameters={"type": "object"})
    bodies = [codec.encode(_effect(_request(n, (schema,)))) for n in range(300)]
    size = len(json.dumps(bodies))
    assert size < 300 * 600  # linear: the last request alone has 300 messages
    assert sum("schemas" in body["request"] for body in bodies) == 1  # type: ignore[operator]
    fresh = EffectCodec()
    for body in bodies:
        fresh.learn(json.loads(json.dumps(body)))
    assert fresh.decode(bodies[299]).request == _request(299, (schema,))
    assert fresh.decode(bodies[0]).fingerprint == _effect(_request(0, (schema,))).fingerprint
    # A loaded codec goes on where the first one stopped.
    assert len(json.dumps(fresh.encode(_effect(_request(300, (schema,)))))) < 900


def test_a_shorter_request_refers_into_a_longer_one() -> None:
    codec = EffectCodec()
    long, short = _request(10), ModelRequest(model="m", messages=_request(10).messages[:5])
    codec.encode(_effect(long))
    stored = codec.encode(_effect(short))
    assert stored["request"]["appended"] == []  # type: ignore[index,call-overload]
    assert codec.decode(stored).request == short


_TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.lists(st.tuples(_TEXT, st.sampled_from(list(Trust)), st.booleans()), min_size=1, max_size=5))
def test_blocks_survive_the_log(parts: list[tuple[str, Trust, bool]]) -> None:
    blocks = tuple(
        TextBlock(text=text, trust=trust, source=Source(kind="file", ref="a", place="p. 1") if sourced else None)
        for text, trust, sourced in parts
    )
    outcome = Outcome(value=blocks_value(blocks))
    stored = json.loads(json.dumps(outcome.model_dump(mode="json", exclude_defaults=True)))
    assert Outcome.model_validate(stored).blocks() == blocks


@given(st.integers(1, 99))
def test_keys_are_read_back(n: int) -> None:
    key = EffectKey("/3.planner/2.x", n)
    assert EffectKey.parse(str(key)) == key


def test_the_tree_of_branches() -> None:
    assert parent_key("/3.planner/2.x") == EffectKey("/3.planner", 2)
    assert parent_key("/3.planner") == EffectKey("/", 3)
    assert parent_key("/") is None
    assert within("/3.planner/1.a", "/3") and within("/3.planner", "/3.planner") and not within("/31.a", "/3")
