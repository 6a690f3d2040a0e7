"""What the runs of a workspace remember (`ws.memory`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentorchestra.workspace.assembly import Facet

if TYPE_CHECKING:
    from agentorchestra.tea.memory.base import Entry, EntryKind


class Memory(Facet):
    """What the runs of a workspace remember (docs/memory.md)."""

    async def recall(
        self,
        query: str = "",
        *,
        kinds: Sequence[EntryKind] = ("summary", "insight"),
        agent: str = "",
        limit: int | None = None,
    ) -> list[Entry]:
        """Return what the workspace's runs remember, newest first; of insights those that hold now.

        Args:
            query: only what fits it, best first.
            kinds: `event`, `summary`, `insight`.
            agent: only what this agent wrote.
            limit: at most so many.
        """
        from agentorchestra.tea.memory.handler import fitting
        from agentorchestra.tea.memory.records import memory_entries

        held = await memory_entries(self._parts.store, kinds)
        entries = [entry for entry, _ in held if agent in ("", entry.agent)][::-1]
        return fitting(entries, query, limit or len(entries)) if query else entries[:limit]

    async def forget(self, names: Sequence[str], *, by: str = "", retired: str = "") -> list[str]:
        """Have entries never be told again, by their `ref`; the log keeps them.

        Args:
            names: their `ref`.
            retired: of tips that a validation found to be of no use, on which evidence; "" for anything else.

        Returns:
            The references of all that is forgotten now: an insight that was found several times is several entries.

        Raises:
            UsageError: for a name that there is not; nothing is forgotten then.
        """
        from agentorchestra.tea.memory.records import forget

        return await forget(self._parts.store, names, clock=self._parts.clock, by=by, retired=retired)

    async def retired(self) -> list[tuple[Entry, str]]:
        """Return the tips that a validation retired, each with its evidence (docs/evolution.md)."""
        from agentorchestra.tea.memory.records import MemoryReader

        return await MemoryReader(self._parts.store).retirements()
