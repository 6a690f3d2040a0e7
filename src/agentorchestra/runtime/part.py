"""Parts of a run: an agent at work that another process drives, as a run of its own (docs/cluster.md).

It is a delegation, or one turn of an agent that was spawned: from a decision up to where it writes or waits. A part is
a fork of its run up to that point. Its code is entered from the top, as a resume does; what is recorded is there, and
of what is not it does what lies below the agent's key, and waits before everything else. What only the run itself may
do it hands back: the run takes its rows over and goes on from there (division.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from pydantic import JsonValue

from agentorchestra.core.budget import Bound, Budget
from agentorchestra.core.effects import Effect, Outcome
from agentorchestra.core.events import Event, NewEvent
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import Record, within


class Away(Protocol):
    """A part, as the process sees it that drives the run."""

    limits: Budget  # what it may spend

    async def wait(self) -> None:
        """Wait until it does nothing more; SuspendedError where this process stops: the part goes on."""

    async def stop(self) -> bool:
        """Have it stop, and wait until it has; False where it goes on, because another process has the run."""

    def events(self) -> Sequence[Event]:
        """Return what it recorded itself."""

    async def remove(self) -> None:
        """Remove it: the run has its rows."""


class Elsewhere(Protocol):
    """Has agents work in other processes."""

    makes: bool  # whether it makes parts; it finds those that there are in any case

    async def __call__(
        self, run: Any, name: str, key: EffectKey, fork_seq: int, limits: Budget | None, /, *, anew: bool
    ) -> Away | None:
        """Make a part, or find the one there is; None where its work is to be done here.

        Args:
            run: under way here.
            name: the part's id.
            key: of the delegation, or with which the agent was spawned.
            fork_seq: the last event that the part needs to know.
            limits: what a new one may spend; None where none is to be made.
            anew: nothing of it is recorded yet. One that is found then goes on; else its rows are here already.
        """


class Division(Protocol):
    """How the agents of a run are divided among processes; chosen where its root branch is made (division.py)."""

    def through(
        self, branch: Any, key: EffectKey, effect: Effect, base: dict[str, JsonValue], *, skipped: bool = False
    ) -> Awaitable[Outcome]:
        """Let an effect through the door, as the branch's code asks for it."""

    def differs(self, key: EffectKey, change: str, record: Record) -> None:
        """Take note of an effect that is recorded and that the code asks for otherwise now."""

    async def begin(self, passage: Any, outcome: Outcome | None) -> Outcome | None:
        """Return the outcome of an effect that need not be done here, behind the ledger; None where it may begin."""

    async def cover(self, passage: Any) -> Outcome | None:
        """Return the outcome of an agent that another process covered; None where it works here."""

    def check_share(self, effect: Effect, bound: Bound, usual: Bound, scope: str = "") -> None:
        """Raise HandedBackError where what this process was lent is short.

        Args:
            bound: the most that the effect may cost.
            usual: what an effect of a usual length needs.
            scope: whose limit is short, "" where none is yet.
        """

    def halt_status(self) -> RunStatus | None:
        """Return the status of a run that does nothing more; None where it waits or is paused."""


def rows_of(events: Sequence[Event], agent: EffectKey, attempt: int | None) -> list[NewEvent]:
    """Return what a run takes over of its part: all below the agent's key, and the outcome of a delegation.

    Sequences are drawn anew. The rows name none of their own run: mail, waits and questions are handed back, and the
    cursor of the inbox names what was told before the part was made. What they refer to in the chains of requests lies
    before the mark, which the run has under the same hash, or among themselves.

    Args:
        events: of the part, after those that it was made with.
        attempt: of the delegation, the number of the one under way in the run; None for an agent that was spawned,
            whose end the run records itself.
    """
    rows = []
    for event in events:
        ends = attempt is not None and event.type == "completed" and EffectKey(event.branch, event.n or 0) == agent
        if ends or within(event.branch, agent.path):
            fields = {name: value for name, value in event.__dict__.items() if name not in ("run", "seq")}
            rows.append(NewEvent.model_construct(**(fields | ({"attempt": attempt} if ends else {}))))
    return rows
