"""Learning to orchestrate at a cost: rounds of edits to an orchestrator's prompt (002, sec. 3.3 and 4.3.4).

    the prompt as it is ─> trajectories: (score, US dollars) each
          ^                        │
          │                        v
          │            an optimiser reads them and edits the prompt ─> a candidate version
          │                        │
          │                        v
          └── the best of ── the front of accuracy and cost ── its own trajectories

Nothing else about the orchestrator changes, and no weights do. A round begins with the prompt of the front that answers
best (of equals the cheaper one). What is learnt is a candidate version: whether it is taken into use is for the gate or
a person (`evolver.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue, ValidationError

from agentorchestra.agents.optimiser.evidence import LONGEST_LOSS
from agentorchestra.core.errors import EvolutionError, UsageError
from agentorchestra.core.ids import sha256_json
from agentorchestra.evaluation.plan import PLAN, Arm, EvalPlan, amend, draw, evaluations, folder_of, make_plan
from agentorchestra.evaluation.plan import keep as keep_plan
from agentorchestra.evaluation.plan import read as read_plan
from agentorchestra.evaluation.questions import QuestionSet
from agentorchestra.evaluation.report import html, plot
from agentorchestra.evaluation.results import CostPoint, Table, points, share, usd
from agentorchestra.evaluation.results import frontier as unbeaten
from agentorchestra.evaluation.runner import Runner, arm_workspace, dollars
from agentorchestra.evaluation.scores import Score, has_scores, kept_scores, score, total
from agentorchestra.evolution.components import manager_of, version_of
from agentorchestra.evolution.evolver import alone
from agentorchestra.evolution.optimiser import Improvement, Optimiser, TextChange, Trial, split_place
from agentorchestra.evolution.optimisers import BySystem, check, optimiser
from agentorchestra.evolution.record import FOLDER, QuestionSource
from agentorchestra.workspace import Workspace

RECORD, CANDIDATES = "frontier.json", "candidates.jsonl"
AUTHOR = "frontier"


class Learning(BaseModel, frozen=True, extra="forbid"):
    """A prompt that is learnt."""

    format: Literal[1] = 1  # of the file; 1 is the first
    name: str  # of it, in its workspace
    subject: str = "prompt:aorchestra"  # `prompt:aorchestra`
    # parts that may change, as `prompt:aorchestra/routing_rules`; all trainable ones if empty
    variables: tuple[str, ...] = ()
    questions: QuestionSource  # what trajectories are collected on, the same ones for every candidate (002 collects 6)
    rounds: int = Field(default=5, ge=1)  # edits at most (002: 5)
    repeats: int = Field(default=1, ge=1)  # how often each candidate answers each question
    optimiser: str = ""  # who proposes, by name; kept to be told
    # `system`, `model`, `settings`: of the runs, see `evaluation.plan.Arm`
    system: str | None = "aorchestra"
    model: str | None = None
    settings: dict[str, JsonValue] = {}
    optimiser_model: str | None = None  # who is asked for edits; the runs' model by default
    # `question_usd`, `budget_usd`: what one run and what all of them together may cost
    question_usd: float | None = Field(default=None, gt=0)
    budget_usd: float | None = Field(default=None, gt=0)
    seed: int = 0  # of the questions and runs


class Candidate(BaseModel, frozen=True):
    """A prompt that was tried, or why a round brought none."""

    round: int  # that made it; 0 for the prompt as it was
    version: str = ""  # of the prompt, "" where there is none
    base: str = ""  # the version that was edited, "" in round 0
    reasons: dict[str, str] = {}  # why, by variable
    why: str = ""  # a round brought none
    run: str = ""  # the optimiser's
    usd: float | None = 0.0  # what the optimiser cost, None where a price is unknown

    @property
    def arm(self) -> str:
        """The name of its arm and its point: the version."""
        return f"v{self.version}"


def learning(
    name: str, questions: QuestionSet, *, data: str = "", trajectories: int = 6, seed: int = 0, **fields: Any
) -> Learning:
    """Return the description of a prompt that is to be learnt.

    Args:
        name: of letters, digits, `-`, `_` and `.`.
        questions: the set that trajectories are collected on.
        data: where it lies.
        trajectories: how many questions, spread over the groups.
        seed: of the questions and runs.
        fields: the further fields of `Learning`.

    Raises:
        EvaluationError: fewer questions than trajectories.
        EvolutionError: a field that does not fit, or a budget without a limit for each run.
    """
    ids = tuple(draw(questions.questions, trajectories, seed))
    source = QuestionSource(set=questions.name, data=data, version=questions.version, ids=ids)
    try:
        draft = Learning(name=name, questions=source, seed=seed, **fields)
    except ValidationError as exc:
        first = exc.errors()[0]
        raise EvolutionError(f"{'.'.join(map(str, first['loc']))} is {first['input']!r}: {first['msg']}") from None
    if not draft.subject.startswith("prompt:"):
        raise EvolutionError(f"{draft.subject!r} is no prompt; name the orchestrator's, as prompt:aorchestra")
    if draft.budget_usd is not None and draft.question_usd is None:
        raise EvolutionError("a budget over all runs needs a limit for each run; give --question-usd")
    return draft


class Frontier:
    """Learns a prompt; EvolutionError where something else was begun under its name."""

    def __init__(
        self,
        folder: Path,  # of the workspace
        learning: Learning,  # see `learning`; under its name it goes on with what was begun
        optimiser: Optimiser,  # proposes edits
        *,
        # makes the workspace of an arm, see `evaluation.runner.Runner`
        workspaces: Callable[[Path, Arm], Workspace[Any]] = arm_workspace,
        at_once: int = 4,  # runs at the same time
        tell: Callable[[str], None] = lambda line: None,  # is told a sentence about each step
    ) -> None:
        _check_same(folder, learning)
        self._folder, self._learning, self._optimiser = folder, learning, optimiser
        self._workspaces, self._at_once, self._tell = workspaces, at_once, tell
        self._paid: dict[str, float | None] = {}

    async def run(self) -> list[Candidate]:
        """Carry out the rounds that are left; return all candidates.

        Raises:
            EvolutionError: the budget has no room for what comes next (the same call with a larger one goes on), a
                price is unknown, another process changes the prompt, or the data are others.
            UsageError: a prompt, system or model that there is not. Nothing is spent.
        """
        learning = self._learning
        questions = learning.questions.load()
        with alone(self._folder, [learning.subject]):
            async with self._workspaces(self._folder, self._arm("", "")) as workspace:
                now = await version_of(workspace, learning.subject)
                await self._variables(workspace, now)
                path = self._folder / FOLDER / learning.name / RECORD
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, learning.model_dump_json(indent=1) + "\n")
                if not candidates(self._folder, learning.name):
                    _add(self._folder, learning.name, Candidate(round=0, version=now))
                self._paid = _paid_before(self._folder, learning)
                for former in candidates(self._folder, learning.name):
                    await self._collect(workspace, questions, former)
                for number in range(1, learning.rounds + 1):
                    if all(candidate.round != number for candidate in candidates(self._folder, learning.name)):
                        candidate = await self._round(workspace, questions, number)
                        _add(self._folder, learning.name, candidate)
                        await self._collect(workspace, questions, candidate)
                        self._tell(f"round {number}: {candidate.version or candidate.why}")
                await self._tidy(workspace)
        return candidates(self._folder, learning.name)

    async def _round(self, workspace: Workspace[Any], questions: QuestionSet, number: int) -> Candidate:
        """Have the best prompt of the front edited; return the candidate, or why there is none."""
        learning, base = self._learning, best(self._folder, self._learning)
        variables = await self._variables(workspace, base.version)

        async def evaluate(texts: Mapping[str, str], ids: Sequence[str]) -> Sequence[Trial]:
            changes = [
                TextChange(component=component, variable=variable, text=text)
                for place, text in texts.items()
                for component, variable in [split_place(place)]
            ]
            version = await self._register(workspace, base, variables, changes, "", f"tried in round {number}")
            scores = await self._collect(workspace, questions, Candidate(round=number, version=version))
            return [trial for trial in _trials(scores) if trial.question in ids]

        task = Improvement(
            workspace=workspace,
            variables=variables,
            trials=_trials(kept_scores(self._folder, read_plan(self._folder, _evaluation(learning, base)))),
            evaluate=evaluate,
            labels={"frontier": learning.name, "round": str(number)},
            model=learning.optimiser_model or learning.model,
            usd=self._left(),
            seed=sha256_json([learning.seed, learning.name, number])[:16],
        )
        proposal = await self._optimiser(task)
        self._paid[f"optimiser {number}"] = proposal.usd
        changes, run = proposal.changes, proposal.run
        reasons = {change.place: change.reason for change in changes}
        candidate = Candidate(round=number, base=base.version, reasons=reasons, run=run, usd=proposal.usd)
        if not changes:
            return candidate.model_copy(update={"why": proposal.why})
        try:
            if unknown := [place for place in reasons if place not in variables]:
                raise EvolutionError(f"{unknown[0]} may not change; {', '.join(variables)} may")
            await check(task, changes)
            version = await self._register(workspace, base, variables, changes, run, f"round {number}")
        except UsageError as exc:
            return candidate.model_copy(update={"why": f"it was refused: {exc}"})
        return candidate.model_copy(update={"version": version})

    # -- versions --------------------------------------------------------------------------------------------------

    async def _variables(self, workspace: Workspace[Any], version: str) -> dict[str, Any]:
        learning = self._learning
        manager, name = manager_of(workspace, learning.subject)
        by_place = {f"{learning.subject}/{variable.name}": variable for variable in await manager.vars(name, version)}
        if unknown := [place for place in learning.variables if place not in by_place]:
            raise EvolutionError(f"{unknown[0]} is no variable of the prompt; it has: {', '.join(by_place) or 'none'}")
        return {place: by_place[place] for place in by_place if place in (learning.variables or by_place)}

    async def _register(
        self,
        workspace: Workspace[Any],
        base: Candidate,
        variables: Mapping[str, Any],
        changes: Sequence[TextChange],
        run: str,
        when: str,
    ) -> str:
        """Register an edit of a version as a candidate; return its version, that of equal texts where there is one."""
        manager, name = manager_of(workspace, self._learning.subject)
        # `setvars` begins with the current version, an edit with that of the front: all of its parts are set.
        texts = {variable.name: variable.value for variable in variables.values()}
        texts |= {change.variable: change.text for change in changes}
        reasons = [change.reason for change in changes]
        config = await manager.setvars(
            name,
            texts,
            candidate=True,
            author=f"{AUTHOR} {self._learning.name}",
            reason="; ".join([f"{when}, from {base.version}", *filter(None, reasons)])[:500],
            run=run,
        )
        return str(config.version)

    async def _tidy(self, workspace: Workspace[Any]) -> None:
        """Archive the candidates that others beat in accuracy without costing more."""
        front = {candidate.version for candidate in front_of(self._folder, self._learning)}
        manager, name = manager_of(workspace, self._learning.subject)
        tries = candidates(self._folder, self._learning.name)
        own = {candidate.version for candidate in tries if candidate.round and candidate.version}
        for entry in await manager.versions(name):
            if entry.version in own - front and entry.state == "candidate":
                reason = "another version answers as well and costs no more"
                await manager.archive(name, entry.version, author=f"{AUTHOR} {self._learning.name}", reason=reason)

    # -- trajectories ----------------------------------------------------------------------------------------------

    def _arm(self, name: str, version: str) -> Arm:
        learning = self._learning
        return Arm(
            name=name,
            system=learning.system,
            model=learning.model,
            settings=learning.settings,
            components={learning.subject: version} if version else {},
        )

    async def _collect(self, workspace: Workspace[Any], questions: QuestionSet, candidate: Candidate) -> list[Score]:
        """Collect the trajectories of a candidate, or find them; return their scores.

        Raises:
            EvolutionError: the budget has no room for all of them, or what they cost is not known.
        """
        learning, name = self._learning, _evaluation(self._learning, candidate)
        if not candidate.version:
            return []
        exists = (folder_of(self._folder, name) / PLAN).exists()
        if exists and has_scores(self._folder, plan := read_plan(self._folder, name)):
            scores = kept_scores(self._folder, plan)
            if all(mark.status != "not_run" for mark in scores):
                return scores
        self._paid.pop(name, None)  # what it cost so far counts in its own budget
        left = self._left()
        if left is not None and left <= 0:
            raise self._no_room(name)
        if exists:
            plan = read_plan(self._folder, name) if left is None else amend(self._folder, name, left)
        else:
            source = learning.questions
            draft = make_plan(
                questions,
                [self._arm(candidate.arm, candidate.version)],
                source=source.set,
                data=source.data,
                name=name,
                repeats=learning.repeats,
                seed=learning.seed,
                question_usd=learning.question_usd,
            )
            plan = keep_plan(self._folder, draft.model_copy(update={"ids": source.ids, "budget_usd": left}))
        self._tell(f"{name}: {len(plan.ids)} questions")
        ending = await Runner(self._folder, plan, questions, workspaces=self._workspaces, at_once=self._at_once).run()
        scores = await score(workspace, plan, questions, at_once=self._at_once)
        if ending.left_out:
            raise self._no_room(name)
        for (question, _), reason in ending.refusals.items():
            raise EvolutionError(f"the question {question!r} of {name} could not be asked: {reason}")
        self._paid[name] = total(mark.cost_usd for mark in scores)
        if self._paid[name] is None:
            raise EvolutionError(f"the price of {name} is not known, and cost decides here; give the model a price")
        return scores

    def _no_room(self, name: str) -> EvolutionError:
        return EvolutionError(
            f"the budget of {self._learning.budget_usd:g} US dollars has no room for {name}; go on with the same "
            "command and a larger --budget-usd"
        )

    def _left(self) -> float | None:
        if self._learning.budget_usd is None:
            return None
        return self._learning.budget_usd - sum(cost or 0.0 for cost in self._paid.values())


def _evaluation(learning: Learning, candidate: Candidate) -> str:
    return f"{learning.name}-v{candidate.version}"


def _paid_before(folder: Path, learning: Learning) -> dict[str, float | None]:
    costs = {f"optimiser {candidate.round}": candidate.usd for candidate in candidates(folder, learning.name)}
    for name in evaluations(folder):
        if name.startswith(f"{learning.name}-v") and has_scores(folder, plan := read_plan(folder, name)):
            costs[name] = total(mark.cost_usd for mark in kept_scores(folder, plan))
    return costs


def _trials(scores: Sequence[Score]) -> list[Trial]:
    return [Trial(mark.question, mark.run_id, mark.score) for mark in scores]


# --- the front --------------------------------------------------------------------------------------------------------


def points_of(folder: Path, learning: Learning) -> list[CostPoint]:
    """Return accuracy and US dollars for a question of each candidate that was tried, in the order of the rounds."""
    by_name: dict[str, CostPoint] = {}
    for candidate in candidates(folder, learning.name):
        if candidate.version and (plan := _plan(folder, learning, candidate)) is not None:
            by_name |= {point.name: point for point in points(plan, kept_scores(folder, plan))}
    return list(by_name.values())


def front_of(folder: Path, learning: Learning) -> list[Candidate]:
    """Return the candidates that no other one beats in accuracy without costing more, the cheapest first."""
    by_name = {point.name: point for point in points_of(folder, learning)}
    front = unbeaten([*by_name.values()])
    by_arm = {candidate.arm: candidate for candidate in reversed(candidates(folder, learning.name))}
    return sorted((by_arm[arm] for arm in by_arm if arm in front), key=lambda candidate: by_name[candidate.arm].usd)


def best(folder: Path, learning: Learning) -> Candidate:
    """Return the best candidate of the front (002, sec. 4.1); EvolutionError where none was tried yet."""
    by_name = {point.name: point for point in points_of(folder, learning)}
    front = front_of(folder, learning)
    if not front:
        raise EvolutionError(f"no prompt of {learning.name} was tried yet; `agentorchestra evolve frontier` does that")
    return max(front, key=lambda candidate: by_name[candidate.arm].share)


def table(folder: Path, learning: Learning) -> Table:
    """Return what came of each round: accuracy with its interval, cost, whether it is on the front, and why."""
    by_name = {point.name: point for point in points_of(folder, learning)}
    front = {candidate.arm for candidate in front_of(folder, learning)}
    rows = []
    for candidate in candidates(folder, learning.name):
        point = by_name.get(candidate.arm) if candidate.version else None
        cells = ("-", "-") if point is None or point.accuracy is None else (share(point.accuracy), usd(point.usd))
        reason = "; ".join(filter(None, candidate.reasons.values())) or candidate.why or "as it was"
        is_front = "yes" if candidate.arm in front else "no"
        rows.append((str(candidate.round), candidate.version or "-", *cells, is_front, reason))
    note = (
        f"Accuracy in percent with its 95% interval, over the same {len(learning.questions.ids)} questions; US dollars "
        "for a question. On the front are those that no other one beats in accuracy without costing more."
    )
    head = ("round", "version", "accuracy", "cost", "front", "why")
    return Table(f"Cost and accuracy of {learning.subject}", head, tuple(rows), note)


def page(folder: Path, learning: Learning) -> str:
    """Return the table and the plot of the front as one HTML file that loads nothing."""
    first = _plan(folder, learning, candidates(folder, learning.name)[0])
    if first is None:
        raise EvolutionError(f"no prompt of {learning.name} was tried yet; `agentorchestra evolve frontier` does that")
    plan = first.model_copy(update={"name": learning.name})
    summary = table(folder, learning)
    return html(plan, [summary], {summary.title: [plot(points_of(folder, learning))]})


def _plan(folder: Path, learning: Learning, candidate: Candidate) -> EvalPlan | None:
    name = _evaluation(learning, candidate)
    if not (folder_of(folder, name) / PLAN).exists():
        return None
    plan = read_plan(folder, name)
    return plan if has_scores(folder, plan) else None


# --- what an optimiser is told ----------------------------------------------------------------------------------------


def thrifty(name: str, folder: Path, learning: Learning) -> Optimiser:
    """Return an optimiser that is told what the trajectories cost, by model, and what was tried before.

    Args:
        name: `textgrad` or `reflection`; `gepa` goes by the scores alone.

    Raises:
        EvolutionError: there is no optimiser of this name.
    """
    proposer = optimiser(name)
    if not isinstance(proposer, BySystem):
        return proposer

    async def loss(task: Improvement) -> str:
        trials = []
        for trial in task.trials:
            result = await task.workspace.runs.result(trial.run)
            prompt = (await task.workspace.log.events(trial.run))[0].body["manifest"]["task"]
            models = ", ".join(f"{model} {usd(use.cost_usd)}" for model, use in result.usage_by_model.items() if model)
            scored_as = "-" if trial.score is None else f"{trial.score:g}"
            short = " ".join(str(prompt).split())[:_TASK_CHARS]
            trials.append({"score": scored_as, "cost": usd(dollars(result)), "models": models, "task": short})
        points = {point.name: point for point in points_of(folder, learning)}
        base = points[best(folder, learning).arm]
        edits = [
            {
                "version": candidate.version,
                "accuracy": f"{100 * points[candidate.arm].share:.0f}",
                "cost": usd(points[candidate.arm].usd),
                "why": "; ".join(candidate.reasons.values())[:_TASK_CHARS],
            }
            for candidate in candidates(folder, learning.name)
            if candidate.version and candidate.arm in points and candidate.arm != base.name
        ]
        text = task.workspace.catalog.prompts.get("cost_loss").render(
            accuracy=f"{100 * base.share:.0f}", cost=usd(base.usd), trials=trials, tried=edits[-_MOST_EDITS:]
        )
        return text[:LONGEST_LOSS]

    return BySystem(name, loss)


_TASK_CHARS = 120  # characters of a task, and of the reasons of an earlier edit

_MOST_EDITS = 5


# --- the record -------------------------------------------------------------------------------------------------------


def _check_same(folder: Path, learning: Learning) -> None:
    """Refuse to go on with something else; another budget and more rounds are no other thing."""
    if (folder / FOLDER / learning.name / RECORD).exists():
        before = read(folder, learning.name)
        content, former = (record.model_dump(exclude={"budget_usd", "rounds"}) for record in (learning, before))
        if other := [field for field in content if content[field] != former[field]]:
            raise EvolutionError(
                f"{learning.name} was begun with other {', '.join(other)}; choose another --name, or give what it was "
                "begun with to go on"
            )


def read(folder: Path, name: str) -> Learning:
    """Return what is learnt under a name; EvolutionError if there is nothing, or it cannot be read."""
    path = folder / FOLDER / name / RECORD
    try:
        return Learning.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError:
        names = ", ".join(sorted(path.parent.name for path in (folder / FOLDER).glob(f"*/{RECORD}"))) or "none"
        raise EvolutionError(f"no prompt is learnt under the name {name!r} in {folder}; there are: {names}") from None
    except ValidationError as exc:
        raise EvolutionError(
            f"{path} cannot be read: {exc.errors()[0]['msg']}; use the version of this package that wrote it"
        ) from None


def candidates(folder: Path, name: str) -> list[Candidate]:
    path = folder / FOLDER / name / CANDIDATES
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Candidate.model_validate_json(line) for line in lines if line]


def _add(folder: Path, name: str, candidate: Candidate) -> None:
    path = folder / FOLDER / name / CANDIDATES
    _write(path, "".join(entry.model_dump_json() + "\n" for entry in [*candidates(folder, name), candidate]))


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
