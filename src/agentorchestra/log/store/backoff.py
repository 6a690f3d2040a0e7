"""How long to wait for a database that is away, and in which steps."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_S = 0.05
_LONGEST_S = 1.0
_CONFLICTS = 10
"""Deadlocks in a row that are taken for chance."""


class Patience:
    """One wait of at most `limit_s` seconds, by a clock that nobody sets back.

    Attributes:
        began: when waiting began, None if it never had to.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.began: float | None = None
        self._pause_s = _FIRST_S
        self._conflicts = 0

    def wait(self, say: Callable[[], None]) -> bool:
        """Pause before the next try; False when the time is over.

        Args:
            say: called once, when the waiting begins.
        """
        now = time.monotonic()
        if self.began is None:
            if self.limit_s <= 0:
                return False
            self.began = now
            say()
        left = self.began + self.limit_s - now
        if left <= 0:
            return False
        time.sleep(min(self._pause_s, left))
        self._pause_s = min(self._pause_s * 2, _LONGEST_S)
        return True

    def again(self) -> bool:
        """Whether what met another transaction is tried once more."""
        self._conflicts += 1
        return self._conflicts <= _CONFLICTS
