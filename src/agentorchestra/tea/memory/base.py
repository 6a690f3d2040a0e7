"""Memory: entries, what an agent's memory can be asked, and what a memory system does with it."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

from pydantic import BaseModel

from agentorchestra.core.content import Trust
from agentorchestra.core.errors import OutputError, UsageError
from agentorchestra.core.ids import sha256_json
from agentorchestra.tea.calling.signatures import source_of
from agentorchestra.tea.calling.structured_output import read_output

EntryKind = Literal["event", "summary", "insight", "step", "long_term"]
"""An event, a short summary of events, something worth knowing the next time; a summary of one step with suggestions
for the next, what is known after all steps so far."""

KINDS: tuple[EntryKind, ...] = get_args(EntryKind)

Scope = Literal["task", "agent", "session", "own", "workspace"]
"""Whose entries are read: of this agent in this run; of this agent in all runs of its session; of all its agents; of
this agent in all runs of the workspace, those without a session too; of all agents there."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

NO_MEMORY = "none"  # the name of no memory at all
STEP = "Step "  # how an event begins that is a step of an agent
LONGEST_ENTRY = 4_000  # characters of one entry; the rest is left out
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.-]+)?")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


class Entry(BaseModel, frozen=True):
    """Something that is remembered."""

    id: str  # unique within its task
    kind: EntryKind  # see EntryKind
    text: str  # in words
    agent: str  # whose it is
    task: str = ""  # the run it was written in, "" for this one
    at: datetime | None = None  # when it was written
    trust: Trust = Trust.UNTRUSTED  # the lowest of what it was made of: memory does not make content any safer
    # references of the entries that a summary, of whatever kind, stands for; of an insight, earlier ones that say the
    # same
    covers: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()  # references of the earlier insights that an insight contradicts
    # references of the earlier insights that misled a task; such an entry says no more than why
    against: tuple[str, ...] = ()
    # where in the log an insight was learnt, as run and key of an effect: `RUN/1.react#3`
    evidence: tuple[str, ...] = ()
    times: int = 1  # in how many tasks an insight was found; told by a reading
    misled: int = 0  # how many tasks it misled, and `why`, as the last one has it; told by a reading
    why: str = ""

    @property
    def ref(self) -> str:
        """The name that other entries call it by."""
        return f"{self.task}:{self.id}"

    @property
    def told(self) -> bool:
        """True if later tasks are told of it: it was found more often than it misled, and is more than a doubt."""
        return not self.against and self.misled < self.times


class Happening(NamedTuple):
    """Something that happens to an agent, before anybody wrote it down."""

    text: str  # in words
    trust: Trust  # the lowest of what it consists of
    closes: bool = False  # whether a part of the task was finished in it: a step of the plan, or all of it


class Memory(Protocol):
    """An agent's memory in one task, as its system sees it. Every call is an effect on the agent's branch."""

    @property
    def agent(self) -> str:
        """Whose memory it is."""

    @property
    def task(self) -> Happening:
        """The agent's task."""

    @property
    def leads(self) -> bool:
        """True for the run's top agent."""

    @property
    def room(self) -> int:
        """Characters of entries that a model which is asked about them has room for."""

    @property
    def in_view(self) -> int:
        """How many of the agent's last steps stand in its history, as `recall` is asked."""

    async def read(
        self, query: str = "", *, kinds: Sequence[EntryKind] = (), scope: Scope = "agent", limit: int = 20
    ) -> list[Entry]:
        """Return the entries that fit the query, best first; without one the newest, oldest of them first."""

    async def write(
        self,
        kind: EntryKind,
        text: str,
        *,
        of: Sequence[Entry | Happening],
        same: Sequence[Entry] = (),
        instead_of: Sequence[Entry] = (),
        against: Sequence[Entry] = (),
        evidence: Sequence[str] = (),
    ) -> Entry:
        """Write an entry down.

        Args:
            kind, text: see Entry.
            of: what it was made of; it is trusted no further. A summary stands for the entries among them.
            same, instead_of: earlier insights that an insight repeats, and those that it contradicts.
            against: earlier insights that misled the agent; the text says why.
            evidence: places in the log that an insight rests on.
        """

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, [] where no embedding model is configured or it cannot be had."""

    async def ask(
        self, prompt: str, material: Sequence[Entry | Happening], *, schema: dict[str, Any] | None = None, **values: Any
    ) -> str:
        """Ask a model (the role `summariser`) about entries.

        Args:
            prompt: the name of a prompt, the system prompt of the request.
            material: the entries, and what happened, that it is to read.
            schema: of the JSON that the reply has to be; a reply that is none is asked for once more.
            values: of the prompt's variables.

        Returns:
            The reply's text, "" where none may be had.
        """


class MemorySystem(Protocol):
    """A strategy: what is written down, what is made of it, and what an agent is told of it.

    One is made for each task of an agent, so it may keep what it needs in its own attributes; whatever it does to the
    world goes through its `Memory`, or a resumed run would remember otherwise.

    One that has the method `recall` besides (see Recalling) is asked before each decision.

    Attributes:
        name, version, description: of the component.
    """

    name: str
    version: str
    description: str

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        """Return what the agent is told of what it knows; before its first decision."""

    async def step(self, memory: Memory, event: Happening) -> None:
        """Take in a step of the agent: its calls and what they gave."""

    async def end(self, memory: Memory, event: Happening) -> None:
        """Take in the agent's result."""


