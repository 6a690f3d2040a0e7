"""The questions of an evaluation are asked: each (question, arm, repeat) is one durable run, found again by its labels.

A block is a question with all its arms and repeats. Blocks begin one after the other, so whatever stops an evaluation
leaves complete blocks behind, but for those that were under way; what is begun again goes on with them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import AgentOrchestraError, EvaluationError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.protocols import RunHead
from agentorchestra.core.spec import FINAL, RunResult, RunSpec, RunStatus
from agentorchestra.evaluation.checks import Workspaces, on_machine
from agentorchestra.evaluation.plan import JUDGES, Arm, EvalPlan, folder_of, run_usd, write
from agentorchestra.evaluation.questions import EvalQuestion, QuestionSet
from agentorchestra.workspace import Workspace, load_settings, open_workspace

END_STATUSES = FINAL | {RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT, RunStatus.FAILED}
"""Statuses of runs that were asked; every other one is gone on with."""

UNABLE = "unable to determine"
"""What an agent says that does not know (004, sec. 4.1): with no answer, the one thing that is asked again."""

REFUSALS = "refused.json"  # of the record: why runs could not be made or driven, by question and arm; in no log
Place = tuple[str, str, int, int]  # question, arm, repeat, attempt


@dataclass(frozen=True)
class EvaluationProgress:
    """How far an evaluation is, each time a run ended."""

    # `done`, `total`: answered places (question, arm, repeat), and all that can be asked; questions that give tips
    # count, too
    done: int
    total: int
    failed: int  # runs that ended with an error, here
    spent_usd: float | None  # of all its runs and those of its judge; None where a price is unknown
    left_usd: float | None  # of its budget, None without one
    left_s: float | None  # an estimate from what was done here, None before anything was
    last: str  # which run ended, and how


@dataclass(frozen=True)
class Ending:
    runs: int  # that were driven here
    refusals: Mapping[tuple[str, str], str]  # why runs could not be made or driven, by question and arm
    left_out: tuple[str, ...]  # questions that were not begun, because the budget had no room for them
    missing: Mapping[str, str]  # why questions cannot be asked, by id (`QuestionSet.faults`)


def arm_workspace(folder: Path, arm: Arm) -> Workspace[Any]:
    """Return the workspace with an arm's preset and settings, and with what keeps questions apart; not yet opened."""
    return with_arm(open_workspace(folder, preset=arm.preset), arm)


def with_arm(original: Workspace[Any], arm: Arm) -> Workspace[Any]:
    """Return the same for a workspace that a program made."""
    workspace = original.copy()
    workspace.preset = arm.preset or original.preset
    settings = workspace.own.settings or load_settings(workspace.folder, arm.preset)
    workspace.own = replace(workspace.own, settings=arm.merge(settings))
    return workspace


async def found_runs(workspace: Workspace[Any], plan: EvalPlan) -> dict[Place, RunHead]:
    runs: dict[Place, RunHead] = {}
    for run in await workspace.runs.list():
        labels = run.manifest.labels
        if labels.get("evaluation") == plan.name and "arm" in labels:
            runs[labels["question"], labels["arm"], int(labels["repeat"]), int(labels["attempt"])] = run
    return runs


def is_answer(text: str) -> bool:
    """Return whether a text says something: it is neither empty nor "Unable to determine"."""
    return text.strip().rstrip(".").casefold() not in ("", UNABLE)


def dollars(result: RunResult) -> float | None:
    """Return the dollars that a run cost, with what may have been paid; None where a price is unknown."""
    if result.cost_usd is None:
        return None
    return result.cost_usd + (result.usage.uncertain_usd or 0.0)


@contextmanager
def alone(folder: Path, plan: EvalPlan) -> Iterator[None]:
    """Keep an evaluation to this process; raise EvaluationError while another one asks its questions."""
    path = folder_of(folder, plan.name) / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=0):
            yield
    except Timeout:
        raise EvaluationError(f"another process runs the evaluation {plan.name}; wait for it, or stop it") from None


