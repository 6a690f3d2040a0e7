"""What an optimiser is given and what it gives back; textual gradients, reflection and GEPA are optimisers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel

from agentorchestra.agents.optimiser.evidence import Past
from agentorchestra.core.errors import EvolutionError
from agentorchestra.tea.registry.kind import TextVariable
from agentorchestra.workspace import Workspace


class TextChange(BaseModel, frozen=True):
    """Another text for a variable."""

    component: str  # `prompt:react`
    variable: str  # of the component, as `vars` names it
    text: str  # the whole of it
    reason: str = ""  # why

    @property
    def place(self) -> str:
        """The variable with its component: `prompt:react/template`."""
        return f"{self.component}/{self.variable}"


class Proposal(BaseModel, frozen=True):
    """What an optimiser proposes."""

    changes: tuple[TextChange, ...] = ()  # none where it has nothing to propose; `why` says why
    why: str = "nothing was proposed"
    run: str = ""  # its run, "" where it has none of its own
    usd: float | None = 0.0  # what it cost, None where a price is unknown


@dataclass(frozen=True)
class Trial:
    question: str  # its id
    run: str  # the run that answered it, "" where there was none
    # 0 to 1, None where nobody could say. The true answer is not here, and not in what an optimiser is asked.
    score: float | None


@dataclass(frozen=True)
class Improvement:
    workspace: Workspace[Any]  # open; its requests are runs there
    variables: Mapping[str, TextVariable]  # those that may change, by place (`prompt:react/template`)
    trials: Sequence[Trial]  # the training questions of this round with the current texts
    # answers some of these questions (their ids) with other texts, by place; what that costs counts
    evaluate: Callable[[Mapping[str, str], Sequence[str]], Awaitable[Sequence[Trial]]]
    # earlier texts of the variables in this evolution, by place, with how they did on training questions
    past: Mapping[str, Sequence[Past]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)  # of its runs
    model: str | None = None  # that it asks, None for that of the settings
    usd: float | None = None  # what it may spend, None for no limit
    seed: str = ""  # of what it draws


Optimiser: TypeAlias = Callable[[Improvement], Awaitable[Proposal]]


def split_place(place: str) -> tuple[str, str]:
    """Return component and variable of a place; EvolutionError for what is none."""
    component, slash, variable = place.partition("/")
    if not slash or not variable:
        raise EvolutionError(f"{place!r} names no variable; write it as prompt:react/template")
    return component, variable
