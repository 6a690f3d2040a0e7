"""What the tasks share: a task as data, names that nobody has, and how an answer is compared."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SITE = "{site}"
"""Stands in instructions and pages for the address of the site, which is known once it is served."""


@dataclass(frozen=True)
class Task:
    """A task with its check.

    Attributes:
        kind: `files`, `calculation`, `site` or `code`.
        name: of the task among all kinds.
        instruction: what the system is asked, in a user's words; `{site}` stands for the address of the site.
        check: takes the answer, and a folder with the files that the run made; returns what is wrong, a sentence each.
        files: what is given with the task.
        environments: in which the run works.
        pages: of the site to be served, HTML by path; empty where there is no site.
    """

    kind: str
    name: str
    instruction: str
    check: Callable[[str, Path], list[str]]
    files: tuple[Path, ...] = ()
    environments: tuple[str, ...] = ()
    pages: Mapping[str, str] = field(default_factory=dict)


Maker = Callable[[random.Random, Path], Task]
"""Makes a task: all its names and numbers come from the generator, its files lie in the folder."""


def names(chance: random.Random, count: int) -> list[str]:
    """Return so many different made-up names of eight letters or so, each with a capital.

    No two begin with the same three letters, so none is a part or a misspelling of another one.
    """
    found: dict[str, str] = {}
    while len(found) < count:
        syllables = [chance.choice("bdfgklmnprstv") + chance.choice("aeiou") for _ in range(3)]
        name = "".join(syllables) + chance.choice(["n", "r", "s", "l", "rk", "nd"])
        found.setdefault(name[:3], name.capitalize())
    return list(found.values())


def write(folder: Path, name: str, text: str) -> Path:
    """Write a file of a task."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def page(title: str, body: str) -> str:
    """Return a page of HTML."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><main><h1>{title}</h1>{body}</main></body></html>"
    )


def says(right: str) -> Callable[[str, Path], list[str]]:
    """Return the check of an answer in words: white space, case and a last stop make no difference."""

    def check(answer: str, _: Path) -> list[str]:
        if _plain(answer) == _plain(right):
            return []
        return [f"the answer is {answer!r}; it should be {right!r}"]

    return check


def is_number(right: float, *, places: int = 0) -> Callable[[str, Path], list[str]]:
    """Return the check of an answer that is one number: a unit beside it and commas in it make no difference."""

    def check(answer: str, _: Path) -> list[str]:
        found = {float(one.replace(",", "")) for one in re.findall(r"-?\d[\d,]*(?:\.\d+)?", answer)}
        if len(found) == 1 and abs(found.pop() - right) < 10**-places / 2:
            return []
        return [f"the answer is {answer!r}; it should be the one number {right:,.{places}f}"]

    return check


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()
