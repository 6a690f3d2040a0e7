"""How many examples a property is tried with."""

from __future__ import annotations

import hypothesis


def examples(number: int) -> int:
    """Return the number for the long tier, a quarter of it with every change."""
    return number // 4 if hypothesis.settings.get_current_profile_name() == "quick" else number
