"""Parts of a run: an agent at work that another process drives, as a run of its own (docs/cluster.md).

It is a delegation, or one turn of an agent that was spawned: from a decision up to where it writes or waits. A part is
a fork of its run up to that point. Its code is entered from the top, as a resume does; what is recorded is there, and
of what is not it does what lies below the agent's key, and waits before everything else. What only the run itself may
do it hands back: the run takes its rows over and goes on from there (elsewhere.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import HandedBackError
from agentorchestra.core.events import Event, NewEvent
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import PartOf
from agentorchestra.log.ledger import Ledger, within


class Away(Protocol):
    """A part, as the process sees it that drives the run."""

    limits: Budget  # what it may spend

    async def ended(self) -> None:
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
        self, run: Any, name: str, key: EffectKey, marked: int, limits: Budget | None, *, anew: bool
    ) -> Away | None:
        """Make a part, or find the one there is; None where its work is to be done here.

        Args:
            run: under way here.
            name: the part's id.
            key: of the delegation, or with which the agent was spawned.
            marked: the last event that the part needs to know.
            limits: what a new one may spend; None where none is to be made.
            anew: nothing of it is recorded yet. One that is found then goes on; else its rows are here already.
        """


class Part:
    def __init__(self, of: PartOf) -> None:
        self.key = EffectKey.parse(of.key)
        self.over = asyncio.Event()  # set when its agent, or what that stands in, has ended
        self._why = ""

    def is_done(self, ledger: Ledger) -> bool:
        record = ledger.records.get(self.key)
        return record is not None and record.outcome is not None

    def leads(self, key: EffectKey) -> bool:
        """Return True for the key of its agent, and for what that stands in."""
        return key == self.key or within(self.key.branch, key.path)

    def ended(self, reason: str = "") -> HandedBackError:
        """Return the error with which all branches of the part end; `why` it is handed back."""
        self._why = self._why or reason
        return HandedBackError(f"handed back: {self._why}" if self._why else "its agent has ended")

    def number_on(self, branch: str) -> int:
        """Return the number of what leads to its agent on a branch, 0 if nothing does."""
        if branch == self.key.branch:
            return self.key.n
        if not within(self.key.branch, branch):
            return 0
        head = self.key.branch[len(branch.rstrip("/")) + 1 :].partition("/")[0].partition(".")[0]
        return int(head) if head.isdecimal() else 0


def rows_of(events: Sequence[Event], agent: EffectKey, attempt: int | None) -> list[NewEvent]:
    """Return what a run takes over of its part: all below the agent's key, and the outcome of a delegation.

    Sequences are drawn anew. The rows name none of their own run: mail, waits and questions are handed back, and the
    cursor of the inbox names what was told before the part was made. What they refer to in the chains of requests lies
    before the mark, which the run has under the same hash, or among themselves.

    Args:
        events: of the part, after those that it was made with.
        agent: its key.
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
