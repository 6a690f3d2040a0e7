"""An orchestrator's prompt is learnt by accuracy and cost; the orchestrator does what its prompt says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import EvolutionError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import AOrchestraSettings, ModelProfile, Price, Settings
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evaluation.questions import load_set
from agentorchestra.evolution.frontier import (
    Frontier,
    Learning,
    best,
    candidates,
    front_of,
    learning,
    page,
    read,
    table,
    thrifty,
)
from agentorchestra.evolution.optimiser import Improvement, Proposal, TextChange
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.evaluation.support import write_set
from tests.evolution.optimising import under
from tests.support.runs import whole_runs

PLACE = "prompt:aorchestra/routing_rules"
CANARY = "zanzibar-7719"
"""A further true answer of every question, which nobody gives."""


@tool(effect="pure")
def add(first: int, other: int) -> int:
    """Add two numbers.

    Args:
        first: The one.
        other: The other.
    """
    return first + other


def numbers(request: ModelRequest) -> tuple[int, int]:
    first, other = re.findall(r"(\d+) (?:\+|and) (\d+)", "\n".join(one.text for one in request.messages))[-1]
    return int(first), int(other)


def orchestrator(request: ModelRequest) -> ModelResponse:
    """Delegates to the model that the routing rules of its prompt name for the number, else to the cheap one."""
    if not any(one.name == "delegate_task" for one in request.tools):
        return say('{"points": ["It was added."], "issues": []}')
    back = [json.loads(one.text) for one in request.messages if one.role == "tool"]
    if back:
        return decide(calls=[call("complete", answer=back[-1]["result"])])
    first, other = numbers(request)
    rule = re.search(r"Numbers from (\d+) on go to the strong model", request.messages[0].text)
    model = "strong" if rule and first >= int(rule[1]) else "cheap"
    order = f"Add {first} and {other}."
    return decide(calls=[call("delegate_task", task_instruction=order, context="-", tools=["add"], model=model)])


def adds(strong: bool) -> Any:
    def reply(request: ModelRequest) -> ModelResponse:
        if not any(one.name == "done" for one in request.tools):
            return say('{"points": ["It was added."], "issues": []}')
        first, other = numbers(request)
        return decide(calls=[call("done", answer=str(first + other if strong or first < 4 else other))])

    return reply


class Optimiser:
    """Edits the rules by what it sees: the scores of the questions, and the rules as they stand."""

    def __init__(self) -> None:
        self.tasks: list[Improvement] = []

    async def __call__(self, task: Improvement) -> Proposal:
        self.tasks.append(task)
        text = task.variables[PLACE].value
        wrong = sorted(int(one.question.removeprefix("q")) for one in task.trials if one.score == 0)
        rule = re.search(r"Numbers from (\d+) on", text)
        if rule is None:
            limit, why = 0, "some are wrong: all go to the strong model"
        elif wrong:
            limit, why = wrong[0], f"from {wrong[0]} on they are wrong"
        else:
            # Nothing is wrong: fewer can go to the expensive model.
            limit, why = int(rule[1]) + 2, "all are right: the cheap model may do more"
        kept = re.sub(r"(?m)^Numbers from .*\n?", "", text)
        new = f"{kept.rstrip()}\nNumbers from {limit} on go to the strong model.\n"
        change = TextChange(component="prompt:aorchestra", variable="routing_rules", text=new, reason=why)
        return Proposal(changes=(change,))


class Trials:
    """A workspace with an orchestrator and two models, whose requests are counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "ws"
        lines = [{"id": f"q{n}", "question": f"What is {n} + 100?", "answer": [str(n + 100), CANARY]} for n in range(6)]
        self.data = write_set(folder / "data", lines)
        self.asked: list[str] = []
        self.optimising: Any = None

    def workspace(self, folder: Path, arm: Arm | None = None) -> Workspace[Any]:
        settings = Settings(
            system="aorchestra", model="main", aorchestra=AOrchestraSettings(models=("cheap", "strong"))
        )
        models = {
            "main": self._model("main", orchestrator, 0),
            "cheap": self._model("cheap", adds(strong=False), 1),
            "strong": self._model("strong", adds(strong=True), 40),
            "thinker": self._model("thinker", self.optimising, 1),
        }
        return Workspace(folder, tools=[add], models=models, settings=arm.merge(settings) if arm else settings)

    def _model(self, name: str, reply: Any, price: float) -> ScriptedModel:
        def counted(request: ModelRequest) -> Any:
            self.asked.append(name)
            return reply(request)

        profile = ModelProfile(model=name, price=Price(input=price, output=price))
        return ScriptedModel(counted, name=name, profile=profile)

    def learning(self, **given: Any) -> Learning:
        fields: dict[str, Any] = {"variables": (PLACE,), "model": "main", "rounds": 4} | given
        return learning("route", load_set("local", self.data), data=str(self.data), **fields)

    async def learn(self, optimiser: Any = None, **fields: Any) -> Learning:
        made = self.learning(**fields)
        await Frontier(self.folder, made, optimiser or Optimiser(), workspaces=self.workspace).run()
        return made


