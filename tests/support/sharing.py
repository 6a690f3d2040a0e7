"""Tests that share what is made once for their module: a browser, a server, a recorded run.

They go to one process, or each of the processes would make its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pytest


def keep_together(items: Iterable[pytest.Item]) -> None:
    """Group the tests of a module that share a fixture of it, for `--dist loadgroup`."""
    for item in items:
        if any(fixture.scope == "module" for fixture in fixtures_of(item)):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))


def fixtures_of(item: pytest.Item) -> Iterator[pytest.FixtureDef[Any]]:
    """Yield the fixtures that a test uses, directly or through others."""
    if isinstance(item, pytest.Function):
        yield from chain.from_iterable(item._fixtureinfo.name2fixturedefs.values())


__all__ = ["fixtures_of", "keep_together"]
