"""What the declared result type of a tool says: the fields, and which of them the system made itself.

A mark (`Trusted`, `Untrusted`) holds for everything inside what it is put on, up to the next mark; what has none is
untrusted.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeAliasType, is_typeddict

from agentorchestra.core.content import FieldMark, Trusted
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.runtime.results import ToolResult
from agentorchestra.trust.provenance import EACH

_MOST_DEEP = 12
_MOST_SHOWN_DEEP = 3
_SCALARS: dict[Any, str] = {str: "string", bool: "boolean", int: "number", float: "number"}


def result_fields(
    function: Callable[..., Any], name: str, namespace: Mapping[str, Any]
) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return the paths of the trusted values in what a function returns, and its fields in words.

    In words is `list of {id: string, state: open | paid}`; () and "" where the type says nothing.

    Raises:
        ToolDefinitionError: for a result type whose marks cannot be read.
    """
    inner = inspect.unwrap(getattr(function, "func", function))
    annotation = getattr(inner, "__annotations__", {}).get("return", None)
    if annotation is None or (isinstance(annotation, type) and annotation in (str, int, float, bool, dict, list)):
        return (), ""
    holder = type("holder", (), {"__annotations__": {"return": annotation}})
    try:
        hints = typing.get_type_hints(holder, getattr(inner, "__globals__", {}), dict(namespace), include_extras=True)
        return tuple(dict.fromkeys(_paths(hints["return"], None, ()))), _description(hints["return"])
    except NameError:
        if "Trusted" not in str(annotation):
            return (), ""  # a type that is imported for type checkers only, and no mark in sight
        raise ToolDefinitionError(
            f"the result type {annotation!r} of tool {name!r} cannot be resolved; import or define it in the module, "
            "not only for type checkers: it says which fields are trusted"
        ) from None
    except TypeError:
        return (), ""  # an annotation that is no type says nothing of fields


def _description(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, ToolResult):
        return ""  # what is around the result of any tool
    text = _shape(hint, 0)
    return text if "{" in text or text.startswith("list") else ""


def _shape(hint: Any, deep: int) -> str:
    """Return a type in words, of records below the third only that they are some."""
    if isinstance(hint, TypeAliasType):
        hint = hint.__value__
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _shape(arguments[0], deep)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_shape(option, deep) for option in arguments if option is not type(None)))
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"by key: {_shape(arguments[1], deep)}"
    if isinstance(origin, type) and arguments and origin is not type:
        return f"list of {' or '.join(dict.fromkeys(_shape(part, deep) for part in arguments if part is not Ellipsis))}"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return " | ".join(str(member.value) for member in hint)
    fields = [f"{name}: {_shape(part, deep + 1)}" for name, part, _ in _fields(hint)] if deep < _MOST_SHOWN_DEEP else []
    return f"{{{', '.join(fields)}}}" if fields else _SCALARS.get(hint, "any")


def _fields(hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields of a record's type: name, type, and what it is annotated with."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        for field_name, field in hint.model_fields.items():
            yield field.serialization_alias or field.alias or field_name, field.annotation, field.metadata
    elif isinstance(hint, type) and (dataclasses.is_dataclass(hint) or is_typeddict(hint)):
        for key, part in typing.get_type_hints(hint, include_extras=True).items():
            yield key, part, ()


def _paths(hint: Any, mark: FieldMark | None, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if len(path) > _MOST_DEEP:
        return
    if isinstance(hint, TypeAliasType):
        hint = hint.__value__
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        yield from _paths(inner, _mark(metadata, mark), path)
        return
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for part in arguments:
            yield from _paths(part, mark, path)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _paths(arguments[1], mark, (*path, EACH))
    elif isinstance(origin, type) and arguments and origin is not type:
        for part in arguments:
            if part is not Ellipsis:
                yield from _paths(part, mark, (*path, EACH))
    elif _is_record(hint):
        for key, part, metadata in _fields(hint):
            yield from _paths(part, _mark(metadata, mark), (*path, key))
    elif mark is Trusted and hint is not type(None):
        yield path


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (
        issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint) or is_typeddict(hint)
    )


def _mark(metadata: Any, mark: FieldMark | None) -> FieldMark | None:
    return next((extra for extra in metadata if isinstance(extra, FieldMark)), mark)