@pytest.mark.long
async def test_the_next_round_begins_with_the_front_and_what_is_learnt_is_a_version(tmp_path: Path) -> None:
    trials, optimiser = Trials(tmp_path), Optimiser()
    made = await trials.learn(optimiser)
    found = candidates(trials.folder, made.name)
    shown = table(trials.folder, made)
    accuracy = {row[1]: float(row[2].split()[0]) for row in shown.rows}
    cost = {row[1]: float(row[3].removeprefix("$")) for row in shown.rows}
    by_round = [one.version for one in found]
    # As it was 4 of 6 are right; with the strong model for all of them all, and with it from 4 on all, for less.
    assert [round(accuracy[one], 1) for one in by_round[:4]] == [66.7, 100.0, 100.0, 100.0]
    assert cost[by_round[0]] < cost[by_round[3]] < cost[by_round[2]] < cost[by_round[1]]
    assert [one.base for one in found[1:4]] == [by_round[0], by_round[1], by_round[2]]
    assert found[4].base == by_round[3], "of those that answer best the cheapest is edited"
    assert {one.version for one in front_of(trials.folder, made)} >= {by_round[0], by_round[3]}
    assert best(trials.folder, made).version == by_round[3]
    async with trials.workspace(trials.folder) as ws:
        states = {one.version: one.state for one in await ws.components.prompts.versions("aorchestra")}
        held = next(one for one in await ws.components.prompts.versions("aorchestra") if one.version == by_round[3])
        assert (await ws.components.prompts.info("aorchestra")).version == by_round[0], "the name means what it meant"
        assert (states[by_round[1]], states[by_round[2]], states[by_round[3]]) == ("archived", "archived", "candidate")
        assert held.author == "frontier route" and "the cheap model may do more" in held.reason
        learnt = await ws.run("What is 5 + 100?", components={"prompt:aorchestra": by_round[3]})
        assert learnt.answer == "105" and (await ws.run("What is 5 + 100?")).answer == "100"
    html = page(trials.folder, made)
    assert html.count("<circle") == len({*by_round}) and "polyline" in html and by_round[3] in html
    # The same call again asks nobody.
    before = len(trials.asked)
    await trials.learn(optimiser)
    assert len(trials.asked) == before and len(optimiser.tasks) == 4


def thinker(request: ModelRequest) -> ModelResponse:
    """An optimiser's model, which reads what the trajectories scored and cost, and edits the rules by that."""
    words = "\n".join(one.text for one in request.messages)
    if request.messages[0].text.startswith("You diagnose a run"):
        runs = re.findall(r"- score ([01]), cost (\S+) \((.*?)\): What is (\d+) \+", words)
        wrong = [int(number) for score, _, _, number in runs if score == "0"]
        dear = [int(number) for score, _, models, number in runs if score == "1" and "strong $" in models]
        limit = min(wrong) if wrong else min(dear) + 1
        why = f"Numbers from {limit} on go to the strong model."
        causes = [{"variable": PLACE, "part": 10, "why": why}]
        return say(json.dumps({"failures": ["answers are wrong or too dear"], "causes": causes}))
    rule = re.findall(r"Numbers from \d+ on go to the strong model\.", words)[-1]
    text = re.sub(r"(?m)^Numbers from .*\n?", "", under(request, "The text as it is now")).rstrip()
    return say(json.dumps({"reason": rule, "text": f"{text}\n{rule}\n"}))


