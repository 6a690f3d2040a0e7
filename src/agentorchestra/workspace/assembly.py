"""The parts of an open workspace, put together in the order in which they need each other, and closed in the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentorchestra.core.clock import Clock
from agentorchestra.core.protocols import Store
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus, TestsRan
from agentorchestra.runtime.run import Run
from agentorchestra.workspace.composition import Composition, WorkspaceMembers
from agentorchestra.workspace.creation import RunCreator
from agentorchestra.workspace.driver import RunDriver
from agentorchestra.workspace.equipment import Equipper, GivenEquipment
from agentorchestra.workspace.handlers import Handlers


class Assembly:
    """The parts of an open workspace.

    Attributes:
        parts: log, engine, models, components, folders.
        handlers, equipper: execute the effects of runs; say what runs are driven with.
        creator, driver: write runs into the log; drive them.
    """

    def __init__(
        self,
        host: WorkspaceMembers,
        settings: Settings,
        store: Store,  # open
        base: Path,  # below which the runs keep their files
        clock: Clock,
        equipment: GivenEquipment,
        clients: list[Any],
        at_end: Callable[[Run, RunStatus], Awaitable[TestsRan | None]],  # is called when a run comes to its end
    ) -> None:
        self.parts = Composition(
            host,
            settings,
            store,
            base,
            clock,
            create_calls=lambda: self.creator.create_calls(),
            services=lambda callees: self.handlers.for_calls(callees),
        )
        self.handlers = Handlers(self.parts, at_end)
        self.equipper = Equipper(self.parts, equipment, clients)
        self.creator = RunCreator(self.parts, self.equipper)
        self.driver = RunDriver(self.parts, self.equipper, self.handlers)

    async def close(self) -> None:
        """Stop what is driven here, drain the log, release all but the store."""
        await self.parts.engine.close()
        await self.driver.close()
        await self.handlers.aclose()
        await self.parts.close()


class Facet:
    """A part of what users call on a workspace; `assembly` raises WorkspaceStateError while that is not open."""

    def __init__(self, assembly: Callable[[], Assembly]) -> None:
        self._assembly = assembly

    @property
    def _parts(self) -> Composition:
        return self._assembly().parts
