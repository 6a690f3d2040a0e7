"""E2A: an environment that acts by itself: an opponent, a referee (000, app. A.2, "Environment-to-Agent")."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentorchestra.agents.agent import Agent, Relationship
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Source, TextBlock
from agentorchestra.core.errors import TransformationError
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.transformations.base import Carried, Factory, Transformation, instance

PROMPT = "environment"


@dataclass(frozen=True)
class EnvironmentDriver:
    """Drives an environment's agent: what others want to do is done by the rules or refused, then it acts by itself."""

    environment: str
    accepts: tuple[str, ...]
    prompt: str
    content_hash: str

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Do a move that was asked for, then take the agent's own turn."""
        move = _move(spec.instruction)
        if move is None:
            return await run_agent(spec, ctx, kit, prompt=self.prompt)
        action, arguments = move
        environment = kit.environments[self.environment]()
        schema = next(
            (entry for entry in environment.actions() if entry.name == action and action in self.accepts), None
        )
        if schema is None:
            allowed = ", ".join(self.accepts) or "none"
            return _refusal(f"{action!r} is no move that {self.environment} accepts; it accepts: {allowed}")
        problems = schema_problems(arguments, {"additionalProperties": False, **schema.parameters})
        if problems:
            return _refusal(f"{action} does not fit: {'; '.join(problems[:5])}")
        outcome = await ctx.perform(
            action_effect(environment, action, arguments, role=spec.role, provenance=ctx.provenance)
        )
        if not outcome.ok:
            return _refusal(outcome.error or f"{action} is not possible now")
        source = Source(kind="environment", ref=self.environment)
        done = [TextBlock(text=f"{action} was done.", source=source, trust=outcome.trust), *outcome.blocks(source)]
        full_spec = spec.model_copy(update={"context": (*spec.context, *done)})
        return await run_agent(full_spec, ctx, kit, prompt=self.prompt)


def _move(text: str) -> tuple[str, dict[str, Any]] | None:
    """Return the move that a message is, None where it is words."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("action"), str):
        return None
    arguments = value.get("arguments", {})
    return (value["action"], arguments) if isinstance(arguments, dict) else None


def _refusal(sentence: str) -> AgentResult:
    return AgentResult(status=RunStatus.BLOCKED, report=sentence)


def _e2a(
    factory: Factory,
    *,
    name: str = "",
    description: str = "",
    accepts: Sequence[str] | None = None,
    prompt: str = PROMPT,
    role: str = "environment",
    max_steps: int = 6,
    objectives: tuple[str, ...] = (),
    relationships: tuple[Relationship, ...] = (),
) -> Agent:
    """Return an agent that acts for the environment, in the run's one instance of it.

    It is told what others want to do, in words or as a move `{"action": ..., "arguments": {...}}`. A move is done if
    the environment's schema and conditions allow it, else refused with the reason, without asking a model. Then the
    agent has its turn: it sees the state, with whatever others did meanwhile, and acts as it sees fit.

    Args:
        name: of the agent; the environment's by default.
        description: what it is to others; by default the environment's rules.
        accepts: actions that others may ask for; all by default.
        prompt: the name of its system prompt.
        role, max_steps, objectives, relationships: see Agent.

    Raises:
        TransformationError: for an action that is not there.
    """
    environment = instance(factory)
    actions = [schema.name for schema in environment.actions()]
    open_actions = actions if accepts is None else list(accepts)
    for action in open_actions:
        if action not in actions:
            raise TransformationError(
                f"environment {environment.name!r} has no action {action!r} to accept; its actions: "
                f"{', '.join(actions) or 'none'}"
            )
    return Agent(
        name=name or environment.name,
        description=description or environment.rules() or f"{environment.name}, which acts by itself.",
        tools=(),
        prompt=prompt,
        role=role,
        max_steps=max_steps,
        drive=EnvironmentDriver(environment.name, tuple(open_actions), prompt, environment.content_hash),
        version=environment.version,
        objectives=objectives,
        relationships=relationships,
        environments=(environment.name,),
        carried=Carried(environments={environment.name: factory}),
    )


e2a: Transformation[Callable[[], Any], Agent] = Transformation("e2a", "environment", "agent", _e2a)
"""An environment as an agent; see `_e2a` for its options."""
