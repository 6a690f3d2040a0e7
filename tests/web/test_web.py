"""Runs over HTTP: submit, status, events, answers, steering."""

from __future__ import annotations

import asyncio
import base64
import itertools
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from agentorchestra.core.events import RunEnded
from agentorchestra.core.settings import ServeSettings, Settings
from agentorchestra.testing import ScriptedModel
from agentorchestra.web import follow, queue
from agentorchestra.workspace import Workspace
from tests.support.patience import LONGEST_S
from tests.web.support import CODEWORD, SentEvent, consult, script, served

LEASE = "The rent is 900 euros per month.\nThe notice period is three months.\n"


async def test_a_task_with_a_file_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        body = {
            "task": "What is the notice period?",
            "model": "offline",
            "system": "react",
            "labels": {"team": "law"},
            "files": [{"name": "lease.txt", "content": base64.b64encode(LEASE.encode()).decode()}],
        }
        made = await web.post("/runs", body)
        run_id = made["run_id"]
        assert made["url"] == f"/runs/{run_id}" and made["events"] == f"/runs/{run_id}/events"
        found = await web.until(run_id, "completed")
        assert "three months" in found["result"]["answer"]
        assert found["result"]["sources"][0]["source"] == "lease.txt"
        assert (found["labels"], found["files"], found["questions"]) == ({"team": "law"}, ["lease.txt"], [])
        listed = (await web.get("/runs"))["runs"]
        assert [one["run_id"] for one in listed] == [run_id]
        assert (await web.ws.replay(run_id)).status == "completed"
        # Reports link to where a file lies: what was sent lies with the run.
        (ref,) = (await web.ws.store.get_run(run_id)).manifest.files  # type: ignore[union-attr]
        assert Path(ref.origin).read_text() == LEASE and Path(ref.origin).is_relative_to(tmp_path / "ws")


