"""The conclusion of a debate: the manager's words, checked by code against what the experts said."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.debate.statements import DebateTurn, Expert, argument_text, citation_text, marks_in, struck
from agentorchestra.agents.forms import TEXT, TEXTS, Form, form, list_of

_POINT = form(["statement", "experts", "arguments"], statement=TEXT, experts=TEXTS, arguments=TEXTS)
_SPLIT = form(["about", "sides"], about=TEXT, sides=list_of(_POINT), why=TEXT)


def conclusion_schema(answer: dict[str, Any] | None = None) -> Form:
    """Return the form of the manager's conclusion, with the schema of the answer that the caller wants besides."""
    extra = {} if answer is None else {"answer": answer}
    return form(
        ["conclusion", "agreements", "disagreements", *extra],
        conclusion=Form(TEXT, {"type": "string", "minLength": 1}),
        agreements=list_of(_POINT),
        disagreements=list_of(_SPLIT),
        open_questions=TEXTS,
        **extra,
    )


@dataclass(frozen=True)
class DebatePoint:
    """A statement in the manager's words, the names of who holds it, and the marks of the arguments that say so."""

    statement: str
    experts: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def text(self) -> str:
        marks = "".join(f"[{mark}]" for mark in self.arguments if mark not in marks_in(self.statement))
        return f"{self.statement} ({', '.join(self.experts)}) {marks}".rstrip()


@dataclass(frozen=True)
class Split:
    """A matter on which experts disagree; with why, "" where nobody said."""

    about: str
    sides: tuple[DebatePoint, ...]
    why: str = ""


@dataclass(frozen=True)
class Conclusion:
    text: str = ""
    agreements: tuple[DebatePoint, ...] = ()  # held by at least two experts
    disagreements: tuple[Split, ...] = ()
    open_questions: tuple[str, ...] = ()  # what nobody could settle
    notes: tuple[str, ...] = ()  # what was left out because nobody said so, a sentence each


@dataclass
class ClaimCheck:
    """Compares what a manager concludes with what was said; `strange` are marks that no argument has."""

    turns: Sequence[DebateTurn]
    experts: Mapping[str, Expert]
    notes: list[str] = field(default_factory=list, init=False)
    strange: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.known = {argument.mark: argument for turn in self.turns for argument in turn.arguments}
        self.accepted = {
            letter: {mark for turn in self.turns if turn.letter == letter for mark in turn.accepts}
            for letter in self.experts
        }

    def conclusion(self, reply: Mapping[str, Any]) -> Conclusion:
        agreements = [entry for entry in map(self._agreement, reply["agreements"]) if entry is not None]
        splits = [split for split in map(self._split, reply["disagreements"]) if split is not None]
        text = self._text(reply["conclusion"])
        questions = tuple(self._text(question) for question in reply.get("open_questions", ()) if str(question).strip())
        if self.strange:
            marks = ", ".join(f"[{mark}]" for mark in dict.fromkeys(self.strange))
            self.notes.insert(0, f"Struck out, no such argument: {marks}.")
        return Conclusion(text, tuple(agreements), tuple(splits), questions, tuple(self.notes))

    def holds(self, letter: str, marks: Collection[str]) -> bool:
        """Return True if an expert said one of these arguments itself, or accepted one of another's.

        Whoever only answers the others' arguments among them, and accepts none, does not hold them.
        """
        if self.accepted[letter] & {*marks}:
            return True
        own = [self.known[mark] for mark in marks if mark.startswith(letter)]
        foreign_marks = {mark for mark in marks if not mark.startswith(letter)}
        return any(not foreign_marks & {*argument.answers} for argument in own)

    def _agreement(self, entry: Mapping[str, Any]) -> DebatePoint | None:
        point = self._point(entry)
        if len(point.experts) < 2:
            reason = f"only {point.experts[0]} said so" if point.experts else "nobody said so"
            self.notes.append(f"Left out, no agreement, since {reason}: {point.statement}")
            return None
        return point

    def _split(self, entry: Mapping[str, Any]) -> Split | None:
        sides = tuple(point for side in entry["sides"] if (point := self._point(side)).experts)
        about = self._text(entry["about"])
        if len({name for side in sides for name in side.experts}) < 2:
            self.notes.append(f"Left out, no disagreement, since fewer than two experts said anything on it: {about}")
            return None
        return Split(about, sides, self._text(entry.get("why") or ""))

    def _point(self, entry: Mapping[str, Any]) -> DebatePoint:
        statement = self._text(entry["statement"])
        names = dict.fromkeys([str(mark).strip("[] ") for mark in entry["arguments"]] + marks_in(statement))
        self.strange += [mark for mark in names if mark not in self.known]
        marks = [mark for mark in names if mark in self.known]
        holders = {str(name).strip().casefold() for name in entry["experts"]}
        confirmed_names = tuple(
            expert.name
            for letter, expert in self.experts.items()
            if {expert.name.casefold(), letter.casefold()} & holders and self.holds(letter, marks)
        )
        return DebatePoint(statement, confirmed_names, tuple(marks))

    def _text(self, text: Any) -> str:
        words, strange = struck(" ".join(str(text).split()), self.known)
        self.strange += strange
        return words


def report(topic: str, experts: Mapping[str, Expert], turns: Sequence[DebateTurn], conclusion: Conclusion) -> str:
    title, _, added = topic.strip().partition("\n")
    parts = [f"# {title}", added.strip(), conclusion.text]
    if conclusion.agreements:
        parts += ["## Agreements", "\n".join(f"- {point.text}" for point in conclusion.agreements)]
    if conclusion.disagreements:
        parts.append("## Disagreements")
        for split in conclusion.disagreements:
            lines = [f"- {side.text}" for side in split.sides]
            parts.append("\n".join([f"**{split.about}**{': ' + split.why if split.why else ''}", "", *lines]))
    if conclusion.open_questions:
        parts += ["## Open questions", "\n".join(f"- {question}" for question in conclusion.open_questions)]
    unproven = [f"- {experts[turn.letter].name}: {citation_text(cite)}" for turn in turns for cite in turn.unfounded]
    if unproven:
        parts += ["## Quotes that do not stand where they were looked up", "\n".join(dict.fromkeys(unproven))]
    parts.append("## Positions")
    parts.append("\n".join(_stands(letter, expert, turns) for letter, expert in experts.items()))
    parts.append("## What was said")
    for turn in turns:
        when = "opening" if turn.round == 0 else f"round {turn.round}"
        lines = [f"- {argument_text(argument)}" for argument in turn.arguments]
        lines += [f"- accepts {''.join(f'[{mark}]' for mark in turn.accepts)}"] if turn.accepts else []
        if lines:
            parts.append("\n".join([f"**{experts[turn.letter].name}**, {when}:", "", *lines]))
    return "\n\n".join(part for part in parts if part)


def _stands(letter: str, expert: Expert, turns: Sequence[DebateTurn]) -> str:
    own = [turn for turn in turns if turn.letter == letter]
    if not own:
        return f"- {expert.name} ({letter}) said nothing."
    changes = [f" Changed in round {turn.round}: {turn.change}" for turn in own if turn.change]
    return f"- {expert.name} ({letter}): {own[-1].position}{''.join(changes)}"
