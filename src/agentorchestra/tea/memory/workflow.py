"""Memory as a workflow agent (000, app. C.1 "Memory Manager", D.1 "Memory"): what tasks taught serves later tasks.

    every event ─> written down ─> summarised when it is time ─┐
                                                               ├─> at the task's end: summary, insights
    what earlier tasks of the workspace taught ────────────────┘          │
            ^                                                             │ the same again, or better
            └─────────────────────────────────────────────────────────────┘

When it is time is a matter of rules first, of the model's word second: no step costs a request by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.tea.memory.base import Entry, Happening, Memory, Scope, newest
from agentorchestra.tea.memory.base import read_reply as _read  # the version of a class is its text: names in it stay

PART: dict[str, Any] = {"type": "object", "properties": {"summary": {"type": "string"}, "not_yet": {"type": "boolean"}}}
"""What a model says of events in the middle of a task."""

LESSONS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "minLength": 1},
        "insights": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "minLength": 1},
                    "same": {"type": ["integer", "null"]},
                    "instead_of": {"type": ["integer", "null"]},
                },
                "required": ["text"],
            },
        },
        "misled": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"number": {"type": "integer"}, "why": {"type": "string", "minLength": 1}},
                "required": ["number", "why"],
            },
        },
    },
    "required": ["summary", "insights"],
}
"""What a model says of a task that has ended."""

TOLD_MARK = "(told) "  # stands before what the agent was told at the beginning of the task
EARLIER = " (before it was known as: "  # stands between an insight and the one that it contradicts


@dataclass
class WorkflowMemory:
    """Records an agent's tasks, decides when to summarise them, keeps what they taught for the workspace's later tasks.

    The run's top agent is told the insights of all agents, every other agent its own. A model is asked at the end of a
    task, and before it only where much has happened (`_why`).

    Attributes:
        most_told, told_chars: insights that an agent is told, and their characters.
        most_summaries: of the session's earlier tasks that it is told.
        most_kept: insights of one task.
        longest: characters of one insight.
        open_chars: of events that may lie open; fewer where the model has room for fewer.
        open_events: that may lie open.
        goal_events: that have to lie open for a finished part of the task to be a reason.
        max_words: of a summary.
    """

    most_told: int = 8
    told_chars: int = 4_000
    most_summaries: int = 5
    most_kept: int = 5
    longest: int = 500
    open_chars: int = 10_000
    open_events: int = 30
    goal_events: int = 6
    max_words: int = 200
    name: str = "workflow"
    version: str = "1.0.0"
    description: str = (
        "Writes an agent's tasks down, summarises them when it is time, and draws insights from each at its end, which "
        "later tasks of the workspace are told where they fit."
    )
    _open: list[Entry] = field(default_factory=list, init=False, repr=False)
    _parts: list[Entry] = field(default_factory=list, init=False, repr=False)
    _not_before: int = field(default=0, init=False, repr=False)
    _hints: list[Entry] = field(default_factory=list, init=False, repr=False)

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        """What the session's last tasks came to, and the insights of the workspace that fit the task."""
        past = await memory.read(kinds=("summary",), limit=4 * self.most_summaries)
        parts = {ref for entry in past for ref in entry.covers}
        summaries = [entry for entry in past if entry.ref not in parts][-self.most_summaries :]
        hints: list[Entry] = []
        fitting = await memory.read(
            memory.task.text, kinds=("insight",), scope=self._scope(memory), limit=self.most_told
        )
        for insight in sorted(fitting, key=lambda entry: entry.misled > 0):  # what misled nobody comes first
            if sum(len(hint.text) + len(hint.why) for hint in [*hints, insight]) <= self.told_chars:
                hints.append(insight)
        self._hints = hints
        await self._keep(memory, memory.task._replace(text=f"Task: {memory.task.text}"))
        return [*summaries, *hints]

    async def step(self, memory: Memory, event: Happening) -> None:
        await self._keep(memory, event)
        reason = self._reason(memory, event)
        if not reason:
            return
        material = newest(self._open, memory.room)
        values = {"agent": memory.agent, "max_words": self.max_words, "may_wait": reason != "size"}
        reply = _read(await memory.ask("memory_part", material, schema=PART, **values), PART)
        text = str(reply.get("summary") or "").strip()
        if not text or (reply.get("not_yet") and reason != "size"):
            self._not_before = len(self._open) + self.goal_events
            return
        self._parts.append(await memory.write("summary", text, of=self._open))
        self._open, self._not_before = [], 0

    async def end(self, memory: Memory, event: Happening) -> None:
        await self._keep(memory, event)
        material = newest([*self._parts, *self._open], memory.room)
        about = f"{memory.task.text}\n{event.text}"
        matches = await memory.read(about, kinds=("insight",), scope=self._scope(memory), limit=2 * self.most_told)
        pool = self._candidates(matches, memory.room // 2)
        refs = {hint.ref for hint in self._hints}
        listing = [
            entry.model_copy(update={"text": f"[{n}] {TOLD_MARK if entry.ref in refs else ''}{entry.text}"})
            for n, entry in enumerate(pool, start=1)
        ]
        values = {"agent": memory.agent, "most": self.most_kept, "known": len(pool)}
        reply = _read(await memory.ask("memory_lessons", [*listing, *material], schema=LESSONS, **values), LESSONS)
        if not reply:  # what was asked and what came of it is known without a model
            reply = {"summary": about, "insights": []}
        # The model read what is remembered too, so what it says is trusted no further than that.
        made_of: list[Entry | Happening] = [*material, *(Happening(entry.text, entry.trust) for entry in pool)]
        await memory.write("summary", reply["summary"], of=made_of)
        used = await self._learn(memory, reply["insights"][: self.most_kept], pool, made_of)
        for case in reply.get("misled", ())[: self.most_told]:
            wrong = [hint for hint in _by_number(case["number"], pool) if hint in self._hints and hint.ref not in used]
            if wrong:
                used.add(wrong[0].ref)
                await memory.write("insight", case["why"].strip()[: self.longest], of=made_of, against=wrong)

    def _candidates(self, matches: Sequence[Entry], room: int) -> list[Entry]:
        """What was told, then what else fits what happened, as far as there is room beside what happened."""
        pool: list[Entry] = []
        for insight in {entry.ref: entry for entry in (*self._hints, *matches)}.values():
            chars = sum(len(entry.text) + len(entry.why) for entry in [*pool, insight])
            if len(pool) < 2 * self.most_told and chars <= room:
                pool.append(insight)
        return pool

    async def _learn(
        self,
        memory: Memory,
        lessons: Sequence[dict[str, Any]],
        pool: Sequence[Entry],
        made_of: Sequence[Entry | Happening],
    ) -> set[str]:
        """Write insights down, each with what it says of earlier ones; the references of these."""
        texts = [lesson["text"].strip()[: self.longest] for lesson in lessons]
        near: list[Entry] = [*pool]
        if texts:  # what the model did not see, or did not see to be the same
            matches = await memory.read(
                " ".join(texts), kinds=("insight",), scope=self._scope(memory), limit=4 * self.most_told
            )
            near += [entry for entry in matches if entry.ref not in {insight.ref for insight in pool}]
        done: set[str] = set()
        used: set[str] = set()
        for text, lesson in zip(texts, lessons, strict=True):
            if not text or _plain(text) in done:
                continue
            done.add(_plain(text))
            wrong = _by_number(lesson.get("instead_of"), pool)
            same = [] if wrong else _by_number(lesson.get("same"), pool)
            same += [entry for entry in near if entry not in [*same, *wrong] and _plain(entry.text) == _plain(text)]
            if wrong:
                text += f"{EARLIER}{wrong[0].text.partition(EARLIER)[0]})"
            used |= {entry.ref for entry in [*same, *wrong]}
            await memory.write("insight", text, of=[*made_of, *same], same=same, instead_of=wrong)
        return used

    async def _keep(self, memory: Memory, event: Happening) -> None:
        self._open.append(await memory.write("event", event.text, of=[event]))

    def _reason(self, memory: Memory, event: Happening) -> str:
        if len(self._open) < self._not_before:
            return ""
        if sum(len(entry.text) for entry in self._open) > min(self.open_chars, memory.room):
            return "size"
        if len(self._open) >= self.open_events:
            return "many"
        return "goal" if event.closes and len(self._open) >= self.goal_events else ""

    def _scope(self, memory: Memory) -> Scope:
        return "workspace" if memory.leads else "own"


def _by_number(number: int | None, pool: Sequence[Entry]) -> list[Entry]:
    """What a model means by a number, nothing where it means nothing that it was shown."""
    return [pool[number - 1]] if number is not None and 0 < number <= len(pool) else []


def _plain(text: str) -> str:
    return " ".join(text.partition(EARLIER)[0].split()).casefold().rstrip(".")
