"""The base of values that remember what was computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Generic, Self, TypeVar, overload

from pydantic import BaseModel, ConfigDict

from agentorchestra.core.ids import sha256_json

M = TypeVar("M", bound=BaseModel)
V = TypeVar("V")


def construct(model: type[M], values: dict[str, Any]) -> M:
    """Return an instance with these values, all fields given and of the right types: not validated, not copied.

    What `model_construct` does, at a tenth of its cost: the log makes an event for everything that happens.
    """
    instance = model.__new__(model)
    _set(instance, "__dict__", values)
    _set(instance, "__pydantic_fields_set__", _ALL_FIELDS.get(model) or _ALL_FIELDS.setdefault(model, set(values)))
    _set(instance, "__pydantic_extra__", None)
    _set(instance, "__pydantic_private__", None)
    return instance


_set = object.__setattr__
_ALL_FIELDS: dict[type[BaseModel], set[str]] = {}
"""The names of all fields: one set serves all instances, since what is frozen never adds to it."""


class computed(Generic[V]):
    """A property that is worked out once and kept with the instance: `cached_property` without its lock.

    Two threads may both work it out, and get the same.
    """

    def __init__(self, work: Callable[[Any], V]) -> None:
        self._work = work
        self._name = work.__name__
        self.__doc__ = work.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> computed[V]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> V: ...
    def __get__(self, instance: object | None, owner: type) -> computed[V] | V:
        """Return the value; the next time it is found with the instance."""
        if instance is None:
            return self
        value = self._work(instance)
        instance.__dict__[self._name] = value
        return value


class Frozen(BaseModel):
    """An immutable value with cached properties (its hash, its size).

    pydantic copies cached properties along: a changed copy would bear the hash of what it was made from.
    """

    model_config = ConfigDict(frozen=True, ignored_types=(computed,))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; with an update, what was computed from the old values is computed anew."""
        copy = super().model_copy(update=update, deep=deep)
        if update:
            for name in copy.__dict__.keys() - type(self).model_fields.keys():
                del copy.__dict__[name]
        return copy


class Hashed(Frozen):
    """A value with a content hash."""

    @cached_property
    def digest(self) -> str:
        """Content hash; cached, the value is immutable."""
        return sha256_json(self.model_dump(mode="json", exclude_defaults=True))
