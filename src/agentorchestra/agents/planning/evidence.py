"""The findings of the agents that a caller asked, and whether an answer stands on them.

What was found is read from the log of the caller's own branch; quotes from files are looked up in the files, through
the door. A resume and a replay therefore come to the same verdict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.citations import SORTING, LookupResult, look_up, name_of, whole_lines
from agentorchestra.agents.conversation import conversation
from agentorchestra.agents.outputs import outputs, unproven
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import EffectKind, Outcome
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import TURN, AgentResult, Citation, RunStatus
from agentorchestra.environments.report.addresses import normalised_address
from agentorchestra.log.ledger import Record, within
from agentorchestra.loop import State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.programs.handler import NAME as PROGRAM
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.tools.files.quotes import alike

MOST_CHECKS = 2
"""Answers that are sent back for correction; the next one is taken without what does not hold."""

VERIFICATION = "verification"
"""Why an agent is asked that only verifies what another one found: the purpose of its effect."""

TeamResult = tuple[str, AgentResult, Trust]
"""An agent's name, its result, and how far that may be trusted."""


@dataclass(frozen=True)
class TeamDelegation:
    n: int  # its number on the caller's branch
    name: str
    task: str
    purpose: str  # what for: `agent`, or VERIFICATION
    outcome: Outcome


def delegations(ctx: BranchContext[Any], *, upto: int | None = None) -> list[TeamDelegation]:
    """Return the agents a branch asked, itself or in its programs, in order, as far as they came to an end.

    Of a program's branch those that its agent asked before are among them. With `upto` only those before this number.
    """
    by_branch: dict[str, list[tuple[int, Record]]] = {}
    for key, record in ctx.run.ledger.records.items():
        if record.effect.get("kind") in (EffectKind.INVOKE_AGENT, EffectKind.RUN_CODE):
            by_branch.setdefault(key.branch, []).append((key.n, record))

    def on(branch: str, upto: int | None, number: int = 0) -> Iterator[TeamDelegation]:
        for n, record in sorted(by_branch.get(branch, ()), key=lambda entry: entry[0]):
            if upto is not None and n >= upto:
                continue
            if record.effect.get("kind") == EffectKind.RUN_CODE:
                yield from on(f"{EffectKey(branch, n).path}.{PROGRAM}", None, number or n)
            elif record.outcome is not None:
                arguments = record.effect.get("arguments", {})
                yield TeamDelegation(
                    number or n,
                    str(arguments.get("name", "agent")),
                    str(arguments.get("instruction", "")),
                    str(record.effect.get("purpose", "")),
                    record.outcome,
                )

    chain = list(on(ctx.branch, upto))
    owner = ctx.parent
    if owner is not None and ctx.branch == f"{ctx.key.path}.{PROGRAM}":
        chain = delegations(owner, upto=ctx.decided_n) + chain
    return chain


def results_before(ctx: BranchContext[Any], *, upto: int | None = None) -> list[TeamResult]:
    """Return the results of the agents a branch asked, in order; see `delegations`."""
    return [
        (delegation.name, AgentResult.model_validate(delegation.outcome.value), delegation.outcome.trust)
        for delegation in delegations(ctx, upto=upto)
        if delegation.outcome.ok
    ]


def citations(results: Sequence[TeamResult]) -> tuple[Citation, ...]:
    return tuple(dict.fromkeys(citation for _, result, _ in results for citation in result.sources))


def evidence_block(results: Sequence[TeamResult], *, most: int = 0) -> Block:
    """Return what was found in at most so many characters (0: any): the answers with their marks, then each quote."""
    every = citations(results)
    lines = []
    for name, result, _ in results:
        marks = "".join(f"[E{every.index(citation) + 1}]" for citation in dict.fromkeys(result.sources))
        lines.append(f"{name} ({result.status.value}): {result.answer or result.report} {marks}".rstrip())
    lines += [
        f"[E{number}] {citation.source}{f', {citation.place}' if citation.place else ''}: “{citation.quote}”"
        for number, citation in enumerate(every, start=1)
    ]
    trust = lowest(Trust.AGENT, *(trust for _, _, trust in results))
    text = "\n".join(_within(lines, most) if most else lines) or "nothing was found"
    return TextBlock(text=text, source=Source(kind="agent", ref="team"), trust=trust)


def _within(lines: Sequence[str], most: int) -> list[str]:
    """Fit lines into so many characters: short ones whole, the others each as long as there is room for."""
    left, share = most, 0
    for number, size in enumerate(sorted(map(len, lines))):
        share = left // (len(lines) - number)
        if size > share:
            return [line if len(line) <= share else f"{line[: max(0, share - 1)]}…" for line in lines]
        left -= size
    return [*lines]


def distrusted_sources(ctx: BranchContext[Any]) -> frozenset[str]:
    """Return the pages and files that agents below left out because they give orders to their readers."""
    names: set[str] = set()
    for key, record in ctx.run.ledger.records.items():
        if record.effect.get("kind") != EffectKind.INVOKE_AGENT or not within(key.branch, ctx.branch):
            continue
        value = record.outcome.value if record.outcome is not None else None
        sources = value.get("distrusted") if isinstance(value, dict) else None
        for source in sources if isinstance(sources, list) else ():
            names |= {str(source), normalised_address(str(source))}
    return frozenset(names)


def without_distrusted(result: AgentResult, bad: Collection[str]) -> AgentResult:
    sources = tuple(citation for citation in result.sources if normalised_address(name_of(citation.source)) not in bad)
    return result if len(sources) == len(result.sources) else result.model_copy(update={"sources": sources})


