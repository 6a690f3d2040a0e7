"""A2E: an agent as an environment that others act in: a market, a human (000, app. A.2, "Agent-to-Environment")."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import JsonValue

from agentorchestra.agents.agent import Agent, agent_effect
from agentorchestra.agents.identity import kept_name
from agentorchestra.agents.transformations.a2t import answer_of, spec_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.effects import Tag
from agentorchestra.core.errors import TransformationError
from agentorchestra.core.ids import canonical_json, sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.transformations.base import Carried, Transformation, carried_by, first_twice, instance

TELL = ToolSchema(
    name="tell",
    description="Say something to it; its reply comes back.",
    parameters={
        "type": "object",
        "properties": {"message": {"type": "string", "minLength": 1, "description": "What it is told."}},
        "required": ["message"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True)
class AgentFactory:
    """Makes the environment: what `a2e` gives and `Workspace(environments=...)` takes."""

    name: str
    agent: Agent
    moves: tuple[ToolSchema, ...]
    words: str

    @property
    def carried(self) -> Carried:
        return Carried(agents=(self.agent,))

    @property
    def uses(self) -> frozenset[str]:
        """Return what its agent may use though whoever acts may not."""
        return frozenset(self.agent.reach())

    def __call__(self) -> AgentEnvironment:
        return AgentEnvironment(self)


class AgentEnvironment:
    """An agent as an environment: an action is a message to it, its reply the result, its state what it showed last.

    It is one individual: it remembers everything that was done in it, by whomever.
    """

    branching: Literal["stateless", "snapshot", "none"] = "snapshot"
    durable = True  # its state lies in the log, under `a2e:NAME`
    composite = True

    def __init__(self, kind: AgentFactory) -> None:
        self._kind = kind
        self.name = kind.name
        self.version = kind.agent.version
        self.description = kind.agent.description
        moves = [move.digest for move in kind.moves]
        self.content_hash = sha256_json(["a2e", kind.name, kind.agent.content_hash, moves, kind.words])
        self._shown = ""
        self._kept: JsonValue = []

    def actions(self) -> tuple[ToolSchema, ...]:
        return self._kind.moves

    def mutates(self, action: str) -> bool:
        return True

    def tags(self, action: str) -> frozenset[Tag]:
        """Return none of its own: what the agent does is judged where it does it."""
        return frozenset()

    def rules(self) -> str:
        return self._kind.words or f"{self._kind.agent.description}\n{self._kind.agent.profile}".strip()

    async def open(self, ctx: Any) -> None:
        snapshot = ctx.vars.get(self._var)
        if isinstance(snapshot, dict):
            self._take(snapshot)

    async def close(self) -> None:
        """Hold nothing, release nothing."""

    async def act(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Any:
        """Tell the agent; return its reply. Raise ToolError if it refuses, with its reason."""
        agent, instance = self._kind.agent, self.name
        memory = kept_name(agent.name, instance)
        before = ctx.vars.get(memory)
        # Whoever acts may not know what others did here; the environment does.
        ctx.vars[memory] = json.loads(json.dumps(self._kept))
        spec = spec_of(agent, self._message(action, arguments), ctx, instance=instance, by=self.name)
        outcome = await ctx.perform(agent_effect(spec, ctx, provenance=ctx.provenance))
        self._kept = json.loads(json.dumps(ctx.vars.get(memory, [])))
        ctx.vars[memory] = before
        try:
            reply = answer_of(outcome).content
            self._shown = reply if isinstance(reply, str) else canonical_json(reply)
        finally:
            ctx.vars[self._var] = self._state()
        return reply

    def _message(self, action: str, arguments: dict[str, JsonValue]) -> str:
        if self._kind.moves == (TELL,):
            return str(arguments["message"])
        return canonical_json({"action": action, "arguments": arguments})

    @property
    def _var(self) -> str:
        return f"a2e:{self.name}"

    def _state(self) -> dict[str, JsonValue]:
        return {"shown": self._shown, "kept": json.loads(json.dumps(self._kept))}

    def _take(self, state: dict[str, Any]) -> None:
        self._shown, self._kept = str(state.get("shown", "")), state.get("kept", [])

    async def state(self) -> tuple[Block, ...]:
        return (TextBlock(text=self._shown, source=Source(kind="environment", ref=self.name)),) if self._shown else ()

    async def snapshot(self) -> bytes:
        return json.dumps(self._state(), sort_keys=True).encode()

    async def restore(self, data: bytes) -> None:
        self._take(json.loads(data))


def _a2e(agent: Agent, *, name: str = "", actions: Sequence[ToolSchema] | None = None, rules: str = "") -> AgentFactory:
    """Return an environment with the agent behind it.

    Args:
        agent: the agent; nobody is offered it otherwise.
        name: of the environment; the agent's by default.
        actions: what others may do in it; the agent is told `{"action": ..., "arguments": ...}`. By default the moves
            that an agent made by `e2a` accepts, else `tell(message)`.
        rules: for whoever acts; by default what the agent says of itself.

    Raises:
        TransformationError: for two actions of one name, or one called `state`.
    """
    moves = tuple(actions) if actions is not None else moves_of(agent) or (TELL,)
    names = [move.name for move in moves]
    twice = first_twice([*names, "state"])
    if twice is not None or not moves:
        problem = "it needs at least one action" if not moves else f"two of its actions are called {twice!r}"
        raise TransformationError(f"{agent.name!r} cannot be an environment: {problem} ('state' is what it shows)")
    return AgentFactory(name or agent.name, agent, moves, rules)


def moves_of(agent: Agent) -> tuple[ToolSchema, ...]:
    """Return the moves that an agent accepts from others: those of the environment it acts for."""
    names: tuple[str, ...] | None = getattr(agent.drive, "accepts", None)
    own = str(getattr(agent.drive, "environment", ""))
    if names is None or own not in carried_by(agent).environments:
        return ()
    environment = instance(carried_by(agent).environments[own])
    return tuple(action for action in environment.actions() if action.name in names)


a2e: Transformation[Agent, AgentFactory] = Transformation("a2e", "agent", "environment", _a2e)
"""An agent as an environment; see `_a2e` for its options."""


async def _ask(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    return AgentResult(answer=await ctx.ask(spec.instruction), steps=1)


def human(name: str = "human", description: str = "A human who is asked, and answers when there is time.") -> Agent:
    """Return a human as an agent, so that the actions of `a2e(human())` are questions to that human.

    A question that nobody can answer now makes the run wait, as every question does.

    Args:
        description: who it is and what to ask.
    """
    return Agent(name=name, description=description, role="human", max_steps=1, drive=_ask)
