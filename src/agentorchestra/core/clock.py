"""The clock as a dependency, so that tests and replays decide what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

_last: tuple[datetime | None, str] = (None, "")


def stamp_utc(time: datetime) -> str:
    """Return a time in UTC as text of fixed width; cached: the end of an effect and its event have the same time."""
    global _last
    moment, text = _last
    if time is not moment:
        parts = time.year, time.month, time.day, time.hour, time.minute, time.second, time.microsecond
        # `isoformat` asks the zone for its offset, an f-string formats each part by a call of its own.
        text = "%04d-%02d-%02dT%02d:%02d:%02d.%06d+00:00" % parts  # noqa: UP031
        _last = time, text
    return text


class Clock(Protocol):
    """Wall time for the log, monotonic time for durations."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never go back, also when the wall clock is set."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()
