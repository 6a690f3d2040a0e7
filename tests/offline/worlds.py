"""Generated documents with questions whose answers and places are known.

Names and attributes are made of random syllables, so that no rule can know them. Each fact has five near-duplicates
that differ from it in one entity, year or attribute (and in the value), and one question in ten asks for a fact that
was left out while its near-duplicates are there.
"""

from __future__ import annotations

import csv
import io
import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fpdf import FPDF

_ONSETS: list[str] = [*"bcdfghklmnprstvwz", "br", "dr", "fl", "gr", "kl", "pr", "sk", "st", "tr"]
_VOWELS: list[str] = [*"aeiou", "ai", "ou"]
_CODAS: list[str] = [*"lmnrstx", "nd", "rk"]
_MONTHS = ("January", "March", "April", "June", "July", "October", "December")


@dataclass(frozen=True)
class Fact:
    """One fact; near-duplicates are copies with one of the keys replaced."""

    form: str
    entity: str
    attribute: str
    year: int
    city: str
    value: str


@dataclass(frozen=True)
class Form:
    """A fixed form of sentence, its question, the same question in other words, and how a value is made."""

    sentence: str
    question: str
    paraphrase: str
    value: Callable[[Words], str]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A question with what is right: no file and no value where there is no answer."""

    form: str
    question: str
    paraphrase: str
    value: str | None
    file: str | None
    place: tuple[int, ...] = ()


@dataclass
class World:
    """Files and the questions about them."""

    files: list[Path]
    cases: list[Case] = field(default_factory=list)


class Words:
    """Random words that never repeat."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._used: set[str] = set()

    def word(self, syllables: int) -> str:
        """A new lower-case word."""
        while True:
            made = "".join(self.rng.choice(_ONSETS) + self.rng.choice(_VOWELS) for _ in range(syllables))
            made += self.rng.choice(_CODAS)
            if made not in self._used:
                self._used.add(made)
                return made

    def entity(self) -> str:
        """One or two capitalised words."""
        return " ".join(self.word(2).capitalize() for _ in range(self.rng.choice((1, 2))))

    def attribute(self) -> str:
        """One or two lower-case words."""
        return " ".join(self.word(2) for _ in range(self.rng.choice((1, 2))))

    def person(self) -> str:
        """First and last name."""
        return f"{self.word(1).capitalize()} {self.word(2).capitalize()}"

    def number(self) -> str:
        """A number as people write it."""
        numbers = (
            f"{self.rng.randrange(20, 990)}",
            f"{self.rng.randrange(1100, 980_000):,}",
            f"{self.rng.uniform(2, 90):.2f}",
        )
        return str(self.rng.choice(numbers))

    def date(self) -> str:
        """A day of a year that no fact uses as a key."""
        return f"{self.rng.randrange(1, 29)} {self.rng.choice(_MONTHS)} {self.rng.randrange(1810, 1890)}"


FORMS: dict[str, Form] = {
    "was": Form(
        "The {attribute} of {entity} was {value} in {year}.",
        "What was the {attribute} of {entity} in {year}?",
        "How large was {entity}'s {attribute} in the course of {year}?",
        Words.number,
        ("entity", "attribute", "year"),
    ),
    "reported": Form(
        "In {year}, {entity} reported {value} {attribute} cases to the board.",
        "How many {attribute} cases did {entity} report to the board in {year}?",
        "What count of {attribute} cases came from {entity} in {year}?",
        Words.number,
        ("entity", "attribute", "year"),
    ),
    "designed": Form(
        "{value} designed the {attribute} of {entity}, and was paid for it in {year}.",
        "Who designed the {attribute} of {entity}?",
        "Which architect stands behind the {attribute} at {entity}?",
        Words.person,
        ("entity", "attribute"),
    ),
    "moved": Form(
        "{entity} moved its {attribute} from {city} to {value} in {year}.",
        "Where did {entity} move its {attribute} from {city} in {year}?",
        "What is the place to which {entity} relocated the {attribute} in {year}?",
        Words.entity,
        ("entity", "attribute", "city", "year"),
    ),
    "opened": Form(
        "After long works the {attribute} at {entity} near {city} was opened on {value}.",
        "When was the {attribute} at {entity} near {city} opened?",
        "On which day could people first enter the {attribute} at {entity}?",
        Words.date,
        ("entity", "attribute", "city"),
    ),
    "weighs": Form(
        "According to the survey of {year}, the {attribute} that {entity} keeps near {city} weighs {value} tonnes.",
        "How many tonnes does the {attribute} that {entity} keeps near {city} weigh?",
        "How heavy is the {attribute} kept by {entity}?",
        Words.number,
        ("entity", "attribute", "city"),
    ),
}


