"""CORAL: agents that write to each other, led by the flow of information (003, sec. 3 and app. A).

    the information flow orchestrator ── threads, messages ── planner, web, document, and coding agent
        monitors, asks, relays, waits                            each works from mention to mention
        submit_answer(answer)  ─> the end

No workflow is written here. The star (who is not the orchestrator reaches only the orchestrator) is kept by the mail
room (`core/mail.py`); messages, threads and waits are effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import JsonValue

from agentorchestra.agents.agent import agent_effect
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.forms import Limited
from agentorchestra.agents.society.actors import ROLES
from agentorchestra.agents.society.toolkit import (
    Operation,
    Send,
    WaitForMention,
    change,
    list_agents,
)
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust, text_of
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.settings import CoralSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import Seen, State
from agentorchestra.runtime.session import Session
from agentorchestra.tools.done import done_tool, submit_answer

NAME = "coral"
MAIN = "main"
MOST_RESULTS = 20
NOT_SUBMITTED = "no answer was submitted; this is the last reply of an agent"
OPENS = f"{Send.description} It opens the thread, with those it mentions, if there is none of that name."
WARNED = 0.8
"""Part of its time after which the orchestrator is warned."""


@dataclass(frozen=True)
class Coral(Limited[CoralSettings]):
    """The system: agents that write to each other until the orchestrator submits an answer."""

    description: ClassVar[str] = "A planner, a web, a document and a coding agent that write to each other."

    async def __call__(self, spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
        """Do one task."""
        delegates = {one.agent.name: one for one in kit.delegates(session, leader=NAME)}
        there = [delegates[name] for name in ROLES if name in delegates]
        members = {one.agent.name: one.agent.description for one in there}
        founded: dict[str, JsonValue] = {"members": dict(members), "topology": self.limits.topology}
        outcome = await session.perform(change("found", session, leader=session.actor, **founded))
        if not outcome.ok:
            return AgentResult(status=RunStatus.BLOCKED, report=f"Nothing was done: {outcome.error}.")
        clock = _Clock(session, self.limits.minutes * 60)
        for one in there:
            actor = one.agent.spec(
                f"You are {one.agent.name}. {session.actor} leads the agents. Do what messages to you ask for.",
                name=one.agent.name,
                tools=one.tools,
                max_steps=self.limits.turn_steps,
                finish="text",
                on_demand=True,
            )
            spawn = agent_effect(actor, session, kind=EffectKind.SPAWN)
            # When the time is up its work ends, and with it what it holds of the budget.
            await session.perform(spawn.model_copy(update={"timeout_s": clock.seconds}))
        finish = done_tool(spec.output_schema, base=submit_answer)
        wait = WaitForMention(clock.left).tool
        own = spec.model_copy(update={"role": MAIN, "tools": (), "max_steps": max(spec.max_steps, self.limits.steps)})
        try:
            result = await run_agent(
                own,
                session,
                kit,
                prompt=NAME,
                offered=[Send(OPENS), *Operation.every()],
                own=(list_agents, wait, finish),
                values={"members": [one.agent for one in there], "minutes": f"{self.limits.minutes:g}"},
                perceive=(clock.perceive,),
                observe=(clock.observe,),
                receives=False,
            )
        finally:  # also where a limit of the run ends it
            session.partial = (session.partial if isinstance(session.partial, dict) else {}) | clock.best
        return result if result.answer or result.output is not None else result.model_copy(update=clock.best)


@dataclass
class _Clock:
    """The orchestrator's time, by what the log says of it: a warning, then the answer is asked for (003, sec. 3).

    Attributes:
        best: the last reply of an agent, as the answer where the orchestrator gives none.
    """

    session: Session[Any]
    seconds: float

    def __post_init__(self) -> None:
        """Begin to count."""
        self.began = self.session.now
        self.best: dict[str, JsonValue] = {}

    def left(self, now: datetime) -> float:
        """Return the seconds that are left at a time; those in which nobody drives the run do not count."""
        return max(0.0, self.seconds - self.session.run.active_between(self.began, now))

    async def perceive(self, state: State, session: Session[Any]) -> Seen:
        """Return the time that is left, with the warning where that is little."""
        left = self.left(session.now)
        much = f"{left / 60:.0f} minutes" if left >= 120 else f"{left:.0f} seconds"
        text = f"{much} are left."
        if not left:
            text = "Your time is up: submit the best answer that there is."
        elif left <= self.seconds * (1 - WARNED):
            text += " Then the best answer that there is has to be submitted."
        return Seen(blocks=(TextBlock(text=text, source=Source(kind="prompt"), trust=Trust.SYSTEM),))

    async def observe(self, state: State, session: Session[Any]) -> State:
        """Return the state, whose next decision is the last one where the time is up."""
        replies = [block for one in state.messages[-MOST_RESULTS:] for block in one.content if _of_agent(block)]
        if replies:
            self.best = {"answer": text_of(replies[-1:]).partition("\n")[2], "report": NOT_SUBMITTED}
        over = not state.ended and not self.left(session.now)
        return state.model_copy(update={"max_steps": min(state.max_steps, state.step + 1)}) if over else state


def _of_agent(block: Block) -> bool:
    """Return True for a message of another agent."""
    return block.source is not None and block.source.kind == "agent" and block.source.ref != NAME
