"""Which fields of a tool's result the system made itself: `Trusted` and `Untrusted` in the declared result type.

A mark holds for everything inside what it is put on, up to the next mark; what has none is untrusted.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeAliasType, is_typeddict

from agentorchestra.core.content import FieldMark, Trusted
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.trust.provenance import EACH

_MOST_DEEP = 12


def trusted_fields(
    function: Callable[..., Any], name: str, namespace: Mapping[str, Any]
) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the trusted values in what a function returns; () where nothing is marked.

    Raises:
        ToolDefinitionError: for a result type whose marks cannot be read.
    """
    inner = inspect.unwrap(getattr(function, "func", function))
    annotation = getattr(inner, "__annotations__", {}).get("return", None)
    if annotation is None or (isinstance(annotation, type) and annotation in (str, int, float, bool, dict, list)):
        return ()
    holder = type("holder", (), {"__annotations__": {"return": annotation}})
    try:
        hint = typing.get_type_hints(holder, getattr(inner, "__globals__", {}), dict(namespace), include_extras=True)
        return tuple(dict.fromkeys(_paths(hint["return"], None, ())))
    except NameError:
        if "Trusted" not in str(annotation):
            return ()  # a type that is imported for type checkers only, and no mark in sight
        raise ToolDefinitionError(
            f"the result type {annotation!r} of tool {name!r} cannot be resolved; import or define it in the module, "
            "not only for type checkers: it says which fields are trusted"
        ) from None
    except TypeError:
        return ()  # an annotation that is no type says nothing of fields


def _paths(hint: Any, mark: FieldMark | None, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if len(path) > _MOST_DEEP:
        return
    if isinstance(hint, TypeAliasType):
        hint = hint.__value__
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        yield from _paths(inner, _marked(metadata, mark), path)
        return
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for one in arguments:
            yield from _paths(one, mark, path)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _paths(arguments[1], mark, (*path, EACH))
    elif isinstance(origin, type) and arguments and origin is not type:
        for one in arguments:
            if one is not Ellipsis:
                yield from _paths(one, mark, (*path, EACH))
    elif isinstance(hint, type) and issubclass(hint, BaseModel):
        for field_name, field in hint.model_fields.items():
            key = field.serialization_alias or field.alias or field_name
            yield from _paths(field.annotation, _marked(field.metadata, mark), (*path, key))
    elif isinstance(hint, type) and (dataclasses.is_dataclass(hint) or is_typeddict(hint)):
        for key, one in typing.get_type_hints(hint, include_extras=True).items():
            yield from _paths(one, mark, (*path, key))
    elif mark is Trusted and hint is not type(None):
        yield path


def _marked(metadata: Any, mark: FieldMark | None) -> FieldMark | None:
    return next((one for one in metadata if isinstance(one, FieldMark)), mark)
