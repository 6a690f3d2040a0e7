"""`@tool`: a function becomes a component - name, version, schema, tags, mode - from its type hints and docstring."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import logging
import re
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import ArtifactRef, Mode, Tag
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import ToolSchema

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_COMPOSITE = "composite"
_EFFECTS = (*sorted(tag.value for tag in Tag), _COMPOSITE)


@dataclass(frozen=True)
class ToolResult:
    """What a tool may return when a plain value does not say enough.

    Attributes:
        content: JSON value, text, pydantic model, dataclass, block or list of blocks.
        artifacts: files it kept with `ctx.artifact`.
        trust: the trust of the content; by default untrusted for reads, else that of what was in view.
    """

    content: Any
    artifacts: tuple[ArtifactRef, ...] = ()
    trust: Trust | None = None


@dataclass(frozen=True)
class Tool(Generic[P, R]):
    """A tool as a component. Calling it calls the function.

    Attributes:
        name, version, description: of the component; the version is 1.0.0 until the registry computes it.
        schema: what a model sees.
        tags: what it touches.
        mode: what a crash means for it (docs/door.md, "Effects").
        content_hash: hex SHA-256 of the function's source and schema.
        timeout_s: time limit of a call, None for the workspace's.
        max_cost_usd: the most one call can cost, held against the budget.
    """

    function: Callable[P, R]
    name: str
    version: str
    description: str
    schema: ToolSchema
    tags: frozenset[Tag]
    mode: Mode
    content_hash: str
    arguments_model: type[BaseModel]
    context_parameter: str | None = None
    timeout_s: float | None = None
    max_cost_usd: float = 0.0
    _owner: Any = field(default=None, repr=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._owner is not None:
            return self.function(self._owner, *args, **kwargs)
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Tool[P, R]:
        """A method's tool, bound to its object."""
        if instance is None:
            return self
        import dataclasses

        return dataclasses.replace(self, _owner=instance)

    @property
    def component(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    def validate(self, arguments: dict[str, JsonValue] | str) -> tuple[dict[str, Any] | None, str | None]:
        """Typed keyword arguments, or the sentence that says what is wrong and what is allowed."""
        allowed = ", ".join(_signature(self.schema)) or "none"
        if not isinstance(arguments, dict):
            return None, (
                f"the arguments of {self.name} are not a JSON object: {arguments[:200]!r}; its arguments: {allowed}"
            )
        try:
            checked = self.arguments_model.model_validate(arguments)
        except ValidationError as exc:
            return None, f"{self.name}: {'; '.join(map(_problem, exc.errors()[:4]))}; its arguments: {allowed}"
        return {name: getattr(checked, name) for name in type(checked).model_fields}, None

    async def call(self, arguments: dict[str, Any], ctx: Any) -> ToolResult:
        """Call the function with checked arguments.

        A plain function runs in a thread, so that it never blocks the others. A thread cannot be stopped: a time
        limit or a cancellation takes effect when the function returns, and nothing is left running behind.
        """
        keywords = dict(arguments)
        if self.context_parameter is not None:
            keywords[self.context_parameter] = ctx
        positional = () if self._owner is None else (self._owner,)
        bound = functools.partial(self.function, *positional, **keywords)
        if inspect.iscoroutinefunction(self.function):
            value: Any = await bound()  # type: ignore[misc]
        else:
            value = await _in_thread(bound)
            if inspect.isawaitable(value):
                value = await value
        return value if isinstance(value, ToolResult) else ToolResult(content=value)


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Run in a worker thread; a cancellation waits for its end, because a thread cannot be stopped."""
    future = asyncio.ensure_future(asyncio.to_thread(function))
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        if not future.cancelled():
            future.exception()
        raise cancelled
    return future.result()


def _problem(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    given = "" if error["type"] == "missing" else f" (given {str(error['input'])[:80]!r})"
    return f"{place or 'arguments'}: {error['msg']}{given}"


def _signature(schema: ToolSchema) -> list[str]:
    properties = schema.parameters.get("properties", {})
    required = set(schema.parameters.get("required", ()))
    return [
        f"{name}: {_type_name(one)}" + ("" if name in required else " (optional)") for name, one in properties.items()
    ]


def _type_name(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(repr(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_type_name(one) for one in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    return str(schema.get("type", "any"))


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    effect: str | Sequence[str] = (),
    idempotent: bool = False,
    version: str = "1.0.0",
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float = 0.0,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: str | Sequence[str] = (),
    idempotent: bool = False,
    version: str = "1.0.0",
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float = 0.0,
) -> Any:
    """Make a function (sync or async, with or without `ctx: RunContext[Deps]`) a tool.

    Args:
        function: the function, when used without parentheses.
        effect: what it touches: any of read, write, network, execute, spend, send; `composite` for a tool that
            performs effects through its context. Without it nothing is known, and the tool is treated as `once`.
        idempotent: calling it twice is the same as once: it is repeated after a crash.
        version: 1.0.0 until the registry computes it.
        name, description: instead of the function's name and docstring.
        timeout_s: time limit of a call in seconds.
        max_cost_usd: the most a call can cost in US dollars, held against the budget while it runs.

    Raises:
        ToolDefinitionError: for a function without a usable signature, a bad name or an unknown effect.
    """

    def make(one: Callable[..., Any]) -> Tool[Any, Any]:
        return _make(one, effect, idempotent, version, name, description, timeout_s, max_cost_usd)

    return make if function is None else make(function)


def _make(
    function: Callable[..., Any],
    effect: str | Sequence[str],
    idempotent: bool,
    version: str,
    name: str | None,
    description: str | None,
    timeout_s: float | None,
    max_cost_usd: float,
) -> Tool[Any, Any]:
    called = str(name or getattr(function, "__name__", ""))
    if not _NAME.fullmatch(called):
        raise ToolDefinitionError(
            f"{called!r} cannot be a tool's name: use letters, digits, _ and -, at most 64 of them; give name=..."
        )
    tags, composite = _tags(called, effect)
    summary, described = _docstring(function)
    model, context = _arguments_model(called, function, described)
    schema = ToolSchema(
        name=called,
        description=str(description or summary or called).strip(),
        parameters=_tidy(model.model_json_schema()),
    )
    return Tool(
        function=function,
        name=called,
        version=version,
        description=schema.description,
        schema=schema,
        tags=tags,
        mode=_mode(tags, composite, idempotent),
        content_hash=_content_hash(function, schema),
        arguments_model=model,
        context_parameter=context,
        timeout_s=timeout_s,
        max_cost_usd=max_cost_usd,
    )


def _tags(name: str, effect: str | Sequence[str]) -> tuple[frozenset[Tag], bool]:
    given = (effect,) if isinstance(effect, str) else tuple(effect)
    for one in given:
        if one not in _EFFECTS:
            raise ToolDefinitionError(f"tool {name!r} has the effect {one!r}; the effects are {', '.join(_EFFECTS)}")
    return frozenset(Tag(one) for one in given if one != _COMPOSITE), _COMPOSITE in given


def _mode(tags: frozenset[Tag], composite: bool, idempotent: bool) -> Mode:
    if composite:
        return Mode.COMPOSITE
    if tags == {Tag.READ}:
        return Mode.PURE
    if idempotent or tags == {Tag.READ, Tag.NETWORK}:
        return Mode.REPEATABLE
    return Mode.ONCE


def _arguments_model(
    name: str, function: Callable[..., Any], described: dict[str, str]
) -> tuple[type[BaseModel], str | None]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as exc:
        raise ToolDefinitionError(
            f"the type hints of tool {name!r} cannot be resolved: {exc}; import the types at module level"
        ) from None
    fields: dict[str, Any] = {}
    context = None
    for index, (key, parameter) in enumerate(inspect.signature(function).parameters.items()):
        hint = hints.get(key, parameter.annotation)
        if index == 0 and key == "self":
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(
                f"tool {name!r} has the parameter {parameter}; a model names its arguments: give each one a name"
            )
        if context is None and (key == "ctx" or _is_context(hint)):
            context = key
            continue
        if hint is inspect.Parameter.empty:
            raise ToolDefinitionError(f"parameter {key!r} of tool {name!r} has no type hint; add one, e.g. {key}: str")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[key] = (hint, Field(default, description=described[key]) if key in described else default)
    try:
        model = create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except Exception as exc:
        raise ToolDefinitionError(
            f"the parameters of tool {name!r} have no JSON schema: {str(exc).splitlines()[0]}; "
            "use JSON types, pydantic models, dataclasses, enums or literals"
        ) from None
    return model, context


def _is_context(hint: Any) -> bool:
    from agentorchestra.core.protocols import RunContext

    return hint is RunContext or typing.get_origin(hint) is RunContext


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The text before the sections, and what it says of each parameter (Google, NumPy or Sphinx style)."""
    text = inspect.getdoc(function)
    if not text:
        return "", {}
    import griffe

    # Griffe warns about parameters it cannot match with a signature it does not have here.
    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    docstring = griffe.Docstring(text, lineno=1)
    best: tuple[str, dict[str, str]] = (text, {})
    for style in ("google", "numpy", "sphinx"):
        sections = docstring.parse(style)
        found = {
            item.name: item.description
            for section in sections
            if section.kind is griffe.DocstringSectionKind.parameters
            for item in section.value
        }
        summary = next((s.value for s in sections if s.kind is griffe.DocstringSectionKind.text), text)
        if len(found) > len(best[1]):
            best = (summary, found)
    return best


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Titles say nothing to a model that the names do not."""

    def clean(value: Any, *, names: bool = False) -> Any:
        if isinstance(value, dict):
            return {
                key: clean(item, names=key in ("properties", "$defs"))
                for key, item in value.items()
                if names or not (key == "title" and isinstance(item, str))
            }
        return [clean(item) for item in value] if isinstance(value, list) else value

    cleaned: dict[str, Any] = clean(schema)
    return cleaned


def _content_hash(function: Callable[..., Any], schema: ToolSchema) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        source = _code_text(code) if isinstance(code, types.CodeType) else repr(type(function))
    return hashlib.sha256(f"{source}\n{canonical_json(schema.parameters)}".encode()).hexdigest()


def _code_text(code: types.CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_name} {code.co_code.hex()} {constants} {code.co_names}"
