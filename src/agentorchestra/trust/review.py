"""The second look: a model sees a call that the plan allows once more, before it takes effect, and names its doubts.

What it doubts is put to the user; tools, receivers and sources are the plan's, whatever it says. It sees the user's
words, the plan, the call, and the results that the plan names as sources of its values (`runtime/review.py` asks it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.effects import Effect, Outcome
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import REVIEW, Given, PlannedUse, Policy, PolicyView, Verdict
from agentorchestra.core.reply_text import read_json
from agentorchestra.trust.arguments import harmless, leaves_of
from agentorchestra.trust.plan import expected_of, identifies, is_destination
from agentorchestra.trust.records import pieces_of, same, text_in

MOST_TEXT = 6_000  # characters of a text in the call that are shown; a longer one is cut in its middle

MOST_RESULT = 4_000
"""Characters of a result that are shown; of a longer one its beginning and what stands around the call's values."""

MOST_RESULTS = 20_000  # characters of all results together: of more, the last ones of the tools that were called last

AROUND = 300
MOST_EXPECTED = 300
MOST_DONE = 10
MOST_DOUBTS = 5

SCHEMA: dict[str, JsonValue] = {
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


def shown_call(effect: Effect, view: PolicyView) -> list[TextBlock]:
    """Return the call as JSON, and behind it the results in which its values may stand, each with what it was told."""
    plan = view.plan()
    acting = {one.tool for one in plan.uses} if plan is not None else set()
    done = [
        {"tool": name, "arguments": _cut(one.arguments)}
        for name in sorted(acting)
        for one in view.results().get(name, ())
    ]
    asked = {"tool": effect.called, "arguments": _cut(effect.arguments), "done before": done[-MOST_DONE:]}
    call = json.dumps(asked, ensure_ascii=False, indent=1)
    shown = [TextBlock(text=call, trust=Trust.UNTRUSTED, source=Source(kind="agent", ref=effect.called))]
    left, results = MOST_RESULTS, []
    for name, given in reversed([*_sources(effect, view)]):
        text = _around(text_in(given.value), effect)
        if (left := left - len(text)) < 0:
            break
        told = ", ".join(f"{key}={value!r}" for key, value in given.arguments.items())
        source = Source(kind="tool", ref=name, place=harmless(told, 200) or None)
        results.append(TextBlock(text=text, trust=Trust.UNTRUSTED, source=source))
    return shown + results[::-1]


def _sources(effect: Effect, view: PolicyView) -> Iterator[tuple[str, Given]]:
    """Yield the results of tools that the plan names for the call, and those with a record that the call names."""
    planned = {source.tool for use in _uses(effect, view) for one in use.arguments for source in one.sources}
    names = [one for one in leaves_of(effect) if identifies(one) or is_destination(one)]
    for name, given in view.results().items():
        for one in given:
            named = (same(leaf.value, piece.text) for piece in pieces_of(one) if piece.whole for leaf in names)
            if name in planned or any(named):
                yield name, one


def _around(text: str, effect: Effect) -> str:
    """Return a text; of a long one its beginning and the places where a value of the call stands."""
    if len(text) <= MOST_RESULT:
        return text
    kept = [(0, AROUND)]
    for leaf in leaves_of(effect):
        value = str(leaf.value).strip()
        found = re.finditer(re.escape(value), text, re.IGNORECASE) if len(value) > 1 else ()
        kept += [(max(0, one.start() - AROUND), one.end() + AROUND) for one in found]
    shown, end = "", 0
    for start, stop in sorted(kept):
        if start > end:
            shown, end = f"{shown}\n[…]\n", start
        if stop > end and len(shown) < MOST_RESULT:
            shown, end = shown + text[end:stop], stop
    return shown[:MOST_RESULT] if end >= len(text) else f"{shown[:MOST_RESULT]}\n[…]"


def shown_plan(effect: Effect, view: PolicyView) -> list[str]:
    """Return what the plan says of the tool's arguments, a line each."""
    return [line for use in _uses(effect, view) for line in _expected(use)]


def _uses(effect: Effect, view: PolicyView) -> list[PlannedUse]:
    plan = view.plan()
    return [one for one in plan.uses if one.tool == effect.called] if plan is not None else []


def _expected(use: PlannedUse) -> list[str]:
    often = f"at most {use.times} times" if use.times > 1 else "once" if use.times else "for each that is meant"
    return [f"{often}:", *(f"- {one.argument}: {expected_of(one.sources, MOST_EXPECTED)}" for one in use.arguments)]


def doubts_of(outcome: Outcome) -> dict[str, str] | None:
    """Return the doubts of a look by argument, None for a reply that cannot be read: nobody has looked then.

    A look that could not be made is a doubt, since the budget may have been wasted for that.
    """
    if not outcome.ok:
        return {"": f"it could not be made: {outcome.error}"}
    try:
        value = read_json(outcome.response.text)
    except (ValueError, RecursionError):
        return None
    doubts = value.get("doubts") if isinstance(value, dict) else None
    if not isinstance(doubts, list) or not all(isinstance(one, dict) for one in doubts):
        return None
    return {str(one.get("argument", "")): str(one.get("why", "")) for one in doubts}


def after_look(policy: Policy, effect: Effect, view: PolicyView, outcome: Outcome) -> Verdict:
    """Return the verdict on an effect that policy allowed because a look was to follow."""
    doubts = doubts_of(outcome)
    if doubts is None:
        return policy.decide(effect, view.model_copy(update={"second_look": False}))
    return doubted(effect, doubts) if doubts else Verdict()


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


def _cut(value: JsonValue) -> JsonValue:
    """Return a value with each long text in it cut to its beginning and its end."""
    if isinstance(value, dict):
        return {name: _cut(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_cut(one) for one in value]
    if not isinstance(value, str) or len(value) <= MOST_TEXT:
        return value
    return f"{value[: MOST_TEXT // 2]} [… {len(value) - MOST_TEXT} characters …] {value[len(value) - MOST_TEXT // 2 :]}"
