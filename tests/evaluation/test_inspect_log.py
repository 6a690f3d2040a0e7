"""An evaluation as a log of Inspect: read back by Inspect itself."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import Price
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evaluation.results import values
from agentorchestra.evaluation.scores import attempts
from agentorchestra.evaluation.statistics import mean
from tests.browser import chromium
from tests.evaluation.support import Trial, adds, adds_small, asked, sums


@pytest.fixture(autouse=True)
def inspect() -> None:
    """Skip where Inspect is not installed; importing it takes seconds, which no other test is to wait for."""
    pytest.importorskip("inspect_ai")


async def pair(spec: Any, session: Any, kit: Any) -> AgentResult:
    """Have two agents answer at the same time, and take the first one's answer."""
    first, _ = await session.call_agents(
        [AgentSpec(name=name, role="adder", instruction=spec.instruction, system="direct") for name in ("ann", "bob")]
    )
    return AgentResult(answer=first.answer)


@pytest.mark.long  # Inspect's own import and reading take seconds
async def test_inspect_reads_back_samples_scores_lanes_and_accuracy(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    from agentorchestra.evaluation.inspect_log import inspect_log, write_log

    sums(tmp_path / "data", 7)
    trial = Trial(tmp_path, {"good": adds, "poor": adds_small}, systems={"pair": pair}, price=Price(input=1, output=2))
    plan = trial.plan(Arm(name="pair", system="pair", model="good"), Arm(name="poor", model="poor"), repeats=2)
    await trial.run(plan)
    scores = await trial.score(plan)
    async with trial.workspace(trial.folder) as workspace:
        log = await inspect_log(workspace, plan, plan.load(), scores)
        tries = await attempts(workspace, plan)
    path = tmp_path / "log.eval"
    await asyncio.to_thread(write_log, log, path)
    found = await asyncio.to_thread(read_eval_log, str(path))
    assert found.status == "success"
    assert found.samples is not None
    assert {(one.id, one.epoch) for one in found.samples} == {
        (f"{arm}/q{n}", repeat) for arm in ("pair", "poor") for n in range(7) for repeat in (1, 2)
    }
    by_place = {(f"{one.arm}/{one.question}", one.repeat + 1): one for one in scores}
    questions = plan.load().by_id
    for sample in found.samples:
        score = by_place[str(sample.id), sample.epoch]
        question = questions[score.question]
        assert (sample.input, sample.target) == (question.task, question.truth)
        assert sample.scores is not None
        assert sample.output.completion == score.answer == sample.scores[score.arm].answer
        assert sample.scores[score.arm].value == score.score
        spans = {one.id: one for one in sample.events if one.event == "span_begin"}
        ends = [one.id for one in sample.events if one.event == "span_end"]
        assert sorted(ends) == sorted(spans)
        requests = [one for one in sample.events if one.event == "model"]
        assert all(one.span_id in spans for one in sample.events)
        lanes = sorted(spans[one.span_id or ""].name for one in requests)
        assert lanes == (["ann", "bob"] if score.arm == "pair" else ["direct"]), score
        assert all(question.task in one.input[-1].text for one in requests)
        assert sum(one.total_tokens for one in sample.model_usage.values()) == score.tokens
        assert sum(one.total_cost or 0 for one in sample.model_usage.values()) == pytest.approx(score.cost_usd)
    total = sum((one.result.usage for one in tries), Usage())
    assert sum(one.total_tokens for one in found.stats.model_usage.values()) == total.tokens
    assert found.results is not None
    accuracy = {one.name: one.metrics["accuracy"].value for one in found.results.scores}
    assert accuracy == {arm: pytest.approx(mean(values(scores, arm)).value) for arm in ("pair", "poor")}
    assert accuracy["poor"] == pytest.approx(5 / 7)


async def test_what_has_no_score_is_a_sample_without_one(tmp_path: Path) -> None:
    from agentorchestra.evaluation.inspect_log import inspect_log, write_log

    def silent(request: ModelRequest) -> str:
        """Say nothing to the first question."""
        return "" if asked(request)[0] == 0 else adds(request)

    async def brittle(spec: Any, session: Any, kit: Any) -> AgentResult:
        """Fail."""
        raise ValueError("broken on purpose")

    sums(tmp_path / "data", 3)
    trial = Trial(tmp_path, {"good": silent}, systems={"brittle": brittle})
    plan = trial.plan(Arm(name="good", model="good"), Arm(name="brittle", system="brittle"))
    before = await trial.score(plan)
    async with trial.workspace(trial.folder) as workspace:
        log = await inspect_log(workspace, plan, plan.load(), before)
    assert (log.status, log.results and log.results.scores) == ("cancelled", [])
    assert [one.metadata["outcome"] for one in log.samples or []] == ["not run"] * 6
    await trial.run(plan)
    scores = await trial.score(plan)
    async with trial.workspace(trial.folder) as workspace:
        log = await inspect_log(workspace, plan, plan.load(), scores)
    assert log.results is not None
    assert {one.name: one.metrics["accuracy"].value for one in log.results.scores} == {
        "good": pytest.approx(2 / 3),
        "brittle": 0,
    }
    errors = [one.error.message for one in log.samples or [] if one.error]
    assert errors == ["the system failed: ValueError: broken on purpose"] * 3
    with pytest.raises(EvaluationError, match=r"log\.json does not end in \.eval, by which Inspect knows its logs"):
        write_log(log, tmp_path / "log.json")


@pytest.mark.long
@pytest.mark.real
async def test_inspects_own_viewer_shows_the_log(tmp_path: Path) -> None:
    from agentorchestra.evaluation.inspect_log import inspect_log, write_log

    sums(tmp_path / "data", 3)
    trial = Trial(tmp_path, {"good": adds})
    plan = trial.plan(Arm(name="good", model="good"))
    await trial.run(plan)
    scores = await trial.score(plan)
    async with trial.workspace(trial.folder) as workspace:
        log = await inspect_log(workspace, plan, plan.load(), scores)
    place = tmp_path / "logs"
    place.mkdir()
    await asyncio.to_thread(write_log, log, place / "log.eval")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("-m", "inspect_ai", "view", "start", "--log-dir", str(place), "--host", "127.0.0.1", "--port", str(port))
    viewer = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=tmp_path, stdout=DEVNULL, stderr=DEVNULL)
    try:
        async with chromium() as browser:
            page = await browser.new_page()
            for _ in range(200):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                await asyncio.sleep(0.2)
            await page.goto(f"http://127.0.0.1:{port}/")
            await page.get_by_text("trial").first.click(timeout=60_000)
            await page.get_by_text("good/q2").first.click(timeout=60_000)
            await page.get_by_text("What is 2 + ").first.wait_for(timeout=60_000)
    finally:
        viewer.terminate()
        await viewer.wait()
