"""AgentOrchestra: a planning agent that leads specialised agents (000, sec. 4, app. D.2).

    interpret -> decompose -> allocate -> execute: the steps of one loop, in prompt `planner`
    the user speaks, an agent fails      ─> planning/revision.py: back to the interpretation, others that fit
    an answer                            ─> planning/checks.py: its sources, its figures, a second agent, a judge

The planner sees the agents, never the tools they hold. An answer that does not hold goes back to it with the reason.
Where one agent answered the whole task with evidence, that is the answer, and the planner is not asked again. At last
the answer is put into the form that the task asks for, in evaluations and where `team.shorten` says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.citations import look_up
from agentorchestra.agents.conversation import files_in_conversation
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.first_view import short_files
from agentorchestra.agents.outputs import PROGRAMS, outputs
from agentorchestra.agents.planning.checks import PlanCheck, is_proven, plain
from agentorchestra.agents.planning.evidence import results_before, said_of, user_additions
from agentorchestra.agents.planning.revision import Interjections, Replacements
from agentorchestra.agents.planning.verification import ResultVerifier
from agentorchestra.agents.reporting.agent import NAME as REPORTER
from agentorchestra.agents.requests import ask_model
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.messages import Message
from agentorchestra.core.settings import TeamSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tools.todo import Plans

NAME = "agentorchestra"
PLANNER_TOOLS = ("todo",)
PYTHON = "python"  # what it has besides where short files stand in its prompt
SHORT_WORDS = 12  # answers of at most so many words are not reformatted


@dataclass(frozen=True)
class AgentOrchestra:
    """Plans, has the agents that fit do the parts, checks, answers."""

    settings: TeamSettings = field(default_factory=TeamSettings)

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Do one task; raise UnknownComponentError if the settings name a verifier that is no agent."""
        verifier = self.settings.verifier
        if verifier and verifier not in {*kit.agents, *kit.absent}:
            raise UnknownComponentError(
                f"the settings name the agent {verifier!r} as verifier (team.verifier), which is not there; "
                f"the agents: {', '.join(sorted(kit.agents))}"
            )
        planner = spec.model_copy(update={"role": "planner"})
        material = () if spec.on_demand else await short_files(ctx, planner, goes_on=True)
        tools = tuple(name for name in PLANNER_TOOLS if name in spec.tools)
        seen = bool(files_in_conversation(ctx)) or not ctx.manifest.files
        sees_all = bool(material) or (seen and ctx.manifest.in_view_chars > 0)
        if sees_all and PYTHON in spec.tools:  # where one look is enough, the planner looks and computes itself
            tools += (PYTHON,)
        context = (*spec.context, *material)
        planner = planner.model_copy(update={"tools": tools, "context": context})
        delegates = kit.delegates(ctx, task=spec.instruction)
        check = PlanCheck(spec.instruction, kit, ResultVerifier(spec.instruction, kit, delegates, self.settings))
        early = EarlyFinish(spec, frozenset(delegate.agent.name for delegate in delegates) - {REPORTER}, check)
        observe = (Replacements(kit, delegates), check, early)
        hear = Interjections(kit)
        result = await run_agent(
            planner,
            ctx,
            kit,
            prompt="planner",
            offered=delegates,
            observe=observe,
            hear=hear,
            receives=False,
            checked=True,
        )
        if check.doubt:
            earlier = f"{result.report}\n\n" if result.report else ""
            status = RunStatus.PARTIAL if result.status is RunStatus.COMPLETED else result.status
            result = result.model_copy(update={"status": status, "report": f"{earlier}Doubted: {check.doubt}"})
        report = _report(ctx)
        if report is not None:
            return _with_report(result, report)
        return await reformat(result, spec, ctx, kit, additions=check.additions) if ctx.manifest.shorten else result


