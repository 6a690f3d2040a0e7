"""The prompt of an agent: system prompt, first message, and the tail that changes from step to step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agentorchestra.agents.agent import is_top, order_trust
from agentorchestra.agents.decider import Toolset
from agentorchestra.agents.first_view import files_shown
from agentorchestra.agents.forms import material
from agentorchestra.agents.plain_answer import FILE_NAMES
from agentorchestra.agents.requests import model_of
from agentorchestra.agents.state import agent_state
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, TextBlock
from agentorchestra.core.effects import Provenance, provenance_of
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import AgentSpec
from agentorchestra.loop import STALLS_NOTED, Seen, State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.programs.functions import Functions, python_name
from agentorchestra.tea.programs.handler import MOST_CALLS
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.tools.files.folders import listing
from agentorchestra.tools.todo import render_todo


def render(prompt: Prompt, **values: Any) -> str:
    """Render a prompt with those of the values that it declares: a pinned copy may be from before others."""
    return prompt.render(**{name: value for name, value in values.items() if name in prompt.variables})


def first_message(
    spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, *, goes_on: bool = False
) -> tuple[tuple[Block, ...], tuple[Provenance, ...]]:
    """Return what an agent is told first, and its origin; only new files where it `goes_on` with a conversation."""
    manifest, top, trust = ctx.manifest, is_top(ctx), order_trust(ctx)
    files = [file for file in manifest.files if file.name in manifest.given] if goes_on else manifest.files
    in_view, seeing = files_shown(spec.context), manifest.media_models.get("image", ())
    look = "nobody" if not seeing else "read_file" if model_of(spec, ctx) in seeing else "ask_media"
    text = render(
        kit.prompts.get("task"),
        task=spec.instruction,
        original="" if top or spec.on_demand or manifest.task == spec.instruction else manifest.task,
        **listing(files),
        left_out=manifest.left_out,
        in_view=sorted(in_view),
        look=look if {file.name for file in files if file.media_type[:6] == "image/"} - in_view else "",
        output_schema=json.dumps(spec.output_schema, sort_keys=True) if spec.output_schema else "",
        tests=manifest.tests if top else "",
    )
    before: list[Block] = []
    words_only = manifest.previous is None  # of a run from before there were turns
    if top and manifest.earlier and words_only and not manifest.memory:  # a memory system says what is told of them
        # Answers of earlier runs may hold anything their agents read.
        before.append(earlier_block(ctx, kit))
    # Without a source: what an agent is told is its order, whoever gives it, and never shown as material.
    order = TextBlock(text=text, trust=trust)
    origin = Provenance(kind="task" if top else "agent", ref="" if top else "caller", trust=trust)
    # Whoever gives a file its name writes into the prompt of everybody who is told of it.
    sources = (FILE_NAMES,) if manifest.files else ()
    return (*before, order, *spec.context), (origin, *sources, *provenance_of([*before, *spec.context]))


def earlier_block(ctx: BranchContext[Any], kit: Kit) -> Block:
    """Return the session's last tasks and answers as material."""
    earlier = [turn.model_dump(mode="json") for turn in ctx.manifest.earlier]
    text = kit.prompts.get("earlier").render(earlier=earlier, session=ctx.manifest.session or "")
    return material(text, "session", "memory")


def system_text(
    prompt: str,
    spec: AgentSpec,
    ctx: BranchContext[Any],
    kit: Kit,
    *,
    native: bool,
    tools: AgentToolset,
    # `listed`, `agents`: of its tools, what stands in the prompt, and the agents among what is offered
    schemas: Sequence[ToolSchema],
    agents: Sequence[ToolSchema],
    environments: Mapping[str, Environment],
    values: Mapping[str, Any] = MappingProxyType({}),  # further variables of its prompt
) -> str:
    """Return an agent's system prompt; for one that acts by programs, with the functions that these may call."""
    code = ctx.manifest.action == "code"
    fields = ctx.manifest.reasoning == "fields"
    rules = "rules" if ctx.manifest.first_actions else "rules_before"
    text = render(
        kit.prompts.get(prompt),
        native=native or code,  # no JSON format beside the one that programs have
        code=code,
        max_tools=kit.max_calls,
        tools=_entries(schemas),
        environments=[
            {"name": name, "rules": getattr(world, rules, world.rules)()} for name, world in environments.items()
        ],
        has_todo="todo" in tools.names,
        agents=[{"name": agent.name, "description": agent.description} for agent in agents],
        max_steps=spec.max_steps,
        finish=spec.finish,
        fields=fields,
        **values,
    )
    if not code:
        return text
    agent_state(ctx).functions = functions = Functions(tools)
    acting = render(
        kit.prompts.get("code"),
        functions=[functions.text(python_name(schema.name)) for schema in schemas],
        finish_tool=tools.finish,
        most_calls=MOST_CALLS,
        sandbox=ctx.manifest.sandbox not in ("", "none"),
        fields=fields,
    )
    return f"{text}\n\n{acting}"


def _entries(schemas: Sequence[ToolSchema]) -> list[dict[str, str]]:
    return [
        {"name": tool.name, "description": tool.description, "parameters": json.dumps(tool.parameters, sort_keys=True)}
        for tool in schemas
    ]


def tail_text(
    ctx: BranchContext[Any], kit: Kit, tools: Toolset, *, lists: bool, finish: str = "done"
) -> Callable[[State, list[Seen]], str]:
    """Return what renders the end of the prompt.

    Args:
        lists: for a model without native calls: it lists opened tools.
        finish: the name of the tool that ends the agent's work.
    """
    prompt = kit.prompts.get("tail")
    opened_prompt = kit.prompts.get("opened") if lists else None

    def tail(state: State, view: list[Seen]) -> str:
        text = render(
            prompt,
            finish_tool=finish,
            step=state.step + 1,
            max_steps=state.max_steps,
            memory=state.memory if ctx.manifest.reasoning == "fields" else "",
            todo=render_todo(ctx.vars),
            repeated=state.repeated_call,
            repeats=state.repeats,
            stalls=state.stalls if state.stalls >= STALLS_NOTED else 0,
            problem=state.problem or "",
            must_answer=state.must_answer,
            candidate=state.candidate,
        )
        schemas = () if opened_prompt is None or state.must_answer else tools.open_schemas(state.open_tools)
        if opened_prompt is None or not schemas:
            return text
        # In every step anew: what is said only once may be taken out of a long history.
        return f"{opened_prompt.render(tools=_entries(schemas))}\n\n{text}"

    return tail
