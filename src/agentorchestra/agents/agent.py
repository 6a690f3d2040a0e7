"""An agent that others may delegate to: what it is for, what it speaks with, what it may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import Effect, Provenance
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.spec import AgentSpec

if TYPE_CHECKING:
    from agentorchestra.agents.kit import System

_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


@dataclass(frozen=True)
class Agent:
    """A specialised agent (the A of TEA), offered to a planner like a tool (000, sec. 4).

    Attributes:
        name: how a planner calls it, how the log names it: lower case letters, digits and `_`.
        description: what it is for and what it needs to be told; the planner chooses by it.
        tools: names it may use, of those the run has; None for all that the user gave (`tools=`), which no packaged
            agent holds.
        prompt: the name of its system prompt.
        role: which role it plays (model and temperature per role).
        max_steps: decisions it may take in one delegation.
        drive: runs it; None for the ordinary loop over its prompt and tools.
        version: of the component.
    """

    name: str
    description: str
    tools: tuple[str, ...] | None = ()
    prompt: str = "react"
    role: str = "agent"
    max_steps: int = 10
    drive: System | None = None
    version: str = "1.0.0"

    def __post_init__(self) -> None:
        """Raises ToolDefinitionError for what a planner could not call."""
        if not self.name or not set(self.name) <= _NAME_CHARS:
            raise ToolDefinitionError(
                f"an agent cannot be named {self.name!r}: its name is called like a tool's; "
                "use lower case letters, digits and '_'"
            )
        if not self.description.strip():
            raise ToolDefinitionError(
                f"agent {self.name!r} has no description, so no planner could choose it; give one"
            )
        if self.max_steps < 1:
            raise ToolDefinitionError(f"agent {self.name!r} has max_steps={self.max_steps}; it needs at least 1")

    @property
    def content_hash(self) -> str:
        """Hash of the definition; the prompt has its own."""
        tools = None if self.tools is None else list(self.tools)
        return sha256_json([self.name, self.description, tools, self.prompt, self.role, self.max_steps, self.version])

    @property
    def schema(self) -> ToolSchema:
        """How it is called: with a task, as a tool."""
        return self.schema_with(())

    def schema_with(self, models: tuple[str, ...]) -> ToolSchema:
        """The same where a call may choose from several models."""
        properties: dict[str, Any] = {
            "task": {
                "type": "string",
                "minLength": 1,
                "description": "What the agent is to do, complete: it sees nothing of your history.",
            },
            "context": {
                "type": "string",
                "description": "What is known already and helps: facts with their sources, earlier results.",
            },
        }
        if len(models) > 1:
            properties["model"] = {
                "type": "string",
                "enum": list(models),
                "description": "The model that does it, where another than the usual one fits better.",
            }
        return ToolSchema(
            name=self.name,
            description=self.description,
            parameters={
                "type": "object",
                "properties": properties,
                "required": ["task"],
                "additionalProperties": False,
            },
        )


@dataclass(frozen=True)
class Delegate:
    """An agent in the toolset of another: its schema, and the InvokeAgent of a call (agents as tools).

    Attributes:
        agent: who is called.
        tools: what it gets: names of the run's tools.
        models: names a call may choose from; fewer than two offer no choice.
        effect_of: makes the InvokeAgent effect.
        trust: of its description, which may hold those of tools.
    """

    agent: Agent
    tools: tuple[str, ...]
    models: tuple[str, ...]
    effect_of: Callable[..., Effect]
    trust: Trust = Trust.SYSTEM

    @property
    def schema(self) -> ToolSchema:
        """The agent as the caller's model sees it: never the tools behind it."""
        return self.agent.schema_with(self.models).model_copy(update={"trust": self.trust})

    def effect(self, arguments: dict[str, Any], session: Any, provenance: tuple[Provenance, ...]) -> Effect:
        """The InvokeAgent of a call whose arguments fit the schema."""
        spec = AgentSpec(
            name=self.agent.name,
            instruction=str(arguments.get("task", "")),
            context=_told(str(arguments.get("context") or ""), session, provenance),
            tools=self.tools,
            model=str(arguments.get("model") or ""),
            role=self.agent.role,
            system=self.agent.name,
            max_steps=self.agent.max_steps,
        )
        return self.effect_of(spec, session, provenance=provenance)


def _told(text: str, session: Any, provenance: tuple[Provenance, ...]) -> tuple[Block, ...]:
    if not text.strip():
        return ()
    trust = lowest(Trust.AGENT, session.seen_trust, *(one.trust for one in provenance))
    return (TextBlock(text=text, source=Source(kind="agent", ref=session.actor), trust=trust),)


__all__ = ["Agent", "Delegate"]
