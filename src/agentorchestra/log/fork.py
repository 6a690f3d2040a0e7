"""Fork: a new run with the log of another one up to an event, and what differs from there on (docs/fork.md).

The events are copied as they are, sequences included: mail and cursors speak of them. A `forked` event ends the copy;
from there the log is the fork's own, and so is what it pays.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue, ValidationError

from agentorchestra.core.effects import EffectKind, Mode
from agentorchestra.core.errors import ForkError
from agentorchestra.core.events import RUN_BRANCH, Event, Forked, NewEvent, RunCreated, new_event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import RunManifest
from agentorchestra.log.ledger import Ledger

_FIELDS = ("usage", "trust", "ended_at", "writes")  # what an outcome whose value is replaced keeps


def fork_point(run_id: str, events: Sequence[Event], at: int | str | None) -> int:
    """Return the sequence of the last event to copy; ForkError for what the log does not have.

    `at` is a sequence, the key of an effect (`/1.react#3`: up to its outcome), or None for the end.
    """
    last = events[-1].seq
    if at is None:
        return last
    text = str(at).strip()
    if text.isdigit() or isinstance(at, int):
        seq = int(text)
        if not 1 <= seq <= last:
            raise ForkError(f"run {run_id} has the events 1 to {last}, no event {seq}; choose one of them")
        return seq
    try:
        key = EffectKey.parse(text)
    except ValueError:
        key = None
    ends = [e.seq for e in events if key is not None and (e.branch, e.n, e.type) == (key.branch, key.n, "completed")]
    if not ends:
        raise ForkError(
            f"run {run_id} has no recorded effect {text!r}; give an event's number (1 to {last}) or the key of an "
            f"effect that ended: `agentorchestra show {run_id}` lists them"
        )
    return ends[-1]


def forked_events(
    run: str, events: list[Event], seq: int, manifest: RunManifest, *, outcomes: Mapping[str, JsonValue], now: datetime
) -> list[NewEvent]:
    """Return the log a fork begins with: the events up to `seq`, `outcomes` by key in place of recorded ones.

    Raises:
        ForkError: for the outcome of an effect that the copied part does not have.
    """
    pending = dict(outcomes)
    copies: list[NewEvent] = []
    for event in events:
        if event.seq > seq:
            break
        body = event.body
        if event.type == "run_created":
            body = {**body, **RunCreated(manifest=manifest).log_json()}
        elif event.type == "completed" and pending:
            key = str(EffectKey(event.branch, event.n or 0))
            if key in pending:
                fields = {name: field for name, field in body["outcome"].items() if name in _FIELDS}
                body = {**body, "outcome": {**fields, "value": pending.pop(key)}}
        copies.append(NewEvent.model_construct(**{**event.__dict__, "body": body}))
    if pending:
        raise ForkError(
            f"up to event {seq} run {run} has no outcome of {next(iter(pending))!r} that could be replaced; "
            "choose a later --at, or a key that `agentorchestra show` lists before it"
        )
    copies.append(new_event(Forked(run=run, seq=seq), ts=now, branch=RUN_BRANCH))
    return copies


def check_replaceable(ledger: Ledger, key: str, value: JsonValue) -> None:
    """Raise ForkError for a value that an effect could not have had, or from whose outcome something followed.

    A composite's outcome is what its own effects made it; a request's is a reply.
    """
    try:
        record = ledger.records.get(EffectKey.parse(key))
    except ValueError:
        record = None
    if record is None or record.outcome is None:
        raise ForkError(f"there is no outcome of {key!r} to replace; `agentorchestra show` lists the recorded effects")
    if record.mode is Mode.COMPOSITE:
        raise ForkError(
            f"{key} consists of effects of its own ({record.kind.value}): replace the outcome of one of those instead"
        )
    later = ledger.follower(EffectKey.parse(key))
    if later is not None:
        raise ForkError(f"{later} followed from the outcome of {key}; to replace it, fork at it: --at '{key}'")
    if record.kind is EffectKind.REQUEST_MODEL:
        try:
            ModelResponse.model_validate(value)
        except ValidationError as exc:
            first = exc.errors()[0]
            raise ForkError(
                f"the value for {key} is no model's reply: {first['msg']} at {first['loc']}; "
                'write e.g. {"text": "...", "tool_calls": []}'
            ) from None


def refuse_lost_environments(run_id: str, ledger: Ledger, factories: Mapping[str, Callable[[], Environment]]) -> None:
    """Raise ForkError for a run whose environments were changed in ways that no snapshot holds."""
    for key, record in ledger.records.items():
        if record.effect.get("kind") != EffectKind.INVOKE_ACTION:
            continue
        name = str(record.effect.get("component", "")).rpartition("@")[0]
        action = str(record.effect.get("arguments", {}).get("action", ""))
        factory = factories.get(name)
        if factory is None:
            raise ForkError(
                f"run {run_id} acted on the environment {name!r}, which this process does not have; "
                "name it in the workspace's app"
            )
        environment = factory()
        names = {schema.name for schema in environment.actions()}  # a look at the state is none of them
        if environment.branching == "none" and action in names and environment.mutates(action):
            raise ForkError(
                f"run {run_id} cannot be forked here: at {key} it changed the environment {name!r} ({action}), which "
                "keeps no snapshots (branching = none); fork before that effect"
            )


def link_files(source: Path, target: Path) -> None:
    """Give a fork the files of its parent: the same bytes under the same names. Blocks."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or as many links as it allows
        shutil.copy2(source, target)
