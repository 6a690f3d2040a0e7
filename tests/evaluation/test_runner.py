"""Evaluations are run: found again, within one budget, past what crashes, without the true answers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import EvaluationError, MissingExtraError, ModelRequestError, UnknownModelError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Price, Settings
from agentorchestra.core.spec import AgentResult
from agentorchestra.evaluation.export import gaia_lines
from agentorchestra.evaluation.plan import Arm, amend, read
from agentorchestra.evaluation.questions import SCORERS, EvalAnswer, EvalQuestion, Judge, Scored
from agentorchestra.evaluation.report import figures, html, latex, markdown
from agentorchestra.evaluation.results import comparison, forecast, outcome, power_lines, stop_after, tables, values
from agentorchestra.evaluation.runner import alone
from agentorchestra.evaluation.scores import Score, attempts, judged_usd
from agentorchestra.evaluation.statistics import mean
from agentorchestra.systems.direct import direct
from tests.evaluation.support import Trial, adds, adds_small, asked, sums, write_set
from tests.support.runs import whole_runs

GOOD, POOR = Arm(name="good", model="good"), Arm(name="poor", model="poor")
BOTH = {"good": adds, "poor": adds_small}


@pytest.mark.long
async def test_two_models_are_compared_question_by_question(tmp_path: Path) -> None:
    sums(tmp_path / "data", 7)
    trial = Trial(tmp_path, BOTH)
    plan = trial.plan(GOOD, POOR, repeats=2)
    ending = await trial.run(plan)
    assert (ending.runs, ending.refusals, ending.left_out) == (28, {}, ())
    assert len(trial.requests) == 28
    assert (trial.progress[-1].done, trial.progress[-1].total) == (28, 28)
    scores = await trial.score(plan)
    assert mean(values(scores, "good")).value == 1
    assert mean(values(scores, "poor")).value == pytest.approx(5 / 7)
    gain, pairs = comparison(scores, "good", "poor")
    assert gain.value == pytest.approx(2 / 7)
    assert {one.question for one, _ in pairs} == {"q5", "q6"}
    named = {one.title: one for one in tables(plan, scores)}
    assert named["Accuracy"].head == ("arm", "all", "1", "2", "3")
    assert [row[1].partition(" ")[0] for row in named["Accuracy"].rows] == ["100.0", "71.4"]
    assert all(row[1].endswith(" of 7") for row in named["Accuracy"].rows)
    assert named["Repeats"].head == ("arm", "pass@1", "pass@2", "maj@2")
    assert [one.partition(" ")[0] for one in named["Repeats"].rows[1][1:]] == ["71.4"] * 3
    # Repeats are not copies of each other: each has its own seed; arms of one repeat share theirs.
    async with trial.workspace(trial.folder) as workspace:
        manifests = [one.manifest for one in await whole_runs(workspace)]
    places = {(one.labels["question"], one.labels["repeat"]) for one in manifests}
    assert len({one.seed for one in manifests}) == len(places) == 14


async def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    sums(tmp_path / "data", 4)
    trial = Trial(tmp_path, BOTH)
    plan = trial.plan(GOOD, POOR)
    await trial.run(plan)
    asked_before = len(trial.requests)
    ending = await trial.run(plan)
    assert ending.runs == 0
    assert len(trial.requests) == asked_before == 8


async def test_one_budget_holds_over_all_and_leaves_whole_pairs(tmp_path: Path) -> None:
    sums(tmp_path / "data", 10)
    # A request costs at least its input: some 10 tokens at $1,000 for a million.
    trial = Trial(tmp_path, BOTH, price=Price(input=1000, output=1000))
    plan = trial.plan(GOOD, POOR, budget_usd=20.1, question_usd=10)
    ending = await trial.run(plan, at_once=2)
    scores = await trial.score(plan)
    ran = {one.question for one in scores if one.status != "not_run"}
    assert 0 < len(ran) < 10
    assert {*ending.left_out} == {f"q{n}" for n in range(10)} - ran
    assert all((one.question in ran) == bool(one.run_id) for one in scores)
    assert sum(one.cost_usd or 0 for one in scores) <= 20.1
    assert trial.progress[-1].left_usd == pytest.approx(20.1 - sum(one.cost_usd or 0 for one in scores))
    counts = {row[0]: row for row in tables(plan, scores)[1].rows}
    assert counts["good"][-3:] == (str(10 - len(ran)), str(len(ran)), "10")
    before = len(trial.requests)
    ending = await trial.run(amend(trial.folder, "trial", 100), at_once=2)
    assert (ending.left_out, len(trial.requests) - before) == ((), 2 * (10 - len(ran)))


@pytest.mark.long
async def test_a_crash_on_every_tenth_question_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    broken = True

    async def brittle(spec: Any, session: Any, kit: Any) -> AgentResult:
        """Fail where the first number can be divided by ten."""
        if (broken and "What is 0 " in spec.instruction) or "What is 10 " in spec.instruction:
            raise ValueError("the tenth question")
        return await direct(spec, session, kit)

    sums(tmp_path / "data", 12)
    trial = Trial(tmp_path, {"good": adds}, systems={"brittle": brittle})
    plan = trial.plan(Arm(name="brittle", system="brittle"))
    ending = await trial.run(plan)
    assert ending.runs == 12
    scores = await trial.score(plan)
    by_outcome = {one.question: outcome(one) for one in scores}
    assert {one for one, what in by_outcome.items() if what == "error"} == {"q0", "q10"}
    assert [one.why for one in scores if one.status == "missing"] == [
        "the system failed: ValueError: the tenth question"
    ] * 2
    assert [what for one, what in by_outcome.items() if one not in ("q0", "q10")] == ["right"] * 10
    assert mean(values(scores, "brittle")).value == pytest.approx(10 / 12)
    broken = False
    assert (await trial.run(plan)).runs == 0
    assert (await trial.run(plan, again=True)).runs == 2
    assert {one.question for one in await trial.score(plan) if outcome(one) == "error"} == {"q10"}


@pytest.mark.long
async def test_only_what_got_no_answer_is_asked_again(tmp_path: Path) -> None:
    told: dict[int, int] = {}

    def hesitant(request: ModelRequest) -> str:
        """Be unable the first time with 1, always with 2, and wrong with 3."""
        first, other = asked(request)
        told[first] = told.get(first, 0) + 1
        unable = first == 2 or (first == 1 and told[first] == 1)
        return "Unable to determine." if unable else str(other) if first == 3 else str(first + other)

    sums(tmp_path / "data", 5)
    trial = Trial(tmp_path, {"hesitant": hesitant})
    plan = trial.plan(Arm(name="hesitant"), ask_again=2)
    await trial.run(plan)
    assert told == {0: 1, 1: 2, 2: 3, 3: 1, 4: 1}
    scores = {one.question: one for one in await trial.score(plan)}
    assert [outcome(one) for one in scores.values()] == ["right", "right", "unanswered", "wrong", "right"]
    settings = {row[0]: row[1] for row in tables(plan, [*scores.values()])[-1].rows}
    assert settings["asked again"] == "up to 2 times, where there was no answer"
    async with trial.workspace(trial.folder) as workspace:
        tries = [(one.question, one.attempt) for one in await attempts(workspace, plan)]
    assert tries == [("q0", 0), ("q1", 0), ("q1", 1), ("q2", 0), ("q2", 1), ("q2", 2), ("q3", 0), ("q4", 0)]


async def test_no_true_answer_and_no_note_comes_into_a_run(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "given.txt").write_text("the given text", encoding="utf-8")
    line = {
        "id": "q0",
        "question": "What is 1 + 2?",
        "answer": "canary-truth",
        "files": ["given.txt"],
        "notes": "canary-note",
        "scorer": "exact",
    }
    write_set(tmp_path / "data", [line])
    trial = Trial(tmp_path, {"good": adds})
    plan = trial.plan(Arm(name="react", system="direct"))
    await trial.run(plan)
    kept = b"".join(one.read_bytes() for one in trial.folder.rglob("*") if one.is_file())
    assert b"What is 1 + 2?" in kept
    assert b"the given text" in kept
    assert b"canary" not in kept
    async with trial.workspace(trial.folder) as workspace:
        (record,) = await workspace.runs.list()
        log = json.dumps([one.model_dump(mode="json") for one in await workspace.log.events(record.id)])
    assert "What is 1 + 2?" in log
    assert "canary" not in log


async def test_other_data_and_other_settings_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    data = sums(tmp_path / "data", 3)
    trial = Trial(tmp_path, {"good": adds})
    plan = trial.plan(GOOD)
    with pytest.raises(EvaluationError, match="trial was begun with other repeats; go on with"):
        trial.plan(GOOD, repeats=2)
    text = (data / "questions.jsonl").read_text(encoding="utf-8")
    (data / "questions.jsonl").write_text(text.replace("What is 1 ", "How much is 1 "), encoding="utf-8")
    with pytest.raises(EvaluationError, match=r"begun with the version \w{12} of the set local"):
        trial.plan(GOOD)
    with pytest.raises(EvaluationError, match="bring the former data back, or begin another evaluation"):
        await trial.run(read(trial.folder, "trial"))
    assert trial.requests == []
    (data / "questions.jsonl").write_text(text, encoding="utf-8")
    assert trial.plan(GOOD) == plan


async def test_an_arm_that_cannot_be_run_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    sums(tmp_path / "data", 2)
    trial = Trial(tmp_path, {"good": adds})
    with pytest.raises(UnknownModelError, match="nobody"):
        await trial.run(trial.plan(GOOD, Arm(name="other", model="nobody")))
    assert trial.requests == []


def test_an_arm_has_its_settings_and_learns_nothing() -> None:
    settings = Settings.model_validate(
        {"generator": {"keep": "workspace"}, "parts": {"tips": True, "plan": "once"}, "max_steps": 7}
    )
    arm = Arm(name="one", settings={"parts.plan": "none"})
    made = arm.merge(settings)
    assert (made.generator.keep, made.parts.tips, made.parts.plan, made.max_steps) == ("run", False, "none", 7)
    assert "huggingface.co/datasets" in made.web.deny
    with pytest.raises(EvaluationError, match=r"the arm one sets parts\.tips = true, and the evaluation says what one"):
        Arm(name="one", settings={"parts.tips": True}).merge(settings)
    with pytest.raises(EvaluationError, match=r"the arm one sets web.user_agent\.x, and user_agent holds no further"):
        Arm(name="one", settings={"web.user_agent.x": 3}).merge(Settings.model_validate({"web": {"user_agent": "a"}}))
    with pytest.raises(EvaluationError, match="the arm one: max_stepz = 3 does not fit"):
        Arm(name="one", settings={"max_stepz": 3}).merge(settings)
    with pytest.raises(
        EvaluationError, match=r"agents\.planner\.memory is 'workflow', which serves the whole workspace"
    ):
        Arm(name="one").merge(Settings.model_validate({"agents": {"planner": {"memory": "workflow"}}}))


@pytest.mark.long
async def test_a_pilot_forecasts_cost_and_power(tmp_path: Path) -> None:
    def wordy(request: ModelRequest) -> str:
        """Answer in more or fewer words."""
        return f"{sum(asked(request))} {'indeed ' * (asked(request)[1] % 40)}"

    sums(tmp_path / "data", 16)
    trial = Trial(tmp_path, {"good": adds, "poor": wordy}, price=Price(input=100, output=100))
    plan = trial.plan(GOOD, POOR, budget_usd=100, question_usd=1)
    scores = await trial.score(plan)
    with pytest.raises(EvaluationError, match="a forecast needs a pilot of at least 2 questions, and 0 were asked"):
        forecast(plan, scores)
    pilot = plan.model_copy(update={"ids": plan.ids[:6]})
    await trial.run(pilot)
    found = forecast(plan, await trial.score(plan))
    assert (found.pilot, found.questions, found.most_usd) == (6, 16, 32)
    assert found.usd is not None
    assert found.low is not None
    assert found.high is not None
    await trial.run(plan)
    whole = sum(one.cost_usd or 0 for one in await trial.score(plan))
    assert found.low <= whole <= found.high
    assert found.low < found.usd < found.high
    first, second = power_lines(plan, scores, 0.1)
    assert first.startswith("a difference of 10 points is found with 16 questions in ")
    assert second.startswith("80 of 100 need ")


@pytest.mark.long
async def test_a_judge_is_asked_once_and_what_it_cannot_say_is_neither_right_nor_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(request: ModelRequest) -> Any:
        """Compare the answers; talk nonsense about 2, and fail with 3."""
        said = request.messages[-1].text
        ((first, truth, answer),) = re.findall(r"What is (\d+) .* True answer: (\d+) Answer: (\d+)", said)
        if first == "3":
            return ModelRequestError("the judge is ill")
        return "perhaps" if first == "2" else "yes" if truth == answer else "no"

    monkeypatch.setitem(SCORERS, "number", "tests.evaluation.support:ASKS")
    sums(tmp_path / "data", 8)
    trial = Trial(tmp_path, {"poor": adds_small, "judge": judge}, price=Price(input=100, output=100))
    plan = trial.plan(POOR, judge="judge")
    await trial.run(plan)
    scores = await trial.score(plan)
    outcomes = [outcome(one) for one in scores]
    assert outcomes == ["right", "right", "undecided", "undecided", "right", "wrong", "wrong", "wrong"]
    assert scores[2].why == "the judge said 'perhaps'"
    assert "the judge gave no reply (failed): the judge is ill" in scores[3].why
    assert mean(values(scores, "poor")).questions == 6
    asked_before = len(trial.requests)
    assert asked_before == 16
    assert [outcome(one) for one in await trial.score(plan)] == outcomes
    ((_, again),) = trial.requests[asked_before:]  # the one that failed, once more
    assert "What is 3 + " in again
    async with trial.workspace(trial.folder) as workspace:
        cost = await judged_usd(workspace, plan)
    assert cost is not None
    assert cost > 0
    note = tables(plan, scores, cost)[2].note
    assert f"The judge judge cost ${cost:.4f} besides." in note


async def test_a_refusal_and_a_scorer_that_fails_are_told_apart_from_wrong_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(request: ModelRequest) -> Any:
        """Be stopped by the provider's filter at 1, be refused by the provider at 2, and add else."""
        first, _ = asked(request)
        if first == 1:
            return ModelResponse(text="", finish_reason="content_filter")
        return ModelRequestError("the provider refused the request (400)") if first == 2 else adds(request)

    class Odd:
        """Fail at 3, and give 7 for a score at 4."""

        needs_judge = False

        async def score(self, question: EvalQuestion, answer: EvalAnswer, judge: Judge | None) -> Scored:
            if question.id == "q3":
                raise ValueError("no such table")
            return Scored(7.0, "ok") if question.id == "q4" else Scored.of(answer.text == question.truth)

    monkeypatch.setattr("tests.evaluation.support.ASKS", Odd())
    monkeypatch.setitem(SCORERS, "number", "tests.evaluation.support:ASKS")
    sums(tmp_path / "data", 6)
    trial = Trial(tmp_path, {"picky": picky})
    plan = trial.plan(Arm(name="picky"))
    ending = await trial.run(plan)
    assert (ending.runs, ending.refusals) == (6, {})
    scores = await trial.score(plan)
    assert [outcome(one) for one in scores] == ["right", "unanswered", "error", "undecided", "undecided", "right"]
    assert scores[2].why == "the provider refused the request (400)"
    assert (scores[3].why, scores[4].why) == ("ValueError: no such table", "the scorer gave 7.0 as 'ok'")
    assert tables(plan, scores)[0].rows[0][1].endswith("of 4")


