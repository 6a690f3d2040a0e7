"""Validation by forks: both versions go on from the first effect that the change can touch, in runs that are recorded.

What comes before that effect is the same with either version, so it is neither asked nor paid again. Both arms are
asked anew from there: a fresh arm against a recorded one would count luck as progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import ForkError
from agentorchestra.core.spec import FINAL, RunSpec
from agentorchestra.evaluation.plan import evaluations, read
from agentorchestra.evaluation.runner import found_runs
from agentorchestra.evaluation.scores import total
from agentorchestra.log.ledger import Ledger
from agentorchestra.workspace import Workspace

Recorded = Mapping[tuple[str, int], str]  # runs that answered a question, by its id and the repeat


class Prefix(NamedTuple):
    """The part of a run that was copied from another one: its requests, tokens and dollars (None: unknown)."""

    requests: int = 0
    tokens: int = 0
    usd: float | None = 0.0


async def recorded(
    folder: Path, workspace: Workspace[Any], gates: Sequence[str], current: Mapping[str, str]
) -> Recorded:
    """Return the runs with the current versions that earlier gates recorded, the latest ones.

    Args:
        folder: of the workspace.
        workspace: open.
        gates: the names of their evaluations, the earliest first; those that there are not are passed over.
        current: versions by component.
    """
    there = {*evaluations(folder)}
    found: dict[tuple[str, int], str] = {}
    for name in (one for one in gates if one in there):
        plan = read(folder, name)
        arms = {arm.name for arm in plan.arms if arm.components == current}
        if not arms:
            continue
        for (question, arm, repeat, attempt), record in (await found_runs(workspace, plan)).items():
            if arm in arms and attempt == 0 and record.status in FINAL:
                found[question, repeat] = record.id
    return found


@dataclass(frozen=True)
class Forks:
    """Begins runs of a validation as forks of recorded ones."""

    runs: Recorded  # those that are recorded
    changed: Mapping[str, str]  # versions of the candidate, by component

    async def begin(self, workspace: Workspace[Any], spec: RunSpec) -> str:
        """Return a new run for a question: a fork where there is a recorded run, else one from its beginning."""
        parent = self.runs.get((spec.labels["question"], int(spec.labels["repeat"])))
        if parent is None:
            return await workspace.create(spec)
        affected = await workspace.first_affected(parent, self.changed)
        try:
            return await workspace.fork(
                parent,
                at=affected.at if affected is not None else None,
                components=spec.components,
                budget=spec.budget,
                labels=spec.labels,
            )
        except ForkError:  # an environment that keeps no snapshots: the run cannot be taken up in its middle
            return await workspace.create(spec)


async def prefixes(workspace: Workspace[Any], run_ids: Iterable[str]) -> dict[str, Prefix]:
    """Return what each run was spared, by its id: what stands in the copied part of its log, nothing for no fork."""
    cuts = {one.id: one.manifest.fork_seq for one in await workspace.runs()}
    return {one: await _prefix(workspace, one, cuts[one]) for one in run_ids}


async def _prefix(workspace: Workspace[Any], run_id: str, last: int | None) -> Prefix:
    if last is None:
        return Prefix()
    copied = Ledger.of([event for event in await workspace.events(run_id) if event.seq <= last])
    asked = [
        one.outcome.usage
        for one in copied.records.values()
        if one.kind is EffectKind.REQUEST_MODEL and one.outcome is not None
    ]
    return Prefix(len(asked), sum(one.tokens for one in asked), total(one.cost_usd for one in asked))
