"""Tips and solutions: distilled from runs, told where they fit, kept or retired by validation (004, sec. 3.2.1).

    recorded runs ─> reports ─> a run of the distiller ─> insights of the memory ─> plan tips, memories of later runs
                                                              │
                             questions answered with and without it, paired ─> kept, retired or undecided

A tip is an insight like any other (docs/memory.md): there is no second store. What is retired is told no more and is
not distilled again; the evidence stands in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentorchestra.agents.distiller import NAME, Line, Material, RunReport, Tip
from agentorchestra.agents.trace import trace_of
from agentorchestra.core.budget import Budget
from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.errors import EvolutionError, UnknownComponentError
from agentorchestra.core.ids import EffectKey, sha256_json
from agentorchestra.core.spec import FINAL, RunSpec, RunStatus
from agentorchestra.evaluation.plan import Arm, keep, make_plan
from agentorchestra.evaluation.questions import QuestionSet
from agentorchestra.evaluation.results import by_points, values
from agentorchestra.evaluation.runner import END_STATUSES, Runner, arm_workspace
from agentorchestra.evaluation.scores import score
from agentorchestra.evaluation.statistics import ScoreDifference, Scores, difference
from agentorchestra.log.ledger import Ledger
from agentorchestra.workspace import Workspace

LABEL = "tips"  # of the distiller's runs: of what they were made
MOST_RUNS = 20  # runs that one distillation reads
MOST_CHARS = 80_000  # characters of all reports together; of longer runs the first and the last lines are read

Verdict = Literal["kept", "retired", "undecided"]


async def distil(
    workspace: Workspace[Any],  # open
    runs: Iterable[str],  # their ids, of failures and of successes
    scores: Mapping[str, float | None] | None = None,  # 0 to 1, by run; true answers are not among what is read
    *,
    model: str | None = None,  # that is asked; None for the settings'
    budget: Budget | None = None,  # of the run
) -> list[Tip]:
    """Return the tips and solutions that recorded runs teach, written down as insights of the workspace.

    It is a run of the agent `distiller`, found again by its label: the same runs with the same scores are read once,
    and one that was stopped goes on.

    Raises:
        UnknownRunError: for a run that is not there.
        EvolutionError: no run that has ended, more than 20, or the distiller gave nothing.
    """
    reports = await _reports(workspace, [*dict.fromkeys(runs)], scores or {})
    old_tips = tuple(tip.text for tip, _ in await workspace.memory.retired())
    options = Material(runs=tuple(reports), retired=old_tips).model_dump(mode="json")
    label = sha256_json([options, model or ""])[:16]
    before = [run for run in await workspace.runs.list() if run.manifest.labels.get(LABEL) == label]
    run_id = before[0].id if before else ""
    if not before:
        task = f"Draw tips from {len(reports)} recorded runs."
        spec = RunSpec(task=task, system=NAME, model=model, options=options, labels={LABEL: label}, budget=budget)
        run_id = await workspace.create(spec)
    result = await workspace.resume(run_id, budget=budget if before and before[0].status not in FINAL else None)
    if result.status is not RunStatus.COMPLETED or not isinstance(result.output_value, dict):
        reason = result.report or result.error or result.status.value
        raise EvolutionError(f"the distiller's run {run_id} gave no tips: {reason}; ask again, or name another model")
    return [Tip.model_validate(entry) for entry in result.output_value["tips"]]


async def _reports(workspace: Workspace[Any], runs: list[str], scores: Mapping[str, float | None]) -> list[RunReport]:
    """Return what the distiller reads of runs; refuse what nothing can be learnt from."""
    if len(runs) > MOST_RUNS:
        raise EvolutionError(f"{len(runs)} runs are to be read, and at most {MOST_RUNS} are at a time; name fewer")
    reports = []
    for run_id in runs:
        events = await workspace.log.events(run_id)
        result = await workspace.runs.result(run_id)
        if result.status not in END_STATUSES:
            raise EvolutionError(f"run {run_id} is {result.status.value}: how it ends is not known; leave it out")
        ledger = Ledger.of(events)
        task = str(events[0].body["manifest"]["task"])
        branch = f"{EffectKey('/', 1).path}.{ledger.records[EffectKey('/', 1)].effect['arguments']['name']}"
        trace = trace_of(ledger, branch)
        lines = [Line(key=key, text=text) for key, text in zip(trace.keys, trace.lines, strict=True) if key]
        trust = lowest(Trust.AGENT, trace.trust)
        report = RunReport(
            run=run_id,
            task=task,
            status=result.status,
            score=scores.get(run_id),
            answer=result.answer_text,
            lines=tuple(_fitting(lines, MOST_CHARS // len(runs))),
            trust=trust,
        )
        reports.append(report)
    if not reports:
        raise EvolutionError("there are no runs to learn from; name runs that have ended")
    return reports


def _fitting(lines: list[Line], most: int) -> list[Line]:
    by_place: dict[int, Line] = {}
    for turn in range(len(lines)):
        place = turn // 2 if turn % 2 else len(lines) - 1 - turn // 2  # the end tells more than the beginning
        most -= len(lines[place].text)
        if most < 0:
            break
        by_place[place] = lines[place]
    return [by_place[place] for place in sorted(by_place)]


@dataclass(frozen=True)
class Judgement:
    # `kept` where the interval of the gain lies above 0, `retired` where it lies nowhere above `worth`, else
    # `undecided`
    verdict: Verdict
    gain: ScoreDifference  # of the questions answered with the tip over those without it
    worth: float  # the gain that a tip has to have a chance of

    @property
    def reason(self) -> str:
        return (
            f"{self.verdict}: {by_points(self.gain)} points with it over {self.gain.questions} questions, better on "
            f"{self.gain.better}, worse on {self.gain.worse}, p = {self.gain.p:.3f}"
        )


def judge_tip(scores_with: Scores, scores_without: Scores, *, worth: float = 0.0, level: float = 0.95) -> Judgement:
    """Return whether a tip is kept or retired, by questions that were answered with it and without it.

    Args:
        scores_with, scores_without: 0 to 1, by question, one for each repeat.
        worth: a gain, as a share; a tip of which even that is not to be expected is retired, because it takes room in
            every prompt.
        level: of the interval of the gain (`statistics.difference`).

    Raises:
        EvaluationError: no question in common, or scores that are none.
    """
    gain = difference(scores_with, scores_without, level=level)
    verdict: Verdict = "kept" if gain.low > 0 else "retired" if gain.high <= worth else "undecided"
    return Judgement(verdict, gain, worth)


async def validate(
    folder: Path,  # of the workspace
    ref: str,  # of the tip, `RUN:ENTRY`
    questions: QuestionSet,  # that the tip was not learnt from
    *,
    arm: Arm,  # who answers: a system that works in steps, its model and settings
    # `source`, `data`: what the set was loaded by
    source: str = "",
    data: str = "",
    worth: float = 0.0,  # see `judge_tip`
    # `workspaces`, `at_once`: see `evaluation.runner.Runner`
    workspaces: Callable[[Path, Arm], Workspace[Any]] = arm_workspace,
    at_once: int = 4,
    **limits: Any,  # further fields of `evaluation.plan.EvalPlan`: `sample`, `repeats`, `question_usd`, ...
) -> Judgement:
    """Return the verdict on a tip from questions that are answered with it and without it; a useless one is retired.

    It is an evaluation of two arms, which goes on where it stopped; its record and its runs are the evidence.

    Raises:
        UnknownComponentError: there is no such tip, or it is not told any more.
        EvolutionError: the tip was learnt from one of the questions, or the budget had no room for all.
        EvaluationError: what no evaluation can be made of.
    """
    without = arm.model_copy(update={"name": "without"})
    arms = [arm.model_copy(update={"name": "with", "settings": {**arm.settings, "parts.tip": ref}}), without]
    name = limits.pop("name", "") or f"tip-{sha256_json([ref, arm.model_dump(mode='json')])[:8]}"
    async with workspaces(folder, without) as workspace:
        tips = {tip.ref: tip for tip in await workspace.memory.recall(kinds=("insight",)) if tip.told}
        if ref not in tips:
            raise UnknownComponentError(
                f"no tip {ref!r} is told in this workspace; `agentorchestra memories entries --kind insight` lists them"
            )
        learnt = {key.rpartition("/")[0].partition("/")[0] for key in tips[ref].evidence}
        plan = make_plan(questions, arms, source=source, data=data, name=name, **limits)
        for run in await workspace.runs.list():
            for question_id in plan.ids if run.id in learnt else ():
                if _words(questions.by_id[question_id].task) == _words(run.manifest.task):
                    raise EvolutionError(
                        f"the question {question_id!r} is what the tip was learnt from (run {run.id}); what was learnt "
                        "from a question cannot be judged by it, so leave it out"
                    )
        plan = keep(folder, plan)
        ending = await Runner(folder, plan, questions, workspaces=workspaces, at_once=at_once).run()
        scores = await score(workspace, plan, questions, at_once=at_once)
        if ending.left_out:
            raise EvolutionError(
                f"the budget had no room for {len(ending.left_out)} questions of {name}; `agentorchestra eval resume "
                f"{name} --budget-usd X` goes on, then the same command"
            )
        judgement = judge_tip(values(scores, "with"), values(scores, "without"), worth=worth)
        await settle(workspace, ref, judgement, f"evaluation {name}")
    return judgement


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


async def settle(workspace: Workspace[Any], ref: str, judgement: Judgement, evidence: str) -> None:
    """Retire a tip if that is the verdict: no task is told it from here on, and it is not distilled again.

    Args:
        ref: of the tip, `RUN:ENTRY`.
        judgement: of `judge_tip`.
        evidence: where the answers are, such as the name of an evaluation.

    Raises:
        UsageError: no such tip.
    """
    if judgement.verdict == "retired":
        await workspace.memory.forget([ref], by="validation", retired=f"{judgement.reason} ({evidence})")
