"""An evaluation in a program: what `eval run`, `eval score` and `eval report` do, in the program's own workspace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentorchestra.evaluation.plan import Arm, keep, make_plan
from agentorchestra.evaluation.questions import load_set
from agentorchestra.evaluation.report import markdown
from agentorchestra.evaluation.results import report_tables
from agentorchestra.evaluation.runner import Runner, with_arm
from agentorchestra.evaluation.scores import Score, kept_scores, score
from agentorchestra.workspace import Workspace


class Evaluation:
    """Questions with true answers, asked of several systems.

    Args:
        workspace: open or not; its tools, models and systems answer, and its log holds the runs.
        questions: the file or folder with the questions; None for the set's own place.
        arms: what is compared: names of systems, or `Arm`s.
        source: the form of the questions: `local` for your own, or a set that `agentorchestra eval list` names.
        at_once: runs at the same time.
        limits: further fields of `make_plan` and `EvalPlan`: name, sample, seed, repeats, budget_usd, question_usd, ...

    Raises:
        EvaluationError: questions, arms or limits that do not fit. Nothing is spent, and nothing written.
    """

    def __init__(
        self,
        workspace: Workspace[Any],
        questions: str | Path | None,
        arms: Sequence[str | Arm],
        *,
        source: str = "local",
        at_once: int = 4,
        **limits: Any,
    ) -> None:
        data = None if questions is None else Path(questions).absolute()
        self._workspace, self._at_once, self._questions = workspace, at_once, load_set(source, data)
        all_arms = [arm if isinstance(arm, Arm) else Arm(name=arm, system=arm) for arm in arms]
        self.plan = make_plan(self._questions, all_arms, source=source, data=str(data or ""), **limits)

    async def run(self) -> list[Score]:
        """Ask what was not answered yet, and score all answers: one for each question, arm and repeat.

        Raises:
            UsageError: an arm cannot be run at all: its system, model, preset or key is not there. Nothing is spent.
            EvaluationError: its name is another evaluation's here, or another process runs it.
        """
        folder = self._workspace.folder
        self.plan = keep(folder, self.plan)
        options: dict[str, Any] = {
            "workspaces": lambda _, arm: with_arm(self._workspace, arm),
            "at_once": self._at_once,
        }
        await Runner(folder, self.plan, self._questions, **options).run()
        async with self._workspace.copy() as workspace:
            return await score(workspace, self.plan, self._questions, **options)

    async def report(self) -> str:
        """Return the results as Markdown; EvaluationError before `run`."""
        scores = kept_scores(self._workspace.folder, self.plan)
        async with self._workspace.copy() as workspace:
            return markdown(self.plan, await report_tables(workspace, self.plan, scores))
