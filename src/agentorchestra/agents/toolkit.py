"""The tools of an agent: its own, those made for it, the actions of its environments, other agents."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from agentorchestra.agents.search.tool import searching
from agentorchestra.agents.state import agent_state
from agentorchestra.agents.trace import CALLED_BY_CODE
from agentorchestra.agents.types import Kit
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.permission import OF_EVERY_AGENT
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.calling.toolset import AgentToolset, Offered
from agentorchestra.tea.retrieval.discovery import OPEN_TOOLS
from agentorchestra.tools.done import done_tool

CODE_TOOL = "python"
"""Who has this tool may run programs in the sandbox, and so may call what is one."""


async def toolset_of(
    spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, offers: Sequence[Offered], own: Sequence[Tool[..., Any]] = ()
) -> tuple[AgentToolset, Mapping[str, Environment]]:
    """Return what an agent may call, and the environments it works in.

    Args:
        own: tools made for it alone; without one that ends its work it gets `done`.

    Raises:
        UnknownComponentError: for a tool that is not registered.
    """
    finish = () if any(tool.traits.finishes for tool in own) else (done_tool(spec.output_schema),)
    candidates = [*searching(_named_tools(spec, kit), spec, ctx), *finish, *own]
    new_tools = await _made_tools(spec, ctx, kit)
    tools = [*(tool for tool in candidates if tool.name not in new_tools), *new_tools.values()]
    agent_state(ctx).own_tools = {tool.name: tool for tool in tools if tool is not kit.tools.get(tool.name)} | new_tools
    environments = {name: kit.environments[name]() for name in spec.tools if name in kit.environments}
    toolset = agent_state(ctx).toolset = AgentToolset(
        tools, environments, agents=offers, role=spec.role, without=_later_actions(environments, ctx)
    )
    return toolset, environments


def _later_actions(environments: Mapping[str, Environment], ctx: BranchContext[Any]) -> frozenset[str]:
    """Return the actions that environments got since a run was recorded: the requests of its replay do not offer them.

    A run that goes on has them: what it recorded before holds whatever its requests offer today.
    """
    if not ctx.run.replaying or ctx.run.ledger.upgraded_at:
        return frozenset()
    hashes = {name: pin.content_hash for name, pin in ctx.manifest.tools.items()}
    worlds = environments.values()
    changed = [world for world in worlds if hashes.get(world.name, world.content_hash) != world.content_hash]
    codec = ctx.run.ledger.codec
    recorded_names = {*codec.schemas(), *codec.words_of(OPEN_TOOLS)} if changed else set()
    later: set[str] = set()
    for environment in changed:
        names = {f"{environment.name}_{schema.name}" for schema in environment.actions()}
        later |= names - recorded_names if names & recorded_names else set()
    return frozenset(later)


def actions_of(
    spec: AgentSpec, kit: Kit, offers: Sequence[Offered] = (), own: Sequence[Tool[..., Any]] = ()
) -> list[dict[str, str]]:
    """Return what an agent may do but for ending its work, with what each is for, as prompts list it."""
    schemas = [tool.schema for tool in offers] + [tool.schema for tool in own if not tool.traits.finishes]
    rows = [{"name": name, "purpose": purpose(name, kit)} for name in spec.tools if name not in CALLED_BY_CODE]
    return [*rows, *({"name": schema.name, "purpose": _first_line(schema.description)} for schema in schemas)]


def purpose(name: str, kit: Kit) -> str:
    """Return what a tool or an environment is for, in the first line of its description."""
    tool = kit.tools.get(name)
    if tool is not None:
        return _first_line(tool.description)
    environment = kit.environments[name]()
    first = _first_line(inspect.getdoc(type(environment)) or "")
    shares = getattr(environment, "ground", "") == "folder"
    return f"{first} All agents of the run share that folder." if shares else first


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()


def _named_tools(spec: AgentSpec, kit: Kit) -> list[Tool[..., Any]]:
    tools: list[Tool[..., Any]] = []
    for name in spec.tools:
        if name in kit.environments or name in OF_EVERY_AGENT:
            continue  # environments give actions; these every agent has of its own
        tool = kit.tools.get(name)
        if tool is None:
            raise UnknownComponentError(f"no tool {name!r} is registered; registered: {', '.join(sorted(kit.tools))}")
        tools.append(tool)
    return tools


async def _made_tools(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> dict[str, Tool[..., Any]]:
    """Return the tools that were generated in this run so far, for an agent that may run such code itself."""
    agent = kit.agents.get(spec.system)
    runs_code = CODE_TOOL in spec.tools or (agent is not None and agent.tools is None)
    if kit.workshop is None or not runs_code:
        return {}
    return {tool.name: tool for tool in await kit.workshop.generated_tools(ctx)}
