"""From a Python function to the schema of its arguments, and from a model's arguments to the function's."""

from __future__ import annotations

import functools
import inspect
import json
import re
import textwrap
import types
import typing
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NotRequired, Required

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, PydanticUndefined, to_jsonable_python
from typing_extensions import TypedDict

from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.ids import canonical_json, copy_json, is_flat, sha256_text
from agentorchestra.core.names import nearest
from agentorchestra.core.protocols import RunContext

_SECTION = re.compile(r"^[ \t]*(?:\w[\w ]*:[ \t]*$|:\w+|-{3,}[ \t]*$)", re.MULTILINE)
_VALUE_CHARS = 80
_LONGEST = 300
_MOST_PROBLEMS = 5


class UntitledSchema(GenerateJsonSchema):
    """JSON schemas without the titles that pydantic derives from names: they cost tokens and say nothing new."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True)
class Signature:
    description: str  # the docstring without its sections
    parameters: dict[str, Any]  # JSON schema of the arguments without the context
    context: str | None  # the name of the parameter that takes the RunContext
    positional: tuple[str, ...]  # names that may be given by position only, in order
    is_method: bool  # whether the first parameter is an unbound `self`
    defaults: Mapping[str, Any]
    adapter: TypeAdapter[dict[str, Any]]

    def check(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments as the function's types, and what is wrong with them."""
        try:
            return self.adapter.validator.validate_python(arguments), []
        except ValidationError as exc:
            return {}, _problems(exc, self.parameters)

    def fits(self, arguments: dict[str, Any]) -> bool:
        """Return True if the arguments are of the function's types as they are: then they fit its schema too."""
        if any(value is None for value in arguments.values()):
            return False  # schemas leave null out
        try:
            self.adapter.validator.validate_python(arguments, strict=True)
        except ValidationError:
            return False
        return True

    def bind(self, arguments: dict[str, Any], ctx: Any) -> tuple[list[Any], dict[str, Any]]:
        kwargs = dict(arguments)
        if self.context is not None:
            kwargs[self.context] = ctx
        first = [kwargs.pop(name) if name in kwargs else self.defaults[name] for name in self.positional]
        return first, kwargs