class Recalling(MemorySystem, Protocol):
    """A memory system that is asked before each decision (004, sec. 3.2.2).

    Its `step` is given whole results, as far as a model has room for them. Where several courses of the same work are
    tried, each has a copy of it (`copy.deepcopy`), and what it writes is written down where its course wins.
    """

    async def recall(self, memory: Memory) -> Sequence[Entry]:
        """Return what the agent is shown with its next decision, and not any longer."""


def task_of(memory: Memory) -> Happening:
    return memory.task._replace(text=f"Task: {memory.task.text}")


_Text = TypeVar("_Text", Entry, Happening)


def read_reply(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a reply that is a JSON object of a schema, {} for any other."""
    try:
        value = read_output(text, schema)
    except OutputError:
        return {}
    return value if isinstance(value, dict) else {}


def plain(text: str) -> str:
    """Return words in the form in which equal insights are equal."""
    return " ".join(text.split()).casefold().rstrip(".")


def newest(entries: Sequence[_Text], most_chars: int) -> list[_Text]:
    """Return the last entries that have room together, in their order; at least one, where there is one."""
    selection: list[_Text] = []
    chars = 0
    for entry in reversed(entries):
        chars += len(entry.text)
        if selection and chars > most_chars:
            break
        selection.insert(0, entry)
    return selection


MemoryFactory = Callable[[], MemorySystem]  # makes a system for one task: its class, or a function

MEMBERS = ("name", "version", "description", "begin", "step", "end")


class MemoryDescription(NamedTuple):
    name: str
    version: str
    description: str
    content_hash: str
    settings: dict[str, Any]


def describe_memory(name: str, factory: MemoryFactory) -> MemoryDescription:
    """Return what a memory system says of itself, or raise UsageError; its hash is that of its class and settings."""
    if name == NO_MEMORY or not _NAME.fullmatch(name):
        raise UsageError(
            f"a memory system cannot be named {name!r}: use 1 to 64 letters, digits, '_' and '-', and not "
            f"{NO_MEMORY!r}, which stands for no memory"
        )
    if not callable(factory):
        raise UsageError(
            f"the memory system {name!r} is {factory!r}; give its class, or a function without arguments that makes one"
        )
    system: Any = factory()
    gaps = [part for part in MEMBERS if not hasattr(system, part)]
    if gaps:
        raise UsageError(f"the memory system {name!r} lacks {', '.join(gaps)}; give a class with {', '.join(MEMBERS)}")
    if not _VERSION.fullmatch(str(system.version)):
        raise UsageError(f"the memory system {name!r} has the version {system.version!r}; versions look like 1.2.0")
    settings: dict[str, Any] = vars(system) if dataclasses.is_dataclass(system) else {}
    settings = {
        key: value
        for key, value in settings.items()
        if not key.startswith("_") and isinstance(value, str | int | float | bool)
    }
    content_hash = sha256_json([source_of(type(system)), settings])
    return MemoryDescription(name, str(system.version), inspect.cleandoc(system.description), content_hash, settings)


def check_memories(memories: Mapping[str, MemoryFactory]) -> dict[str, MemoryDescription]:
    """Return what is known of memory systems, by name; raises what `describe_memory` does."""
    return {name: describe_memory(name, factory) for name, factory in memories.items()}