def matching(citation: Citation, pool: Sequence[Citation]) -> Citation | None:
    """Return the known citation that holds a citation's words, as a person would compare; None without one."""
    source, quote = name_of(citation.source), citation.quote.strip()
    same = (other for other in pool if name_of(other.source) == source)
    return next((other for other in same if not quote or alike(quote, other.quote)), None)


def unfound(citations: Sequence[Citation], pool: Sequence[Citation]) -> list[Citation]:
    """Return the citations that none of the known ones stands behind: another source, or other words."""
    return [citation for citation in citations if matching(citation, pool) is None]


def citation_rows(citations: Sequence[Citation]) -> list[dict[str, str]]:
    return [
        {
            "source": citation.source,
            "place": citation.place,
            "quote": citation.quote if len(citation.quote) <= 200 else f"{citation.quote[:200]}…",
        }
        for citation in dict.fromkeys(citations)
    ]


def said_of(
    prompt: Prompt,
    *,
    misquoted: Sequence[Citation] = (),
    unfound: Sequence[Citation] = (),
    figures: Sequence[str] = (),
    doubt: str = "",
    left_out: bool = False,
) -> str:
    """Return what `verification`, or an older copy of it, says of an answer.

    `misquoted`: sources whose words do not stand where they say; `unfound`: those that the run has not, or no agent
    gave; `figures`: in no result and nothing cited; `doubt`: a judge's or another agent's; `left_out`: the sources are,
    and the user is told, else the agent is.
    """
    wrong, strange = citation_rows(misquoted), citation_rows(unfound)
    values: dict[str, Any] = {
        "misquoted": [] if left_out else wrong,
        "unfound": [] if left_out else strange,
        "unsupported": [] if left_out else [*wrong, *strange],
        "figures": [*figures],
        "doubt": doubt,
        "left_out": [*wrong, *strange] if left_out else [],
    }
    return prompt.render(**{name: value for name, value in values.items() if name in prompt.variables})


def without(
    result: AgentResult, misquoted: Sequence[Citation], prompt: Prompt, *, unfound: Sequence[Citation] = ()
) -> AgentResult:
    """Return a result without sources that do not hold; its report names them."""
    if not misquoted and not unfound:
        return result
    note = said_of(prompt, misquoted=misquoted, unfound=unfound, left_out=True)
    sources = tuple(citation for citation in result.sources if citation not in misquoted and citation not in unfound)
    return result.model_copy(update={"sources": sources, "report": f"{result.report}\n\n{note}".strip()})


def bare_figures(result: AgentResult, lookup: LookupResult, ctx: BranchContext[Any], task: Sequence[str]) -> list[str]:
    """Return the figures of an answer that stand neither in a line it cites nor in a result of a program or tool.

    Where there is nothing that they could be compared with, none is told of: of a session nothing of this turn.
    `task` is the task, as it became.
    """
    manifest = ctx.manifest
    if result.status is not RunStatus.COMPLETED or manifest.checks < SORTING:
        return []
    calls = outputs(ctx)
    seen = any(output.media for output in calls)  # in pictures only a model can look figures up
    turn = manifest.checks >= TURN and manifest.previous is not None
    files, looked_at = (manifest.given, [output for output in calls if output.n]) if turn else (manifest.files, calls)
    if seen or not (files or looked_at or result.sources):
        return []
    quotes = [*lookup.matches.values()]
    texts = [*task, *said_before(ctx), *(citation.quote for citation in quotes), *whole_lines(quotes, ctx)]
    return unproven(result.answer, texts, calls, checks=manifest.checks)


def said_before(ctx: BranchContext[Any]) -> list[str]:
    """Return the texts of the session's earlier turns: its tasks and answers, and the conversation as it stands."""
    earlier = [f"{turn.task}\n{turn.answer}" for turn in ctx.manifest.earlier]
    messages = conversation(ctx, native=True) if ctx.manifest.checks >= TURN else ()
    return earlier + [message.text for message in messages]


@dataclass
class SourceCheck:
    """An `observe` part: the sources of an answer must hold, or the agent is told which do not.

    Attributes:
        task: of an agent of whose answer the figures are looked at too, "" where its caller does so.
    """

    prompt: Prompt
    look: Callable[[Sequence[Citation], BranchContext[Any]], Awaitable[LookupResult]] = look_up
    task: str = ""
    sent_back: int = field(default=0, init=False)
    warning: bool = field(default=False, init=False)  # whether the agent was told of unknown sources, or figures

    async def __call__(self, state: State, ctx: BranchContext[Any]) -> State:
        """Return the state; without its result where sources have to be corrected, without those that never hold."""
        if state.result is None or not state.result.sources:
            return state
        lookup = await self.look(state.result.sources, ctx)
        result = lookup.correct(state.result)
        texts = [self.task, *user_additions(state)]
        figures = bare_figures(result, lookup, ctx, texts) if self.task else []
        quotes = [citation for citation in lookup.unknown if citation.quote.strip()]
        bad = lookup.misquoted or ((quotes or figures) and not self.warning)
        if bad and self.sent_back < MOST_CHECKS and not is_last(state):
            self.sent_back += 1
            self.warning = self.warning or bool(quotes or figures)
            problem = said_of(self.prompt, misquoted=lookup.misquoted, unfound=quotes, figures=figures)
            return state.model_copy(update={"result": None, "problem": problem})
        return state.model_copy(
            update={"result": without(result, lookup.misquoted, self.prompt, unfound=lookup.unknown)}
        )


def user_additions(state: State) -> tuple[str, ...]:
    return tuple(
        block.text
        for message in state.messages[state.steps_at :]
        if message.role == "user"
        for block in message.content
        if isinstance(block, TextBlock) and block.source is not None and block.source.ref == "tell"
    )


def is_last(state: State) -> bool:
    """Return True if an answer has to be taken as it is: there is no step left to correct it in."""
    return state.shortage is not None or state.step >= state.max_steps
