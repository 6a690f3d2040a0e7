"""What leaves an evaluation for other programs: all attempts, and what GAIA and SWE-bench score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.spec import RunResult
from agentorchestra.evaluation.benchmarks.swe_bench import predictions
from agentorchestra.evaluation.plan import Plan
from agentorchestra.evaluation.questions import Check
from agentorchestra.evaluation.runner import ENDED
from agentorchestra.evaluation.scores import Attempt, Score


def attempt_lines(attempts: Sequence[Attempt], scores: Sequence[Score]) -> Iterable[str]:
    """Return a line of JSON for each run, with its result; the last of a place has its score, where it was scored."""
    by_run = {score.run_id: score for score in scores}
    for attempt in attempts:
        body = attempt.model_dump(mode="json")
        said = by_run.get(attempt.result.run_id)
        body["score"] = None if said is None else {"status": said.status, "score": said.score, "why": said.why}
        yield json.dumps(body, ensure_ascii=False)


def gaia_lines(plan: Plan, attempts: Sequence[Attempt], arm: str) -> Iterable[str]:
    """Return the lines of GAIA's leaderboard for an arm: `task_id`, `model_answer`, `reasoning_trace`.

    A question without an answer has "", as the leaderboard wants every question.

    Raises:
        EvaluationError: the arm was asked more than once: the leaderboard takes one answer.
    """
    last = _last(plan, attempts, arm)
    for each in plan.ids:
        found = last.get(each)
        line = {
            "task_id": each,
            "model_answer": found.answer_text if found else "",
            "reasoning_trace": found.report if found else "",
        }
        yield json.dumps(line, ensure_ascii=False)


def swe_bench_lines(plan: Plan, attempts: Sequence[Attempt], checks: Mapping[str, Check], arm: str) -> Iterable[str]:
    """Return the lines of predictions that SWE-bench's harness takes, for an arm; what was not run is not in them.

    Raises:
        EvaluationError: the arm was asked more than once, or its machines were not looked at yet.
    """
    last = {name: one.run_id for name, one in _last(plan, attempts, arm).items() if one.status in ENDED}
    if not last or not any(run in checks for run in last.values()):
        raise EvaluationError(
            f"what the runs of {arm} changed was not looked at yet; `agentorchestra eval score {plan.name}` does that"
        )
    patches = {name: checks[run].patch for name, run in last.items() if run in checks}
    return predictions(f"{plan.name}-{arm}", patches)


def _last(plan: Plan, attempts: Sequence[Attempt], arm: str) -> dict[str, RunResult]:
    if plan.repeats > 1:
        raise EvaluationError(f"{plan.name} has {plan.repeats} repeats, and a leaderboard takes one answer a question")
    plan.arm(arm)
    return {attempt.question: attempt.result for attempt in attempts if attempt.arm == arm}
