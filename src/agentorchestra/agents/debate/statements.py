"""Statements of experts in a debate: arguments under marks, what these answer, positions and their changes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentorchestra.agents.forms import TEXT, TEXTS
from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.spec import AgentResult, Citation
from agentorchestra.tea.calling.signatures import schema_problems

MOST_ARGUMENTS = 10  # arguments of one turn that are taken, whatever the settings ask for
LONGEST = 1_500  # characters of an argument or a position

WHOLE, SHORT = 40, 200
"""Arguments that the others are shown as a whole, the newest ones, and characters of those before."""

_MARK = re.compile(r"\[([A-Z]\d{1,3})\]")
_WORDS: dict[str, Any] = {"type": "string", "minLength": 1}


def turn_schema(most: int) -> dict[str, Any]:
    argument = {"type": "object", "properties": {"text": _WORDS, "answers": TEXTS}, "required": ["text"]}
    return {
        "type": "object",
        "properties": {
            "position": _WORDS,
            "change": TEXT,
            "arguments": {"type": "array", "items": argument, "maxItems": most},
            "accepts": TEXTS,
        },
        "required": ["position", "arguments"],
    }


_TURN = turn_schema(MOST_ARGUMENTS)


@dataclass(frozen=True)
class Expert:
    letter: str  # of the marks of its arguments: A, B, ...
    name: str  # of the registered agent, or the one that its user gave it
    description: str = ""
    guest: bool = False  # whether it was made from a description for this debate


@dataclass(frozen=True)
class Argument:
    """One argument: its mark (`A3`), its words, and the marks of those that it rebuts or answers."""

    mark: str
    text: str
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class DebateTurn:
    letter: str
    round: int  # 0 for the opening statement
    position: str
    change: str = ""  # why the position is another than before, "" where it is not
    arguments: tuple[Argument, ...] = ()
    accepts: tuple[str, ...] = ()  # marks of arguments of others that it agrees with
    sources: tuple[Citation, ...] = ()
    unfounded: tuple[Citation, ...] = ()  # sources whose words do not stand where they are said to stand
    strange: tuple[str, ...] = ()  # marks that it named and was never shown
    trust: Trust = Trust.AGENT

    @property
    def says(self) -> bool:
        return bool(self.arguments or self.accepts or self.change)


def turn_of(
    result: AgentResult, letter: str, number: int, *, before: int, known_marks: Collection[str] | None, trust: Trust
) -> DebateTurn | None:
    """Return what an agent's result says, None for nothing. Of an answer in plain words its marks are read.

    `before` counts the arguments that the expert brought before, `known_marks` are those it was shown; None takes any.
    """
    output: dict[str, Any] = dict(result.output) if isinstance(result.output, dict) else {}
    if schema_problems(output, _TURN):
        text = result.answer.strip() or result.report.strip()
        if not text:
            return None
        output = {"position": text.splitlines()[0], "arguments": [{"text": text, "answers": marks_in(text)}]}
    strange: list[str] = []

    def real(names: Any) -> tuple[str, ...]:
        marks = dict.fromkeys(str(name).strip("[] ") for name in names or ())
        strange.extend(mark for mark in marks if known_marks is not None and mark not in known_marks)
        return tuple(
            mark for mark in marks if (known_marks is None or mark in known_marks) and not mark.startswith(letter)
        )

    entries: list[Any] = [entry for entry in output["arguments"] if str(entry["text"]).strip()]
    arguments = tuple(
        Argument(f"{letter}{before + index}", _cut(entry["text"], known_marks, strange), real(entry.get("answers")))
        for index, entry in enumerate(entries, start=1)
    )
    return DebateTurn(
        letter,
        number,
        _cut(output["position"], known_marks, strange),
        _cut(output.get("change") or "", known_marks, strange),
        arguments,
        real(output.get("accepts")),
        result.sources,
        strange=tuple(dict.fromkeys(strange)),
        trust=trust,
    )


def marks_in(text: str) -> list[str]:
    return list(dict.fromkeys(_MARK.findall(text)))


def struck(text: str, known_marks: Collection[str]) -> tuple[str, list[str]]:
    """Return a text without marks of arguments that there are not, and these marks."""
    strange = [mark for mark in marks_in(text) if mark not in known_marks]
    rest = _MARK.sub(lambda match: match[0] if match[1] in known_marks else "", text)
    return re.sub(r" +([.,;:])", r"\1", re.sub(r"  +", " ", rest)).strip(), strange


def _cut(text: Any, known_marks: Collection[str] | None, strange: list[str]) -> str:
    words = " ".join(str(text).split())
    if known_marks is not None:
        words, wrong = struck(words, known_marks)
        strange.extend(wrong)
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


def said_so_far(turns: Sequence[DebateTurn], experts: Mapping[str, Expert]) -> tuple[Block, ...]:
    """Return everything said so far, as material: a block for each turn. What is long ago is cut."""
    newest = {argument.mark for argument in [argument for turn in turns for argument in turn.arguments][-WHOLE:]}
    last = {turn.letter: turn for turn in turns}
    return tuple(
        TextBlock(
            text=turn_text(turn, experts[turn.letter].name, newest, short=turn is not last[turn.letter]),
            source=Source(kind="agent", ref=experts[turn.letter].name),
            trust=turn.trust,
        )
        for turn in turns
    )


def turn_text(turn: DebateTurn, name: str, whole: Collection[str] | None = None, *, short: bool = False) -> str:
    """Return a turn in words, with its marks; arguments not in `whole` are cut, with `short` the position too."""
    when = "opening statement" if turn.round == 0 else f"round {turn.round}"
    lines = [f"{name} ({turn.letter}), {when}. Position: {_first(turn.position) if short else turn.position}"]
    if turn.change:
        lines.append(f"Changed, because: {_first(turn.change) if short else turn.change}")
    lines += [argument_text(point, short=whole is not None and point.mark not in whole) for point in turn.arguments]
    if turn.accepts:
        lines.append(f"Accepts {''.join(f'[{mark}]' for mark in turn.accepts)}")
    lines += [f"Quotes what was looked up and does not stand there: {citation_text(cite)}" for cite in turn.unfounded]
    return "\n".join(lines)


def citation_text(citation: Citation) -> str:
    place = f", {citation.place}" if citation.place else ""
    return f"{citation.source}{place}: “{_first(' '.join(citation.quote.split()))}”"


def _first(text: str) -> str:
    return f"{text[:SHORT]}…" if len(text) > SHORT else text


def argument_text(argument: Argument, *, short: bool = False) -> str:
    """Return an argument in one line: the mark, what it answers, the words."""
    answers = f" (answers {', '.join(argument.answers)})" if argument.answers else ""
    text = _first(argument.text) if short else argument.text
    return f"[{argument.mark}]{answers} {text}"
