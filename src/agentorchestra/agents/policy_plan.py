"""The request for a plan (trust/plan.py): it shows the user's own words and the run's tools, nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

from agentorchestra.agents.requests import request_settings, role_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance, Tag
from agentorchestra.core.errors import UsageError
from agentorchestra.core.messages import Message, ModelRequest, ToolSchema
from agentorchestra.core.messages import system as system_message
from agentorchestra.core.policy import PLAN
from agentorchestra.core.protocols import Environment
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.worlds import asked_environment
from agentorchestra.tea.calling.actions import action_tags
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.trust.plan import SCHEMA
from agentorchestra.trust.received import OWN_SEARCH

ROLE = "policy"
MOST_DESCRIBED = 200  # characters of the description of a tool or an argument that are shown


MOST_FIELDS = 1_000  # characters of the fields of a result that are shown; of a result with more, none


def plan_effect(kit: Kit, ctx: BranchContext[Any], words: Sequence[str], problem: str) -> Effect | None:
    """Return the request for a plan; None where the run's model cannot state one.

    Args:
        words: the user's: the task, the earlier words of a session that count here, what was said since.
        problem: why the last reply was of no use, "" for the first request.
    """
    role = role_of(ROLE, ctx)
    model = role.model or ctx.model
    try:
        client = kit.models.client(model)
    except UsageError:
        return None
    if not getattr(client, "states_plans", True):
        return None
    _, settings, profile_hash = request_settings(model, role, ctx, kit, beside=True)
    settings = settings.model_copy(update={"output_schema": SCHEMA})
    acting, reading = shown_tools(
        [kit.tools[name] for name in ctx.manifest.tools if name in kit.tools], _environments(kit, ctx)
    )
    earlier = [turn.task for turn in ctx.manifest.earlier]
    now = [words[0], *words[1 + len(ctx.manifest.earlier_words) :]]
    messages = plan_messages(kit.prompts.get(PLAN), acting, reading, now, earlier=earlier, problem=problem)
    return Effect(
        kind=EffectKind.REQUEST_MODEL,
        component=f"{model}@1.0.0",
        content_hash=profile_hash,
        arguments={"tools": [*acting], "sources": {name: line[: 2 * MOST_DESCRIBED] for name, line in reading.items()}},
        request=ModelRequest(model=model, messages=messages, settings=settings),
        mode=Mode.REPEATABLE,
        role=ROLE,
        purpose=PLAN,
        provenance=(Provenance(kind="task", trust=Trust.USER),),
    )


def plan_messages(
    prompt: Prompt,
    acting: Mapping[str, str],
    reading: Mapping[str, str],
    words: Sequence[str],
    *,
    earlier: Sequence[str] = (),
    problem: str = "",
) -> tuple[Message, ...]:
    rules, request = prompt.messages(
        acting=[*acting.values()], reading=[*reading.values()], earlier=earlier, words=words, problem=problem
    )
    return system_message(rules), Message(role="user", content=(TextBlock(text=request, trust=Trust.USER),))


def shown_tools(
    tools: Collection[Tool[..., Any]], environments: Collection[Environment] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """Return a line for each tool and action with effects, and one for each other, by name.

    Those whose words come from outside are not shown, nor tools that only work for another tool.
    """
    inner = {name for tool in tools for name in tool.uses}
    rows = [(tool.name, tool.schema, tool.tags, tool.traits.result) for tool in tools]
    for environment in environments:
        for action in environment.actions():
            rows.append((f"{environment.name}_{action.name}", action, action_tags(environment, action.name), ""))
    listing = sorted((row for row in rows if row[1].trust is not Trust.UNTRUSTED), key=itemgetter(0))
    acting = {
        name: _line(name, schema, tags) + _gives(result) for name, schema, tags, result in listing if _acts(name, tags)
    }
    reading = {
        name: f"- {name}: {_short(schema.description)}".rstrip(" :") + _gives(result)
        for name, schema, _, result in listing
        if name not in acting and name not in inner
    }
    return acting, reading


def _environments(kit: Kit, ctx: BranchContext[Any]) -> list[Environment]:
    names = sorted({*kit.given, *ctx.manifest.environments} & kit.environments.keys())
    return [asked_environment(ctx.run, name) for name in names]


def _acts(name: str, tags: frozenset[Tag]) -> bool:
    """Return True for a tool of which policy may judge a call by its arguments."""
    if tags == {Tag.EXECUTE}:
        return False  # in a sandbox without a network
    reads = Tag.NETWORK in tags and not name.startswith(OWN_SEARCH)
    return reads or bool(tags & {Tag.SEND, Tag.SPEND, Tag.WRITE, Tag.EXECUTE})


def _line(name: str, schema: ToolSchema, tags: frozenset[Tag]) -> str:
    """Return a tool as a line: `pay(to: string, amount: number = 1) [spend] Pay somebody.`"""
    required = schema.parameters.get("required", ())
    arguments = ", ".join(
        f"{argument}{'' if argument in required else '?'}: {_type(property_schema)}"
        for argument, property_schema in schema.parameters.get("properties", {}).items()
    )
    touches = f" [{', '.join(sorted(tag.value for tag in tags))}]" if tags else ""
    return f"- {name}({arguments}){touches} {_short(schema.description)}".rstrip()


def _gives(result: str) -> str:
    return f" -> {result}" if 0 < len(result) <= MOST_FIELDS else ""


def _type(schema: Mapping[str, Any]) -> str:
    kinds = [schema, *(kind for key in ("anyOf", "oneOf") for kind in schema.get(key, ()))]
    values = next((kind["enum"] for kind in kinds if "enum" in kind), None)
    names = [str(kind["type"]) for kind in kinds if "type" in kind and kind["type"] != "null"]
    type_text = " | ".join(map(str, values)) if values else " or ".join(names) or "any"
    purpose = _short(str(schema.get("description", "")))
    return f"{type_text} ({purpose})" if purpose else type_text


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_DESCRIBED else f"{line[: MOST_DESCRIBED - 1]}…"
