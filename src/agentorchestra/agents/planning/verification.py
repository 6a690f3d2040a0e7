"""Retrieve, verify, synthesise by different agents (000, app. E.2): a second agent looks before the user is told.

    an answer ─> did one agent alone find its pages? ─no──────────────────> it stands as it is
                              └yes─> an agent that found none of them ────> confirmed, contradicted, undecided

What code can check needs no second agent: quotes from files of the task, and from pages that a browser showed. These
are compared with the page's text as it was recorded: nobody opens an address again that may be the answer to a form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.agent import Delegate, agent_effect
from agentorchestra.agents.forms import material
from agentorchestra.agents.planning.evidence import VERIFICATION, TeamResult
from agentorchestra.agents.types import Kit
from agentorchestra.agents.viewed_pages import addresses_of, looks
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import Effect, Tag, provenance_of
from agentorchestra.core.messages import Message
from agentorchestra.core.settings import TeamSettings
from agentorchestra.core.spec import AgentResult, Citation, RunStatus
from agentorchestra.environments.report.addresses import normalised_address
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tools.web.pages import is_address

USUAL = ("deep_analyzer", "deep_researcher")
"""Who is asked where the settings name nobody: whoever reads one page costs less than whoever searches."""

_CHANGES = frozenset({Tag.WRITE, Tag.SEND, Tag.SPEND})
"""Tools with one of these tags are not for a verifier."""

CONFIRM, CONTRADICT, UNCLEAR = "confirmed", "contradicted", "undecided"

REPLY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {
            "type": "string",
            "description": "What you saw there; if it contradicts the claim, what is right and where it stands.",
        },
        "verdict": {"type": "string", "enum": [CONFIRM, CONTRADICT, UNCLEAR]},
    },
    "required": ["reason", "verdict"],
    "additionalProperties": False,
}
"""What a verifying agent gives as its output: what it saw, then what follows for the claim."""

LONGEST_PROBLEM, LONGEST_QUOTE = 1_000, 500
"""Characters of what it says that the planner is shown, and of a quote that it is shown."""

LONGEST_PAGE = 6_000
"""Characters of a page as a browser showed it that the judge reads."""


@dataclass(frozen=True)
class Doubt:
    text: str = ""  # what the planner is told, "" where nothing is wrong
    messages: tuple[Message, ...] = ()  # what it is shown besides, as material: the words of whoever doubts
    words: str = ""  # these words, for the report
    again: bool = False  # whether the planner was told so before, of the same answer on the same evidence

    @classmethod
    def of(cls, text: str, words: str, source: str, trust: Trust) -> Doubt:
        """Return a doubt with the words of whoever has it, as material: they have read what may be anybody's."""
        text_shown = words.strip()[:LONGEST_PROBLEM] or "It says no more than that."
        block = TextBlock(text=text_shown, source=Source(kind="agent", ref=source), trust=trust)
        return cls(text, (Message(role="user", content=(block,)),), text_shown)


