"""What every system is built from: tools, prompts, models, and the handler of InvokeAgent."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentorchestra.core.budget import NO_COST, Bound
from agentorchestra.core.content import TextBlock, Trust, lowest
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Provenance, failed, provenance_of
from agentorchestra.core.errors import BudgetExhaustedError, UnknownComponentError, UnknownSystemError, UsageError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import Message, ModelSettings
from agentorchestra.core.messages import system as system_message
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import STALLS_NOTED, ModelDecider, Seen, State
from agentorchestra.models.manager import ModelManager
from agentorchestra.runtime.session import Session
from agentorchestra.tea.prompts import PromptLibrary
from agentorchestra.tea.tool import Tool
from agentorchestra.tea.toolset import AgentToolset
from agentorchestra.tools.done import done_tool
from agentorchestra.tools.todo import render_todo

System = Callable[["AgentSpec", Session[Any], "Kit"], Awaitable[AgentResult]]
"""A paradigm: from a spec and a session to a result, with everything through the session."""


@dataclass(frozen=True)
class Kit:
    """What the workspace hands to systems.

    Attributes:
        tools: every registered tool by name.
        environments: factories by name.
        prompts: packaged prompts and the workspace's overrides.
        models: profiles and clients.
        systems: by name, for sub-agents.
        max_calls: calls accepted in one decision.
    """

    tools: Mapping[str, Tool[..., Any]]
    environments: Mapping[str, Callable[[], Environment]]
    prompts: PromptLibrary
    models: ModelManager
    systems: Mapping[str, System]
    max_calls: int = 16


def tools_of(spec: AgentSpec, kit: Kit) -> list[Tool[..., Any]]:
    """The tools a spec names, plus `done` with the schema of its answer.

    Raises:
        UnknownComponentError: for a name that is not registered.
    """
    found: list[Tool[..., Any]] = []
    for name in spec.tools:
        if name in kit.environments or name == "done":
            continue
        tool = kit.tools.get(name)
        if tool is None:
            raise UnknownComponentError(f"no tool {name!r} is registered; registered: {', '.join(sorted(kit.tools))}")
        found.append(tool)
    return [*found, done_tool(spec.output_schema)]


@dataclass(frozen=True)
class AgentParts:
    """An agent's first state and its decider."""

    state: State
    decide: ModelDecider
    environments: tuple[str, ...]


def _model_facts(model: str, session: Session[Any], kit: Kit) -> tuple[bool, ModelSettings, str]:
    """Whether a model takes native calls, the parameters of its requests, and the hash of its profile.

    A replay asks no model, so it needs neither key nor client: what it cannot look up it takes from the recording.
    """
    try:
        if any(node.limits.cost_usd is not None for node in session.node.chain()):
            kit.models.require_price(model)  # dollars cannot be held for a model without a price
        client = kit.models.client(model)
    except UsageError:
        recorded = session.recorded_request() if session.run.replaying else None
        if recorded is None:
            raise
        return bool(recorded.tools), recorded.settings, ""
    profile = client.profile
    settings = ModelSettings(
        max_tokens=profile.max_tokens, temperature=profile.temperature, timeout_s=profile.timeout_s
    )
    return client.native_tools, settings, sha256_json(profile.model_dump(mode="json"))


