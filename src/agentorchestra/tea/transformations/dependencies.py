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


def brought(
    tools: Mapping[str, Any], environments: Mapping[str, Any], agents: Mapping[str, Any], *, refuse: bool = True
) -> Brought:
    """Return everything behind components; of two with one name the first holds, or TransformationError (`refuse`)."""
    known = {"tool": dict(tools), "environment": dict(environments), "agent": dict(agents)}
    waiting: list[Any] = [*tools.values(), *environments.values(), *agents.values()]
    while waiting:
        carried = carried_by(waiting.pop())
        parts: Iterable[tuple[str, str, Any]] = [
            *(("tool", one.name, one) for one in carried.tools),
            *(("environment", name, one) for name, one in carried.environments.items()),
            *(("agent", one.name, one) for one in carried.agents),
        ]
        for kind, name, one in parts:
            if name not in known[kind]:
                known[kind][name] = one
                waiting.append(one)
            elif refuse and not _same(known[kind][name], one):
                raise TransformationError(
                    f"two different {kind}s are called {name!r}: one was given, another one stands behind a "
                    "transformed component; give one of them another name"
                )
    given = {"tool": tools, "environment": environments, "agent": agents}
    new = {kind: {name: one for name, one in all_.items() if name not in given[kind]} for kind, all_ in known.items()}
    return Brought(new["tool"], new["environment"], new["agent"])


def _same(one: Any, other: Any) -> bool:
    hashes = [getattr(each, "content_hash", None) for each in (one, other)]
    return one is other or one == other or (hashes[0] is not None and hashes[0] == hashes[1])


def need_nothing(given: Mapping[str, Any], tools: set[str], environments: set[str], agents: set[str]) -> None:
    """Refuse tools of one run that need components which the workspace does not have."""
    for name, one in given.items():
        parts = carried_by(one)
        missing = [*({*parts.environments} - environments), *({other.name for other in parts.agents} - agents)]
        missing += [*({other.name for other in parts.tools} - tools)]
        if missing:
            raise TransformationError(
                f"tool {name!r} needs {', '.join(sorted(missing))}, which only a workspace can take in; "
                "give it to Workspace(tools=...), not to one run"
            )
