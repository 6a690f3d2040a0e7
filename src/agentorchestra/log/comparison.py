"""Compare two runs: where they first differ, and how each goes on from there.

Effects are matched by key, not by their place in the log: agents at work at the same time write in any order.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from agentorchestra.core.budget import Usage
from agentorchestra.core.content import text_of
from agentorchestra.core.effects import Effect, EffectKind, Mode
from agentorchestra.core.events import Event, RunCreated, RunEnded
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import RunManifest, RunStatus
from agentorchestra.log.ledger import Ledger, Record, status_of

_SHORT = 200
_DIFF_LINES = 24


class ComparedStep(BaseModel, frozen=True):
    """An effect of one of the runs, in short."""

    key: str
    what: str
    asked: str = ""  # arguments; of a request to a model the reply's calls
    status: str = "open"  # of its outcome, `open` where there is none
    result: str = ""


class Difference(BaseModel, frozen=True):
    """The first difference of two runs."""

    key: str
    kind: Literal["asked", "answered", "missing"]  # asked or answered otherwise, or in only one of the runs
    what: str
    lines: tuple[str, ...] = ()  # of the texts, as a unified diff


class Side(BaseModel, frozen=True):
    """One of the runs."""

    run_id: str
    status: RunStatus
    model: str
    system: str
    answer: str = ""
    usage: Usage = Usage()  # what it paid itself: nothing for what a fork shares with its parent
    continuation: tuple[ComparedStep, ...] = ()  # from the first difference on, in the order in which the effects ended


class Comparison(BaseModel, frozen=True):
    """The common beginning of two runs and where they part."""

    first: Side
    second: Side
    relation: str = ""  # "" for runs of their own
    common: int = 0  # effects that are equal before the first difference
    difference: Difference | None = None  # None for runs that are equal effect by effect


def compare_runs(first: Sequence[Event], second: Sequence[Event]) -> Comparison:
    ledger, other = Ledger.of(first), Ledger.of(second)
    common, key = _first_difference(ledger, other)
    left = _Log(first, ledger)
    right = _Log(second, other)
    return Comparison(
        first=left.side(key, common),
        second=right.side(key, common),
        relation=_relation(left, right),
        common=len(common),
        difference=None if key is None else _difference(key, left, right),
    )


class _Log:
    def __init__(self, events: Sequence[Event], ledger: Ledger) -> None:
        created = events[0].data
        assert isinstance(created, RunCreated)
        self.run_id = events[0].run
        self.manifest: RunManifest = created.manifest
        self.ledger = ledger
        self.status = status_of(events)
        turns = [e.data for e in events if e.type in ("forked", "driving_started", "run_ended")]
        self.result = turns[-1].result if turns and isinstance(turns[-1], RunEnded) else {}

    def side(self, key: EffectKey | None, common: frozenset[EffectKey]) -> Side:
        return Side(
            run_id=self.run_id,
            status=self.status,
            model=self.manifest.model,
            system=self.manifest.system,
            answer=str(self.result.get("answer") or ""),
            usage=sum((usage for _, usage in self.ledger.spent), Usage()),
            continuation=() if key is None else tuple(self._beyond(common)),
        )

    def _beyond(self, common: frozenset[EffectKey]) -> Iterator[ComparedStep]:
        """Yield what it did after the runs parted, without composites that have not ended."""
        for key in _keys(self.ledger):
            record = self.ledger.records[key]
            if key not in common and (record.outcome is not None or record.mode is not Mode.COMPOSITE):
                yield self.step(key)

    def step(self, key: EffectKey) -> ComparedStep:
        record = self.ledger.records[key]
        effect = record.effect
        name = str(effect.get("component", "")).rpartition("@")[0]
        outcome = record.outcome
        arguments = effect.get("arguments", {})
        result = "" if outcome is None else outcome.error or text_of(outcome.blocks())
        if effect.get("kind") == EffectKind.REQUEST_MODEL:
            arguments = {}
            if outcome is not None and outcome.ok:
                reply = outcome.response
                calls = ", ".join(f"{c.name}({_short(c.arguments)})" for c in reply.tool_calls)
                result = " ".join(part for part in (reply.text, calls) if part)
        return ComparedStep(
            key=str(key),
            what=f"{effect.get('kind')} {name}",
            asked=_short(arguments) if arguments else "",
            status="open" if outcome is None else outcome.status,
            result=_short(result),
        )

    def effect(self, key: EffectKey) -> Effect:
        return self.ledger.codec.decode(self.ledger.records[key].effect)


def _keys(ledger: Ledger) -> list[EffectKey]:
    return sorted(ledger.records, key=lambda key: (ledger.records[key].seq, key))


def _first_difference(ledger: Ledger, second: Ledger) -> tuple[frozenset[EffectKey], EffectKey | None]:
    """Return what is equal before it, and the key of the first effect that is not."""
    common: set[EffectKey] = set()
    for key in _keys(ledger):
        other = second.records.get(key)
        if other is None or not _equal(ledger.records[key], other):
            return frozenset(common), key
        common.add(key)
    return frozenset(common), next((key for key in _keys(second) if key not in ledger.records), None)


def _equal(record: Record, other: Record) -> bool:
    return record.fingerprint == other.fingerprint and _result(record) == _result(other)


def _result(record: Record) -> JsonValue:
    outcome = record.outcome
    if outcome is None:
        return None
    value = outcome.value
    if record.effect.get("kind") == EffectKind.REQUEST_MODEL and isinstance(value, dict):
        value = {name: field for name, field in value.items() if name != "usage"}
    return [outcome.status, value, outcome.error]


def _difference(key: EffectKey, left: _Log, right: _Log) -> Difference:
    record, other = left.ledger.records.get(key), right.ledger.records.get(key)
    if record is None or other is None:
        has, lacks = (left, right) if record is not None else (right, left)
        step = has.step(key)
        text = f"only {has.run_id} has {key} ({step.what}); {lacks.run_id} has no such effect"
        return Difference(key=str(key), kind="missing", what=text)
    if record.fingerprint != other.fingerprint:
        before, after = left.effect(key), right.effect(key)
        if (before.kind, before.name) != (after.kind, after.name):
            text = f"{before.kind.value} {before.name} in the one, {after.kind.value} {after.name} in the other"
        elif before.kind is EffectKind.REQUEST_MODEL:
            text = f"the request to {before.name} differs: {left.ledger.request_change(record.effect, after)}"
        else:
            text = f"{before.kind.value} {before.name} with other arguments"
        return Difference(key=str(key), kind="asked", what=text, lines=_diff(_text(before), _text(after)))
    a, b = left.step(key), right.step(key)
    text = f"{a.what} was asked the same and gave {a.status} in the one, {b.status} in the other"
    if a.status == b.status:
        text = f"{a.what} was asked the same and gave something else"
    return Difference(key=str(key), kind="answered", what=text, lines=_diff(_outcome(record), _outcome(other)))


def _text(effect: Effect) -> list[str]:
    request = effect.request
    if request is None:
        return _json_lines(effect.arguments)
    return [line for message in _messages(request) for line in message]


def _messages(request: ModelRequest) -> Iterator[list[str]]:
    yield [f"model: {request.model}", "tools: " + ", ".join(tool.name for tool in request.tools)]
    for message in request.messages:
        calls = [f"calls {call.name}({_short(call.arguments, 2_000)})" for call in message.tool_calls]
        yield [f"{message.role}:", *text_of(message.content).splitlines(), *calls]


def _outcome(record: Record) -> list[str]:
    result = _result(record)
    if isinstance(result, list) and isinstance(result[1], str):
        return result[1].splitlines()
    return _json_lines(result)


def _json_lines(value: Any) -> list[str]:
    """Return JSON with a line for each field, in an order that does not depend on how it was written."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1, default=str).splitlines()


def _diff(before: list[str], after: list[str]) -> tuple[str, ...]:
    lines = list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]
    texts = [_short(line) for line in lines[:_DIFF_LINES]]
    if len(lines) > _DIFF_LINES:
        texts.append(f"... {len(lines) - _DIFF_LINES} more lines")
    return tuple(texts)


def _short(value: Any, most: int = _SHORT) -> str:
    text = " ".join((value if isinstance(value, str) else canonical_json(value)).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _relation(left: _Log, right: _Log) -> str:
    for child, parent in ((left, right), (right, left)):
        if child.manifest.parent_run == parent.run_id:
            place = f"at event {child.manifest.fork_seq} (changed: {changed_in(child.manifest)})"
            return f"{child.run_id} was forked from {parent.run_id} {place}"
    if left.manifest.parent_run is not None and left.manifest.parent_run == right.manifest.parent_run:
        changed = "; ".join(f"{log.run_id} changed: {changed_in(log.manifest)}" for log in (left, right))
        return f"both were forked from {left.manifest.parent_run} ({changed})"
    return ""


def changed_in(manifest: RunManifest) -> str:
    keys = (f"{name} {value}" if name.startswith("component:") else name for name, value in manifest.overrides.items())
    return ", ".join(keys) or "nothing"
