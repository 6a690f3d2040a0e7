"""T2E: tools as an environment with one shared state and rules of when what may be done (000, app. A.2)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pydantic import JsonValue

from agentorchestra.core.conditions import Condition, Conditions, untrue
from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.effects import Mode, Outcome, Tag
from agentorchestra.core.errors import TransformationError
from agentorchestra.core.ids import canonical_json, sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.tea.calling.actions import tool_result
from agentorchestra.tea.calling.signatures import source_of
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.transformations.base import Carried, Transformation, carried_by, first_twice, instance, tools_in

Branching = Literal["stateless", "snapshot", "none"]


@dataclass(frozen=True)
class Rule:
    """When an action is allowed: in words, and as a function of the shared state."""

    text: str
    allows: Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class ToolsFactory:
    """Makes the environment; what `t2e` gives and `Workspace(environments=...)` takes."""

    name: str
    version: str
    description: str
    tools: Mapping[str, Tool[..., Any]]  # by action
    state: Mapping[str, JsonValue]  # the names of `ctx.vars` that the tools share, with their first values
    rules: Mapping[str, tuple[Rule, ...]]  # by action
    words: str  # the rules for whoever acts, besides those of the actions
    shows: str = ""  # the action whose result is what is seen, looked at again after each other action

    @property
    def carried(self) -> Carried:
        return Carried(tools=tuple(self.tools.values()))

    @property
    def uses(self) -> frozenset[str]:
        """The tools: its actions may use them though whoever acts may not."""
        return frozenset(tool.name for tool in self.tools.values())

    def __call__(self) -> ToolsEnvironment:
        return ToolsEnvironment(self)


class ToolsEnvironment:
    """Tools as an environment: each action calls one, through the door; `ctx.vars` of the tools is its state.

    The tools see and change the shared names in `ctx.vars` as they always do; whoever acts does not see them there.
    """

    durable = True  # its state lies in the log, under `t2e:NAME`
    composite = True

    def __init__(self, kind: ToolsFactory) -> None:
        self._kind = kind
        self.name = kind.name
        self.version = kind.version
        self.description = kind.description or f"{'; '.join(_summary(tool) for tool in kind.tools.values())}."
        tools = {action: tool.content_hash for action, tool in kind.tools.items()}
        rules = [[action, rule.text, source_of(rule.allows)] for action, group in kind.rules.items() for rule in group]
        made_of = [kind.name, kind.version, kind.description, tools, dict(kind.state), rules, kind.words]
        self.content_hash = sha256_json(["t2e", *made_of, *([kind.shows] if kind.shows else [])])
        self.branching: Branching = _branching(list(kind.tools.values()))
        self._state: dict[str, JsonValue] = copy.deepcopy(dict(kind.state))
        self._seen: JsonValue = None  # what was seen last, as the outcome of `shows` has it; None for nothing yet

    def actions(self) -> tuple[ToolSchema, ...]:
        return tuple(tool.schema.model_copy(update={"name": name}) for name, tool in self._kind.tools.items())

    def mutates(self, action: str) -> bool:
        """Return False only for what reads, where there is no shared state, which any tool may change."""
        tool = self._kind.tools[action]
        reads = tool.mode is not Mode.ONCE and tool.tags and tool.tags <= {Tag.READ, Tag.NETWORK}
        return bool(self._kind.state) or not reads

    def tags(self, action: str) -> frozenset[Tag]:
        """Return none: the tool's are judged when it is called."""
        return frozenset()

    def conditions(self, action: str) -> Conditions:
        rules = self._kind.rules.get(action, ())
        return Conditions(before=tuple(Condition(rule.text, partial(self._allows, rule)) for rule in rules))

    def _allows(self, rule: Rule, arguments: Mapping[str, Any]) -> bool:
        return bool(rule.allows(copy.deepcopy(self._state)))

    def rules(self) -> str:
        lines = [self._kind.words] if self._kind.words else []
        for name, rules in self._kind.rules.items():
            lines += [f"- {name}: only when {'; '.join(rule.text for rule in rules)}"] if rules else []
        return "\n".join(lines)

    async def open(self, ctx: Any) -> None:
        state = ctx.vars.get(self._var)
        if isinstance(state, dict):
            self._state = state
        self._seen = ctx.vars.get(self._seen_var)

    async def close(self) -> None:
        """Nothing is held."""

    async def act(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Any:
        """Call the tool with the shared state in its `ctx.vars`; take back what it left there, and look again."""
        outcome = await self._call(action, arguments, ctx)
        if shows := self._kind.shows:
            seen = outcome if action == shows else await self._call(shows, {}, ctx)
            self._seen = seen.value if seen.ok else f"{self.name} could not be looked at: {seen.error}"
            ctx.vars[self._seen_var] = copy.deepcopy(self._seen)
        return tool_result(outcome).content

    async def _call(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Outcome:
        outside = {name: ctx.vars.get(name) for name in self._kind.state}
        for name, value in self._state.items():
            ctx.vars[name] = copy.deepcopy(value)
        outcome: Outcome = await ctx.call_tool(self._kind.tools[action].name, **arguments)
        self._state = {name: copy.deepcopy(ctx.vars.get(name)) for name in self._kind.state}
        for name, value in outside.items():
            ctx.vars[name] = value
        ctx.vars[self._var] = copy.deepcopy(self._state)
        return outcome

    @property
    def _var(self) -> str:
        return f"t2e:{self.name}"

    @property
    def _seen_var(self) -> str:
        return f"t2e:{self.name}:seen"

    async def state(self) -> tuple[Block, ...]:
        lines = [f"{name}: {canonical_json(value)}" for name, value in self._state.items()]
        allowed = [name for name in self._kind.tools if not untrue(self.conditions(name).before, {})]
        lines += [f"allowed now: {', '.join(allowed) or 'nothing'}"] if self._kind.rules else []
        source = Source(kind="environment", ref=self.name)
        shows = self._kind.shows
        lines += [f"nothing was seen yet; {self.name}_{shows} shows it"] if shows and not self._seen else []
        blocks = (TextBlock(text="\n".join(lines), source=source),) if lines else ()
        return (*blocks, *(Outcome(value=self._seen, trust=Trust.UNTRUSTED).blocks(source) if self._seen else ()))

    async def snapshot(self) -> bytes:
        fields = {"state": self._state, "seen": self._seen} if self._kind.shows else self._state
        return json.dumps(fields, sort_keys=True).encode()

    async def restore(self, data: bytes) -> None:
        fields = json.loads(data)
        self._state, self._seen = (fields["state"], fields["seen"]) if self._kind.shows else (fields, None)


def _t2e(
    tools: Tool[..., Any] | Sequence[Tool[..., Any]],
    *,
    name: str = "",
    description: str = "",
    state: Mapping[str, JsonValue] | None = None,
    rules: Mapping[str, Rule | Sequence[Rule]] | None = None,
    words: str = "",
    shows: str = "",
    version: str = "1.0.0",
) -> ToolsFactory:
    """Return an environment whose actions are the tools.

    Args:
        tools: one or several. Those that `e2t` made get their actions' names back.
        state: the names of `ctx.vars` that the tools share, with their first values (JSON).
        rules: by action: when it is allowed.
        words: further rules, for whoever acts.
        shows: the action that looks, such as one that takes a picture of a screen; it needs no arguments. What it gives
            is part of the state: it is called after each other action.

    Raises:
        TransformationError: for a missing name, two tools of one name, a rule for an action that is not there, a
            state that is not JSON, something to look by that is no action or needs arguments.
    """
    members = tools_in(tools)
    if not name:
        raise TransformationError("t2e needs the environment's name; give name='...' (in compose: t2e.using(name=...))")
    actions = _actions(members)
    rule_sets = {action: (rule,) if isinstance(rule, Rule) else tuple(rule) for action, rule in (rules or {}).items()}
    for action in rule_sets:
        if action not in actions:
            raise TransformationError(
                f"there is a rule for {action!r}, which is no action of {name!r}; its actions: {', '.join(actions)}"
            )
    if shows and shows not in actions:
        raise TransformationError(f"shows={shows!r} is no action of {name!r}; its actions: {', '.join(actions)}")
    if shows and (needs := actions[shows].schema.parameters.get("required")):
        raise TransformationError(
            f"shows={shows!r} needs {', '.join(map(str, needs))} in each call; name an action that needs no arguments"
        )
    try:
        canonical_json(dict(state or {}))
    except (TypeError, ValueError) as exc:
        raise TransformationError(f"the state of {name!r} is not JSON: {exc}") from None
    return ToolsFactory(name, version, description, actions, dict(state or {}), rule_sets, words, shows)


def _actions(tools: Sequence[Tool[..., Any]]) -> dict[str, Tool[..., Any]]:
    """Return the tools by the action they become: those that `e2t` made get their actions' names back."""
    names = [carried_by(tool).action or tool.name for tool in tools]
    if first_twice(names) is not None or "state" in names:
        names = [tool.name for tool in tools]
    return dict(zip(names, tools, strict=True))


def _summary(tool: Tool[..., Any]) -> str:
    return (tool.description.strip().splitlines() or [tool.name])[0].rstrip(".")


def _branching(tools: Sequence[Tool[..., Any]]) -> Branching:
    """Return `snapshot` where the shared state is all there is: pure tools, actions of environments that can branch."""
    for tool in tools:
        behind = carried_by(tool).environments
        branches = behind and all(instance(factory).branching != "none" for factory in behind.values())
        if tool.mode is not Mode.PURE and not branches:
            return "none"
    return "snapshot"


t2e: Transformation[Any, ToolsFactory] = Transformation("t2e", "tool", "environment", _t2e)
"""Tools as an environment; see `_t2e` for its options."""
