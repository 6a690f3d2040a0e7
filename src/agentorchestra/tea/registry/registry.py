"""The one registry: the histories of all components, in the workspace's store (architecture, first idea).

Entries are appended with their place in the history, so that of two processes which want to add the next one only one
can: the other reads what came, decides anew and tries again. Nothing is half-registered: texts are kept before the
entry that names them, and the entries of one operation are written together or not at all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import JsonValue

from agentorchestra.core.clock import Clock
from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import ComponentConflictError, SourceError, UsageError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import SOURCE_MEDIA_TYPE
from agentorchestra.tea.registry.history import History


class RegistryEntry(NamedTuple):
    """An entry that is to be written; `ts` where it was made elsewhere, else it is made now."""

    kind: str
    name: str
    type: str
    body: dict[str, JsonValue]
    ts: datetime | None = None


_TRIES = 200
_PAUSE_S = 0.005


class Registry:
    """Histories by kind and name, as this process has read them; `redact` takes the values of secrets out of JSON."""

    def __init__(self, store: Store, clock: Clock, redact: Callable[[Any], Any] = lambda value: value) -> None:
        self._store = store
        self._redact = redact
        self._clock = clock
        self._histories: dict[tuple[str, str], History] = {}
        self._kinds: dict[str, dict[str, History]] = {}
        self._kept: dict[str, str] = {}
        self.count = 0  # entries that were read or written here
        self.handed = 0  # grows whenever something at hand changes: what is given or taken back
        self._writing = asyncio.Lock()

    def history(self, kind: str, name: str) -> History | None:
        return self._histories.get((kind, name))

    def histories(self, kind: str) -> list[History]:
        return [history for _, history in sorted(self._kinds.get(kind, {}).items())]

    @property
    def store(self) -> Store:
        return self._store

    async def refresh(self) -> set[tuple[str, str]]:
        """Read what was written since, here or elsewhere; whose histories grew."""
        count = await self._store.component_count()
        if count == self.count:
            return set()
        heads = await self._store.component_heads()
        keys = [key for key, seq in heads.items() if key not in self._histories or self._histories[key].seq < seq]
        if not keys:
            return set()
        # So many histories are asked for by name; more of them come with everything.
        for change in await self._store.component_changes(keys if len(keys) <= 500 else None):
            key = (change.kind, change.name)
            history = self._histories.get(key) or self._begin(key)
            if change.seq == history.seq + 1:
                history.apply(change)
                self.count += 1
        return set(keys)

    async def write(self, plan: Callable[[], Iterable[RegistryEntry]]) -> list[ComponentChange]:
        """Append what a plan says, all or nothing; it decides again when another process was faster."""
        async with self._writing:
            for attempt in range(_TRIES):
                await self.refresh()
                changes = self._place(plan())
                if not changes:
                    return []
                try:
                    await self._store.record_components(changes)
                except ComponentConflictError:
                    await asyncio.sleep(_PAUSE_S * (1 + attempt % 7))
                    continue
                for change in changes:
                    key = (change.kind, change.name)
                    (self._histories.get(key) or self._begin(key)).apply(change)
                    self.count += 1
                return changes
        names = ", ".join(sorted({f"{change.kind} {change.name}" for change in changes}))
        raise ComponentConflictError(f"others wrote to the history of {names} {_TRIES} times first; try again")

    def _begin(self, key: tuple[str, str]) -> History:
        kind, name = key
        self._histories[key] = self._kinds.setdefault(kind, {})[name] = history = History(kind, name)
        return history

    def _place(self, entries: Iterable[RegistryEntry]) -> list[ComponentChange]:
        seqs: dict[tuple[str, str], int] = {}
        changes = []
        now = self._clock.now()
        rows = [*entries]
        for kind, name, _, body, _ in rows:
            _check_body(kind, name, body)
        values = self._redact([body for _, _, _, body, _ in rows])
        for (kind, name, type_, _, ts), data in zip(rows, values, strict=True):
            history = self._histories.get((kind, name))
            seq = seqs.get((kind, name), history.seq if history is not None else 0) + 1
            seqs[kind, name] = seq
            # Checked above; the model's own check of each value would take longer than everything else here.
            change = ComponentChange.model_construct(kind=kind, name=name, seq=seq, ts=ts or now, type=type_, body=data)
            changes.append(change)
        return changes

    async def keep(self, texts: Iterable[str], *, at_hand: bool = False) -> list[str]:
        """Keep texts as blobs and return their SHA-256; SourceError for a secret's value, except in code `at_hand`."""
        sources = list(texts)
        for text in sources:
            if not at_hand and self._redact(text) != text:
                raise SourceError(
                    "the source holds the value of a secret, and what is registered is kept for good; read the secret "
                    "where it is used"
                )
            try:
                text.encode()
            except UnicodeEncodeError as exc:
                bad = text[exc.start]
                raise SourceError(f"the source holds {bad!r}, which is no character; take it out") from None
        digests = [sha256_text(text) for text in sources]
        new = {digest: text for digest, text in zip(digests, sources, strict=True) if digest not in self._kept}
        await self._store.put_texts(new.values(), SOURCE_MEDIA_TYPE)
        self._kept.update(new)
        return digests

    def is_kept(self, sha256: str) -> bool:
        """Return True if a component's text is kept, as far as this process knows."""
        return sha256 in self._kept

    async def text(self, sha256: str) -> str:
        if sha256 not in self._kept:
            self._kept[sha256] = (await self._store.get_blob(sha256)).decode("utf-8")
        return self._kept[sha256]


def _check_body(kind: str, name: str, body: dict[str, JsonValue]) -> None:
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise UsageError(
            f"what is said of {kind} {name!r} cannot be written as JSON ({type(exc).__name__}: {str(exc)[:120]}); "
            "give text, numbers, lists and objects"
        ) from None


def body_of(**fields: Any) -> dict[str, JsonValue]:
    """Return the body of an entry, without what says nothing."""
    return {key: value for key, value in fields.items() if value not in (None, "", False)}
