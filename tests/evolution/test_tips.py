"""Tips and solutions: distilled from runs, told to later ones, kept or retired by paired answers."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.distiller import NAME, Material, RunReport
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import (
    EvolutionError,
    ModelUnavailableError,
    SettingsError,
    UnknownComponentError,
    UsageError,
)
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evaluation.questions import load_set
from agentorchestra.evolution.tips import MOST_RUNS, Judgement, distil, judge_tip, settle, validate
from agentorchestra.models.render import render_message
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.evaluation.support import write_set

TRUTH = "zanzibar-7719"


@tool(effect="pure")
def ask(register: str) -> str:
    """Look an item up in a register.

    Args:
        register: `old` or `new`.
    """
    if register == "old":
        raise ValueError("the old register was closed in May")
    return "shelf 4"


def clerk(request: ModelRequest) -> ModelResponse:
    """Asks the old register first and gives up, unless a tip that it is told names the new one."""
    text = "\n".join(render_message(one) for one in request.messages)
    results = [one.text for one in request.messages if one.role == "tool"]
    if not results:
        return decide(calls=[call("ask", register="new" if "use the new register" in text else "old")])
    if "shelf" in results[-1]:
        return decide(calls=[call("done", answer=results[-1])])
    if "Search both." in text and len(results) == 1:
        return decide(calls=[call("ask", register="new")])
    return decide(calls=[call("done", answer="not found", status="blocked")])


def reader(request: ModelRequest) -> ModelResponse:
    """Distils from what it reads: which call failed in one run, which one gave a result in another."""
    text = "\n".join(render_message(one) for one in request.messages)
    assert "tips" in request.messages[0].text
    failed = re.findall(r"\[(\d+\.\d+)\] It called ask with\nregister = (\w+)\nand got\nfailed", text)
    worked = re.findall(r"\[(\d+\.\d+)\] It called ask with\nregister = (\w+)\nand got\nshelf", text)
    known = re.findall(r"\[known (\d+)\] To find an item, use the (\w+) register", text)
    tips: list[dict[str, Any]] = []
    if worked and "Retired" not in text:
        same = int(known[0][0]) if known else None
        said = f"To find an item, use the {worked[0][1]} register" + (" at once" if known else "")
        tips.append({"kind": "solution", "text": said, "evidence": [worked[0][0]], "same": same})
    if failed and not worked:
        tips.append({"kind": "solution", "text": "Give up.", "evidence": [failed[0][0]], "same": None})
    if failed:
        said = f"Do not ask the {failed[0][1]} register."
        tips.append({"kind": "tip", "text": said, "evidence": [failed[0][0], "99.1"], "same": None})
        tips.append({"kind": "tip", "text": "Hope for the best.", "evidence": ["99.1"], "same": None})
    return say(json.dumps({"tips": tips}))


def workspace(folder: Path) -> tuple[Workspace[Any], ScriptedModel]:
    distilling = ScriptedModel(reader, name="reader")
    worker = ScriptedModel(clerk, name="clerk")
    return Workspace(folder / "ws", models={"reader": distilling, "clerk": worker}, tools=[ask]), distilling


async def two_runs(ws: Workspace[Any]) -> list[str]:
    tasks = ("Where is the lamp?", "Where is the oar? Search both.")
    return [(await ws.run(one, system="react", model="clerk")).run_id for one in tasks]


async def test_tips_are_distilled_with_their_evidence_and_told_where_they_fit(tmp_path: Path) -> None:
    ws, distilling = workspace(tmp_path)
    async with ws:
        bad, good = await two_runs(ws)
        found = await distil(ws, [bad, good], {bad: 0.0, good: 1.0}, model="reader")
        (made,) = [one for one in await ws.runs.list() if one.manifest.system == NAME]
        output: Any = (await ws.runs.result(made.id)).output
        assert output["refused"] == ["it rests on no line that was shown: Hope for the best."]
        assert [(one.kind, one.text) for one in found] == [
            ("solution", "To find an item, use the new register"),
            ("tip", "Do not ask the old register."),
        ]
        # Each names the call in the log that it rests on.
        for one, run, register in ((found[0], good, "new"), (found[1], bad, "old")):
            (place,) = one.evidence
            assert place.startswith(f"{run}/1.react#")
            (event,) = [
                each
                for each in await ws.log.events(run)
                if each.type == "completed" and f"{run}{each.branch}#{each.n}" == place
            ]
            assert event.body["effect"]["arguments"] == {"register": register}
        entries = {one.ref: one for one in await ws.memory.recall(kinds=("insight",))}
        assert {one.ref: one.evidence for one in found} == {ref: one.evidence for ref, one in entries.items()}
        # The same runs are read once, and the distiller's run replays.
        again = await distil(ws, [bad, good], {bad: 0.0, good: 1.0}, model="reader")
        assert again == found and len(distilling.requests) == 1
        assert (await ws.replay(made.id)).status is RunStatus.COMPLETED
        # A similar task is told them, and does better.
        plain = await ws.run("Where is the sail?", system="react", model="clerk")
        told = await ws.run("Where is the sail? Find the item.", system="react", model="clerk", memory="workflow")
        assert (plain.answer, told.answer) == ("not found", "shelf 4")


async def test_a_solution_rests_on_a_run_that_succeeded(tmp_path: Path) -> None:
    ws, _ = workspace(tmp_path)
    async with ws:
        bad, _ = await two_runs(ws)
        assert [one.kind for one in await distil(ws, [bad], model="reader")] == ["tip"]
        (made,) = [one for one in await ws.runs.list() if one.manifest.system == NAME]
        output: Any = (await ws.runs.result(made.id)).output
    assert output["refused"][0] == "a solution rests on a run that succeeded, and this one does not: Give up."


@pytest.mark.long
async def test_what_is_learnt_again_stands_once(tmp_path: Path) -> None:
    ws, _ = workspace(tmp_path)
    async with ws:
        _, good = await two_runs(ws)
        await distil(ws, [good], model="reader")
        other = (await ws.run("Where is the item for the boat? Search both.", system="react", model="clerk")).run_id
        await distil(ws, [other], model="reader")
        entries = [one for one in await ws.memory.recall(kinds=("insight",)) if "use the new" in one.text]
    assert [(one.text, one.times) for one in entries] == [("To find an item, use the new register at once", 2)]


async def test_a_tip_is_trusted_no_further_than_what_it_was_learnt_from(tmp_path: Path) -> None:
    @tool(effect="read")
    def page() -> str:
        """Read a page."""
        return "shelf 4"

    def worker(request: ModelRequest) -> ModelResponse:
        if any(one.role == "tool" for one in request.messages):
            return decide(calls=[call("done", answer="shelf 4")])
        return decide(calls=[call("page")])

    def distils(request: ModelRequest) -> ModelResponse:
        return say('{"tips": [{"kind": "tip", "text": "Read it.", "evidence": ["1.1"], "same": null}]}')

    models = {"worker": ScriptedModel(worker, name="worker"), "reader": ScriptedModel(distils, name="reader")}
    async with Workspace(tmp_path / "ws", models=models, tools=[page]) as ws:
        ran = await ws.run("Where is it?", system="react", model="worker")
        await distil(ws, [ran.run_id], model="reader")
        (entry,) = await ws.memory.recall(kinds=("insight",))
    assert entry.trust is Trust.UNTRUSTED


@pytest.mark.long
async def test_a_retired_tip_is_told_no_more_and_not_distilled_again(tmp_path: Path) -> None:
    ws, _ = workspace(tmp_path)
    async with ws:
        _, good = await two_runs(ws)
        (tip, _) = await distil(ws, [good], model="reader")
        helps, harms = {f"q{n}": [1.0] for n in range(12)}, {f"q{n}": [0.0] for n in range(12)}
        kept = judge_tip(helps, harms)
        await settle(ws, tip.ref, kept, "evaluation a")
        assert kept.verdict == "kept" and len(await ws.memory.recall("register", kinds=("insight",))) == 2
        retired = judge_tip(harms, helps)
        await settle(ws, tip.ref, retired, "evaluation b")
        assert tip.ref not in {one.ref for one in await ws.memory.recall(kinds=("insight",))}
        ((entry, why),) = await ws.memory.retired()
        assert entry.ref == tip.ref and "evaluation b" in why and why.startswith("retired: -100.0 [")
        assert "better on 0, worse on 12" in why
        told = await ws.run("Where is the sail? Find the item.", system="react", model="clerk", memory="workflow")
        assert told.answer == "not found"
        other = (await ws.run("Where is the item for the boat? Search both.", system="react", model="clerk")).run_id
        assert [one.kind for one in await distil(ws, [other], model="reader")] == ["tip"]
        with pytest.raises(UsageError, match="is no entry of the memory"):
            await settle(ws, "run_x:mem_y", retired, "evaluation b")


@pytest.mark.long
def test_a_tip_of_no_worth_is_retired_and_noise_decides_nothing() -> None:
    """Over 200 simulated validations of 60 questions: a gain is kept, a loss is retired, no gain is kept rarely."""
    chance = random.Random(11)

    def answered(share: float) -> dict[str, list[float]]:
        return {f"q{n}": [float(chance.random() < share)] for n in range(60)}

    def verdicts(gain: float) -> list[str]:
        return [judge_tip(answered(0.5 + gain), answered(0.5)).verdict for _ in range(200)]

    gain, none, loss = verdicts(0.35), verdicts(0.0), verdicts(-0.35)
    assert gain.count("kept") > 190 and gain.count("retired") == 0
    assert loss.count("retired") > 190 and loss.count("kept") == 0
    assert none.count("kept") <= 10
    same = {f"q{n}": [float(n % 2)] for n in range(200)}
    assert judge_tip(same, same).verdict == "undecided"
    assert judge_tip(same, same, worth=0.05).verdict == "retired", "it takes room, and is worth less than 5 points"


async def test_what_nothing_can_be_learnt_from_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    ws, distilling = workspace(tmp_path)
    async with ws:
        with pytest.raises(EvolutionError, match="there are no runs to learn from"):
            await distil(ws, [], model="reader")
        open_ = await ws.create("Where is it?", system="react", model="clerk")
        with pytest.raises(EvolutionError, match="is created: how it ends is not known; leave it out"):
            await distil(ws, [open_], model="reader")
        with pytest.raises(EvolutionError, match=f"at most {MOST_RUNS} are at a time; name fewer"):
            await distil(ws, [f"run_{n}" for n in range(MOST_RUNS + 1)], model="reader")
        with pytest.raises(SettingsError, match="reads recorded runs from its options, and runs is none"):
            await ws.create("Draw tips.", system=NAME, model="reader")
        with pytest.raises(SettingsError, match="was given no runs to learn from"):
            await ws.create("Draw tips.", system=NAME, model="reader", options={"runs": []})
    assert not distilling.requests


async def test_a_model_that_says_nothing_of_use_is_asked_twice_and_named(tmp_path: Path) -> None:
    useless = ScriptedModel([say("no"), say("still no")], name="reader")
    async with Workspace(tmp_path / "ws", models={"reader": useless}) as ws:
        report = RunReport(run="run_x", task="t", status=RunStatus.FAILED)
        options = Material(runs=(report,)).model_dump(mode="json")
        result = await ws.run("Draw tips.", system=NAME, model="reader", options=options)
    assert result.status is RunStatus.FAILED and "gave no tips in the form" in result.report


@pytest.mark.long
async def test_a_distillation_that_was_stopped_goes_on(tmp_path: Path) -> None:
    away = [True]

    def sometimes(request: ModelRequest) -> ModelResponse:
        if away[0]:
            raise ModelUnavailableError("nobody is there")
        return reader(request)

    once = ModelProfile(model="reader", max_attempts=1)
    models = {
        "reader": ScriptedModel(sometimes, name="reader", profile=once),
        "clerk": ScriptedModel(clerk, name="clerk"),
    }
    async with Workspace(tmp_path / "ws", models=models, tools=[ask]) as ws:
        _, good = await two_runs(ws)
        with pytest.raises(EvolutionError, match=r"the distiller's run run_\w+ gave no tips: .*ask again"):
            await distil(ws, [good], model="reader")
    away[0] = False
    async with Workspace(tmp_path / "ws", models=models, tools=[ask]) as ws:
        assert len(await distil(ws, [good], model="reader")) == 2
        assert [one.manifest.system for one in await ws.runs.list()].count(NAME) == 1, "it is the same run"


async def test_true_answers_stand_in_no_request(tmp_path: Path) -> None:
    ws, distilling = workspace(tmp_path)
    async with ws:
        ran = await ws.run("Where is the lamp?", system="react", model="clerk", labels={"truth": TRUTH})
        await distil(ws, [ran.run_id], {ran.run_id: 0.0}, model="reader")
        (run,) = [one for one in await ws.runs.list() if one.manifest.system == NAME]
        events = [json.dumps(one.body) for one in await ws.log.events(run.id)]
    assert TRUTH not in "".join(events) and "score 0 of 1" in render_message(distilling.requests[0].messages[1])


# -- validation --------------------------------------------------------------------------------------------------------


class Questions:
    """Questions to a clerk who looks into the old register, in vain, unless a tip names the new one."""

    def __init__(self, folder: Path, count: int = 8) -> None:
        self.folder = folder / "ws"
        asked = [{"id": f"q{n}", "question": f"Where is item {n}?", "answer": "shelf 4"} for n in range(count)]
        self.data = write_set(folder / "data", asked)
        self.told: list[bool] = []

    def workspace(self, folder: Path, arm: Arm | None = None) -> Workspace[Any]:
        def counted(request: ModelRequest) -> ModelResponse:
            words = "\n".join(render_message(one) for one in request.messages)
            if not any(one.role == "tool" for one in request.messages):
                self.told.append("use the new register" in words)
            return clerk(request)

        models = {"clerk": ScriptedModel(counted, name="clerk"), "reader": ScriptedModel(reader, name="reader")}
        settings = Settings(system="react", model="clerk")
        return Workspace(folder, models=models, tools=[ask], settings=arm.merge(settings) if arm else settings)

    async def judged(self, ref: str, **limits: Any) -> Judgement:
        questions = load_set("local", self.data)
        return await validate(
            self.folder, ref, questions, arm=Arm(name="clerk"), data=str(self.data), workspaces=self.workspace, **limits
        )


@pytest.mark.long
async def test_a_tip_is_tried_by_itself_with_and_without_it(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    async with questions.workspace(questions.folder) as ws:
        _, good = await two_runs(ws)
        helps, other = await distil(ws, [good], model="reader")
    questions.told.clear()
    kept = await questions.judged(helps.ref)
    assert (kept.verdict, kept.gain.better, kept.gain.questions) == ("kept", 8, 8)
    assert questions.told.count(True) == 8 and questions.told.count(False) == 8
    # The other tip says nothing of use to this clerk; it is retired where a tip has to be worth something.
    assert (await questions.judged(other.ref)).verdict == "undecided"
    useless = await questions.judged(other.ref, worth=0.5)
    assert useless.verdict == "retired" and len(questions.told) == 32, "the answers are those that there are"
    async with questions.workspace(questions.folder) as ws:
        assert [one.ref for one in await ws.memory.recall(kinds=("insight",))] == [helps.ref]
        ((entry, why),) = await ws.memory.retired()
        assert entry.ref == other.ref and "(evaluation tip-" in why
    with pytest.raises(UnknownComponentError, match="is told in this workspace; `agentorchestra memories entries"):
        await questions.judged(other.ref)


async def test_a_tip_is_not_judged_by_what_it_was_learnt_from(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    async with questions.workspace(questions.folder) as ws:
        ran = await ws.run("Where  is item 3?", system="react", model="clerk")
        (tip,) = await distil(ws, [ran.run_id], {ran.run_id: 0.0}, model="reader")
    questions.told.clear()
    with pytest.raises(EvolutionError, match="the question 'q3' is what the tip was learnt from"):
        await questions.judged(tip.ref)
    assert not questions.told
