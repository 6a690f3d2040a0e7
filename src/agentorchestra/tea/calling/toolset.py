"""The toolset of one agent: tools and the actions of environments, as schemas and as effects."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentorchestra.core.effects import Effect, EffectKind, Provenance
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.messages import ToolCall, ToolSchema
from agentorchestra.core.names import nearest
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import first_names
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.tea.calling.environment import argument_problems
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.tea.calling.signatures import given_of, mistake, parse_arguments, schema_problems
from agentorchestra.tea.calling.tool import Tool

MOST_NAMED, MOST_COMPARED = 60, 500
"""Names in the answer to a call of one that is not there, and those that it is compared with."""


@dataclass(frozen=True)
class _Action:
    """An action of an environment instance, under the name a model calls it by: `INSTANCE_ACTION`."""

    instance: str
    environment: Environment
    action: str
    schema: ToolSchema


@dataclass(frozen=True)
class _Offer:
    agent: Offered
    schema: ToolSchema


class Offered(Protocol):
    """Something else than a tool or an action that a model may call: another agent."""

    @property
    def schema(self) -> ToolSchema:
        """How the model sees it."""

    def effect(self, arguments: dict[str, Any], ctx: Any, provenance: tuple[Provenance, ...]) -> Effect:
        """Return the effect of a call whose arguments fit the schema."""


class AgentToolset:
    """What one agent (`role`) may call: tools, `agents`, environments by instance; each name once.

    The actions in `without` are left out.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        environments: Mapping[str, Environment] | None = None,
        *,
        agents: Sequence[Offered] = (),
        role: str = "agent",
        without: Container[str] = (),
    ) -> None:
        self._role = role
        self._callable: dict[str, Tool | _Action | _Offer] = {}
        self._later: set[str] = set()
        for tool in tools:
            self.add(tool)
        for agent in agents:
            schema = agent.schema
            self._add(schema.name, _Offer(agent, schema))
        for instance, environment in (environments or {}).items():
            for schema in environment.actions():
                name = f"{instance}_{schema.name}"
                if name in without:
                    continue
                public_schema = schema.model_copy(update={"name": name})
                self._add(name, _Action(instance, environment, schema.name, public_schema))

    def add(self, tool: Tool) -> None:
        """Add one more tool; raise ToolDefinitionError if something else has its name."""
        self._add(tool.name, tool)

    def add_later(self, tool: Tool) -> None:
        """Add one more in the middle of the work: shown where it is open, behind the others."""
        self.add(tool)
        self._later.add(tool.name)

    def _add(self, name: str, entry: Tool | _Action | _Offer) -> None:
        if self._callable.get(name, entry) is not entry:
            raise ToolDefinitionError(
                f"two of the agent's tools, actions and agents are called {name!r}; give one another name (name=...)"
            )
        self._callable[name] = entry

    @property
    def finish(self) -> str:
        """The name of the tool that ends the agent's work, "" without one."""
        return next(
            (key for key, tool in self._callable.items() if isinstance(tool, Tool) and tool.traits.finishes), ""
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._callable))

    def schemas(self, open_names: Sequence[str] = ()) -> tuple[ToolSchema, ...]:
        """Return the schemas sorted by name, so that every prompt begins alike; then what came later and is open."""
        first = [self._callable[name].schema for name in self.names if name not in self._later]
        return (*first, *self.open_schemas(open_names))

    def open_schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        return (*[self._callable[name].schema for name in dict.fromkeys(names) if name in self._later],)

    def effects(self, ctx: Any) -> list[Effect]:
        """Return an effect of each name that may be called, whatever its arguments are."""
        calls = [ToolCall(id="", name=name, arguments={}) for name in self.names]
        return [self.effect(call, ctx, ()).model_copy(update={"invalid": None}) for call in calls]

    def schema(self, name: str) -> ToolSchema:
        return self._callable[name].schema

    def path(self, name: str) -> str:
        """Return where it stands in the tree category -> toolkit -> component: `mcp/github`; "" for nowhere."""
        entry = self._callable[name]
        if isinstance(entry, _Action):
            return f"environments/{entry.instance}"
        return "agents" if isinstance(entry, _Offer) else entry.traits.origin.replace(":", "/", 1)

    def effect(
        self, call: ToolCall, ctx: Any, provenance: tuple[Provenance, ...], open_names: Sequence[str] = ()
    ) -> Effect:
        entry = self._callable.get(call.name)
        if isinstance(entry, Tool):
            return effect_for(entry, call.arguments, role=self._role, provenance=provenance)
        arguments, problem = parse_arguments(call.arguments, call.name)
        if problem is not None:
            arguments = {"raw": str(call.arguments)}
        if entry is not None:
            parameters = entry.schema.parameters
            problems = [problem] if problem is not None else []
            if problem is None:
                arguments = given_of(arguments, parameters)
                if isinstance(entry, _Action):  # it takes what its schema names, whether the schema says so or not
                    problems = argument_problems(entry.environment, entry.schema, dict(arguments), closed=True)
                else:
                    problems = schema_problems(dict(arguments), parameters)
            invalid = mistake(call.name, problems, parameters) if problems else None
            if isinstance(entry, _Offer):
                effect = entry.agent.effect({} if problems else dict(arguments), ctx, provenance)
                return effect.model_copy(update={"invalid": invalid}) if invalid else effect
            return action_effect(
                entry.environment,
                entry.action,
                arguments,
                instance=entry.instance if entry.instance != entry.environment.name else "",
                role=self._role,
                provenance=provenance,
                invalid=invalid,
                schema=entry.schema,
            )
        # Of very many names the nearest is looked for elsewhere (`Discovery`), and of a very long one there is none.
        candidates = self.names if len(self.names) <= MOST_COMPARED else ()
        close = nearest(call.name, candidates)
        hint = f", did you mean {close[0]!r}" if close else ""
        return Effect(
            kind=EffectKind.INVOKE_TOOL,
            component=call.name or "unnamed",
            arguments=arguments,
            role=self._role,
            provenance=provenance,
            invalid=f"there is no tool {call.name!r}{hint}; the tools: {first_names(self.names, MOST_NAMED)}",
        )
