from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from agentorchestra.agents.agent import System, is_top
from agentorchestra.agents.conversation import begun_with, converses
from agentorchestra.agents.driver import run_agent, run_workflow
from agentorchestra.agents.identity import run_with_identity
from agentorchestra.agents.parts.refine import refine_answer
from agentorchestra.agents.prompt import earlier_block
from agentorchestra.agents.society.actors import act
from agentorchestra.agents.state import agent_state
from agentorchestra.agents.types import Kit
from agentorchestra.agents.user_messages import user_words
from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import Effect, Mode, Outcome, failed
from agentorchestra.core.errors import BudgetExhaustedError, UnknownSystemError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.protocols import BaseHandler
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext


class AgentHandler(BaseHandler):
    """Executes InvokeAgent: finds the system and hands it the child's context."""

    fixed_mode = Mode.COMPOSITE  # entered again after a crash

    def __init__(self, kit: Callable[[], Kit]) -> None:
        self._kit = kit

    async def execute(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome:
        """Run the agent. A sub-agent without budget is an outcome: its caller can still answer."""
        kit = self._kit()
        spec = AgentSpec.model_validate(effect.arguments)
        depth = sum(1 for _ in ctx.node.chain()) - 2  # below the run and its top agent
        if depth > kit.max_depth:
            return failed(
                "denied",
                f"{spec.name} would be an agent {depth} levels below the run's top agent, and {kit.max_depth} are "
                "allowed (setting max_depth); do this part here, or say what is missing",
            )
        if (begins := begun_with(ctx)) is not None:  # the run's state holds what came from there, whoever goes on
            ctx.seen.add(begins.sources)
        if _needs_earlier(spec, ctx, kit):
            spec = spec.model_copy(update={"context": (earlier_block(ctx, kit), *spec.context)})
        if messages := user_words(ctx, kit.prompts, spec.instruction):
            spec = spec.model_copy(update={"context": (*messages, *spec.context)})
        try:
            result = await self._drive(spec, ctx, kit, is_spawned=self.fixed_mode is Mode.BESIDE)
            if is_top(ctx):
                result = await refine_answer(result, spec, ctx, kit)
        except BudgetExhaustedError as exc:
            top = ctx.parent is None or ctx.parent.parent is None
            if top and exc.scope != ctx.branch:
                raise  # nothing is left for anybody: the end of the run
            return failed("limited", str(exc), value=ctx.partial, trust=Trust.UNTRUSTED)
        # An answer is trusted no further than what the agent saw, or content from outside would be laundered by it.
        return Outcome(
            value=result.log_json(),
            trust=lowest(Trust.AGENT, ctx.seen_trust),
            usage=agent_state(ctx).usage,
            artifacts=result.artifacts,
        )

    async def _drive(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, *, is_spawned: bool) -> AgentResult:
        """Run an agent or a system; who takes part in a society works from mention to mention."""
        agent = kit.agents.get(spec.system)
        if agent is None:
            return await find_system(spec.system, kit.systems, kit.absent)(spec, ctx, kit)
        if is_spawned and agent.name in ctx.run.mail.society.members:
            return await act(spec, ctx, kit)
        own = agent.drive
        drive: System = partial(run_agent, prompt=agent.prompt) if own is None else partial(run_workflow, drive=own)
        instance = spec.instance or (agent.name if agent.remembers else "")
        if not instance:
            return await drive(spec, ctx, kit)
        return await run_with_identity(spec, ctx, kit, drive, agent=agent.name, instance=instance)


class SpawnHandler(AgentHandler):
    """Executes Spawn: the agent works beside the branch that asked for it."""

    fixed_mode = Mode.BESIDE


def _needs_earlier(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> bool:
    """Return True for who has the user's words of a later turn and not the conversation that they belong to."""
    manifest = ctx.manifest
    if manifest.previous is None or not manifest.earlier or spec.on_demand:
        return False
    if is_top(ctx):
        return not manifest.memory and not converses(spec.system, kit.agents)
    return spec.instruction == manifest.task


def find_system(
    name: str, systems: Mapping[str, System], absent: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> System:
    """Return a system by name.

    Args:
        absent: agents that a run does not have, with the environments and tools that it would have to have for them.

    Raises:
        UnknownSystemError: with the names there are.
    """
    if name in absent:
        raise UnknownSystemError(
            f"the agent {name!r} is not in this run: it is there in runs that have {', '.join(absent[name])}; name "
            "environments with environments=[...], and see that the settings leave the tools on"
        )
    try:
        return systems[name]
    except KeyError:
        guess = did_you_mean(name, systems, f"the systems: {', '.join(sorted(systems))}")
        raise UnknownSystemError(f"no system {name!r}; {guess}") from None
