"""Memory beside each decision, in four parts (004, sec. 3.2.2, 8.5, 9.3).

    buffer      the agent's own conversation; nothing is done for it here
    summary     each step ─> what it found out, and what to do next
    retrieval   the last step ─> the past step that is most like it
    long term   what is known so far + what happened since ─> what is known, the objective first

The last three are settings. What they write lies with everything else that is remembered, in the log; a memory system
that the run has besides writes the same events, which stand there once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.tea.memory.base import (
    LONGEST_ENTRY,
    STEP,
    Entry,
    Happening,
    Memory,
    MemorySystem,
    newest,
    read_reply,
    task_of,
)
from agentorchestra.tea.retrieval.index import Described, Index

_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


def _form(*names: str) -> dict[str, Any]:
    properties = dict.fromkeys(names, _TEXTS)
    return {"type": "object", "properties": properties, "required": [*names], "additionalProperties": False}


POINTS = _form("points", "suggestions")  # what a model says of one step
FUSION = _form("known", "next")  # what a model makes of the long-term memory and what happened since
NEXT = "\nNext:"  # stands before what is suggested for the next step
FUSION_PREFIX = "Long-term memory so far. "  # stands before the long-term memory where a model is asked to fuse it
MOST_EARLIER = 200  # events of the session's earlier tasks
CHARS_OF_WORD = 10  # with room to spare
SHARE = 6
"""What one part shows takes at most so great a part of what a model has room for: all three at most half of that."""


@dataclass
class StepMemory:
    """Shows an agent, before each decision, what its steps found out, which past step is like its last, what is known.

    Attributes:
        summary, retrieval, long_term: which of the parts there are.
        kept: the memory system that the run has besides; it is told everything that happens.
        max_words: of a summary, and of the long-term memory.
    """

    summary: bool = False
    retrieval: bool = False
    long_term: bool = False
    kept: MemorySystem | None = None
    max_words: int = 200
    name: str = "steps"
    version: str = "1.0.0"
    description: str = (
        "Shows an agent before each decision summaries of its steps, the past step that is most like its last one, and "
        "a long-term memory that each step is fused into."
    )
    _new: list[tuple[Happening, Entry]] = field(default_factory=list, init=False, repr=False)
    _summaries: list[Entry] = field(default_factory=list, init=False, repr=False)
    _fusion: list[Entry] = field(default_factory=list, init=False, repr=False)
    _open: list[tuple[Happening, Entry]] = field(default_factory=list, init=False, repr=False)
    _past: dict[str, Entry] = field(default_factory=dict, init=False, repr=False)
    _steps: list[str] = field(default_factory=list, init=False, repr=False)
    _index: Index = field(default_factory=Index, init=False, repr=False)
    _last: tuple[str, Sequence[float] | None] = field(default=("", None), init=False, repr=False)

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        """Read what is there of earlier tasks; return what the other memory system tells at the beginning."""
        earlier = await memory.read(kinds=("event",), limit=MOST_EARLIER) if self.retrieval or self.long_term else []
        if self.long_term:
            fusions = await memory.read(kinds=("long_term",))
            old_refs = {ref for entry in fusions for ref in entry.covers}
            # Runs of a session at the same time each have one; the next fusion puts them together.
            self._fusion = [entry for entry in fusions if entry.ref not in old_refs]
            fused_at = max((entry.at for entry in self._fusion if entry.at is not None), default=None)
            later = [entry for entry in earlier if fused_at is None or (entry.at is not None and entry.at > fused_at)]
            self._open = [(Happening(entry.text, entry.trust), entry) for entry in later]
        if self.retrieval:
            await self._add(memory, memory.task.text, [entry for entry in earlier if entry.text.startswith(STEP)])
        entries = await self.kept.begin(memory) if self.kept is not None else ()
        await memory.write("event", task_of(memory).text, of=[memory.task])
        return entries

    async def step(self, memory: Memory, event: Happening) -> None:
        """Write it down; what is made of it is asked for before the next decision, if there is one."""
        entry = await memory.write("event", event.text, of=[event])
        self._new.append((event, entry))
        self._steps.append(entry.ref)
        if self.kept is not None:
            await self.kept.step(memory, event)

    async def end(self, memory: Memory, event: Happening) -> None:
        """Write it down; the next task of the session takes it into the long-term memory."""
        await memory.write("event", event.text, of=[event])
        if self.kept is not None:
            await self.kept.end(memory, event)

    async def recall(self, memory: Memory) -> Sequence[Entry]:
        """Return the long-term memory, the summaries of the last steps, and the past step most like the last one."""
        new, self._new = self._new, []
        entries: list[Entry] = []
        if self.long_term:
            entries += await self._recall_fusion(memory, new)
        if self.summary:
            entries += await self._summarise(memory, new)
        if self.retrieval:
            entries += await self._similar(memory, new)
        return entries

    # -- summary -------------------------------------------------------------------------------------------------------

    async def _summarise(self, memory: Memory, new: Sequence[tuple[Happening, Entry]]) -> list[Entry]:
        """Sum up each new step, where a model can be had; return the newest summaries."""
        for event, entry in new:
            material, words = [task_of(memory), event], self._words(memory)
            reply = read_reply(await memory.ask("memory_step", material, schema=POINTS, max_words=words), POINTS)
            points, suggestions = _bullets(reply.get("points")), _bullets(reply.get("suggestions"))
            if not points and not suggestions:
                continue
            if not points or len(points) > len(event.text):
                points = event.text  # what is longer than the step sums nothing up
            after = f"{NEXT}\n{suggestions}" if suggestions else ""
            points = points[: max(0, _room(memory) - len(after))]
            self._summaries.append(await memory.write("step", points + after, of=[entry]))
        # Steps that the agent still sees are not told a second time, but for what was made of the last one.
        in_view = {*self._in_view(memory)} - {*self._steps[-1:]}
        entries = [entry for entry in self._summaries if not in_view.intersection(entry.covers)]
        return [self._current(entry) for entry in newest(entries, _room(memory))]

    def _in_view(self, memory: Memory) -> list[str]:
        """Return the last steps that stand in the agent's history, at least the last one."""
        return self._steps[max(0, len(self._steps) - max(1, memory.in_view)) :]

    def _current(self, entry: Entry) -> Entry:
        """Return a summary; what was suggested after any step but the last one is past."""
        past = entry.covers != (self._steps[-1],)
        return entry.model_copy(update={"text": entry.text.partition(NEXT)[0]}) if past else entry

    def _words(self, memory: Memory) -> int:
        return min(self.max_words, _room(memory) // CHARS_OF_WORD)

    # -- long term -----------------------------------------------------------------------------------------------------

    async def _recall_fusion(self, memory: Memory, new: Sequence[tuple[Happening, Entry]]) -> list[Entry]:
        """Fuse what is known with what happened since; return it after what it does not hold of earlier tasks yet."""
        self._open += new
        if new:
            await self._fuse(memory)
        earlier = [entry for _, entry in self._open if entry.task]
        return [_cut(entry, _room(memory)) for entry in newest([*earlier, *self._fusion], _room(memory))]

    async def _fuse(self, memory: Memory) -> None:
        """Write the fusion down; where none can be had, what is known and what is open stay as they are."""
        before = [_body(fusion.text) for fusion in self._fusion]
        events = newest([event for event, _ in self._open], memory.room - sum(map(len, before)))
        past = [fusion.model_copy(update={"text": f"{FUSION_PREFIX}{fusion.text}"}) for fusion in self._fusion]
        material: list[Entry | Happening] = [task_of(memory), *past, *events]
        words = self._words(memory)
        reply = read_reply(await memory.ask("memory_fusion", material, schema=FUSION, max_words=words), FUSION)
        facts, after = _bullets(reply.get("known")), _bullets(reply.get("next"))
        if not facts:
            return
        originals = "\n".join([*before, *(event.text for event in events)])
        if len(facts) > len(originals):
            facts = originals  # what is longer than that fuses nothing
        # In the words of the task: a model that has read pages does not say what the agent is after.
        objective = " ".join(memory.task.text.split())[: _room(memory) // 4]
        text = f"Objective: {objective}\n{facts}" + (f"{NEXT}\n{after}" if after else "")
        if len(text) > _room(memory):
            return  # nothing is cut off from it
        self._fusion = [await memory.write("long_term", text, of=[*self._fusion, *(entry for _, entry in self._open)])]
        self._open = []

    # -- retrieval -----------------------------------------------------------------------------------------------------

    async def _similar(self, memory: Memory, new: Sequence[tuple[Happening, Entry]]) -> list[Entry]:
        """Return the past step most like the last one, of those that stand in the agent's history no more."""
        for event, entry in new:
            await self._add(memory, event.text, [entry])
        query, vector = self._last
        among = frozenset(self._past).difference(self._in_view(memory))
        matches = self._index.search(query, limit=1, among=among, vector=vector)
        return [_cut(self._past[match.key], _room(memory)) for match in matches]

    async def _add(self, memory: Memory, query: str, entries: Sequence[Entry]) -> None:
        """Take entries in, and `query` as what is looked for from now on."""
        query = query[:LONGEST_ENTRY]
        texts = [*dict.fromkeys([query, *(entry.text for entry in entries)])]
        vectors = dict(zip(texts, await memory.embed(texts), strict=False))
        self._last = (query, vectors.get(query))
        for entry in entries:
            self._past[entry.ref] = entry
            try:
                self._index.add(entry.ref, Described("", entry.text), vectors.get(entry.text))
            except ValueError:  # a vector of another length than those before: words find it
                self._index.add(entry.ref, Described("", entry.text))


def _room(memory: Memory) -> int:
    """Return the characters that one part may show, and an entry of it may have."""
    return min(LONGEST_ENTRY, memory.room // SHARE)


def _cut(entry: Entry, most: int) -> Entry:
    return entry if len(entry.text) <= most else entry.model_copy(update={"text": f"{entry.text[: most - 1]}…"})


def _bullets(value: Any) -> str:
    """Return the texts of a list, a line each; "" for none."""
    lines = (" ".join(str(element).split()) for element in (value if isinstance(value, list) else ()))
    return "\n".join(f"- {line}" for line in lines if line)


def _body(text: str) -> str:
    """Return a long-term memory without its objective and without what it suggests."""
    return text.partition("\n")[2].partition(NEXT)[0]
