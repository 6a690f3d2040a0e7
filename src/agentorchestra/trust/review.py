"""The second look: a model sees a call that the plan allows once more, before it takes effect, and names its doubts.

It can only take away: what it doubts is put to the user, and what it says allows nothing. It sees the user's words, the
plan, the call, and the records that the values of the call name; no text that was read (`runtime/review.py` asks it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import BLOCKS, Effect, Outcome
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import REVIEW, PlannedUse, PolicyView, Verdict
from agentorchestra.trust.arguments import Leaf, harmless, leaves_of
from agentorchestra.trust.plan import expected_of, identifies, is_destination, json_in, sources_of
from agentorchestra.trust.records import Piece, pieces_of, same, text_in
from agentorchestra.trust.roles import name_words
from agentorchestra.trust.words import date_of, time_of, words_of

MOST_TEXT = 6_000
"""Characters of a text in the call that are shown; a longer one is cut in its middle."""

MOST_FIELD = 120
"""Characters of a field of a record that are shown."""

MIN_PLACED, MOST_PLACED = 2, 200
"""Characters of a value of which it is shown where it stands."""

AROUND = 120
"""Characters before and behind it."""

MOST_PLACES = 3

_EMPTY: tuple[JsonValue, ...] = ("", None, [], {})

MOST_RECORDS = 6
MOST_OTHERS = 8
MOST_DOUBTS = 5
MOST_EXPECTED = 300

SCHEMA: dict[str, Any] = {
    "title": REVIEW,
    "type": "object",
    "properties": {
        "doubts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"argument": {"type": "string"}, "why": {"type": "string"}},
                "required": ["argument", "why"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["doubts"],
    "additionalProperties": False,
}
"""The JSON that the reply has to be."""


def review_key(key: EffectKey) -> EffectKey:
    """Return the key of the second look at an effect, on a branch of its own: no other key depends on it."""
    return EffectKey(f"{key.path}.{REVIEW}", 1)


def shown_call(effect: Effect, view: PolicyView) -> str:
    """Return the call as JSON: its arguments, the records that they name, and others of the same lists."""
    named, others = _records(effect, view)
    shown: dict[str, JsonValue] = {"tool": effect.called, "arguments": _cut(effect.arguments, MOST_TEXT)}
    if named:
        shown["records"] = [*named]
        shown["other records of the same lists"] = [*others]
    if places := _places(effect, view):
        shown["where else its values stand"] = [*places]
    return json.dumps(shown, ensure_ascii=False, indent=1)


def shown_plan(effect: Effect, view: PolicyView) -> list[str]:
    """Return what the plan says of the tool's arguments, a line each."""
    plan = view.plan()
    uses = [one for one in plan.uses if one.tool == effect.called] if plan is not None else []
    return [line for use in uses for line in _expected(use)]


def _expected(use: PlannedUse) -> list[str]:
    often = f"at most {use.times} times" if use.times > 1 else "once" if use.times else "for each that is meant"
    return [f"{often}:", *(f"- {one.argument}: {expected_of(one.sources, MOST_EXPECTED)}" for one in use.arguments)]


def doubts_of(outcome: Outcome) -> dict[str, str]:
    """Return the doubts of a look by argument.

    A look that could not be made is a doubt, since the budget may have been wasted for that. A reply that cannot be
    read is none: whoever makes the model say what he wants would have it say that nothing is wrong.
    """
    if not outcome.ok:
        return {"": f"it could not be made: {outcome.error}"}
    try:
        value = json_in(outcome.response.text)
    except (ValueError, RecursionError):
        return {}
    doubts = value.get("doubts") if isinstance(value, dict) else None
    listed = [one for one in doubts if isinstance(one, dict)] if isinstance(doubts, list) else []
    return {str(one.get("argument", "")): str(one.get("why", "")) for one in listed}


def doubted(effect: Effect, doubts: Mapping[str, str]) -> Verdict:
    """Return the question that follows from doubts."""
    tags = ", ".join(sorted(tag.value for tag in effect.tags)) or "it does not say what it touches"
    said = [
        ": ".join(harmless(text, most) for text, most in ((name, 60), (why, 200)) if text)
        for name, why in doubts.items()
    ]
    more = f" and {len(said) - MOST_DOUBTS} more" if len(said) > MOST_DOUBTS else ""
    tops = {leaf.path: re.split(r"[.\[ ]", leaf.path, maxsplit=1)[0] for leaf in leaves_of(effect)}
    paths = [path for path, top in tops.items() if path in doubts or top in doubts] or [*tops]
    return Verdict(
        action="ask",
        reason=f"{effect.called} ({tags}): a second look at the call doubts it: {'; '.join(said[:MOST_DOUBTS])}{more}",
        arguments=dict.fromkeys(paths, effect.lowest_trust),
    )


