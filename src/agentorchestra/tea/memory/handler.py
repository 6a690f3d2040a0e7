"""The handler of ReadMemory and WriteMemory. What is remembered lies in the log and nowhere else.

The record of a WriteMemory is the entry: nothing else is written, so a crash can neither lose one that was recorded nor
write one twice. A ReadMemory looks through the records of this run and of the earlier runs of its session; what it
found is its outcome, which a resume, a replay and a fork give again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue, ValidationError

from agentorchestra.core.budget import NO_COST, Bound
from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, failed
from agentorchestra.core.query import LogQuery
from agentorchestra.tea.memory.base import LONGEST_ENTRY, Entry
from agentorchestra.tea.retrieval import Described, Index

MOST_READ = 200
MOST_CHARS = 40_000
"""Entries and characters that one reading gives."""

MOST_SEARCHED = 200_000
"""Characters of entries that are searched for a query, the newest: building their index takes about a second."""

MOST_WRITTEN = 50
"""Entries that one writing takes."""

MOST_EARLIER = 5_000
"""Entries of earlier runs of a session that are looked through, the newest."""

NEAR = 0.4
"""The least part of the best one's score that an entry must have to fit a query."""

_PAGE = 1_000


class MemoryHandler:
    """Executes ReadMemory and WriteMemory. One serves one drive of a run: what earlier runs wrote is read once."""

    def __init__(self) -> None:
        self._earlier: dict[str, list[Entry]] = {}

    def mode(self, effect: Effect) -> Mode:
        """Pure: a reading changes nothing, and of a writing nothing happens but its record."""
        return Mode.PURE

    def bound(self, effect: Effect) -> Bound:
        """Nothing."""
        return NO_COST

    def redact(self, effect: Effect) -> Effect:
        """The effect as it is: the door replaces the values of known secrets."""
        return effect

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Read entries, or take some."""
        if effect.kind is EffectKind.WRITE_MEMORY:
            return self._taken(effect)
        return await self._found(effect, ctx)

    def _taken(self, effect: Effect) -> Outcome:
        given = effect.arguments.get("entries")
        try:
            entries = [Entry.model_validate(one) for one in given] if isinstance(given, list) else []
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            return failed("mistake", f"an entry of the memory has a wrong {first['loc'][0]!r}: {first['msg']}")
        if not entries or len(entries) > MOST_WRITTEN:
            return failed("mistake", f"{len(entries)} entries were to be remembered; give 1 to {MOST_WRITTEN}")
        longest = max(len(one.text) for one in entries)
        if longest > LONGEST_ENTRY:
            return failed("mistake", f"an entry of the memory has {longest:,} characters; at most {LONGEST_ENTRY:,}")
        return Outcome(value={"written": len(entries)}, trust=lowest(Trust.AGENT, effect.lowest_trust))

    async def _found(self, effect: Effect, ctx: Any) -> Outcome:
        asked = effect.arguments
        scope, agent = str(asked.get("scope", "agent")), str(asked.get("agent", ""))
        if scope not in ("task", "agent", "session"):
            return failed("mistake", f"the scope of a memory is {scope!r}; it is 'task', 'agent' or 'session'")
        wanted = asked.get("kinds")
        kinds = {str(one) for one in wanted} if isinstance(wanted, list) else set()
        held = [] if scope == "task" else await self._of_session(ctx)
        held = [*held, *_of_run(ctx.run.ledger.records.items())]
        held = [one for one in held if (scope == "session" or one.agent == agent) and (not kinds or one.kind in kinds)]
        limit = asked.get("limit")
        most = min(limit if isinstance(limit, int) and limit > 0 else 20, MOST_READ)
        query = str(asked.get("query") or "")
        found = await asyncio.to_thread(_fitting, held, query, most) if query else _newest(held, most)
        value: list[JsonValue] = [one.model_dump(mode="json", exclude_defaults=True) for one in found]
        # What is remembered is trusted as what it was made of; to have nothing is the framework's word.
        return Outcome(value={"entries": value}, trust=lowest(*(one.trust for one in found)))

    async def _of_session(self, ctx: Any) -> list[Entry]:
        """What earlier and other runs of the session wrote, as it is now; read once."""
        session = ctx.manifest.memory_session
        if session is None:
            return []
        if session not in self._earlier:
            store = ctx.run.services.store
            found: list[Entry] = []
            imported: dict[str, bool] = {ctx.run_id: False}
            after: tuple[str, int] | None = None
            query = LogQuery(session=session, types=("completed",))
            while True:
                page = await store.query(query, after=after, limit=_PAGE)
                for event in page:
                    effect = event.body.get("effect") or {}
                    if effect.get("kind") != EffectKind.WRITE_MEMORY or event.run == ctx.run_id:
                        continue
                    if event.run not in imported:
                        record = await store.get_run(event.run)
                        imported[event.run] = record is None or record.imported is not None
                    found += _entries(effect, event.body["outcome"], event.run, event.ts, foreign=imported[event.run])
                found = found[-MOST_EARLIER:]
                if len(page) < _PAGE:
                    break
                after = page[-1].run, page[-1].seq
            self._earlier[session] = found
        return self._earlier[session]


def _of_run(records: Any) -> Iterator[Entry]:
    """What this run wrote so far, in the order in which it was recorded."""
    for _, record in records:
        if record.effect.get("kind") == EffectKind.WRITE_MEMORY and record.outcome is not None and record.outcome.ok:
            yield from _entries(record.effect, {}, "", record.outcome.ended_at)


def _entries(effect: Any, outcome: Any, run: str, at: Any, *, foreign: bool = False) -> Iterator[Entry]:
    """The entries of a recorded writing; `run` is "" for this run's own."""
    given = effect.get("arguments", {}).get("entries")
    if outcome.get("status", "ok") != "ok" or not isinstance(given, list):
        return
    for one in given:
        try:
            entry = Entry.model_validate(one)
        except ValidationError:
            continue  # of an imported log, which may hold anything
        covers = tuple(f"{run}{ref}" if ref.startswith(":") else ref for ref in entry.covers)
        trust = Trust.UNTRUSTED if foreign else entry.trust
        text = entry.text[:LONGEST_ENTRY]
        yield entry.model_copy(update={"text": text, "task": run, "at": at, "covers": covers, "trust": trust})


def _newest(entries: Sequence[Entry], most: int, *, most_chars: int = MOST_CHARS) -> list[Entry]:
    """The last ones that have room, in their order."""
    found: list[Entry] = []
    chars = 0
    for one in reversed(entries):
        chars += len(one.text)
        if len(found) == most or chars > most_chars:
            break
        found.append(one)
    return found[::-1]


def _fitting(entries: Sequence[Entry], query: str, most: int) -> list[Entry]:
    """Those that share words with a query, best first."""
    index = Index()
    entries = _newest(entries, MOST_EARLIER, most_chars=MOST_SEARCHED)
    for number, one in enumerate(entries):
        index.add(str(number), Described("", one.text))
    found: list[Entry] = []
    chars = 0
    matches = index.search(query, limit=most)
    for match in matches:
        if match.score < matches[0].score * NEAR:
            break
        one = entries[int(match.key)]
        chars += len(one.text)
        if chars <= MOST_CHARS:
            found.append(one)
    return found


__all__ = ["MOST_READ", "MemoryHandler"]
