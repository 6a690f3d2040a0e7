"""AgentOrchestra: a planning agent that leads specialised agents (000, sec. 4).

The planner sees the agents, never the tools they hold. Its answer is checked before it is taken: its sources must be
what the agents found, its figures must come from them, and a judge asks whether the answer follows; an answer that
does not hold goes back to the planner with the reason. Where one agent answered the whole task with evidence, that is
the answer, and nobody is asked again. At last the answer is put into the form that the task asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.evidence import (
    MOST_CHECKS,
    citations,
    evidence_block,
    figures,
    is_last,
    listed,
    misquoted,
    results_before,
    unfound,
    without,
)
from agentorchestra.agents.kit import Kit, ask_model, run_agent
from agentorchestra.agents.reporter import NAME as REPORTER
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.errors import OutputError
from agentorchestra.core.messages import Message
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import State, inbox
from agentorchestra.models.render import render_block
from agentorchestra.runtime.session import Session
from agentorchestra.tea.structured import read_output
from agentorchestra.tools.todo import Plans

NAME = "agentorchestra"
PLANNER_TOOLS = ("todo",)

SHORT_WORDS = 12
"""Answers of at most so many words are not reformatted."""

VERDICT = {
    "type": "object",
    "properties": {"supported": {"type": "boolean"}, "problem": {"type": "string"}},
    "required": ["supported"],
}
"""What the judge is asked to reply (prompt `verify`)."""


async def agentorchestra(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Plan, delegate, check, answer."""
    tools = tuple(name for name in PLANNER_TOOLS if name in spec.tools)
    planner = spec.model_copy(update={"role": "planner", "tools": tools})
    offered = kit.delegates(session)
    check = Check(spec.instruction, kit)
    early = EarlyFinish(spec, frozenset(one.agent.name for one in offered) - {REPORTER})
    result = await run_agent(planner, session, kit, prompt="planner", offered=offered, observe=(check, early))
    if check.doubt:
        said = f"{result.report}\n\n" if result.report else ""
        status = RunStatus.PARTIAL if result.status is RunStatus.COMPLETED else result.status
        result = result.model_copy(update={"status": status, "report": f"{said}Doubted: {check.doubt}"})
    written = _report(session)
    if written is not None:
        return _with_report(result, written)
    return await formatted(result, spec, session, kit, told=check.told)


# -- early finish ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EarlyFinish:
    """An `observe` part: one agent got the task as it stands and answered it with evidence. That is the answer.

    Not while anything else is open: another call or step of the plan, a message of the user's, a structured answer
    that only the planner can give.

    Attributes:
        spec: of the planner.
        agents: names of those whose answer may be the run's.
    """

    spec: AgentSpec
    agents: Collection[str]

    async def __call__(self, state: State, session: Session[Any]) -> State:
        """The state, with a result where the work is done."""
        if state.ended or state.problem or self.spec.output_schema is not None or told_in(state):
            return state
        result = self._answered(state, session)
        if result is None or not _nothing_open(session) or await misquoted(result.sources, session):
            return state
        heard = await inbox(state, session)
        if heard is not None:  # the task may just have changed
            return state.model_copy(update={"messages": (*state.messages, Message(role="user", content=heard.blocks))})
        return state.model_copy(update={"result": result.model_copy(update={"steps": state.step})})

    def _answered(self, state: State, session: Session[Any]) -> AgentResult | None:
        """The result of the last step's one delegation, where it answers the whole task."""
        last = next((one for one in reversed(state.messages) if one.role == "assistant"), None)
        calls = [call for call in last.tool_calls if call.name != "todo"] if last is not None else []
        if len(calls) != 1 or calls[0].name not in self.agents or not isinstance(calls[0].arguments, dict):
            return None
        if _plain(str(calls[0].arguments.get("task"))) != _plain(self.spec.instruction):
            return None
        found = results_before(session, upto=session.asked + 1)
        if not found or state.messages[-1].role != "tool" or found[-1][0] != calls[0].name:
            return None
        result = found[-1][1]
        refused = any(m.is_error for m in state.messages if m.tool_call_id == calls[0].id)
        whole = result.status is RunStatus.COMPLETED and result.answer and result.sources and not refused
        return result if whole else None


def _nothing_open(session: Session[Any]) -> bool:
    """Whether the plan, if there is one, has no step left but the one just done."""
    plans = Plans.of(session.vars)
    return plans.active is None or len(plans.plans[plans.active].open) <= 1


def told_in(state: State) -> tuple[str, ...]:
    """What the user added while the work went on."""
    return tuple(
        block.text
        for message in state.messages
        if message.role == "user"
        for block in message.content
        if isinstance(block, TextBlock) and block.source is not None and block.source.ref == "tell"
    )


# -- check -------------------------------------------------------------------------------------------------------------


