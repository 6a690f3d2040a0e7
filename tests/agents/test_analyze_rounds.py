"""The deep analyzer's rounds, early stop, several models, and tasks without files. Models know what they are shown."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.analysis.agent import deep_analyzer
from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import AnalysisSettings, Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.models.limits import LEAST, USUAL
from agentorchestra.models.prices import estimate_input_tokens
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.agents.analysing import Reader, source_of, tried

CHANCE = random.Random(2506)
"""Seeded: the same tests in every run."""


TOWN = "Kelmar"


@pytest.fixture
def code() -> str:
    return f"{CHANCE.randrange(2000, 10_000)}"


async def run(ws: Workspace[Any], task: str, *files: Path, model: str = "scripted") -> tuple[RunResult, list[str]]:
    """The result, and the tools that were called."""
    result = await ws.run(task, files=files, system="deep_analyzer", model=model)
    records = Ledger.of(await ws.store.load(result.run_id)).records.items()
    called = [
        str(one.effect["component"]).partition("@")[0]
        for _, one in sorted(records, key=lambda item: (item[0].branch, item[0].n))
        if one.effect["kind"] == EffectKind.INVOKE_TOOL and not one.effect["component"].startswith("done@")
    ]
    assert (await ws.replay(result.run_id)).answer == result.answer_text
    return result, called


# -- early stop --------------------------------------------------------------------------------------------------------


async def test_what_the_metadata_answers_opens_no_file(tmp_path: Path) -> None:
    sizes = {f"part{number}.txt": CHANCE.randrange(2_500, 5_000) for number in range(4)}
    for name, size in sizes.items():
        (tmp_path / name).write_text("x" * size)

    def largest(text: str) -> str:
        found = re.findall(r"(\w+\.txt): text/plain, ([\d,]+) bytes;", text)
        return str(max(found, key=lambda one: _number(one[1]))[0])

    def model(request: ModelRequest) -> ModelResponse:
        if request.tools:
            return decide(calls=[call("done", answer=largest(request.messages[1].text))])
        answer = re.search(r"answer of the round:\n(\S+)", request.messages[-1].text)
        assert answer is not None
        return say(json.dumps({"go_on": answer[1] != largest(request.messages[-1].text)}))

    scripted = ScriptedModel(model)
    async with Workspace(tmp_path / "ws", models={"scripted": scripted}) as ws:
        files = [tmp_path / name for name in sizes]
        result, called = await run(ws, "Which file is the largest?", *files)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, max(sizes, key=lambda one: sizes[one]))
    assert called == ["files_in_view", "describe_files"] and len(scripted.requests) == 2, (
        "the answer, and whether it follows"
    )


def _number(text: str) -> int:
    return int(text.replace(",", ""))


async def test_an_answer_whose_quote_stands_is_not_judged(tmp_path: Path, code: str) -> None:
    (tmp_path / "codes.txt").write_bytes(source_of("txt", TOWN, code))
    model = Reader()
    async with Workspace(tmp_path / "ws", models={"reader": model}) as ws:
        result, called = await run(ws, f"What is the code of {TOWN}?", tmp_path / "codes.txt", model="reader")
    assert result.answer == code and called.count("analyze_file") == 1
    assert len(model.requests) == 3 and not any("judge" in one for one in model.asked)


# -- rounds ------------------------------------------------------------------------------------------------------------


class Searcher(Reader):
    """In its first round it searches with a word that does not stand there; it does what the judge says next."""

    def act(self, request: ModelRequest) -> ModelResponse:
        told = "\n".join(message.text for message in request.messages)
        results = [message for message in request.messages if message.role == "tool"]
        if "To be tried now: read the whole of it" in told:
            assert 'search_files {"query": "cipher' in told, "the next round knows what was tried"
            return super().act(request)
        if results:
            return decide(calls=[call("done", answer="It is not there.", status="blocked")])
        return decide(calls=[call("search_files", query=f"cipher {len(self.asked)}")])

    def round(self, system: str, material: str) -> Any:
        if "analyze_file" in tried(material):
            return {"go_on": False}
        searched = tried(material).count("search_files")
        strategy = "read the whole of it" if searched > 1 else "search with another word"
        return {"go_on": True, "missing": "the code", "strategy": strategy}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("rounds", "found"), [(3, True), (2, False)])
async def test_the_next_round_knows_what_was_tried(tmp_path: Path, code: str, rounds: int, found: bool) -> None:
    (tmp_path / "codes.txt").write_bytes(source_of("txt", TOWN, code))
    settings = Settings(analysis=AnalysisSettings(rounds=rounds))
    async with Workspace(tmp_path / "ws", models={"reader": Searcher()}, settings=settings) as ws:
        result, called = await run(ws, f"What is the code of {TOWN}?", tmp_path / "codes.txt", model="reader")
    assert (result.answer_text == code) is found and f"Analysed in {rounds} rounds." in result.report
    assert called.count("search_files") == 2 and called.count("analyze_file") == int(found)
    assert result.status is (RunStatus.COMPLETED if found else RunStatus.BLOCKED)


@pytest.mark.long
async def test_each_round_is_a_piece_of_the_report(tmp_path: Path, code: str) -> None:
    (tmp_path / "codes.txt").write_bytes(source_of("txt", TOWN, code))
    async with Workspace(tmp_path / "ws", models={"reader": Searcher()}) as ws:
        result = await ws.run(
            f"What is the code of {TOWN}?", files=[tmp_path / "codes.txt"], system="deep_analyzer", model="reader"
        )
        records = Ledger.of(await ws.store.load(result.run_id)).records.values()
        made = [one.effect["arguments"] for one in records if one.effect["component"].startswith("report@")]
    added = [one["arguments"] for one in made if one["action"] == "add"]
    titles = [one["title"] for one in added]
    assert titles == [f"Analysis, round {number}: What is the code of {TOWN}?" for number in (1, 2, 3)]
    assert code in added[-1]["content"] and added[-1]["citations"][0]["source"] == "codes.txt"


async def test_a_budget_without_room_for_the_judge_keeps_the_answer(tmp_path: Path) -> None:
    (tmp_path / "codes.txt").write_bytes(source_of("txt", TOWN, "4711"))
    model = Hasty()
    async with Workspace(tmp_path / "ws", models={"reader": model}) as ws:
        given: dict[str, Any] = {"files": [tmp_path / "codes.txt"], "system": "deep_analyzer", "model": "reader"}
        first = await ws.run(f"What is the code of {TOWN}?", **given)
        assert len(model.requests) == 2
        # What is left after the answer has no room for a question, not even with the shortest reply of use.
        used = estimate_input_tokens(model.requests[0])
        tight = Budget(tokens=2 * used + USUAL + LEAST + 200)
        result = await ws.run(f"What is the code of {TOWN}?", budget=tight, **given)
        assert first.answer_text == result.answer_text == "1111" and result.status is RunStatus.COMPLETED
        assert len(model.requests) == 3, "the judge was not asked"
        assert "Nobody judged whether the answer is complete: " in result.report


@pytest.mark.long
async def test_the_time_ends_while_the_judge_is_asked(tmp_path: Path, code: str) -> None:
    """The answer stays; with more time the judge is asked anew, and nobody else."""
    (tmp_path / "codes.txt").write_bytes(source_of("txt", TOWN, code))
    reached, patient = asyncio.Event(), asyncio.Event()

    class Slow(Searcher):
        async def request(self, request: ModelRequest, **given: Any) -> ModelResponse:
            if "You judge for an analyst" in request.messages[0].text and not patient.is_set():
                reached.set()
                await patient.wait()
            return await super().request(request, **given)

    async with Workspace(tmp_path / "ws", models={"reader": (model := Slow())}) as ws:
        for seconds in (3.0, 10.0, 60.0):  # as slow as the machine is, the judge is come to
            model.asked.clear()
            given: dict[str, Any] = {"files": [tmp_path / "codes.txt"], "system": "deep_analyzer", "model": "reader"}
            result = await ws.run(f"What is the code of {TOWN}?", budget=Budget(active_s=seconds), **given)
            if reached.is_set():
                break
        asked = len(model.asked)
        assert (result.status, result.answer) == (RunStatus.TIMED_OUT, "It is not there."), result
        patient.set()
        result = await ws.resume(result.run_id, budget=Budget(active_s=600))
        assert (result.status, result.answer) == (RunStatus.COMPLETED, code), result.report
        assert "judge" in model.asked[asked], "no step was asked again"
        assert sum("judge" in one for one in model.asked) == 2
        assert (await ws.replay(result.run_id)).answer == code


# -- several models ----------------------------------------------------------------------------------------------------


def merging(request: ModelRequest) -> ModelResponse:
    """The summariser: what the analysts say, with the quotes it is shown."""
    text = request.messages[-1].text
    said = re.findall(r"^(analyst_\d) \(\w+\): (\d{4})", text, re.MULTILINE)
    quoted = {one for _, one in said if re.search(rf"“[^”]*{one}[^”]*”", text)}
    answers = sorted({one for _, one in said})
    disagreement = "; ".join(f"{who} says {one}" for who, one in said) if len(answers) > 1 else ""
    answer = next(iter(quoted), answers[0])
    return say(json.dumps({"answer": answer, "agreed": not disagreement, "disagreement": disagreement}))


class Hasty(Reader):
    """Answers without looking."""

    def act(self, request: ModelRequest) -> ModelResponse:
        return decide(calls=[call("done", answer="1111")])

    def round(self, system: str, material: str) -> Any:
        return {"go_on": False}


@pytest.mark.parametrize("agree", [pytest.param(True, marks=pytest.mark.long), False])
async def test_several_models_and_what_they_disagree_on(tmp_path: Path, code: str, agree: bool) -> None:
    (tmp_path / "codes.txt").write_bytes(source_of("txt", TOWN, code))
    careful, other, summariser = Reader("careful"), (Reader if agree else Hasty)("other"), ScriptedModel(merging)
    settings = Settings(analysis=AnalysisSettings(models=("careful", "other")))
    models = {"careful": careful, "other": other, "scripted": summariser}
    async with Workspace(tmp_path / "ws", models=models, settings=settings) as ws:
        result = await ws.run(
            f"What is the code of {TOWN}?",
            files=[tmp_path / "codes.txt"],
            system="deep_analyzer",
            model="careful",
            roles={"summariser": "scripted"},
        )
        assert (await ws.replay(result.run_id)).answer == result.answer
    assert (result.status, result.answer) == (RunStatus.COMPLETED, code), result.report
    assert len(summariser.requests) == 1 and len(careful.requests) == 3
    assert "analyst_1 is careful; analyst_2 is other" in result.report
    assert ("They disagree: analyst_1 says" in result.report) is not agree
    assert [one.source for one in result.sources] == ["codes.txt"]


@pytest.mark.long
async def test_the_time_ends_while_the_summariser_is_asked(tmp_path: Path, code: str) -> None:
    (tmp_path / "codes.txt").write_bytes(source_of("txt", TOWN, code))
    reached, patient = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def request(self, request: ModelRequest, **given: Any) -> ModelResponse:
            reached.set()
            await patient.wait()
            return await super().request(request, **given)

    settings = Settings(analysis=AnalysisSettings(models=("careful", "other")))
    models = {"careful": Reader("careful"), "other": Reader("other"), "scripted": Slow(merging)}
    given: dict[str, Any] = {"files": [tmp_path / "codes.txt"], "system": "deep_analyzer", "model": "careful"}
    async with Workspace(tmp_path / "ws", models=models, settings=settings) as ws:
        for seconds in (3.0, 10.0, 60.0):  # as slow as the machine is, the summariser is come to
            budget, roles = Budget(active_s=seconds), {"summariser": "scripted"}
            result = await ws.run(f"What is the code of {TOWN}?", budget=budget, roles=roles, **given)
            if reached.is_set():
                break
        paid = [len(models[one].requests) for one in ("careful", "other")]
        assert (result.status, result.answer) == (RunStatus.TIMED_OUT, code), result
        assert f"other: {code}" in result.report
        patient.set()
        result = await ws.resume(result.run_id, budget=Budget(active_s=600))
        assert (result.status, result.answer) == (RunStatus.COMPLETED, code)
        assert [len(models[one].requests) for one in ("careful", "other")] == paid, "nobody analyses twice"


# -- tasks without files -----------------------------------------------------------------------------------------------


def crossing(first: int, second: int) -> str:
    return (
        f"Of a two-digit number the digits add up to {first}, and it is greater by {second} than its digits in reverse "
        "order. Which number is it?"
    )


def reasoner(*, careless: bool) -> ScriptedModel:
    """Guesses first if it is careless; when told to look again it tries the cases."""

    def model(request: ModelRequest) -> ModelResponse:
        told = "\n".join(message.text for message in request.messages)
        assert "You solve tasks that have no files" in told
        task = re.search(r"add up to (\d+), and it is greater by (\d+)", told)
        assert task is not None
        outputs = [message.text for message in request.messages if message.role == "tool"]
        if printed := [one for one in outputs if re.fullmatch(r"\[\d+\]", one.strip())]:
            return decide(calls=[call("done", answer=printed[-1].strip("[] \n"))])
        if careless and "Check it in another way" not in told:
            return decide(calls=[call("done", answer="10")])
        cases = (
            f"[n for n in range(10, 100) if n // 10 + n % 10 == {task[1]} and n - (n % 10 * 10 + n // 10) == {task[2]}]"
        )
        return decide(calls=[call("python", code=cases)])

    return ScriptedModel(model)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("careless", [True, False])
async def test_a_task_without_files_is_computed_or_looked_at_twice(tmp_path: Path, careless: bool) -> None:
    tens, ones = CHANCE.sample(range(5, 10), 1)[0], CHANCE.randrange(0, 5)
    model = reasoner(careless=careless)
    async with Workspace(tmp_path / "ws", models={"scripted": model}) as ws:
        result, called = await run(ws, crossing(tens + ones, 9 * (tens - ones)))
    assert (result.status, result.answer) == (RunStatus.COMPLETED, f"{10 * tens + ones}")
    assert called == ["python"] and len(model.requests) == (3 if careless else 2)


async def test_the_limits_are_a_part_of_what_the_agent_is() -> None:
    assert deep_analyzer().content_hash == deep_analyzer(AnalysisSettings()).content_hash
    assert deep_analyzer().content_hash != deep_analyzer(AnalysisSettings(rounds=1)).content_hash
