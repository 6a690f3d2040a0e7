"""The clock as a dependency, so that tests and replays decide what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for the log, monotonic time for durations."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, also when the wall clock is set."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The current time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """`time.monotonic()`."""
        return time.monotonic()
