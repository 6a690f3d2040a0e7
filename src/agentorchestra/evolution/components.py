"""The components that an evolution changes, by references such as `tool:price_of`."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.errors import EvolutionError
from agentorchestra.tea.registry.context import ContextManager
from agentorchestra.workspace import Workspace


def manager_of(workspace: Workspace[Any], subject: str) -> tuple[ContextManager[Any], str]:
    """Return the manager of a component and its name, from `tool:price_of`; EvolutionError for another form."""
    kind, _, name = subject.partition(":")
    managers = {manager.kind.name: manager for manager in workspace.components.managers}
    if kind not in managers or not name:
        raise EvolutionError(f"{subject!r} names no component; write KIND:NAME, the kinds are {', '.join(managers)}")
    return managers[kind], name


async def version_of(workspace: Workspace[Any], subject: str) -> str:
    """Return the version that a component's name means now; raise UnknownComponentError if there is none."""
    manager, name = manager_of(workspace, subject)
    return (await manager.info(name)).version
