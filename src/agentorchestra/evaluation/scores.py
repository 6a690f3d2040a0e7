"""What the runs of an evaluation gave, and how it is scored: a step of its own that can be repeated at any time.

Scores lie in `evaluations/NAME/scores.jsonl`, a line for each (question, arm, repeat), and are written anew each time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import AgentOrchestraError, EvaluationError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.spec import FINAL, RunResult, RunStatus
from agentorchestra.evaluation.benchmarks.swe_bench import verdicts
from agentorchestra.evaluation.checks import Workspaces, check_run, keep_check, kept_checks
from agentorchestra.evaluation.courses import Course, course
from agentorchestra.evaluation.plan import JUDGES, EvalPlan, folder_of, write
from agentorchestra.evaluation.questions import (
    EvalAnswer,
    EvalQuestion,
    MachineCheck,
    QuestionSet,
    Scored,
    ScoreStatus,
    read_lines,
)
from agentorchestra.evaluation.runner import END_STATUSES, REFUSALS, arm_workspace, dollars, found_runs, is_answer
from agentorchestra.workspace import Workspace

SCORES = "scores.jsonl"
JUDGE_SYSTEM = "direct"


class RunAttempt(BaseModel, frozen=True):
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
    """The score of a (question, arm, repeat)."""

    # `question`, `arm`, `repeat`: the place
    question: str
    arm: str
    repeat: int
    group: str  # of the question
    run_id: str = ""  # the run whose answer counts, "" where there is none: the last one that was asked
    run_status: str = ""  # its status, "" without a run
    answer: str = ""  # its answer
    # `status`, `score`, `why`: see `Scored`
    status: ScoreStatus
    score: float | None = None
    why: str = ""
    # `cost_usd`, `tokens`, `duration_s`, `steps`: of all attempts together; cost is None where a price is unknown
    cost_usd: float | None = 0.0
    tokens: int = 0
    duration_s: float = 0.0
    steps: int = 0
    delegations: int = 0  # agents that its top agent asked, in the run whose answer counts
    # `made`, `found`: tools that were generated, and that the generator found in place of making one, in all attempts
    made: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    reused: tuple[str, ...] = ()  # tools that were called and that an earlier question of the arm made
    usd_by_model: dict[str, float | None] = {}  # the same dollars, by the model that was asked


class Purse:
    """What the judge may still cost: what the runs of an evaluation left of its budget.

    Args:
        spent_usd: what its runs and its judge cost until now.
    """

    def __init__(self, plan: EvalPlan, spent_usd: float) -> None:
        self._plan, self._spent, self._held = plan, spent_usd, 0.0
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def room(self) -> AsyncIterator[float | None]:
        """Hold what a request to the judge may cost; wait for others' holds, EvaluationError at the budget's end."""
        budget, most = self._plan.budget_usd, self._plan.question_usd
        if budget is None or most is None:
            yield None
            return
        async with self._freed:
            while self._held and budget - self._spent - self._held < most:
                await self._freed.wait()
            hold = min(most, budget - self._spent - self._held)
            if hold <= 0:
                raise EvaluationError(self.refusal)
            self._held += hold
        try:
            yield hold
        finally:
            async with self._freed:
                self._held -= hold
                self._freed.notify_all()

    def pay(self, usd: float | None) -> None:
        self._spent += usd or 0.0

    @property
    def refusal(self) -> str:
        return (
            f"the judge was not asked: ${self._spent:.4f} of the budget of ${self._plan.budget_usd:g} are spent; "
            f"`agentorchestra eval score {self._plan.name} --budget-usd X` goes on"
        )


class ModelJudge:
    """A judge that is a model: each question to it is a run of the system `direct`, asked once and found again.

    Args:
        plan: the evaluation, which names the model.
        replies: the labels of what it was asked before, with the runs.
        of: the run that is judged.
        purse: what it may cost.
    """

    def __init__(
        self, workspace: Workspace[Any], plan: EvalPlan, replies: Mapping[tuple[str, str], str], of: str, purse: Purse
    ) -> None:
        self._workspace, self._plan, self._replies, self._of, self._purse = workspace, plan, replies, of, purse

    async def __call__(self, prompt: str) -> str:
        """Return the judge's reply; EvaluationError if it gave none, or the evaluation's budget is reached."""
        place = (self._of, sha256_text(f"{self._plan.judge} {prompt}")[:16])
        before = self._replies.get(place)
        result = await self._workspace.runs.result(before) if before else None
        if result is None or result.status not in FINAL:
            async with self._purse.room() as usd:
                base_usd = dollars(result) or 0.0 if result else 0.0
                budget = Budget(cost_usd=None if usd is None else base_usd + usd)
                run_id = before or await self._workspace.create(
                    prompt,
                    system=JUDGE_SYSTEM,
                    model=self._plan.judge,
                    labels={JUDGES: self._plan.name, "of": place[0], "asked": place[1]},
                    on_ask="deny",
                    memory="none",
                    budget=budget,
                )
                result = await self._workspace.resume(run_id, budget=budget if before else None)
                self._purse.pay((dollars(result) or 0.0) - base_usd)
            if result.status is RunStatus.BUDGET_EXHAUSTED and usd is not None and usd < (self._plan.question_usd or 0):
                raise EvaluationError(self._purse.refusal)
        if not result.answer_text:
            raise EvaluationError(f"the judge gave no reply ({result.status}): {result.error or 'it was empty'}")
        return result.answer_text


async def attempts(workspace: Workspace[Any], plan: EvalPlan) -> list[RunAttempt]:
    """Return all runs of an evaluation, in the order of its questions, arms, repeats."""
    order = {question: number for number, question in enumerate(plan.ids)}
    arms = {arm.name: number for number, arm in enumerate(plan.arms)}
    own = {place: run for place, run in (await found_runs(workspace, plan)).items() if place[0] in order}
    places = sorted(own, key=lambda place: (order[place[0]], arms[place[1]], *place[2:]))
    return [
        RunAttempt(
            question=q, arm=arm, repeat=repeat, attempt=n, result=await workspace.runs.result(own[q, arm, repeat, n].id)
        )
        for q, arm, repeat, n in places
    ]


async def judge_runs(workspace: Workspace[Any], plan: EvalPlan) -> dict[tuple[str, str], str]:
    labels = {run.id: run.manifest.labels for run in await workspace.runs.list()}
    return {(label["of"], label["asked"]): run for run, label in labels.items() if label.get(JUDGES) == plan.name}


async def judged_usd(workspace: Workspace[Any], plan: EvalPlan) -> float | None:
    return total([dollars(await workspace.runs.result(run)) for run in (await judge_runs(workspace, plan)).values()])


def total(costs: Iterable[float | None]) -> float | None:
    amounts = list(costs)
    return None if None in amounts else sum(amount for amount in amounts if amount is not None)


async def score(
    workspace: Workspace[Any],  # open; the judge runs in it
    plan: EvalPlan,  # the evaluation
    questions: QuestionSet,  # of the plan, see `EvalPlan.load`
    *,
    at_once: int = 4,  # answers that are judged, and machines that are looked at, at the same time
    workspaces: Workspaces = arm_workspace,  # makes the workspace of an arm, for questions with a machine
) -> list[Score]:
    by_place: dict[tuple[str, str, int], list[RunAttempt]] = {}
    tries = await attempts(workspace, plan)
    for attempt in tries:
        by_place.setdefault((attempt.question, attempt.arm, attempt.repeat), []).append(attempt)
    replies, refusals = await judge_runs(workspace, plan), _refusals(workspace.folder, plan)
    checks = kept_checks(workspace.folder, plan)
    elsewhere = {run.id for run in await workspace.runs.list() if run.imported is not None}
    runs = sum(dollars(attempt.result) or 0.0 for attempt in tries)
    purse = Purse(plan, runs + sum([dollars(await workspace.runs.result(run)) or 0.0 for run in replies.values()]))
    slots = asyncio.Semaphore(at_once)
    courses: dict[tuple[str, str, int], list[Course]] = {}

    async def machine_check(question: EvalQuestion, mark: Score) -> MachineCheck | None:
        """Return what is on the machine that a run left, looked at once."""
        if question.machine is None or mark.run_id in checks:
            return checks.get(mark.run_id)
        if mark.run_id in elsewhere:
            raise EvaluationError(
                f"the machine of {mark.run_id} is where the run was made; score it there, and import the bundle again"
            )
        own = workspaces(workspace.folder, plan.arm(mark.arm))
        keep_check(workspace.folder, plan, check := await check_run(own, question.machine, mark.run_id))
        return check

    async def score_place(name: str, arm: str, repeat: int) -> Score:
        question = questions.by_id[name]
        mark = _base_score(question, arm, repeat, by_place.get((name, arm, repeat), []))
        if not mark.run_id and name in questions.faults:
            return mark.model_copy(update={"status": "missing", "why": questions.faults[name]})
        if mark.status == "not_run":
            return mark.model_copy(update={"why": refusals.get(name, {}).get(arm, mark.why)})
        tries = by_place[name, arm, repeat]
        courses[name, arm, repeat] = [course(await workspace.log.events(attempt.result.run_id)) for attempt in tries]
        if mark.status != "ok":
            return mark
        async with slots:
            judge = ModelJudge(workspace, plan, replies, mark.run_id, purse) if plan.judge else None
            try:
                verdict = await _verdict(workspace, questions, judge, mark, await machine_check(question, mark))
            except (AgentOrchestraError, ValueError, TypeError, LookupError, ArithmeticError) as exc:
                verdict = Scored(None, "judge_failed", f"{type(exc).__name__}: {exc}")
        return mark.model_copy(update={"status": verdict.status, "score": verdict.score, "why": verdict.why})

    places = product(plan.ids, [arm.name for arm in plan.arms], range(plan.repeats))
    marks = await asyncio.gather(*(score_place(*place) for place in places))
    scores = _with_courses(marks, courses)
    write(workspace.folder, plan.name, SCORES, "".join(score.model_dump_json() + "\n" for score in scores))
    return scores


def _with_courses(marks: Iterable[Score], courses: Mapping[tuple[str, str, int], list[Course]]) -> list[Score]:
    """Return scores, in the order in which their questions were asked, with what the logs say of them."""
    before: dict[str, set[str]] = {}
    scores = []
    for mark in marks:
        tries = courses.get((mark.question, mark.arm, mark.repeat), [])
        earlier = before.setdefault(mark.arm, set())
        tools, matches, calls = (
            {name for attempt in tries for name in getattr(attempt, field)} for field in ("tools", "matches", "calls")
        )
        names = {name: tuple(sorted(each_tools)) for name, each_tools in (("made", tools), ("found", matches))}
        names["reused"] = tuple(sorted(calls & earlier))
        earlier |= tools
        scores.append(mark.model_copy(update={**names, "delegations": tries[-1].delegations if tries else 0}))
    return scores


async def take_verdicts(workspace: Workspace[Any], plan: EvalPlan, arm: str, report: Path) -> int:
    """Take over what SWE-bench's harness said of the changes of an arm; return of how many.

    Raises:
        EvaluationError: there is no such arm, the file is no report, or none of its tasks is one of the arm's.
    """
    plan.arm(arm)
    by_task, checks = verdicts(report), kept_checks(workspace.folder, plan)
    results = {
        attempt.result.run_id: by_task[attempt.question]
        for attempt in await attempts(workspace, plan)
        if attempt.arm == arm and attempt.question in by_task and attempt.result.run_id in checks
    }
    if not results:
        raise EvaluationError(
            f"{report} says nothing of what the runs of {arm} changed; give the report on what `agentorchestra eval "
            f"export {plan.name} --as swe-bench --arm {arm}` wrote"
        )
    for run, (reward, sentence) in results.items():
        keep_check(workspace.folder, plan, checks[run].model_copy(update={"reward": reward, "why": sentence}))
    return len(results)


def _refusals(folder: Path, plan: EvalPlan) -> dict[str, dict[str, str]]:
    """Return why runs could not be made or driven when the evaluation was run last, by question and arm."""
    path = folder_of(folder, plan.name) / REFUSALS
    refusals: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return refusals


def has_scores(folder: Path, plan: EvalPlan) -> bool:
    return (folder_of(folder, plan.name) / SCORES).is_file()


def kept_scores(folder: Path, plan: EvalPlan) -> list[Score]:
    """Return the scores that were kept last; raise EvaluationError where nothing was scored yet."""
    path = folder_of(folder, plan.name) / SCORES
    if not has_scores(folder, plan):
        raise EvaluationError(f"{plan.name} was not scored yet; `agentorchestra eval score {plan.name}` does that")
    return [Score.model_validate(line) for _, line in read_lines(path)]


def _base_score(question: EvalQuestion, arm: str, repeat: int, tries: list[RunAttempt]) -> Score:
    """Return what can be said without a scorer; `ok` where there is an answer to be scored."""
    place = Score(question=question.id, arm=arm, repeat=repeat, group=question.group, status="not_run", why="not asked")
    if not tries:
        return place
    last = tries[-1].result
    mark = place.model_copy(
        update={
            "run_id": last.run_id,
            "run_status": last.status.value,
            "answer": last.answer_text,
            "cost_usd": total(dollars(attempt.result) for attempt in tries),
            "tokens": sum(attempt.result.usage.tokens for attempt in tries),
            "duration_s": round(sum(attempt.result.duration_s for attempt in tries), 3),
            "steps": sum(attempt.result.steps for attempt in tries),
            "usd_by_model": _by_model([attempt.result for attempt in tries]),
        }
    )
    if last.status not in END_STATUSES:
        return mark.model_copy(update={"why": f"the run is {last.status.value}; `agentorchestra eval resume` goes on"})
    if last.status is RunStatus.FAILED or (question.machine is None and not is_answer(last.answer_text)):
        return mark.model_copy(update={"status": "missing", "score": 0.0, "why": last.error or "no answer"})
    return mark.model_copy(update={"status": "ok", "why": ""})


def _by_model(results: Iterable[RunResult]) -> dict[str, float | None]:
    by_model: dict[str, list[float | None]] = {}
    for result in results:
        for model, usage in result.usage_by_model.items():
            cost = None if usage.cost_usd is None else usage.cost_usd + (usage.uncertain_usd or 0.0)
            by_model.setdefault(model, []).append(cost)
    return {model: total(costs) for model, costs in sorted(by_model.items())}


async def _verdict(
    workspace: Workspace[Any], questions: QuestionSet, judge: ModelJudge | None, mark: Score, check: MachineCheck | None
) -> Scored:
    """Return what the scorer says; where it says what no score is, nobody could say."""
    question = questions.by_id[mark.question]
    if question.truth is None and question.machine is None:
        return Scored(None, "missing", "the true answer is not public; `agentorchestra eval export` writes the answers")
    folder = workspace.files.folder(mark.run_id)
    answer = EvalAnswer(mark.answer, folder if folder.is_dir() else None, check)
    verdict = await questions.scorer_of(question).score(question, answer, judge)
    points, status = verdict.score, verdict.status
    fits = points is None if status == "judge_failed" else points is not None and 0 <= points <= 1
    return verdict if fits else Scored(None, "judge_failed", f"the scorer gave {points!r} as {status!r}")
