from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from copy import deepcopy

from pydantic import JsonValue

PRIVATE = "agent:"
"""Names that begin with this belong to one agent: its sub-agents do not see them, its caller does not get them."""

PROGRAMS = frozenset({f"{PRIVATE}python", f"{PRIVATE}program"})
"""An agent's own names that the next turn of its session has: where the variables of its programs lie."""

CURSORS = ("inbox", "told:", "mail:")
"""How the names begin that say how far something was read in the log of one run: in another log they mean nothing."""

KEPT = "kept:"  # names that begin with this are what agents remember: the next run of the same session begins with them


class Vars(MutableMapping[str, JsonValue]):
    """Run-scoped state as one branch sees it: what it inherited, under what it wrote.

    A list or dictionary that was inherited is lent as a copy: what is changed in it in place counts as written.
    """

    def __init__(self, base: dict[str, JsonValue]) -> None:
        self._base = base
        self._writes: dict[str, JsonValue] = {}
        self._lent: dict[str, JsonValue] = {}

    @property
    def writes(self) -> dict[str, JsonValue]:
        if not self._lent:
            return self._writes
        for key in [key for key, value in self._lent.items() if value != self._base[key]]:
            self._writes.setdefault(key, self._lent.pop(key))
        return self._writes

    def __getitem__(self, key: str) -> JsonValue:
        writes = self.writes
        value = writes[key] if key in writes else self._base[key]
        if value is None:
            raise KeyError(key)
        if key not in writes and isinstance(value, list | dict):
            value = self._lent.setdefault(key, deepcopy(value))
        return value

    def __setitem__(self, key: str, value: JsonValue) -> None:
        self.writes[key] = value

    def __delitem__(self, key: str) -> None:
        self[key]
        self.writes[key] = None

    def __iter__(self) -> Iterator[str]:
        return (key for key, value in {**self._base, **self.writes}.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def flat(self) -> dict[str, JsonValue]:
        return {**self._base, **self.writes}
