"""What rows of many runs have in common, as blobs that they name by hash: fields of manifests, schemas of tools.

A manifest is stored once, in the row of its run. Every field of it that lists do not show and that is longer than
`FIELD_BYTES` is a blob; `$blobs` names these fields. The run's first event has the hash of the row's text in the
manifest's place. A request has the hash of its new schemas in their place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic_core import to_json

from agentorchestra.core.errors import LogChangedError
from agentorchestra.core.events import NewEvent, RunCreated
from agentorchestra.core.ids import compact_encoder
from agentorchestra.core.spec import ManifestHead, RunManifest

FIELD_BYTES = 512

_BLOBS = "$blobs"
_HASH = "$sha256"

E = TypeVar("E", bound=NewEvent)

_JSON = compact_encoder()


class Stored(NamedTuple):
    """A manifest as the database has it: the text of its row, and the blobs that this and the events name, by hash."""

    text: str
    blobs: dict[str, bytes]


def stored(manifest: RunManifest, events: Sequence[E]) -> tuple[Stored, Sequence[E]]:
    """Return the stored form of a run's manifest, and its first events with the first one naming it.

    Defaults are in it: a later version may have others, and the run is pinned to these. An event with another manifest
    (an earlier version wrote it) stays as it is.
    """
    fields = manifest.model_dump(mode="json")
    row = dict(fields)
    events, blobs = apart(events)
    for name, value in fields.items():
        data = to_json(value)
        if name not in ManifestHead.model_fields and len(data) > FIELD_BYTES:
            row[name] = sha256 = hashlib.sha256(data).hexdigest()
            row.setdefault(_BLOBS, []).append(name)
            blobs[sha256] = data
    text = to_json(row).decode()
    if events and events[0].type == RunCreated.type and events[0].body.get("manifest") == fields:
        body = {**events[0].body, "manifest": {_HASH: digest(text)}}
        events = [events[0].model_copy(update={"body": body}), *events[1:]]
    return Stored(text, blobs), events


def digest(text: str) -> str:
    """Return the hash by which the first event names the text of its run's row."""
    return hashlib.sha256(text.encode()).hexdigest()


def named(body: dict[str, Any]) -> str | None:
    """Return the hash in the manifest's place in a first event; None where the manifest itself is there."""
    manifest = body.get("manifest", {})
    return manifest[_HASH] if manifest.keys() == {_HASH} else None


def check(run: str, text: str, sha256: str) -> None:
    """Raise LogChangedError if the row of a run is not the one that its first event names."""
    if digest(text) != sha256:
        raise LogChangedError(
            f"the log was changed: the manifest in the row of run {run} is not the one that its event 1 names; "
            "restore the log from a backup"
        )


def apart(events: Sequence[E]) -> tuple[Sequence[E], dict[str, bytes]]:
    """Return events with the hashes of their requests' schemas in their place, and the schemas by hash."""
    blobs = dict[str, bytes]()
    return [_without_schemas(event, blobs) for event in events], blobs


def _without_schemas(event: E, blobs: dict[str, bytes]) -> E:
    request = request_of(event.body)
    if request is None or not isinstance(request.get("schemas"), dict):
        return event
    try:
        data = _JSON(request["schemas"]).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        return event  # whoever encodes the rest says so
    sha256 = hashlib.sha256(data).hexdigest()
    blobs[sha256] = data
    effect = {**event.body["effect"], "request": {**request, "schemas": sha256}}
    return event.model_copy(update={"body": {**event.body, "effect": effect}})


def request_of(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the stored request of an event's effect; None for an event of anything else."""
    effect = body.get("effect")
    request = effect.get("request") if isinstance(effect, dict) else None
    return request if isinstance(request, dict) else None


def whole(texts: Sequence[str], reader: Callable[[list[str]], Callable[[str], bytes]]) -> list[dict[str, Any]]:
    """Return the manifests of rows as JSON; `reader` gives what reads the blobs that they name."""
    rows: list[dict[str, Any]] = [json.loads(text) for text in texts]
    wanted = [*{row[name] for row in rows for name in row.get(_BLOBS, ())}]
    read = reader(wanted)
    held = {sha256: json.loads(read(sha256)) for sha256 in wanted}
    for row in rows:
        for name in row.pop(_BLOBS, ()):
            row[name] = held[row[name]]
    return rows
