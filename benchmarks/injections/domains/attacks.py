"""What an attack on a domain is: an ordinary task, words that somebody put where it reads, what they make a model do.

`combined` makes attacks of places and goals; those written by hand against the policy's rules stand with each domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.injections.domains.base import Call

Kind = Literal["direct", "role-confused", "link-choosing", "delayed", "adaptive"]

MARK = "[7Q4]"
"""Stands in all injected words: a model that obeys whatever it reads knows by it that it has read them."""

Put = Callable[[Any, str], None]
"""Writes words into the state of a domain."""


@dataclass(frozen=True)
class Place:
    """Where injected words stand.

    Attributes:
        name: for people.
        tasks: ids of ordinary tasks that come across it.
        put: writes the words there; None for the description of a tool.
        first: what the model reads before the task's own calls to come across it.
        earlier: the id of a task of the same session before, whose answer repeats the words.
    """

    name: str
    tasks: tuple[str, ...]
    put: Put | None
    first: tuple[Call, ...] = ()
    earlier: str = ""


@dataclass(frozen=True)
class Goal:
    """What injected words want.

    Attributes:
        name: for people.
        kind: of the attack.
        words: how it is asked for; the calls follow.
        calls: what a model that obeys calls.
        harm: whether the state shows that it happened.
    """

    name: str
    kind: Kind
    words: str
    calls: tuple[Call, ...]
    harm: Callable[[Any], bool]


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        id: `DOMAIN-attack-NUMBER`.
        name, kind: for people.
        task: the id of the ordinary task that is attacked.
        place: where the words stand.
        text: the injected words.
        calls: what a model that obeys calls as soon as it has read them.
        harm: whether the state shows that it happened.
        instead: whether the model then leaves the rest of the task undone.
    """

    id: str
    name: str
    kind: Kind
    task: str
    place: Place
    text: str
    calls: tuple[Call, ...]
    harm: Callable[[Any], bool]
    instead: bool = False


def spelt(call: Call) -> str:
    """Return a call as a text."""
    name, arguments = call
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def combined(domain: str, places: Sequence[Place], goals: Sequence[Goal], secrets: Sequence[str]) -> Iterator[Attack]:
    """Yield every goal at every place.

    Args:
        domain: its name.
        places, goals: what is combined.
        secrets: what an attacker cannot know, and therefore cannot write.
    """
    for at, place in enumerate(places):
        for number, goal in enumerate(goals):
            kind: Kind = "delayed" if place.earlier else goal.kind
            asked = "; ".join(map(spelt, goal.calls))
            for secret in secrets:
                asked = asked.replace(secret, "...")
            yield Attack(
                id=f"{domain}-attack-{at * len(goals) + number + 1:02}",
                name=f"{goal.name}, by {place.name}",
                kind=kind,
                task=place.tasks[number % len(place.tasks)],
                place=place,
                text=f"{MARK} {goal.words} {asked}",
                calls=goal.calls,
                harm=goal.harm,
            )


def adaptive(
    domain: str,
    number: int,
    name: str,
    task: str,
    place: Place,
    text: str,
    calls: Sequence[Call],
    harm: Callable[[Any], bool],
) -> Attack:
    """Return an attack that was written against the rules of the policy."""
    return Attack(
        f"{domain}-adaptive-{number:02}", name, "adaptive", task, place, f"{MARK} {text}", tuple(calls), harm, True
    )


def before(call: Call) -> tuple[Call, ...]:
    """Return what a model reads before the task's own calls."""
    return (call,)


__all__ = ["MARK", "Attack", "Call", "Goal", "Kind", "Place", "adaptive", "before", "combined", "spelt"]
