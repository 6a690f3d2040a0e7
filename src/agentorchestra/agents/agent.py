"""An agent that others may delegate to: what it is for, what it speaks with, what it may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance, provenance_of, union
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.frozen import computed
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.tea.transformations.base import carried_by

System = Callable[[AgentSpec, Any, Any], Awaitable[AgentResult]]
"""A paradigm: from a spec, a BranchContext and a Kit (`agents/types.py`) to a result, all of it through the door."""

USER_TOOLS = "*"  # among an agent's tools: all that the user gave, besides those that are named

_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


Relation = Literal["hierarchical", "cooperative", "competitive"]  # how two agents stand to each other (000, app. C.2.3)


@dataclass(frozen=True)
class Relationship:
    """The relationship of an agent to another one; `leads` (hierarchical only) says that it leads the other."""

    kind: Relation
    agent: str
    leads: bool = False
    note: str = ""

    @property
    def text(self) -> str:
        led = "leads" if self.leads else "is led by"
        phrase = {"hierarchical": led, "cooperative": "works with", "competitive": "competes with"}[self.kind]
        return f"{phrase} {self.agent}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Agent:
    """A specialised agent (the A of TEA), offered to a planner like a tool (000, sec. 4).

    Attributes:
        name: how a planner calls it, how the log names it: lower case letters, digits and `_`.
        description: what it is for and what it needs to be told; the planner chooses by it.
        tools: names it may use, of those the run has; None for all that the user gave (`tools=`); `*` among them
            stands for these too.
        prompt: the name of its system prompt.
        role: which role it plays (model and temperature per role).
        competencies: what it is able to do, a phrase each.
        objectives: what it works towards, a phrase each.
        relationships: how it stands to other agents.
        environments: names of the environments it works in, of those the run has.
        remembers: whether it is told its earlier tasks and answers, within a run and in later runs of its session.
        memory: the memory system it works with in every run, "" for none of its own.
        needs: tools without which it could do nothing: it belongs to the team of those runs only that have them.
        within: names of the agents and systems that it works for: nobody else delegates to it, and it belongs to runs
            only that have one of them. () for every planner.
        on_request: whether it belongs to the team of those runs only that name its environments, so that no other run
            pays for these.
        max_steps: decisions it may take in one delegation.
        drive: runs it; None for the ordinary loop over its prompt and tools.
        carried: components that it needs in the workspace besides itself (tea/transformations).
        evolvable: which of its variables (`ws.acp.vars`) a candidate may change: False for none, or their names; by
            default all of an agent of yours.
    """

    name: str
    description: str
    tools: tuple[str, ...] | None = ()
    prompt: str = "react"
    role: str = "agent"
    max_steps: int = 10
    drive: System | None = None
    version: str = "1.0.0"
    competencies: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    environments: tuple[str, ...] = ()
    remembers: bool = False
    memory: str = ""
    needs: tuple[str, ...] = ()
    on_request: bool = False
    within: tuple[str, ...] = ()
    carried: Any = field(default=None, compare=False, repr=False)
    evolvable: bool | tuple[str, ...] | None = None

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
        for name in ("competencies", "objectives", "environments", "needs", "within"):
            values = getattr(self, name)
            if isinstance(values, str) or not all(isinstance(value, str) and value.strip() for value in values):
                raise ToolDefinitionError(f"agent {self.name!r} has {name}={values!r}; give a tuple of texts")
        relationships: tuple[Any, ...] = self.relationships  # whatever was given
        for relationship in relationships:
            if not isinstance(relationship, Relationship) or relationship.kind not in get_args(Relation):
                raise ToolDefinitionError(
                    f"agent {self.name!r} has the relationship {relationship!r}; give Relationship(kind, agent), of "
                    f"which kind is one of {', '.join(get_args(Relation))}"
                )
            if relationship.agent == self.name:
                raise ToolDefinitionError(f"agent {self.name!r} has a relationship with itself; name another agent")

    @computed
    def content_hash(self) -> str:
        """Hash of the definition; the prompt has its own."""
        tools = None if self.tools is None else list(self.tools)
        parts = [self.name, self.description, tools, self.prompt, self.role, self.max_steps, self.version]
        further = {
            "competencies": self.competencies,
            "objectives": self.objectives,
            "relationships": [asdict(relationship) for relationship in self.relationships],
            "environments": self.environments,
            "remembers": self.remembers,
            "memory": self.memory,
            "needs": self.needs,
            "on_request": self.on_request,
            "within": self.within,
            "made_of": [tool.content_hash for tool in carried_by(self).tools],
            "drive": getattr(self.drive, "content_hash", ""),
        }
        # What is left out has no part in it: agents from before there were these are the same agents.
        profile = {name: value for name, value in further.items() if value}
        return sha256_json([*parts, profile] if profile else parts)

    @property
    def profile(self) -> str:
        """Return what it says of itself besides its description, a line for each kind; "" where it says nothing."""
        lines = [
            f"{heading}: {'; '.join(texts)}."
            for heading, texts in (
                ("Competencies", self.competencies),
                ("Objectives", self.objectives),
                ("Relationships", [relationship.text for relationship in self.relationships]),
                ("Environments", self.environments),
            )
            if texts
        ]
        return "\n".join(lines)

    @property
    def uses(self) -> frozenset[str]:
        """Return its own parts: it may use them though whoever calls it may not."""
        parts = carried_by(self)
        return frozenset((*(tool.name for tool in parts.tools), *parts.environments))

    def reach(self, granted_tools: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the names of the tools and environments it works with; `given` are those of the user."""
        names = (USER_TOOLS,) if self.tools is None else self.tools
        tools = dict.fromkeys(tool for name in names for tool in (granted_tools if name == USER_TOOLS else (name,)))
        return (*tools, *(environment for environment in self.environments if environment not in tools))

    def spec(self, task: str, *, tools: tuple[str, ...], context: tuple[Block, ...] = (), **more: Any) -> AgentSpec:
        """Return what it is asked to do; `more` are further fields of the spec."""
        values = {"name": self.name, "role": self.role, "system": self.name, "max_steps": self.max_steps, **more}
        return AgentSpec(instruction=task, context=context, tools=tools, **values)

    @property
    def schema(self) -> ToolSchema:
        return self.schema_with(())

    def schema_with(self, models: tuple[str, ...], *, whole: bool = False) -> ToolSchema:
        """Return the same where a call may choose from models; `whole`: the caller's task is handed over by default."""
        hint = "Its part of the task; left out, it gets the user's words." if whole else "What it is to do, complete."
        properties: dict[str, Any] = {
            "task": {"type": "string", **({} if whole else {"minLength": 1}), "description": hint},
            "context": {"type": "string", "description": "What it needs to know: facts with their places."},
        }
        if len(models) > 1:
            properties["model"] = {
                "type": "string",
                "enum": list(models),
                "description": "Where another than the usual one fits better.",
            }
        return ToolSchema(
            name=self.name,
            description=self.description,
            parameters={
                "type": "object",
                "properties": properties,
                "required": [] if whole else ["task"],
                "additionalProperties": False,
            },
        )