@dataclass
class Check:
    """An `observe` part: an answer is taken when it holds; else the planner hears what is wrong with it.

    Attributes:
        task: the user's.
        kit: see Kit.
        sent_back: how many answers were.
        doubt: what the judge still finds wrong with the answer that was taken.
        told: what the user added.
    """

    task: str
    kit: Kit
    sent_back: int = field(default=0, init=False)
    doubt: str = field(default="", init=False)
    told: tuple[str, ...] = field(default=(), init=False)

    async def __call__(self, state: State, session: Session[Any]) -> State:
        """The state; without its result where the answer has to be corrected, without sources that do not hold."""
        result, self.told = state.result, told_in(state)
        if result is None:
            return state
        found = results_before(session, upto=session.asked + 1)
        prompt = self.kit.prompts.get("verification")
        bad = await misquoted(result.sources, session)
        if found:
            bad += [one for one in unfound(result.sources, citations(found)) if one not in bad]
        strange, doubt = [], ""
        if found and result.status is RunStatus.COMPLETED and not evident(result, found):
            # Figures are a matter of a look; what remains of them after that is the judge's to decide.
            strange = self._strange(result, state, session) if self.sent_back == 0 else []
            if not bad and not strange and state.limited is None:
                doubt = await self._judge(result, session, found)
        if (bad or strange or doubt) and self.sent_back < MOST_CHECKS and not is_last(state):
            self.sent_back += 1
            problem = prompt.render(unsupported=listed(bad), figures=strange, doubt=doubt, left_out=[])
            return state.model_copy(update={"result": None, "problem": problem})
        self.doubt = doubt
        return state.model_copy(update={"result": without(result, bad, prompt)})

    def _strange(self, result: AgentResult, state: State, session: Session[Any]) -> list[str]:
        """Figures of the answer that neither the user nor an agent gave: a planner looks nothing up itself."""
        given = [self.task, *self.told]
        given += [f"{one.task}\n{one.answer}" for one in session.manifest.earlier]
        for _, one, _ in results_before(session, upto=session.asked + 1):
            given += [one.answer, one.report, *(f"{cited.place}\n{cited.quote}" for cited in one.sources)]
        known = figures("\n".join(given))
        return [written for form, written in figures(result.answer).items() if form not in known]

    async def _judge(self, result: AgentResult, session: Session[Any], found: Sequence[Any]) -> str:
        """What is wrong with an answer, "" where nothing is."""
        prompt = self.kit.prompts.get("verify").render(
            task="\n".join((self.task, *self.told)),
            answer=result.answer,
            sources=[one.model_dump(mode="json") for one in result.sources],
            evidence=render_block(evidence_block(found)),
        )
        said = await ask_model(
            "judge", prompt, session, self.kit, purpose="judge", trust=Trust.UNTRUSTED, output_schema=VERDICT
        )
        try:
            verdict = read_output(said, VERDICT)
        except OutputError:
            return ""  # a judge that says nothing readable doubts nothing
        if not isinstance(verdict, dict) or verdict.get("supported") is not False:
            return ""
        return str(verdict.get("problem") or "it does not follow from what was found")


def evident(result: AgentResult, found: Sequence[tuple[str, AgentResult, Trust]]) -> bool:
    """Whether an answer is word for word what one agent found and could prove: then nobody need judge it."""
    answer = _plain(result.answer)
    return any(
        one.status is RunStatus.COMPLETED
        and one.sources
        and answer
        and answer in (_plain(one.answer), _plain(one.report))
        for _, one, _ in found
    )


# -- form --------------------------------------------------------------------------------------------------------------


def _report(session: Session[Any]) -> AgentResult | None:
    """The last report that was written, None where there is none."""
    written = [one for name, one, _ in results_before(session, upto=session.asked + 1) if name == REPORTER]
    return written[-1] if written and written[-1].answer else None


def _with_report(result: AgentResult, written: AgentResult) -> AgentResult:
    """The result with the report as it was written: nobody has to copy it, and nobody can change it."""
    notes = [note for note in (result.report, written.report) if note and _plain(note) not in _plain(written.answer)]
    sources = [*written.sources, *(one for one in result.sources if one not in written.sources)]
    return result.model_copy(
        update={"report": "\n\n".join([written.answer, *dict.fromkeys(notes)]), "sources": tuple(sources)}
    )


async def formatted(
    result: AgentResult, spec: AgentSpec, session: Session[Any], kit: Kit, *, told: Sequence[str] = ()
) -> AgentResult:
    """The answer in the form the task asks for; the long one is kept as the report. Its sources stay as they are."""
    finished = result.status in (RunStatus.COMPLETED, RunStatus.PARTIAL)
    if spec.output_schema is not None or not finished or len(result.answer.split()) <= SHORT_WORDS:
        return result
    task = "\n".join((spec.instruction, *told))
    prompt = kit.prompts.get("formatter").render(task=task, answer=result.answer)
    trust = min(Trust.AGENT, session.seen_trust, key=lambda one: one.rank)
    said = (await ask_model("formatter", prompt, session, kit, purpose="format", trust=trust)).strip()
    if not said or said.strip(".\"' ").upper() == "KEEP":
        return result
    report = result.report if result.answer in result.report else f"{result.answer}\n\n{result.report}".strip()
    return result.model_copy(update={"answer": said, "report": report})


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


__all__ = ["Check", "EarlyFinish", "agentorchestra", "evident", "formatted", "told_in"]
