"""An evolution is carried out: rounds of training, proposal, trial and validation, each step found again after a stop.

A round asks its training questions, has an optimiser propose other texts for the variables of the subjects, registers
them as candidates, asks the same questions again, and lets the gate decide on questions held apart (000, sec. 3.4,
app. C.4). What a candidate may not be is checked before anything is spent on it (`checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from filelock import FileLock, Timeout

from agentorchestra.agents.optimiser.evidence import Past
from agentorchestra.core.errors import EvolutionError, UsageError
from agentorchestra.core.ids import sha256_json
from agentorchestra.evaluation.plan import PLAN, Arm, amend, folder_of, make_plan
from agentorchestra.evaluation.plan import keep as keep_plan
from agentorchestra.evaluation.plan import read as read_plan
from agentorchestra.evaluation.questions import QuestionSet, load_set
from agentorchestra.evaluation.results import values
from agentorchestra.evaluation.runner import Runner, arm_workspace, with_arm
from agentorchestra.evaluation.scores import Score, score, total
from agentorchestra.evolution.checks import HeldApart
from agentorchestra.evolution.components import manager_of, version_of
from agentorchestra.evolution.gate import decide
from agentorchestra.evolution.optimiser import Improvement, Optimiser, Proposal, TextChange, Trial, split_place
from agentorchestra.evolution.optimisers import check, optimiser
from agentorchestra.evolution.record import (
    FOLDER,
    Evolution,
    EvolutionRound,
    QuestionSource,
    add_round,
    keep,
    new_evolution,
    rounds,
)
from agentorchestra.tea.registry.entries import By
from agentorchestra.tea.registry.kind import TextVariable
from agentorchestra.workspace import Workspace

CURRENT, CANDIDATE = "current", "candidate"  # the arms of an evolution's evaluations


class Evolver:
    def __init__(
        self,
        folder: Path,  # of the workspace
        evolution: Evolution,  # `record.keep` has written it
        optimiser: Optimiser,  # proposes
        *,
        # makes the workspace of an arm, see `evaluation.runner.Runner`
        workspaces: Callable[[Path, Arm], Workspace[Any]] = arm_workspace,
        at_once: int = 4,  # runs at the same time
        tell: Callable[[str], None] = lambda line: None,  # is told a sentence about each step
    ) -> None:
        self._folder, self._evolution, self._optimiser = folder, evolution, optimiser
        self._workspaces, self._at_once, self._tell = workspaces, at_once, tell
        self._spent: list[float | None] = []
        self._tried: dict[tuple[str, str], None] = {}

    async def run(self) -> list[EvolutionRound]:
        """Carry out the rounds that are left; return all of them.

        Raises:
            EvolutionError: another process evolves one of the subjects, the budget has no room for what comes next, or
                the questions are not those that the evolution was begun with. What was done is kept.
            UsageError: a subject that there is not, a system or model that cannot be run. Nothing is spent.
        """
        evolution = self._evolution
        for source in (evolution.training, evolution.validation):
            source.load()
        with alone(self._folder, evolution.subjects):
            async with self._workspaces(self._folder, self._arm(CURRENT, {})) as workspace:
                await self._variables(workspace)
                for number in range(1, evolution.rounds + 1):
                    done = rounds(self._folder, evolution.name)
                    self._spent = [record.usd for record in done]
                    if number not in {record.number for record in done}:
                        self._tried = {}
                        record = await self._round(workspace, number)
                        add_round(self._folder, evolution.name, record)
                        await self._tidy(workspace, record)
                        self._tell(f"round {number}: {record.ended}: {record.why}")
        return rounds(self._folder, evolution.name)

    # -- a round ---------------------------------------------------------------------------------------------------

    async def _round(self, workspace: Workspace[Any], number: int) -> EvolutionRound:
        evolution, before_usd = self._evolution, len(self._spent)
        current = await self._current(workspace, number)
        ids = evolution.draw(number)
        before = await self._ask(workspace, f"{number}-train", evolution.training, ids, {CURRENT: current})
        record = EvolutionRound(number=number, ended="learnt", before=_mean(before, CURRENT))
        if record.before == 1:
            return self._closed(record, before_usd, "learnt", reason="every training question was answered right")

        async def evaluate(texts: Mapping[str, str], questions: Sequence[str]) -> Sequence[Trial]:
            changes = [
                TextChange(component=component, variable=variable, text=text)
                for (component, variable), text in zip(map(split_place, texts), texts.values(), strict=True)
            ]
            try:
                versions = await self._register(workspace, current, changes, "", f"tried in round {number}")
            except UsageError:  # a text that makes no component answers nothing
                return [Trial(question, "", 0.0) for question in questions]
            return _trials(await self._tried_on(workspace, number, current, versions, questions), CANDIDATE)

        task = Improvement(
            workspace=workspace,
            variables=await self._variables(workspace, current),
            trials=_trials(before, CURRENT),
            evaluate=evaluate,
            past=await self._past(workspace, current),
            labels={"evolution": evolution.name, "round": str(number)},
            model=evolution.optimiser_model or evolution.model,
            usd=self._left(),
            seed=sha256_json([evolution.seed, evolution.name, number])[:16],
        )
        proposal = await self._optimiser(task)
        self._spent.append(proposal.usd)
        record = record.model_copy(
            update={"run": proposal.run, "reasons": {change.place: change.reason for change in proposal.changes}}
        )
        if not proposal.changes:
            return self._closed(record, before_usd, "no change", reason=proposal.why)
        try:
            versions = await self._candidates(task, current, proposal, number)
        except UsageError as exc:
            return self._closed(record, before_usd, "refused", reason=str(exc))
        record = record.model_copy(update={"versions": versions})
        after = await self._tried_on(workspace, number, current, versions, ids)
        record = record.model_copy(update={"after": _mean(after, CANDIDATE)})
        return await self._decide(workspace, record, current, before_usd)

    async def _current(self, workspace: Workspace[Any], number: int) -> dict[str, str]:
        """Return the versions that a round begins with: of one that was begun before, those of its training."""
        name = f"{self._evolution.name}-{number}-train"
        if (folder_of(self._folder, name) / PLAN).exists():
            return read_plan(self._folder, name).arm(CURRENT).components
        return {subject: await version_of(workspace, subject) for subject in self._evolution.subjects}

    async def _decide(
        self, workspace: Workspace[Any], record: EvolutionRound, current: Mapping[str, str], before_usd: int
    ) -> EvolutionRound:
        evolution, number = self._evolution, record.number
        gain = (record.after or 0.0) - (record.before or 0.0)
        # A candidate that gains nothing on the very questions it was made for is not worth a validation.
        if gain <= 0:
            reason = f"{_percent(record.before)} of its training questions before, {_percent(record.after)} with it"
            return self._closed(record, before_usd, "no better", reason=reason)
        if evolution.promote == "auto":
            reason = f"{_percent(record.before)} of its training questions before, {_percent(record.after)} with it"
            await self._promote(workspace, record, current, reason)
            return self._closed(record, before_usd, "promoted" if evolution.canary == 1 else "canary", reason=reason)
        arms = {CURRENT: dict(current), CANDIDATE: {**current, **record.versions}}
        scores = await self._ask(
            workspace, f"{number}-gate", evolution.validation, evolution.validation.ids, arms, repeats=evolution.repeats
        )
        decision = decide(values(scores, CURRENT), values(scores, CANDIDATE), evolution.terms, costs=_costs(scores))
        record = record.model_copy(update={"decision": decision})
        evidence = f"{decision.why} (evaluation {evolution.name}-{number}-gate)"
        if decision.verdict == "reject":
            return self._closed(record, before_usd, "rejected", reason=decision.why)
        if decision.verdict == "undecided" or evolution.promote == "ask":
            ending = "waiting" if decision.verdict == "promote" else "undecided"
            return self._closed(record, before_usd, ending, reason=decision.why)
        await self._promote(workspace, record, current, evidence)
        ending = "promoted" if evolution.canary == 1 else "canary"
        return self._closed(record, before_usd, ending, reason=decision.why)

    def _closed(self, record: EvolutionRound, before_usd: int, ending: str, reason: str) -> EvolutionRound:
        return record.model_copy(update={"ended": ending, "why": reason, "usd": total(self._spent[before_usd:])})

    async def _tried_on(
        self,
        workspace: Workspace[Any],
        number: int,
        current: Mapping[str, str],
        versions: Mapping[str, str],
        ids: Sequence[str],
    ) -> list[Score]:
        step = f"{number}-try-{sha256_json([versions, [*ids]])[:8]}"
        return await self._ask(workspace, step, self._evolution.training, ids, {CANDIDATE: {**current, **versions}})

    # -- components ------------------------------------------------------------------------------------------------

    async def _variables(
        self, workspace: Workspace[Any], versions: Mapping[str, str] | None = None
    ) -> dict[str, TextVariable]:
        """Return the variables that may change, by place; refuse subjects and variables that there are not."""
        by_place: dict[str, TextVariable] = {}
        for subject in self._evolution.subjects:
            manager, name = manager_of(workspace, subject)
            variables = await manager.vars(name, versions[subject] if versions else None)
            by_place |= {f"{subject}/{variable.name}": variable for variable in variables}
        places = self._evolution.variables
        if unknown := [place for place in places if place not in by_place]:
            raise EvolutionError(
                f"{unknown[0]} is no variable of the subjects; they have: {', '.join(by_place) or 'none'}"
            )
        if not by_place:
            raise EvolutionError(
                f"{', '.join(self._evolution.subjects)}: nothing of it may change; name other subjects"
            )
        return {place: variable for place, variable in by_place.items() if not places or place in places}

    async def _past(self, workspace: Workspace[Any], current: Mapping[str, str]) -> dict[str, list[Past]]:
        """Return the texts that were proposed before, with their scores on training questions (momentum).

        What the gate said of them stays out: it comes from questions that no optimiser learns from.
        """
        history: dict[str, list[Past]] = {}
        for record in rounds(self._folder, self._evolution.name):
            for subject, version in record.versions.items():
                if version == current[subject]:
                    continue
                manager, name = manager_of(workspace, subject)
                for variable in await manager.vars(name, version):
                    place = f"{subject}/{variable.name}"
                    if place in record.reasons:
                        past = Past(text=variable.value, score=record.after)
                        history.setdefault(place, []).append(past)
        return history

    async def _candidates(
        self, task: Improvement, current: Mapping[str, str], proposal: Proposal, number: int
    ) -> dict[str, str]:
        """Check a proposal, register it; return its versions by component. UsageError if it is refused."""
        for change in proposal.changes:
            if change.place not in task.variables:
                names = ", ".join(task.variables)
                raise EvolutionError(f"it changes {change.place}, which may not change; {names} may")
        await check(task, proposal.changes, held_apart(self._evolution.validation))
        return await self._register(task.workspace, current, proposal.changes, proposal.run, f"round {number}")

    async def _register(
        self, workspace: Workspace[Any], current: Mapping[str, str], changes: Sequence[TextChange], run: str, when: str
    ) -> dict[str, str]:
        by_component: dict[str, dict[str, TextChange]] = {}
        for change in changes:
            by_component.setdefault(change.component, {})[change.variable] = change
        versions = {}
        for subject, edits in by_component.items():
            manager, name = manager_of(workspace, subject)
            roles = {variable.name: variable.role for variable in await manager.vars(name, current[subject])}
            config = await manager.setvars(
                name,
                {variable: change.text for variable, change in edits.items()},
                candidate=True,
                # The model's code is nobody's: it runs in the sandbox. Its words are read as the texts they replace.
                trusted=not any(roles[variable].endswith("code") for variable in edits),
                author=f"evolution {self._evolution.name}",
                reason="; ".join(filter(None, [when, *(change.reason for change in edits.values())]))[:500],
                run=run,
            )
            versions[subject] = config.version
            self._tried[subject, config.version] = None
        return versions

    async def _promote(
        self, workspace: Workspace[Any], record: EvolutionRound, current: Mapping[str, str], evidence: str
    ) -> None:
        """Make candidates current, or give them their share of runs; EvolutionError if a name changed meanwhile."""
        for subject, version in current.items():
            now = await version_of(workspace, subject)
            if now not in (version, record.versions.get(subject)):
                raise EvolutionError(
                    f"{subject} is {now} by now, and the candidate was compared with {version}; begin another evolution"
                )
        by: By = {"author": f"evolution {self._evolution.name}", "reason": evidence, "run": record.run}
        for subject, version in record.versions.items():
            manager, name = manager_of(workspace, subject)
            if await version_of(workspace, subject) == version:
                continue  # it was promoted before a stop
            if self._evolution.canary < 1:
                await manager.share(name, version, self._evolution.canary, **by)
            else:
                await manager.activate(name, version, **by)

    async def _tidy(self, workspace: Workspace[Any], record: EvolutionRound) -> None:
        """Archive the candidates of a round that are over; one that waits for a person or more questions stays."""
        stays = record.versions if record.ended in ("promoted", "canary", "waiting", "undecided") else {}
        for subject, version in self._tried:
            manager, name = manager_of(workspace, subject)
            state = next(entry.state for entry in await manager.versions(name) if entry.version == version)
            if stays.get(subject) != version and state == "candidate":
                reason = f"{record.ended}: {record.why}"[:500]
                await manager.archive(name, version, author=f"evolution {self._evolution.name}", reason=reason)

    # -- questions -------------------------------------------------------------------------------------------------

    def _arm(self, name: str, components: Mapping[str, str]) -> Arm:
        evolution = self._evolution
        return Arm(
            name=name,
            system=evolution.system,
            model=evolution.model,
            environments=evolution.environments,
            settings=evolution.settings,
            components=dict(components),
        )

    async def _ask(
        self,
        workspace: Workspace[Any],
        step: str,
        source: QuestionSource,
        ids: Sequence[str],
        arms: Mapping[str, Mapping[str, str]],
        repeats: int = 1,
    ) -> list[Score]:
        """Ask questions of the arms, or find the answers; return the scores. EvolutionError without budget for all."""
        evolution = self._evolution
        questions, left = source.load(), self._left()
        name = f"{evolution.name}-{step}"
        no_room = EvolutionError(
            f"the budget of {evolution.budget_usd or 0:g} US dollars has no room for {name}; go on with a larger one: "
            f"agentorchestra evolve run --name {evolution.name} --budget-usd X"
        )
        if (folder_of(self._folder, name) / PLAN).exists():
            plan = read_plan(self._folder, name)
            if left is not None and left > 0:
                plan = amend(self._folder, name, left)
        elif left is not None and left <= 0:
            raise no_room
        else:
            draft = make_plan(
                questions,
                [self._arm(arm, versions) for arm, versions in arms.items()],
                source=source.set,
                data=source.data,
                name=name,
                repeats=repeats,
                seed=evolution.seed,
                question_usd=evolution.question_usd,
            )
            plan = keep_plan(self._folder, draft.model_copy(update={"ids": tuple(ids), "budget_usd": left}))
        self._tell(f"{name}: {len(plan.ids)} questions, {len(plan.arms)} versions")
        runner = Runner(self._folder, plan, questions, workspaces=self._workspaces, at_once=self._at_once)
        ending = await runner.run()
        scores = await score(workspace, plan, questions, at_once=self._at_once)
        if ending.left_out:
            raise no_room
        self._spent.append(total(mark.cost_usd for mark in scores))
        return scores

    def _left(self) -> float | None:
        if self._evolution.budget_usd is None:
            return None
        return self._evolution.budget_usd - sum(cost or 0.0 for cost in self._spent)


async def evolve(
    workspace: Workspace[Any],  # open or not; its tools and models answer, and its log holds the runs
    questions: str | Path | None,  # the file or folder with the questions; None for the set's own place
    on: Sequence[str],  # components that may change: `prompt:react`, `tool:price_of`
    *,
    name: str,  # of the evolution; the same call with the same name goes on where it stopped
    source: str = "local",  # the form of the questions: your own, or a set that `agentorchestra eval list` names
    validation: str | Path | None = None,  # further questions for the gate; None holds a share of the others apart
    at_once: int = 4,  # runs at the same time
    **fields: Any,  # of `new_evolution` and `Evolution`: held_apart, optimiser, rounds, batch, terms, budget_usd, ...
) -> list[EvolutionRound]:
    """Improve components from what their runs show; return the rounds, as `agentorchestra evolve run` does.

    Raises:
        EvolutionError, EvaluationError: fields or questions that do not fit, before anything is spent; and see
            `Evolver.run`.
    """

    def load(data: str | Path) -> tuple[str, str, QuestionSet]:
        return source, str(Path(data).absolute()), load_set(source, Path(data).absolute())

    evolution = new_evolution(
        name,
        training=load(questions) if questions is not None else (source, "", load_set(source)),
        validation=None if validation is None else load(validation),
        subjects=tuple(on),
        **fields,
    )
    proposer = optimiser(evolution.optimiser)
    evolution = keep(workspace.folder, evolution)
    evolver = Evolver(
        workspace.folder, evolution, proposer, workspaces=lambda _, arm: with_arm(workspace, arm), at_once=at_once
    )
    return await evolver.run()


def held_apart(source: QuestionSource) -> HeldApart:
    """Return the words of questions and true answers that no proposal may hold."""
    questions = source.load().by_id
    texts = []
    for question in (questions[question_id] for question_id in source.ids):
        truths = question.truth if isinstance(question.truth, list | tuple) else [question.truth]
        texts += [question.task, *(str(truth) for truth in truths if truth is not None)]
    return HeldApart.of(texts)


@contextmanager
def alone(folder: Path, subjects: Sequence[str]) -> Iterator[None]:
    """Keep components to one evolution at a time; raise EvolutionError while another process evolves one of them."""
    places = folder / FOLDER / "locks"
    places.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for subject in sorted(subjects):
            try:
                stack.enter_context(FileLock(places / f"{subject.replace(':', '-')}.lock", timeout=0))
            except Timeout:
                raise EvolutionError(
                    f"another process evolves {subject}; two optimisers of one component would judge each other's "
                    "changes, so wait for it, or stop it"
                ) from None
        yield


def _trials(scores: Sequence[Score], arm: str) -> list[Trial]:
    return [Trial(mark.question, mark.run_id, mark.score) for mark in scores if mark.arm == arm]


def _mean(scores: Sequence[Score], arm: str) -> float:
    grades = values(scores, arm)
    if not grades:
        reason = next((mark.why for mark in scores if mark.why), "not asked")
        raise EvolutionError(f"no training question has a score ({reason}); look at the runs, then begin again")
    return fmean(fmean(marks) for marks in grades.values())


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"


def _costs(scores: Sequence[Score]) -> tuple[float, float] | None:
    """Return what both arms cost for an answer: dollars if all are known, else tokens."""
    answers = {arm: [mark for mark in scores if mark.arm == arm and mark.run_id] for arm in (CURRENT, CANDIDATE)}
    if not all(answers.values()):
        return None
    usd = [total(mark.cost_usd for mark in marks) for marks in answers.values()]
    tokens = [float(sum(mark.tokens for mark in marks)) for marks in answers.values()]
    costs = tokens if None in usd or 0.0 in usd else [cost or 0.0 for cost in usd]
    current, candidate = (sum_ / len(marks) for sum_, marks in zip(costs, answers.values(), strict=True))
    return (current, candidate) if current else None
