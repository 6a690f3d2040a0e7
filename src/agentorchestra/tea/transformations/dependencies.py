"""Components that others bring with them: the environments, tools and agents behind transformed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.core.errors import TransformationError
from agentorchestra.tea.transformations.base import carried_by


@dataclass(frozen=True)
class Brought:
    """Components that stand behind others, by kind and name; nobody is offered them."""

    tools: Mapping[str, Any] = field(default_factory=dict)
    environments: Mapping[str, Any] = field(default_factory=dict)
    agents: Mapping[str, Any] = field(default_factory=dict)


def dependencies_of(
    tools: Mapping[str, Any], environments: Mapping[str, Any], agents: Mapping[str, Any], *, refuse: bool = True
) -> Brought:
    """Return everything behind components; of two with one name the first holds, or TransformationError (`refuse`)."""
    union = {"tool": dict(tools), "environment": dict(environments), "agent": dict(agents)}
    waiting: list[Any] = [*tools.values(), *environments.values(), *agents.values()]
    while waiting:
        needs = carried_by(waiting.pop())
        parts: Iterable[tuple[str, str, Any]] = [
            *(("tool", tool.name, tool) for tool in needs.tools),
            *(("environment", name, factory) for name, factory in needs.environments.items()),
            *(("agent", agent.name, agent) for agent in needs.agents),
        ]
        for kind, name, part in parts:
            if name not in union[kind]:
                union[kind][name] = part
                waiting.append(part)
            elif refuse and not _same(union[kind][name], part):
                raise TransformationError(
                    f"two different {kind}s are called {name!r}: one was given, another one stands behind a "
                    "transformed component; give one of them another name"
                )
    roots = {"tool": tools, "environment": environments, "agent": agents}
    new = {kind: {name: part for name, part in all_.items() if name not in roots[kind]} for kind, all_ in union.items()}
    return Brought(new["tool"], new["environment"], new["agent"])


def _same(first: Any, other: Any) -> bool:
    hashes = [getattr(component, "content_hash", None) for component in (first, other)]
    return first is other or first == other or (hashes[0] is not None and hashes[0] == hashes[1])


def need_nothing(own_tools: Mapping[str, Any], tools: set[str], environments: set[str], agents: set[str]) -> None:
    """Refuse tools of one run that need components which the workspace does not have."""
    for name, tool in own_tools.items():
        parts = carried_by(tool)
        missing = [*({*parts.environments} - environments), *({other.name for other in parts.agents} - agents)]
        missing += [*({other.name for other in parts.tools} - tools)]
        if missing:
            raise TransformationError(
                f"tool {name!r} needs {', '.join(sorted(missing))}, which only a workspace can take in; "
                "give it to Workspace(tools=...), not to one run"
            )
