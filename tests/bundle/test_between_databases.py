"""Every kind of run goes from SQLite to PostgreSQL and back: recorded, exported, imported, replayed, exported again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agentorchestra import Agent, RunContext, tool
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import ModelAuthError, ToolError
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, PartSettings, Price, Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.bundle.lines import to_line
from agentorchestra.log.store import PostgresStore, SqliteStore
from agentorchestra.log.store.references import names_in
from agentorchestra.log.store.schema import events as rows
from agentorchestra.log.store.sql import SqlStore
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.environment import ActionEnvironment, action
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.agents.debating import TOPIC, debater
from tests.postgres import Postgres
from tests.support.clock import FakeClock
from tests.support.runtime_waiting_mail import await_mail, two_clerks
from tests.support.society_plays import Cast, every_play

PROFILE = ModelProfile(model="scribe", price=Price(input=1.0, output=2.0))
EMOJI = "größer \U0001f600 \ud83d"  # the half of a pair too, as providers send them

SHELF = [
    [call("files_write", path="list/first.txt", content="first\n"), call("shelf_put", thing="box")],
    [call("files_write", path="list/second.txt", content="second\n"), call("shelf_put", thing="jar")],
    [call("done", answer="two of each")],
]

STEPS: dict[str, list[list[Any]]] = {
    "ask": [[call("consult", question="Which colour?")], [call("done", answer="asked")]],
    "offer": [[call("offer", to="ann@example.org", text="12 euros")], [call("done", answer="offered")]],
    "mail": [[call("await_mail")], [call("done", answer="read")]],
    "clerks": [[call("two_clerks")], [call("done", answer="both")]],
    "later": [[call("wait_until", seconds=3600)], [call("done", answer="late")]],
    "shelf": SHELF,
    "draw": [
        [call("draw", name="left.bin", size=80_000), call("draw", name="right.bin", size=3)],
        [call("nothing"), call("draw", name="no", size=-1)],
        [call("python", code="print(2 ** 200)")],
        [call("todo", action="create", steps=["a", EMOJI])],
        [call("done", answer=EMOJI)],
    ],
    "lead": [[call("clerk", task="draw")], [call("done", answer="led")]],
    "read": [[call("read_file", name="figures.csv")], [call("done", answer="12")]],
    "long": [[call("draw", name=f"{n}.bin", size=n)] for n in range(9)],
    "hang": [[call("hang")], [call("done", answer="never")]],
    "fail": [[call("draw", name="first", size=1)]],
}


def answer(request: ModelRequest) -> ModelResponse:
    """The next step of the task."""
    if request.settings.output_schema is not None:
        text = "\n".join(message.text for message in request.messages)
        return say(json.dumps({"score": 9 if "2.txt" in text else 1}))
    tasks = [place for place, message in enumerate(request.messages) if message.name == "task"]
    turn = request.messages[tasks[-1] if tasks else 0 :]  # of a session the last one
    said = sum(1 for message in turn if message.role == "assistant")
    user = "\n".join(message.text for message in turn if message.role == "user")
    if "def draw(" in request.messages[0].text:
        program = "done(answer=str(sizes))" if said else "sizes = [draw(name=f'{n}', size=n) for n in range(3)]"
        return say(f"```python\n{program}\n```")
    if "rival" in user:
        number = re.search(r"This is proposal (\d+)/", request.messages[-1].text)
        if said:
            return decide(calls=[call("done", answer="written")])
        name = number[1] if number else "1"
        return decide(calls=[call("files_write", path=f"{name}.txt", content=f"by {name}")])
    found = re.search(rf"\b({'|'.join(STEPS)})\b", user)
    assert found is not None, user
    if found[1] == "fail" and said:
        raise ModelAuthError("the key is not valid any more")
    if "two_clerks" not in [one.name for one in request.tools] and "await_mail" in [one.name for one in request.tools]:
        return decide(calls=[call("await_mail")] if not said else [call("done", answer="got mail")])
    return decide(memory=f"step {said} {EMOJI}", calls=STEPS[found[1]][said])


@tool(effect="composite")
async def consult(question: str, ctx: RunContext[Any]) -> str:
    """Ask the user."""
    return await ctx.ask(question)


@tool(effect="send")
def offer(to: str, text: str) -> str:
    """Send an offer."""
    return f"sent {text} to {to}"


@tool(effect="read", max_cost_usd=0.01)
async def draw(name: str, size: int, ctx: RunContext[Any]) -> ToolResult:
    """Draw a figure of so many bytes."""
    if size < 0:
        raise ToolError("a figure has a size")
    kept = await ctx.artifact(name, bytes(n % 256 for n in range(size)), "application/x-figure")
    return ToolResult(content={"drawn": name, "size": size}, artifacts=(kept,), cost_usd=0.001)


@tool(effect="execute")
async def hang(ctx: RunContext[Any]) -> str:
    """Work until the process ends."""
    HANGS.set()
    await asyncio.sleep(3600)
    return "never"


HANGS = asyncio.Event()


class Shelf(ActionEnvironment):
    """A shelf with things."""

    name = "shelf"

    def __init__(self) -> None:
        self.things: list[str] = []

    @action
    def put(self, thing: str) -> str:
        """Put a thing onto the shelf."""
        self.things.append(thing)
        return f"{len(self.things)} things"


def workspace(folder: Path, store: SqlStore, *models: ScriptedModel) -> Workspace[Any]:
    """A workspace with the tools, the agent and the environment; its clock stands."""
    folder.mkdir(parents=True)
    scribe = ScriptedModel(answer, name="scribe", profile=PROFILE)
    given = {one.name: one for one in (scribe, *models)}
    return Workspace(
        folder / "ws",
        tools=[consult, offer, draw, hang, await_mail, two_clerks],
        agents=[Agent("clerk", "Does what is asked.", tools=("draw",))],
        environments={"shelf": Shelf},
        models=given,
        settings=Settings(model="scribe", system="react", models=dict.fromkeys(given, PROFILE)),
        store=store,
        clock=FakeClock(),
        environ={},
    )


# -- the kinds of run --------------------------------------------------------------------------------------------------


async def ran(ws: Workspace[Any], task: str, status: RunStatus = RunStatus.COMPLETED, **options: Any) -> RunResult:
    """A run that ended so."""
    result = await ws.run(task, **options)
    assert result.status is status, result
    return result


async def resumed(ws: Workspace[Any], run: str, status: RunStatus = RunStatus.COMPLETED) -> None:
    """The same after a resume."""
    result = await ws.resume(run)
    assert result.status is status, result


async def question_open(ws: Workspace[Any], folder: Path) -> str:
    return (await ran(ws, "ask", RunStatus.WAITING)).run_id


async def question_answered(ws: Workspace[Any], folder: Path) -> str:
    run = await question_open(ws, folder)
    await ws.answer(run, EMOJI, by="ann")
    await resumed(ws, run)
    return run


async def approval_given(ws: Workspace[Any], folder: Path) -> str:
    run = (await ran(ws, "offer", RunStatus.WAITING)).run_id
    await ws.approve(run, by="ann")
    await resumed(ws, run)
    return run


async def approval_denied(ws: Workspace[Any], folder: Path) -> str:
    run = (await ran(ws, "offer", RunStatus.WAITING)).run_id
    await ws.deny(run, reason="too much", by="ann")
    await resumed(ws, run)
    return run


async def mail_from_outside(ws: Workspace[Any], folder: Path) -> str:
    run = (await ran(ws, "mail", RunStatus.WAITING)).run_id
    await ws.tell(run, "for the task")
    await ws.tell(run, f"the parcel is here {EMOJI}", to="react", by="ann")
    await resumed(ws, run)
    return run


async def mail_for_one_of_two(ws: Workspace[Any], folder: Path) -> str:
    run = (await ran(ws, "clerks", RunStatus.WAITING)).run_id
    await ws.tell(run, "for bob", to="bob")
    await resumed(ws, run, RunStatus.WAITING)
    return run


async def timer_set(ws: Workspace[Any], folder: Path) -> str:
    return (await ran(ws, "later", RunStatus.WAITING)).run_id


async def timer_over(ws: Workspace[Any], folder: Path) -> str:
    run = await timer_set(ws, folder)
    clock: Any = ws._clock
    clock.time += timedelta(hours=2)
    await resumed(ws, run)
    return run


async def environments(ws: Workspace[Any], folder: Path) -> str:
    return (await ran(ws, "shelf", environments=["files", "shelf"])).run_id


async def fork(ws: Workspace[Any], folder: Path) -> str:
    run = await environments(ws, folder)
    events = await ws.log.events(run)
    # Both stand at snapshots there, and a text of the prompt is replaced.
    at = next(one.seq for one in events if one.body and "env:folder" in one.body.get("outcome", {}).get("writes", {}))
    made = await ws.fork(run, at=at, labels={"of": "shelf"}, budget=Budget(steps=20))
    await resumed(ws, made)
    return made


async def fork_of_a_fork(ws: Workspace[Any], folder: Path) -> str:
    made = await ws.fork(await fork(ws, folder))
    await resumed(ws, made)
    return made


async def best_of_three(ws: Workspace[Any], folder: Path) -> str:
    return (await ran(ws, "rival", environments=["files"], parts=PartSettings(candidates=3))).run_id


async def beam(ws: Workspace[Any], folder: Path) -> str:
    parts = PartSettings(candidates=2, width=2)
    return (await ran(ws, "rival", environments=["files"], parts=parts)).run_id


async def artifacts(ws: Workspace[Any], folder: Path) -> str:
    return (await ran(ws, "draw", session=f"figures {EMOJI[:-1]}", labels={"for": "ann"})).run_id


async def of_a_session(ws: Workspace[Any], folder: Path) -> str:
    await ran(ws, "draw", session="figures")
    run = (await ran(ws, "lead", session="figures", system="agentorchestra")).run_id
    record = await ws.store.get_run(run)
    assert record is not None and [one.answer for one in record.manifest.earlier] == [EMOJI[:-1] + "?"]
    return run


async def given_files(ws: Workspace[Any], folder: Path) -> str:
    (folder / "figures.csv").write_text("year,figure\n1946,12\n", encoding="utf-8")
    return (await ran(ws, "read", files=[folder / "figures.csv"])).run_id


async def program(ws: Workspace[Any], folder: Path) -> str:
    return (await ran(ws, "draw", action="code")).run_id


async def debate(ws: Workspace[Any], folder: Path) -> str:
    options = {"experts": ["finance_expert", "mathematics_expert"], "rounds": 2}
    return (await ran(ws, TOPIC, system="debate", model=debater(), options=options)).run_id


async def society(ws: Workspace[Any], folder: Path) -> str:
    task, *lines = every_play()["invoice-total"]
    clock: Any = ws._clock
    speaks = ScriptedModel(Cast(lines, clock), name="speaker")
    return (await ran(ws, task.words, system="coral", model=speaks)).run_id


async def model_fails(ws: Workspace[Any], folder: Path) -> str:
    return (await ran(ws, "fail", RunStatus.FAILED)).run_id


async def steps_used_up(ws: Workspace[Any], folder: Path) -> str:
    result = await ws.run("long", budget=Budget(steps=3))
    assert result.status is not RunStatus.COMPLETED, result
    return result.run_id


async def interrupted(ws: Workspace[Any], folder: Path) -> str:
    HANGS.clear()
    run = await ws.create("hang", budget=Budget(cost_usd=5.0))
    driving = asyncio.create_task(ws.resume(run))
    while not HANGS.is_set():
        for question in await ws.runs.questions(run):
            await ws.approve(run, question=question.key)
        if driving.done():
            driving = asyncio.create_task(ws.resume(run))
        await asyncio.sleep(0.01)
    driving.cancel()
    await asyncio.wait([driving])
    assert "interrupted" in [one.type for one in await ws.log.events(run)]
    return run


async def paused(ws: Workspace[Any], folder: Path) -> str:
    run = await question_open(ws, folder)
    await ws.pause(run, reason="for today", by="ann")
    return run


async def cancelled(ws: Workspace[Any], folder: Path) -> str:
    run = await question_open(ws, folder)
    await ws.cancel(run, reason="not wanted", by="ann")
    return run


async def created(ws: Workspace[Any], folder: Path) -> str:
    return await ws.create("draw", labels={"never": "driven"})


KINDS: list[Callable[[Workspace[Any], Path], Awaitable[str]]] = [
    question_open,
    question_answered,
    approval_given,
    approval_denied,
    mail_from_outside,
    mail_for_one_of_two,
    timer_set,
    timer_over,
    environments,
    fork,
    fork_of_a_fork,
    best_of_three,
    beam,
    artifacts,
    of_a_session,
    given_files,
    program,
    debate,
    society,
    model_fails,
    steps_used_up,
    interrupted,
    paused,
    cancelled,
    created,
]


# -- there and back ----------------------------------------------------------------------------------------------------


async def contents(ws: Workspace[Any], run: str) -> dict[str, Any]:
    """All that a workspace has of a run but the time at which it came, and where its folder lies."""
    record = await ws.store.get_run(run)
    assert record is not None
    events: list[Event] = await ws.log.events(run)
    lines = b"".join(to_line(one) for one in events)
    names = sorted(names_in(lines) | names_in(record.manifest.model_dump_json()))
    held = {name: await ws.store.get_blob(name) for name in names if await ws.store.find_blobs([name])}
    result = await ws.runs.result(run)
    return {
        "record": record.model_copy(update={"imported": None}),
        "lines": lines,
        "blobs": held,
        "artifacts": {one.name: await ws.files.artifact(run, one.name) for one in result.artifacts},
        "result": result.model_copy(update={"folder": None}),
        "cost": (result.cost_usd, result.usage, result.usage_by_model),
        "questions": await ws.runs.questions(run),
    }


async def checksums(store: SqlStore, run: str) -> list[tuple[int, int]]:
    """What the database has beside each event."""
    chosen = select(rows.c.seq, rows.c.checksum).where(rows.c.run == run).order_by(rows.c.seq)
    return await store._read(lambda connection: [(one.seq, one.checksum) for one in connection.execute(chosen)])


@pytest.mark.sampled(18)
@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("there", ["postgres", "sqlite"])
async def test_a_run_is_the_same_in_the_other_database(
    there: str, kind: Any, tmp_path: Path, server: Postgres, schema: str
) -> None:
    stores: list[SqlStore] = [SqliteStore(tmp_path / "lite"), PostgresStore(server.url, schema=schema)]
    if there == "sqlite":
        stores.reverse()
    async with workspace(tmp_path / "here", stores[0]) as ws:
        run = await kind(ws, tmp_path)
        home, replayed = await contents(ws, run), await ws.replay(run)
        sums = await checksums(stores[0], run)
        assert all(value is not None for _, value in sums)
        exported = await ws.log.export(run, tmp_path / "first.zip")
    async with workspace(tmp_path / "there", stores[1]) as other:
        (imported,) = await other.log.import_file(exported.path)
        assert (imported.run_id, imported.identical) == (run, False)
        assert await contents(other, run) == home
        assert await checksums(stores[1], run) == sums
        assert await other.replay(run) == replayed
        again = await other.log.export(run, tmp_path / "second.zip")
    assert again.path.read_bytes() == exported.path.read_bytes()
    assert again.sha256 == exported.sha256
