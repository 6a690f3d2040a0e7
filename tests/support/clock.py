"""A clock that tests set."""

from __future__ import annotations

import time
from datetime import UTC, datetime

START = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
"""In Berlin the clock is set back in the night that follows."""


class FakeClock:
    """A wall clock that stands still until a test sets it; durations are real."""

    def __init__(self, now: datetime = START) -> None:
        self.time = now

    def now(self) -> datetime:
        """Return the time that was set."""
        return self.time

    def monotonic(self) -> float:
        """Return real seconds."""
        return time.monotonic()
