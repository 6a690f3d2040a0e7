"""Every store: runs that were made elsewhere, queries of the log, what is known of blobs."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.store.support import TS, completed, created, done, manifest, owner, started, told

from agentorchestra.core.errors import DuplicateEventError, StoreError
from agentorchestra.core.events import Event, NewEvent
from agentorchestra.core.protocols import BlobInfo, RunRecord, Store
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import SqliteStore


def log(run: str, *events: NewEvent) -> list[Event]:
    return [
        Event(**{**event.model_dump(), "run": run, "seq": seq, "n": seq if event.n is None else event.n})
        for seq, event in enumerate(events, 1)
    ]


def record(run: str, events: list[Event], **changes: Any) -> RunRecord:
    return RunRecord(
        **{
            "id": run,
            "status": RunStatus.RUNNING,
            "manifest": manifest(session="s", parent_run="run_p", fork_seq=2),
            "next_seq": len(events) + 1,
            "created": TS - timedelta(days=400),
            "parent_run": "run_p",
            "fork_seq": 2,
            "imported": TS,
            **changes,
        }
    )


async def test_an_imported_run_has_its_rows_and_is_driven_on(store: Store) -> None:
    events = log("run_a", created(), started(1), completed(1, "\ud83d" + "x" * 40_000), told("\ud83d\ude00"))
    await store.import_run(record("run_a", events), events, epoch=7)
    assert await store.load("run_a") == events
    assert await store.get_run("run_a") == record("run_a", events)
    job = await store.job("run_a")
    assert job is not None and (job.owner, job.epoch, job.lease_until) == (None, 7, None)
    assert await store.claim("run_a", owner(), lease_s=30) == 8
    assert await done(store.append("run_a", 8, [completed(2)], status=RunStatus.COMPLETED)) == (5,)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda log: log[1:], "event 1 is number 2 of 'run_a'"),
        (lambda log: [log[1], log[0], log[2]], "event 1 is number 2 of 'run_a'"),
        (lambda log: log[:2], "it has 3 events, not 2"),
        (lambda log: [*log[:2], log[2].model_copy(update={"run": "run_b"})], "event 3 is number 3 of 'run_b'"),
    ],
)
async def test_no_part_of_a_log_is_imported(store: Store, spoil: Any, sentence: str) -> None:
    events = log("run_a", created(), started(1), completed(1))
    with pytest.raises(StoreError, match=sentence):
        await store.import_run(record("run_a", events), spoil(events), epoch=0)
    assert await store.get_run("run_a") is None


async def test_a_key_twice_or_a_run_that_is_there(store: Store) -> None:
    events = log("run_a", created(), completed(1), completed(1))
    with pytest.raises(DuplicateEventError, match="already holds a 'completed' event at /#1, attempt 1"):
        await store.import_run(record("run_a", events), events, epoch=0)
    assert await store.get_run("run_a") is None
    await store.create_run("run_a", manifest(), [created()])
    with pytest.raises(StoreError, match="already holds a run 'run_a'"):
        await store.import_run(record("run_a", events[:2]), events[:2], epoch=0)
    assert len(await store.load("run_a")) == 1


async def fill(store: Store) -> None:
    for run, session in (("run_1", "a"), ("run_2", None), ("run_3", "a")):
        events = log(
            run,
            created(),
            started(1, branch="/1.react"),
            completed(1, branch="/1.react"),
            completed(2, "x" * 30_000, branch="/1.react/0.worker"),
            completed(1, branch="/11.react"),
            completed(1, branch="/1.REACT"),
            told(),
        )
        events[5] = events[5].model_copy(update={"ts": TS + timedelta(hours=1)})
        await store.import_run(record(run, events, manifest=manifest(session=session)), events, epoch=0)


QUERIES: list[tuple[dict[str, Any], list[tuple[int, int]]]] = [
    ({}, [(run, seq) for run in (1, 2, 3) for seq in range(1, 8)]),
    ({"runs": ("run_2",)}, [(2, seq) for seq in range(1, 8)]),
    ({"runs": ()}, []),
    ({"session": "a", "first": 7}, [(1, 7), (3, 7)]),
    ({"session": "b"}, []),
    ({"record": "/1.react#1"}, [(run, seq) for run in (1, 2, 3) for seq in (2, 3)]),
    ({"record": "/1.react", "runs": ("run_1",)}, [(1, 2), (1, 3), (1, 4)]),
    ({"record": "/1", "runs": ("run_1",)}, [(1, 2), (1, 3), (1, 4), (1, 6)]),
    ({"record": "/", "runs": ("run_1",)}, [(1, seq) for seq in range(2, 7)]),
    ({"record": "/%"}, []),
    ({"first": 2, "last": 3, "runs": ("run_1", "run_3")}, [(1, 2), (1, 3), (3, 2), (3, 3)]),
    ({"types": ("told", "run_created"), "runs": ("run_1",)}, [(1, 1), (1, 7)]),
    ({"actor": "a", "runs": ("run_1",)}, [(1, 3), (1, 4), (1, 5), (1, 6)]),
    ({"holds": ('"text":"hello"', '"by":"me"')}, [(1, 7), (2, 7), (3, 7)]),
    ({"holds": ('"text":"hello"', '"by":"ME"')}, []),
    ({"holds": ("%",)}, []),
    ({"since": TS + timedelta(minutes=1)}, [(1, 6), (2, 6), (3, 6)]),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("query", "expected"), QUERIES)
async def test_queries(store: Store, query: dict[str, Any], expected: list[tuple[int, int]]) -> None:
    await fill(store)
    wanted = LogQuery(**query)

    def places(found: list[Event]) -> list[tuple[int, int]]:
        return [(int(event.run[-1]), event.seq) for event in found]

    assert places(await store.query(wanted)) == expected
    assert places(await store.query(wanted, limit=2)) == expected[:2]
    assert places(await store.query(wanted, limit=2, newest=True)) == expected[-2:]
    paged: list[Event] = []
    while page := await store.query(wanted, limit=3, after=(paged[-1].run, paged[-1].seq) if paged else None):
        paged += page
    assert places(paged) == expected
    loaded = {run: await store.load(run) for run in ("run_1", "run_2", "run_3")}
    assert all(event == loaded[event.run][event.seq - 1] for event in paged)


async def test_blobs_are_found_without_their_bytes(store: Store) -> None:
    small = await store.put_blob(b"{}", "application/json")
    large = await store.put_blob(b"x" * 50_000)
    names = [small, large, *(hashlib.sha256(str(number).encode()).hexdigest() for number in range(1200))]
    assert await store.find_blobs(names) == {
        small: BlobInfo(2, "application/json"),
        large: BlobInfo(50_000, "application/octet-stream"),
    }


async def test_an_older_workspace_gets_its_sessions(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    await store.create_run("run_a", manifest(session='of "offers"'), [created()])
    await store.create_run("run_b", manifest(), [created()])
    await store.close()
    with sqlite3.connect(tmp_path / "workspace.db") as connection:  # as the first format had it
        connection.execute("DROP INDEX ix_runs_session")
        connection.execute("DROP INDEX ix_runs_status")
        connection.execute("DROP TABLE writers")
        connection.execute("DROP TABLE components")
        connection.execute("ALTER TABLE blobs DROP COLUMN touched")
        connection.execute("ALTER TABLE runs DROP COLUMN session")
        connection.execute("ALTER TABLE runs DROP COLUMN imported")
        connection.execute("ALTER TABLE events DROP COLUMN checksum")
        connection.execute("DROP INDEX ix_runs_request_key")
        connection.execute("DROP INDEX ix_runs_accepted")
        for name in ("accepted", "request_key", "request_digest"):
            connection.execute(f"ALTER TABLE runs DROP COLUMN {name}")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.close()
    store = SqliteStore(tmp_path)
    await store.open()
    assert [one.run for one in await store.query(LogQuery(session='of "offers"'))] == ["run_a"]
    assert [one.imported for one in await store.list_runs()] == [None, None]
    await store.close()
    assert json.loads((await _manifest(tmp_path))["run_a"])["session"] == 'of "offers"'


async def _manifest(folder: Path) -> dict[str, str]:
    with sqlite3.connect(folder / "workspace.db") as connection:
        found = dict(connection.execute("SELECT id, manifest FROM runs").fetchall())
    connection.close()
    return found