@dataclass
class ResultVerifier:
    """Asks another agent about what one agent alone found on the web."""

    task: str
    kit: Kit
    delegates: Sequence[Delegate]
    settings: TeamSettings
    # What the agents that were asked gave back, by their names; these are no findings that confirm others.
    replies: list[tuple[str, AgentResult]] = field(default_factory=list, init=False)
    doubts: dict[str, Doubt | None] = field(default_factory=dict, init=False)  # what came of answers, once verified
    unclear: set[str] = field(default_factory=set, init=False)  # pages that settled nothing: not asked about again

    def is_wanted(self, result: AgentResult, results: Sequence[TeamResult], ctx: BranchContext[Any]) -> bool:
        """Return True if an answer rests on pages that one agent alone found, and no browser showed."""
        if self.settings.verify != "web" or not result.answer.strip():
            return False
        return any(_page(citation) not in self.unclear for citation in self._alone(result, results, ctx))

    async def __call__(
        self, result: AgentResult, ctx: BranchContext[Any], results: Sequence[TeamResult], additions: Sequence[str] = ()
    ) -> Doubt | None:
        """Return what another agent says; None where there is none, or it could not say."""
        mark = result.model_dump_json(include={"answer", "sources"})
        if mark not in self.doubts:
            self.doubts[mark] = await self._second_opinion(result, ctx, results, additions)
        return self.doubts[mark]

    async def _second_opinion(
        self, result: AgentResult, ctx: BranchContext[Any], results: Sequence[TeamResult], additions: Sequence[str]
    ) -> Doubt | None:
        alone = self._alone(result, results, ctx)
        other = self._other({name for citation in alone for name in self._finders(citation, results, verifiers=True)})
        if other is None:
            return None
        outcome = await ctx.perform(self._effect(other, result, alone, ctx, results, additions))
        if not outcome.ok:
            return None
        reply = AgentResult.model_validate(outcome.value)
        self.replies.append((other.agent.name, reply))
        verdict = reply.output if isinstance(reply.output, dict) else {}
        if reply.status is not RunStatus.COMPLETED or verdict.get("verdict") not in (CONFIRM, CONTRADICT):
            self.unclear.update(map(_page, alone))
            return None
        if verdict["verdict"] == CONFIRM:
            return Doubt()
        reason = str(verdict.get("reason") or verdict.get("problem") or reply.answer or reply.report)
        text = (
            f"{other.agent.name}, which was asked to verify the answer, contradicts it; its words stand above. "
            "Settle which of the two is right, by another look at the pages or another agent."
        )
        return Doubt.of(text, reason, other.agent.name, outcome.trust)

    def _effect(
        self,
        other: Delegate,
        result: AgentResult,
        alone: Sequence[Citation],
        ctx: BranchContext[Any],
        results: Sequence[TeamResult],
        additions: Sequence[str],
    ) -> Effect:
        prompt = self.kit.prompts.get("verify_claim").render(task=self.task, told=list(additions))
        # What is to be verified may hold anything that stands on a page: it is material, never the order.
        context = _claim(result, alone, lowest(Trust.AGENT, *(trust for _, _, trust in results)))
        # A second look is worth no stop of the run: the judge decides where it cannot be had.
        tools = tuple(name for name in other.tools if not self._changes(name, ctx))
        spec = other.agent.spec(prompt, tools=tools, context=context, output_schema=REPLY, asks=False)
        effect = agent_effect(spec, ctx, provenance=provenance_of(context))
        return effect.model_copy(update={"purpose": VERIFICATION})

    def browsed_pages(self, result: AgentResult, ctx: BranchContext[Any]) -> list[Block]:
        """Return the texts of pages that an answer cites without words of theirs, as a browser showed them last."""
        addresses = {_page(cite) for cite in result.sources if is_address(cite.source) and not cite.quote.strip()}
        last = {normalised_address(look.address): look for look in looks(ctx)} if addresses else {}
        return [
            material(look.text[:LONGEST_PAGE], look.address, "web") for page, look in last.items() if page in addresses
        ]

    def _changes(self, name: str, ctx: BranchContext[Any]) -> bool:
        """Return True for a tool that writes, sends, spends or deletes: it is not for a verifier."""
        if name in self.kit.tools:
            return bool(self.kit.tools[name].tags & _CHANGES)
        make = ctx.run.services.environments.get(name)
        environment = make() if make is not None else None
        return environment is not None and any(environment.mutates(action.name) for action in environment.actions())

    def _alone(self, result: AgentResult, results: Sequence[TeamResult], ctx: BranchContext[Any]) -> list[Citation]:
        """Return the quotes from pages that the answer rests on, that one agent alone found and no browser showed."""
        sources = result.sources or tuple(citation for _, result, _ in results for citation in result.sources)
        pages = [citation for citation in dict.fromkeys(sources) if is_address(citation.source)]
        seen_pages = {normalised_address(address) for address in addresses_of(looks(ctx))} if pages else set()
        return [page for page in pages if _page(page) not in seen_pages and len(self._finders(page, results)) < 2]

    def _finders(self, citation: Citation, results: Sequence[TeamResult], *, verifiers: bool = False) -> set[str]:
        """Return the agents that cite the same page; with `verifiers` also those that did so when asked to verify."""
        page = _page(citation)
        replies = [reply for _, reply in self.replies]
        every = [(name, result) for name, result, _ in results if result not in replies]
        return {
            name
            for name, result in (*every, *(self.replies if verifiers else ()))
            if any(_page(other) == page for other in result.sources)
        }

    def _other(self, finders: set[str]) -> Delegate | None:
        delegates = {delegate.agent.name: delegate for delegate in self.delegates if delegate.agent.name not in finders}
        names = (self.settings.verifier,) if self.settings.verifier else USUAL
        return next((delegates[name] for name in names if name in delegates), None)


def _page(citation: Citation) -> str:
    return normalised_address(citation.source)


def _claim(result: AgentResult, alone: Sequence[Citation], trust: Trust) -> tuple[Block, ...]:
    """Return the claim, then each quote as what it is said to be: words of its page, which are to be looked up."""
    text = f"Claim:\n{result.answer}\n\nIt is said to stand on:"
    quotes = [
        TextBlock(
            text=f"{citation.source}{f', {citation.place}' if citation.place else ''}: "
            f"“{citation.quote[:LONGEST_QUOTE]}”",
            source=Source(kind="web", ref=citation.source),
            trust=trust,
        )
        for citation in alone
    ]
    return (TextBlock(text=text, source=Source(kind="agent", ref="team"), trust=trust), *quotes)
