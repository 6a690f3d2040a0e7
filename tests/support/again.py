"""Tests that drive a real browser or desktop are tried once more when they fail.

The marker `real` says which, and the fixtures that are made with `real`. The summary of a run names each test that was
tried again, with what failed at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., object])

_LEAKS = "(?i)unraisable|unhandled thread|UnhandledThread|ResourceWarning|never awaited"
"""Something that was left open fails a test at once: another try may not leave it open."""


def real(fixture: F) -> F:
    """Say of a fixture's function that it gives a real browser or desktop."""
    vars(fixture)["real"] = True
    return fixture


def try_again(items: Iterable[pytest.Item]) -> None:
    """Have the tests that drive something real tried once more."""
    for item in items:
        if _given(item):
            item.add_marker("real")
        if item.get_closest_marker("real") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except=[_LEAKS]))


def _given(item: pytest.Item) -> bool:
    """Whether one of the test's fixtures gives something real."""
    if not isinstance(item, pytest.Function):
        return False
    fixtures = (one for each in item._fixtureinfo.name2fixturedefs.values() for one in each)
    return any(getattr(one.func, "real", False) for one in fixtures)


__all__ = ["real", "try_again"]
