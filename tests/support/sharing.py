"""Tests that share what is made once for their module, a browser, a server or a recorded run, go to one process.

Else each of the processes would make its own. The controller of pytest-xdist knows tests by their names alone, and the
marker `xdist_group` does nothing with pytest 9.2 (pytest-xdist, issue 1386): the source of a module says it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

_MADE_ONCE = re.compile(r'(?<!loop_)scope="module"')


class Together(LoadGroupScheduling):  # type: ignore[misc]
    """Hands out tests one by one, but a module whole where its tests share something."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return module if shares(self.config.rootpath / module) else str(super()._split_scope(nodeid))


@cache
def shares(module: Path) -> bool:
    """Return whether a fixture in the file is made once for the module."""
    return _MADE_ONCE.search(module.read_text(encoding="utf-8")) is not None


__all__ = ["Together", "shares"]
