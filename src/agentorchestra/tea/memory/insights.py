"""Insights as they stand after many tasks: one for each thing that was learned, however often it was learned.

Nothing in the log changes: a task that learns something again, learns better, or was misled says of which earlier
insights it does so (`covers`, `instead_of`, `against`), and a reading puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentorchestra.tea.memory.base import Entry


@dataclass
class _Known:
    """One thing that was learned: the entry that stands for it, in how many tasks it was found, which it misled."""

    entry: Entry
    tasks: set[str]
    refs: list[str]
    place: int
    misled: dict[str, Entry] = field(default_factory=dict)


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
    others: list[tuple[int, Entry, tuple[str, ...]]] = []
    doubts: list[Entry] = []
    known: dict[str, _Known] = {}
    for place, one in enumerate(entries):
        if one.kind != "insight" or one.against:
            others.append((place, one, (one.ref,)))
            doubts += [one] if one.against else []
            continue
        held = _Known(one, {one.task}, [one.ref], place)
        for ref in one.covers:
            earlier = known.get(ref)
            if earlier is None or earlier is held:
                continue
            if earlier.entry.trust.rank > held.entry.trust.rank:
                held.entry = earlier.entry
            held.tasks |= earlier.tasks
            held.refs += earlier.refs
            known.update(dict.fromkeys(earlier.refs, held))
        for ref in one.instead_of:
            earlier = known.get(ref)
            if earlier is not None and earlier is not held and earlier.entry.trust.rank <= one.trust.rank:
                for name in earlier.refs:
                    known.pop(name, None)
        known[one.ref] = held
    for one in doubts:  # at last: of runs that overlap the one that was misled may stand before the one that found it
        for ref in one.against:
            earlier = known.get(ref)
            if earlier is not None and earlier.entry.trust.rank <= one.trust.rank:
                earlier.misled[one.task] = one
    whole = {id(each): each for each in known.values()}
    found = [*others, *((each.place, *_counted(each)) for each in whole.values())]
    return [(entry, refs) for _, entry, refs in sorted(found, key=lambda one: one[0])]


def _counted(known: _Known) -> tuple[Entry, tuple[str, ...]]:
    """Return the entry, and what is forgotten with it: whatever it stands for, and what was said against it."""
    why = [one.text for one in known.misled.values()]
    update = {"times": len(known.tasks), "misled": len(why), "why": why[-1] if why else ""}
    refs = dict.fromkeys([*known.refs, *(one.ref for one in known.misled.values())])
    return known.entry.model_copy(update=update), tuple(refs)