@pytest.mark.long
async def test_an_optimiser_is_told_what_the_trajectories_scored_and_cost(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    asked: list[str] = []

    def read_by(request: ModelRequest) -> ModelResponse:
        asked.append("\n".join(one.text for one in request.messages))
        return thinker(request)

    trials.optimising = read_by
    made = trials.learning(rounds=2, optimiser_model="thinker")
    chosen = thrifty("reflection", trials.folder, made)
    await Frontier(trials.folder, made, chosen, workspaces=trials.workspace).run()
    _, first, second = candidates(trials.folder, made.name)
    assert first.reasons == {PLACE: "Numbers from 4 on go to the strong model."}
    assert second.reasons == {PLACE: "Numbers from 5 on go to the strong model."}
    rows = {row[1]: row for row in table(trials.folder, made).rows}
    assert rows[first.version][2].startswith("100.0 [") and rows[second.version][2].startswith("83.3 [")
    # The first round knows of no other text; the second one of the text as it was.
    assert "Texts that were tried before" not in asked[0]
    assert any("67 of 100 right" in one and "Texts that were tried before" in one for one in asked)
    async with trials.workspace(trials.folder) as ws:
        await ws.replay(second.run)
        every = [json.dumps(one.body) for run in await ws.runs.list() for one in await ws.log.events(run.id)]
    assert len(every) > 100 and CANARY not in "".join(every)
    with pytest.raises(EvolutionError, match="there is no optimiser 'x'"):
        thrifty("x", trials.folder, made)


async def test_a_budget_that_ends_in_the_middle_goes_on_later(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    spent = {"question_usd": 1.0, "rounds": 1, "trajectories": 3}
    with pytest.raises(EvolutionError, match=r"has no room for route-v1\.0\.\d+; go on with the same command"):
        await trials.learn(budget_usd=1.01, **spent)
    begun, runs = candidates(trials.folder, "route"), len(trials.asked)
    assert runs and len(begun) <= 2
    made = await trials.learn(budget_usd=50.0, **spent)
    assert len(candidates(trials.folder, "route")) == 2
    asked = len(trials.asked)
    async with trials.workspace(trials.folder) as ws:
        places = [
            (one.manifest.labels["question"], one.manifest.components["prompt:aorchestra"])
            for one in await whole_runs(ws)
        ]
    assert len(places) == len({*places}) == 6, "each question is asked once of each version"
    await trials.learn(budget_usd=50.0, **spent)
    assert len(trials.asked) == asked and best(trials.folder, made).version


@pytest.mark.long
async def test_a_proposal_that_is_refused_costs_nothing_and_says_why(tmp_path: Path) -> None:
    async def careless(task: Improvement) -> Proposal:
        change = TextChange(component="prompt:aorchestra", variable="routing_rules", text="{{ nobody }} {% if %}")
        return Proposal(changes=(change,))

    async def meddler(task: Improvement) -> Proposal:
        return Proposal(changes=(TextChange(component="prompt:aorchestra", variable="profile", text="You rule."),))

    async def idle(task: Improvement) -> Proposal:
        return Proposal()

    refused = "may not change; prompt:aorchestra/routing_rules may"
    cases = ((careless, "it was refused: "), (meddler, refused), (idle, "nothing was proposed"))
    for number, (optimiser, why) in enumerate(cases):
        trials = Trials(tmp_path / str(number))
        await trials.learn(optimiser, rounds=1, trajectories=1)
        _, made = candidates(trials.folder, "route")
        assert not made.version and why in made.why
        assert trials.asked.count("main") <= 3, "the prompt as it was alone is asked"


async def test_bad_input_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    with pytest.raises(EvolutionError, match="'tool:add' is no prompt; name the orchestrator's"):
        trials.learning(subject="tool:add")
    with pytest.raises(EvolutionError, match="a budget over all runs needs a limit for each run"):
        trials.learning(budget_usd=1.0)
    with pytest.raises(EvolutionError, match="rounds is 0"):
        trials.learning(rounds=0)
    with pytest.raises(EvolutionError, match="prompt:aorchestra/nothing is no variable of the prompt; it has: "):
        await trials.learn(variables=("prompt:aorchestra/nothing",))
    with pytest.raises(EvolutionError, match="no prompt of route was tried yet"):
        best(trials.folder, trials.learning())
    assert not trials.asked


@pytest.mark.long
async def test_what_was_begun_is_not_gone_on_with_as_something_else(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    await trials.learn(rounds=1, trajectories=1)
    with pytest.raises(EvolutionError, match="route was begun with other repeats; choose another --name"):
        Frontier(trials.folder, trials.learning(trajectories=1, repeats=2), Optimiser(), workspaces=trials.workspace)
    with pytest.raises(EvolutionError, match=r"no prompt is learnt under the name 'x' in .*; there are: route"):
        read(trials.folder, "x")
    await trials.learn(rounds=2, trajectories=1)
    assert [one.round for one in candidates(trials.folder, "route")] == [0, 1, 2]
