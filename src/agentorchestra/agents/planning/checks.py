"""Checks of a planner's answer: its sources, its figures, another agent's word, a judge's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentorchestra.agents.citations import JUDGE, SORTING, LookupResult, look_up
from agentorchestra.agents.forms import material
from agentorchestra.agents.outputs import (
    MOST_RESULT,
    PROGRAMS,
    SHORT_ANSWER,
    ToolOutput,
    figures,
    is_among,
    is_computed,
    missing,
    output_blocks,
    outputs,
    without_repeats,
)
from agentorchestra.agents.plain_answer import read_by
from agentorchestra.agents.planning.evidence import (
    MOST_CHECKS,
    TeamResult,
    bare_figures,
    citation_rows,
    citations,
    distrusted_sources,
    evidence_block,
    is_last,
    results_before,
    said_before,
    said_of,
    unfound,
    user_additions,
    without,
    without_distrusted,
)
from agentorchestra.agents.planning.verification import Doubt, ResultVerifier
from agentorchestra.agents.requests import ask_model, window_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, TextBlock, Trust, text_of
from agentorchestra.core.errors import OutputError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.spec import PAGES_ONCE, TURN, AgentResult, Citation, RunStatus
from agentorchestra.loop import State
from agentorchestra.models.prices import CHARS_PER_TOKEN
from agentorchestra.models.render import render_block
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.structured_output import read_output
from agentorchestra.tools.files.quotes import alike

VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "settle": {"type": "string"}, "supported": {"type": "boolean"}},
    "required": ["reason", "settle", "supported"],
    "additionalProperties": False,
}
"""What the judge is asked to reply (prompt `verify`): why, what would settle a doubt, then the verdict."""

_BEFORE: dict[str, Any] = {
    "type": "object",
    "properties": {"supported": {"type": "boolean"}, "problem": {"type": "string"}},
    "required": ["supported"],
}
"""The same for runs that began before (`RunManifest.checks`)."""

_READ: dict[str, Any] = {"type": "object", "required": ["supported"]}
"""What a reply must have to be a verdict: not every model keeps to a schema."""

ENDS = (RunStatus.COMPLETED, RunStatus.PARTIAL)

EVIDENCE_SHARE = 0.5
"""Part of the judge's window that what was found may take."""

MOST_OUTPUTS = 8_000
"""Characters of outputs that the judge is shown."""


