"""Memory in the log: entries as they were written, those that were forgotten left out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from agentorchestra.core.clock import Clock
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import UsageError
from agentorchestra.core.events import Event, Forgotten, new_event
from agentorchestra.core.protocols import Store
from agentorchestra.core.query import LogQuery
from agentorchestra.runtime.run import wait_for
from agentorchestra.tea.memory.base import KINDS, LONGEST_ENTRY, Entry, EntryKind
from agentorchestra.tea.memory.insights import stands_for

MOST_EARLIER = 5_000
"""Entries of earlier runs of a session that are looked through, of a workspace those of each kind; the newest."""

_PAGE = 1_000
_WRITING = f'"kind":"{EffectKind.WRITE_MEMORY.value}"'


class MemoryReader:
    """Reads what the runs of a workspace wrote down, but for the run named, "" for none."""

    def __init__(self, store: Store, run: str = "") -> None:
        self.store = store
        self.run = run
        self._runs: dict[str, tuple[bool, bool]] = {}

    async def of_session(self, session: str) -> list[Entry]:
        """Return what the runs of a session wrote, as it is now, the newest entries, in their order."""
        entries: list[Entry] = []
        async for page in self._pages(LogQuery(session=session, types=("completed",))):
            entries = [*entries, *await self._of_page(page)][-MOST_EARLIER:]
        return entries

    async def of_workspace(self, kind: EntryKind) -> list[Entry]:
        """Return what all runs but forks wrote of a kind, as it is now, the newest entries, in their order."""
        query = LogQuery(types=("completed",), holds=(_WRITING, f'"kind":"{kind}"'))
        page = await self.store.query(query, limit=MOST_EARLIER, newest=True)
        return [entry for entry in await self._of_page(page) if entry.kind == kind]

    async def forgotten_refs(self) -> frozenset[str]:
        refs: set[str] = set()
        async for page in self._pages(LogQuery(types=(Forgotten.type,))):
            for event in page:
                names = event.body.get("entries")
                refs |= {f"{event.run}:{name}" for name in names} if isinstance(names, list) else set()
        return frozenset(refs)

    async def retirements(self) -> list[tuple[Entry, str]]:
        reasons: dict[str, str] = {}
        async for page in self._pages(LogQuery(types=(Forgotten.type,))):
            for event in page:
                body = Forgotten.model_validate(event.body)
                reasons |= {f"{event.run}:{name}": body.retired for name in body.entries if body.retired}
        entries = await self.of_workspace("insight") if reasons else ()
        return [(entry, reasons[entry.ref]) for entry in entries if entry.ref in reasons]

    async def _pages(self, query: LogQuery) -> AsyncIterator[Sequence[Event]]:
        after: tuple[str, int] | None = None
        while True:
            page = await self.store.query(query, after=after, limit=_PAGE)
            yield page
            if len(page) < _PAGE:
                return
            after = page[-1].run, page[-1].seq

    async def _of_page(self, page: Sequence[Event]) -> list[Entry]:
        entries: list[Entry] = []
        for event in page:
            effect = event.body.get("effect") or {}
            if effect.get("kind") != EffectKind.WRITE_MEMORY or event.run == self.run:
                continue
            if event.run not in self._runs:
                record = await self.store.get_run(event.run)
                fork = record is None or record.parent_run is not None
                self._runs[event.run] = fork, record is None or record.imported is not None
            fork, foreign = self._runs[event.run]
            if not fork:
                entries += entries_of(effect, event.body["outcome"], event.run, event.ts, foreign=foreign)
        return entries


def entries_of(effect: Any, outcome: Any, run: str, at: datetime | None, *, foreign: bool = False) -> Iterator[Entry]:
    """Yield the entries of a recorded writing; `run` is "" for the reader's own."""
    rows = effect.get("arguments", {}).get("entries")
    if outcome.get("status", "ok") != "ok" or not isinstance(rows, list):
        return
    for row in rows:
        try:
            entry = Entry.model_validate(row)
        except ValidationError:
            continue  # of an imported log, which may hold anything
        covers, instead_of, against = (
            tuple(f"{run}{ref}" if ref.startswith(":") else ref for ref in refs)
            for refs in (entry.covers, entry.instead_of, entry.against)
        )
        trust = Trust.UNTRUSTED if foreign else entry.trust
        text = entry.text[:LONGEST_ENTRY]
        update = {"text": text, "task": run, "at": at, "trust": trust, "times": 1, "misled": 0, "why": ""}
        yield entry.model_copy(update={**update, "covers": covers, "instead_of": instead_of, "against": against})


async def memory_entries(store: Store, kinds: Iterable[EntryKind]) -> list[tuple[Entry, tuple[str, ...]]]:
    """Return what a workspace remembers, oldest first: each entry with the references of all that it stands for."""
    reader = MemoryReader(store)
    hidden_refs = await reader.forgotten_refs()
    entries = [entry for kind in kinds for entry in await reader.of_workspace(kind) if entry.ref not in hidden_refs]
    return stands_for(sorted(entries, key=lambda entry: entry.task))


async def forget(store: Store, refs: Collection[str], *, clock: Clock, by: str = "", retired: str = "") -> list[str]:
    """Have entries (`RUN:ENTRY` or `ENTRY`) and all that each stands for never be read again, or raise UsageError."""
    pairs = await memory_entries(store, KINDS)
    groups = {entry.ref: all_ for entry, all_ in pairs}
    # What a long-term memory covers would be fused again without it.
    fusions = {entry.ref: entry.covers for entry, _ in pairs if entry.kind == "long_term"}
    by_run: dict[str, list[str]] = {}
    for ref in refs:
        fitting = [name for name in groups if name == ref or name.endswith(f":{ref}")]
        if len(fitting) != 1:
            fault = f"stands for {len(fitting)} entries" if fitting else "is no entry of the memory"
            raise UsageError(f"{ref!r} {fault}; `agentorchestra memories entries` lists them, each with its full name")
        names = [*groups[fitting[0]]]
        for name in names:
            run, _, entry_id = name.partition(":")
            by_run.setdefault(run, []).append(entry_id)
            names += [below for below in fusions.pop(name, ()) if below not in names]
    for run, names in by_run.items():
        body = Forgotten(entries=tuple(dict.fromkeys(names)), by=by, retired=retired)
        await wait_for(store.append(run, None, [new_event(body, ts=clock.now(), actor=by)]))
    return [f"{run}:{entry_id}" for run, names in by_run.items() for entry_id in dict.fromkeys(names)]
