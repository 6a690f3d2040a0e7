"""What the agents that a caller asked have found, and whether an answer stands on it.

What was found is read from the log of the caller's own branch; quotes from files are looked up in the files, through
the door. A resume and a replay therefore come to the same verdict.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest, text_of
from agentorchestra.core.effects import EffectKind, Outcome
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import AgentResult, Citation
from agentorchestra.loop import State
from agentorchestra.runtime.ledger import Record
from agentorchestra.runtime.session import Session
from agentorchestra.tea.actions import action_effect
from agentorchestra.tea.programs import NAME as PROGRAM
from agentorchestra.tea.prompts import Prompt
from agentorchestra.tools.files.places import parse_place
from agentorchestra.tools.files.quotes import alike
from agentorchestra.tools.web.pages import is_address

MOST_CHECKS = 2
"""Answers that are sent back for correction; the next one is taken without what does not hold."""

CHECK = "check_quotes"
"""The tool that looks quotes up."""

VERIFICATION = "verification"
"""Why an agent is asked that only verifies what another one found: the purpose of its effect."""

FOLDER_FILES = "files"
"""The environment that reads what lies in the run's folder."""

Found = tuple[str, AgentResult, Trust]
"""An agent's name, its result, and how far that may be trusted."""


@dataclass(frozen=True)
class Delegation:
    """An agent that was asked, and what came of it.

    Attributes:
        n: its number on the caller's branch.
        name: of the agent.
        task: what it was told.
        purpose: what for: `agent`, or VERIFICATION.
        outcome: its result, or why there is none.
    """

    n: int
    name: str
    task: str
    purpose: str
    outcome: Outcome


def delegations(session: Session[Any], *, upto: int | None = None) -> list[Delegation]:
    """The agents a session asked, itself or in its programs, in order, as far as they came to an end.

    Args:
        session: the caller's; of a program's, those its agent asked before are among them.
        upto: only those that were asked before this number; None for all.
    """
    asked: dict[str, list[tuple[int, Record]]] = {}
    for key, record in session.run.ledger.records.items():
        if record.effect.get("kind") in (EffectKind.INVOKE_AGENT, EffectKind.RUN_CODE):
            asked.setdefault(key.branch, []).append((key.n, record))

    def on(branch: str, upto: int | None, number: int = 0) -> Iterator[Delegation]:
        for n, record in sorted(asked.get(branch, ()), key=lambda one: one[0]):
            if upto is not None and n >= upto:
                continue
            if record.effect.get("kind") == EffectKind.RUN_CODE:
                yield from on(f"{EffectKey(branch, n).path}.{PROGRAM}", None, number or n)
            elif record.outcome is not None:
                given = record.effect.get("arguments", {})
                yield Delegation(
                    number or n,
                    str(given.get("name", "agent")),
                    str(given.get("instruction", "")),
                    str(record.effect.get("purpose", "")),
                    record.outcome,
                )

    found = list(on(session.branch, upto))
    owner = session.parent
    if owner is not None and session.branch == f"{session.key.path}.{PROGRAM}":
        found = delegations(owner, upto=session.asked_at) + found
    return found


def results_before(session: Session[Any], *, upto: int | None = None) -> list[Found]:
    """The results of the agents a session asked, in order; see `delegations`."""
    return [
        (one.name, AgentResult.model_validate(one.outcome.value), one.outcome.trust)
        for one in delegations(session, upto=upto)
        if one.outcome.ok
    ]


def citations(results: Sequence[Found]) -> tuple[Citation, ...]:
    """Everything they cite, each once."""
    return tuple(dict.fromkeys(one for _, result, _ in results for one in result.sources))


def evidence_block(results: Sequence[Found], *, most: int = 0) -> Block:
    """What was found, as material: the answers with the marks of their quotes, then each quote under its mark.

    Args:
        results: of the agents, in order.
        most: characters of it all; the longest answers and quotes are cut to have them. 0 for any number.
    """
    every = citations(results)
    lines = []
    for name, result, _ in results:
        marks = "".join(f"[E{every.index(one) + 1}]" for one in dict.fromkeys(result.sources))
        lines.append(f"{name} ({result.status.value}): {result.answer or result.report} {marks}".rstrip())
    lines += [f"[E{number}] {one.source}, {one.place}: “{one.quote}”" for number, one in enumerate(every, start=1)]
    trust = lowest(Trust.AGENT, *(trust for _, _, trust in results))
    text = "\n".join(_within(lines, most) if most else lines) or "nothing was found"
    return TextBlock(text=text, source=Source(kind="agent", ref="team"), trust=trust)


def _within(lines: Sequence[str], most: int) -> list[str]:
    """The lines in so many characters: short ones whole, the others each as long as there is room for."""
    left, share = most, 0
    for number, size in enumerate(sorted(map(len, lines))):
        share = left // (len(lines) - number)
        if size > share:
            return [one if len(one) <= share else f"{one[: max(0, share - 1)]}…" for one in lines]
        left -= size
    return [*lines]


# -- does an answer stand on it? ---------------------------------------------------------------------------------------


