"""What every agent and system is built from: tools, prompts, models, and the handler of InvokeAgent."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from agentorchestra.agents.agent import Agent, Delegate
from agentorchestra.agents.code import CodeDecider
from agentorchestra.agents.compaction import Compaction, Summariser
from agentorchestra.agents.first_view import files_shown, shown_first
from agentorchestra.agents.generation.delivery import Receiving
from agentorchestra.agents.generation.workshop import Workshop
from agentorchestra.agents.memory import memory_of
from agentorchestra.agents.state import agent_state
from agentorchestra.agents.user_messages import told_block
from agentorchestra.core.budget import NO_COST, Bound
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Provenance, failed, provenance_of
from agentorchestra.core.errors import BudgetExhaustedError, UnknownComponentError, UnknownSystemError, UsageError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import Message, ModelRequest, ModelSettings, ToolSchema
from agentorchestra.core.messages import system as system_message
from agentorchestra.core.protocols import Environment, instance_of
from agentorchestra.core.settings import RoleSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import (
    STALLS_NOTED,
    ModelDecider,
    Observe,
    Parts,
    Perceive,
    Seen,
    State,
    described,
    environment_state,
    inbox,
    linear,
)
from agentorchestra.models.limits import USUAL
from agentorchestra.models.manager import ModelManager
from agentorchestra.models.prices import CHARS_PER_TOKEN
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS
from agentorchestra.runtime.session import OF_EVERY_AGENT, Session
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.calling.toolset import AgentToolset, Offered
from agentorchestra.tea.memory.base import MemoryFactory
from agentorchestra.tea.programs.functions import Functions, python_name
from agentorchestra.tea.programs.handler import MOST_CALLS
from agentorchestra.tea.prompts.catalog import PromptLibrary
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.tea.retrieval.discovery import Discovery, Finder
from agentorchestra.tools.done import done_tool
from agentorchestra.tools.files.folders import listing
from agentorchestra.tools.todo import render_todo

CODE_TOOL = "python"
"""Who has this tool may run programs in the sandbox, and so may call what is one."""

RESULT_SHARE = 0.15
"""Part of an agent's window that one result may take; what is longer is cut, the whole kept as an artifact."""

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
        agents: by name, for planners and other agents that delegate.
        given: names of the tools and environments that the user gave, besides the packaged ones.
        choices: names of the models a delegation may choose from.
        max_calls: calls accepted in one decision.
        finder: where the tools of agents that have very many are looked for; None for one of each agent's own.
        behind: names of agents that stand behind a tool or an environment: nobody delegates to them.
        memories: makers of memory systems by name.
        apart: names of the packaged environments that only the agents have whose makers named them.
        workshop: where tools are made, None where they cannot be.
        absent: names of the agents that are in other runs only, with what those have: environments they name, tools.
    """

    tools: Mapping[str, Tool[..., Any]]
    environments: Mapping[str, Callable[[], Environment]]
    prompts: PromptLibrary
    models: ModelManager
    systems: Mapping[str, System]
    agents: Mapping[str, Agent] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    max_calls: int = 16
    finder: Finder | None = None
    behind: frozenset[str] = frozenset()
    memories: Mapping[str, MemoryFactory] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    absent: Mapping[str, Sequence[str]] = field(default_factory=dict)
    workshop: Workshop | None = None

    def delegates(
        self, session: Session[Any], *, but: tuple[str, ...] = (), leader: str = "", task: str = ""
    ) -> list[Delegate]:
        """The agents a caller may delegate to, with the tools each gets: never more than the caller has itself.

        Args:
            session: the caller's.
            but: names left out (the caller's own, for one).
            leader: the caller's name, for one that agents work for alone.
            task: the caller's own, which is handed over where a call names none.
        """
        found = []
        manifest = session.manifest
        choices = self.choices if manifest.choices is None else manifest.choices
        # What was registered since the run was created is not in it, or no resume would ask as it did.
        pinned = manifest.system != CALLS
        given = tuple(one for one in self.given if one in manifest.tools or not pinned)
        for name, agent in sorted(self.agents.items()):
            if pinned and manifest.agents and name not in manifest.agents:
                continue
            wanted = agent.reach(given)
            if name in but or name in self.behind or (agent.tools is None and not wanted):
                continue
            if agent.within and leader not in agent.within:
                continue
            held = session.capabilities
            own = agent.uses | (self.apart & {*agent.environments})
            tools = tuple(tool for tool in wanted if held is None or tool in held or tool in own)
            trust = Trust.SYSTEM
            if agent.tools is None:
                # What the user's tools are for nobody else can say: without it no planner would know when to ask.
                said, named = self._abilities(tools, session.manifest.prompt_tool_chars // 4)
                agent = replace(agent, description=f"{agent.description} It can: {said}.")
                trust = lowest(*(self.tools[name].schema.trust for name in named if name in self.tools))
            # Where it works of its own accord is no more the caller's concern than the tools it holds.
            said_of = replace(agent, environments=tuple(one for one in agent.environments if one not in self.apart))
            if said_of.profile:
                agent = replace(agent, description=f"{agent.description}\n{said_of.profile}")
            found.append(Delegate(agent, tools, choices, agent_effect, trust, task))
        return found

    def _abilities(self, tools: Sequence[str], room: int) -> tuple[str, Sequence[str]]:
        """What tools and environments are for, a phrase each, never how they are called; and of which it is said.

        Args:
            tools: their names.
            room: characters that are said of them, at most; 0 for any number.
        """
        said: list[str] = []
        left = room or math.inf
        for name in tools:
            text = self.tools[name].description if name in self.tools else f"act on {name}"
            first = text.strip().splitlines()[0].strip() if text.strip() else name.replace("_", " ")
            left -= len(first)
            if left < 0:
                said.append(f"and {len(tools) - len(said):,} further things, for which it finds the tool itself")
                return "; ".join(said), tools[: len(said) - 1]
            said.append(first.rstrip("."))
        return "; ".join(said), tools


def tools_of(spec: AgentSpec, kit: Kit) -> list[Tool[..., Any]]:
    """The tools a spec names, plus `done` with the schema of its answer.

    Raises:
        UnknownComponentError: for a name that is not registered.
    """
    found: list[Tool[..., Any]] = []
    for name in spec.tools:
        if name in kit.environments or name in OF_EVERY_AGENT:
            continue  # environments give actions; these every agent has of its own
        tool = kit.tools.get(name)
        if tool is None:
            raise UnknownComponentError(f"no tool {name!r} is registered; registered: {', '.join(sorted(kit.tools))}")
        found.append(tool)
    return [*found, done_tool(spec.output_schema)]


async def _made(spec: AgentSpec, session: Session[Any], kit: Kit) -> dict[str, Tool[..., Any]]:
    """The tools that were generated in this run so far, for an agent that may run such code itself."""
    agent = kit.agents.get(spec.system)
    runs_code = CODE_TOOL in spec.tools or (agent is not None and agent.tools is None)
    if kit.workshop is None or not runs_code:
        return {}
    return {one.name: one for one in await kit.workshop.made(session)}


@dataclass(frozen=True)
class AgentParts:
    """An agent's first state, its decider, what happens before its decisions and after its calls."""

    state: State
    decide: ModelDecider
    environments: tuple[str, ...]
    observe: tuple[Observe, ...]
    perceive: tuple[Perceive, ...] = ()


def model_of(spec: AgentSpec, session: Session[Any]) -> tuple[str, RoleSettings]:
    """An agent's model (the delegation's choice, else its role's, else the run's), and what its role sets."""
    role = session.manifest.roles.get(spec.role, RoleSettings())
    return spec.model or role.model or session.model, role


def _model_facts(
    model: str, session: Session[Any], kit: Kit, *, beside: bool = False
) -> tuple[bool, ModelSettings, str]:
    """Whether a model takes native calls, the parameters of its requests, and the hash of its profile.

    A replay asks no model, so it needs neither key nor client: what it cannot look up it takes from the recording. For
    a request beside an agent's work nothing is refused here: its outcome says why the model cannot be asked.
    """
    try:
        if not beside and any(node.limits.cost_usd is not None for node in session.node.chain()):
            for one in kit.models.chain(model):
                kit.models.require_price(one)  # dollars cannot be held for a model without a price
        client = kit.models.client(model)
    except UsageError:
        if not session.run.replaying and not beside:
            raise
        recorded = session.recorded_request(model)
        if recorded is None:  # of this agent the recording ends before a request: nothing depends on the model
            return True, ModelSettings(), ""
        return bool(recorded.tools), recorded.settings, ""
    profile = client.profile
    settings = ModelSettings(
        max_tokens=profile.max_tokens,
        temperature=profile.temperature,
        reasoning_effort=profile.reasoning_effort,
        thinking_tokens=profile.thinking_tokens,
        timeout_s=profile.timeout_s,
    )
    return client.native_tools, settings, sha256_json(profile.model_dump(mode="json"))


_OF_ROLES = ("temperature", "max_tokens", "reasoning_effort", "thinking_tokens")


def request_settings(
    model: str, role: RoleSettings, session: Session[Any], kit: Kit, *, beside: bool = False
) -> tuple[bool, ModelSettings, str]:
    """Native calls or not, the parameters of the requests of a role, and the hash of the model's profile."""
    native, settings, profile_hash = _model_facts(model, session, kit, beside=beside)
    own = {name: getattr(role, name) for name in _OF_ROLES}
    return native, settings.model_copy(update={k: v for k, v in own.items() if v is not None}), profile_hash


async def build_agent(
    spec: AgentSpec,
    session: Session[Any],
    kit: Kit,
    *,
    prompt: str,
    offered: Sequence[Offered] = (),
    receives: bool = True,
) -> AgentParts:
    """An agent from its spec and the prompt it speaks with.

    Args:
        spec: see AgentSpec.
        session: its branch.
        kit: see Kit.
        prompt: the name of its system prompt, which may declare any of the variables given here.
        offered: agents it may delegate to.
        receives: whether it gets the tools that it asks for.
    """
    tools = tools_of(spec, kit)
    made = await _made(spec, session, kit)
    tools = [*(tool for tool in tools if tool.name not in made), *made.values()]
    agent_state(session).own_tools = {tool.name: tool for tool in tools if tool.name not in kit.tools} | made
    instances = {name: kit.environments[name]() for name in spec.tools if name in kit.environments}
    toolset = AgentToolset(tools, instances, offered=offered, role=spec.role)
    model, role = model_of(spec, session)
    native, settings, profile_hash = request_settings(model, role, session, kit)
    system_prompt = kit.prompts.get(prompt)
    code = session.manifest.action == "code"
    top = is_top(session)
    told, sources = _told(spec, session, kit, top)
    agents = [one.schema for one in offered]
    shown = await shown_first(
        spec, session, kit, toolset, offered=[one.name for one in agents], code=code, provenance=sources
    )
    schemas = toolset.schemas()
    if shown is not None:
        schemas = shown.discovery.schemas(shown.opened)
        agents = [one for one in agents if one in schemas]
        told, sources = (*told, *shown.blocks), (*sources, *shown.provenance)
    listed = schemas if shown is None else shown.discovery.core
    values: dict[str, Any] = {
        "native": native or code,  # no JSON format beside the one that programs have
        "code": code,
        "max_tools": kit.max_calls,
        "tools": _described(listed),
        "environments": [{"name": name, "rules": environment.rules()} for name, environment in instances.items()],
        "has_todo": any(tool.name == "todo" for tool in tools),
        "agents": [{"name": one.name, "description": one.description} for one in agents],
        "max_steps": spec.max_steps,
        "finish": spec.finish,
        "fields": session.manifest.reasoning == "fields",
    }
    rendered = _rendered(system_prompt, **values)
    if code:
        agent_state(session).functions = functions = Functions(toolset)
        texts = [functions.text(python_name(one.name)) for one in listed]
        boxed = session.manifest.sandbox not in ("", "none")
        acting = _rendered(
            kit.prompts.get("code"),
            functions=texts,
            most_calls=MOST_CALLS,
            sandbox=boxed,
            fields=values["fields"],
        )
        rendered = f"{rendered}\n\n{acting}"
    session.sight.know((*sources, *described(schemas)))
    state = State(
        messages=(system_message(rendered), Message(role="user", content=told)),
        max_steps=spec.max_steps,
        sources=sources,
        opened=shown.opened if shown is not None else (),
    )
    tail_prompt = kit.prompts.get("tail")
    opened_prompt = kit.prompts.get("opened") if not native and not code else None
    offering = toolset if shown is None else shown.discovery

    def tail(state: State, view: list[Seen]) -> str:
        text = tail_prompt.render(
            step=state.step + 1,
            max_steps=state.max_steps,
            memory=state.memory if values["fields"] else "",
            todo=render_todo(session.vars),
            repeated=state.repeated,
            repeats=state.repeats,
            stalls=state.stalls if state.stalls >= STALLS_NOTED else 0,
            problem=state.problem or "",
            must_answer=state.must_answer,
            candidate=state.candidate,
        )
        opened = () if opened_prompt is None or state.must_answer else offering.opened(state.opened)
        if opened_prompt is None or not opened:
            return text
        # In every step anew: what is said only once may be taken out of a long history.
        return f"{opened_prompt.render(tools=_described(opened))}\n\n{text}"

    decide = (CodeDecider if code else ModelDecider)(
        model=model,
        tools=offering,
        tail=tail,
        native=native and not code,
        settings=settings,
        content_hash=profile_hash,
        max_calls=kit.max_calls,
        role=spec.role,
        plain=spec.output_schema is None,
        text_ends=spec.finish == "text",
        fields=values["fields"],
        keeps_tools=bool(session.manifest.first_tools),
        forces=model in session.manifest.forced,
    )
    compaction = _compaction(spec, session, kit, model, settings)
    agent_state(session).result_chars = int(compaction.window * RESULT_SHARE * CHARS_PER_TOKEN)
    if kit.workshop is None or not receives:
        return AgentParts(state, decide, tuple(instances), (compaction,))
    discovery = shown.discovery if shown is not None and isinstance(shown.discovery, Discovery) else None
    given = Receiving(kit.workshop, toolset, discovery, kit.prompts, session.manifest.prompt_tool_chars, code)
    return AgentParts(state, decide, tuple(instances), (given.observe, compaction), (given.perceive,))


def _rendered(prompt: Prompt, **values: Any) -> str:
    """A prompt with those of the values that it declares: a copy of it, or a pinned one, may be from before others."""
    return prompt.render(**{name: one for name, one in values.items() if name in prompt.variables})


def _described(schemas: Sequence[ToolSchema]) -> list[dict[str, str]]:
    """As prompts list tools for models that take no native calls."""
    return [
        {"name": one.name, "description": one.description, "parameters": json.dumps(one.parameters, sort_keys=True)}
        for one in schemas
    ]


def _compaction(spec: AgentSpec, session: Session[Any], kit: Kit, model: str, settings: ModelSettings) -> Compaction:
    role = session.manifest.roles.get("summariser", RoleSettings())
    name = role.model or model
    _, asked, profile_hash = request_settings(name, role, session, kit)
    prompt = kit.prompts.get("summary")
    summariser = Summariser(name, asked, window_of(name, session, kit), profile_hash, prompt)
    window = window_of(model, session, kit)
    return Compaction(window, settings.max_tokens or min(USUAL, window // 2), spec.instruction, summariser)


def window_of(model: str, session: Session[Any], kit: Kit) -> int:
    """Tokens a model can read: as the run was created, so that a replay without its client takes out the same steps."""
    pinned = session.manifest.context_windows.get(model)
    return pinned if pinned is not None else kit.models.client(model).profile.context_window


def is_top(session: Session[Any]) -> bool:
    """Whether a session is the run's top agent's: it speaks with the user, whom sub-agents never hear."""
    return session.parent is not None and session.parent.parent is None


def _told(
    spec: AgentSpec, session: Session[Any], kit: Kit, top: bool
) -> tuple[tuple[Block, ...], tuple[Provenance, ...]]:
    """What an agent is told first, and where that came from.

    A sub-agent is told by an agent: its words are trusted as far as what that one has seen.
    """
    manifest = session.manifest
    trust = Trust.USER if top else lowest(Trust.AGENT, *(one.trust for one in session.provenance))
    text = _rendered(
        kit.prompts.get("task"),
        task=spec.instruction,
        original="" if top or manifest.task == spec.instruction else manifest.task,
        **listing(manifest.files),
        left_out=manifest.left_out,
        in_view=sorted(files_shown(spec.context)),
        output_schema=json.dumps(spec.output_schema, sort_keys=True) if spec.output_schema else "",
    )
    before: list[Block] = []
    if top and manifest.earlier and not manifest.memory:  # a memory system says what is told of them
        # Answers of earlier runs may hold anything their agents read.
        earlier = kit.prompts.get("earlier").render(
            earlier=[one.model_dump(mode="json") for one in manifest.earlier], session=manifest.session or ""
        )
        before.append(TextBlock(text=earlier, source=Source(kind="memory", ref="session"), trust=Trust.UNTRUSTED))
    # Without a source: what an agent is told is its order, whoever gives it, and never shown as material.
    order = TextBlock(text=text, trust=trust)
    origin = Provenance(kind="task" if top else "agent", ref="" if top else "caller", trust=trust)
    # Whoever gives a file its name writes into the prompt of everybody who is told of it.
    named = (Provenance(kind="file", ref="names", trust=Trust.UNTRUSTED),) if manifest.files else ()
    return (*before, order, *spec.context), (origin, *named, *provenance_of([*before, *spec.context]))


async def ask_model(
    role: str,
    prompt: str,
    session: Session[Any],
    kit: Kit,
    *,
    purpose: str,
    trust: Trust,
    output_schema: dict[str, Any] | None = None,
) -> str:
    """One request beside the steps of an agent (a judge, a formatter): the reply's text, "" where it may not be asked.

    Args:
        role: whose model and parameters it uses.
        prompt: the rendered prompt.
        session: the asking agent's.
        kit: see Kit.
        purpose: says in the log what it was for.
        trust: of what stands in the prompt.
        output_schema: asks for JSON that fits it; `tea.structured.read_output` reads the reply.
    """
    chosen = session.manifest.roles.get(role, RoleSettings())
    model = chosen.model or session.model
    _, settings, profile_hash = request_settings(model, chosen, session, kit)
    if output_schema is not None:
        settings = settings.model_copy(update={"output_schema": output_schema})
    block = TextBlock(text=prompt, trust=Trust.SYSTEM)
    outcome = await session.perform(
        Effect(
            kind=EffectKind.REQUEST_MODEL,
            component=f"{model}@1.0.0",
            content_hash=profile_hash,
            request=ModelRequest(model=model, messages=(Message(role="user", content=(block,)),), settings=settings),
            mode=Mode.REPEATABLE,
            role=role,
            purpose=purpose,
            provenance=(Provenance(kind="agent", ref=session.actor, trust=trust),),
        )
    )
    return outcome.response.text if outcome.ok else ""


def request_effect(
    kit: Kit,
    session: Session[Any],
    prompt: str,
    content: Sequence[Block],
    *,
    role: str,
    model: str,
    media: Literal["named", "required"],
    values: Mapping[str, Any],
) -> Effect:
    """RequestModel for a question of a component's (`ctx.ask_model`).

    Raises:
        PromptError: there is no such prompt, or its variables are others.
    """
    chosen = session.manifest.roles.get(role, RoleSettings())
    name = model or chosen.model or session.model
    _, settings, profile_hash = request_settings(name, chosen, session, kit, beside=True)
    if media == "required":
        settings = settings.model_copy(update={"media": media})
    rules, told = kit.prompts.get(prompt).messages(**values)
    asked = (TextBlock(text=told, trust=Trust.SYSTEM),) if told else ()
    return Effect(
        kind=EffectKind.REQUEST_MODEL,
        component=f"{name}@1.0.0",
        content_hash=profile_hash,
        request=ModelRequest(
            model=name,
            messages=(system_message(rules), Message(role="user", content=(*asked, *content))),
            settings=settings,
        ),
        mode=Mode.REPEATABLE,
        role=role,
        purpose="tool",
        provenance=_one_each((*session.provenance, *provenance_of(tuple(content)))),
    )


async def run_agent(
    spec: AgentSpec,
    session: Session[Any],
    kit: Kit,
    *,
    prompt: str,
    offered: Sequence[Offered] = (),
    observe: tuple[Observe, ...] = (),
    hear: Perceive = inbox,
    receives: bool = True,
) -> AgentResult:
    """The ordinary agent: one prompt, its tools, step after step until it is done.

    Args:
        spec, session, kit: see System.
        prompt: the name of its system prompt.
        offered: agents it may delegate to.
        observe: what happens after its calls, before its history is looked after.
        hear: how a run's top agent takes what the user says in between.
        receives: whether it gets the tools that it asks for; not one who is to see agents only.
    """
    agent = await build_agent(spec, session, kit, prompt=prompt, offered=offered, receives=receives)
    shown = {name: kit.environments[name]() for name in agent.environments}
    perceive = [environment_state(f"{name}@{one.version}", instance_of(one)) for name, one in shown.items()]
    top = is_top(session)
    told = Trust.USER if top else lowest(Trust.AGENT, *(one.trust for one in session.provenance))
    working = agent_state(session).memory  # of an agent with a workflow around this loop
    memory = working or memory_of(spec, session, kit, top=top, trust=told)
    parts = Parts(
        decide=agent.decide,
        perceive=(*((hear,) if top else ()), *((memory.perceive,) if memory else ()), *agent.perceive, *perceive),
        observe=(*observe, *((memory.observe,) if memory else ()), *agent.observe),
        environments=agent.environments,
    )
    result = result_of(await linear(agent.state, session, parts))
    if memory is not None and working is None:
        await memory.end(result, session)
    return result


async def run_workflow(spec: AgentSpec, session: Session[Any], kit: Kit, drive: System) -> AgentResult:
    """An agent whose workflow is code: where it has a memory, it is told and written down around it.

    The steps of a loop in it are written down as they come; without one, what the workflow called is.
    """
    top = is_top(session)
    told = Trust.USER if top else lowest(Trust.AGENT, *(one.trust for one in session.provenance))
    memory = memory_of(spec, session, kit, top=top, trust=told)
    if memory is None:
        return await drive(spec, session, kit)
    known = await memory.begin()
    agent_state(session).memory = memory
    result = await drive(spec.model_copy(update={"context": (*spec.context, *known)}), session, kit)
    await memory.workflow(session)
    await memory.end(result, session)
    return result


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
        if told := told_block(ctx, kit.prompts, spec.instruction):
            spec = spec.model_copy(update={"context": (*told, *spec.context)})
        try:
            result = await self._drive(spec, ctx, kit)
        except BudgetExhaustedError as exc:
            top = ctx.parent is None or ctx.parent.parent is None
            if top and exc.scope != ctx.branch:
                raise  # nothing is left for anybody: the end of the run
            return failed("limited", str(exc), value=ctx.partial, trust=Trust.UNTRUSTED)
        # An answer is trusted no further than what the agent saw, or content from outside would be laundered by it.
        return Outcome(value=result.model_dump(mode="json"), trust=lowest(Trust.AGENT, ctx.seen_trust))

    async def _drive(self, spec: AgentSpec, ctx: Session[Any], kit: Kit) -> AgentResult:
        agent = kit.agents.get(spec.system)
        if agent is None:
            return await find_system(spec.system, kit.systems, kit.absent)(spec, ctx, kit)
        own = agent.drive
        drive: System = partial(run_agent, prompt=agent.prompt) if own is None else partial(run_workflow, drive=own)
        instance = spec.instance or (agent.name if agent.remembers else "")
        if not instance:
            return await drive(spec, ctx, kit)
        from agentorchestra.agents.identity import remembering  # it is made of what stands here

        return await remembering(spec, ctx, kit, drive, agent=agent.name, instance=instance)


def find_system(
    name: str, systems: Mapping[str, System], absent: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> System:
    """A system by name.

    Args:
        name: of the system.
        systems: those there are.
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
        raise UnknownSystemError(f"no system {name!r}; the systems: {', '.join(sorted(systems))}") from None


def agent_effect(
    spec: AgentSpec,
    session: Session[Any],
    *,
    kind: EffectKind = EffectKind.INVOKE_AGENT,
    provenance: tuple[Provenance, ...] = (),
) -> Effect:
    """InvokeAgent (or Spawn) for a spec.

    Args:
        spec: what it is to do.
        session: the caller's.
        kind: InvokeAgent, or Spawn for one that is joined later.
        provenance: what was in view when the caller decided.
    """
    pins = session.manifest.prompts
    hashes = {name: pin.content_hash for name, pin in pins.items()}
    if spec.system in session.manifest.agents:
        hashes[f"agent {spec.system}"] = session.manifest.agents[spec.system].content_hash
    version = session.manifest.agents[spec.system].version if spec.system in session.manifest.agents else "1.0.0"
    # The user starts the top agent; every other one is told by an agent, which may have read anything it has seen.
    told = (Provenance(kind="agent", ref=session.actor, trust=lowest(Trust.AGENT, session.seen_trust)),)
    return Effect(
        kind=kind,
        component=f"{spec.system}@{version}",
        content_hash=sha256_json(hashes),
        arguments=spec.model_dump(mode="json", exclude_defaults=True) | {"name": spec.name, "tools": list(spec.tools)},
        mode=Mode.COMPOSITE,
        role=session.role,
        purpose="agent",
        provenance=() if session.parent is None else _one_each((*provenance, *told, *provenance_of(spec.context))),
    )


def _one_each(provenance: tuple[Provenance, ...]) -> tuple[Provenance, ...]:
    return tuple(sorted(set(provenance), key=lambda one: (one.kind, one.ref, one.trust.value)))
