"""Scripts that pages are given, from the files beside this module."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

# Each text that is evaluated goes through the driver to the browser, which reads it anew: so documents have at hand
# what they are asked most.
_AT_HAND = """(() => {
  const known = window[Symbol.for("agentorchestra.view")];
  if (!known.page) Object.defineProperty(known, "page", { value: Object.freeze(%s) });
})();"""
# What is given and told is one text: as such it is read ten times as fast. Some pages have a way of their own to write
# lists: theirs is told as it is.
_WRAPPER = """async (...given) => {
  const page = %s, more = JSON.parse(given.pop());
  if (!page) return null;
  const said = await page.%s(...given, ...more);
  return Array.prototype.toJSON || Object.prototype.toJSON || String.prototype.toJSON ? [said] : JSON.stringify([said]);
}"""


@cache
def script(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


@cache
def beginning() -> str:
    """Return the script with which each document begins: it listens, and has `page.js` and `probe.js` at hand."""
    return f"{script('listeners.js')}\n{_AT_HAND % _functions()}"


@cache
def of_page(function: str) -> str:
    """Return a function of `page.js` for Playwright to evaluate: an element comes first, then what is given."""
    return f"(...given) => {script('page.js')}.{function}(...given)"


def _functions() -> str:
    return f"({{ ...{script('page.js')}, probe: {script('probe.js')} }})"


@cache
def _expression(function: str, at_hand: bool) -> str:
    return _WRAPPER % ('window[Symbol.for("agentorchestra.view")]?.page' if at_hand else _functions(), function)


async def ask(evaluate: Callable[[str, str], Awaitable[Any]], function: str, *args: Any) -> Any:
    """Return what a function of `page.js`, or `probe`, says, given what JSON can hold; None if it cannot be read.

    `evaluate` is that of a page, a frame or an element; an element comes before what is given.
    """
    text = json.dumps(args)
    answer = await evaluate(_expression(function, True), text)
    if answer is None:  # a document that did not begin with `beginning`
        answer = await evaluate(_expression(function, False), text)
    try:
        values = json.loads(answer) if isinstance(answer, str) else answer
    except ValueError:  # scripts of the page had a say
        return None
    return values[0] if isinstance(values, list) and len(values) == 1 else None
