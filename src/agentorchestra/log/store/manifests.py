"""The stored form of a manifest: once, in the row of its run; what many runs have in common lies in blobs.

Every field that lists do not show and that is longer than `FIELD_BYTES` is a blob, which the row names by its hash, and
`$blobs` names these fields. The first event of the run names the hash of the row's text in the manifest's place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic_core import to_json

from agentorchestra.core.errors import LogChangedError
from agentorchestra.core.events import NewEvent, RunCreated
from agentorchestra.core.spec import ManifestHead, RunManifest

FIELD_BYTES = 512

_BLOBS = "$blobs"
_HASH = "$sha256"

E = TypeVar("E", bound=NewEvent)


class Stored(NamedTuple):
    """A manifest as the database has it: the text of its row, and the blobs that this names, by hash."""

    text: str
    blobs: dict[str, bytes]


def stored(manifest: RunManifest, events: Sequence[E]) -> tuple[Stored, Sequence[E]]:
    """Return the stored form of a run's manifest, and its events with the first one naming it.

    Defaults are in it: a later version may have others, and the run is pinned to these. An event with another manifest
    (an earlier version wrote it) stays as it is.
    """
    fields = manifest.model_dump(mode="json")
    row, blobs = dict(fields), dict[str, bytes]()
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
