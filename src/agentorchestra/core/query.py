"""Queries of the log, as the paper's tracer has them (000, app. C.1.1): by session, task, record, index.

A task is a run; a record is an effect, whose id is its key; the index is the event's place in its run's log.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey, compact_encoder

_ENCODE = compact_encoder()


class LogQuery(BaseModel, frozen=True):
    """The events that are wanted; what is left out does not narrow.

    Attributes:
        record: the key of an effect (`/1.react#3`), or a branch with everything below it (`/1.react`, `/1`).
        first, last: indices in the run's log, both inclusive.
        types: `started`, `completed`, ...
        actor: the agent or process that wrote it.
        since: not before this time.
        holds: texts that all stand in the event's body, as JSON without white space; a body of more than 16 KiB need
            not be looked into.
        paid: what costs are counted from: events of agents, of forks, and of effects that cost something; a store may
            give more.
    """

    runs: tuple[str, ...] | None = None
    session: str | None = None
    record: str | None = None
    first: int | None = None
    last: int | None = None
    types: tuple[str, ...] = ()
    actor: str | None = None
    since: datetime | None = None
    holds: tuple[str, ...] = ()
    paid: bool = False

    @property
    def key(self) -> EffectKey | None:
        """The effect that `record` names; None for a branch, or without one."""
        if self.record is None:
            return None
        try:
            return EffectKey.parse(self.record)
        except ValueError:
            return None

    @property
    def beginnings(self) -> tuple[str, ...]:
        """The prefixes of branches below the one of `record`: `/1.react` also stands for `/1.react/0.worker`."""
        branch = (self.record or "").rstrip("/")
        return (f"{branch}/", f"{branch}.") if branch else ("/",)

    def matches(self, event: Event) -> bool:
        """Return True if an event of a fitting run and session is wanted."""
        key = self.key
        if key is not None:
            fits = (event.branch, event.n) == key
        elif self.record is not None:
            fits = event.branch == self.record or event.branch.startswith(self.beginnings)
        else:
            fits = True
        return (
            fits
            and (self.first is None or event.seq >= self.first)
            and (self.last is None or event.seq <= self.last)
            and (not self.types or event.type in self.types)
            and (self.actor is None or event.actor == self.actor)
            and (self.since is None or event.ts >= self.since)
            and (not self.holds or self._holds(event))
        )

    def _holds(self, event: Event) -> bool:
        body = _ENCODE(event.body)
        return all(text in body for text in self.holds)
