"""Which blobs a run or a component refers to: a garbage collection keeps them, a bundle takes a run's along.

Blobs are named by their hash wherever a run keeps one: the manifest's pins, artifacts and media, `$blob` bodies,
`file:` variables, states of programs, snapshots; or a component: its source, its files. So every name in the text
counts, whatever key it stands under: a tool of the user's may keep one in any place. Hashes that are not of a blob
(fingerprints, chains) drop out where they are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice

Lookup = Callable[[list[str]], Iterable[tuple[str, bytes | None]]]
"""From names to those that are blobs, each with its bytes where they are JSON (which may name further blobs)."""

BATCH = 500  # names that are looked up together: under every database's limit of parameters

PRIVATE = "application/vnd.agentorchestra.private"
"""The media type of blobs that stay in their store: no bundle takes them along, and they name no others."""

TASK_FILE = "application/vnd.agentorchestra.given"
"""The media type of blobs that are files given with a task and nothing else: a bundle has them among its files."""

_NAME = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{64}(?![0-9A-Za-z])")
_NAME_BYTES = re.compile(_NAME.pattern.encode())


def names_in(text: str | bytes) -> set[str]:
    """Return every SHA-256 in a text of JSON: 64 small hexadecimal digits that are no part of a longer word."""
    if isinstance(text, bytes):
        return {match.decode() for match in _NAME_BYTES.findall(text)}
    return set(_NAME.findall(text))


def is_json(media_type: str) -> bool:
    """Return True if a blob of this type may name others."""
    plain = media_type.partition(";")[0].strip().lower()
    return plain == "application/json" or plain.endswith("+json")


def references(texts: Iterable[str | bytes], lookup: Lookup) -> set[str]:
    """Return the blobs that texts refer to, and those that the JSON among them refers to, and so on.

    Texts are the JSON of a manifest, of event bodies (as stored, or resolved), of the entries of components. `lookup`
    is asked for each name once, at most `BATCH` at a time.
    """
    blobs: set[str] = set()
    lookups: set[str] = set()
    open_: set[str] = set()
    for text in texts:
        open_ |= names_in(text) - lookups
        if len(open_) >= BATCH:
            _look_up(open_, lookups, blobs, lookup)
    while open_:
        _look_up(open_, lookups, blobs, lookup)
    return blobs


def _look_up(open_: set[str], lookups: set[str], blobs: set[str], lookup: Lookup) -> None:
    names = sorted(open_)
    open_.clear()
    lookups.update(names)
    rest = iter(names)
    while batch := list(islice(rest, BATCH)):
        for name, data in lookup(batch):
            blobs.add(name)
            if data is not None:
                open_ |= names_in(data) - lookups
