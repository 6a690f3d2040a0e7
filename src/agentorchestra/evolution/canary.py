"""Canaries: a candidate that a share of the live runs uses, watched against the current version.

Which run has which version stands in its manifest and its labels. A run's outcome is what somebody said of it
(`Workspace.rate`), else whether it completed. After each run the sequential test may stop a candidate that is worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentorchestra.core.events import Rated
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import FINAL, RunStatus
from agentorchestra.evolution.components import manager_of
from agentorchestra.evolution.gate import stopped_live
from agentorchestra.tea.registry.history import Shared
from agentorchestra.workspace import Workspace

ENOUGH = 50  # pairs of live runs after which a candidate that was not stopped is taken into use

_STATUSES = FINAL | {RunStatus.FAILED, RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT}


@dataclass(frozen=True)
class Canary:
    subject: str  # `tool:price_of`
    shared: Shared  # its version, share, and since when
    # `current`, `candidate`: the outcomes of the runs with either version, in their order
    current: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def pairs(self) -> int:
        return min(len(self.current), len(self.candidate))


async def canaries(workspace: Workspace[Any]) -> list[Canary]:
    """Return the candidates that have a share of the live runs, with the outcomes there are."""
    shares = {}
    for kind, manager in (("tool", workspace.tcp), ("prompt", workspace.components.prompts)):
        await manager.access.ready()
        for history in manager.registry.histories(kind):
            if history.shared is not None:
                shares[f"{kind}:{history.name}"] = history.shared
    if not shares:
        return []
    ratings = {}
    async for event in workspace.log.select(LogQuery(types=("rated",))):
        if isinstance(event.data, Rated):
            ratings[event.run] = event.data.score
    runs = sorted(await workspace.runs.list(), key=lambda run: (run.manifest.created, run.id))
    entries = []
    for subject, shared in shares.items():
        outcomes = [
            (run.manifest.labels[label], ratings.get(run.id, float(run.status is RunStatus.COMPLETED)))
            for run in runs
            for label in [f"canary {subject}"]
            if label in run.manifest.labels
            and run.manifest.created >= shared.since
            and (run.status in _STATUSES or run.id in ratings)
        ]
        with_it = tuple(score for version, score in outcomes if version == shared.version)
        without = tuple(score for version, score in outcomes if version != shared.version)
        entries.append(Canary(subject, shared, without, with_it))
    return entries


async def check_canaries(workspace: Workspace[Any]) -> list[str]:
    """Archive candidates that do worse live, take those into use that did not in `ENOUGH` pairs; return what was done.

    Whoever begins live runs calls it from time to time: `agentorchestra run`, `serve` and `evolve status` do.
    """
    done = []
    for canary in await canaries(workspace):
        manager, name = manager_of(workspace, canary.subject)
        version, by = canary.shared.version, "evolution canary"
        means = " and ".join(
            f"{sum(outcomes) / len(outcomes):.2f} over {len(outcomes)} runs {word} it"
            for outcomes, word in ((canary.candidate, "with"), (canary.current, "without"))
            if outcomes
        )
        stopped = stopped_live(canary.current, canary.candidate)
        if stopped is not None:
            reason = f"it does worse live, known after {stopped} pairs of runs: {means}"
            await manager.archive(name, version, author=by, reason=reason)
            done.append(f"{canary.subject}@{version} was taken back: {reason}")
        elif canary.pairs >= ENOUGH:
            reason = f"it did no worse in {canary.pairs} pairs of live runs: {means}"
            await manager.activate(name, version, author=by, reason=reason)
            done.append(f"{canary.subject} means {version} now: {reason}")
    return done
