"""The cluster room: runs queued on PostgreSQL, driven by workers on any machines; needs the extra `cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentorchestra.core.errors import MissingExtraError

if TYPE_CHECKING:
    from agentorchestra.cluster.jobs import Jobs
    from agentorchestra.cluster.startup import until_reached
    from agentorchestra.cluster.status import Standing, WorkerStanding, standing
    from agentorchestra.cluster.worker import Worker

_PLACES = {
    "Jobs": "jobs",
    "Standing": "status",
    "Worker": "worker",
    "WorkerStanding": "status",
    "standing": "status",
    "until_reached": "startup",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is first used; MissingExtraError where the extra `cluster` is not installed."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("agentorchestra"):
            raise
        raise MissingExtraError(
            f"queues and workers need the package {(exc.name or '').partition('.')[0]}, which is not installed; "
            'run: pip install "agentorchestra[cluster]"'
        ) from None


__all__ = ["Jobs", "Standing", "Worker", "WorkerStanding", "standing", "until_reached"]