@dataclass(frozen=True)
class SchemaArguments:
    """Arguments that are checked against a JSON schema and handed over as they are."""

    parameters: dict[str, Any]  # the schema, an object's
    checker: Callable[[dict[str, Any]], list[str]] | None = None  # replaces the check: what is wrong, a phrase each
    # whether the RunContext comes first, before the arguments: by position, since any name may be one of the schema's
    context: bool = False
    is_method: ClassVar[bool] = False

    def check(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments and what is wrong with them; null for an optional one that takes none is left out."""
        values = given_of(arguments, self.parameters)
        return values, self.checker(values) if self.checker else schema_problems(values, self.parameters)

    def bind(self, arguments: dict[str, Any], ctx: Any) -> tuple[list[Any], dict[str, Any]]:
        return [ctx] if self.context else [], arguments


def read_signature(function: Callable[..., Any], name: str, namespace: Mapping[str, Any]) -> Signature:
    """Return what a function takes, or raise ToolDefinitionError; `namespace`: locals that its annotations may use."""
    params = list(inspect.signature(function).parameters.values())
    is_partial = isinstance(function, functools.partial)
    if isinstance(function, functools.partial):
        # What is bound is settled: nobody is shown it, and no call replaces it.
        params = [parameter for parameter in params if parameter.name not in function.keywords]
    is_method = bool(params) and params[0].name in ("self", "cls") and params[0].annotation is inspect.Parameter.empty
    if is_method:
        params = params[1:]
    hints = _hints(function, params, name, namespace)
    context = _context(params, hints, name)
    description, descriptions = read_docstring(inspect.getdoc(_inner(function) if is_partial else function) or "")
    fields: list[_Field] = []
    types_of: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for parameter in params:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise ToolDefinitionError(
                f"tool {name!r} takes {stars}{parameter.name}: a model needs named arguments; "
                "write one parameter for each, or one list or dict"
            )
        if parameter.default is not inspect.Parameter.empty:
            defaults[parameter.name] = parameter.default
        if parameter.name == context:
            continue
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        if hint is inspect.Parameter.empty:
            example = "ctx: RunContext[Any] for the run's context" if parameter.name == "ctx" else None
            raise ToolDefinitionError(
                f"parameter {parameter.name!r} of tool {name!r} has no type; "
                f"write {example or f'e.g. {parameter.name}: str'}"
            )
        text = descriptions[parameter.name] if parameter.name in descriptions and not _has_description(hint) else None
        fields.append(_Field(parameter.name, hint, repr(hint), text, parameter.name not in defaults))
        types_of[parameter.name] = hint
        if parameter.name in defaults:
            values[parameter.name] = _shown_default(defaults[parameter.name], parameter.name, name)
    positional = tuple(p.name for p in params if p.kind is inspect.Parameter.POSITIONAL_ONLY)
    try:
        adapter, parameters = _adapter(tuple(fields), values)
    except _NO_SCHEMA:
        for argument, hint in types_of.items():
            _check_type(hint, argument, name)
        raise
    return Signature(description, parameters, context, positional, is_method, defaults, adapter)


def _inner(function: Callable[..., Any]) -> Any:
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    return getattr(inner, "__func__", inner)


class _Field(typing.NamedTuple):
    """One argument: of equal types only those that are also written alike (the order of a union) have one schema."""

    name: str
    hint: Any
    spelling: str
    description: str | None
    required: bool


# The tools of the package are made anew for every workspace, and building their schemas costs most of that.
@functools.lru_cache(maxsize=512)
def _plain_adapter(fields: tuple[_Field, ...]) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    """Return what checks the arguments, and their schema without the defaults."""
    hints: dict[str, Any] = {}
    for field in fields:
        text = field.description
        hint = field.hint if text is None else typing.Annotated[field.hint, Field(description=text)]
        hints[field.name] = Required[hint] if field.required else NotRequired[hint]
    # A TypedDict takes any parameter name and leaves out what was not given: the function's own defaults apply.
    make: Any = TypedDict  # a checker cannot follow fields that are known at run time only
    arguments_type = make("Arguments", hints)
    arguments_type.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(arguments_type)
    parameters = adapter.json_schema(schema_generator=UntitledSchema)
    parameters.pop("title", None)
    parameters.setdefault("properties", {})
    for definition, schema in parameters.get("$defs", {}).items():
        if schema.get("title") == definition:
            del schema["title"]
    return adapter, parameters


def _adapter(fields: tuple[_Field, ...], values: dict[str, Any]) -> tuple[TypeAdapter[dict[str, Any]], dict[str, Any]]:
    try:
        hash(fields)
    except TypeError:  # a type may be annotated with anything
        adapter, plain = _plain_adapter.__wrapped__(fields)
    else:
        adapter, plain = _plain_adapter(fields)
    parameters: dict[str, Any] = copy_json(plain)
    for parameter, value in values.items():
        if value is None:
            parameters["properties"][parameter] = _without_null(parameters["properties"][parameter])
        else:
            parameters["properties"][parameter]["default"] = value
    for schema in parameters.get("$defs", {}).values():
        for name, inner in schema.get("properties", {}).items():
            if inner.get("default", ...) is None and name not in schema.get("required", ()):
                schema["properties"][name] = _without_null(inner)
    return adapter, parameters


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional argument without the null that means "not given"; it is still taken."""
    plain = {key: value for key, value in schema.items() if key != "default"}
    options = plain.get("anyOf")
    if not isinstance(options, list):
        return plain
    rest = [option for option in options if option != {"type": "null"}]
    if len(rest) != 1:
        return {**plain, "anyOf": rest} if rest else plain
    del plain["anyOf"]
    return {**rest[0], **plain}


def _hints(
    function: Callable[..., Any], params: list[inspect.Parameter], name: str, namespace: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters' evaluated annotations; the return type may need names that exist for checkers only."""
    inner = _inner(function)
    home = getattr(inner, "__globals__", {})
    # RunContext is often imported for type checkers only.
    local = {"RunContext": RunContext, **namespace}
    hints = {}
    for parameter in params:
        annotation = parameter.annotation
        if annotation is inspect.Parameter.empty:
            continue
        holder = type("holder", (), {"__annotations__": {parameter.name: annotation}})
        try:
            hints[parameter.name] = typing.get_type_hints(holder, home, local, include_extras=True)[parameter.name]
        except Exception as exc:
            if parameter.name == "ctx" and parameter is params[0]:
                hints["ctx"] = Any  # taken by its name
                continue
            raise ToolDefinitionError(
                f"the type {annotation!r} of parameter {parameter.name!r} of tool {name!r} cannot be resolved "
                f"({type(exc).__name__}: {exc}); import or define it in the module, not only for type checkers"
            ) from None
    return hints


def _context(params: list[inspect.Parameter], hints: Mapping[str, Any], name: str) -> str | None:
    """Return the parameter that takes the context: by its annotation, or a first one called `ctx`."""
    contexts = [parameter.name for parameter in params if _is_context(hints.get(parameter.name))]
    if len(contexts) > 1:
        raise ToolDefinitionError(f"tool {name!r} takes the context twice: {' and '.join(contexts)}; one is enough")
    if not contexts and params and params[0].name == "ctx":
        return "ctx"
    return contexts[0] if contexts else None


def _is_context(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_context(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType):
        return any(_is_context(option) for option in typing.get_args(hint))
    return (origin or hint) is RunContext


def _has_description(hint: Any) -> bool:
    if typing.get_origin(hint) is not typing.Annotated:
        return False
    return any(isinstance(extra, FieldInfo) and extra.description for extra in hint.__metadata__)


_NO_SCHEMA = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError, TypeError)


def _check_type(hint: Any, parameter: str, name: str) -> None:
    """Check one parameter alone, so that the message can name it."""
    try:
        TypeAdapter(hint).json_schema()
    except _NO_SCHEMA as exc:
        reason = str(exc).splitlines()[0]
        raise ToolDefinitionError(
            f"the type {_type_name(hint)} of parameter {parameter!r} of tool {name!r} has no JSON schema ({reason}); "
            "use JSON types, enums, dataclasses, TypedDicts or pydantic models"
        ) from None


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _shown_default(value: Any, parameter: str, name: str) -> Any:
    if isinstance(value, FieldInfo):
        raise ToolDefinitionError(
            f"the default of parameter {parameter!r} of tool {name!r} is a Field; write it into the type: "
            f"{parameter}: Annotated[..., Field(...)] = default"
        )
    try:
        data = to_jsonable_python(value)
        if isinstance(value, set | frozenset):
            data = sorted(data, key=canonical_json)  # the same schema in every process
        canonical_json(data)
    except (PydanticSerializationError, TypeError, ValueError):
        raise ToolDefinitionError(
            f"the default {_short(value)} of parameter {parameter!r} of tool {name!r} is not JSON; "
            "use None as the default and fill it in inside the function"
        ) from None
    return data


# -- docstrings --------------------------------------------------------------------------------------------------------


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the description and the parameters' descriptions of a Google, NumPy or Sphinx docstring."""
    text = textwrap.dedent(text).strip()
    if not _SECTION.search(text):
        return text, {}
    import griffe  # here: most docstrings of small tools have no sections

    docstring = griffe.Docstring(text)
    if re.search(r"^[ \t]*:(?:param|arg|type|return|raise)", text, re.MULTILINE):
        sections = griffe.parse_sphinx(docstring, warnings=False)
    elif re.search(r"^[ \t]*\w[\w ]*\n[ \t]*-{3,}[ \t]*$", text, re.MULTILINE):
        sections = griffe.parse_numpy(docstring, warnings=False)
    else:
        sections = griffe.parse_google(docstring, warnings=False)
    words = []
    descriptions = {}
    for section in sections:
        if section.kind is griffe.DocstringSectionKind.text:
            words.append(section.value.strip())
        elif section.kind is griffe.DocstringSectionKind.parameters:
            for parameter in section.value:
                descriptions[parameter.name.lstrip("*")] = " ".join(parameter.description.split())
    return "\n\n".join(words).strip(), descriptions


# -- what is wrong, in words -------------------------------------------------------------------------------------------


def parse_arguments(arguments: dict[str, Any] | str, name: str) -> tuple[dict[str, Any], str | None]:
    """Return the object a model wrote, and what is wrong with it."""
    value: Any = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments, strict=False) if arguments.strip() else {}
        except ValueError as exc:
            return {}, f"the arguments of {name} are not a JSON object: {_cut(arguments)} ({exc})"
    if not isinstance(value, dict):
        return {}, f"the arguments of {name} are not a JSON object: {_cut(arguments)}"
    if is_flat(value):
        return value, None
    try:
        canonical_json(value)
    except (ValueError, TypeError, RecursionError) as exc:
        return {}, f"the arguments of {name} are not JSON: {exc}"
    return value, None


def given_of(arguments: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return arguments without the nulls that models write for optional ones they do not use."""
    nulls = [name for name, value in arguments.items() if value is None and name not in parameters.get("required", ())]
    properties = parameters.get("properties", {})
    definitions = {"$defs": parameters["$defs"]} if "$defs" in parameters else {}
    left_out = {
        name
        for name in nulls
        if isinstance(properties.get(name), dict) and schema_problems(None, {**definitions, **properties[name]})
    }
    return {name: value for name, value in arguments.items() if name not in left_out} if left_out else arguments


def mistake(name: str, problems: list[str], parameters: dict[str, Any]) -> str:
    """Return one sentence: what is wrong, and what is allowed."""
    more = len(problems) - _MOST_PROBLEMS
    text = "; ".join(problems[:_MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    return f"{name}: {text}. Its arguments: {describe_parameters(parameters)}"


def describe_parameters(parameters: dict[str, Any]) -> str:
    """Return the arguments in one line: `a (integer, required), b ("x" | "y", default "x")`."""
    definitions = parameters.get("$defs", {})
    required = parameters.get("required", ())
    parts = []
    for name, schema in parameters.get("properties", {}).items():
        notes = [kind_of(schema, definitions)]
        if name in required:
            notes.append("required")
        elif isinstance(schema, dict) and schema.get("default") is not None:
            notes.append(f"default {_short(schema['default'])}")
        parts.append(f"{name} ({', '.join(notes)})")
    return ", ".join(parts) or "none"


def kind_of(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> str:
    if not isinstance(schema, dict) or depth > 4:
        return "any"
    if "$ref" in schema:
        ref = str(schema["$ref"]).rpartition("/")[2]
        target = definitions.get(ref, {})
        if target.get("type") == "object" and "properties" in target:
            return f"object {{{', '.join(target['properties'])}}}"
        return kind_of(target, definitions, depth + 1)
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            kinds = (kind_of(option, definitions, depth + 1) for option in schema[union])
            return " | ".join(dict.fromkeys(kinds))
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"array of {kind_of(schema['items'], definitions, depth + 1)}"
    if kind == "object" and "properties" in schema:
        return f"object {{{', '.join(schema['properties'])}}}"
    return " | ".join(kind) if isinstance(kind, list) else str(kind)


def schema_problems(value: Any, schema: dict[str, Any]) -> list[str]:
    import jsonschema  # here: it is needed only where a schema comes from elsewhere
    import referencing

    # An empty registry: references to other documents are never fetched.
    validator = jsonschema.Draft202012Validator(schema, registry=referencing.Registry())
    try:
        errors = sorted(validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    except referencing.exceptions.Unresolvable as exc:
        return [f"the schema refers to {exc.ref!r}, which is not in it"]
    except (TypeError, AttributeError, ValueError, KeyError) as exc:  # what jsonschema makes of a schema that is none
        return [f"the schema is no JSON schema ({type(exc).__name__}: {str(exc)[:80]})"]
    except RecursionError:
        return ["the schema refers to itself without end, or the value is nested too deep"]
    problems = []
    for error in errors:
        best = jsonschema.exceptions.best_match([error])  # of several forms, the one that came nearest
        place = ".".join(str(part) for part in best.absolute_path)
        message = best.message if len(best.message) <= _LONGEST else f"{best.message[: _LONGEST - 1]}…"
        problems.append(f"{place}: {message}" if place else message)
    return problems


def _problems(exc: ValidationError, parameters: dict[str, Any]) -> list[str]:
    problems = []
    for error in exc.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in error["loc"]) or "arguments"
        actual = "" if error["type"] == "missing" else f" (got {_short(error['input'])})"
        hint = ""
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
            close = nearest(place, parameters.get("properties", {}))
            hint = f", did you mean {close[0]!r}?" if close else ""
        problems.append(f"{place}: {error['msg']}{actual}{hint}")
    return problems


def _short(value: Any) -> str:
    if value is PydanticUndefined:
        return "nothing"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS - 1]}…"


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# -- identity ----------------------------------------------------------------------------------------------------------


def source_of(function: Callable[..., Any]) -> str:
    """Return the function's source without indentation; else a hash of its bytecode, another one for each Python."""
    inner = _inner(function)
    try:
        tail = f"\n# bound: {', '.join(sorted(function.keywords))}" if isinstance(function, functools.partial) else ""
        return _text_of(inner) + tail
    except (OSError, TypeError):
        code = getattr(inner, "__code__", None)
        return _bytecode(code) if code is not None else repr(type(inner))


_OF_CODE: dict[int, tuple[types.CodeType, str]] = {}
"""Texts that were looked up, by the identity of the code, which is kept so that no other one takes its place: every
workspace that is opened makes the packaged tools anew, of the same code."""

_OF_CLASSES: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
_MOST_TEXTS = 4096


def _text_of(thing: Any) -> str:
    if inspect.isclass(thing):
        text = _OF_CLASSES.get(thing)
        if text is None:
            text = _OF_CLASSES[thing] = textwrap.dedent(inspect.getsource(thing))
        return text
    code = getattr(inspect.unwrap(thing), "__code__", None)
    entry = _OF_CODE.get(id(code))
    if code is not None and entry is not None:
        return entry[1]
    text = textwrap.dedent(inspect.getsource(thing))
    if code is not None and len(_OF_CODE) < _MOST_TEXTS:
        _OF_CODE[id(code)] = (code, text)
    return text


def _bytecode(code: types.CodeType) -> str:
    constants = [_bytecode(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return sha256_text("|".join([code.co_code.hex(), ",".join(code.co_names), *constants]))