@dataclass(frozen=True)
class Delegate:
    """An agent in the toolset of another: its schema, and the InvokeAgent of a call (agents as tools)."""

    agent: Agent  # who is called
    tools: tuple[str, ...]  # what it gets: names of the run's tools
    models: tuple[str, ...]  # names a call may choose from; fewer than two offer no choice
    trust: Trust = Trust.SYSTEM  # of its description, which may hold those of tools
    task: str = ""  # the caller's own, which is handed over where a call names none; "" where every call has to

    @property
    def schema(self) -> ToolSchema:
        return self.agent.schema_with(self.models, whole=bool(self.task)).model_copy(update={"trust": self.trust})

    def effect(self, arguments: dict[str, Any], ctx: Any, provenance: tuple[Provenance, ...]) -> Effect:
        spec = self.agent.spec(
            str(arguments.get("task") or "").strip() or self.task,
            tools=self.tools,
            context=caller_words(str(arguments.get("context") or ""), ctx, provenance),
            model=str(arguments.get("model") or ""),
        )
        return agent_effect(spec, ctx, provenance=provenance)


def caller_words(text: str, ctx: Any, provenance: tuple[Provenance, ...]) -> tuple[Block, ...]:
    """Return what a caller says besides the task as material, trusted as far as what it has seen; () for nothing."""
    if not text.strip():
        return ()
    trust = lowest(Trust.AGENT, ctx.seen_trust, *(origin.trust for origin in provenance))
    return (TextBlock(text=text, source=Source(kind="agent", ref=ctx.actor), trust=trust),)


def is_top(ctx: Any) -> bool:
    """Return True for the branch of the run's top agent: it speaks with the user, whom sub-agents never hear."""
    return ctx.parent is not None and ctx.parent.parent is None


def order_trust(ctx: Any) -> Trust:
    """Return how far what an agent was asked to do is trusted: a sub-agent's order no further than what led to it."""
    return Trust.USER if is_top(ctx) else lowest(Trust.AGENT, *(origin.trust for origin in ctx.provenance))


def agent_effect(
    spec: AgentSpec, ctx: Any, *, kind: EffectKind = EffectKind.INVOKE_AGENT, provenance: tuple[Provenance, ...] = ()
) -> Effect:
    """Return InvokeAgent (or Spawn) for a spec; `provenance` is what was in view when the caller decided."""
    pins = ctx.manifest.prompts
    hashes = {name: pin.content_hash for name, pin in pins.items()}
    if spec.system in ctx.manifest.agents:
        hashes[f"agent {spec.system}"] = ctx.manifest.agents[spec.system].content_hash
    version = ctx.manifest.agents[spec.system].version if spec.system in ctx.manifest.agents else "1.0.0"
    # The user starts the top agent; every other one is told by an agent, which may have read anything it has seen.
    origins = (Provenance(kind="agent", ref=ctx.actor, trust=lowest(Trust.AGENT, ctx.seen_trust)),)
    return Effect(
        kind=kind,
        component=f"{spec.system}@{version}",
        content_hash=sha256_json(hashes),
        arguments=spec.model_dump(mode="json", exclude_defaults=True) | {"name": spec.name, "tools": list(spec.tools)},
        mode=Mode.COMPOSITE,
        role=ctx.role,
        purpose="agent",
        provenance=() if ctx.parent is None else union(provenance, origins, provenance_of(spec.context)),
    )