def near_duplicates(fact: Fact, words: Words) -> list[Fact]:
    """Five facts that differ in one key each, and in the value."""
    form = FORMS[fact.form]
    made = []
    for index in range(5):
        key = form.keys[index % len(form.keys)]
        other = replace(fact, value=form.value(words))
        if key == "year":
            other = replace(other, year=fact.year + (index + 1) * words.rng.choice((-1, 1)))
        elif key == "entity" and " " in fact.entity and words.rng.random() < 0.5:
            other = replace(other, entity=f"{fact.entity.split()[0]} {words.word(2).capitalize()}")
        elif key == "entity":
            other = replace(other, entity=words.entity())
        elif key == "attribute" and " " in fact.attribute and words.rng.random() < 0.5:
            other = replace(other, attribute=f"{fact.attribute.split()[0]} {words.word(2)}")
        elif key == "attribute":
            other = replace(other, attribute=words.attribute())
        else:
            other = replace(other, city=words.word(3).capitalize())
        made.append(other)
    return made


def _fields(fact: Fact) -> dict[str, str]:
    return {
        "entity": fact.entity,
        "attribute": fact.attribute,
        "year": str(fact.year),
        "city": fact.city,
        "value": fact.value,
    }


def _case(fact: Fact) -> Case:
    form = FORMS[fact.form]
    return Case(
        fact.form, form.question.format(**_fields(fact)), form.paraphrase.format(**_fields(fact)), fact.value, None
    )


def make_world(folder: Path, seed: int, *, facts_per_form: int = 4) -> World:
    """A text, a Markdown file, two tables and a PDF, with a question for each fact."""
    words = Words(random.Random(seed))
    world = World([])
    serial = 0
    spread: dict[str, list[tuple[str, Case | None]]] = {"a.txt": [], "b.md": [], "c.pdf": []}
    for name in FORMS:
        for _ in range(facts_per_form):
            fact = Fact(
                name,
                words.entity(),
                words.attribute(),
                words.rng.randrange(1900, 2020),
                words.word(3).capitalize(),
                FORMS[name].value(words),
            )
            target = words.rng.choice(list(spread))
            case = _case(fact)
            for other in near_duplicates(fact, words):
                place = target if words.rng.random() < 0.7 else words.rng.choice(list(spread))
                spread[place].append((FORMS[name].sentence.format(**_fields(other)), None))
            serial += 1
            if serial % 10 == 0:
                world.cases.append(replace(case, value=None))
            else:
                spread[target].append((FORMS[name].sentence.format(**_fields(fact)), replace(case, file=target)))
    for entries in spread.values():
        words.rng.shuffle(entries)
    _write_text(folder / "a.txt", spread["a.txt"], world)
    _write_markdown(folder / "b.md", spread["b.md"], world, words)
    _write_pdf(folder / "c.pdf", spread["c.pdf"], world)
    _write_long_table(folder / "d.csv", world, words)
    _write_wide_table(folder / "e.csv", world, words)
    return world


