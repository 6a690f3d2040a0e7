"""Saved formats: every version of every event type has a fixture that this version still reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentorchestra.core import events
from agentorchestra.core.budget import Bound
from agentorchestra.core.errors import EventFormatError
from agentorchestra.core.events import BODIES, Body, EffectCompleted, EffectStarted, Event, new_event, upcast

FIXTURES = Path(__file__).parent / "fixtures"


def _fixtures() -> list[Path]:
    return sorted(FIXTURES.glob("*.json"))


@pytest.mark.parametrize("path", _fixtures(), ids=lambda path: path.stem)
def test_every_kept_version_is_read(path: Path) -> None:
    stored = json.loads(path.read_text())
    event = Event.model_validate(stored)
    assert f"{event.type}_v{event.v}" == path.stem
    data = event.data
    assert type(data) is BODIES[event.type]
    again = new_event(data, ts=event.ts, branch=event.branch, n=event.n)
    assert BODIES[event.type].model_validate(again.body) == data
    for key, value in stored["body"].items():
        assert json.loads(data.model_dump_json())[key] == value or isinstance(value, dict), key


@pytest.mark.parametrize("name", sorted(BODIES))
def test_every_version_has_a_fixture(name: str) -> None:
    for version in range(1, BODIES[name].v + 1):
        assert (FIXTURES / f"{name}_v{version}.json").is_file(), f"keep a fixture of {name} version {version}"


def test_unknown_types_and_later_versions_are_refused() -> None:
    with pytest.raises(EventFormatError, match="of type 'dreamt', which this version does not know"):
        upcast("dreamt", 1, {})
    with pytest.raises(EventFormatError, match="of version 99, this version of agentorchestra reads up to 1"):
        upcast("completed", 99, {})


def test_upcasters_lead_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(Body):
        """A type that changed twice."""

        type: ClassVar[str] = "later"
        v: ClassVar[int] = 3
        text: str

    def first(body: dict[str, Any]) -> dict[str, Any]:
        return {"words": body["word"]}

    def second(body: dict[str, Any]) -> dict[str, Any]:
        return {"text": body["words"]}

    monkeypatch.setitem(events.BODIES, "later", Later)
    monkeypatch.setitem(events.UPCASTERS, ("later", 1), first)
    event = Event(run="r", seq=1, type="later", v=1, ts=datetime.now(UTC), body={"word": "x"})
    with pytest.raises(EventFormatError, match="no upcaster leads from version 2 of 'later' to 3"):
        _ = event.data
    monkeypatch.setitem(events.UPCASTERS, ("later", 2), second)
    assert event.data == Later(text="x")


def test_bodies_written_by_the_short_way_are_what_the_model_writes() -> None:
    effect: dict[str, Any] = {"kind": "InvokeTool", "component": "add@1.0.0", "arguments": {"a": [1, None, {"b": "é"}]}}
    outcome: dict[str, Any] = {"value": {"sum": 3.5, "none": None}, "ended_at": "2026-11-21T06:00:00Z"}
    held = Bound(tokens=7, cost_usd=0.25)
    pairs: list[tuple[Body, dict[str, Any]]] = [
        (EffectStarted(effect=effect, fingerprint="f"), EffectStarted.json_of(effect, "f", Bound(), 0)),
        (
            EffectStarted(effect=effect, fingerprint="f", bound=held, batch=3),
            EffectStarted.json_of(effect, "f", held, 3),
        ),
        (EffectCompleted(outcome=outcome, fingerprint="f"), EffectCompleted.json_of(outcome, "f", None, 0)),
        (
            EffectCompleted(outcome={}, fingerprint="f", effect=effect, batch=2),
            EffectCompleted.json_of({}, "f", effect, 2),
        ),
    ]
    for body, written in pairs:
        assert json.dumps(written) == json.dumps(body.log_json())
