"""Run-scoped state as one branch sees it: the only mutable state of a tool."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from pydantic import JsonValue


class Vars(MutableMapping[str, JsonValue]):
    """Run-scoped state as one branch sees it: what it inherited, under what it wrote."""

    def __init__(self, base: dict[str, JsonValue]) -> None:
        self._base = base
        self.writes: dict[str, JsonValue] = {}

    def __getitem__(self, key: str) -> JsonValue:
        value = self.writes[key] if key in self.writes else self._base[key]
        if value is None:
            raise KeyError(key)
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
        """Everything in view, as a new dictionary."""
        return {**self._base, **self.writes}
