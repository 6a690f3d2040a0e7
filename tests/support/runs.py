"""The runs of a workspace with their whole manifests, which lists do not have."""

from __future__ import annotations

from typing import Any

from agentorchestra import Workspace
from agentorchestra.core.protocols import RunRecord


async def whole_runs(ws: Workspace[Any]) -> list[RunRecord]:
    """Return every run of a workspace, newest first."""
    found = [await ws.store.get_run(one.id) for one in await ws.runs.list()]
    return [one for one in found if one is not None]
