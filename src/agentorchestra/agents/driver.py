"""The ordinary agent: one prompt, its tools, step after step until it is done; and agents whose workflow is code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from agentorchestra.agents.agent import System, is_top, order_trust
from agentorchestra.agents.citations import SORTING
from agentorchestra.agents.code import CodeDecider
from agentorchestra.agents.compaction import Compaction, Summariser
from agentorchestra.agents.conversation import begun_with, conversation, turn_messages
from agentorchestra.agents.decider import ModelDecider
from agentorchestra.agents.first_view import choose_first_view
from agentorchestra.agents.forms import limit_status
from agentorchestra.agents.handover import ToolReceiver
from agentorchestra.agents.memory import memory_of
from agentorchestra.agents.parts.base import PartWork
from agentorchestra.agents.parts.choice import chosen_parts
from agentorchestra.agents.parts.scaling import drive, weighted_decide
from agentorchestra.agents.parts.verifier import Verifier
from agentorchestra.agents.planning.evidence import SourceCheck
from agentorchestra.agents.prompt import first_message, system_text, tail_text
from agentorchestra.agents.requests import model_of, request_settings, role_of, window_of
from agentorchestra.agents.search.tool import keep_search
from agentorchestra.agents.state import agent_state
from agentorchestra.agents.toolkit import toolset_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.effects import provenance_of, union
from agentorchestra.core.errors import UsageError
from agentorchestra.core.messages import Message, ModelRequest, ModelSettings
from agentorchestra.core.messages import system as system_message
from agentorchestra.core.protocols import instance_of
from agentorchestra.core.settings import PartSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.loop import Decide, Observe, Parts, Perceive, State, descriptions, environment_state, inbox
from agentorchestra.models.limits import USUAL
from agentorchestra.models.prices import CHARS_PER_TOKEN, estimate_input_tokens
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.calling.toolset import Offered
from agentorchestra.tea.retrieval.discovery import Discovery

RESULT_SHARE = 0.15
"""Part of an agent's window that one result may take; what is longer is cut, the whole kept as an artifact."""


async def build_agent(
    spec: AgentSpec,
    ctx: BranchContext[Any],
    kit: Kit,
    *,
    prompt: str,
    offered: Sequence[Offered] = (),
    own: Sequence[Tool[..., Any]] = (),
    values: Mapping[str, Any] = MappingProxyType({}),
    receives: bool = True,
    mixture: Mapping[str, float] = MappingProxyType({}),
) -> tuple[State, Parts]:
    """Return an agent's first state and its parts, from its spec and the prompt it speaks with.

    Args:
        prompt: the name of its system prompt, which may declare any of the variables of `prompt.system_text`.
        offered: agents it may delegate to.
        own: tools made for it alone; one of them may be marked as that which ends its work, in place of `done`.
        values: further variables of its prompt.
        receives: whether it gets the tools that it asks for.
        mixture: models that decide in place of its own, with weights.

    Raises:
        UsageError: for a mixture of models with native calls and others: their prompts differ.
    """
    code = ctx.manifest.action == "code"
    toolset, environments = await toolset_of(spec, ctx, kit, offered, own)
    model = model_of(spec, ctx)
    models = [*mixture] or [model]
    requests = [request_settings(model, role_of(spec.role, ctx), ctx, kit) for model in models]
    native = requests[0][0]
    if any(request[0] is not native for request in requests):
        raise UsageError(
            f"parts.mixture names models that take native tool calls and others that do not: {', '.join(models)}; "
            "an agent's prompt is written for one kind, so name models of one kind"
        )
    before, begins = conversation(ctx, native=native and not code), begun_with(ctx)
    messages, sources = first_message(spec, ctx, kit, goes_on=bool(before))
    agents = [schema.schema for schema in offered]
    first_view = await choose_first_view(
        spec, ctx, kit, toolset, environments, agents=[agent.name for agent in agents], code=code, provenance=sources
    )
    tools = toolset if first_view is None else first_view.discovery
    schemas = all_schemas = toolset.schemas()
    if first_view is not None:
        schemas, all_schemas = first_view.discovery.schemas(first_view.open_names), first_view.discovery.core
        agents = [agent for agent in agents if agent in schemas]
        messages, sources = (*messages, *first_view.blocks), (*sources, *first_view.provenance)
    system = system_text(
        prompt,
        spec,
        ctx,
        kit,
        native=native,
        tools=toolset,
        schemas=all_schemas,
        agents=agents,
        environments=environments,
        values=values,
    )
    ctx.seen.add((*sources, *descriptions(schemas)))
    open_names = first_view.open_names if first_view is not None else ()
    state = State(
        messages=(system_message(system), Message(role="user", content=messages)),
        max_steps=spec.max_steps,
        sources=sources,
        open_tools=open_names,
    )
    if before and begins is not None:
        state = state.model_copy(
            update={
                "messages": (*state.messages[:1], *before, *turn_messages(messages[0], messages[1:])),
                "sources": union(begins.sources, sources),
                "open_tools": tuple(dict.fromkeys((*begins.opened, *open_names))),
                "overhead": estimate_input_tokens(ModelRequest(model=model, messages=(), tools=schemas)),
            }
        )
    deciders = [
        (CodeDecider if code else ModelDecider)(
            model=name,
            tools=tools,
            tail=tail_text(ctx, kit, tools, lists=not native and not code, finish=toolset.finish),
            native=native and not code,
            settings=settings,
            content_hash=profile_hash,
            max_calls=kit.max_calls,
            role=spec.role,
            plain=spec.output_schema is None,
            text_ends=spec.finish == "text",
            fields=ctx.manifest.reasoning == "fields",
            keeps_tools=bool(ctx.manifest.first_tools),
            forces=name in ctx.manifest.forced,
            finish=toolset.finish,
        )
        for name, (_, settings, profile_hash) in zip(models, requests, strict=True)
    ]
    decide: Decide = weighted_decide(deciders, [*mixture.values()]) if mixture else deciders[0]
    narrowest = min(range(len(models)), key=lambda index: window_of(models[index], ctx, kit))
    compaction = _compaction(spec, ctx, kit, models[narrowest], requests[narrowest][1])
    agent_state(ctx).result_chars = int(compaction.window * RESULT_SHARE * CHARS_PER_TOKEN)
    if before:
        state = await compaction(state, ctx)
    if kit.workshop is None or not receives:
        return state, Parts(decide, observe=(compaction,), environments=tuple(environments))
    discovery = first_view.discovery if first_view is not None and isinstance(first_view.discovery, Discovery) else None
    receiver = ToolReceiver(kit.workshop, toolset, discovery, kit.prompts, ctx.manifest.prompt_tool_chars, code)
    return state, Parts(decide, (receiver.perceive,), (receiver.observe, compaction), tuple(environments))


