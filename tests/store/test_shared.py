"""What runs have in common is stored once: a manifest in its row, prompts, tools, schemas, system messages as blobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.store.support import TS, done, manifest

from agentorchestra import Workspace
from agentorchestra.cli import main
from agentorchestra.core.errors import LogChangedError, StoreError
from agentorchestra.core.events import EffectStarted, NewEvent, RunCreated, new_event
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import Pinned, RunManifest
from agentorchestra.log.store import MemoryStore, SqliteStore, writer
from agentorchestra.testing import ScriptedModel

HALF = "\ud83d"  # of a pair, as providers send them


def pinned(source: str = "") -> RunManifest:
    """A manifest whose prompts name blobs."""
    pins = {f"prompt_{n}": Pinned(version="1.0.0", content_hash=f"{n:064}", source=source) for n in range(20)}
    return manifest(prompts=pins, labels={"$blobs": "mine"})


def asked(n: int = 0, system: str = "You are careful. " * 100) -> NewEvent:
    """A request with a long system message and a catalogue of tools."""
    schemas = {"d1": {"name": "look", "description": f"Look about {HALF}. " * 100}}
    appended = [
        {"role": "system", "content": [{"text": system}]},
        {"role": "user", "content": [{"text": "the task " * 100}]},
    ]
    effect: dict[str, Any] = {
        "kind": "RequestModel",
        "request": {"model": "m", "prefix": "", "appended": appended, "schemas": schemas},
    }
    return new_event(EffectStarted(effect=effect, fingerprint="f"), ts=TS, branch="/", n=n)


def created(made: RunManifest) -> NewEvent:
    return new_event(RunCreated(manifest=made), ts=TS)


def tables(folder: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "workspace.db")) as connection, connection:
        return connection.execute(statement).fetchall()


async def test_every_store_gives_back_what_was_written(store: Store) -> None:
    made, events = pinned(), [created(pinned()), asked(), asked(1)]
    await store.create_run("run_1", made, events[:2])
    await done(store.append("run_1", 0, events[2:]))
    record = await store.get_run("run_1")
    assert record is not None and record.manifest == made
    loaded = await store.load("run_1", verify=True)
    assert [one.body for one in loaded] == [one.body for one in events]
    assert [one.manifest.labels for one in await store.list_runs()] == [made.labels]
    again = MemoryStore()
    await again.open()
    await again.import_run(record, loaded, epoch=0)
    assert await again.load("run_1") == loaded


async def test_a_message_from_elsewhere_names_no_blob_of_this_workspace(store: Store) -> None:
    private = await store.put_blob(b'"private"')
    event = asked(system="short")
    event.body["effect"]["request"]["appended"][1] |= {"$blobs": ["content"], "content": private}
    await store.create_run("run_1", pinned(), [event])
    (loaded,) = await store.load("run_1")
    assert loaded.body["effect"]["request"]["appended"][1]["content"] == private


async def test_an_event_of_an_earlier_version_keeps_its_manifest(store: Store) -> None:
    event = created(pinned())
    fields = {name: value for name, value in event.body["manifest"].items() if name != "checks"}
    old = event.model_copy(update={"body": {"manifest": fields}})
    await store.create_run("run_1", pinned(), [old])
    assert (await store.load("run_1", verify=True))[0].body == {"manifest": fields}


async def test_a_second_run_adds_no_blob(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    for run in ("run_1", "run_2"):
        await store.create_run(run, pinned(), [created(pinned()), asked()])
    await store.close()
    bodies = tables(tmp_path, "SELECT length(manifest) FROM runs UNION ALL SELECT length(body) FROM events")
    assert len(bodies) == 6 and max(bodies) < (2500,)
    assert tables(tmp_path, "SELECT count(*) FROM blobs") == [(3,)]  # prompts, system message, schemas


async def test_the_blobs_of_runs_are_kept_as_long_as_a_run_names_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TOUCHED_S", 0.0)
    source = await store.put_blob(b"the text of a prompt")
    for run in ("run_1", "run_2"):
        await store.create_run(run, pinned(source), [created(pinned(source)), asked()])
    loaded = await store.load("run_2")
    assert await store.delete_runs(["run_1"]) == ["run_1"]
    assert (await store.sweep_blobs(grace_s=0)).blobs == 0
    assert await store.load("run_2") == loaded
    assert await store.get_blob(source) == b"the text of a prompt"
    assert await store.delete_runs(["run_2"]) == ["run_2"]
    shared = 0 if isinstance(store, MemoryStore) else 3
    assert (await store.sweep_blobs(grace_s=0)).blobs == 1 + shared
    with pytest.raises(StoreError):
        await store.get_blob(source)


async def test_a_changed_manifest_is_found_and_damage_names_the_runs(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    source = await store.put_blob(b"the text of a prompt")
    await store.create_run("run_1", pinned(source), [created(pinned(source))])
    tables(tmp_path, "UPDATE runs SET manifest = replace(manifest, 'sheep', 'goats')")
    with pytest.raises(LogChangedError, match="the manifest in the row of run run_1 is not the one that event 1 names"):
        await store.load("run_1", verify=True)
    assert (await store.load("run_1"))[0].body["manifest"]["task"] == "count the goats"
    (damage,) = (await store.inspect()).damage
    assert damage.startswith(
        "run run_1: event 1 cannot be read (the log was changed: the manifest in the row of run run_1"
    )
    tables(tmp_path, "UPDATE runs SET manifest = replace(manifest, 'goats', 'sheep')")
    tables(tmp_path, f"UPDATE blobs SET data = x'00' WHERE sha256 = '{source}'")
    (damage,) = (await store.inspect()).damage
    assert damage.endswith("; named by run_1")
    tables(tmp_path, "UPDATE blobs SET data = x'5b5d' WHERE media_type = 'application/json'")
    damages = (await store.inspect()).damage
    await store.close()
    assert damages[0].startswith("run run_1: event 1 cannot be read (the blob ")
    assert any(one.startswith("the blob ") and one.endswith("; named by run_1") for one in damages[1:])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("system", ["react", "agentorchestra"])
async def test_a_run_of_one_request_adds_less_than_8_kib(tmp_path: Path, system: str) -> None:
    async def runs(ws: Workspace, count: int) -> int:
        for _ in range(count):
            result = await ws.run("Say yes.", system=system, model=ScriptedModel(["yes"]), finish="text")
            assert (result.answer, result.usage.requests) == ("yes", 1)
        tables(tmp_path, "PRAGMA wal_checkpoint(TRUNCATE)")
        return int(tables(tmp_path, "PRAGMA page_count")[0][0]) * 4096

    async with Workspace(tmp_path) as ws:
        before = await runs(ws, 2)
        files = sorted((tmp_path / "blobs").rglob("*"))
        assert (await runs(ws, 20) - before) / 20 < 8192
        assert sorted((tmp_path / "blobs").rglob("*")) == files


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, int, int]]:
    """Runs a command; how many statements it sent to the database, how many rows and characters it got."""
    seen = [0, 0, 0]
    connect = SqliteStore._connect

    def counting(self: SqliteStore) -> sqlite3.Connection:
        connection = connect(self)

        def row(_: sqlite3.Cursor, values: tuple[Any, ...]) -> tuple[Any, ...]:
            seen[1] += 1
            seen[2] += sum(len(one) for one in values if isinstance(one, str | bytes))
            return values

        def statement(text: str) -> None:
            seen[0] += text.lstrip().startswith(("SELECT", "WITH"))

        connection.row_factory = row
        connection.set_trace_callback(statement)
        return connection

    def run(*words: str) -> tuple[int, int, int]:
        seen[:] = [0, 0, 0]
        assert main([*words]) == 0
        return (seen[0], seen[1], seen[2])

    monkeypatch.setattr(SqliteStore, "_connect", counting)
    return run


async def grown(folder: Path, runs: int) -> str:
    """Add runs; the id of one."""
    async with Workspace(folder) as ws:
        model = ScriptedModel(["yes"] * runs)
        made = [await ws.run("Say yes.", system="react", model=model, finish="text") for _ in range(runs)]
    return made[0].run_id


@pytest.mark.long
def test_commands_on_one_run_read_that_run_and_lists_read_heads(
    tmp_path: Path, counted: Callable[..., tuple[int, int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    import asyncio

    where = ("--workspace", str(tmp_path))
    run = asyncio.run(grown(tmp_path, 3))
    commands = [("show", run), ("show", run[:-1]), ("cost", run), ("files", run)]
    before = [counted(*words, *where) for words in commands]
    lists = [("runs",), ("runs", "--json"), ("gc", "--dry-run")]
    few = [counted(*words, *where) for words in lists]
    asyncio.run(grown(tmp_path, 40))
    for words, cost in zip(commands, before, strict=True):
        assert counted(*words, *where) == cost, words
    for listing, (statements, rows, size) in zip(lists, few, strict=True):
        more = counted(*listing, *where)
        assert more[0] == statements, listing
        assert more[1] - rows <= 2 * 40 and more[2] - size < 40 * 2500, (listing, more)
    statements, _, size = counted("cost", *where)
    assert statements < 20 and size < 43 * 8192, (statements, size)
    assert "of 43 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "column", ["session = 'other'", "parent_run = 'run_9'", "created = replace(created, '6', '5')"]
)
async def test_changed_columns_of_a_row_are_found(tmp_path: Path, column: str) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    await store.create_run("run_1", pinned(), [created(pinned())])
    tables(tmp_path, f"UPDATE runs SET {column}")
    with pytest.raises(LogChangedError, match=f"`{column.split()[0]}` in the row of run run_1 is not the one"):
        await store.load("run_1", verify=True)
    assert "is not the one that event 1 names" in (await store.inspect()).damage[0]
    await store.close()


async def test_a_changed_row_of_an_earlier_version_is_found(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    await store.create_run("run_1", manifest("count the goats"), [created(manifest())])
    with pytest.raises(LogChangedError, match="the manifest in the row of run run_1 is not the one"):
        await store.load("run_1", verify=True)
    await store.close()