@dataclass
class PlanCheck:
    """An `observe` part: an answer is taken when it holds; else the planner is told what is wrong with it.

    Code checks first: sources, figures, an agent's own words. The judge is asked about the rest, once about the same
    answer and evidence. Where no other agent took part, that is about figures that nothing proves.
    """

    task: str
    kit: Kit
    verifier: ResultVerifier | None = None  # of what one agent alone found on the web; None where nobody is to be asked
    sent_back: int = field(default=0, init=False)
    doubt: str = field(default="", init=False)  # what is still wrong with the answer that was taken
    additions: tuple[str, ...] = field(default=(), init=False)
    warning: bool = field(default=False, init=False)  # whether the planner was told of sources that are unknown
    verdicts: dict[str, str] = field(default_factory=dict, init=False)  # the judge's, by a hash of answer and evidence

    async def __call__(self, state: State, ctx: BranchContext[Any]) -> State:
        """Return the state; without its result where the answer has to be corrected, else without bad sources."""
        result, self.additions = state.result, user_additions(state)
        if result is None:
            return state
        results = results_before(ctx, upto=ctx.last_n + 1)
        lookup = await look_up(result.sources, ctx)
        result = lookup.correct(result)
        if ctx.manifest.checks >= TURN and not result.sources and result.status in ENDS:  # it rests on its agents'
            result = without_distrusted(
                result.model_copy(update={"sources": citations(results)}), distrusted_sources(ctx)
            )
        strays = self._unfound(result, lookup, results, ctx)
        prompt = self.kit.prompts.get("verification")
        if ctx.manifest.checks >= SORTING and (self.warning or not any(source.quote.strip() for source in strays)):
            result, strays = without(result, [], prompt, unfound=strays), []  # to say it costs more than it is worth
        bad = bool(lookup.misquoted or strays)
        texts = [self.task, *self.additions]
        bare = [] if results else bare_figures(result, lookup, ctx, texts)
        strange, doubt = [], Doubt()
        if (results or bare) and result.status in ENDS:
            # Figures are a matter of a look; what remains of them after that is the judge's to decide.
            for_judge = result.status is RunStatus.COMPLETED and not self._is_settled(result, lookup, results, ctx)
            is_repeat = state.words and ctx.manifest.checks >= TURN and bool(read_by(state, ctx))  # and said it again
            if for_judge and self.sent_back == 0 and not is_repeat:
                strange = bare or self._strange(result, ctx)
            if not bad and not strange and state.shortage is None:
                doubt = await self.find_doubt(result, ctx, results, for_judge=for_judge)
        if (bad or strange or (doubt.text and not doubt.again)) and self.sent_back < MOST_CHECKS and not is_last(state):
            self.sent_back += 1
            self.warning = self.warning or bool(strays)
            problem = said_of(prompt, misquoted=lookup.misquoted, unfound=strays, figures=strange, doubt=doubt.text)
            return state.model_copy(
                update={"result": None, "problem": problem, "messages": (*state.messages, *doubt.messages)}
            )
        self.doubt = doubt.words
        return state.model_copy(update={"result": without(result, lookup.misquoted, prompt, unfound=strays)})

    @staticmethod
    def _unfound(
        result: AgentResult, lookup: LookupResult, results: Sequence[TeamResult], ctx: BranchContext[Any]
    ) -> list[Citation]:
        """Return the sources that code does not know, or could not look up, and no agent gave."""
        answers = (Citation(source=name, quote=agent.answer or agent.report) for name, agent, _ in results)
        pool = (*citations(results), *answers)
        sure = {*lookup.matches.values(), *lookup.misquoted}
        if ctx.manifest.checks >= SORTING:
            return unfound(lookup.unknown, pool)
        return unfound([source for source in result.sources if source not in sure], pool) if results else []

    def _is_settled(
        self, result: AgentResult, lookup: LookupResult, team_results: Sequence[TeamResult], ctx: BranchContext[Any]
    ) -> bool:
        """Return True if code can tell that an answer stands on what was found.

        That is so where it is what an agent found and could prove, or a few words around figures that such an agent
        gave, each of which stands in a quote that holds or in what a program printed.
        """
        if self.additions:  # what an agent found for the task as it was is no proof for the one that it has become
            return False
        calls = outputs(ctx) if ctx.manifest.checks else []
        computing = PROGRAMS | {*self.kit.given}
        proven = [answer for _, answer, _ in team_results if is_proven(answer, self.task, calls, computing)]
        if evident(result, proven):
            return True
        own = figures(result.answer).keys() - figures(self.task).keys()
        if not own or not ctx.manifest.checks or len(result.answer.split()) > SHORT_ANSWER:
            return False
        answers = figures("\n".join(answer.answer for answer in proven))
        quotes = [source.quote for source in result.sources if source in lookup.matches.values()]
        results = [output.text for output in calls if output.name in computing and len(output.text) <= MOST_RESULT]
        stands = figures("\n".join([*quotes, *results]))
        return all(is_among(form, answers) and is_among(form, stands) for form in own)

    async def find_doubt(
        self, result: AgentResult, ctx: BranchContext[Any], results: Sequence[TeamResult], *, for_judge: bool
    ) -> Doubt:
        """Return what another agent has against the answer, or the judge; `for_judge` asks it also without need."""
        opinion = None
        if self.verifier is not None and self.verifier.is_wanted(result, results, ctx):
            opinion = await self.verifier(result, ctx, results, additions=self.additions)
            for_judge = opinion is None  # nobody could say: the judge decides by what was found
        if opinion is not None:
            return opinion
        result = without_distrusted(result, distrusted_sources(ctx))
        pages = self.verifier.browsed_pages(result, ctx) if self.verifier is not None else []
        if not for_judge and not pages:
            return Doubt()
        evidence = self._evidence(result, ctx, results)
        evidence_text = "\n".join(evidence) if ctx.manifest.checks >= PAGES_ONCE else ""
        evidence += [render_block(block) for block in pages if text_of((block,)) not in evidence_text]
        mark = sha256_json(
            [result.answer, [source.model_dump(mode="json") for source in result.sources], *self.additions, *evidence]
        )
        again = mark in self.verdicts
        if not again:
            self.verdicts[mark] = await self._judge(result, ctx, evidence)
        if not self.verdicts[mark]:
            return Doubt()
        text = "A judge, who was shown the answer and what the team found, does not take it; its words stand above."
        doubt = Doubt.of(text, self.verdicts[mark], "judge", Trust.UNTRUSTED)
        # The planner was told and gives the same answer on the same evidence: to send it back again settles nothing.
        return replace(doubt, again=again and bool(ctx.manifest.checks))

    def _strange(self, result: AgentResult, ctx: BranchContext[Any]) -> list[str]:
        """Return figures of the answer that neither the user, an agent, a tool nor a program gave."""
        texts = [self.task, *self.additions, *said_before(ctx)]
        for _, answer, _ in results_before(ctx, upto=ctx.last_n + 1):
            texts += [answer.answer, answer.report, *(f"{source.place}\n{source.quote}" for source in answer.sources)]
        if ctx.manifest.checks:
            texts += [f"{output.request}\n{output.text}" for output in outputs(ctx)]
        return missing(result.answer, "\n".join(texts), checks=ctx.manifest.checks)

    def _evidence(self, result: AgentResult, ctx: BranchContext[Any], results: Sequence[TeamResult]) -> list[str]:
        """Return the evidence as the judge is shown it: the agents' answers and quotes, then outputs of tools.

        What gave orders to whoever read it is left out: the judge is a reader like any other.
        """
        room = int(window_of(judge_of(ctx), ctx, self.kit) * CHARS_PER_TOKEN * EVIDENCE_SHARE)
        given_out: list[TextBlock] = []
        if ctx.manifest.checks:
            bad = distrusted_sources(ctx)
            calls = [rest for output in outputs(ctx) if (rest := output.without(bad)) is not None]
            calls = [*without_repeats(calls)] if ctx.manifest.checks >= PAGES_ONCE else calls
            given_out = output_blocks(calls, result.answer, min(room // 2, MOST_OUTPUTS))
            results = [(name, without_distrusted(answer, bad), trust) for name, answer, trust in results]
        room -= sum(len(block.text) for block in given_out)
        agents = [evidence_block(results, most=room)] if results or ctx.manifest.checks < SORTING else []
        return [render_block(block) for block in (*agents, *given_out)]

    async def _judge(self, result: AgentResult, ctx: BranchContext[Any], evidence: Sequence[str]) -> str:
        """Return what is wrong with an answer and what would settle it, "" where nothing is wrong."""
        prompt = self.kit.prompts.get("verify")
        values: dict[str, Any] = {
            "task": self.task,
            "told": list(self.additions),
            "answer": result.answer,
            "cited": render_block(_sources_block(result)),
            "sources": [source.model_dump(mode="json") for source in result.sources],
            "evidence": "\n".join(evidence),
        }
        if "told" not in prompt.variables:
            values["task"] = "\n".join((self.task, *self.additions))
        # A copy of the prompt, or a run that is pinned to it, may be from before it had one of them.
        request = prompt.render(**{name: value for name, value in values.items() if name in prompt.variables})
        schema = VERDICT if ctx.manifest.checks else _BEFORE
        reply = await ask_model(
            JUDGE, request, ctx, self.kit, purpose="judge", trust=Trust.UNTRUSTED, output_schema=schema
        )
        try:
            verdict = read_output(reply, _READ)
        except OutputError:
            return ""  # a judge that says nothing readable doubts nothing
        if not isinstance(verdict, dict) or verdict.get("supported") is not False:
            return ""
        reasons = [str(verdict[name]).strip() for name in ("problem", "reason", "settle") if verdict.get(name)]
        return " ".join(reasons) or "it does not follow from what was found"


def judge_of(ctx: BranchContext[Any]) -> str:
    role = ctx.manifest.roles.get("judge")
    return (role.model if role is not None else "") or ctx.model


def _sources_block(result: AgentResult) -> Block:
    """Return the sources of an answer as material: their words are those of pages and files."""
    lines = [f"- {row['source']} ({row['place']}): {row['quote']}" for row in citation_rows(result.sources)]
    return material("\n".join(lines) or "nothing", "planner")


def is_proven(
    result: AgentResult, task: str, calls: Sequence[ToolOutput], computing: Collection[str] = PROGRAMS
) -> bool:
    """Return whether an agent finished with sources, or with what a program or a tool of the user's gave it."""
    done = result.status is RunStatus.COMPLETED and bool(result.answer)
    return done and (bool(result.sources) or is_computed(result.answer, task, calls, computing))


def evident(result: AgentResult, proven: Sequence[AgentResult]) -> bool:
    """Return whether an answer is what one agent found and could prove, in its words: nobody need judge it then."""
    return any(alike(result.answer, text) for proof in proven for text in (proof.answer, proof.report))


def plain(text: str) -> str:
    """Return a text for comparison: without regard to white space and case."""
    return " ".join(text.split()).casefold()
