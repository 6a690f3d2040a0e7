"""`@action` for texts of components that were recorded when it took `mutates`, `tags` and `composite`."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from agentorchestra.core.effects import Tag
from agentorchestra.tea.calling.environment import make_action


def action(
    function: Any = None, /, *, mutates: bool = True, tags: Iterable[str] = (), composite: bool = False, **present: Any
) -> Any:
    """Make a method an action, as `tea.calling.environment.action` did and does."""
    former: Any = {"mutates": mutates and not composite, "tags": frozenset(map(Tag, tags)), "composite": composite}

    def make(function: Any) -> Any:
        made = make_action(function, sys._getframe(1).f_locals, **present)
        return made if "effect" in present else replace(made, **former)

    return make if function is None else make_action(function, sys._getframe(1).f_locals)