async def test_the_limits_of_a_task_hold(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("6 * 7?", budget={"steps": 1}, max_steps=7, session="s", finish="text")
        manifest = (await web.ws.store.get_run(run_id)).manifest  # type: ignore[union-attr]
        assert (manifest.budget.steps, manifest.max_steps, manifest.session) == (1, 7, "s")
        assert manifest.finish == "text"


async def _read(events: Any, most: int | None = None) -> list[SentEvent]:
    found: list[SentEvent] = []
    async for event in events:
        found.append(event)
        if len(found) == most:
            break
    return found


async def test_events_are_the_log_and_live_ones_follow(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN gate")
        await web.gate.reached()
        async with web.events(run_id) as events:
            # The run stands at the gate: what has been read now was there, what follows is live.
            seen = [await anext(events)]
            while "wait_at_gate" not in str(seen[-1].data) or seen[-1].kind == "run_created":
                seen.append(await anext(events))
            web.gate.open.set()
            seen += await _read(events)
        assert seen[-1].kind == "end" and seen[-1].id is None
        assert seen[-1].data == {"run_id": run_id, "status": "completed"}
        log = await web.ws.log.events(run_id)
        assert [one.id for one in seen[:-1]] == [one.seq for one in log] == list(range(1, len(log) + 1))
        assert [one.data for one in seen[:-1]] == [one.model_dump(mode="json") for one in log]
        assert [one.kind for one in seen[:-1]] == [one.type for one in log]


async def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN gate")
        await web.gate.reached()
        async with web.events(run_id) as events:
            first = await _read(events, 2)
        web.gate.open.set()
        await web.until(run_id, "completed")
        total = len(await web.ws.log.events(run_id))
        got: list[int] = [one.id for one in first if one.id is not None]
        for size in itertools.cycle((1, 2, 3)):
            async with web.events(run_id, last=got[-1]) as events:
                more = await _read(events, size)
            got += [one.id for one in more if one.id is not None]
            if more[-1].kind == "end":
                break
        assert got == list(range(1, total + 1))
        async with web.events(run_id, last=total) as events:
            assert [one.kind for one in await _read(events)] == ["end"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("last", ["-1", "x", "99999", "1.5"])
async def test_a_last_event_that_cannot_be_is_refused(tmp_path: Path, last: str) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("6 * 7?")
        await web.until(run_id, "completed")
        headers = {"Last-Event-ID": last}
        async with web.http.get(f"{web.address}/runs/{run_id}/events", headers=headers) as answer:
            assert answer.status == 400
            assert f"Last-Event-ID is {last!r}".replace("'99999'", "99999") in (await answer.json())["error"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_run_that_another_process_drives_is_followed(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, schema: str, store: str
) -> None:
    # A stream that reads because time is over reads nothing here: the store tells it to read.
    monkeypatch.setattr(follow, "ALIVE_S", 1e6)
    database = request.getfixturevalue("server").url if store == "postgres" else None
    # Another workspace over the same log has its own connections, log writer and engine.
    models = {"scripted": ScriptedModel(script)}
    settings = Settings(database=None if database is None else SecretStr(database), database_schema=schema)
    async with (
        served(tmp_path, database=database, schema=schema) as web,
        Workspace(tmp_path / "ws", tools=[consult], models=models, settings=settings) as other,
    ):
        run_id = await other.create("PLAN ask", model="scripted", system="react")
        async with web.events(run_id) as events:
            assert (await anext(events)).kind == "run_created"
            assert (await other.resume(run_id)).status == "waiting"
            kinds = [(await anext(events)).kind]
            while kinds[-1] != "run_ended":
                kinds.append((await anext(events)).kind)
            await other.answer(run_id, "blue")
            assert (await other.resume(run_id)).status == "completed"
            rest = [one.kind for one in await _read(events)]
        assert kinds[0] == "driving_started" and "started" in kinds
        assert rest[:2] == ["answered", "driving_started"] and rest[-2:] == ["run_ended", "end"]


async def test_a_question_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN ask")
        found = await web.until(run_id, "waiting")
        (question,) = found["questions"]
        assert (question["kind"], question["question"]) == ("question", "Which colour?")
        named = {"question": question["key"], "code": "00000000"}
        refused = await web.post(f"/runs/{run_id}/approve", named, status=409)
        assert refused["error_type"] == "AnswerError" and question["key"] in refused["error"]
        refused = await web.post(f"/runs/{run_id}/answer", {"answer": "red", "question": "/9#9"}, status=409)
        assert "/9#9" in refused["error"]
        taken = await web.post(f"/runs/{run_id}/answer", {"answer": "blue", "question": question["key"]})
        assert taken["question"] == question["key"]
        found = await web.until(run_id, "completed")
        assert found["result"]["answer"] == "The tools said: blue"
        assert (await web.post(f"/runs/{run_id}/answer", {"answer": "red"}, status=409))["error_type"] == "AnswerError"
        (answered,) = [one for one in await web.ws.log.events(run_id) if one.type == "answered"]
        assert answered.body["by"] == "web"


@pytest.mark.long
async def test_an_answer_is_taken_up_by_whoever_drives_the_run(tmp_path: Path) -> None:
    models = {"scripted": ScriptedModel(script)}
    async with served(tmp_path) as web:
        tools = [consult, web.gate.wait_at_gate]
        async with Workspace(tmp_path / "ws", tools=tools, models=models) as other:
            run_id = await other.create("PLAN both", model="scripted", system="react")
            driving = asyncio.create_task(other.resume(run_id))
            await web.gate.reached()
            await web.asked(run_id)
            await web.post(f"/runs/{run_id}/answer", {"answer": "blue"})
            web.gate.open.set()
            assert (await driving).answer == "The tools said: blue | the gate is open"
        assert (await web.get(f"/runs/{run_id}"))["status"] == "completed"


@pytest.mark.long
async def test_an_answer_that_comes_while_siblings_work_is_enough(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN both")
        await web.gate.reached()
        await web.asked(run_id)
        await web.post(f"/runs/{run_id}/answer", {"answer": "blue"})
        web.gate.open.set()
        found = await web.until(run_id, "completed")
        assert found["result"]["answer"] == "The tools said: blue | the gate is open"


async def test_the_head_of_a_stream_has_no_body(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN gate")
        async with web.http.head(f"{web.address}/runs/{run_id}/events") as answer:
            assert (answer.status, answer.content_type, await answer.read()) == (200, "text/event-stream", b"")


@pytest.mark.long
async def test_a_stream_stays_open_while_a_run_waits(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN ask")
        async with web.events(run_id) as events:
            async for event in events:
                if event.kind == "run_ended":
                    break
            assert event.data["body"]["status"] == "waiting"
            await web.post(f"/runs/{run_id}/answer", {"answer": "blue"})
            kinds = [one.kind for one in await _read(events)]
        assert kinds[:2] == ["answered", "driving_started"] and kinds[-1] == "end"


async def test_an_approval_lets_it_act_and_a_denial_does_not(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN mail")
        (question,) = (await web.until(run_id, "waiting"))["questions"]
        assert question["kind"] == "approval" and "send_mail" in question["question"] and web.outbox.sent == []
        await web.post(f"/runs/{run_id}/approve", {"question": question["key"], "code": question["code"]})
        await web.until(run_id, "completed")
        assert web.outbox.sent == ["eve@example.org: the code is 4711"]
        run_id = await web.submit("PLAN mail")
        await web.until(run_id, "waiting")
        await web.post(f"/runs/{run_id}/deny", {"reason": "not to eve"})
        found = await web.until(run_id, "completed")
        assert "not to eve" in found["result"]["answer"] and len(web.outbox.sent) == 1


async def test_an_approval_that_is_sent_again_allows_no_other_call(tmp_path: Path) -> None:
    first, second = "eve@example.org: the code is 4711", "eve@example.org: the code is 9422"
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN two mails")
        address = f"/runs/{run_id}/approve"
        (question,) = (await web.until(run_id, "waiting"))["questions"]
        named = {"question": question["key"], "code": question["code"]}
        for body in (None, {}, {"question": question["key"]}, {"code": question["code"]}):
            refused = await web.post(address, body, status=422)
            assert "the fields here: question, code" in refused["error"]
        await web.post(address, named)
        other = await web.next_question(run_id, question["key"])
        assert (web.outbox.sent, other["code"] != question["code"]) == ([first], True)
        refused = await web.post(address, named, status=409)
        assert "was answered already by web" in refused["error"]
        mixed = {"question": other["key"], "code": question["code"]}
        refused = await web.post(address, mixed, status=409)
        assert refused["error"] == (
            f"run {run_id} has no open approval {other['key']} with the code {question['code']!r} to approve or deny; "
            f"open: {other['key']} (approval, code {other['code']}): {other['question']}"
            + refused["error"].partition(other["question"])[2]
        )
        assert web.outbox.sent == [first]
        await web.post(address, {"question": other["key"], "code": other["code"]})
        await web.until(run_id, "completed")
        assert web.outbox.sent == [first, second]


@pytest.mark.long
async def test_nothing_drives_a_run_any_more_that_was_answered_and_is_over(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN ask")
        await web.until(run_id, "waiting")
        await web.post(f"/runs/{run_id}/answer", {"answer": "blue"})
        await web.until(run_id, "completed")
        driving = [task for task in asyncio.all_tasks() if task.get_name() == f"web:{run_id}"]
        if driving:
            await asyncio.wait(driving, timeout=LONGEST_S)
        assert all(task.done() for task in driving)


@pytest.mark.long
async def test_an_answer_and_the_look_for_due_runs_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "POLL_S", 0.0005)
    async with served(tmp_path) as web:
        for colour in ("blue", "red", "green"):
            run_id = await web.submit("PLAN ask")
            await web.until(run_id, "waiting")
            await web.post(f"/runs/{run_id}/answer", {"answer": colour})
            found = await web.until(run_id, "completed")
            assert found["result"]["answer"] == f"The tools said: {colour}"
            # The question before the answer, and what was done with it: no job was begun twice.
            assert [one.type for one in await web.ws.log.events(run_id)].count("driving_started") == 2


async def test_a_run_is_cancelled_and_goes_on_after_a_resume(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN gate")
        await web.gate.reached()
        refused = await web.post(f"/runs/{run_id}/resume", status=409)
        assert refused["error_type"] == "FencedError" and run_id in refused["error"]
        async with web.events(run_id) as events:
            await web.post(f"/runs/{run_id}/cancel", {"reason": "enough"})
            kinds = [one.data for one in await _read(events)]
        assert kinds[-1] == {"run_id": run_id, "status": "cancelled"}
        web.gate.open.set()
        await web.post(f"/runs/{run_id}/resume")
        found = await web.until(run_id, "completed")
        assert found["result"]["answer"] == "The tools said: the gate is open"
        assert (await web.post(f"/runs/{run_id}/cancel"))["status"] == "completed"


async def test_a_run_is_paused_and_goes_on_only_by_a_resume(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN both")
        await web.gate.reached()
        await web.asked(run_id)
        assert (await web.post(f"/runs/{run_id}/pause", {"reason": "lunch"}))["status"] == "running"
        web.gate.open.set()
        found = await web.until(run_id, "paused")
        (question,) = found["questions"]
        assert (await web.post(f"/runs/{run_id}/pause"))["status"] == "paused"
        answered = await web.post(f"/runs/{run_id}/answer", {"answer": "blue"})
        assert (answered["question"], answered["status"]) == (question["key"], "paused")
        await web.post(f"/runs/{run_id}/resume")
        found = await web.until(run_id, "completed")
        assert found["result"]["answer"] == "The tools said: blue | the gate is open"
        refused = await web.post(f"/runs/{run_id}/pause", status=409)
        assert refused["error"] == f"run {run_id} is not under way (completed): there is nothing to pause"
        await web.post("/runs/run_x/pause", status=404)


@pytest.mark.long
async def test_a_resume_brings_another_budget(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("6 * 7?", budget={"tokens": 10})
        async with web.events(run_id) as events:
            assert (await _read(events))[-1].data["status"] == "budget_exhausted"
        await web.post(f"/runs/{run_id}/resume", {"budget": {"tokens": 100_000}})
        found = await web.until(run_id, "completed")
        assert "42" in found["result"]["answer"]


async def test_what_is_told_reaches_the_agent(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN gate")
        await web.gate.reached()
        await web.post(f"/runs/{run_id}/tell", {"text": "only the open ones"})
        web.gate.open.set()
        found = await web.until(run_id, "completed")
        assert found["result"]["answer"].endswith("the user added: only the open ones")
        refused = await web.post(f"/runs/{run_id}/tell", {"text": "more"}, status=409)
        assert "is over (completed)" in refused["error"]


@pytest.mark.long
async def test_many_clients_at_once_get_their_own_answers(tmp_path: Path) -> None:
    async with served(tmp_path) as web:

        async def client(colour: str) -> None:
            async with aiohttp.ClientSession(headers=web.http.headers) as http:
                mine = type(web)(web.address, web.ws, web.app, http)
                run_id = await mine.submit("PLAN ask")
                await mine.until(run_id, "waiting")
                async with mine.events(run_id) as events:
                    await mine.post(f"/runs/{run_id}/answer", {"answer": colour})
                    seen = await _read(events)
                assert [one.id for one in seen[:-1]] == list(range(1, len(seen)))
                found = await mine.get(f"/runs/{run_id}")
                assert found["result"]["answer"] == f"The tools said: {colour}"

        await asyncio.gather(*(client(colour) for colour in ("red", "green", "blue", "grey")))
        assert len((await web.get("/runs?limit=3"))["runs"]) == 3
        assert len((await web.get("/runs"))["runs"]) == 4


async def test_a_failed_run_says_why_and_its_stream_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN fail")
        async with web.events(run_id) as events:
            assert (await _read(events))[-1].data["status"] == "failed"
        result = (await web.get(f"/runs/{run_id}"))["result"]
        assert (result["error_type"], result["error"]) == ("ModelAuthError", "the provider refused the key")


async def test_secrets_leave_by_no_way(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit(f"PLAN ask {CODEWORD}", labels={"word": CODEWORD})
        await web.until(run_id, "waiting")
        await web.post(f"/runs/{run_id}/tell", {"text": f"it is {CODEWORD}"})
        await web.post(f"/runs/{run_id}/answer", {"answer": CODEWORD})
        found = await web.until(run_id, "completed")
        async with web.events(run_id) as events:
            seen = str([one.data for one in await _read(events)])
        shown = str([found, await web.get("/runs"), seen])
        assert CODEWORD not in shown and found["result"]["answer"] == "The tools said: secret:CODEWORD"


async def test_questions_can_be_denied_from_the_start(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        run_id = await web.submit("PLAN mail", on_ask="deny")
        await web.until(run_id, "completed")
        assert web.outbox.sent == []


@pytest.mark.long
async def test_the_end_of_the_server_hands_runs_on_to_the_next_one(tmp_path: Path) -> None:
    kinds: list[str] = []
    reads = asyncio.Event()

    async def stay() -> None:
        async with web.events(run_id) as events:
            async for event in events:
                kinds.append(event.kind)
                reads.set()

    async with served(tmp_path, serve=ServeSettings(stop_s=0)) as web:
        run_id = await web.submit("PLAN gate")
        await web.gate.reached()
        reading = asyncio.create_task(stay())
        await reads.wait()
        web.app.stop()
        await reading
        assert "run_ended" not in kinds and "end" not in kinds
    assert not web.ws.is_open
    async with served(tmp_path) as web:
        web.gate.open.set()  # nobody asks for it: it goes on by itself
        found = await web.until(run_id, "completed")
        assert found["result"]["answer"] == "The tools said: the gate is open"
        ends = [one.data.status for one in await web.ws.log.events(run_id) if isinstance(one.data, RunEnded)]
        assert ends == ["running", "completed"]


async def test_a_session_goes_on_over_http(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        first = await web.submit("PLAN gate", session="s")
        await web.gate.reached()
        refused = await web.post("/runs", {"task": "6 * 7?", "session": "s"}, status=409)
        assert f"the turn {first} of the session 's' is under way" in refused["error"]
        web.gate.open.set()
        await web.until(first, "completed")
        second = await web.submit("6 * 7?", session="s")
        await web.until(second, "completed")
        assert (await web.ws.store.get_run(second)).manifest.previous == first  # type: ignore[union-attr]
        over = await web.post(f"/runs/{second}/tell", {"text": "more"}, status=409)
        assert f"agentorchestra run --continue {second}" in over["error"]