def _compaction(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, model: str, settings: ModelSettings) -> Compaction:
    role = role_of("summariser", ctx)
    name = role.model or model
    _, summary_settings, profile_hash = request_settings(name, role, ctx, kit)
    prompt = kit.prompts.get("summary")
    summariser = Summariser(name, summary_settings, window_of(name, ctx, kit), profile_hash, prompt)
    window = window_of(model, ctx, kit)
    return Compaction(window, settings.max_tokens or min(USUAL, window // 2), spec.instruction, summariser)


async def run_agent(
    spec: AgentSpec,
    ctx: BranchContext[Any],
    kit: Kit,
    *,
    prompt: str,
    offered: Sequence[Offered] = (),
    own: Sequence[Tool[..., Any]] = (),
    values: Mapping[str, Any] = MappingProxyType({}),
    perceive: tuple[Perceive, ...] = (),
    observe: tuple[Observe, ...] = (),
    hear: Perceive = inbox,
    receives: bool = True,
    own_parts: PartSettings | None = None,
    checked: bool = False,
) -> AgentResult:
    """Run the ordinary agent: one prompt, its tools, step after step until it is done.

    Args:
        offered: agents it may delegate to.
        own, values: tools made for it alone, further variables of its prompt; see `build_agent`.
        perceive: what it is shown in each step besides its environments.
        observe: what happens after its calls, before its history is looked after.
        hear: how a run's top agent takes what the user says in between.
        receives: whether it gets the tools that it asks for; not one who is to see agents only.
        own_parts: its system's choice of parts; for a run's top agent the run's settings go before it.
        checked: whether one of `observe` looks at the sources of its answer; else this is done here.
    """
    if not checked and not spec.looked_up and ctx.manifest.checks >= SORTING:
        observe = (SourceCheck(kit.prompts.get("verification")), *observe)
    top = is_top(ctx)
    part_settings = own_parts or PartSettings()
    part_settings = ctx.manifest.parts.over(part_settings) if top else part_settings
    if top:
        keep_search(ctx, part_settings)
    state, parts = await build_agent(
        spec,
        ctx,
        kit,
        prompt=prompt,
        offered=offered,
        own=own,
        values=values,
        receives=receives,
        mixture=part_settings.mixture or {},
    )
    environments = {name: kit.environments[name]() for name in parts.environments}
    around = [environment_state(f"{name}@{world.version}", instance_of(world)) for name, world in environments.items()]
    working = agent_state(ctx).memory  # of an agent with a workflow around this loop
    memory = working or memory_of(spec, ctx, kit, top=top, trust=order_trust(ctx), parts=part_settings)
    extras = chosen_parts(part_settings, PartWork(spec, kit, offered, own))
    parts = replace(
        parts,
        perceive=(
            *((hear,) if top else ()),
            *((memory.perceive, memory.recall) if memory else ()),
            *extras,
            *parts.perceive,
            *around,
            *perceive,
        ),
        observe=(*observe, *((memory.observe,) if memory else ()), *parts.observe),
    )
    if memory is not None and (part_settings.rollouts or 1) > 1:  # told once, and not to one of the rivals
        memory_blocks = await memory.begin()
        messages = (*state.messages, *((Message(role="user", content=memory_blocks),) if memory_blocks else ()))
        sources = union(state.sources, provenance_of(memory_blocks))
        state = state.model_copy(update={"messages": messages, "sources": sources})
    result = result_of(await drive(state, ctx, parts, part_settings, Verifier(spec, kit)))
    if memory is not None and working is None:
        await memory.record_winner(ctx)
        await memory.end(result, ctx)
    return result


async def run_workflow(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, drive: System) -> AgentResult:
    """Run an agent whose workflow is code: where it has a memory, it is told and written down around it.

    The steps of a loop in it are written down as they come; without one, what the workflow called is.
    """
    top = is_top(ctx)
    memory = memory_of(spec, ctx, kit, top=top, trust=order_trust(ctx))
    if memory is None:
        return await drive(spec, ctx, kit)
    memory_blocks = await memory.begin()
    agent_state(ctx).memory = memory
    result = await drive(spec.model_copy(update={"context": (*spec.context, *memory_blocks)}), ctx, kit)
    await memory.workflow(ctx)
    await memory.end(result, ctx)
    return result


def result_of(state: State) -> AgentResult:
    """Return the result of an ended state; work that the budget ended says so in its status."""
    result = state.result or AgentResult(status=RunStatus.PARTIAL, steps=state.step, memory=state.memory)
    if state.shortage:
        update = {"status": limit_status(state.shortage), "report": result.report or state.shortage}
        return result.model_copy(update=update)
    return result
