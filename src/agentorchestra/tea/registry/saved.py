"""Saved registries: the components of one kind with their versions and texts in one JSON file (000, app. C.2).

`save` writes the histories as they are; `load` takes them over. What is loaded into a registry that knows none of these
components is the same registry: saved again it gives the same file. What nobody here stands for stays marked: code from
a file runs in the sandbox only, unless whoever loads it says that it is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, JsonValue, ValidationError

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import ComponentNameError, LifecycleError, ManifestError, VersionError
from agentorchestra.core.ids import sha256_text
from agentorchestra.tea.registry.config import KindName
from agentorchestra.tea.registry.history import (
    History,
    Maker,
    checked_component_name,
    checked_component_version,
    identity_of,
)
from agentorchestra.tea.registry.registry import Registry, RegistryEntry, body_of

FORMAT = 1
_OWN = frozenset({"loaded"})  # entries that are this machine's own
_LONGEST = 256_000_000


class SavedRegistry(BaseModel, extra="forbid"):
    """A file with the entries of each component by name, and texts by SHA-256; later formats are refused."""

    agentorchestra_registry: int = FORMAT
    kind: KindName
    changes: dict[str, list[ComponentChange]]
    texts: dict[str, str] = {}


async def saved_text(registry: Registry, kind: KindName) -> str:
    """Return the file's text; equal histories give equal text."""
    histories = registry.histories(kind)
    changes = {history.name: _renumber(history) for history in histories}
    digests = {
        str(change.body.get("source")) for series in changes.values() for change in series if change.body.get("source")
    }
    file = SavedRegistry(
        kind=kind, changes=changes, texts={digest: await registry.text(digest) for digest in sorted(digests)}
    )
    return json.dumps(
        file.model_dump(mode="json", exclude_defaults=True) | {"agentorchestra_registry": FORMAT}, indent=1
    )


def _renumber(history: History) -> list[ComponentChange]:
    changes = [change for change in history.changes if change.type not in _OWN]
    return [change.model_copy(update={"seq": seq}) for seq, change in enumerate(changes, 1)]


def _raw(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LONGEST:
            raise ManifestError(f"{path} is larger than {_LONGEST:,} bytes; it is no saved registry")
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as exc:
        raise ManifestError(f"{path} is no saved registry: {exc}; give a file that `components export` wrote") from None
    if not isinstance(raw, dict) or "agentorchestra_registry" not in raw:
        raise ManifestError(f"{path} is no saved registry; give a file that `components export` wrote")
    format_ = raw["agentorchestra_registry"]
    if not isinstance(format_, int) or format_ > FORMAT:
        raise ManifestError(
            f"{path} has the format {format_!r}, agentorchestra here reads up to {FORMAT}; install a later one"
        )
    return raw


def kind_of_saved(path: Path) -> KindName:
    """Return the kind of the components in a saved file; raise ManifestError for any other file."""
    kind = _raw(path).get("kind")
    for name in get_args(KindName):
        if kind == name:
            return name  # type: ignore[no-any-return]
    kinds = ", ".join(get_args(KindName))
    raise ManifestError(f"{path} holds components of the kind {str(kind)[:80]!r}; the kinds are {kinds}")


def read_saved(path: Path, kind: str) -> SavedRegistry:
    """Return a file as `saved` wrote it, checked whole before anything of it is used, or raise ManifestError."""
    raw = _raw(path)
    try:
        file = SavedRegistry.model_validate(raw)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ManifestError(f"{path} is damaged at {place}: {first['msg']}") from None
    if file.kind != kind:
        raise ManifestError(f"{path} holds components of the kind {file.kind}, not {kind}; say --kind {file.kind}")
    for digest, text in file.texts.items():
        if sha256_text(text) != digest:
            raise ManifestError(f"{path} is damaged: the text {digest[:12]} does not match its hash")
    for name, changes in file.changes.items():
        _check_history(path, kind, name, changes, file.texts)
    return file


def _check_history(path: Path, kind: str, name: str, changes: list[ComponentChange], texts: Mapping[str, str]) -> None:
    history = History(kind, name)
    try:
        checked_component_name(kind, name)
        for change in changes:
            if change.type in _OWN:
                raise VersionError(f"an entry {change.type!r} belongs to one machine")
            if change.ts.tzinfo is None:
                raise VersionError(f"the time {change.ts} has no zone")
            history.apply(change)
        for row in history.all():
            checked_component_version(f"{kind} {name!r}", row.version)
            if row.config.version != row.version:
                raise VersionError(f"{name}@{row.version} says that it is version {row.config.version[:40]!r}")
            if row.source and row.source not in texts:
                raise VersionError(f"the text of {name}@{row.version} is missing")
            if row.source and row.identity != identity_of(row.source, row.maker, name):
                raise VersionError(f"the identity of {name}@{row.version} is not that of its text")
            if (row.config.kind, row.config.name) != (kind, name):
                raise VersionError(f"{name}@{row.version} says that it is the {row.config.kind} {row.config.name!r}")
    except ValidationError as exc:
        raise ManifestError(f"{path} is damaged: {kind} {name[:80]!r}: {exc.errors()[0]['msg']}") from None
    except (KeyError, TypeError, VersionError, ComponentNameError, LifecycleError) as exc:
        raise ManifestError(f"{path} is damaged: {kind} {name[:80]!r}: {exc}") from None


def taken_over(
    file: SavedRegistry, registry: Registry, *, trusted: bool, at_hand: Collection[tuple[str, Maker | None]]
) -> Iterable[RegistryEntry]:
    """Return the entries that take a saved registry over; ManifestError for a version that has other content here.

    A component that is unknown here comes with its whole history. Of one that is known, the versions that are not come
    as further ones; what its name means here stays. What is `at_hand` is this machine's own, whatever the file says.
    """
    kind = file.kind
    for name, changes in sorted(file.changes.items()):
        local = registry.history(kind, name)
        incoming = History(kind, name)
        for change in changes:
            incoming.apply(change)
        foreign = [row.version for row in incoming.all() if not trusted and (row.source, row.maker) not in at_hand]
        if local is None:
            for change in changes:
                yield RegistryEntry(kind, name, change.type, change.body, change.ts)
        else:
            versions = set(local.names)
            yield from _merge(kind, name, incoming, local)
            foreign = [version for version in foreign if version not in versions]
        loaded: list[JsonValue] = [*foreign]
        if local is None or foreign:
            yield RegistryEntry(kind, name, "loaded", {"versions": loaded, "foreign": True})


def _merge(kind: str, name: str, incoming: History, local: History) -> Iterable[RegistryEntry]:
    for row in incoming.all():
        if local.known_as(row.identity) is not None:
            continue
        if row.version in local.names:
            raise ManifestError(
                f"{kind} {name}@{row.version} is known here with other content; nothing was loaded. Load it into a "
                "workspace of its own"
            )
        fields = row.model_dump(mode="json", exclude={"created"}, exclude_defaults=True)
        yield RegistryEntry(kind, name, "registered", body_of(**fields), row.created)
