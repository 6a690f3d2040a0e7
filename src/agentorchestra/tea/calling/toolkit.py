"""A toolkit: tools that come from one place and share its life, such as a server they are called on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from agentorchestra.tea.calling.tool import Tool


@runtime_checkable
class Toolkit(Protocol):
    """A member of `Workspace(tools=[...])` with several tools: opened before the first run or call, closed with it.

    Attributes:
        name: of the place, for messages, and for where those of its tools came from that do not say so themselves
            (`ToolTraits.origin`). No two toolkits of a workspace have one name.
        notes: what was left out or passed over when it was opened, a sentence each.
    """

    @property
    def name(self) -> str:
        """Of the place."""

    @property
    def notes(self) -> Sequence[str]:
        """Warnings for tools that were left out."""

    def secrets(self) -> Mapping[str, str]:
        """Return what it knows that must not reach the log, by name; complete once it is open."""

    async def open(self, changed: Callable[[], None]) -> Sequence[Tool[..., Any]]:
        """Make it ready; return its tools. `changed` is to be called when `tools` gives others than before."""

    def tools(self) -> Sequence[Tool[..., Any]]:
        """Return its tools now; only after `open`."""

    async def close(self) -> None:
        """Leave nothing behind; idempotent."""