async def misquoted(cited: Sequence[Citation], session: Session[Any]) -> list[Citation]:
    """Quotes from files of the task, and from pages that the run read, that do not stand word for word there.

    Where the agent works in the run's folder, those from its files too.
    """
    names = {ref.name for ref in session.manifest.files}
    quoted = [one for one in cited if one.place and one.quote]
    checked = [one for one in quoted if one.source in names or is_address(one.source)]
    held = session.capabilities
    if not checked or (held is not None and CHECK not in held):
        return await _misquoted_in_folder([one for one in quoted if one not in checked], session)
    outcome = await session.call_tool(CHECK, quotes=[one.model_dump(mode="json") for one in checked])
    stands = outcome.value if outcome.ok and isinstance(outcome.value, list) else []
    bad = [one for one, found in zip(checked, stands, strict=False) if found is False]
    return bad + await _misquoted_in_folder([one for one in quoted if one not in checked], session)


async def _misquoted_in_folder(quoted: Sequence[Citation], session: Session[Any]) -> list[Citation]:
    """Those of which the file in the run's folder, read at this place, says something else."""
    held, make = session.capabilities, session.run.services.environments.get(FOLDER_FILES)
    if make is None or (held is not None and FOLDER_FILES not in held):
        return []
    # Workers name the tools and actions that said it: these are no files.
    named = {*session.manifest.tools, *session.manifest.agents}
    actions = tuple(f"{name}_" for name in session.run.services.environments)
    asked = [one for one in quoted if one.source not in named and not one.source.startswith(actions)]
    files = make()
    outcomes = await session.perform_all(
        [action_effect(files, "read", {"path": one.source, "part": one.place}, role=session.role) for one in asked]
    )
    return [
        one
        for one, outcome in zip(asked, outcomes, strict=True)
        if not outcome.ok or not alike(one.quote, text_of(outcome.blocks()))
    ]


def unfound(cited: Sequence[Citation], known: Sequence[Citation]) -> list[Citation]:
    """Citations that none of the known ones stands behind: another source, place or wording."""
    return [one for one in cited if not any(_same(one, other) for other in known)]


def _same(one: Citation, other: Citation) -> bool:
    if one.source != other.source:
        return False
    here, there = parse_place(one.place), parse_place(other.place)
    if (here or one.place) != (there or other.place) and one.place:
        return False
    return not one.quote.strip() or alike(one.quote, other.quote) or alike(other.quote, one.quote)


_FIGURE = re.compile(r"(?<![\w.,])\d(?:[\d,.]|[ \u00a0\u202f](?=\d{3}\b))*")


def figures(text: str) -> dict[str, str]:
    """The numbers of a text that have two digits or more, as they stand, by a form for comparison."""
    found = {}
    for match in _FIGURE.finditer(text):
        written = match[0].rstrip(".,")
        form = re.sub(r"[, \u00a0\u202f]|\.(?=\d{3}(?!\d))", "", written).lstrip("0")
        if sum(char.isdigit() for char in form) > 1:
            found[form] = written
    return found


def listed(cited: Sequence[Citation]) -> list[dict[str, str]]:
    """Citations for a prompt, long quotes cut."""
    return [
        {
            "source": one.source,
            "place": one.place,
            "quote": one.quote if len(one.quote) <= 200 else f"{one.quote[:200]}…",
        }
        for one in dict.fromkeys(cited)
    ]


def without(result: AgentResult, bad: Sequence[Citation], prompt: Prompt) -> AgentResult:
    """A result without sources that do not hold; its report names them."""
    if not bad:
        return result
    said = prompt.render(unsupported=[], figures=[], doubt="", left_out=listed(bad))
    kept = tuple(one for one in result.sources if one not in bad)
    return result.model_copy(update={"sources": kept, "report": f"{result.report}\n\n{said}".strip()})


@dataclass
class SourceCheck:
    """An `observe` part: the sources of an answer must hold, or the agent is told which do not.

    Attributes:
        prompt: `verification`.
        find_bad: the citations of a result that do not hold.
        sent_back: how many answers were.
    """

    prompt: Prompt
    find_bad: Callable[[AgentResult, Session[Any]], Awaitable[list[Citation]]]
    sent_back: int = field(default=0, init=False)

    async def __call__(self, state: State, session: Session[Any]) -> State:
        """The state; without its result where sources have to be corrected, without those that still do not hold."""
        result = state.result
        bad = await self.find_bad(result, session) if result is not None else []
        if result is None or not bad:
            return state
        if self.sent_back >= MOST_CHECKS or is_last(state):
            return state.model_copy(update={"result": without(result, bad, self.prompt)})
        self.sent_back += 1
        problem = self.prompt.render(unsupported=listed(bad), figures=[], doubt="", left_out=[])
        return state.model_copy(update={"result": None, "problem": problem})


def quote_check(prompt: Prompt) -> SourceCheck:
    """Quotes of an answer must stand in their files.

    Args:
        prompt: `verification`.
    """

    async def find_bad(result: AgentResult, session: Session[Any]) -> list[Citation]:
        return await misquoted(result.sources, session)

    return SourceCheck(prompt, find_bad)


def is_last(state: State) -> bool:
    """Whether an answer has to be taken as it is: there is no step left to correct it in."""
    return state.limited is not None or state.step >= state.max_steps


__all__ = [
    "CHECK",
    "FOLDER_FILES",
    "MOST_CHECKS",
    "VERIFICATION",
    "Delegation",
    "SourceCheck",
    "citations",
    "delegations",
    "evidence_block",
    "figures",
    "is_last",
    "listed",
    "misquoted",
    "quote_check",
    "results_before",
    "unfound",
    "without",
]
