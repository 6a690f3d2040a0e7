"""The values inside the arguments of a call, each with its path: what policy judges and a question shows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind
from agentorchestra.core.messages import ToolSchema

MOST_LEAVES = 5_000  # values of one call that are looked at one by one; the rest counts as one value that nobody knows


MOST_ROWS = 50  # arguments that a question shows one by one
KEY = " (key)"  # how the path of a dictionary's key ends

INSIDE = "name-inside"
"""The `format` of a parameter that names something inside the one service that its tool was made for: whatever stands
there chooses no host, as what is searched for chooses no search engine."""

ELEMENT = "element"
"""The `format` of a parameter that names a thing which its environment has shown (a button, a tab): the environment
refuses whatever else stands there, and sends it nowhere."""

SITE = "site"
"""The `format` of a parameter that names the host to which the call sends: its environment refuses the call where that
is not so. `HOST`, or `HOST:PORT`."""

_ALIKE = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value inside the arguments of a call."""

    path: str  # `to`, `mail.to[1]`; of a dictionary's key, `headers.x-note (key)`
    value: str | int | float | bool
    default: bool = False  # what the tool takes by itself when nothing is given
    choice: bool = False  # the tool's schema lists the values there are, or it is a boolean
    inside: bool = False  # its parameter has the format `INSIDE`
    element: bool = False  # `ELEMENT`
    site: bool = False  # `SITE`
    choices: tuple[str, ...] = ()  # where `choice` holds: the values there are


def leaves_of(effect: Effect) -> list[Leaf]:
    """Return the values that whoever decided the call has chosen; empty ones and None say nothing and are left out."""
    arguments: JsonValue = dict(effect.arguments)
    if effect.kind is EffectKind.INVOKE_ACTION:
        arguments = effect.arguments.get("arguments")  # the action itself is one of the environment's
    elif effect.kind is EffectKind.RUN_CODE:
        # A part without code goes on with a program that was judged; the rest of the arguments is the framework's.
        arguments = {"code": effect.arguments["code"]} if "code" in effect.arguments else {}
    found: list[Leaf] = []
    for leaf in leaves(arguments, effect.declared):
        if len(found) >= MOST_LEAVES:
            found.append(Leaf("…", "more values than are looked at"))
            break
        found.append(leaf)
    return found


def leaves(value: JsonValue, declared: ToolSchema | None = None) -> Iterator[Leaf]:
    """Yield every text, number and boolean inside arguments, in their order.

    Names of fields that the tool's schema declares are the tool's too, other keys are data. What it says of defaults
    and choices holds only where its description is trusted.
    """
    root = declared.parameters if declared is not None else {}
    trusted = declared is not None and declared.trust is not Trust.UNTRUSTED
    pending: list[tuple[str, JsonValue, Any, bool]] = [("", value, root, True)]
    while pending:
        path, item, schema, top = pending.pop()
        schema = _resolved(schema, root)
        if isinstance(item, dict):
            fields = _fields(schema, root)
            inner: list[tuple[str, JsonValue, Any, bool]] = []
            for key, one in item.items():
                if key not in fields and not (top and declared is None) and str(key):
                    yield Leaf(f"{path}.{key}{KEY}".lstrip("."), str(key))
                inner.append((f"{path}.{key}" if path else str(key), one, fields.get(key), False))
            pending.extend(reversed(inner))
        elif isinstance(item, list):
            of_items = next((one["items"] for one in _alternatives(schema, root) if "items" in one), None)
            pending.extend((f"{path}[{index}]", one, of_items, False) for index, one in reversed([*enumerate(item)]))
        elif isinstance(item, bool | int | float) or (isinstance(item, str) and item):
            kinds = _alternatives(schema, root) if trusted else []
            default = trusted and isinstance(schema, dict) and "default" in schema and _same(schema["default"], item)
            listed = any(item in one.get("enum", ()) or one.get("const", None) == item for one in kinds)
            choices = ("true", "false") if isinstance(item, bool) else tuple(_choices(kinds) if listed else ())
            formats = {one["format"] for one in kinds if isinstance(one.get("format"), str)}
            yield Leaf(
                path,
                item,
                default,
                isinstance(item, bool) or listed,
                INSIDE in formats,
                ELEMENT in formats,
                SITE in formats,
                choices,
            )