def _records(effect: Effect, view: PolicyView) -> tuple[list[JsonValue], list[JsonValue]]:
    """Return the records that a call names, and others that have the same fields and stand in the same results."""
    leaves = [(leaf, fields) for leaf in leaves_of(effect) if (fields := _fields(leaf, effect, view)) is not None]
    named: list[JsonValue] = []
    others: list[JsonValue] = []
    for given in (one for each in view.results().values() for one in each):
        pieces = [one for one in pieces_of(given) if one.whole and one.fields]
        found = [
            one
            for one in pieces
            if any(same(leaf.value, one.text) and (not fields or fields & one.field) for leaf, fields in leaves)
        ]
        alike = {frozenset(one.fields) for one in found}
        _add(named, found, MOST_RECORDS)
        _add(others, [one for one in pieces if frozenset(one.fields) in alike], MOST_OTHERS + len(found))
    return named, [one for one in others if one not in named][:MOST_OTHERS]


def _places(effect: Effect, view: PolicyView) -> list[JsonValue]:
    """Return the places in texts that were read from which the values of a call may be, with the words around them."""
    found: list[JsonValue] = []
    words = words_of(view.user_content)
    for leaf in leaves_of(effect):
        text = str(leaf.value).strip()
        if leaf.default or leaf.choice or not MIN_PLACED <= len(text) <= MOST_PLACED or words.hold(leaf.value):
            continue
        near = re.compile(rf"(?<!\w).{{0,{AROUND}}}(?<!\w){re.escape(text)}(?!\w).{{0,{AROUND}}}", re.DOTALL | re.I)
        places = [
            {"argument": leaf.path, "read by": f"{name} {json.dumps(one.arguments, ensure_ascii=False)}", "text": place}
            for name, each in view.results().items()
            for one in each
            if one.untrusted
            for place in near.findall(_running_text(one.value))
        ]
        found += places[:MOST_PLACES]
    return found


def _running_text(value: JsonValue) -> str:
    """Return the texts in a result that are no short fields of records."""
    if isinstance(value, dict) and BLOCKS not in value:
        return "\n".join(filter(None, map(_running_text, value.values())))
    if isinstance(value, list):
        return "\n".join(filter(None, map(_running_text, value)))
    text = text_in(value) if isinstance(value, str | dict) else ""
    return text if len(text) > MOST_FIELD or "\n" in text else ""


def _fields(leaf: Leaf, effect: Effect, view: PolicyView) -> frozenset[str] | None:
    """Return the words in the names of fields where a value stands that names a record; None for other values.

    What names a record by itself (an id, a mailbox) may stand in any field: then there are no words.
    """
    text = str(leaf.value)
    if identifies(leaf) or is_destination(leaf):
        return frozenset()
    plan = view.plan()
    uses = [one for one in plan.uses if one.tool == effect.called] if plan is not None else []
    places = [one.where for use in uses for one in sources_of(use, leaf) if one.kind == "result"]
    if not places or leaf.choice or date_of(text) or time_of(text):
        return None
    return name_words(" ".join([leaf.path, *places]))


def _add(records: list[JsonValue], pieces: Sequence[Piece], most: int) -> None:
    for one in pieces:
        record = _cut({name: value for name, value in one.fields.items() if value not in _EMPTY}, MOST_FIELD)
        if record not in records and len(records) < most:
            records.append(record)


def _cut(value: JsonValue, most: int) -> JsonValue:
    """Return a value with each text in it cut to its beginning and its end."""
    if isinstance(value, dict):
        return {name: _cut(one, most) for name, one in value.items()}
    if isinstance(value, list):
        return [_cut(one, most) for one in value]
    if not isinstance(value, str) or len(value) <= most:
        return value
    return f"{value[: most // 2]} [… {len(value) - most} characters …] {value[len(value) - most // 2 :]}"