async def test_a_question_that_cannot_be_asked_is_missing_and_the_rest_goes_on(tmp_path: Path) -> None:
    data = sums(tmp_path / "data", 4)
    lines = [json.loads(one) for one in (data / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    write_set(data, [lines[0], {**lines[1], "files": ["gone.pdf"]}, {**lines[2], "id": "q0"}, lines[3]])
    trial = Trial(tmp_path, {"good": adds})
    plan = trial.plan(GOOD, repeats=2)
    ending = await trial.run(plan)
    assert (ending.runs, [*ending.missing]) == (4, ["q1", "q0~2"])
    assert (trial.progress[-1].done, trial.progress[-1].total) == (4, 4)
    scores = await trial.score(plan)
    by_question = {one.question: (outcome(one), one.status, one.score) for one in scores}
    left = ("left out", "missing", None)
    assert by_question == {"q0": ("right", "ok", 1.0), "q1": left, "q0~2": left, "q3": ("right", "ok", 1.0)}
    assert "gone.pdf of the question 'q1' is not there" in scores[2].why
    found = tables(plan, scores)
    assert "Left out, as they cannot be asked or have no public answer: q0~2, q1." in found[0].note
    assert found[0].rows[0][1].endswith("of 2")
    counts = dict(zip(found[1].head, found[1].rows[0], strict=True))
    assert (counts["right"], counts["left out"], counts["counted"], counts["all"]) == ("4", "4", "4", "8")


@pytest.mark.long
async def test_the_judge_stands_inside_the_budget_and_goes_on_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(request: ModelRequest) -> str:
        ((truth, answer),) = re.findall(r"True answer: (\d+) Answer: (\d+)", request.messages[-1].text)
        return "yes" if truth == answer else "no"

    monkeypatch.setitem(SCORERS, "number", "tests.evaluation.support:ASKS")
    sums(tmp_path / "data", 8)
    # A request to the judge costs some two cents: its input has about 20 tokens at $1,000 for a million.
    trial = Trial(tmp_path, {"good": adds, "judge": judge}, price=Price(input=1000, output=1))
    plan = trial.plan(GOOD, judge="judge", budget_usd=100, question_usd=10)
    await trial.run(plan)
    async with trial.workspace(trial.folder) as workspace:
        runs = sum(one.result.cost_usd or 0 for one in await attempts(workspace, plan))
    # The runs leave room for some requests to the judge, and not for all.
    plan = amend(trial.folder, "trial", runs + 0.1)
    scores = await trial.score(plan)
    by_outcome = [outcome(one) for one in scores]
    assert {*by_outcome} == {"right", "undecided"}
    why = {one.why for one in scores if one.status == "judge_failed"}
    assert all("the judge was not asked: $" in one and "of the budget of $" in one for one in why), why
    assert all("`agentorchestra eval score trial --budget-usd X` goes on" in one for one in why)
    async with trial.workspace(trial.folder) as workspace:
        cost = await judged_usd(workspace, plan)
    assert cost is not None
    assert 0 < cost <= 0.1
    before = len(trial.requests)
    scores = await trial.score(amend(trial.folder, "trial", runs + 1000))
    assert [outcome(one) for one in scores] == ["right"] * 8
    assert len(trial.requests) - before == by_outcome.count("undecided")
    # What the judge cost is spent for the runs too.
    again = Trial(tmp_path / "second", trial.models, price=trial.price)
    sums(again.data, 2)
    plan = again.plan(GOOD, judge="judge", budget_usd=100, question_usd=10)
    await again.run(plan.model_copy(update={"ids": plan.ids[:1]}))
    await again.score(plan)
    await again.run(plan)
    async with again.workspace(again.folder) as workspace:
        cost = await judged_usd(workspace, plan)
        runs = sum(one.result.cost_usd or 0 for one in await attempts(workspace, plan))
    assert cost
    assert again.progress[-1].spent_usd == pytest.approx(runs + cost)


@pytest.mark.long
async def test_an_arm_names_models_by_role_and_the_cost_is_that_of_each(tmp_path: Path) -> None:
    async def pair(spec: Any, session: Any, kit: Any) -> AgentResult:
        """Answer, then have it answered once more by the model of the role `judge`, whose answer counts."""
        await direct(spec, session, kit)
        return await direct(spec.model_copy(update={"role": "judge"}), session, kit)

    sums(tmp_path / "data", 3)
    trial = Trial(tmp_path, BOTH, systems={"pair": pair}, price=Price(input=100, output=100))
    mixed = Arm(name="mixed", system="pair", model="poor", roles={"judge": "good"})
    plan = trial.plan(mixed, Arm(name="same", system="pair", model="poor"))
    await trial.run(plan)
    scores = await trial.score(plan)
    assert [name for name, _ in trial.requests].count("good") == 3
    for one in scores:
        assert [*one.usd_by_model] == (["good", "poor"] if one.arm == "mixed" else ["poor"])
        assert sum(cost or 0 for cost in one.usd_by_model.values()) == pytest.approx(one.cost_usd)
    (table,) = [one for one in tables(plan, scores) if one.title.startswith("Cost")]
    assert re.search(r" mixed by model: good \$0\.\d+, poor \$0\.\d+\.$", table.note)
    with pytest.raises(UnknownModelError, match="nobody"):
        other = Arm(name="other", system="pair", model="poor", roles={"judge": "nobody"})
        await trial.run(plan.model_copy(update={"arms": (other,), "name": "second"}))


async def test_what_cannot_be_made_into_a_run_is_reported_with_its_question(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "empty.pdf").write_bytes(b"")
    sums(tmp_path / "data", 3)
    lines = [json.loads(one) for one in (tmp_path / "data" / "questions.jsonl").read_text().splitlines()]
    write_set(tmp_path / "data", [lines[0], {**lines[1], "files": ["empty.pdf"]}, lines[2]])
    trial = Trial(tmp_path, {"good": adds})
    plan = trial.plan(GOOD)
    ending = await trial.run(plan)
    (why,) = ending.refusals.values()
    assert "empty.pdf" in why
    scores = await trial.score(plan)
    assert [(outcome(one), one.why) for one in scores] == [("right", ""), ("not run", why), ("right", "")]
    assert mean(values(scores, "good")).questions == 2


async def test_one_process_asks_at_a_time(tmp_path: Path) -> None:
    sums(tmp_path / "data", 2)
    trial = Trial(tmp_path, {"good": adds})
    plan = trial.plan(GOOD)
    with (
        alone(trial.folder, plan),
        pytest.raises(EvaluationError, match="another process runs the evaluation trial; wait for it, or stop it"),
    ):
        await trial.run(plan)
    assert trial.requests == []
    assert (await trial.run(plan)).runs == 2


async def test_a_report_shows_hostile_answers_as_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> | \x1b[31m \u202e \\input{x} $&%"
    sums(tmp_path / "data", 2)
    trial = Trial(tmp_path, {"bad": lambda request: hostile})
    plan = trial.plan(Arm(name="bad"))
    await trial.run(plan)
    scores = await trial.score(plan)
    found = tables(plan, scores)
    page = html(plan, found, figures(plan, scores))
    assert "&lt;script&gt;alert(1)" in page
    assert not re.search(r"<script|\x1b|\u202e|https?://(?!www\.w3\.org)", page)
    (row,) = re.findall(r"^\| q0 .*$", markdown(plan, found), re.MULTILINE)
    assert "&lt;script> \\| " in row.replace("alert(1)&lt;/script>", "")
    assert len(re.findall(r"(?<!\\)\|", row)) == 4
    assert r"\textbackslash{}input\{x\} \$\&\%" in latex(found[-2])


def test_what_needs_the_extra_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums(tmp_path / "data", 2)
    plan = Trial(tmp_path, {"good": adds}).plan(GOOD)
    with pytest.raises(EvaluationError, match="no answer of trial has a score"):
        tables(plan, [])
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'agentorchestra\[eval\]'"):
        tables(plan, [])


async def test_a_leaderboard_takes_one_answer_to_every_question(tmp_path: Path) -> None:
    sums(tmp_path / "data", 3)
    trial = Trial(tmp_path, {"good": adds})
    plan = trial.plan(GOOD)
    await trial.run(plan.model_copy(update={"ids": plan.ids[:2]}))
    async with trial.workspace(trial.folder) as workspace:
        found = await attempts(workspace, plan)
    lines = [json.loads(one) for one in gaia_lines(plan, found, "good")]
    assert [(one["task_id"], bool(one["model_answer"])) for one in lines] == [("q0", True), ("q1", True), ("q2", False)]
    assert {*lines[0]} == {"task_id", "model_answer", "reasoning_trace"}
    with pytest.raises(EvaluationError, match="trial has 2 repeats, and a leaderboard takes one answer a question"):
        list(gaia_lines(plan.model_copy(update={"repeats": 2}), found, "good"))


def test_a_record_of_another_format_is_refused(tmp_path: Path) -> None:
    sums(tmp_path / "data", 2)
    trial = Trial(tmp_path, {"good": adds})
    trial.plan(GOOD)
    path = trial.folder / "evaluations" / "trial" / "plan.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"format": 1', '"format": 2'), encoding="utf-8")
    with pytest.raises(EvaluationError, match=r"plan\.json cannot be read: .*; use the version of this package that"):
        read(trial.folder, "trial")
    with pytest.raises(EvaluationError, match="a budget over all questions needs a limit for each run"):
        path.write_text(path.read_text(encoding="utf-8").replace('"format": 2', '"format": 1'), encoding="utf-8")
        amend(trial.folder, "trial", 3)


def test_one_may_stop_after_the_first_block_that_the_sequential_test_settles(tmp_path: Path) -> None:
    sums(tmp_path / "data", 40)
    plan = Trial(tmp_path, BOTH).plan(GOOD, POOR)

    def scores(first: float, second: float, left_out: int = 0) -> list[Score]:
        """Equal scores of the arms on each question but the first ones, where nobody could say."""
        return [
            Score(question=each, arm=arm, repeat=0, group="", status="judge_failed")
            if number < left_out
            else Score(question=each, arm=arm, repeat=0, group="", run_id="r", status="ok", score=value)
            for number, each in enumerate(plan.ids)
            for arm, value in (("good", first), ("poor", second))
        ]

    clear = stop_after(plan, scores(1, 0), "good", "poor")
    assert clear is not None
    assert 5 < clear < 20  # five wins of five have an exact p of 0.06: a test that looks each time needs more
    assert stop_after(plan, scores(0, 1), "good", "poor") == clear
    assert stop_after(plan, scores(1, 0)[: 2 * clear - 2], "good", "poor") is None
    assert stop_after(plan, scores(1, 0)[: 2 * clear], "good", "poor") == clear
    assert stop_after(plan, scores(1, 0, left_out=3), "good", "poor") == clear + 3
    assert stop_after(plan, scores(1, 1), "good", "poor") is None
    for made, said in ((scores(1, 0), f"after block {clear}"), (scores(1, 1), "no")):
        (table,) = [one for one in tables(plan, made) if one.title == "Differences"]
        assert (table.head[-1], table.rows[0][-1]) == ("one may stop", said)