def _write_text(path: Path, entries: list[tuple[str, Case | None]], world: World) -> None:
    """Paragraphs of a few sentences, wrapped, so that sentences run over lines."""
    lines: list[str] = []
    for start in range(0, len(entries), 4):
        chunk = entries[start : start + 4]
        wrapped = textwrap.wrap(" ".join(sentence for sentence, _ in chunk), 76)
        joined = " ".join(wrapped)
        for sentence, case in chunk:
            if case is not None:
                begin = joined.index(sentence)
                first = _line_at(wrapped, begin)
                last = _line_at(wrapped, begin + len(sentence) - 1)
                place = tuple(range(len(lines) + first, len(lines) + last + 1))
                world.cases.append(replace(case, place=place))
        lines += [*wrapped, ""]
    path.write_text("\n".join(lines))
    world.files.append(path)


def _line_at(wrapped: list[str], offset: int) -> int:
    for number, line in enumerate(wrapped, 1):
        if offset <= len(line):
            return number
        offset -= len(line) + 1
    raise AssertionError("outside")


def _write_markdown(path: Path, entries: list[tuple[str, Case | None]], world: World, words: Words) -> None:
    """Headings and lists, one sentence an item."""
    lines = [f"# {words.entity()}", ""]
    for number, (sentence, case) in enumerate(entries):
        if number % 7 == 0:
            lines += ["", f"## {words.entity()}", ""]
        lines.append(f"- {sentence}")
        if case is not None:
            world.cases.append(replace(case, place=(len(lines),)))
    path.write_text("\n".join(lines) + "\n")
    world.files.append(path)


def _write_pdf(path: Path, entries: list[tuple[str, Case | None]], world: World) -> None:
    pdf = FPDF()
    pdf.set_font("Helvetica", size=11)
    for start in range(0, len(entries), 6):
        pdf.add_page()
        chunk = entries[start : start + 6]
        pdf.multi_cell(0, 6, " ".join(sentence for sentence, _ in chunk))
        for _, case in chunk:
            if case is not None:
                world.cases.append(replace(case, place=(start // 6 + 1,)))
    pdf.output(str(path))
    world.files.append(path)


def _write_long_table(path: Path, world: World, words: Words) -> None:
    """A row per entity and year."""
    columns = [words.attribute() for _ in range(3)]
    entities = [words.entity() for _ in range(6)]
    keys = [(entity, str(year)) for entity in entities for year in range(1990, 1996)]
    rows = [[entity, year, *(words.number() for _ in columns)] for entity, year in keys]
    words.rng.shuffle(rows)
    _write_csv(path, ["entity", "year", *columns], rows)
    for index in range(10):
        number = words.rng.randrange(len(rows))
        column = words.rng.randrange(len(columns))
        entity, year = rows[number][:2]
        name = columns[column]
        value: str | None = rows[number][column + 2]
        if index == 9:
            year, value = "1989", None
        world.cases.append(
            Case(
                "cell by name and year",
                f"What was the {name} of {entity} in {year}?",
                f"How big was {entity}'s {name} during {year}?",
                value,
                path.name if value is not None else None,
                (number + 2, column + 3),
            )
        )
    world.files.append(path)


def _write_wide_table(path: Path, world: World, words: Words) -> None:
    """A row per entity, many columns, semicolons."""
    columns = [words.attribute().replace(" ", "_") for _ in range(7)]
    rows = [[words.entity(), *(words.number() for _ in columns)] for _ in range(30)]
    _write_csv(path, ["site", *columns], rows, delimiter=";")
    for index in range(10):
        number, column = words.rng.randrange(len(rows)), words.rng.randrange(len(columns))
        name = columns[column].replace("_", " ")
        value: str | None = rows[number][column + 1]
        if index == 9:
            name, value = words.attribute(), None
        world.cases.append(
            Case(
                "cell by name",
                f"What is the {name} of the site {rows[number][0]}?",
                f"Which {name} does {rows[number][0]} have?",
                value,
                path.name if value is not None else None,
                (number + 2, column + 2),
            )
        )
    world.files.append(path)


def _write_csv(path: Path, header: list[str], rows: list[list[str]], delimiter: str = ",") -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    path.write_text(buffer.getvalue(), newline="")
