"""Conditions before and after an action of an environment (000, app. A.2, "E2T").

An environment declares them by a method `conditions(action) -> Conditions`, which may be left out. They are checked
wherever the action is performed, and shown where it is offered as a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Condition:
    """Something that holds or does not.

    Attributes:
        text: in words, as a model reads it: "the door is open".
        holds: whether it does. Before an action it is called with the action's arguments, after one with the arguments
            and what the action returned; the state is the environment's, whose method or closure it is.
    """

    text: str
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Conditions:
    """The conditions of one action.

    Attributes:
        before: all must hold, or the action is refused and nothing happens.
        after: all must hold, or the action has failed, with what it changed.
    """

    before: tuple[Condition, ...] = ()
    after: tuple[Condition, ...] = ()

    @property
    def text(self) -> str:
        """All in words, a line for each kind; "" without any."""
        kinds = (("Before", self.before), ("After", self.after))
        return "\n".join(f"{kind}: {'; '.join(rule.text for rule in group)}." for kind, group in kinds if group)


NO_CONDITIONS = Conditions()


def untrue(conditions: Iterable[Condition], *args: Any) -> list[str]:
    """Return the texts of the conditions that do not hold with these arguments, or cannot be checked."""
    problems = []
    for condition in conditions:
        try:
            if not condition.holds(*args):
                problems.append(condition.text)
        except Exception as exc:  # somebody else's function: whatever it raises, the action has its answer
            problems.append(f"{condition.text} (which cannot be told: {type(exc).__name__}: {exc})")
    return problems


def conditions_of(environment: Any, action: str) -> Conditions:
    """Return the conditions of an action; none for an environment that does not say."""
    method = getattr(environment, "conditions", None)
    conditions: Conditions = NO_CONDITIONS if method is None else method(action)
    return conditions
