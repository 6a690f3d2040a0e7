"""Scripts that pages are given, from the files beside this module."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

# Each text that is evaluated goes through the driver to the browser, which reads it anew: so documents have at hand
# what they are asked most.
_AT_HAND = """(() => {
  const known = window[Symbol.for("agentorchestra.view")];
  if (!known.page) Object.defineProperty(known, "page", { value: Object.freeze({ ...%s, probe: %s }) });
})();"""
_ASKED = """(...given) => {
  const page = window[Symbol.for("agentorchestra.view")]?.page;
  return page ? page.%s(...given) : %r;
}"""
_ABSENT = "agentorchestra: not at hand"


@cache
def script(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


@cache
def beginning() -> str:
    """Return the script with which each document begins: it listens, and has `page.js` and `probe.js` at hand."""
    return f"{script('listeners.js')}\n{_AT_HAND % (script('page.js'), script('probe.js'))}"


@cache
def of_page(function: str) -> str:
    """Return a function of `page.js` for Playwright to evaluate: an element comes first, then what is given."""
    return f"(...given) => {script('page.js')}.{function}(...given)"


@cache
def _asked(function: str) -> str:
    return _ASKED % (function, _ABSENT)


async def ask(evaluate: Callable[..., Awaitable[Any]], function: str, *given: Any) -> Any:
    """Return what a function of `page.js` (or `probe`) says; `evaluate` is that of a page, a frame or an element."""
    said = await evaluate(_asked(function), *given)
    if said == _ABSENT:  # a document that did not begin with `beginning`
        said = await evaluate(script("probe.js") if function == "probe" else of_page(function), *given)
    return said
