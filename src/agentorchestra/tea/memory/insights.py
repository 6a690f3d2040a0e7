"""Insights as they stand after many tasks: one for each thing that was learned, however often it was learned.

Nothing in the log changes: a task that learns something again, learns better, or was misled says of which earlier
insights it does so (`covers`, `instead_of`, `against`), and a reading puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentorchestra.tea.memory.base import Entry


@dataclass
class _Insight:
    """One thing that was learned: the entry that stands for it, in how many tasks it was found, which it misled."""

    entry: Entry
    tasks: set[str]
    refs: list[str]
    place: int
    doubts: dict[str, Entry] = field(default_factory=dict)


def standing(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries, of insights those that hold now and are told; see `stands_for`."""
    return [entry for entry, _ in stands_for(entries) if entry.told]


def stands_for(entries: Iterable[Entry]) -> list[tuple[Entry, tuple[str, ...]]]:
    """Return the entries in their order, of insights those that hold now, each with `times`, and what each stands for.

    What was found again stands at its last place, in the words of the entry that is trusted most, of these the newest.
    What a newer insight contradicts is gone, unless it is trusted more than that one: content from outside cannot take
    away what did not come from there; then both stand. In the same way counts what says that an insight misled a
    task, once for each task; one that misled as many as found it is here, and is not `told`.
    """
    rest: list[tuple[int, Entry, tuple[str, ...]]] = []
    doubts: list[Entry] = []
    insights: dict[str, _Insight] = {}
    for place, entry in enumerate(entries):
        if entry.kind != "insight" or entry.against:
            rest.append((place, entry, (entry.ref,)))
            doubts += [entry] if entry.against else []
            continue
        insight = _Insight(entry, {entry.task}, [entry.ref], place)
        for ref in entry.covers:
            earlier = insights.get(ref)
            if earlier is None or earlier is insight:
                continue
            if earlier.entry.trust.rank > insight.entry.trust.rank:
                insight.entry = earlier.entry
            insight.tasks |= earlier.tasks
            insight.refs += earlier.refs
            insights.update(dict.fromkeys(earlier.refs, insight))
        for ref in entry.instead_of:
            earlier = insights.get(ref)
            if earlier is not None and earlier is not insight and earlier.entry.trust.rank <= entry.trust.rank:
                for name in earlier.refs:
                    insights.pop(name, None)
        insights[entry.ref] = insight
    for entry in doubts:  # at last: of runs that overlap the one that was misled may stand before the one that found it
        for ref in entry.against:
            earlier = insights.get(ref)
            if earlier is not None and earlier.entry.trust.rank <= entry.trust.rank:
                earlier.doubts[entry.task] = entry
    whole = {id(insight): insight for insight in insights.values()}
    rows = [*rest, *((insight.place, *_count(insight)) for insight in whole.values())]
    return [(entry, refs) for _, entry, refs in sorted(rows, key=lambda row: row[0])]


def _count(insight: _Insight) -> tuple[Entry, tuple[str, ...]]:
    """Return the entry, and what is forgotten with it: whatever it stands for, and what was said against it."""
    reasons = [entry.text for entry in insight.doubts.values()]
    update = {"times": len(insight.tasks), "misled": len(reasons), "why": reasons[-1] if reasons else ""}
    refs = dict.fromkeys([*insight.refs, *(entry.ref for entry in insight.doubts.values())])
    return insight.entry.model_copy(update=update), tuple(refs)
