"""What the runs of an evaluation gave, and how it is scored: a step of its own that can be repeated at any time.

Scores lie in `evaluations/NAME/scores.jsonl`, a line for each (question, arm, repeat), and are written anew each time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agentorchestra.core.errors import AgentOrchestraError, EvaluationError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.evaluation.plan import Plan, folder_of, write
from agentorchestra.evaluation.questions import (
    Answer,
    EvalQuestion,
    QuestionSet,
    Scored,
    ScoreStatus,
    read_lines,
)
from agentorchestra.evaluation.runner import ENDED, REFUSED, found_runs, is_answer, paid
from agentorchestra.evaluation.trajectories import Course, course
from agentorchestra.workspace import Workspace

SCORES = "scores.jsonl"
JUDGE_SYSTEM = "direct"
JUDGES = "judges"
"""The label of a judge's runs: the evaluation."""


class Attempt(BaseModel, frozen=True):
    """A run of an evaluation.

    Attributes:
        question, arm, repeat, attempt: its place; attempts above 0 were asked because the one before gave no answer.
        result: as the log has it.
    """

    question: str
    arm: str
    repeat: int
    attempt: int
    result: RunResult


class Score(BaseModel, frozen=True):
    """The score of a (question, arm, repeat).

    Attributes:
        question, arm, repeat: the place.
        group: of the question.
        run_id: the run whose answer counts, "" where there is none: the last one that was asked.
        run_status: its status, "" without a run.
        answer: its answer.
        status, score, why: see `Scored`.
        cost_usd, tokens, duration_s, steps: of all attempts together; cost is None where a price is unknown.
        delegations: agents that its top agent asked, in the run whose answer counts.
        made, found: tools that were generated, and that the generator found in place of making one, in all attempts.
        reused: tools that were called and that an earlier question of the arm made.
    """

    question: str
    arm: str
    repeat: int
    group: str
    run_id: str = ""
    run_status: str = ""
    answer: str = ""
    status: ScoreStatus
    score: float | None = None
    why: str = ""
    cost_usd: float | None = 0.0
    tokens: int = 0
    duration_s: float = 0.0
    steps: int = 0
    delegations: int = 0
    made: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    reused: tuple[str, ...] = ()


class ModelJudge:
    """A judge that is a model: each question to it is a run of the system `direct`, asked once and found again.

    Args:
        workspace: where it runs.
        plan: the evaluation, which names the model.
        asked: the labels of what it was asked before, with the runs.
        of: the run that is judged.
    """

    def __init__(self, workspace: Workspace[Any], plan: Plan, asked: Mapping[tuple[str, str], str], of: str) -> None:
        self._workspace, self._plan, self._asked, self._of = workspace, plan, asked, of

    async def __call__(self, prompt: str) -> str:
        """Return the judge's reply.

        Raises:
            EvaluationError: it gave none.
        """
        place = (self._of, sha256_text(f"{self._plan.judge} {prompt}")[:16])
        run_id = self._asked.get(place) or await self._workspace.create(
            prompt,
            system=JUDGE_SYSTEM,
            model=self._plan.judge,
            labels={JUDGES: self._plan.name, "of": place[0], "asked": place[1]},
            on_ask="deny",
            memory="none",
        )
        result = await self._workspace.resume(run_id)
        if not result.answer:
            raise EvaluationError(f"the judge gave no reply ({result.status}): {result.error or 'it was empty'}")
        return result.answer


async def attempts(workspace: Workspace[Any], plan: Plan) -> list[Attempt]:
    """Return all runs of an evaluation, in the order of its questions, arms, repeats."""
    order = {one: number for number, one in enumerate(plan.ids)}
    arms = {one.name: number for number, one in enumerate(plan.arms)}
    found = await found_runs(workspace, plan)
    places = sorted((one for one in found if one[0] in order), key=lambda one: (order[one[0]], arms[one[1]], *one[2:]))
    return [
        Attempt(
            question=q, arm=arm, repeat=repeat, attempt=n, result=await workspace.result(found[q, arm, repeat, n].id)
        )
        for q, arm, repeat, n in places
    ]


async def judged(workspace: Workspace[Any], plan: Plan) -> dict[tuple[str, str], str]:
    """Return the judge's runs of an evaluation, by the run they judge and what was asked."""
    labels = {one.id: one.manifest.labels for one in await workspace.runs()}
    return {(one["of"], one["asked"]): run for run, one in labels.items() if one.get(JUDGES) == plan.name}


async def judged_usd(workspace: Workspace[Any], plan: Plan) -> float | None:
    """Return what the judge cost; None where its price is unknown."""
    return total([paid(await workspace.result(one)) for one in (await judged(workspace, plan)).values()])


def total(costs: Iterable[float | None]) -> float | None:
    """Return a sum of dollars, None where one of them is unknown."""
    listed = list(costs)
    return None if None in listed else sum(one for one in listed if one is not None)


