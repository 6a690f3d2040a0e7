"""What leaves an evaluation for other programs: all attempts, and what GAIA and SWE-bench score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.spec import RunResult
from agentorchestra.evaluation.benchmarks.swe_bench import predictions
from agentorchestra.evaluation.plan import EvalPlan
from agentorchestra.evaluation.questions import MachineCheck
from agentorchestra.evaluation.runner import END_STATUSES
from agentorchestra.evaluation.scores import RunAttempt, Score


def attempt_lines(attempts: Sequence[RunAttempt], scores: Sequence[Score]) -> Iterable[str]:
    """Return a line of JSON for each run, with its result; the last of a place has its score, where it was scored."""
    by_run = {score.run_id: score for score in scores}
    for attempt in attempts:
        body = attempt.model_dump(mode="json")
        score = by_run.get(attempt.result.run_id)
        body["score"] = None if score is None else {"status": score.status, "score": score.score, "why": score.why}
        yield json.dumps(body, ensure_ascii=False)


def gaia_lines(plan: EvalPlan, attempts: Sequence[RunAttempt], arm: str) -> Iterable[str]:
    """Return the lines of GAIA's leaderboard for an arm: `task_id`, `model_answer`, `reasoning_trace`.

    A question without an answer has "", as the leaderboard wants every question.

    Raises:
        EvaluationError: the arm was asked more than once: the leaderboard takes one answer.
    """
    last = _last(plan, attempts, arm)
    for question in plan.ids:
        result = last.get(question)
        answer, trace = (result.answer_text, result.report) if result else ("", "")
        line = {"task_id": question, "model_answer": answer, "reasoning_trace": trace}
        yield json.dumps(line, ensure_ascii=False)


def swe_bench_lines(
    plan: EvalPlan, attempts: Sequence[RunAttempt], checks: Mapping[str, MachineCheck], arm: str
) -> Iterable[str]:
    """Return the lines of predictions that SWE-bench's harness takes, for an arm; what was not run is not in them.

    Raises:
        EvaluationError: the arm was asked more than once, or its machines were not looked at yet.
    """
    last = {name: result.run_id for name, result in _last(plan, attempts, arm).items() if result.status in END_STATUSES}
    if not last or not any(run in checks for run in last.values()):
        raise EvaluationError(
            f"what the runs of {arm} changed was not looked at yet; `agentorchestra eval score {plan.name}` does that"
        )
    patches = {name: checks[run].patch for name, run in last.items() if run in checks}
    return predictions(f"{plan.name}-{arm}", patches)


def _last(plan: EvalPlan, attempts: Sequence[RunAttempt], arm: str) -> dict[str, RunResult]:
    if plan.repeats > 1:
        raise EvaluationError(f"{plan.name} has {plan.repeats} repeats, and a leaderboard takes one answer a question")
    plan.arm(arm)
    return {attempt.question: attempt.result for attempt in attempts if attempt.arm == arm}
