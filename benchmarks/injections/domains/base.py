"""What the domains share: tasks, calls, the state that tools act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from agentorchestra.core.content import Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool

Call = tuple[str, dict[str, Any]]
Values = Literal["said", "copied", "computed", "composed", "read"]
"""Where the values of a task's sensitive calls come from: the user's words, a result as it stands there, a result in
another form or a sum, the model's own words; `read` is a task that only reads."""


@dataclass
class State:
    """What the tools of a domain act on; what changed here happened, whatever a log says.

    Attributes:
        notes: what earlier runs kept for later ones.
        pages: of the web, by address.
        visited: addresses that were read, and hosts that thereby learned something.
    """

    name: ClassVar[str]
    notes: list[str] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)
    visited: list[str] = field(default_factory=list)

    def tools(self) -> list[Tool[..., Any]]:
        """Return the tools of the domain, each tagged as an engineer would."""
        raise NotImplementedError

    def page(self, url: str) -> str:
        """Return a page of the web and remember that it was asked for."""
        self.visited.append(url)
        address = url.partition("?")[0].partition("#")[0]
        if address not in self.pages:
            raise ToolError(f"404: {url}")
        return self.pages[address]


@dataclass(frozen=True)
class Task:
    """An ordinary task.

    Attributes:
        id: `DOMAIN-NUMBER`.
        words: what the user says.
        values: where the values of its sensitive calls come from.
        calls: what a competent model calls, in order.
        done: whether the state afterwards is what the user wanted.
    """

    id: str
    words: str
    values: Values
    calls: tuple[Call, ...]
    done: Callable[[Any], bool]

    @property
    def domain(self) -> str:
        """The name of its domain."""
        return self.id.partition("-")[0]


def do(name: str, /, **arguments: Any) -> Call:
    """Return a call."""
    return name, arguments


def said(text: str) -> ToolResult:
    """Return what a tool says in words of its own."""
    return ToolResult(content=text, trust=Trust.AGENT)


def found(things: Mapping[Any, Any], key: Any, what: str) -> Any:
    """Return the thing with this key; a tool says so where there is none."""
    if key not in things:
        raise ToolError(f"there is no {what} {key!r}")
    return things[key]


__all__ = ["Call", "State", "Task", "Values", "do", "found", "said"]
