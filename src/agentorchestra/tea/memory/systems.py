"""The packaged memory systems, chosen by name (004, sec. 3.2.2: current memory, summaries, retrieval, long term)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.core.errors import OutputError
from agentorchestra.tea.calling.structured_output import read_output
from agentorchestra.tea.memory.base import Entry, Happening, Memory, MemoryFactory, newest
from agentorchestra.tea.memory.base import task_of as _task  # the version of a class is its text: names in it stay
from agentorchestra.tea.memory.workflow import WorkflowMemory


@dataclass
class Window:
    """The last events, as they were.

    Attributes:
        size: how many events of earlier tasks an agent is told.
    """

    size: int = 30
    name: str = "window"
    version: str = "1.0.0"
    description: str = "Tells an agent the last events of its earlier tasks in the session, as they were."

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        entries = await memory.read(kinds=("event",), limit=self.size)
        await memory.write("event", _task(memory).text, of=[memory.task])
        return entries

    async def step(self, memory: Memory, event: Happening) -> None:
        await memory.write("event", event.text, of=[event])

    async def end(self, memory: Memory, event: Happening) -> None:
        await memory.write("event", event.text, of=[event])


@dataclass
class Summary:
    """A running summary: when the events that it does not cover yet are many, a model takes them into it.

    Attributes:
        most_chars: characters of events that may lie open.
        max_words: of a summary.
    """

    most_chars: int = 6_000
    max_words: int = 300
    name: str = "summary"
    version: str = "1.0.0"
    description: str = (
        "Tells an agent a summary of its earlier tasks in the session and what happened since; a model writes the "
        "summary when the events grow long."
    )
    _summary: Entry | None = field(default=None, init=False, repr=False)
    _open: list[Entry] = field(default_factory=list, init=False, repr=False)

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        """The summary and the events that it does not cover."""
        entries = await memory.read(kinds=("summary", "event"), limit=200)
        self._summary = next((entry for entry in reversed(entries) if entry.kind == "summary"), None)
        old_refs = {ref for entry in entries if entry.kind == "summary" for ref in entry.covers}
        self._open = [entry for entry in entries if entry.kind == "event" and entry.ref not in old_refs]
        context = [*([self._summary] if self._summary else []), *self._open]
        await self._keep(memory, _task(memory))
        return context

    async def step(self, memory: Memory, event: Happening) -> None:
        await self._keep(memory, event)

    async def end(self, memory: Memory, event: Happening) -> None:
        await self._keep(memory, event)

    async def _keep(self, memory: Memory, event: Happening) -> None:
        self._open.append(await memory.write("event", event.text, of=[event]))
        if sum(len(entry.text) for entry in self._open) <= self.most_chars:
            return
        before = [self._summary] if self._summary else []
        # Of more than a model has room for the newest: where none could be asked for a while, much lies open.
        material = [*before, *newest(self._open, max(0, memory.room - sum(len(entry.text) for entry in before)))]
        text = await memory.ask("memory_summary", material, agent=memory.agent, max_words=self.max_words)
        if text:
            self._summary = await memory.write("summary", text, of=[*before, *self._open])
            self._open = []


INSIGHTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "minLength": 1},
        "insights": {"type": "array", "items": {"type": "string", "minLength": 1}},
    },
    "required": ["summary", "insights"],
}
"""What a model says of a task that has ended."""


@dataclass
class Insights:
    """What tasks came to and what they taught; those that fit a later task are told at its beginning.

    Attributes:
        most_told: summaries and insights that an agent is told.
        most_kept: insights of one task.
        most_chars: of the events that a model reads, the newest.
    """

    most_told: int = 8
    most_kept: int = 5
    most_chars: int = 20_000
    name: str = "insights"
    version: str = "1.0.0"
    description: str = (
        "Keeps a summary and the insights of each task, written by a model at its end; tells an agent those that fit "
        "its new task."
    )
    _events: list[Entry] = field(default_factory=list, init=False, repr=False)

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        entries = await memory.read(memory.task.text, kinds=("summary", "insight"), limit=self.most_told)
        await self.step(memory, _task(memory))
        return entries

    async def step(self, memory: Memory, event: Happening) -> None:
        self._events.append(await memory.write("event", event.text, of=[event]))

    async def end(self, memory: Memory, event: Happening) -> None:
        await self.step(memory, event)
        material = newest(self._events, min(self.most_chars, memory.room))
        reply = await memory.ask("memory_insights", material, agent=memory.agent, most=self.most_kept)
        try:
            output: Any = read_output(reply, INSIGHTS)
        except OutputError:
            # What was asked and what came of it is known without a model.
            output = {"summary": f"{self._events[0].text}\n{event.text}", "insights": []}
        await memory.write("summary", output["summary"], of=material)
        for text in output["insights"][: self.most_kept]:
            await memory.write("insight", text, of=material)


def builtin_memories() -> dict[str, MemoryFactory]:
    return {"window": Window, "summary": Summary, "insights": Insights, "workflow": WorkflowMemory}
