"""`ActionEnvironment` and `@action`: an environment as a class whose methods are its actions.

    class Till(ActionEnvironment):
        \"\"\"A till with a drawer.\"\"\"

        name = "till"

        def __init__(self) -> None:
            self.is_open = False
            self.coins = 0

        @action(before=[Condition("the drawer is open", lambda self, arguments: self.is_open)])
        def put(self, amount: int) -> int:
            \"\"\"Put coins in.\"\"\"
            self.coins += amount
            return self.coins

What the instance holds under names without a leading underscore is its state: shown to agents, kept in snapshots. It is
JSON, or what `snapshot`, `restore` and `state` are overridden for.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from agentorchestra.core.conditions import NO_CONDITIONS, Condition, Conditions
from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.effects import Tag
from agentorchestra.core.errors import ToolDefinitionError, ToolError
from agentorchestra.core.ids import canonical_json, sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.actions import action_effect, tool_result
from agentorchestra.tea.calling.signatures import Signature, mistake, read_signature, schema_problems
from agentorchestra.tea.calling.tool import EffectName, effect_names

_OF_THE_COMPONENT = frozenset({"name", "version", "content_hash", "branching", "durable", "actions", "rules"})
"""Attributes that identify the component and are no state of an instance; the registry sets some on each."""


@dataclass(frozen=True)
class Action:
    """A method that is an action; callable as that method."""

    function: Callable[..., Any]
    schema: ToolSchema  # name, description and JSON schema of the arguments
    signature: Signature  # turns a model's arguments into the method's
    mutates: bool  # whether it changes the state
    tags: frozenset[Tag]  # what it touches besides the environment
    composite: bool  # whether it does nothing but perform effects
    before: tuple[Condition, ...]  # as of `after`, their `holds` takes the instance first
    after: tuple[Condition, ...]

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self.function.__get__(instance, owner)


@overload
def action(function: Callable[..., Any], /) -> Any: ...
@overload
def action(
    *,
    effect: EffectName | Iterable[EffectName] | None = None,
    before: Sequence[Condition] = (),
    after: Sequence[Condition] = (),
) -> Callable[[Callable[..., Any]], Any]: ...
def action(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: EffectName | Iterable[EffectName] | None = None,
    before: Sequence[Condition] = (),
    after: Sequence[Condition] = (),
) -> Any:
    """Make a method, sync or async, an action; bare (`@action`) or with arguments.

    Its types and its docstring make the schema, as they do for `@tool`; a parameter annotated as `RunContext`, or a
    first one called `ctx`, takes the run's context. An underscore at the end of the method's name is not the action's.

    Args:
        function: the method, when used bare.
        effect: what it touches, for policy. None: it changes the environment's state alone, so a snapshot follows it
            and it is never silently repeated. `"read"`, alone or with `"network"`: it only looks. `"composite"`: it
            does nothing but perform effects: it asks a model or a person, and acts on its own environment through
            `call`; it holds nothing of the instance, and is entered again by a resume. Any other, such as
            `("write", "network")`: it changes the environment and touches that too.
        before: what must hold; `holds(instance, arguments)`.
        after: what holds when it is done; `holds(instance, arguments, result)`.

    Raises:
        ToolDefinitionError: with the sentence that says what to change.
    """
    if function is not None:
        return make_action(function, sys._getframe(1).f_locals)
    return lambda function: make_action(function, sys._getframe(1).f_locals, effect, before, after)


def make_action(
    function: Callable[..., Any],
    namespace: Mapping[str, Any],
    effect: EffectName | Iterable[EffectName] | None = None,
    before: Sequence[Condition] = (),
    after: Sequence[Condition] = (),
) -> Action:
    """Return a method as an action; see `action`. Names in its annotations are looked up in the namespace too."""
    name = function.__name__.rstrip("_")
    if name == "state":
        raise ToolDefinitionError("an action cannot be named 'state': that is what an environment shows")
    if name == "state_for" or callable(getattr(ActionEnvironment, function.__name__, None)):
        raise ToolDefinitionError(f"an action cannot be named {name!r}: environments have that; take another name")
    effects = effect_names(f"action {name!r}", effect, (*Tag, "composite"))
    composite = "composite" in effects
    if composite and len(effects) > 1:
        raise ToolDefinitionError(
            f"action {name!r} cannot be composite and {', '.join(sorted(effects - {'composite'}))}: a composite action "
            f"touches nothing itself; give 'composite' alone, or some of {', '.join(Tag)}"
        )
    if composite and (before or after):
        raise ToolDefinitionError(f"action {name!r} is composite: put its conditions on the actions that it calls")
    signature = read_signature(function, name, namespace)
    schema = ToolSchema(name=name, description=signature.description, parameters=signature.parameters)
    looks = "read" in effects and effects <= {"read", "network"}
    # Writing is writing the environment, and so is reading where there is nothing else to read.
    own = {"composite", "write", *(("read",) if effects == {"read"} else ())}
    tags = frozenset(Tag(effect) for effect in effects - own)
    # What a composite action changes is changed by the actions that it calls.
    return Action(function, schema, signature, not (looks or composite), tags, composite, tuple(before), tuple(after))


class ActionEnvironment:
    """An environment whose actions are its methods marked with `@action`; see this module."""

    name: str = ""
    version: str = "1.0.0"
    branching: Literal["stateless", "snapshot", "none"] = "snapshot"
    durable: bool = False
    content_hash: str = ""
    _actions: ClassVar[Mapping[str, Action]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Collects the actions; what is inherited is an action too."""
        super().__init_subclass__(**options)
        attributes = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
        cls._actions = {value.schema.name: value for value in attributes.values() if isinstance(value, Action)}
        cls.name = cls.__dict__.get("name") or cls.name or cls.__name__.lower()
        cls.content_hash = sha256_json([_source(cls), cls.name, [spec.schema.digest for spec in cls._actions.values()]])

    def actions(self) -> tuple[ToolSchema, ...]:
        return tuple(spec.schema for spec in self._actions.values())

    def mutates(self, action: str) -> bool:
        return self._actions[action].mutates

    def tags(self, action: str) -> frozenset[Tag]:
        return self._actions[action].tags

    def composes(self, action: str) -> bool:
        spec = self._actions.get(action)
        return spec is not None and spec.composite

    def conditions(self, action: str) -> Conditions:
        spec = self._actions.get(action)
        if spec is None or not (spec.before or spec.after):
            return NO_CONDITIONS
        pair = [
            tuple(Condition(condition.text, functools.partial(condition.holds, self)) for condition in conditions)
            for conditions in (spec.before, spec.after)
        ]
        return Conditions(*pair)

    def rules(self) -> str:
        """Return the class's docstring, and what must hold for each action."""
        lines = [inspect.cleandoc(type(self).__doc__ or "")]
        lines += [
            f"- {name}: only when {'; '.join(condition.text for condition in spec.before)}"
            for name, spec in self._actions.items()
            if spec.before
        ]
        return "\n".join(line for line in lines if line)

    async def open(self, ctx: Any) -> None:
        """Nothing to start."""

    async def close(self) -> None:
        """Nothing to end."""

    async def act(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Any:
        """Call the method; raise ToolError for arguments that do not fit, and what the method raises."""
        spec = self._actions[action]
        values, problems = spec.signature.check(dict(arguments))
        if problems:
            raise ToolError(mistake(action, problems, spec.schema.parameters))
        args, kwargs = spec.signature.bind(values, ctx)
        value = spec.function(self, *args, **kwargs)
        return await value if inspect.isawaitable(value) else value

    async def call(self, action: str, arguments: Mapping[str, JsonValue], ctx: Any) -> ToolResult:
        """Act on this environment from one of its composite actions, by an effect; raise ToolError if it fails."""
        role = getattr(ctx, "role", "agent")
        schema = self._actions[action].schema  # by which policy reads the arguments
        return tool_result(await ctx.perform(action_effect(self, action, arguments, role=role, schema=schema)))

    def _public_state(self) -> dict[str, Any]:
        attributes = vars(self).items()
        return {name: value for name, value in attributes if not name.startswith("_") and name not in _OF_THE_COMPONENT}

    async def state(self) -> tuple[Block, ...]:
        """Return what the instance holds, a line for each name."""
        lines = [f"{name}: {canonical_json(to_jsonable_python(value))}" for name, value in self._public_state().items()]
        return (TextBlock(text="\n".join(lines), source=Source(kind="environment", ref=self.name)),) if lines else ()

    async def snapshot(self) -> bytes:
        """Return what the instance holds, as JSON."""
        return json.dumps(to_jsonable_python(self._public_state()), sort_keys=True).encode()

    async def restore(self, data: bytes) -> None:
        vars(self).update(json.loads(data))


def argument_problems(
    environment: Environment, schema: ToolSchema, arguments: dict[str, JsonValue], *, closed: bool = False
) -> list[str]:
    """Return what is wrong with an action's arguments by its schema; `closed` refuses names that it does not have."""
    spec = environment._actions.get(schema.name) if isinstance(environment, ActionEnvironment) else None
    if spec is not None and spec.signature.fits(arguments):
        return []  # the schema is made of these types, and takes much longer
    return schema_problems(arguments, {**({"additionalProperties": False} if closed else {}), **schema.parameters})


def _source(cls: type) -> str:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        return f"{cls.__module__}.{cls.__qualname__}"
