"""Tests that drive a real browser or desktop are tried once more when they fail.

The marker `real` says which. The summary of a run names each test that was tried again, with what failed at first.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

_LEAKS = "(?i)unraisable|unhandled thread|UnhandledThread|ResourceWarning|never awaited"
"""Something that was left open fails a test at once: another try may not leave it open."""


def try_again(items: Iterable[pytest.Item]) -> None:
    """Have the tests with the marker `real` tried once more."""
    for item in items:
        if item.get_closest_marker("real") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except=[_LEAKS]))


__all__ = ["try_again"]
