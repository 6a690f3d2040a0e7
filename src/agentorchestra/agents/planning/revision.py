"""Changes of course: the user says something else, an agent fails (000, app. D.2, adaptive planning)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.agent import Delegate
from agentorchestra.agents.planning.evidence import VERIFICATION, TeamDelegation, delegations
from agentorchestra.agents.state import call_own
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.messages import Message
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.loop import Seen, State, inbox
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.retrieval.discovery import Finder, lines_of, matching
from agentorchestra.tea.retrieval.retriever import Retriever
from agentorchestra.tools.todo import Plans, reconsider_plan

MOST_AGENTS = 3
"""Agents that are named in place of one that failed."""

FITTING = "fitting_agents"


@dataclass(frozen=True)
class Interjections:
    """A `perceive` part: what the user says in between, and that the work goes back to its interpretation.

    The steps of the plan that are not completed are marked: they were made for the task as it was.
    """

    kit: Kit

    async def __call__(self, state: State, ctx: BranchContext[Any]) -> Seen | None:
        news = await inbox(state, ctx)
        if news is None:
            return None
        has_plan = Plans.of(ctx.vars).active is not None
        if has_plan:
            await call_own(ctx, reconsider_plan)
        note = self.kit.prompts.get("objective").render(planned=has_plan)
        return Seen(blocks=(*news.blocks, TextBlock(text=note, trust=Trust.SYSTEM)), keep=True)


@dataclass
class Replacements:
    """An `observe` part: where an agent failed, the planner is told which others fit the same sub-task."""

    kit: Kit
    delegates: Sequence[Delegate]
    since: int = field(default=0, init=False)  # the number of the first effect that was not looked at yet

    async def __call__(self, state: State, ctx: BranchContext[Any]) -> State:
        """Return the state, with a note on each failure in its history; those that fit are open from then on."""
        requests = delegations(ctx, upto=ctx.last_n + 1)
        failed = [delegation for delegation in requests if delegation.n >= self.since and _failed(delegation)]
        self.since = ctx.last_n + 1
        if state.is_over or not failed:
            return state
        failed_names = {delegation.name for delegation in requests if _failed(delegation)}
        messages, open_names = [*state.messages], [*state.open_tools]
        for delegation in failed:
            outcome = await self._substitutes(delegation, failed_names, ctx)
            value: Any = outcome.value if outcome.ok else {}
            names = [str(name) for name in value.get("agents", ())]
            note = self.kit.prompts.get("replanning").render(agent=delegation.name, others=names)
            lines = "\n".join(str(line) for line in value.get("lines", ()))
            source = Source(kind="agent", ref="registered")
            listing = (TextBlock(text=lines, source=source, trust=outcome.trust),) if names else ()
            messages.append(Message(role="user", content=(TextBlock(text=note, trust=Trust.SYSTEM), *listing)))
            open_names += [name for name in names if name not in open_names]
        return state.model_copy(update={"messages": tuple(messages), "open_tools": tuple(open_names)})

    async def _substitutes(self, delegation: TeamDelegation, failed_names: set[str], ctx: BranchContext[Any]) -> Any:
        finder = self.kit.finder or Finder(Retriever())
        substitutes = [delegate for delegate in self.delegates if delegate.agent.name not in failed_names]
        return await call_own(ctx, _search(finder, substitutes), {"task": delegation.task})


def _failed(delegation: TeamDelegation) -> bool:
    """Return True if an agent did not do what it was asked for; a denial is no failure of the agent's."""
    if delegation.purpose == VERIFICATION:
        return False
    if not delegation.outcome.ok:
        return delegation.outcome.status not in ("denied", "mistake")
    return AgentResult.model_validate(delegation.outcome.value).status is not RunStatus.COMPLETED


def _search(finder: Finder, delegates: Sequence[Delegate]) -> Tool[..., Any]:
    """Return the search among agents, as a call: what was found once is what a resume and a replay show."""
    effect: Any = "composite" if finder.model else "pure"  # whoever embeds performs an effect

    @tool(name=FITTING, effect=effect, thread=False, cut=False)
    async def fitting_agents(ctx: RunContext[Any], task: str) -> ToolResult:
        """Return the agents that fit a sub-task best, by what they are for.

        Args:
            task: What is to be done.
        """
        schemas = [delegate.schema for delegate in delegates]
        matches = await matching(finder, schemas, task, MOST_AGENTS, ctx)
        lines, trust = lines_of(matches)
        return ToolResult(content={"agents": [match.name for match in matches], "lines": lines}, trust=trust)

    return fitting_agents
