"""CORAL: agents that write to each other, led by the flow of information (003, sec. 3 and app. A).

    the information flow orchestrator ── threads, messages ── planner, web, document, and coding agent
        monitors, asks, relays, waits                            each works from mention to mention
        submit_answer(answer)  ─> the end

No workflow is written here. That society is one among others: users name other agents, and let one of theirs lead
(`[societies.NAME]`). The star (who is not the orchestrator reaches only the orchestrator) is kept by `core/mail.py`.
Its substance is in `agents/society/` (messages, threads, turns) and `runtime/mail_room.py`; both act by effects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import JsonValue

from agentorchestra.agents.agent import Delegate, agent_effect
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.forms import Limited
from agentorchestra.agents.society.actors import OF_MEMBERS, ROLES, act
from agentorchestra.agents.society.toolkit import Send, ThreadOperation, WaitForMention, change, list_agents
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust, text_of
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import SettingsError, UnknownComponentError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.settings import CoralSettings, SocietySettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import Seen, State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tools.done import done_tool, submit_answer

NAME = "coral"
MAIN = "main"
MOST_RESULTS = 20
LEAST_STEPS = 60  # decisions of the orchestrator; a larger `max_steps` of the run counts
NO_SUBMISSION = "no answer was submitted; this is the last reply of an agent"
OPENS = f"{Send.description} It opens the thread, with those it mentions, if there is none of that name."
WARNING = 0.8  # part of its time after which the orchestrator is warned


@dataclass(frozen=True)
class Coral(Limited[SocietySettings]):
    """The system: agents that write to each other until who leads them submits an answer."""

    name: str
    finishes_by_call: ClassVar[bool] = True

    @property
    def description(self) -> str:
        return self.limits.description or f"Agents that write to each other: {', '.join(self.limits.agents)}."

    def check(self, agents: Mapping[str, Any], absent: Mapping[str, Collection[str]]) -> None:
        """Refuse agents that a run does not have, or that cannot lead.

        Args:
            agents: those of the run, by name.
            absent: agents that only other runs have, by name, with the environments and tools that those runs name.

        Raises:
            UnknownComponentError, SettingsError.
        """
        for name in self.limits.agents:
            if name not in agents:
                problem = _absent(name, agents, absent)
                raise UnknownComponentError(f"the society {self.name!r} has the agent {name!r}, which {problem}")
        leader = agents.get(self.limits.leader)
        if leader is not None and leader.drive not in (None, act):
            raise SettingsError(
                f"{leader.name!r} cannot lead the society {self.name!r}: its work is a fixed workflow; name an agent "
                "that decides step by step, or leave `leader` out"
            )

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Do one task; raise UnknownComponentError if an agent of the society is not in this run."""
        limits, manifest_limits = self.limits, ctx.manifest.society
        if manifest_limits is not None and ctx.manifest.system == self.name:
            limits = manifest_limits
        offers = kit.delegates(ctx, members=limits.agents)
        delegates = {delegate.agent.name: delegate for delegate in offers if delegate.agent.name in limits.agents}
        Coral(limits, self.name).check({name: kit.agents[name] for name in delegates}, kit.absent)
        followers = [delegates[name] for name in limits.agents if name != limits.leader]
        members = {delegate.agent.name: delegate.agent.description for delegate in followers}
        constitution: dict[str, JsonValue] = {"members": dict(members), "topology": limits.topology}
        outcome = await ctx.perform(change("found", ctx, leader=ctx.actor, **constitution))
        if not outcome.ok:
            return AgentResult(status=RunStatus.BLOCKED, report=f"Nothing was done: {outcome.error}.")
        clock = _Clock(ctx, limits.minutes * 60)
        for delegate in followers:
            actor = delegate.agent.spec(
                f"You are {delegate.agent.name}. {ctx.actor} leads the agents. Do what messages to you ask for.",
                name=delegate.agent.name,
                tools=delegate.tools,
                max_steps=limits.turn_steps,
                finish="text",
                on_demand=True,
            )
            spawn = agent_effect(actor, ctx, kind=EffectKind.SPAWN)
            # When the time is up its work ends, and with it what it holds of the budget.
            await ctx.perform(spawn.model_copy(update={"timeout_s": clock.seconds}))
        finish = done_tool(spec.output_schema, base=submit_answer)
        wait = WaitForMention(clock.left).tool
        own, prompt = _leading(spec, delegates.get(limits.leader))
        try:
            result = await run_agent(
                own.model_copy(update={"max_steps": max(spec.max_steps, LEAST_STEPS)}),
                ctx,
                kit,
                prompt=prompt,
                offered=[Send(OPENS), *ThreadOperation.every()],
                own=(list_agents, wait, finish),
                values={"members": [delegate.agent for delegate in followers], "minutes": f"{limits.minutes:g}"},
                perceive=(clock.perceive,),
                observe=(clock.observe,),
                receives=False,
            )
        finally:  # also where a limit of the run ends it
            ctx.partial = (ctx.partial if isinstance(ctx.partial, dict) else {}) | clock.best
        return result if result.answer or result.output is not None else result.model_copy(update=clock.best)


