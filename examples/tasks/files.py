"""Questions over files: a total under a condition, a fact in a long text, a value that two tables give together."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from pathlib import Path

from .task import Task, is_number, names, says, write


def total(chance: random.Random, folder: Path) -> Task:
    """The total of a column for the rows that hold a value in another one."""
    towns, goods = names(chance, 5), names(chance, 4)
    rows = [
        (number, chance.choice(towns), chance.choice(goods), chance.randint(10, 990))
        for number in range(1, chance.randint(60, 90))
    ]
    wanted = rows[0][1]
    file = write(folder, "orders.csv", _csv(("order", "town", "article", "amount"), rows))
    instruction = (
        f"In orders.csv, what is the total of the column amount for the rows whose town is {wanted}? "
        "Answer with the number alone."
    )
    right = sum(amount for _, town, _, amount in rows if town == wanted)
    return Task("files", "total", instruction, is_number(right), files=(file,))


def fact(chance: random.Random, folder: Path) -> Task:
    """One sentence of a long text, among others about the same places and the same offices."""
    places = names(chance, 14)
    people = names(chance, 14 * 6)
    sentences, keepers = [], {}
    for number, place in enumerate(places):
        first, last, mason, miller, smith, mayor = (f"{a} {b}" for a, b in _pairs(people, number, 6))
        built = chance.randint(1700, 1890)
        keepers[place] = first
        sentences += [
            f"The lighthouse of {place} was built in {built} by {mason}.",
            f"The first keeper of the lighthouse of {place} was {first}.",
            f"The last keeper of the lighthouse of {place} was {last}, until {built + chance.randint(40, 110)}.",
            f"At {place} the mill belonged to {miller} and the forge to {smith}.",
            f"The mayor of {place} in those years was {mayor}.",
        ]
    chance.shuffle(sentences)
    lines = [" ".join(sentences[start : start + 4]) for start in range(0, len(sentences), 4)]
    wanted = chance.choice(places)
    file = write(folder, "chronicle.txt", "\n\n".join(lines) + "\n")
    instruction = (
        f"According to chronicle.txt, who was the first keeper of the lighthouse of {wanted}? "
        "Answer with the full name alone."
    )
    return Task("files", "fact", instruction, says(keepers[wanted]), files=(file,))


def join(chance: random.Random, folder: Path) -> Task:
    """A value that one table gives only with what stands in the other."""
    people, offices, towns = names(chance, 24), names(chance, 8), names(chance, 8)
    chance.shuffle(towns)
    staff = [(person, chance.choice(offices), chance.randint(1990, 2024)) for person in people]
    seats = [(office, town, chance.randint(1, 9)) for office, town in zip(offices, towns, strict=True)]
    person, office, _ = chance.choice(staff)
    files = (
        write(folder, "staff.csv", _csv(("person", "office", "since"), staff)),
        write(folder, "offices.csv", _csv(("office", "town", "floors"), seats)),
    )
    instruction = (
        "staff.csv says in which office each person works, and offices.csv in which town each office is. "
        f"In which town does {person} work? Answer with the name of the town alone."
    )
    right = next(town for seat, town, _ in seats if seat == office)
    return Task("files", "join", instruction, says(right), files=files)


def _csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def _pairs(words: Sequence[str], number: int, count: int) -> list[tuple[str, str]]:
    """Return first and last names for one place: its own words, each with a neighbour's."""
    own = words[number * count : (number + 1) * count]
    return list(zip(own, [*own[1:], own[0]], strict=True))
