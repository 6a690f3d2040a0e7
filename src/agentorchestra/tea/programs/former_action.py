"""`@action` for texts of components that were recorded when it took `mutates`, `tags` and `composite`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from agentorchestra.core.effects import Tag
from agentorchestra.tea.calling.environment import Action, make_action


def action(
    function: Callable[..., Any] | None = None,
    /,
    *,
    mutates: bool = True,
    tags: Iterable[str] = (),
    composite: bool = False,
    **present: Any,
) -> Any:
    """Make a method an action, as `tea.calling.environment.action` did and does."""

    def make(function: Callable[..., Any], namespace: Mapping[str, Any]) -> Action:
        made = make_action(function, namespace, **present)
        if "effect" in present:
            return made
        return replace(
            made, mutates=mutates and not composite, tags=frozenset(Tag(tag) for tag in tags), composite=composite
        )

    if function is not None:
        return make(function, sys._getframe(1).f_locals)
    return lambda function: make(function, sys._getframe(1).f_locals)
