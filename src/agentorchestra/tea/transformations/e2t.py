"""E2T: the actions of an environment as tools that share its state (000, app. A.2, "Environment-to-Tool")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agentorchestra.core.conditions import conditions_of
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import TransformationError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.runtime.results import ToolResult
from agentorchestra.runtime.worlds import STATE_ACTION
from agentorchestra.tea.calling.actions import action_effect, action_tags, tool_result
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool_from_schema
from agentorchestra.tea.transformations.base import Carried, Factory, Transformation, instance


def _e2t(factory: Factory, *, only: Iterable[str] | None = None, state: bool = True) -> tuple[Tool[..., Any], ...]:
    """Return the tools `ENVIRONMENT_ACTION`, and `ENVIRONMENT_state`.

    One instance of the environment belongs to each run; all its tools act on that one. What must hold before and after
    an action (`conditions`) stands in its tool's description and is checked when it is called.

    Args:
        only: the actions that become tools; all by default.
        state: whether there is a tool that shows the environment's state.

    Raises:
        TransformationError: for an action that is not there, or an environment without any.
    """
    environment = instance(factory)
    actions = {action.name: action for action in environment.actions()}
    names = list(actions) if only is None else list(only)
    for name in names:
        if name not in actions:
            raise TransformationError(
                f"environment {environment.name!r} has no action {name!r}; its actions: {', '.join(actions) or 'none'}"
            )
    if not names:
        raise TransformationError(f"environment {environment.name!r} has no actions, so there is nothing to call")
    tools = [_tool(factory, environment, actions[name]) for name in names]
    if state and STATE_ACTION not in actions:
        schema = ToolSchema(
            name=f"{environment.name}_{STATE_ACTION}",
            description=f"What {environment.name} shows now.",
            parameters={"type": "object", "properties": {}, "additionalProperties": False},
        )
        tools.append(_wrap(factory, environment, schema, STATE_ACTION, []))
    return tuple(tools)


def _tool(factory: Factory, environment: Environment, action: ToolSchema) -> Tool[..., Any]:
    conditions = conditions_of(environment, action.name).text
    schema = action.model_copy(
        update={
            "name": f"{environment.name}_{action.name}",
            "description": f"{action.description}\n\n{conditions}".strip(),
            # An action takes what its schema names, whether the schema says so or not.
            "parameters": {"type": "object", "additionalProperties": False, **action.parameters},
        }
    )
    tags = ", ".join(sorted(tag.value for tag in action_tags(environment, action.name)))
    return _wrap(factory, environment, schema, action.name, [tags])


def _wrap(factory: Factory, env: Environment, schema: ToolSchema, action: str, tags: list[str]) -> Tool[..., Any]:
    async def act(ctx: Any, **arguments: Any) -> ToolResult:
        effect = action_effect(env, action, arguments, role=ctx.role, provenance=ctx.provenance, schema=schema)
        return tool_result(await ctx.perform(effect))

    tool = tool_from_schema(
        act,
        schema,
        effect="composite",
        takes_context=True,
        source=sha256_json(["e2t", env.content_hash, action, *tags]),
        # The calls of one decision on one environment run in listed order: each sees what the one before it did.
        traits=ToolTraits(version=env.version, sequential=True, group=env.name, origin=f"environment:{env.name}"),
        trust=Trust.SYSTEM,
    )
    return tool.backed_by(Carried(environments={env.name: factory}, action=action), {env.name})


e2t: Transformation[Callable[[], Any], tuple[Tool[..., Any], ...]] = Transformation("e2t", "environment", "tool", _e2t)
"""An environment's actions as tools; see `_e2t` for the options `only` and `state`."""
