"""What an optimiser is given and what it gives back; textual gradients, reflection and GEPA are optimisers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel

from agentorchestra.agents.optimiser.evidence import Past
from agentorchestra.core.errors import EvolutionError
from agentorchestra.tea.registry.kind import Variable
from agentorchestra.workspace import Workspace


class Change(BaseModel, frozen=True):
    """Another text for a variable.

    Attributes:
        component: `prompt:react`.
        variable: of the component, as `vars` names it.
        text: the whole of it.
        reason: why.
    """

    component: str
    variable: str
    text: str
    reason: str = ""

    @property
    def place(self) -> str:
        """The variable with its component: `prompt:react/template`."""
        return f"{self.component}/{self.variable}"


class Proposal(BaseModel, frozen=True):
    """What an optimiser proposes.

    Attributes:
        changes: none where it has nothing to propose; `why` says why.
        run: its run, "" where it has none of its own.
        usd: what it cost, None where a price is unknown.
    """

    changes: tuple[Change, ...] = ()
    why: str = "nothing was proposed"
    run: str = ""
    usd: float | None = 0.0


@dataclass(frozen=True)
class Trial:
    """A training question, answered.

    Attributes:
        question: its id.
        run: the run that answered it, "" where there was none.
        score: 0 to 1, None where nobody could say. The true answer is not here, and not in what an optimiser is asked.
    """

    question: str
    run: str
    score: float | None


@dataclass(frozen=True)
class Improvement:
    """The task of an optimiser.

    Attributes:
        workspace: open; its requests are runs there.
        variables: those that may change, by place (`prompt:react/template`).
        trials: the training questions of this round with the current texts.
        past: earlier texts of the variables in this evolution, by place, with how they did on training questions.
        evaluate: answers some of these questions (their ids) with other texts, by place; what that costs counts.
        labels: of its runs.
        model: that it asks, None for that of the settings.
        usd: what it may spend, None for no limit.
        seed: of what it draws.
    """

    workspace: Workspace[Any]
    variables: Mapping[str, Variable]
    trials: Sequence[Trial]
    evaluate: Callable[[Mapping[str, str], Sequence[str]], Awaitable[Sequence[Trial]]]
    past: Mapping[str, Sequence[Past]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    usd: float | None = None
    seed: str = ""


Optimiser: TypeAlias = Callable[[Improvement], Awaitable[Proposal]]


def parted(place: str) -> tuple[str, str]:
    """Return component and variable of a place; EvolutionError for what is none."""
    component, found, variable = place.partition("/")
    if not found or not variable:
        raise EvolutionError(f"{place!r} names no variable; write it as prompt:react/template")
    return component, variable