def coral(limits: CoralSettings) -> Coral:
    description = "A planner, a web, a document and a coding agent that write to each other."
    return Coral(SocietySettings(agents=ROLES, description=description, **limits.model_dump()), NAME)


def _absent(name: str, agents: Collection[str], absent: Mapping[str, Collection[str]]) -> str:
    if requirements := absent.get(name):
        return f"is there in runs that have {', '.join(requirements)}; name environments with environments=[...]"
    if name in absent:
        return "has nothing to work with in this run, or belongs to other systems; leave it out"
    names = sorted({*agents, *absent})
    return f"is not there; {did_you_mean(name, names, 'the agents: ' + ', '.join(names))}"


def _leading(spec: AgentSpec, leader: Delegate | None) -> tuple[AgentSpec, str]:
    """Return the spec and the prompt of who leads: the orchestrator, which has no tools, or an agent with its own."""
    if leader is None:
        return spec.model_copy(update={"role": MAIN, "tools": ()}), NAME
    agent, tools = leader.agent, tuple(tool for tool in leader.tools if tool in spec.tools)
    prompt = NAME if agent.prompt in OF_MEMBERS else agent.prompt
    return spec.model_copy(update={"role": agent.role, "tools": tools}), prompt


@dataclass
class _Clock:
    """The orchestrator's time, by what the log says of it: a warning, then the answer is asked for (003, sec. 3).

    Attributes:
        best: the last reply of an agent, as the answer where the orchestrator gives none.
    """

    ctx: BranchContext[Any]
    seconds: float

    def __post_init__(self) -> None:
        self.began = self.ctx.now
        self.best: dict[str, JsonValue] = {}

    def left(self, now: datetime) -> float:
        """Return the seconds that are left at a time; those in which nobody drives the run do not count."""
        return max(0.0, self.seconds - self.ctx.run.active_between(self.began, now))

    async def perceive(self, state: State, ctx: BranchContext[Any]) -> Seen:
        """Return the time that is left, with the warning where that is little."""
        left = self.left(ctx.now)
        remaining = f"{left / 60:.0f} minutes" if left >= 120 else f"{left:.0f} seconds"
        text = f"{remaining} are left."
        if not left:
            text = "Your time is up: submit the best answer that there is."
        elif left <= self.seconds * (1 - WARNING):
            text += " Then the best answer that there is has to be submitted."
        return Seen(blocks=(TextBlock(text=text, source=Source(kind="prompt"), trust=Trust.SYSTEM),))

    async def observe(self, state: State, ctx: BranchContext[Any]) -> State:
        """Return the state, whose next decision is the last one where the time is up."""
        recent = (block for message in state.messages[-MOST_RESULTS:] for block in message.content)
        replies = [block for block in recent if _of_agent(block, ctx.actor)]
        if replies:
            self.best = {"answer": text_of(replies[-1:]).partition("\n")[2], "report": NO_SUBMISSION}
        over = not state.is_over and not self.left(ctx.now)
        return state.model_copy(update={"max_steps": min(state.max_steps, state.step + 1)}) if over else state


def _of_agent(block: Block, leader: str) -> bool:
    return block.source is not None and block.source.kind == "agent" and block.source.ref != leader
