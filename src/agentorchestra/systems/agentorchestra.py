"""AgentOrchestra: a planning agent that leads specialised agents (000, sec. 4).

The planner sees the agents, never the tools they hold. Its answer is checked before it is accepted: sources that no
agent found are struck out, and a judge asks whether the answer follows from what was found; an answer that does not is
sent back to the planner with the reason. At last the answer is put into the form that the task asks for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agentorchestra.agents.evidence import citations, evidence_block, results_before
from agentorchestra.agents.kit import Kit, ask_model, run_agent
from agentorchestra.core.content import Trust
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import State
from agentorchestra.models.render import render_block
from agentorchestra.runtime.session import Session

NAME = "agentorchestra"
PLANNER_TOOLS = ("todo",)
MAX_CHECKS = 2
"""Answers that are sent back to the planner; the next one is taken as it is, and says what is doubted."""

SHORT_WORDS = 12
"""Answers of at most so many words are not reformatted."""


async def agentorchestra(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Plan, delegate, check, answer."""
    tools = tuple(name for name in PLANNER_TOOLS if name in spec.tools)
    planner = spec.model_copy(update={"role": "planner", "tools": tools})
    check = Check(spec.instruction, kit)
    result = await run_agent(planner, session, kit, prompt="planner", offered=kit.delegates(session), observe=(check,))
    result = supported(result, session)
    if check.doubt:
        said = f"{result.report}\n\n" if result.report else ""
        status = RunStatus.PARTIAL if result.status is RunStatus.COMPLETED else result.status
        result = result.model_copy(update={"status": status, "report": f"{said}Doubted: {check.doubt}"})
    return await formatted(result, spec, session, kit)


@dataclass
class Check:
    """An `observe` part: asks a judge before an answer is accepted; the planner hears what is wrong.

    Attributes:
        task: the user's.
        kit: see Kit.
        sent_back: how many answers were.
        doubt: what is still wrong with the answer that was taken.
    """

    task: str
    kit: Kit
    sent_back: int = 0
    doubt: str = ""

    async def __call__(self, state: State, session: Session[Any]) -> State:
        """The state without its result, and with the problem, where the answer does not hold."""
        result = state.result
        if result is None or result.status is not RunStatus.COMPLETED or state.limited:
            return state
        found = results_before(session)
        if not found or evident(result, session):
            return state
        problem = await self._judge(result, session)
        if not problem:
            return state
        if self.sent_back >= MAX_CHECKS or state.step >= state.max_steps:
            self.doubt = problem
            return state
        self.sent_back += 1
        return state.model_copy(update={"result": None, "problem": f"Your answer was checked and sent back: {problem}"})

    async def _judge(self, result: AgentResult, session: Session[Any]) -> str:
        prompt = self.kit.prompts.get("verify").render(
            task=self.task,
            answer=result.answer,
            sources=[one.model_dump(mode="json") for one in result.sources],
            evidence=render_block(evidence_block(results_before(session))),
        )
        said = await ask_model("judge", prompt, session, self.kit, purpose="judge", trust=Trust.UNTRUSTED)
        try:
            verdict = json.loads(said[said.index("{") : said.rindex("}") + 1])
        except ValueError:
            return ""  # a judge that says nothing readable doubts nothing
        if not isinstance(verdict, dict) or verdict.get("supported") is not False:
            return ""
        return str(verdict.get("problem") or "it does not follow from what was found")


def evident(result: AgentResult, session: Session[Any]) -> bool:
    """Whether an answer is word for word what one agent found and could prove: then nobody need judge it."""
    answer = _plain(result.answer)
    return any(
        one.status is RunStatus.COMPLETED
        and one.sources
        and answer
        and answer in (_plain(one.answer), _plain(one.report))
        for _, one, _ in results_before(session)
    )


def supported(result: AgentResult, session: Session[Any]) -> AgentResult:
    """The result without sources that no agent found; the report says which."""
    found = results_before(session)
    known = {(one.source, one.place) for one in citations(found)}
    struck = [one for one in result.sources if (one.source, one.place) not in known]
    if not struck or not found:
        return result
    kept = tuple(one for one in result.sources if one not in struck)
    names = "; ".join(f"{one.source}, {one.place}" if one.place else one.source for one in struck)
    said = f"{result.report}\n\n" if result.report else ""
    return result.model_copy(update={"sources": kept, "report": f"{said}Struck out, no agent found it: {names}"})


async def formatted(result: AgentResult, spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """The answer in the form the task asks for; the long one is kept as the report."""
    finished = result.status in (RunStatus.COMPLETED, RunStatus.PARTIAL)
    if spec.output_schema is not None or not finished or len(result.answer.split()) <= SHORT_WORDS:
        return result
    prompt = kit.prompts.get("formatter").render(task=spec.instruction, answer=result.answer)
    trust = min(Trust.AGENT, session.seen_trust, key=lambda one: one.rank)
    said = (await ask_model("formatter", prompt, session, kit, purpose="format", trust=trust)).strip()
    if not said or said.strip(".\"' ").upper() == "KEEP":
        return result
    report = result.report if result.answer in result.report else f"{result.answer}\n\n{result.report}".strip()
    return result.model_copy(update={"answer": said, "report": report})


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


__all__ = ["Check", "agentorchestra", "evident", "formatted", "supported"]
