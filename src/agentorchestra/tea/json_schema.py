"""What is wrong with a JSON value, measured by a JSON schema.

The part of JSON Schema 2020-12 that schemas of tools and answers use: types, enum, const, objects (properties,
required, additionalProperties, patternProperties, minProperties, maxProperties), arrays (items, prefixItems, minItems,
maxItems, uniqueItems), numbers, strings (length, pattern), anyOf, oneOf, allOf, not, if/then/else and references inside
the schema. Other keywords (format, ...) are notes and are not checked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from agentorchestra.core.ids import canonical_json

_DEEPEST = 200
_SHOWN = 80


def schema_problems(value: Any, schema: Any, *, place: str = "") -> list[str]:
    """What is wrong, a phrase each, with its place; nothing when the value fits.

    Args:
        value: a JSON value.
        schema: a JSON schema: an object or a boolean.
        place: the value's own name, for the phrases.
    """
    return list(_Checker(schema).problems(value, schema, place, 0))


class _Checker:
    def __init__(self, root: Any) -> None:
        self._root = root

    def problems(self, value: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        if schema is True or not isinstance(schema, dict | bool):
            return
        if schema is False:
            yield f"{_at(place)}is not allowed"
            return
        if depth > _DEEPEST:
            yield f"{_at(place)}is nested too deeply to be checked"
            return
        if "$ref" in schema:
            yield from self.problems(value, self._target(str(schema["$ref"])), place, depth + 1)
        kinds = schema.get("type")
        if kinds is not None:
            allowed = [kinds] if isinstance(kinds, str) else list(kinds)
            if not any(_is(value, kind) for kind in allowed):
                yield f"{_at(place)}must be {' or '.join(allowed)} (got {_short(value)})"
                return
        if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
            allowed_values = ", ".join(json.dumps(one, ensure_ascii=False) for one in schema["enum"])
            yield f"{_at(place)}must be one of {allowed_values} (got {_short(value)})"
        if "const" in schema and not _same(value, schema["const"]):
            yield f"{_at(place)}must be {json.dumps(schema['const'], ensure_ascii=False)} (got {_short(value)})"
        if isinstance(value, dict):
            yield from self._object(value, schema, place, depth)
        elif isinstance(value, list):
            yield from self._array(value, schema, place, depth)
        elif isinstance(value, str):
            yield from _string(value, schema, place)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield from _number(value, schema, place)
        yield from self._combined(value, schema, place, depth)

    def _target(self, ref: str) -> Any:
        found = self._root
        if not ref.startswith("#"):
            return True  # a schema from elsewhere: nothing is fetched
        for part in ref[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key, True) if isinstance(found, dict) else True
        return found

    def _object(self, value: dict[str, Any], schema: dict[str, Any], place: str, depth: int) -> Iterator[str]:
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield f"missing {_join(place, name)!r}"
        patterns = {p: s for p, s in schema.get("patternProperties", {}).items() if _compiled(p)}
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            fits = [s for p, s in patterns.items() if re.search(p, name)]
            if name in properties:
                fits.append(properties[name])
            if not fits and others is False:
                yield f"unknown {_join(place, name)!r}"
            for one in fits or [others]:
                yield from self.problems(item, one, _join(place, name), depth + 1)
        least, most = schema.get("minProperties", 0), schema.get("maxProperties", math.inf)
        if not least <= len(value) <= most:
            yield f"{_at(place)}must have {_range(least, most)} entries (has {len(value)})"

    def _array(self, value: list[Any], schema: dict[str, Any], place: str, depth: int) -> Iterator[str]:
        first = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        for index, item in enumerate(value):
            one = first[index] if index < len(first) else rest
            yield from self.problems(item, one, f"{place}[{index}]", depth + 1)
        least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
        if not least <= len(value) <= most:
            yield f"{_at(place)}must have {_range(least, most)} items (has {len(value)})"
        if schema.get("uniqueItems") and len({canonical_json(item) for item in value}) < len(value):
            yield f"{_at(place)}must not hold the same item twice"

    def _combined(self, value: Any, schema: dict[str, Any], place: str, depth: int) -> Iterator[str]:
        for one in schema.get("allOf", ()):
            yield from self.problems(value, one, place, depth + 1)
        for several in ("anyOf", "oneOf"):
            if several not in schema:
                continue
            found = [list(self.problems(value, one, place, depth + 1)) for one in schema[several]]
            fitting = sum(not problems for problems in found)
            if not fitting and found:
                # The branch that came nearest says most about what was meant.
                nearest = min(found, key=len)
                yield (
                    nearest[0]
                    if len(nearest) == 1 and len(found) == 2
                    else (f"{_at(place)}fits none of its forms: {' / '.join(dict.fromkeys(p[0] for p in found))}")
                )
            elif several == "oneOf" and fitting > 1:
                yield f"{_at(place)}fits more than one of its forms (got {_short(value)})"
        if "not" in schema and not list(self.problems(value, schema["not"], place, depth + 1)):
            yield f"{_at(place)}has a form that is not allowed (got {_short(value)})"
        if "if" in schema:
            branch = "else" if list(self.problems(value, schema["if"], place, depth + 1)) else "then"
            yield from self.problems(value, schema.get(branch, True), place, depth + 1)


def _string(value: str, schema: dict[str, Any], place: str) -> Iterator[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    if not least <= len(value) <= most:
        yield f"{_at(place)}must have {_range(least, most)} characters (has {len(value)})"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and _compiled(pattern) and not re.search(pattern, value):
        yield f"{_at(place)}must match {pattern!r} (got {_short(value)})"


def _number(value: float, schema: dict[str, Any], place: str) -> Iterator[str]:
    got = f"(got {_short(value)})"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{_at(place)}must be at least {schema['minimum']} {got}"
    if "maximum" in schema and value > schema["maximum"]:
        yield f"{_at(place)}must be at most {schema['maximum']} {got}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{_at(place)}must be over {schema['exclusiveMinimum']} {got}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield f"{_at(place)}must be under {schema['exclusiveMaximum']} {got}"
    step = schema.get("multipleOf")
    if step:
        quotient = value / step
        if abs(quotient - round(quotient)) > 1e-9:
            yield f"{_at(place)}must be a multiple of {step} {got}"


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    types: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return kind not in types or isinstance(value, types[kind])


def _same(value: Any, other: Any) -> bool:
    """JSON equality: 1 and 1.0 are one number, 1 and true are two values."""
    if isinstance(value, bool) != isinstance(other, bool):
        return False
    return bool(value == other)


def _compiled(pattern: str) -> bool:
    """Whether Python can read the pattern; ECMAScript's dialect differs, and what cannot be read is not checked."""
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _at(place: str) -> str:
    return f"{place}: " if place else ""


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _range(least: float, most: float) -> str:
    if most == math.inf:
        return f"at least {least}"
    return f"{least} to {most}" if least else f"at most {most}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


__all__ = ["schema_problems"]
