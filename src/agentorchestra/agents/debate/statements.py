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
class Turn:
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
    result: AgentResult, letter: str, number: int, *, before: int, known: Collection[str] | None, trust: Trust
) -> Turn | None:
    """Return what an agent's result says, None for nothing. Of an answer in plain words its marks are read.

    `before` is the number of arguments that the expert brought before, `known` the marks it was shown; None takes any.
    """
    said: dict[str, Any] = dict(result.output) if isinstance(result.output, dict) else {}
    if schema_problems(said, _TURN):
        text = result.answer.strip() or result.report.strip()
        if not text:
            return None
        said = {"position": text.splitlines()[0], "arguments": [{"text": text, "answers": marks_in(text)}]}
    strange: list[str] = []

    def real(named: Any) -> tuple[str, ...]:
        found = dict.fromkeys(str(one).strip("[] ") for one in named or ())
        strange.extend(one for one in found if known is not None and one not in known)
        return tuple(one for one in found if (known is None or one in known) and not one.startswith(letter))

    written: list[Any] = [one for one in said["arguments"] if str(one["text"]).strip()]
    arguments = tuple(
        Argument(f"{letter}{before + index}", _cut(one["text"], known, strange), real(one.get("answers")))
        for index, one in enumerate(written, start=1)
    )
    return Turn(
        letter,
        number,
        _cut(said["position"], known, strange),
        _cut(said.get("change") or "", known, strange),
        arguments,
        real(said.get("accepts")),
        result.sources,
        strange=tuple(dict.fromkeys(strange)),
        trust=trust,
    )


def marks_in(text: str) -> list[str]:
    return list(dict.fromkeys(_MARK.findall(text)))


def struck(text: str, known: Collection[str]) -> tuple[str, list[str]]:
    """Return a text without marks of arguments that there are not, and these marks."""
    strange = [one for one in marks_in(text) if one not in known]
    kept = _MARK.sub(lambda match: match[0] if match[1] in known else "", text)
    return re.sub(r" +([.,;:])", r"\1", re.sub(r"  +", " ", kept)).strip(), strange


def _cut(text: Any, known: Collection[str] | None, strange: list[str]) -> str:
    words = " ".join(str(text).split())
    if known is not None:
        words, wrong = struck(words, known)
        strange.extend(wrong)
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


# -- what the others are shown -----------------------------------------------------------------------------------------


def said_so_far(turns: Sequence[Turn], experts: Mapping[str, Expert]) -> tuple[Block, ...]:
    """Return everything said so far, as material: a block for each turn. What is long ago is cut."""
    newest = {one.mark for one in [one for turn in turns for one in turn.arguments][-WHOLE:]}
    last = {turn.letter: turn for turn in turns}
    return tuple(
        TextBlock(
            text=turn_text(turn, experts[turn.letter].name, newest, short=turn is not last[turn.letter]),
            source=Source(kind="agent", ref=experts[turn.letter].name),
            trust=turn.trust,
        )
        for turn in turns
    )


def turn_text(turn: Turn, name: str, whole: Collection[str] | None = None, *, short: bool = False) -> str:
    """Return a turn in words, with its marks; arguments not in `whole` are cut, with `short` the position too."""
    when = "opening statement" if turn.round == 0 else f"round {turn.round}"
    lines = [f"{name} ({turn.letter}), {when}. Position: {_first(turn.position) if short else turn.position}"]
    if turn.change:
        lines.append(f"Changed, because: {_first(turn.change) if short else turn.change}")
    lines += [argument_text(one, short=whole is not None and one.mark not in whole) for one in turn.arguments]
    if turn.accepts:
        lines.append(f"Accepts {''.join(f'[{one}]' for one in turn.accepts)}")
    lines += [f"Quotes what was looked up and does not stand there: {quoted(one)}" for one in turn.unfounded]
    return "\n".join(lines)


def quoted(one: Citation) -> str:
    place = f", {one.place}" if one.place else ""
    return f"{one.source}{place}: “{_first(' '.join(one.quote.split()))}”"


def _first(text: str) -> str:
    return f"{text[:SHORT]}…" if len(text) > SHORT else text


def argument_text(one: Argument, *, short: bool = False) -> str:
    """Return an argument in one line: the mark, what it answers, the words."""
    answered = f" (answers {', '.join(one.answers)})" if one.answers else ""
    text = _first(one.text) if short else one.text
    return f"[{one.mark}]{answered} {text}"
