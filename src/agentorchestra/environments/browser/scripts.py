"""Scripts that pages are given, from the files beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def script(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


@cache
def of_page(function: str) -> str:
    """Return a function of `page.js` for Playwright to evaluate: an element comes first, then what is given."""
    return f"(...given) => {script('page.js')}.{function}(...given)"
