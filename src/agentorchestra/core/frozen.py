"""The base of values that remember what was computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value with cached properties (its hash, its size).

    pydantic copies cached properties along: a changed copy would bear the hash of what it was made from.
    """

    model_config = ConfigDict(frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; with an update, what was computed from the old values is computed anew."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            for name in copied.__dict__.keys() - type(self).model_fields.keys():
                del copied.__dict__[name]
        return copied


__all__ = ["Frozen"]
