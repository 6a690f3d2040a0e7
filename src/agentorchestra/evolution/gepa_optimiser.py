"""GEPA (arXiv:2507.19457) as an optimiser: the package `gepa` proposes and selects, runs of the workspace answer.

Its loop is synchronous and works in a thread; what it asks is done by the loop that the workspace lives in. Everything
it asks is a run that is found again, and its draws depend on a seed, so an evolution that was stopped goes on without
paying twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import AgentOrchestraError, EvolutionError, MissingExtraError
from agentorchestra.core.ids import sha256_text
from agentorchestra.evaluation.runner import dollars
from agentorchestra.evaluation.scores import total
from agentorchestra.evolution.optimiser import Improvement, Proposal, TextChange, Trial, split_place

T = TypeVar("T")

ROUNDS = 6  # how often at most the whole batch is answered while GEPA works on a round's proposal


async def gepa(task: Improvement) -> Proposal:
    """Have GEPA work on the variables over a round's training questions; return its best candidate.

    Raises:
        MissingExtraError: the package is not installed.
        EvolutionError: GEPA stopped with an error.
        AgentOrchestraError: what the evolution says itself, such as a budget without room.
    """
    try:
        from gepa.api import optimize
    except ImportError:
        raise MissingExtraError(
            "the optimiser gepa needs the package of its name; install it: pip install 'agentorchestra[evolve]'"
        ) from None
    seed = {place: variable.value for place, variable in task.variables.items()}
    work = _Adapter(task, asyncio.get_running_loop())
    questions = [trial.question for trial in task.trials]
    result: Any
    try:
        result = await asyncio.to_thread(
            optimize,
            seed_candidate=seed,
            trainset=questions,
            valset=questions,
            adapter=work,
            reflection_lm=work.reflect,
            reflection_minibatch_size=min(3, len(questions)),
            max_metric_calls=ROUNDS * len(questions),
            logger=_Quiet(),
            seed=int(task.seed[:8] or "0", 16),
        )
    except AgentOrchestraError:
        raise
    except Exception as exc:
        raise EvolutionError(f"GEPA stopped: {type(exc).__name__}: {exc}") from exc
    changes = tuple(
        TextChange(component=component, variable=variable, text=text, reason="the best of GEPA's candidates")
        for place, text in result.best_candidate.items()
        if text != seed[place]
        for component, variable in [split_place(place)]
    )
    return Proposal(changes=changes, run=work.last, usd=total(work.costs))


class _Adapter:
    """What GEPA calls, from its thread."""

    def __init__(self, task: Improvement, loop: asyncio.AbstractEventLoop) -> None:
        self._task, self._loop = task, loop
        self._seed = {place: variable.value for place, variable in task.variables.items()}
        self.costs: list[float | None] = []
        self.last = ""
        self.propose_new_texts = None

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def evaluate(self, batch: Sequence[str], candidate: Mapping[str, str], capture_traces: bool = False) -> Any:
        from gepa.core.adapter import EvaluationBatch

        trials = self._wait(self._answers([*batch], dict(candidate)))
        by_question = {trial.question: trial for trial in trials}
        answers = [by_question[question] for question in batch]
        return EvaluationBatch(
            outputs=[trial.run for trial in answers],
            scores=[trial.score or 0.0 for trial in answers],
            trajectories=answers if capture_traces else None,
        )

    async def _answers(self, questions: Sequence[str], candidate: Mapping[str, str]) -> Sequence[Trial]:
        if candidate == self._seed:
            return self._task.trials
        changed = {place: text for place, text in candidate.items() if text != self._seed[place]}
        return await self._task.evaluate(changed, tuple(dict.fromkeys(questions)))

    def make_reflective_dataset(
        self, candidate: Mapping[str, str], eval_batch: Any, components_to_update: Sequence[str]
    ) -> dict[str, list[dict[str, str]]]:
        """Return what the reflection is shown of each question: the task, the answer, and what went wrong."""
        records = self._wait(self._records(eval_batch.trajectories))
        return dict.fromkeys(components_to_update, records)

    async def _records(self, trials: Sequence[Trial]) -> list[dict[str, str]]:
        tasks = {run.id: run.manifest.task for run in await self._task.workspace.runs.list()}
        records = []
        for trial in trials:
            if not trial.run:
                continue
            score, result = trial.score, await self._task.workspace.runs.result(trial.run)
            verdict = "nobody could say whether it is right" if score is None else f"the score is {score:g} of 1"
            records.append(
                {
                    "Inputs": tasks[trial.run],
                    "Generated Outputs": result.answer_text or "(no answer)",
                    "Feedback": ". ".join(filter(None, [verdict, result.error])),
                }
            )
        return records

    def reflect(self, prompt: str) -> str:
        return self._wait(self._reply(prompt))

    async def _reply(self, prompt: str) -> str:
        """Ask a question as a run of its own, or find what was asked."""
        task, workspace = self._task, self._task.workspace
        labels = {**task.labels, "asked": sha256_text(prompt)[:16]}
        for run in await workspace.runs.list():
            if labels.items() <= run.manifest.labels.items():
                run_id = run.id
                break
        else:
            run_id = await workspace.create(
                prompt,
                system="direct",
                model=task.model,
                labels=labels,
                on_ask="deny",
                memory="none",
                budget=Budget(cost_usd=task.usd),
            )
        result = await workspace.resume(run_id)
        self.costs.append(dollars(result))
        self.last = run_id
        if not result.answer_text:
            raise EvolutionError(f"the optimiser's model gave no reply ({result.status}): {result.error or 'empty'}")
        return result.answer_text


class _Quiet:
    """A logger that says nothing: the evolution tells of its steps itself."""

    def log(self, message: str) -> None:
        """Say nothing."""
