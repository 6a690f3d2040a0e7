"""`@tool`: a Python function as a versioned component that a model can call.

    @tool(effect=("read", "network"))
    async def page(ctx: RunContext[Deps], url: str) -> str:
        \"\"\"Read a page.

        Args:
            url: its address.
        \"\"\"

What a tool touches (`effect`) decides what a crash means for it (docs/door.md, "Effects"):

| effect | mode |
|---|---|
| `"pure"`: only its arguments and `ctx.vars` | pure: executed again freely |
| `"read"` alone | pure |
| `"read"` and `"network"` | repeatable |
| any, with `idempotent=True` | repeatable (pure stays pure) |
| `"composite"`: performs effects through `ctx` | composite: entered again |
| everything else, and no effect at all | once: never silently repeated |

A tool without `effect` is treated as doing everything (docs/security.md), and registering it says so once.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from types import CoroutineType
from typing import Any, Concatenate, Generic, Literal, get_args, overload

from typing_extensions import ParamSpec, TypeVar

from agentorchestra.core.budget import NO_COST, Bound
from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import Approval, Mode, Tag, is_undeclared
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.fields import result_fields
from agentorchestra.tea.calling.signatures import (
    SchemaArguments,
    Signature,
    mistake,
    parse_arguments,
    read_signature,
    source_of,
)
from agentorchestra.tea.calling.threads import Threads

P = ParamSpec("P", default=...)
Q = ParamSpec("Q")
R = TypeVar("R", default=Any, covariant=True)
S = TypeVar("S")

EffectName = Literal["read", "write", "network", "execute", "spend", "send", "pure", "composite"]
"""Effects that a tool or an action may declare; `pure` is for tools alone."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.-]+)?")
_NOT_TAGS = frozenset({"pure", "composite"})


@dataclass(frozen=True)
class ToolTraits:
    """The properties of a tool besides its signature."""

    version: str = "1.0.0"  # `1.2.0`
    tags: frozenset[Tag] = frozenset()  # what it touches
    mode: Mode = Mode.ONCE  # what a crash means for it
    # seconds one call may take; None takes the workspace's limit (composite tools have none)
    timeout_s: float | None = None
    max_cost_usd: float = 0.0  # US dollars one call can cost at most; held against the budget while it runs
    thread: bool = True  # whether a plain function runs in a thread
    sequential: bool = False  # whether the calls of one decision run in listed order and see each other's `ctx.vars`
    cut: bool = True  # whether a long result is cut before it is recorded
    group: str = ""  # what sequential tools have in common, where their calls stay in order among each other too
    explicit: bool = False  # whether the version was written down, rather than left to the registry
    origin: str = ""  # where it came from, where it is not of this program: `mcp:NAME`
    distribution: str = ""  # what it came with, and its version: `weather-server 2.1.0 (protocol 2025-11-25)`
    # who may call it (names of agents, `user` for calls outside of runs); None for everybody
    invokers: tuple[str, ...] | None = None
    # whether a call that holds ends the work of the agent that makes it; its value has the fields of core's AgentResult
    finishes: bool = False
    delegates: bool = False  # whether a call hands work to an agent
    approval: Approval = "policy"  # whether its calls are asked about: as policy says, always, or never
    trusted: tuple[tuple[str, ...], ...] = ()  # paths of the values in its result that are trusted (calling/fields.py)
    result: str = ""  # the fields of its result in words, as far as its type says
    evolvable: bool | tuple[str, ...] | None = None  # which of its variables may be optimised; None for the default