def build_agent(spec: AgentSpec, session: Session[Any], kit: Kit, *, prompt: str) -> AgentParts:
    """An agent from its spec and the prompt it speaks with."""
    tools = tools_of(spec, kit)
    session.own_tools = {tool.name: tool for tool in tools if tool.name not in kit.tools}
    instances = {name: kit.environments[name]() for name in spec.tools if name in kit.environments}
    toolset = AgentToolset(tools, instances, role=spec.role)
    model = spec.model or session.model
    native, settings, profile_hash = _model_facts(model, session, kit)
    names = {tool.name for tool in tools}
    rendered = kit.prompts.get(prompt).render(
        native=native,
        max_tools=kit.max_calls,
        tools=[
            {"name": s.name, "description": s.description, "parameters": json.dumps(s.parameters, sort_keys=True)}
            for s in toolset.schemas()
        ],
        environments=[{"name": name, "rules": environment.rules()} for name, environment in instances.items()],
        has_todo="todo" in names,
    )
    task = kit.prompts.get("task").render(
        task=spec.instruction,
        files=[{"name": ref.name, "media_type": ref.media_type, "size": ref.size} for ref in session.manifest.files],
        context="",
        output_schema=json.dumps(spec.output_schema, sort_keys=True) if spec.output_schema else "",
    )
    # What a sub-agent is told comes from an agent that may have read anything, not from the user.
    top = session.parent is None or session.parent.parent is None
    trust = Trust.USER if top else Trust.UNTRUSTED
    told = TextBlock(text=task, trust=trust)
    origin = Provenance(kind="task" if top else "agent", ref="" if top else "caller", trust=trust)
    state = State(
        messages=(system_message(rendered), Message(role="user", content=(told, *spec.context))),
        max_steps=spec.max_steps,
        sources=(origin, *provenance_of(spec.context)),
    )
    tail_prompt = kit.prompts.get("tail")

    def tail(state: State, view: list[Seen]) -> str:
        return tail_prompt.render(
            step=state.step + 1,
            max_steps=state.max_steps,
            memory=state.memory,
            todo=render_todo(session.vars),
            repeated=state.repeated,
            repeats=state.repeats,
            stalls=state.stalls if state.stalls >= STALLS_NOTED else 0,
            problem=state.problem or "",
            must_answer=state.must_answer,
            candidate=state.candidate,
        )

    decide = ModelDecider(
        model=model,
        tools=toolset,
        tail=tail,
        native=native,
        settings=settings,
        content_hash=profile_hash,
        max_calls=kit.max_calls,
        role=spec.role,
    )
    return AgentParts(state, decide, tuple(instances))


def result_of(state: State) -> AgentResult:
    """The result of an ended state; work that the budget ended says so in its status."""
    result = state.result or AgentResult(status=RunStatus.PARTIAL, steps=state.step, memory=state.memory)
    if state.limited:
        timed = "active seconds" in state.limited
        status = RunStatus.TIMED_OUT if timed else RunStatus.BUDGET_EXHAUSTED
        return result.model_copy(update={"status": status, "report": result.report or state.limited})
    return result


class AgentHandler:
    """Executes InvokeAgent and Spawn: finds the system and hands it the child session."""

    def __init__(self, kit: Callable[[], Kit]) -> None:
        self._kit = kit

    def mode(self, effect: Effect) -> Mode:
        """Composite: entered again after a crash."""
        return Mode.COMPOSITE

    def bound(self, effect: Effect) -> Bound:
        """Composites reserve nothing themselves."""
        return NO_COST

    def redact(self, effect: Effect) -> Effect:
        """The effect as it is."""
        return effect

    async def execute(self, effect: Effect, ctx: Session[Any]) -> Outcome:
        """The result of the agent. A sub-agent without budget is an outcome: its caller can still answer."""
        kit = self._kit()
        spec = AgentSpec.model_validate(effect.arguments)
        system = find_system(spec.system, kit.systems)
        try:
            result = await system(spec, ctx, kit)
        except BudgetExhaustedError as exc:
            top = ctx.parent is None or ctx.parent.parent is None
            if top and exc.scope != ctx.branch:
                raise  # nothing is left for anybody: the end of the run
            return failed("limited", str(exc), value=ctx.partial, trust=Trust.UNTRUSTED)
        # An answer is trusted no further than what the agent saw, or content from outside would be laundered by it.
        return Outcome(value=result.model_dump(mode="json"), trust=lowest(Trust.AGENT, ctx.seen_trust))


def find_system(name: str, systems: Mapping[str, System]) -> System:
    """A system by name.

    Raises:
        UnknownSystemError: with the names there are.
    """
    try:
        return systems[name]
    except KeyError:
        raise UnknownSystemError(f"no system {name!r}; the systems: {', '.join(sorted(systems))}") from None


def agent_effect(spec: AgentSpec, session: Session[Any], *, kind: EffectKind = EffectKind.INVOKE_AGENT) -> Effect:
    """InvokeAgent (or Spawn) for a spec."""
    return Effect(
        kind=kind,
        component=f"{spec.system}@1.0.0",
        content_hash=sha256_json({name: pin.content_hash for name, pin in session.manifest.prompts.items()}),
        arguments=spec.model_dump(mode="json", exclude_defaults=True) | {"name": spec.name, "tools": list(spec.tools)},
        mode=Mode.COMPOSITE,
        role=session.role,
        purpose="agent",
    )