def _choices(kinds: list[dict[str, Any]]) -> Iterator[str]:
    for one in kinds:
        values = one.get("enum")
        yield from (str(each) for each in (values if isinstance(values, list | tuple) else ()))
        if "const" in one:
            yield str(one["const"])


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _resolved(schema: Any, root: dict[str, Any]) -> Any:
    ref = schema.get("$ref", "") if isinstance(schema, dict) else ""
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        return root.get("$defs", {}).get(ref.removeprefix("#/$defs/"), {})
    return schema


def _alternatives(schema: Any, root: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema and what it may be instead."""
    if not isinstance(schema, dict):
        return []
    others = [_resolved(one, root) for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key) or ()]
    return [schema, *(one for one in others if isinstance(one, dict))]


def _fields(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in _alternatives(schema, root):
        properties = one.get("properties")
        found |= properties if isinstance(properties, dict) else {}
    return found


def harmless(text: str, width: int = 300) -> str:
    """Return text of unknown origin for one line: what would steer a terminal or a reader's eyes is written out.

    The middle of what is longer than `width` characters is left out, so that beginning and end can be judged.
    """
    if len(text) <= width:
        shown = "".join(map(_visible, text))
        if len(shown) <= width:
            return shown
    tail = width // 3
    head = "".join(map(_visible, text[: width - tail]))[: width - tail]
    return f"{head} [… {len(text):,} characters …] {''.join(map(_visible, text[-tail:]))[-tail:]}"


def argument_rows(details: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return (path, value, trust, origin) of each argument that a question is about, every one harmless to show.

    Of a question that an agent asks by itself: what untrusted content it has seen.
    """
    if saw := details.get("saw"):
        return [("seen by the agent that asks", harmless(str(saw), 600), "", "")]
    origins = details.get("origins")
    if isinstance(origins, dict):
        rows = []
        for path, one in list(origins.items())[:MOST_ROWS]:
            value, trust, places = str(one.get("value", "")), str(one.get("trust", "")), one.get("from") or ()
            origin = "; ".join(harmless(str(place), 600) for place in places)
            rows.append((harmless(path, 80), f"'{harmless(value, 400)}'{_mixed_scripts(value)}", trust, origin))
        if len(origins) > MOST_ROWS:
            rows.append(("…", f"{len(origins) - MOST_ROWS:,} more", "", "the log has all of them"))
        return rows
    arguments = details.get("arguments")  # a question about something else, or one that an older version recorded
    given = arguments if isinstance(arguments, dict) else {}
    return [(harmless(leaf.path, 80), f"'{harmless(shown_text(leaf.value))}'", "", "") for leaf in leaves(given)]


def _mixed_scripts(value: str) -> str:
    """Return a warning for letters of several scripts in one word: they can look like others."""
    for word in re.findall(r"\w+", value):
        scripts = {name for char in word if (name := unicodedata.name(char, "?").split()[0]) in _ALIKE}
        if len(scripts) > 1:
            return f" [mixes {' and '.join(sorted(scripts)).title()} letters: {harmless(word, 60)}]"
    return ""


def _visible(char: str) -> str:
    if char == " " or unicodedata.category(char)[0] not in "CZ":
        return char
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or f"\\u{{{ord(char):04x}}}"


def shown_text(value: str | int | float | bool) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and value.bit_length() > 1_000:
        return f"a number of {value.bit_length()} bits"
    return str(value).lower() if isinstance(value, bool) else str(value)