class Tool(Generic[P, R]):
    """A function with name, version, schema and mode; still callable as that function.

    Made by `@tool`, or by `tool_from_schema` where the schema comes from elsewhere.

    Attributes:
        name: what models call it.
        schema: name, description and JSON schema as a model sees them.
        traits: version, tags, mode, limits.
        version: `1.2.0`; component: `name@version`.
        tags: what it touches.
        mode: what a crash means for it.
        timeout_s: seconds one call may take; None for the workspace's limit.
        bound: the most one call can cost.
        threaded: whether calls run in a thread: they cannot be stopped then.
        content_hash: hex SHA-256 of the function's source (its decorators, docstring and comments too) and the schema.
        uses: names of tools and environments that its calls may use although its caller may not.
        carried: components that it needs in the workspace besides itself (tea/transformations).
        of_class: whether it is a class method: bound to the class it is taken from.
    """

    def __init__(
        self,
        function: Callable[P, R],
        schema: ToolSchema,
        arguments: Signature | SchemaArguments,
        traits: ToolTraits,
        *,
        source: str = "",
    ) -> None:
        self.name = schema.name
        self.schema = schema
        self.content_hash = sha256_json([source or source_of(function), schema.digest])
        self.uses: frozenset[str] = frozenset()
        self.carried: Any = None
        self.of_class = False
        self._function = function
        self._async = inspect.iscoroutinefunction(function)
        self._settle(traits)
        self._arguments = arguments
        self._source = source
        functools.update_wrapper(self, function, updated=())

    def _settle(self, traits: ToolTraits) -> None:
        """Take the traits; what every call asks for is worked out here."""
        self.traits = traits
        self.version = traits.version
        self.component = f"{self.name}@{traits.version}"
        self.tags = traits.tags
        self.mode = traits.mode
        self.timeout_s = traits.timeout_s
        self.bound = Bound(cost_usd=traits.max_cost_usd) if traits.max_cost_usd else NO_COST
        self.threaded = traits.thread and not self._async

    @property
    def description(self) -> str:
        """As a model reads it."""
        return self.schema.description

    @property
    def is_undeclared(self) -> bool:
        """True if it does not say what it touches: it is treated as doing everything."""
        return is_undeclared(self.tags, self.mode)

    @property
    def owner(self) -> Any:
        """The object that a method's tool is bound to, None for a function's."""
        return getattr(self._function, "__self__", None)

    @property
    def arguments_model(self) -> Any:
        from agentorchestra.tea.calling.schemas import arguments_model  # here: a call needs no models

        return arguments_model(self.name, self.schema.parameters)

    def with_name(self, name: str, version: str) -> Tool[P, R]:
        if (name, version) == (self.name, self.version):
            return self
        other = copy(self)
        if name != self.name:
            other.schema = self.schema.model_copy(update={"name": _checked_name(name)})
            other.name = name
            other.content_hash = sha256_json([self._source or source_of(self._function), other.schema.digest])
        other._settle(replace(self.traits, version=version))
        return other

    def with_schema(self, schema: ToolSchema) -> Tool[P, R]:
        """Return the same tool with other words in its schema."""
        other = copy(self)
        other.schema = schema
        other.content_hash = sha256_json([self._source or source_of(self._function), schema.digest])
        return other

    def without(self, argument: str) -> Tool[P, R]:
        """Return the same tool, shown without an optional argument."""
        parameters = self.schema.parameters
        properties = {name: schema for name, schema in parameters["properties"].items() if name != argument}
        return self.with_schema(self.schema.model_copy(update={"parameters": {**parameters, "properties": properties}}))

    def with_traits(self, **changes: Any) -> Tool[P, R]:
        """Return the same tool with other traits: which of its variables may be optimised, who may call it."""
        other = copy(self)
        other._settle(replace(self.traits, **changes))
        return other

    def finishing(self) -> Tool[P, R]:
        """Return the same tool, marked as the call that ends the work of an agent."""
        return self.with_traits(finishes=True, cut=False)

    def __repr__(self) -> str:
        return f"<Tool {self.component} {self.mode.value}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, without checks and without the door."""
        return self._function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Tool[P, R]: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], R], instance: S, owner: type) -> Tool[Q, R]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        subject = owner if self.of_class else instance
        if subject is None or not isinstance(self._arguments, Signature) or not self._arguments.is_method:
            return self
        function = self._function.__get__(subject, type(subject))
        arguments = replace(self._arguments, is_method=False)
        return Tool(function, self.schema, arguments, self.traits, source=self._source)

    def backed_by(self, components: Any, uses: Iterable[str] = ()) -> Tool[P, R]:
        """Return itself with what the workspace takes in with it, and what its calls, if not its caller, may use."""
        self.carried = components
        self.uses = frozenset(uses)
        return self

    def validate(self, arguments: Mapping[str, Any] | str) -> tuple[dict[str, Any] | None, str | None]:
        """Return the keyword arguments of a call, or a sentence: what is wrong and what is allowed."""
        values, problem = parse_arguments(arguments if isinstance(arguments, str) else dict(arguments), self.name)
        if problem is not None:
            return None, mistake(self.name, [problem], self.schema.parameters)
        return self.check(values)

    def check(self, values: dict[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
        """Do what `validate` does for what is a JSON object in any case."""
        result, problems = self._arguments.check(values)
        if problems:
            return None, mistake(self.name, problems, self.schema.parameters)
        return result, None

    async def call(
        self,
        arguments: dict[str, Any],
        ctx: Any = None,
        *,
        threads: Threads | None = None,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """Call the function; return what it returns as a ToolResult.

        A plain function runs in a thread (unless `thread=False`). It cannot be stopped: a cancelled call ends when the
        function has returned or `timeout_s` has passed. Others are cancelled from outside.

        Raises:
            StillRunningError, NotStartedError: the limit passed.
            ToolDefinitionError: an unbound method.
            Exception: whatever the function raises.
        """
        if self._arguments.is_method:
            raise ToolDefinitionError(
                f"tool {self.name!r} is a method without its object; register it from an instance, "
                f"e.g. tools=[instance.{self.name}]"
            )
        args, kwargs = self._arguments.bind(arguments, ctx)
        if self.threaded:
            work: Callable[[], Any] = functools.partial(self._function, *args, **kwargs)
            value = await (threads or Threads()).run(work, name=self.name, limit_s=timeout_s)
        else:
            value = self._function(*args, **kwargs)
        if isinstance(value, CoroutineType) or inspect.isawaitable(value):
            value = await value
        return value if isinstance(value, ToolResult) else ToolResult(content=value)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    effect: EffectName | Iterable[EffectName] | None = None,
    idempotent: bool = False,
    version: str | None = None,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float = 0.0,
    thread: bool = True,
    sequential: bool = False,
    cut: bool = True,
    approval: Approval = "policy",
    evolvable: bool | Iterable[str] | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: EffectName | Iterable[EffectName] | None = None,
    idempotent: bool = False,
    version: str | None = None,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float = 0.0,
    thread: bool = True,
    sequential: bool = False,
    cut: bool = True,
    approval: Approval = "policy",
    evolvable: bool | Iterable[str] | None = None,
) -> Any:
    """Make a function, sync or async, or a method a tool; bare (`@tool`) or with arguments.

    A parameter annotated as `RunContext`, or a first one called `ctx`, takes the run's context. The other parameters'
    types and the docstring (Google, NumPy or Sphinx style) make the schema.

    Args:
        function: the function, when used bare.
        effect: what it touches; see the table in this module. Without it the tool is treated as doing everything: its
            calls are judged as those of a tool that sends, and none is silently repeated.
        idempotent: whether doing it twice is the same as doing it once.
        version: `major.minor.patch`; without one the registry computes it (docs/components.md).
        name: other than the function's.
        description: other than the docstring's.
        timeout_s: seconds one call may take.
        max_cost_usd: US dollars one call can cost at most.
        thread: False runs a plain function in the event loop: for quick ones, and for objects that belong to the
            loop's thread (a sqlite3 connection). While it runs nothing else does.
        sequential: True lets the calls of one decision run in listed order and see each other's `ctx.vars`.
        cut: False records long results whole.
        approval: `policy` leaves it to the policy whether a call is asked about, `always` asks about every call,
            `never` about none (docs/security.md). Only calls in runs, and by `ws.tcp.invoke`, are asked about.
        evolvable: which of its variables (`ws.tcp.vars`) a candidate may change: False for none, or names such as
            `description` and `argument`; by default all of a tool of yours.

    Raises:
        ToolDefinitionError: with the sentence that says what to change.
    """
    namespace = sys._getframe(1).f_locals

    def make(function: Callable[..., Any], namespace: Mapping[str, Any]) -> Tool[..., Any]:
        if isinstance(function, Tool):
            return function
        plain = function.__func__ if isinstance(function, staticmethod | classmethod) else function
        tool_name = name if name is not None else getattr(plain, "__name__", None)
        usable = inspect.isroutine(plain) or isinstance(plain, functools.partial)
        if not usable or tool_name is None:
            raise ToolDefinitionError(
                f"{function!r} cannot be a tool: give a function or a method (of an object that is called: "
                "its __call__ method), and name= where it has no name"
            )
        tool_name = _checked_name(tool_name)
        if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
            raise ToolDefinitionError(f"tool {tool_name!r} yields its results; return them as one list")
        tags, mode = _mode(tool_name, effect, idempotent)
        paths, result = result_fields(plain, tool_name, namespace)
        traits = ToolTraits(
            version=_checked_version(tool_name, version or "1.0.0"),
            explicit=version is not None,
            tags=tags,
            mode=mode,
            timeout_s=_checked_number(tool_name, "timeout_s", timeout_s, zero=False),
            max_cost_usd=_checked_number(tool_name, "max_cost_usd", max_cost_usd, zero=True) or 0.0,
            thread=thread,
            sequential=sequential,
            cut=cut,
            approval=_checked_approval(tool_name, approval),
            evolvable=_checked_evolvable(tool_name, evolvable),
            trusted=_checked_paths(tool_name, paths, tags, mode),
            result=result,
        )
        signature = read_signature(plain, tool_name, namespace)
        text = signature.description if description is None else inspect.cleandoc(description)
        schema = ToolSchema(name=tool_name, description=text, parameters=signature.parameters)
        component: Tool[..., Any] = Tool(plain, schema, signature, traits)
        component.of_class = isinstance(function, classmethod)
        return component

    if function is not None:
        return make(function, namespace)

    def decorate(function: Callable[..., Any]) -> Tool[..., Any]:
        if isinstance(function, Tool):
            raise ToolDefinitionError(f"{function!r} is a tool already; give the arguments where it is defined")
        return make(function, sys._getframe(1).f_locals)

    return decorate


def tool_from_schema(
    function: Callable[..., Any],
    schema: ToolSchema,
    *,
    effect: EffectName | Iterable[EffectName] | None = None,
    idempotent: bool = False,
    check: Callable[[dict[str, Any]], list[str]] | None = None,
    takes_context: bool = False,
    source: str = "",
    traits: ToolTraits | None = None,
    trust: Trust = Trust.UNTRUSTED,
) -> Tool[..., Any]:
    """Return a tool whose schema comes from elsewhere: another protocol, a file, a run's output type.

    Args:
        function: called with the arguments by name.
        schema: its name, description and the JSON schema of its arguments.
        effect, idempotent: as for `tool`.
        check: what is wrong with the arguments, a phrase each; by default they are checked against the schema.
        takes_context: whether the function takes the context as its first parameter, by position.
        source: what the content hash is made of besides the schema; the function's source by default.
        traits: the rest; its tags and mode are replaced by what `effect` says.
        trust: of the schema's words. They are untrusted unless you say otherwise: whoever is offered the tool reads
            them. `Trust.SYSTEM` is for words of your own.

    Raises:
        ToolDefinitionError: for a name or effect that is not allowed, or a schema that is not an object's.
    """
    name = _checked_name(schema.name)
    if schema.parameters.get("type") != "object":
        raise ToolDefinitionError(f"the schema of tool {name!r} is not an object's: its type must be 'object'")
    tags, mode = _mode(name, effect, idempotent)
    arguments = SchemaArguments(schema.parameters, check, takes_context)
    schema = schema.model_copy(update={"trust": lowest(trust, schema.trust)})
    return Tool(function, schema, arguments, replace(traits or ToolTraits(), tags=tags, mode=mode), source=source)


def _mode(name: str, effect: EffectName | Iterable[EffectName] | None, idempotent: bool) -> tuple[frozenset[Tag], Mode]:
    """Return tags and mode from what a tool says about itself (docs/door.md, "Effects")."""
    effects = effect_names(f"tool {name!r}", effect, (*Tag, "pure", "composite"))
    tags = frozenset(Tag(tag) for tag in effects - _NOT_TAGS)
    other = sorted(effects - {"pure", "read", "execute"})
    if "pure" in effects and other:
        raise ToolDefinitionError(
            f"tool {name!r} cannot be pure and {', '.join(other)}: a pure tool touches only its arguments and ctx.vars"
        )
    if "composite" in effects:
        return tags, Mode.COMPOSITE
    if "pure" in effects or tags == {Tag.READ}:
        return tags, Mode.PURE
    if idempotent or tags == {Tag.READ, Tag.NETWORK}:
        return tags, Mode.REPEATABLE
    return tags, Mode.ONCE


def effect_names(
    component: str, effect: EffectName | Iterable[EffectName] | None, allowed: Sequence[str]
) -> frozenset[str]:
    """Return the effects that a component declares; raise ToolDefinitionError for one that is not allowed."""
    effects = frozenset({effect} if isinstance(effect, str) else effect or ())
    wrong = sorted(str(word) for word in effects if word not in allowed)
    if wrong:
        raise ToolDefinitionError(
            f"{component} has the unknown effect {wrong[0]!r}; the effects: {', '.join(allowed)} (one, or several)"
        )
    return effects


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"{name!r} cannot be a tool's name: 1 to 64 letters, digits, '_' or '-', the first not a digit or '-'; "
            "give name="
        )
    return name


def _checked_version(name: str, version: str) -> str:
    if not _VERSION.fullmatch(version):
        raise ToolDefinitionError(f"tool {name!r} has the version {version!r}; versions look like '1.2.0'")
    return version


def _checked_approval(name: str, approval: Approval) -> Approval:
    if approval not in get_args(Approval):
        raise ToolDefinitionError(
            f"tool {name!r} has approval={approval!r}; give 'policy', 'always' or 'never' (docs/security.md)"
        )
    return approval


def _checked_paths(
    name: str, paths: tuple[tuple[str, ...], ...], tags: frozenset[Tag], mode: Mode
) -> tuple[tuple[str, ...], ...]:
    if paths and (mode is Mode.COMPOSITE or (mode is Mode.PURE and Tag.READ not in tags)):
        raise ToolDefinitionError(
            f"tool {name!r} is {mode.value} and has a Trusted field in its result: what it gives back is made of "
            "what it was given; put the mark on the tool that asks the system"
        )
    return paths


def _checked_evolvable(name: str, evolvable: bool | Iterable[str] | None) -> bool | tuple[str, ...] | None:
    if evolvable is None or isinstance(evolvable, bool):
        return evolvable
    if isinstance(evolvable, str) or not all(isinstance(variable, str) for variable in evolvable):
        raise ToolDefinitionError(
            f"tool {name!r} has evolvable={evolvable!r}; give True, False, or names: ('description', 'argument')"
        )
    return tuple(evolvable)


def _checked_number(name: str, trait: str, value: float | None, *, zero: bool) -> float | None:
    if value is not None and not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise ToolDefinitionError(f"tool {name!r} has {trait}={value}; give a positive number, or leave it out")
    return value
