"""What rows of many runs have in common, as blobs: long fields of manifests, schemas and system messages of requests.

In the JSON of a row, `$blobs` names the fields that hold the hash of a blob in place of their value. A manifest is
stored once, in the row of its run: in its place the run's first event has the hash of that row's text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Row

from agentorchestra.core.errors import LogChangedError
from agentorchestra.core.events import Event, NewEvent, RunCreated
from agentorchestra.core.ids import compact_encoder
from agentorchestra.core.spec import ManifestHead, RunManifest
from agentorchestra.log.store.rows import stamp

FIELD_BYTES = 512  # of JSON: shorter fields stay in the row

_BLOBS = "$blobs"
_HASH = "$sha256"
_JSON = compact_encoder()

E = TypeVar("E", bound=NewEvent)


def run_row(manifest: RunManifest, events: Sequence[E]) -> tuple[str, list[E], dict[str, bytes]]:
    """Return the text of a run's row, its events, and the blobs that these name, by hash.

    Defaults are in the text: a later version may have others, and the run is pinned to these. An event with another
    manifest (an earlier version wrote it) stays as it is.
    """
    new, blobs = apart(events)
    fields = manifest.model_dump(mode="json")
    text = _JSON(_shared(fields, fields.keys() - ManifestHead.model_fields.keys(), blobs))
    if new and new[0].type == RunCreated.type and new[0].body.get("manifest") == fields:
        new[0] = new[0].model_copy(update={"body": {**new[0].body, "manifest": {_HASH: _digest(text.encode())}}})
    return text, new, blobs


def apart(events: Sequence[E]) -> tuple[list[E], dict[str, bytes]]:
    """Return events as they are stored, and the blobs that they name, by hash."""
    new, blobs = [*events], dict[str, bytes]()
    for index, event in enumerate(events):
        if parts := shared_parts(event.body):
            request = _shared(parts[0], {"schemas"}, blobs)
            names = ({"content"} if part.get("role") == "system" else set() for part in parts[1:])
            request["appended"] = [_shared(*pair, blobs) for pair in zip(parts[1:], names, strict=True)]
            body = {**event.body, "effect": {**event.body["effect"], "request": request}}
            new[index] = event.model_copy(update={"body": body})
    return new, blobs


def _shared(fields: dict[str, Any], names: Iterable[str], blobs: dict[str, bytes]) -> dict[str, Any]:
    """Return fields with hashes in the place of those of these names that are long."""
    row = {name: value for name, value in fields.items() if name != _BLOBS}  # one that came from elsewhere may have it
    for name in sorted(fields.keys() & names):
        data = _JSON(fields[name]).encode("utf-8", "surrogatepass")
        if len(data) > FIELD_BYTES:
            row[name] = sha256 = _digest(data)
            row.setdefault(_BLOBS, []).append(name)
            blobs[sha256] = data
    return row


def shared_parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what may name blobs in the body of an event: its request, and the messages that this appends."""
    effect = body.get("effect")
    request = effect.get("request") if isinstance(effect, dict) else None
    return [request, *request["appended"]] if isinstance(request, dict) and "appended" in request else []


def restore(parts: Sequence[dict[str, Any]], reader: Callable[[list[str]], Callable[[str], bytes]]) -> None:
    """Put the values of fields back in the place of their hashes; `reader` gives what reads the blobs that it names."""
    names = [*{part[name] for part in parts for name in part.get(_BLOBS, ())}]
    read = reader(names)
    values = {sha256: json.loads(read(sha256).decode("utf-8", "surrogatepass")) for sha256 in names}
    for part in parts:
        for name in part.pop(_BLOBS, ()):
            part[name] = values[part[name]]


def manifest_hash(body: dict[str, Any]) -> str | None:
    """Return the hash in the manifest's place in a first event; None where the manifest itself is there."""
    manifest = body.get("manifest", {})
    return manifest[_HASH] if manifest.keys() == {_HASH} else None


def check(event: Event, digest: str | None, row: Row[Any], whole: dict[str, Any]) -> None:
    """Raise LogChangedError if the row of a run, with its `whole` manifest, is not the one that event 1 recorded.

    `digest` is the hash of the row's text in that event; None where an earlier version wrote the manifest there.
    """
    parts = ["the manifest"]
    if digest in (None, _digest(row.manifest.encode())):
        manifest: RunManifest = event.data.manifest  # type: ignore[attr-defined]
        fields = {name: getattr(manifest, name) for name in ("session", "parent_run", "fork_seq")}
        fields["created"] = stamp(manifest.created)
        parts = parts if digest is None and manifest != RunManifest.model_validate(whole) else []
        parts += [f"`{name}`" for name, value in fields.items() if getattr(row, name) != value]
    if parts:
        raise LogChangedError(
            f"the log was changed: {' and '.join(parts)} in the row of run {event.run} is not the one that event 1 "
            "names; restore the log from a backup"
        )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
