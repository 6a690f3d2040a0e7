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

TOLD = "(told) "  # stands before what the agent was told at the beginning of the task
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
    _told: list[Entry] = field(default_factory=list, init=False, repr=False)

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        """What the session's last tasks came to, and the insights of the workspace that fit the task."""
        held = await memory.read(kinds=("summary",), limit=4 * self.most_summaries)
        parts = {ref for one in held for ref in one.covers}
        summaries = [one for one in held if one.ref not in parts][-self.most_summaries :]
        told: list[Entry] = []
        fitting = await memory.read(
            memory.task.text, kinds=("insight",), scope=self._scope(memory), limit=self.most_told
        )
        for one in sorted(fitting, key=lambda one: one.misled > 0):  # what misled nobody comes first
            if sum(len(each.text) + len(each.why) for each in [*told, one]) <= self.told_chars:
                told.append(one)
        self._told = told
        await self._keep(memory, memory.task._replace(text=f"Task: {memory.task.text}"))
        return [*summaries, *told]

    async def step(self, memory: Memory, event: Happening) -> None:
        await self._keep(memory, event)
        why = self._why(memory, event)
        if not why:
            return
        material = newest(self._open, memory.room)
        values = {"agent": memory.agent, "max_words": self.max_words, "may_wait": why != "size"}
        said = _read(await memory.ask("memory_part", material, schema=PART, **values), PART)
        text = str(said.get("summary") or "").strip()
        if not text or (said.get("not_yet") and why != "size"):
            self._not_before = len(self._open) + self.goal_events
            return
        self._parts.append(await memory.write("summary", text, of=self._open))
        self._open, self._not_before = [], 0

    async def end(self, memory: Memory, event: Happening) -> None:
        await self._keep(memory, event)
        material = newest([*self._parts, *self._open], memory.room)
        about = f"{memory.task.text}\n{event.text}"
        found = await memory.read(about, kinds=("insight",), scope=self._scope(memory), limit=2 * self.most_told)
        known = self._known(found, memory.room // 2)
        told = {one.ref for one in self._told}
        numbered = [
            one.model_copy(update={"text": f"[{n}] {TOLD if one.ref in told else ''}{one.text}"})
            for n, one in enumerate(known, start=1)
        ]
        values = {"agent": memory.agent, "most": self.most_kept, "known": len(known)}
        said = _read(await memory.ask("memory_lessons", [*numbered, *material], schema=LESSONS, **values), LESSONS)
        if not said:  # what was asked and what came of it is known without a model
            said = {"summary": about, "insights": []}
        # The model read what is remembered too, so what it says is trusted no further than that.
        made_of: list[Entry | Happening] = [*material, *(Happening(one.text, one.trust) for one in known)]
        await memory.write("summary", said["summary"], of=made_of)
        used = await self._learn(memory, said["insights"][: self.most_kept], known, made_of)
        for one in said.get("misled", ())[: self.most_told]:
            wrong = [each for each in _numbered(one["number"], known) if each in self._told and each.ref not in used]
            if wrong:
                used.add(wrong[0].ref)
                await memory.write("insight", one["why"].strip()[: self.longest], of=made_of, against=wrong)

    def _known(self, found: Sequence[Entry], room: int) -> list[Entry]:
        """What was told, then what else fits what happened, as far as there is room beside what happened."""
        known: list[Entry] = []
        for one in {one.ref: one for one in (*self._told, *found)}.values():
            chars = sum(len(each.text) + len(each.why) for each in [*known, one])
            if len(known) < 2 * self.most_told and chars <= room:
                known.append(one)
        return known

    async def _learn(
        self,
        memory: Memory,
        said: Sequence[dict[str, Any]],
        known: Sequence[Entry],
        made_of: Sequence[Entry | Happening],
    ) -> set[str]:
        """Write insights down, each with what it says of earlier ones; the references of these."""
        texts = [one["text"].strip()[: self.longest] for one in said]
        near: list[Entry] = [*known]
        if texts:  # what the model did not see, or did not see to be the same
            found = await memory.read(
                " ".join(texts), kinds=("insight",), scope=self._scope(memory), limit=4 * self.most_told
            )
            near += [one for one in found if one.ref not in {each.ref for each in known}]
        done: set[str] = set()
        used: set[str] = set()
        for text, one in zip(texts, said, strict=True):
            if not text or _plain(text) in done:
                continue
            done.add(_plain(text))
            wrong = _numbered(one.get("instead_of"), known)
            same = [] if wrong else _numbered(one.get("same"), known)
            same += [each for each in near if each not in [*same, *wrong] and _plain(each.text) == _plain(text)]
            if wrong:
                text += f"{EARLIER}{wrong[0].text.partition(EARLIER)[0]})"
            used |= {each.ref for each in [*same, *wrong]}
            await memory.write("insight", text, of=[*made_of, *same], same=same, instead_of=wrong)
        return used

    async def _keep(self, memory: Memory, event: Happening) -> None:
        self._open.append(await memory.write("event", event.text, of=[event]))

    def _why(self, memory: Memory, event: Happening) -> str:
        if len(self._open) < self._not_before:
            return ""
        if sum(len(one.text) for one in self._open) > min(self.open_chars, memory.room):
            return "size"
        if len(self._open) >= self.open_events:
            return "many"
        return "goal" if event.closes and len(self._open) >= self.goal_events else ""

    def _scope(self, memory: Memory) -> Scope:
        return "workspace" if memory.leads else "own"


def _numbered(number: int | None, known: Sequence[Entry]) -> list[Entry]:
    """What a model means by a number, nothing where it means nothing that it was shown."""
    return [known[number - 1]] if number is not None and 0 < number <= len(known) else []


def _plain(text: str) -> str:
    return " ".join(text.partition(EARLIER)[0].split()).casefold().rstrip(".")
