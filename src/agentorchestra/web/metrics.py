"""What a server counts, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

MEDIA_TYPE = CONTENT_TYPE_LATEST

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The figures of one server; each has a registry of its own, so that several fit into one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.accepted = self._make(Counter, "runs_accepted", "Runs that POST /runs accepted.")
        self.repeated = self._make(Counter, "runs_repeated", "POST /runs that named a run accepted before.")
        self.turned_away = self._make(Counter, "runs_turned_away", "POST /runs answered with 429: the queue was full.")
        self.answered = self._make(
            Histogram, "accept_seconds", "Time from the body of POST /runs to its answer.", buckets=_BUCKETS
        )
        self._standing = self._make(Gauge, "runs", "Runs that are created or running, by standing.", ["standing"])
        self._here = self._make(Gauge, "server_runs", "Runs that this server drives, refuses, and can drive.", ["what"])
        self._ended = self._make(Gauge, "runs_ended", "Runs that ended or stopped here since the start.", ["status"])

    def _make(self, kind: Any, name: str, text: str, labels: Any = (), **options: Any) -> Any:
        return kind(f"agentorchestra_{name}", text, labels, registry=self._registry, **options)

    def text(self, standings: Mapping[str, int], here: Mapping[str, int], endings: Mapping[str, int]) -> bytes:
        """Return all figures; `standings` come from the store, `here` and `endings` from the queue."""
        for gauge, figures in ((self._standing, standings), (self._here, here), (self._ended, endings)):
            for name, figure in figures.items():
                gauge.labels(name).set(figure)
        return generate_latest(self._registry)
