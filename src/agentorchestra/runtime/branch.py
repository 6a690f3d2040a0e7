"""A branch of a run as the stages of the door see it: its place, its state, its time, what it has seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, Outcome, Provenance
from agentorchestra.core.events import EffectInterrupted
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import AgentSlot
from agentorchestra.log.folders import MAIN
from agentorchestra.runtime.budget import BudgetNode, Hold
from agentorchestra.runtime.run import Run, observe
from agentorchestra.runtime.spawn import Spawns
from agentorchestra.runtime.state import Vars
from agentorchestra.trust.provenance import SeenProvenance

_OF_THE_DOOR = frozenset({"approval", "policy_review", "uncertain"})
"""Segments of branches on which the door itself asks."""


@dataclass
class Turn:
    """Where an agent that was spawned stands between what it gets to read and what it says."""

    spawn: Effect
    begins: bool = True  # it has written or waited, and decided nothing since


class Branch(ABC):
    """One branch of a run; `BranchContext` adds what agents and tools call.

    What a new branch does not change it has from its parent.
    """

    # Each effect has a branch, and few of them change these.
    now: datetime  # the greatest recorded end that the branch has seen
    node: BudgetNode
    actor: str
    home = "/"  # the branch of the agent that it belongs to
    role = ""
    capabilities: frozenset[str] | None = None  # names of the tools that may be called; None: nothing limits them
    asks = True  # whether people may be asked for what it does
    world = MAIN
    model = ""
    turn: Turn | None = None  # of the spawned agent that works here
    composite = True  # whether its effect may perform others
    attempt_number = 1  # of the attempt under way
    agent: AgentSlot | None = None  # what the agent that works here keeps (agents/state.py)
    # Of an agent's branch: the call that ends its work ("" for none), and whether a reply in words does
    answering: tuple[str, bool] | None = None
    hold: Hold | None = None  # what the budget holds for its effect
    between_attempts = False  # whether an attempt has failed and the next one has not begun
    raised: BaseException | None = None  # what went up through it
    partial: JsonValue = None  # how far its agent came
    acting_on: tuple[str, str] | None = None  # world and instance of the environment that its effect acts on
    apart = False  # whether its effects belong to no order
    batch = 0  # the first number of those that are performed together; 0 for one alone
    last_n = 0  # the number of the last effect it asked for: a replay's log holds later ones too
    _seen: SeenProvenance | None = None
    _spawns: Spawns | None = None

    def __init__(
        self,
        run: Run,
        key: EffectKey,  # of the effect that owns the branch
        base: dict[str, JsonValue],  # the run's state as the effect finds it
        *,
        parent: Branch | None = None,  # the branch on which the effect stands; None for the run's root
        branch: str = "",  # where its own effects stand; "" for `KEY.NAME`
        name: str = "",  # of the effect's component
        provenance: tuple[Provenance, ...] = (),  # what was in view when the effect was decided
    ) -> None:
        self.run = run
        self.key = key
        self.parent = parent
        self.vars = Vars(base)
        self.provenance = provenance
        self._branch = branch
        self._name = name
        if parent is not None:
            self.now, self.node, self.actor, self.role = parent.now, parent.node, parent.actor, parent.role
            self.home = parent.home
            self.capabilities, self.asks = parent.capabilities, parent.asks
            self.world, self.model, self.turn = parent.world, parent.model, parent.turn

    @abstractmethod
    async def perform(self, effect: Effect) -> Outcome:
        """See RunContext."""

    @abstractmethod
    async def perform_all(self, effects: Sequence[Effect]) -> list[Outcome]:
        """See RunContext."""

    @property
    def branch(self) -> str:
        """Where its own effects stand; most have none."""
        if not self._branch:
            self._branch = f"{self.key.path}.{segment(self._name)}"
        return self._branch

    @cached_property
    def span(self) -> str:
        """The span under which the rows of its effects hang."""
        return str(self.key)

    @property
    def decided_n(self) -> int:
        """The number of the caller's branch at which the call that owns this branch was decided.

        What has a smaller number had ended by then; what has it or a greater one was decided together or later.
        """
        assert self.parent is not None
        return self.parent.batch or self.key.n

    @property
    def spawns(self) -> Spawns:
        """The agents it spawned; most effects spawn none."""
        if self._spawns is None:
            self._spawns = Spawns(self.run)
        return self._spawns

    @property
    def has_spawned(self) -> bool:
        return self._spawns is not None

    @property
    def seen(self) -> SeenProvenance:
        """What it has seen; most effects look at nothing."""
        if self._seen is None:
            above = self.parent.seen if self.parent is not None else None
            self._seen = SeenProvenance(self.provenance, above, self.actor)
        return self._seen

    @property
    def seen_trust(self) -> Trust:
        """The lowest trust of anything this branch has seen."""
        return self.seen.trust

    def about(self, key: EffectKey, attempt: int) -> dict[str, Any]:
        place = {"branch": key.branch, "n": key.n, "attempt": attempt}
        return {**place, "span": str(key), "parent_span": self.span, "actor": self.actor}

    def about_owner(self) -> dict[str, Any]:
        if self.parent is not None:
            return self.parent.about(self.key, self.attempt_number)
        return {**self.about(self.key, self.attempt_number), "parent_span": None}

    def note_interruption(self, exc: BaseException) -> None:
        """Write that the effect that owns this branch did not end, without waiting: a cancelled task may not."""
        run = self.run
        body = EffectInterrupted(
            reason=run.redactor.text(str(exc)) or "cancelled",
            error_type=type(exc).__name__,
            partial=run.redactor.json(self.partial),
            unpaid=self.between_attempts,
        )
        observe(run.append(run.body(body, **self.about_owner())))


@lru_cache(maxsize=4096)
def segment(name: str) -> str:
    text = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:40] or "x"
    return f"{text}_" if text in _OF_THE_DOOR else text  # no component takes the place of a question
