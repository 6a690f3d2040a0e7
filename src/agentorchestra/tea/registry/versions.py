"""The semantic version of a component, from how its schema changed.

A caller that was written for the old schema decides: what it says that is refused now makes the change major (an
argument removed, newly required, or allowed fewer values), what it may newly say makes it minor (an optional argument,
more values), anything else is a patch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentorchestra.core.errors import UsageError

Level = Literal["none", "patch", "minor", "major"]
_ORDER: tuple[Level, ...] = ("none", "patch", "minor", "major")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_ANY_TYPE = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_NARROWING_UP = ("minLength", "minItems", "minimum", "exclusiveMinimum", "minProperties")
_NARROWING_DOWN = ("maxLength", "maxItems", "maximum", "exclusiveMaximum", "maxProperties")
_DEEPEST = 32
_JSON_TYPES: dict[type, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null", list: "array",
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A difference between two schemas: what it means for callers, and a phrase with the argument's path."""

    level: Level
    what: str


def level_of(changes: list[Change]) -> Level:
    return max((change.level for change in changes), key=_ORDER.index, default="none")


def next_version(version: str, level: Level) -> str:
    """Return the version after a change; `none` gives the same one."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise UsageError(f"{version!r} is no version; versions look like 1.2.0")
    major, minor, patch = map(int, match.groups())
    match level:
        case "major":
            return f"{major + 1}.0.0"
        case "minor":
            return f"{major}.{minor + 1}.0"
        case "patch":
            return f"{major}.{minor}.{patch + 1}"
        case _:
            return version


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return how the JSON schema of a component's arguments changed, for whoever calls it."""
    if before == after:
        return []
    changes = list(_Comparison(before, after).changes(before, after, "", 0))
    return changes or [Change("patch", "descriptions")]


class _Comparison:
    """Compares two schemas; `old` and `new` are the documents that references in them point into."""

    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self._old, self._new = old, new

    def changes(self, before: Mapping[str, Any], after: Mapping[str, Any], path: str, deep: int) -> Iterator[Change]:
        before, after = _resolve(before, self._old), _resolve(after, self._new)
        if before == after or deep > _DEEPEST:
            return
        name = path or "the arguments"
        less, more = _types(before) - _types(after), _types(after) - _types(before)
        if less:
            yield Change("major", f"{name} may no longer be {_join(less)}")
        if more:
            yield Change("minor", f"{name} may be {_join(more)} too")
        yield from _values(before, after, name)
        for keyword in (*_NARROWING_UP, *_NARROWING_DOWN):
            yield from _limit(keyword, before.get(keyword), after.get(keyword), name)
        for keyword in ("pattern", "format"):
            former, other = before.get(keyword), after.get(keyword)
            if former != other:
                yield Change("minor" if other is None else "major", f"the {keyword} of {name} is {other or 'free'} now")
        yield from self._properties(before, after, path, deep)
        former, other = before.get("items"), after.get("items")
        if isinstance(former, Mapping) and isinstance(other, Mapping):
            yield from self.changes(former, other, f"{path}[]", deep + 1)
        elif isinstance(other, Mapping):
            yield Change("major", f"the elements of {name} have a schema now")
        elif isinstance(former, Mapping):
            yield Change("minor", f"the elements of {name} are free now")

    def _properties(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: str, deep: int
    ) -> Iterator[Change]:
        earlier, later = _mapping(before.get("properties")), _mapping(after.get("properties"))
        required, needs = set(before.get("required") or ()), set(after.get("required") or ())
        closed = after.get("additionalProperties") is False
        names = {key: f"{path}.{key}" if path else key for key in (*earlier, *later, *sorted(needs ^ required))}
        for key in {**earlier, **later}:
            name = names[key]
            if key not in later:
                level: Level = "major" if closed or "additionalProperties" not in after else "minor"
                yield Change(level, f"{name} was removed")
            elif key not in earlier:
                verdict: tuple[Level, str] = ("major", "required") if key in needs else ("minor", "optional")
                yield Change(verdict[0], f"{name} is new and {verdict[1]}")
            else:
                if key in needs ^ required:
                    yield _requirement(name, key in needs)
                yield from self.changes(_mapping(earlier[key]), _mapping(later[key]), name, deep + 1)
        for key in sorted((needs ^ required) - set(earlier) - set(later)):
            yield _requirement(names[key], key in needs)
        if before.get("additionalProperties", True) is not False and closed and "additionalProperties" in before:
            yield Change("major", f"{path or 'the call'} takes no other arguments now")


def _requirement(name: str, required: bool) -> Change:
    return Change("major", f"{name} is required now") if required else Change("minor", f"{name} is optional now")


def _values(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> Iterator[Change]:
    earlier, later = before.get("enum"), after.get("enum")
    if isinstance(earlier, list) and isinstance(later, list):
        less = [value for value in earlier if value not in later]
        more = [value for value in later if value not in earlier]
        if less:
            yield Change("major", f"{name} may no longer be {', '.join(map(repr, less))}")
        if more:
            yield Change("minor", f"{name} may be {', '.join(map(repr, more))} too")
    elif isinstance(later, list):
        yield Change("major", f"{name} is one of {', '.join(map(repr, later))} now")
    elif isinstance(earlier, list):
        yield Change("minor", f"{name} may have any value now")


def _limit(keyword: str, former: Any, other: Any, name: str) -> Iterator[Change]:
    if former == other:
        return
    if other is None:
        narrower = False
    elif former is None:
        narrower = True
    else:
        narrower = other > former if keyword in _NARROWING_UP else other < former
    yield Change("major" if narrower else "minor", f"{keyword} of {name} is {'free' if other is None else other} now")


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types a value may have; all of them where nothing is said."""
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return frozenset().union(*(_types(_mapping(option)) for option in schema[keyword]))
    kind = schema.get("type")
    if kind is None:
        values = schema.get("enum")
        return (
            _ANY_TYPE
            if not isinstance(values, list)
            else frozenset(_JSON_TYPES.get(type(value), "object") for value in values)
        )
    kinds = frozenset(kind if isinstance(kind, list) else [kind])
    return kinds | {"integer"} if "number" in kinds else kinds


def _resolve(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its reference followed, and of an optional value the schema of the value."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target: Any = document
        for part in reference[2:].split("/"):
            target = _mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        schema = {**_mapping(target), **{key: value for key, value in schema.items() if key != "$ref"}}
    options = schema.get("anyOf")
    if isinstance(options, list):
        real = [option for option in options if isinstance(option, Mapping) and option.get("type") != "null"]
        if len(real) == 1:
            inner = _resolve(real[0], document)
            kinds = sorted(_types(inner) | ({"null"} if len(options) > 1 else set()))
            return {**inner, **{key: value for key, value in schema.items() if key != "anyOf"}, "type": kinds}
    return schema


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _join(kinds: frozenset[str]) -> str:
    return " or ".join(sorted(kinds))
