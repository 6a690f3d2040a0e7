"""The optimisers by name: the systems textgrad and reflection, each proposal a run of its own, and GEPA."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agentorchestra.agents.optimiser.evidence import Evidence
from agentorchestra.agents.optimiser.evidence import Variable as Text
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import EvolutionError
from agentorchestra.core.spec import RunStatus
from agentorchestra.evaluation.runner import END_STATUSES, dollars
from agentorchestra.evolution.checks import HeldApart, check_changes
from agentorchestra.evolution.evidence import evidence_of
from agentorchestra.evolution.gepa_optimiser import gepa
from agentorchestra.evolution.optimiser import Improvement, Optimiser, Proposal, TextChange, split_place

MOST_RUNS = 6  # runs that a proposal is made from: those that did worst


def optimiser(name: str) -> Optimiser:
    """Return an optimiser by its name; EvolutionError for another one."""
    if name == "gepa":
        return gepa
    if name in ("textgrad", "reflection"):
        return BySystem(name)
    raise EvolutionError(f"there is no optimiser {name!r}; there are textgrad, reflection and gepa")


class BySystem:
    """An optimiser that is a system of the workspace: its requests, budget and log are those of a run.

    Args:
        loss: says in words what is wanted of the runs; None where their scores say enough.
    """

    def __init__(self, system: str, loss: Callable[[Improvement], Awaitable[str]] | None = None) -> None:
        self.system, self.loss = system, loss

    async def __call__(self, task: Improvement) -> Proposal:
        """Return its proposal; one that was made before is found by its labels.

        Raises:
            EvolutionError: its run stopped before it could propose; `resume` and the same command go on.
        """
        labels = {**task.labels, "optimiser": self.system}
        runs = [run for run in await task.workspace.runs.list() if labels.items() <= run.manifest.labels.items()]
        if runs:
            run_id = runs[0].id
        else:
            texts = await texts_of(task)
            evidence = await self._evidence(task, texts)
            if not any(node.uses for graph in evidence for node in graph.nodes):
                return Proposal(why="none of the variables took part in the runs that did worst")
            run_id = await task.workspace.create(
                f"Propose better texts for {', '.join(dict.fromkeys(text.component for text in texts))}.",
                system=self.system,
                model=task.model,
                labels=labels,
                on_ask="deny",
                memory="none",
                seed=task.seed or None,
                budget=Budget(cost_usd=task.usd),
                options={
                    "variables": [text.model_dump(mode="json") for text in texts],
                    "evidence": [graph.model_dump(mode="json") for graph in evidence],
                    **({"loss": await self.loss(task)} if self.loss is not None else {}),
                },
            )
        result = await task.workspace.resume(run_id)
        if result.status not in END_STATUSES or result.status is RunStatus.FAILED:
            raise EvolutionError(
                f"the optimiser's run {run_id} is {result.status}: {result.error or 'it was stopped'}; "
                f"`agentorchestra resume {run_id}` goes on, then the same command"
            )
        changes = tuple(TextChange.model_validate(change) for change in result.output_value or ())
        reason = result.report[-500:] or result.answer_text
        return Proposal(changes=changes, why=reason, run=run_id, usd=dollars(result))

    async def _evidence(self, task: Improvement, texts: Sequence[Text]) -> list[Evidence]:
        """Return the evidence of the runs that did worst."""
        trials = [trial for trial in task.trials if trial.run and trial.score is not None]
        worst = sorted(trials, key=lambda trial: trial.score or 0.0)[:MOST_RUNS]
        return [evidence_of(await task.workspace.log.events(trial.run), texts, score=trial.score) for trial in worst]


async def texts_of(task: Improvement) -> list[Text]:
    """Return the variables as optimisers take them, with the source that code stands in."""
    from agentorchestra.evolution.components import manager_of

    texts = []
    for place, entry in task.variables.items():
        component, variable = split_place(place)
        source = ""
        if "code" in entry.role:
            manager, name = manager_of(task.workspace, component)
            source = await manager.source(name)
        texts.append(
            Text(
                component=component,
                variable=variable,
                text=entry.value,
                role=entry.role,
                description=entry.description[:2_000],
                source=source,
                past=tuple(task.past.get(place, ())),
            )
        )
    return [text for text in texts if text.text.strip()]


async def check(task: Improvement, changes: Sequence[TextChange], apart: HeldApart | None = None) -> None:
    """Check a proposal by code; see `checks.check_changes`."""
    check_changes(await texts_of(task), changes, apart=apart)