async def score(workspace: Workspace[Any], plan: Plan, questions: QuestionSet, *, at_once: int = 4) -> list[Score]:
    """Score every answer of an evaluation, and keep the scores.

    Args:
        workspace: open; the judge runs in it.
        plan: the evaluation.
        questions: of the plan, see `Plan.load`.
        at_once: answers that are judged at the same time.
    """
    by_place: dict[tuple[str, str, int], list[Attempt]] = {}
    for one in await attempts(workspace, plan):
        by_place.setdefault((one.question, one.arm, one.repeat), []).append(one)
    asked, refused = await judged(workspace, plan), _refused(workspace.folder, plan)
    slots = asyncio.Semaphore(at_once)
    courses: dict[tuple[str, str, int], list[Course]] = {}

    async def marked(each: str, arm: str, repeat: int) -> Score:
        mark = _unscored(questions.by_id[each], arm, repeat, by_place.get((each, arm, repeat), []))
        if mark.status == "not_run":
            return mark.model_copy(update={"why": refused.get(each, {}).get(arm, mark.why)})
        tries = by_place[each, arm, repeat]
        courses[each, arm, repeat] = [course(await workspace.events(one.result.run_id)) for one in tries]
        if mark.status != "ok":
            return mark
        async with slots:
            judge = ModelJudge(workspace, plan, asked, mark.run_id) if plan.judge else None
            said = await _said(workspace, questions, judge, mark)
        return mark.model_copy(update={"status": said.status, "score": said.score, "why": said.why})

    places = product(plan.ids, [arm.name for arm in plan.arms], range(plan.repeats))
    marks = await asyncio.gather(*(marked(*place) for place in places))
    scores = _with_courses(marks, courses)
    write(workspace.folder, plan.name, SCORES, "".join(one.model_dump_json() + "\n" for one in scores))
    return scores


def _with_courses(marks: Iterable[Score], courses: Mapping[tuple[str, str, int], list[Course]]) -> list[Score]:
    """Return scores, in the order in which their questions were asked, with what the logs say of them."""
    before: dict[str, set[str]] = {}
    scores = []
    for mark in marks:
        tries = courses.get((mark.question, mark.arm, mark.repeat), [])
        known = before.setdefault(mark.arm, set())
        made, found, called = (
            {name for one in tries for name in getattr(one, which)} for which in ("made", "found", "called")
        )
        said = {name: tuple(sorted(each)) for name, each in (("made", made), ("found", found))}
        said["reused"] = tuple(sorted(called & known))
        known |= made
        scores.append(mark.model_copy(update={**said, "delegations": tries[-1].delegations if tries else 0}))
    return scores


def _refused(folder: Path, plan: Plan) -> dict[str, dict[str, str]]:
    """Return why runs could not be made or driven when the evaluation was run last, by question and arm."""
    path = folder_of(folder, plan.name) / REFUSED
    found: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def scored(folder: Path, plan: Plan) -> bool:
    """Return whether an evaluation was scored."""
    return (folder_of(folder, plan.name) / SCORES).is_file()


def kept_scores(folder: Path, plan: Plan) -> list[Score]:
    """Return the scores that were kept last; raise EvaluationError where nothing was scored yet."""
    path = folder_of(folder, plan.name) / SCORES
    if not scored(folder, plan):
        raise EvaluationError(f"{plan.name} was not scored yet; `agentorchestra eval score {plan.name}` does that")
    return [Score.model_validate(line) for _, line in read_lines(path)]


def _unscored(question: EvalQuestion, arm: str, repeat: int, tries: list[Attempt]) -> Score:
    """Return what can be said without a scorer; `ok` where there is an answer to be scored."""
    place = Score(question=question.id, arm=arm, repeat=repeat, group=question.group, status="not_run", why="not asked")
    if not tries:
        return place
    last = tries[-1].result
    ran = place.model_copy(
        update={
            "run_id": last.run_id,
            "run_status": last.status.value,
            "answer": last.answer,
            "cost_usd": total(paid(one.result) for one in tries),
            "tokens": sum(one.result.usage.tokens for one in tries),
            "duration_s": round(sum(one.result.duration_s for one in tries), 3),
            "steps": sum(one.result.steps for one in tries),
        }
    )
    if last.status not in ENDED:
        return ran.model_copy(update={"why": f"the run is {last.status.value}; `agentorchestra eval resume` goes on"})
    if last.status is RunStatus.FAILED or not is_answer(last.answer):
        return ran.model_copy(update={"status": "missing", "score": 0.0, "why": last.error or "no answer"})
    return ran.model_copy(update={"status": "ok", "why": ""})


async def _said(
    workspace: Workspace[Any],
    questions: QuestionSet,
    judge: ModelJudge | None,
    ran: Score,
) -> Scored:
    """Return what the scorer says; where it fails, or says what no score is, nobody could say."""
    question = questions.by_id[ran.question]
    if question.truth is None:
        return Scored(None, "judge_failed", "the true answer is not public")
    folder = workspace.run_folder(ran.run_id)
    answer = Answer(ran.answer, folder if folder.is_dir() else None)
    try:
        said = await questions.scorer_of(question).score(question, answer, judge)
    except (AgentOrchestraError, ValueError, TypeError, LookupError, ArithmeticError) as exc:
        return Scored(None, "judge_failed", f"{type(exc).__name__}: {exc}")
    fits = said.score is None if said.status == "judge_failed" else said.score is not None and 0 <= said.score <= 1
    return said if fits else Scored(None, "judge_failed", f"the scorer gave {said.score!r} as {said.status!r}")
