"""What is written out by hand for speed is what pydantic gives."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra.core.budget import NO_USAGE, Usage
from agentorchestra.core.clock import stamp_utc
from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import ArtifactRef, Effect, EffectKind, Outcome
from agentorchestra.core.events import EffectCompleted, NewEvent, written_event
from agentorchestra.core.frozen import construct
from agentorchestra.core.ids import canonical_json, copy_json, is_flat, is_plain
from agentorchestra.log.store.rows import body_json

PLAIN: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None))
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
TIMES = (
    st.none() | st.datetimes(timezones=st.just(UTC)) | st.datetimes(timezones=st.just(timezone(timedelta(hours=-3))))
)


@given(
    value=VALUES,
    writes=st.dictionaries(st.text(), VALUES, max_size=2),
    ended_at=TIMES,
    trust=st.sampled_from(Trust),
    usage=st.sampled_from([NO_USAGE, Usage(), Usage(requests=1, cost_usd=None)]),
    artifacts=st.sampled_from([(), (ArtifactRef(name="a", sha256="0" * 64, size=1),)]),
    links=st.sampled_from([(), (("0", "address"),)]),
    failure=st.sampled_from([{}, {"status": "error", "error": "no", "error_type": "E"}]),
)
def test_a_stored_outcome(failure: dict[str, Any], **rest: Any) -> None:
    outcome = Outcome(**failure, **rest)
    assert outcome.log_json() == outcome.model_dump(mode="json", exclude_defaults=True)


def test_what_is_stored_is_a_copy() -> None:
    value: dict[str, Any] = {"list": [1]}
    stored = (outcome := Outcome(value=value)).log_json()
    outcome.value["list"].append(2)  # type: ignore[index, union-attr, call-overload]
    assert stored == {"value": {"list": [1]}}


def test_an_outcome_that_needs_no_check() -> None:
    made = Outcome.of(3, usage=NO_USAGE, trust=Trust.AGENT)
    assert made == Outcome(value=3, trust=Trust.AGENT)
    assert made.model_copy(update={"value": 4}) == Outcome(value=4, trust=Trust.AGENT)
    assert Outcome.model_validate_json(made.model_dump_json()) == made


@given(value=VALUES)
def test_the_body_of_an_event_is_read_back_as_it_was(value: Any) -> None:
    body = {"outcome": {"value": value}, "fingerprint": "0" * 64}
    event = written_event(EffectCompleted, body, ts=datetime(2026, 1, 1, tzinfo=UTC), branch="/", n=1)
    assert json.loads(body_json(event)) == body
    assert event == NewEvent(branch="/", n=1, type="completed", v=EffectCompleted.v, ts=event.ts, body=body)


def test_numbers_that_json_does_not_have_stay_in_the_body() -> None:
    body = {"outcome": {"value": [float("inf"), float("-inf")]}, "fingerprint": ""}
    event = written_event(EffectCompleted, body, ts=datetime(2026, 1, 1, tzinfo=UTC), branch="/", n=1)
    assert json.loads(body_json(event)) == body


@given(value=VALUES)
def test_canonical_json_is_what_the_standard_library_writes(value: Any) -> None:
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert canonical_json(value) == plain
    assert copy_json(value) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_canonical_json_refuses_what_is_no_number(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": [value]})


def test_canonical_json_refuses_what_goes_round_in_a_circle() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(RecursionError):
        canonical_json(circle)


def test_what_needs_no_further_look() -> None:
    class Odd(str):
        pass

    assert is_flat({"a": "x", "b": 3, "c": None, "d": True})
    odds: tuple[Any, ...] = (1.5, [], {}, Odd("x"), 1 << 64, (1,))
    for odd in odds:
        assert not is_plain(odd)
        assert not is_flat({"a": odd})
    assert not is_flat({1: "x"})


@given(time=st.datetimes(timezones=st.just(UTC)))
def test_a_stamp(time: datetime) -> None:
    assert stamp_utc(time) == stamp_utc(time) == time.isoformat(timespec="microseconds")


@given(levels=st.lists(st.sampled_from(Trust)))
def test_the_lowest_trust(levels: list[Trust]) -> None:
    assert lowest(*levels) is min(levels, key=lambda one: one.rank, default=Trust.SYSTEM)
    assert lowest(*levels, default=Trust.AGENT) is min(levels, key=lambda one: one.rank, default=Trust.AGENT)


def test_what_is_worked_out_from_an_effect_is_worked_out_anew_for_its_copy() -> None:
    effect = Effect(kind=EffectKind.INVOKE_TOOL, component="a@1.0.0", arguments={"x": 1})
    before = effect.fingerprint
    assert effect.fingerprint is before
    assert (effect.name, effect.__dict__["fingerprint"]) == ("a", before)
    other = effect.model_copy(update={"component": "b@1.0.0"})
    assert other.name == "b"
    assert other.fingerprint != before
    assert effect == Effect(kind=EffectKind.INVOKE_TOOL, component="a@1.0.0", arguments={"x": 1})
    assert "fingerprint" not in effect.model_dump()
    same = construct(Effect, {name: getattr(effect, name) for name in Effect.model_fields})
    assert same == effect