# -- early finish ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EarlyFinish:
    """An `observe` part: one agent got the task as it stands and answered it with evidence. That is the answer.

    Not while anything else is open: another call or step of the plan, a message of the user's, a structured answer
    that only the planner can give. `check` says what another agent has to look at first.
    """

    spec: AgentSpec
    agents: Collection[str]
    check: PlanCheck

    async def __call__(self, state: State, ctx: BranchContext[Any]) -> State:
        if state.is_over or state.problem or self.spec.output_schema is not None or user_additions(state):
            return state
        result = self._whole_result(state, ctx)
        if result is None or not _nothing_open(ctx):
            return state
        lookup = await look_up(result.sources, ctx)
        if lookup.misquoted:
            return state
        result = lookup.correct(result)
        results = results_before(ctx, upto=ctx.last_n + 1)
        doubt = await self.check.find_doubt(result, ctx, results, for_judge=False)
        if doubt.text:
            problem = said_of(self.check.kit.prompts.get("verification"), doubt=doubt.text)
            return state.model_copy(update={"problem": problem, "messages": (*state.messages, *doubt.messages)})
        interjection = await Interjections(self.check.kit)(state, ctx)
        if interjection is not None:  # the task may just have changed
            return state.model_copy(
                update={"messages": (*state.messages, Message(role="user", content=interjection.blocks))}
            )
        return state.model_copy(update={"result": result.model_copy(update={"steps": state.step})})

    def _whole_result(self, state: State, ctx: BranchContext[Any]) -> AgentResult | None:
        """Return the result of the last step's one delegation, where it answers the whole task."""
        last = next((message for message in reversed(state.messages) if message.role == "assistant"), None)
        calls = [call for call in last.tool_calls if call.name != "todo"] if last is not None else []
        if len(calls) != 1 or calls[0].name not in self.agents or not isinstance(calls[0].arguments, dict):
            return None
        order = str(calls[0].arguments.get("task") or "")
        files = [ref.name for ref in ctx.manifest.files]
        if order.strip() and not same_task(order, self.spec.instruction, files):
            return None
        results = results_before(ctx, upto=ctx.last_n + 1)
        if not results or state.messages[-1].role != "tool" or results[-1][0] != calls[0].name:
            return None
        result = results[-1][1]
        has_error = any(m.is_error for m in state.messages if m.tool_call_id == calls[0].id)
        run_outputs = outputs(ctx) if ctx.manifest.checks else []
        computing = PROGRAMS | {*self.check.kit.given}
        return result if not has_error and is_proven(result, self.spec.instruction, run_outputs, computing) else None


def same_task(order: str, task: str, files: Sequence[str] = ()) -> bool:
    """Return True if somebody was told the whole task: its words in any order, and names of files beside them.

    Any other word that was added or left out may be a condition.
    """
    task_words, order_words = Counter(_WORD.findall(plain(task))), Counter(_WORD.findall(plain(order)))
    file_words = {word for name in files for word in _WORD.findall(plain(name))}
    return not task_words - order_words and not {*(order_words - task_words)} - file_words


_WORD = re.compile(r"\w+")


def _nothing_open(ctx: BranchContext[Any]) -> bool:
    """Return True if the plan, if there is one, has no step left but the one just done."""
    plans = Plans.of(ctx.vars)
    return plans.active is None or len(plans.plans[plans.active].open) <= 1


# -- form --------------------------------------------------------------------------------------------------------------


def _report(ctx: BranchContext[Any]) -> AgentResult | None:
    reports = [result for name, result, _ in results_before(ctx, upto=ctx.last_n + 1) if name == REPORTER]
    return reports[-1] if reports and reports[-1].answer else None


def _with_report(result: AgentResult, report: AgentResult) -> AgentResult:
    """Return the result with the report as it was written: nobody has to copy it, and nobody can change it."""
    notes = [note for note in (result.report, report.report) if note and plain(note) not in plain(report.answer)]
    sources = [*report.sources, *(citation for citation in result.sources if citation not in report.sources)]
    return result.model_copy(
        update={"report": "\n\n".join([report.answer, *dict.fromkeys(notes)]), "sources": tuple(sources)}
    )


async def reformat(
    result: AgentResult, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, *, additions: Sequence[str] = ()
) -> AgentResult:
    """Return the answer in the form the task asks for; the long one is kept as the report, with its sources."""
    finished = result.status in (RunStatus.COMPLETED, RunStatus.PARTIAL)
    if spec.output_schema is not None or not finished or len(result.answer.split()) <= SHORT_WORDS:
        return result
    task = "\n".join((spec.instruction, *additions))
    prompt = kit.prompts.get("formatter").render(task=task, answer=result.answer)
    trust = min(Trust.AGENT, ctx.seen_trust, key=lambda level: level.rank)
    reply = (await ask_model("formatter", prompt, ctx, kit, purpose="format", trust=trust)).strip()
    if not reply or reply.strip(".\"' ").upper() == "KEEP":
        return result
    report = result.report if result.answer in result.report else f"{result.answer}\n\n{result.report}".strip()
    return result.model_copy(update={"answer": reply, "report": report})
