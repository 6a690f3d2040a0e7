"""The conclusion of a debate: the manager's words, checked by code against what the experts said."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.debate.statements import Expert, Turn, argument_text, marks_in, quoted, struck
from agentorchestra.agents.forms import TEXT, TEXTS, Form, form, list_of

_POINT = form(["statement", "experts", "arguments"], statement=TEXT, experts=TEXTS, arguments=TEXTS)
_SPLIT = form(["about", "sides"], about=TEXT, sides=list_of(_POINT), why=TEXT)


def conclusion_schema(answer: dict[str, Any] | None = None) -> Form:
    """Return the form of the manager's conclusion, with the schema of the answer that the caller wants besides."""
    wanted = {} if answer is None else {"answer": answer}
    return form(
        ["conclusion", "agreements", "disagreements", *wanted],
        conclusion=Form(TEXT, {"type": "string", "minLength": 1}),
        agreements=list_of(_POINT),
        disagreements=list_of(_SPLIT),
        open_questions=TEXTS,
        **wanted,
    )


@dataclass(frozen=True)
class Point:
    """A statement in the manager's words, the names of who holds it, and the marks of the arguments that say so."""

    statement: str
    experts: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def text(self) -> str:
        marks = "".join(f"[{one}]" for one in self.arguments if one not in marks_in(self.statement))
        return f"{self.statement} ({', '.join(self.experts)}) {marks}".rstrip()


@dataclass(frozen=True)
class Split:
    """A matter on which experts disagree; with why, "" where nobody said."""

    about: str
    sides: tuple[Point, ...]
    why: str = ""


@dataclass(frozen=True)
class Conclusion:
    text: str = ""
    agreements: tuple[Point, ...] = ()  # held by at least two experts
    disagreements: tuple[Split, ...] = ()
    open_questions: tuple[str, ...] = ()  # what nobody could settle
    notes: tuple[str, ...] = ()  # what was left out because nobody said so, a sentence each


@dataclass
class Check:
    """Compares what a manager concludes with what was said; `strange` are marks that no argument has."""

    turns: Sequence[Turn]
    experts: Mapping[str, Expert]
    notes: list[str] = field(default_factory=list, init=False)
    strange: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.known = {one.mark: one for turn in self.turns for one in turn.arguments}
        self.accepted = {
            letter: {mark for turn in self.turns if turn.letter == letter for mark in turn.accepts}
            for letter in self.experts
        }

    def conclusion(self, reply: Mapping[str, Any]) -> Conclusion:
        agreements = [one for one in map(self._agreement, reply["agreements"]) if one is not None]
        splits = [one for one in map(self._split, reply["disagreements"]) if one is not None]
        text = self._text(reply["conclusion"])
        questions = tuple(self._text(one) for one in reply.get("open_questions", ()) if str(one).strip())
        if self.strange:
            listed = ", ".join(f"[{one}]" for one in dict.fromkeys(self.strange))
            self.notes.insert(0, f"Struck out, no such argument: {listed}.")
        return Conclusion(text, tuple(agreements), tuple(splits), questions, tuple(self.notes))

    def holds(self, letter: str, marks: Collection[str]) -> bool:
        """Return True if an expert said one of these arguments itself, or accepted one of another's.

        Whoever only answers the others' arguments among them, and accepts none, does not hold them.
        """
        if self.accepted[letter] & {*marks}:
            return True
        own = [self.known[mark] for mark in marks if mark.startswith(letter)]
        others = {mark for mark in marks if not mark.startswith(letter)}
        return any(not others & {*one.answers} for one in own)

    def _agreement(self, said: Mapping[str, Any]) -> Point | None:
        point = self._point(said)
        if len(point.experts) < 2:
            who = f"only {point.experts[0]} said so" if point.experts else "nobody said so"
            self.notes.append(f"Left out, no agreement, since {who}: {point.statement}")
            return None
        return point

    def _split(self, said: Mapping[str, Any]) -> Split | None:
        sides = tuple(one for side in said["sides"] if (one := self._point(side)).experts)
        about = self._text(said["about"])
        if len({name for side in sides for name in side.experts}) < 2:
            self.notes.append(f"Left out, no disagreement, since fewer than two experts said anything on it: {about}")
            return None
        return Split(about, sides, self._text(said.get("why") or ""))

    def _point(self, said: Mapping[str, Any]) -> Point:
        statement = self._text(said["statement"])
        named = dict.fromkeys([str(one).strip("[] ") for one in said["arguments"]] + marks_in(statement))
        self.strange += [one for one in named if one not in self.known]
        marks = [one for one in named if one in self.known]
        wanted = {str(one).strip().casefold() for one in said["experts"]}
        held = tuple(
            one.name
            for letter, one in self.experts.items()
            if {one.name.casefold(), letter.casefold()} & wanted and self.holds(letter, marks)
        )
        return Point(statement, held, tuple(marks))

    def _text(self, text: Any) -> str:
        kept, strange = struck(" ".join(str(text).split()), self.known)
        self.strange += strange
        return kept


def report(topic: str, experts: Mapping[str, Expert], turns: Sequence[Turn], found: Conclusion) -> str:
    title, _, added = topic.strip().partition("\n")
    parts = [f"# {title}", added.strip(), found.text]
    if found.agreements:
        parts += ["## Agreements", "\n".join(f"- {one.text}" for one in found.agreements)]
    if found.disagreements:
        parts.append("## Disagreements")
        for one in found.disagreements:
            lines = [f"- {side.text}" for side in one.sides]
            parts.append("\n".join([f"**{one.about}**{': ' + one.why if one.why else ''}", "", *lines]))
    if found.open_questions:
        parts += ["## Open questions", "\n".join(f"- {one}" for one in found.open_questions)]
    lost = [f"- {experts[turn.letter].name}: {quoted(one)}" for turn in turns for one in turn.unfounded]
    if lost:
        parts += ["## Quotes that do not stand where they were looked up", "\n".join(dict.fromkeys(lost))]
    parts.append("## Positions")
    parts.append("\n".join(_stands(letter, one, turns) for letter, one in experts.items()))
    parts.append("## What was said")
    for turn in turns:
        when = "opening" if turn.round == 0 else f"round {turn.round}"
        lines = [f"- {argument_text(one)}" for one in turn.arguments]
        lines += [f"- accepts {''.join(f'[{mark}]' for mark in turn.accepts)}"] if turn.accepts else []
        if lines:
            parts.append("\n".join([f"**{experts[turn.letter].name}**, {when}:", "", *lines]))
    return "\n\n".join(part for part in parts if part)


def _stands(letter: str, expert: Expert, turns: Sequence[Turn]) -> str:
    own = [turn for turn in turns if turn.letter == letter]
    if not own:
        return f"- {expert.name} ({letter}) said nothing."
    changes = [f" Changed in round {turn.round}: {turn.change}" for turn in own if turn.change]
    return f"- {expert.name} ({letter}): {own[-1].position}{''.join(changes)}"
