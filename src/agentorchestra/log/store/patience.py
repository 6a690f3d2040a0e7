"""How long is waited for what is away: a database on another machine, a store of artifacts."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_CONFLICTS = 10  # deadlocks in a row that are taken for chance


class Patience:
    """One wait of at most `limit_s` seconds for what is away, by a clock that nobody sets back."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.began: float | None = None  # when waiting began
        self._pause_s = _FIRST_PAUSE_S
        self._conflicts = 0

    def wait(self, say: Callable[[], None]) -> bool:
        """Pause before the next try; False when the time is over. `say` is called once, when the waiting begins."""
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
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return True

    def again(self) -> bool:
        """Return True if what met another transaction is tried once more."""
        self._conflicts += 1
        return self._conflicts <= _CONFLICTS


__all__ = ["Patience"]
