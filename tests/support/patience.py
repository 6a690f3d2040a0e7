"""Short limits of time, on any machine."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST_S = 300.0
"""Ends what hangs."""


def growing(seconds: float) -> Iterator[float]:
    """A limit, and longer ones for a machine on which what it cuts does not get far enough before it.

    The test leaves its loop once that was reached, and fails as it is where no limit is long enough.
    """
    while seconds < LONGEST_S:
        yield seconds
        seconds *= 5


__all__ = ["LONGEST_S", "growing"]