class Runner:
    def __init__(
        self,
        folder: Path,  # of the workspace
        plan: EvalPlan,  # the evaluation; `keep` has written it
        questions: QuestionSet,  # of the plan, see `EvalPlan.load`
        *,
        # makes the workspace of an arm; arms that are alike but for system and model share one. A question with a
        # machine has a workspace of its own.
        workspaces: Workspaces = arm_workspace,
        at_once: int = 4,  # runs at the same time; one where later questions reuse what earlier ones made
        progress: Callable[[EvaluationProgress], None] | None = None,  # is told of every run that ended
        again: bool = False,  # whether runs that failed are tried again
    ) -> None:
        self._folder, self._plan, self._questions, self._workspaces = folder, plan, questions.by_id, workspaces
        self._faults = questions.faults
        self._missing = {question: fault for question, fault in questions.faults.items() if question in plan.ids}
        self._at_once, self._progress, self._again = 1 if plan.reuse else at_once, progress, again
        self._slots = asyncio.Semaphore(self._at_once)
        self._freed = asyncio.Condition()
        self._held = 0.0
        self._records: dict[Place, RunHead] = {}
        self._paid: dict[str, float | None] = {}
        self._settled: set[tuple[str, str, int]] = set()
        self._refused: dict[tuple[str, str], str] = {}
        self._asked = self._failed = 0

    async def run(self, ids: Sequence[str] | None = None) -> Ending:
        """Ask what was not answered yet, a block at a time.

        Args:
            ids: of the questions, in the order in which they are asked; None for all.

        Raises:
            UsageError: an arm cannot be run at all: its system, model, preset or key is not there. Nothing is spent.
            EvaluationError: another process asks; or tools are reused, and some there are come from elsewhere.
        """
        plan = self._plan
        async with AsyncExitStack() as stack:
            stack.enter_context(alone(self._folder, plan))
            workspaces = await self._open_workspaces(stack)
            any_workspace = workspaces[plan.arms[0].name]
            self._records = await found_runs(any_workspace, plan)
            if plan.reuse:
                await self._check_reuse(any_workspace)
            for place, record in self._records.items():
                self._take(place, record.id, await any_workspace.runs.result(record.id))
            if plan.teacher is not None:
                await self._check_tips(any_workspace)
            for run in await any_workspace.runs.list():
                if run.manifest.labels.get(JUDGES) == plan.name:
                    self._paid[run.id] = dollars(await any_workspace.runs.result(run.id))
            open_ids = [question for question in (plan.ids if ids is None else ids) if question not in self._missing]
            for arm in plan.arms:
                for first in (self._questions[question] for question in open_ids[:1]):
                    async with self._on_machine(first, arm, workspaces[arm.name]) as workspace:
                        await workspace.runs.foresee(self._spec(first, arm, 0, 0, workspace))
            self._began = time.monotonic()
            if plan.teacher is not None:
                await self._learn(plan.teacher, workspaces[plan.teacher.name])
            left_out = await self._blocks(open_ids, workspaces)
        refusals: dict[str, dict[str, str]] = {}
        for (question, name), reason in self._refused.items():
            refusals.setdefault(question, {})[name] = reason
        write(self._folder, plan.name, REFUSALS, json.dumps(refusals, indent=1) + "\n")
        return Ending(self._asked, self._refused, tuple(left_out), self._missing)

    async def _check_reuse(self, workspace: Workspace[Any]) -> None:
        """Raise EvaluationError where the reuse of tools could not be counted."""
        if self._again:
            raise EvaluationError(
                f"{self._plan.name} measures reuse, and a question that is tried again would have the tools of later "
                "ones; go on without --failed"
            )
        own = {run.id for run in self._records.values()}
        for tool in await workspace.tcp.stats():
            if tool.generated and tool.made_in not in own:
                raise EvaluationError(
                    f"the workspace has the generated tool {tool.name!r} of {tool.made_in or 'an unknown run'}, which "
                    f"is none of {self._plan.name}; measure reuse in a workspace of its own (--workspace DIR)"
                )

    async def _check_tips(self, workspace: Workspace[Any]) -> None:
        """Raise EvaluationError where other runs would give tips, too."""
        own = {run.id for place, run in self._records.items() if place[0] in self._plan.tips}
        for insight in await workspace.memory.recall(kinds=("insight",)):
            if insight.task not in own:
                raise EvaluationError(
                    f"the workspace remembers insights of {insight.task}, which gives no tips in {self._plan.name}; "
                    "ask in a workspace of its own (--workspace DIR)"
                )

    async def _learn(self, arm: Arm, workspace: Workspace[Any]) -> None:
        """Ask the questions that give tips, one after another, with the memory that they come from."""
        for tip in self._plan.tips:
            record = self._records.get((tip, arm.name, 0, 0))
            faulty = tip in self._faults
            if faulty or (record is not None and record.status in END_STATUSES):  # failed, too
                continue
            hold = run_usd(self._plan)
            if not await self._room(hold):
                return
            await self._answer(self._questions[tip], arm, 0, workspace)
            self._held -= hold

    async def _open_workspaces(self, stack: AsyncExitStack) -> dict[str, Workspace[Any]]:
        shared: dict[str, Workspace[Any]] = {}
        workspaces = {}
        for arm in self._plan.arms:
            key = arm.model_dump_json(include={"preset", "settings"})
            if key not in shared:
                shared[key] = await stack.enter_async_context(self._workspaces(self._folder, arm))
            workspaces[arm.name] = shared[key]
        return workspaces

    @asynccontextmanager
    async def _on_machine(
        self, question: EvalQuestion, arm: Arm, shared: Workspace[Any]
    ) -> AsyncIterator[Workspace[Any]]:
        """Give the workspace for a question: that of its arm, or one with the machine that the question needs."""
        if question.machine is None:
            yield shared
        else:
            async with on_machine(self._workspaces(self._folder, arm), question.machine) as own:
                yield own

    def _take(self, place: Place, run_id: str, result: RunResult) -> bool:
        """Note what a run cost; return whether its place is settled: answered, or not to be asked again."""
        self._paid[run_id] = dollars(result)
        question, arm, repeat, attempt = place
        is_final = result.status in END_STATUSES and not (self._again and result.status is RunStatus.FAILED)
        has_tests = self._questions[question].machine is not None  # they decide
        if is_final and (has_tests or is_answer(result.answer_text) or attempt == self._plan.ask_again):
            self._settled.add((question, arm, repeat))
        return (question, arm, repeat) in self._settled

    # -- blocks ----------------------------------------------------------------------------------------------------

    async def _blocks(self, ids: list[str], workspaces: Mapping[str, Workspace[Any]]) -> list[str]:
        """Drive the blocks; return the questions that were not begun."""
        side_by_side = asyncio.Semaphore(max(1, -(-self._at_once // (len(self._plan.arms) * self._plan.repeats))))

        async def block(question: str, places: list[tuple[Arm, int]], hold: float) -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    for arm, repeat in places:
                        group.create_task(self._answer(self._questions[question], arm, repeat, workspaces[arm.name]))
            finally:
                side_by_side.release()
                async with self._freed:
                    self._held -= hold
                    self._freed.notify_all()

        async with asyncio.TaskGroup() as group:
            for number, question in enumerate(ids):
                repeats = range(self._plan.repeats)
                places = [
                    (arm, n) for arm in self._plan.arms for n in repeats if (question, arm.name, n) not in self._settled
                ]
                if not places:
                    continue
                await side_by_side.acquire()
                hold = run_usd(self._plan) * len(places)
                if not await self._room(hold):
                    return ids[number:]
                group.create_task(block(question, places, hold))
        return []

    async def _room(self, hold: float) -> bool:
        """Return whether the budget has room for a block, when those under way have ended if need be."""
        budget = self._plan.budget_usd
        async with self._freed:
            while budget is not None and (self._spent_usd() or 0.0) + self._held + hold > budget:
                if self._held <= 0:
                    return False
                await self._freed.wait()
            self._held += hold
            return True

    async def _answer(self, question: EvalQuestion, arm: Arm, repeat: int, workspace: Workspace[Any]) -> None:
        """Have an arm answer a question: by a run that goes on, or by a new one; again where there is no answer."""
        for attempt in range(self._plan.ask_again + 1):
            place = (question.id, arm.name, repeat, attempt)
            record = self._records.get(place)
            if record is not None and not self._open(record):
                continue
            async with self._slots:
                try:
                    async with self._on_machine(question, arm, workspace) as own:
                        spec = self._spec(question, arm, repeat, attempt, own)
                        run_id = record.id if record else await own.create(spec)
                        result = await own.resume(run_id)
                except AgentOrchestraError as exc:  # of this run alone: the others go on
                    self._refused[question.id, arm.name] = f"{type(exc).__name__}: {exc}"
                    self._tell(f"{question.id} {arm.name}: refused: {exc}")
                    return
            self._asked += 1
            self._failed += result.status is RunStatus.FAILED
            is_settled = self._take(place, run_id, result)
            self._tell(
                f"{question.id} {arm.name}: {result.status}" + ("" if is_answer(result.answer_text) else ", no answer")
            )
            if is_settled or result.status not in END_STATUSES:
                return

    def _open(self, record: RunHead) -> bool:
        return record.status not in END_STATUSES or (self._again and record.status is RunStatus.FAILED)

    def _spec(self, question: EvalQuestion, arm: Arm, repeat: int, attempt: int, workspace: Workspace[Any]) -> RunSpec:
        """Return the run of a place: of the question it gets text, files and machine, and nothing else."""
        plan, task = self._plan, workspace.task
        seconds = plan.question_s if plan.question_s is not None or task is None else task.agent_s
        return RunSpec(
            task=question.task,
            files=question.files,
            system=arm.system,
            model=arm.model,
            roles=arm.roles,
            budget=Budget(cost_usd=plan.question_usd, active_s=seconds),
            on_ask="deny",
            labels=plan.labels(question.id, arm.name, repeat, attempt),
            seed=sha256_json([plan.seed, question.id, repeat, attempt])[:16],
            memory="workflow" if question.id in plan.tips else "none",
            environments=arm.environments or (("terminal", "files") if task is not None else ()),
            components=arm.components,
        )

    # -- what is told ----------------------------------------------------------------------------------------------

    def _spent_usd(self) -> float | None:
        """Return what all runs cost until now, the judge's among them; None where a price is unknown."""
        costs = [*self._paid.values()]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def _tell(self, last: str) -> None:
        if self._progress is None:
            return
        plan, spent_usd = self._plan, self._spent_usd()
        total = (len(plan.ids) - len(self._missing)) * len(plan.arms) * plan.repeats + len(plan.tips)
        run_s = (time.monotonic() - self._began) / max(1, self._asked)
        self._progress(
            EvaluationProgress(
                done=len(self._settled),
                total=total,
                failed=self._failed,
                spent_usd=spent_usd,
                left_usd=None if plan.budget_usd is None or spent_usd is None else plan.budget_usd - spent_usd,
                left_s=run_s * (total - len(self._settled)) if self._asked else None,
                last=last,
            )
        )
