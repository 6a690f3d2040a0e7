"""The handler of ReadMemory and WriteMemory. What is remembered lies in the log and nowhere else.

The record of a WriteMemory is the entry: nothing else is written, so a crash can neither lose one that was recorded nor
write one twice. A ReadMemory looks through the records of this run and of the earlier runs of its session; what it
found is its outcome, which a resume, a replay and a fork give again.

Of the workspace's other runs the insights count (or what else is asked for) that they wrote themselves: those of forks
do not, which try out another way through a task that is there already.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue, ValidationError

from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, failed
from agentorchestra.core.protocols import BaseHandler
from agentorchestra.tea.memory.base import KINDS, LONGEST_ENTRY, SCOPES, Entry, newest
from agentorchestra.tea.memory.insights import standing
from agentorchestra.tea.memory.records import MemoryReader, entries_of
from agentorchestra.tea.retrieval.index import Described, Index, words_of

MOST_READ = 200  # entries that one reading gives
MOST_CHARS = 40_000  # characters that one reading gives
MOST_SEARCHED = 200_000
"""Characters of entries that are searched for a query, the newest: building their index takes about a second."""

MOST_WRITTEN = 50  # entries that one writing takes
NEAR = 0.4  # the least part of the best one's score that an entry must have to fit a query


class MemoryHandler(BaseHandler):
    """Executes ReadMemory and WriteMemory. One serves one drive of a run: what earlier runs wrote is read once."""

    fixed_mode = Mode.PURE  # a reading changes nothing, and of a writing nothing happens but its record.

    def __init__(self) -> None:
        self._reader: MemoryReader | None = None
        self._read: dict[tuple[str, str], list[Entry]] = {}
        self._forgotten: frozenset[str] = frozenset()

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        if effect.kind is EffectKind.WRITE_MEMORY:
            return self._write(effect)
        return await self._search(effect, ctx)

    def _write(self, effect: Effect) -> Outcome:
        rows = effect.arguments.get("entries")
        try:
            entries = [Entry.model_validate(row) for row in rows] if isinstance(rows, list) else []
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            return failed("mistake", f"an entry of the memory has a wrong {first['loc'][0]!r}: {first['msg']}")
        if not entries or len(entries) > MOST_WRITTEN:
            return failed("mistake", f"{len(entries)} entries were to be remembered; give 1 to {MOST_WRITTEN}")
        longest = max(len(entry.text) for entry in entries)
        if longest > LONGEST_ENTRY:
            return failed("mistake", f"an entry of the memory has {longest:,} characters; at most {LONGEST_ENTRY:,}")
        return Outcome(value={"written": len(entries)}, trust=lowest(Trust.AGENT, effect.lowest_trust))

    async def _search(self, effect: Effect, ctx: Any) -> Outcome:
        arguments = effect.arguments
        scope, agent = str(arguments.get("scope", "agent")), str(arguments.get("agent", ""))
        if scope not in SCOPES:
            return failed("mistake", f"the scope of a memory is {scope!r}; the scopes: {', '.join(SCOPES)}")
        kind_names = arguments.get("kinds")
        kinds = {str(name) for name in kind_names} if isinstance(kind_names, list) else set()
        own = list(_of_run(ctx.run.ledger.records.items()))
        pool = [*await self._earlier(ctx, scope, kinds, own), *own]
        every = scope in ("session", "workspace")
        pool = [entry for entry in pool if (every or entry.agent == agent) and (not kinds or entry.kind in kinds)]
        pool = standing(pool)
        if only := arguments.get("only"):
            pool = [entry for entry in pool if entry.ref == only]
        limit = arguments.get("limit")
        most = min(limit if isinstance(limit, int) and limit > 0 else 20, MOST_READ)
        query = str(arguments.get("query") or "")
        hits = await asyncio.to_thread(fitting, pool, query, most) if query else newest(pool[-most:], MOST_CHARS)
        value: list[JsonValue] = [entry.model_dump(mode="json", exclude_defaults=True) for entry in hits]
        # What is remembered is trusted as what it was made of; to have nothing is the framework's word.
        return Outcome(value={"entries": value}, trust=lowest(*(entry.trust for entry in hits)))

    async def _earlier(self, ctx: Any, scope: str, kinds: set[str], own: Sequence[Entry]) -> list[Entry]:
        """Return what other runs wrote, as it was when it was read first."""
        session = ctx.manifest.memory_session
        if scope == "task" or (session is None and scope in ("agent", "session")):
            return []
        if self._reader is None:
            self._reader = MemoryReader(ctx.run.services.store, ctx.run_id)
            self._forgotten = await self._reader.forgotten_refs()
        pool: list[Entry] = []
        if scope in ("agent", "session"):
            if ("session", session) not in self._read:
                self._read["session", session] = await self._reader.of_session(session)
            pool = self._read["session", session]
        else:
            for kind in KINDS:
                if kinds and kind not in kinds:
                    continue
                if ("workspace", kind) not in self._read:
                    self._read["workspace", kind] = await self._reader.of_workspace(kind)
                pool += self._read["workspace", kind]
            pool = sorted(pool, key=lambda entry: entry.task)  # a stable sort: within a run they stay as they are
        copies = {(entry.id, entry.text) for entry in own}  # a fork has copies of what its parent wrote
        return [entry for entry in pool if entry.ref not in self._forgotten and (entry.id, entry.text) not in copies]


def _of_run(records: Any) -> Iterator[Entry]:
    for _, record in records:
        if record.effect.get("kind") == EffectKind.WRITE_MEMORY and record.outcome is not None and record.outcome.ok:
            yield from entries_of(record.effect, {}, "", record.outcome.ended_at)


def fitting(entries: Sequence[Entry], query: str, most: int) -> list[Entry]:
    """Return those that share words with a query, best first."""
    index = Index()
    entries = _shortlist(entries, query)
    for number, entry in enumerate(entries):
        index.add(str(number), Described("", entry.text))
    hits: list[Entry] = []
    chars = 0
    matches = index.search(query, limit=most)
    for match in matches:
        if match.score < matches[0].score * NEAR:
            break
        entry = entries[int(match.key)]
        chars += len(entry.text)
        if chars <= MOST_CHARS:
            hits.append(entry)
    return hits


def _shortlist(entries: Sequence[Entry], query: str) -> list[Entry]:
    """Return those that are worth an index, in their order: of many those with the query's rarest words."""
    if sum(len(entry.text) for entry in entries) <= MOST_SEARCHED:
        return list(entries)
    query_words = set(words_of(query))
    shared = [query_words & set(words_of(entry.text)) for entry in entries]
    often = Counter(word for words in shared for word in words)
    ranking = sorted(range(len(entries)), key=lambda place: (-sum(1 / often[word] for word in shared[place]), -place))
    chars = 0
    places: list[int] = []
    for place in ranking:
        chars += len(entries[place].text)
        if chars > MOST_SEARCHED or not shared[place]:
            break
        places.append(place)
    return [entries[place] for place in sorted(places)]
