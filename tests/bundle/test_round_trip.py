"""Events and whole runs on their way through files: nothing is lost or changed, whatever they hold; every store."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from agentorchestra.core.errors import BundleError, DivergedError
from agentorchestra.core.events import Answered, Event, NewEvent, Noted, RunCreated, Told, new_event
from agentorchestra.core.ids import new_run_id
from agentorchestra.core.protocols import RunRecord, Store
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import RunManifest, RunStatus
from agentorchestra.log.bundle.lines import from_line, to_line
from agentorchestra.log.store import MemoryStore, PostgresStore, SqliteStore
from agentorchestra.workspace import Workspace
from tests.bundle.support import drawing, here, other, recorded, settings
from tests.postgres import Postgres
from tests.support.examples import examples

TS = datetime(2026, 11, 5, 12, 30, 15, 123456, tzinfo=UTC)

# Halves of surrogate pairs too: providers send them, and bodies hold what they were given.
texts = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["\ud83d", "\ud83d\ude00", "\ude00\ud83d", "\0\x1b[2J\u202e"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
times = st.datetimes(
    datetime(2000, 1, 1),
    datetime(2100, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
bodies = (
    st.builds(lambda answer: Answered(question="/#1", answer=answer), values)
    | st.builds(lambda text: Told(text=text), texts)
    | st.builds(lambda text: Noted(message=text * 3000), texts)
)
events = st.lists(
    st.builds(lambda body, ts, actor: new_event(body, ts=ts, actor=actor), bodies, times, names), max_size=6
)


def log(run: str, new: list[NewEvent]) -> list[Event]:
    manifest = RunManifest(task="t", seed="s", created=TS, session="ä \U0001f600")
    created = new_event(RunCreated(manifest=manifest), ts=TS)
    return [
        Event(**{**one.model_dump(), "run": run, "seq": seq, "n": seq, "ts": one.ts.astimezone(UTC)})
        for seq, one in enumerate([created, *new], 1)
    ]


@given(events)
@limits(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_event_is_the_same_after_a_line(new: list[NewEvent]) -> None:
    for event in log(new_run_id(), new):
        line = to_line(event)
        assert line.count(b"\n") == 1
        assert from_line(line, "here") == event
        assert to_line(from_line(line, "here")) == line


@given(events)
@limits(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_run_is_the_same_after_a_bundle_and_after_lines(new: list[NewEvent]) -> None:
    async def there_and_back(folder: Path) -> None:
        run = new_run_id()
        written = log(run, new)
        manifest: RunManifest = written[0].data.manifest  # type: ignore[attr-defined]
        record = RunRecord(
            id=run, status=RunStatus.CREATED, manifest=manifest, next_seq=len(written) + 1, created=TS, imported=TS
        )
        async with Workspace(folder / "a", store=MemoryStore(), settings=settings(), environ={}) as one:
            await one.store.import_run(record, written, epoch=0)
            await one.log.export(run, folder / "run.zip")
            lines = b"".join([to_line(event) async for event in one.log.select()])
        (folder / "run.jsonl").write_bytes(lines)
        for name in ("run.zip", "run.jsonl"):
            async with Workspace(folder / name[-3:], store=MemoryStore(), settings=settings(), environ={}) as two:
                (done,) = await two.log.import_file(folder / name)
                assert (done.run_id, done.identical, done.events) == (run, False, len(written))
                assert await two.log.events(run) == written
                found = await two.store.get_run(run)
                assert found is not None and found.imported is not None
                assert found.model_copy(update={"imported": TS}) == record
                (again,) = await two.log.import_file(folder / name)
                assert again.identical
                assert b"".join([to_line(event) async for event in two.log.select()]) == lines

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(there_and_back(Path(folder)))


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[Store]:
    """Every store, not yet open; the workspace opens it."""
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "sqlite":
        yield SqliteStore(tmp_path / "other")
    else:
        server: Postgres = request.getfixturevalue("server")
        yield PostgresStore(server.url, schema=schema)


@pytest.mark.sampled(3)
async def test_a_bundle_made_on_sqlite_replays_from_every_store(tmp_path: Path, store: Store) -> None:
    async with here(tmp_path) as ws:
        result = await recorded(ws, tmp_path)
        await ws.log.export(result.run_id, tmp_path / "run.zip")
        log, home = await ws.log.events(result.run_id), await ws.replay(result.run_id)
    there = Workspace[None](tmp_path / "there", store=store, settings=settings(models={}), environ={})
    async with there:
        (done,) = await there.log.import_file(tmp_path / "run.zip")
        assert await there.log.events(done.run_id) == log
        assert await there.replay(done.run_id) == home
        assert (await there.runs.result(done.run_id)).answer == "three figures"
        assert len(await there.files.artifact(done.run_id, "left.bin")) == 80_000
        assert [event.seq async for event in there.log.select(task="FIGURES", limit=3)] == [
            event.seq for event in log[-3:]
        ]
        back = await there.log.export(done.run_id, tmp_path / "back.zip")
    async with Workspace(tmp_path / "third", settings=settings(models={}), environ={}) as third:
        await third.log.import_file(back.path)
        assert await third.log.events(done.run_id) == log
        assert await third.replay(done.run_id) == home


async def test_a_run_that_is_there_already_and_is_another(tmp_path: Path) -> None:
    async with here(tmp_path) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        await ws.log.export(run, tmp_path / "run.zip")
        lines = [to_line(event) async for event in ws.log.select()]
    changed = json.loads(lines[3])
    changed["actor"] = "somebody"
    (tmp_path / "other.jsonl").write_bytes(b"".join([*lines[:3], json.dumps(changed).encode() + b"\n", *lines[4:]]))
    async with Workspace(tmp_path / "there", settings=settings(), environ={}) as there:
        await there.log.import_file(tmp_path / "other.jsonl")
        with pytest.raises(BundleError) as caught:
            await there.log.import_file(tmp_path / "run.zip")
        assert str(caught.value) == (
            f"the workspace holds {run} already, with {len(lines)} events, of which the first 3 are those of the "
            f"{len(lines)} to be imported; import it into another --workspace, nothing was imported"
        )
        assert not (there.files.root / run / "files").exists()


async def test_files_of_events_are_refused_by_line(tmp_path: Path) -> None:
    async with here(tmp_path) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        lines = [to_line(event) async for event in ws.log.select()]
    path = tmp_path / "events.jsonl"
    cases: list[tuple[list[bytes], str]] = [
        ([*lines[:4], b"{not json}\n", *lines[5:]], f"line 5 of {path} is not JSON"),
        ([*lines[:4], *lines[5:]], f"line 5 of {path} is event 6 of {run} where event 5 belongs: only whole logs"),
        (lines[2:], f"line 1 of {path} is event 3 of {run} where event 1 belongs: only whole logs are imported"),
        ([*lines, b"[1]\n"], f"line {len(lines) + 1} of {path} is no event"),
        ([*lines, lines[-1]], f"line {len(lines) + 1} of {path} is event {len(lines)} of {run} where"),
        ([lines[0].replace(b"run_01", b"../_01")], f"line 1 of {path} is of a run named '../_01"),
        ([b"\n", b"  \n"], f"{path} holds no events"),
        ([lines[0][:-1].replace(b'"session":"reports"', b'"session":5'), b"\n"], f"line 1 of {path} cannot be read: "),
    ]
    async with Workspace(tmp_path / "there", settings=settings(), environ={}) as there:
        for spoilt, sentence in cases:
            path.write_bytes(b"".join(spoilt))
            with pytest.raises(BundleError) as caught:
                await there.log.import_file(path)
            assert str(caught.value).startswith(sentence)
            assert str(caught.value).endswith("nothing was imported")
            assert await there.runs.list() == []


async def test_several_runs_in_one_file_of_events(tmp_path: Path) -> None:
    async with here(tmp_path) as ws:
        first = (await recorded(ws, tmp_path, session="others")).run_id
        ws.models.add(drawing())
        second = (await recorded(ws, tmp_path)).run_id
        logs = {run: [to_line(event) async for event in ws.log.select() if event.run == run] for run in (first, second)}
    mixed = [line for pair in zip(logs[first], logs[second], strict=False) for line in pair]
    (tmp_path / "events.jsonl").write_bytes(b"".join(mixed))
    assert [len(one) for one in logs.values()] == [len(mixed) // 2] * 2
    async with other(tmp_path / "there") as there:
        assert len(await there.log.import_file(tmp_path / "events.jsonl")) == 2
        assert {
            run: [to_line(event) async for event in there.log.select(LogQuery(runs=(run,)))] for run in logs
        } == logs
        # Prompts and blobs do not come with events: a replay has today's prompts, and says where it differs.
        with pytest.raises(DivergedError, match=r"diverged at /1.react#\d+: the request to drawer differs"):
            await there.replay(first)
