"""The histories of components: what every store does, what is left of a crash, many writers at once."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError
from tests.postgres import Postgres
from tests.store.proxy import Proxy
from tests.store.support import TS, completed, created, done, finish, manifest, python, store_at

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import ComponentConflictError, StoreError, StoreFullError
from agentorchestra.core.protocols import Store
from agentorchestra.log.store import MemoryStore, PostgresStore, SqliteStore, writer


def change(name: str = "search", seq: int = 1, kind: str = "tool", type_: str = "registered", **body: Any) -> Any:
    return ComponentChange(kind=kind, name=name, seq=seq, ts=TS, type=type_, body=body)


def several(name: str, first: int, last: int, kind: str = "tool") -> list[ComponentChange]:
    return [change(name, seq, kind) for seq in range(first, last + 1)]


# --- the contract -------------------------------------------------------------------------------


async def test_entries_are_read_as_they_were_written(store: Store) -> None:
    assert await store.component_changes() == []
    assert await store.component_heads() == {}
    body: dict[str, Any] = {
        "text": "größer ☃ \0 \ud800",
        "n": [1, 2.5, None, True],
        "deep": {"a": {"b": []}},
        "long": "x" * 100_000,
    }
    new = [change("b", 1, **body), change("a", 1, "prompt"), change("b", 2, type_="hidden"), change("a", 1)]
    await store.record_components(new)
    found = await store.component_changes()
    assert found == sorted(new, key=lambda one: (one.kind, one.name, one.seq))
    assert found[-2].body == body
    assert await store.component_heads() == {("tool", "b"): 2, ("prompt", "a"): 1, ("tool", "a"): 1}
    assert await store.component_count() == 4
    await store.record_components([])
    assert await store.component_changes() == found


async def test_some_histories(store: Store) -> None:
    await store.record_components([*several("a", 1, 3), *several("b", 1, 1), *several("a", 1, 2, "agent")])
    await store.record_components(several("a", 4, 5))
    assert await store.component_changes([("tool", "a"), ("tool", "none")]) == several("a", 1, 5)
    both = [*several("a", 1, 2, "agent"), *several("b", 1, 1)]
    assert await store.component_changes([("tool", "b"), ("agent", "a"), ("tool", "b")]) == both
    assert await store.component_changes(kind="agent") == several("a", 1, 2, "agent")
    assert await store.component_changes([("tool", "b"), ("agent", "a")], kind="tool") == several("b", 1, 1)
    assert await store.component_changes([]) == []
    assert await store.component_changes(kind="memory") == []


@pytest.mark.sampled(2)
async def test_more_than_one_query_can_name(store: Store) -> None:
    names = [f"tool_{i:04}" for i in range(1500)]
    await store.record_components([one for name in reversed(names) for one in several(name, 1, 2)])
    await store.record_components([change(name, 3) for name in names])
    assert await store.component_heads() == {("tool", name): 3 for name in names}
    found = await store.component_changes([("tool", name) for name in reversed(names)])
    assert found == [one for name in names for one in several(name, 1, 3)]
    with pytest.raises(ComponentConflictError, match="entry 3 of tool 'tool_1499'"):
        await store.record_components([*(change(name, 4) for name in names[:-1]), change(names[-1], 3)])
    assert len(await store.component_changes()) == 4500


async def test_names_are_compared_letter_for_letter(store: Store) -> None:
    names = ["a", "A", "a ", "ä", "B", "_", "a.b", "a%b"]
    await store.record_components([change(name) for name in names])
    assert [one.name for one in await store.component_changes()] == sorted(names)
    assert [one.name for one in await store.component_changes([("tool", "a"), ("tool", "a%b")])] == ["a", "a%b"]


async def test_times_are_kept_in_utc(store: Store) -> None:
    early = TS.astimezone(timezone(timedelta(hours=5, minutes=30)))
    await store.record_components([change().model_copy(update={"ts": early})])
    (found,) = await store.component_changes()
    assert found.ts == TS and found.ts.utcoffset() == timedelta(0)
    with pytest.raises(StoreError, match="has no zone"):
        await store.record_components([change(seq=2).model_copy(update={"ts": TS.replace(tzinfo=None)})])


async def test_a_body_is_what_it_was_when_it_was_recorded(store: Store) -> None:
    one = change(values=[1])
    await store.record_components([one])
    one.body["values"].append(2)
    (found,) = await store.component_changes()
    assert found.body == {"values": [1]}
    found.body["values"] = "mine"
    assert (await store.component_changes())[0].body == {"values": [1]}
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises(StoreError, match="entry 2 of tool 'search' is not JSON"):
        await store.record_components([ComponentChange.model_construct(**{**dict(change(seq=2)), "body": circle})])


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        ([change("a", 2)], "entry 2 of tool 'a' was written by somebody else meanwhile (its history has 2 entries)"),
        ([change("a", 4)], "the history of tool 'a' has 2 entries, so the next one is 3 and not 4"),
        ([change("c", 2)], "the history of tool 'c' has 0 entries, so the next one is 1 and not 2"),
        ([change("a", 3), change("a", 3)], "entry 3 of tool 'a' was written by somebody else meanwhile"),
        ([change("a", 3), change("a", 5)], "the history of tool 'a' has 3 entries, so the next one is 4 and not 5"),
        ([change("a", 1, "agent"), change("b", 1)], "entry 1 of tool 'b' was written by somebody else meanwhile"),
    ],
)
async def test_a_place_that_is_not_the_next(store: Store, batch: list[ComponentChange], sentence: str) -> None:
    await store.record_components([change("a", 1), change("a", 2), change("b", 1)])
    before = await store.component_changes()
    fits = [change("new", 1), change("b", 2)]
    with pytest.raises(ComponentConflictError) as raised:
        await store.record_components([*fits, *batch] if batch[-1].name != "b" else [fits[0], *batch])
    assert str(raised.value).startswith(sentence)
    assert str(raised.value).endswith("nothing was written. Read it again, then try again")
    assert await store.component_changes() == before
    # Its neighbours in the same group commit are not touched.
    attempts = [store.record_components(batch), store.record_components(fits), store.record_components(batch)]
    refused, kept, again = await asyncio.gather(*attempts, return_exceptions=True)
    assert kept is None
    assert isinstance(refused, ComponentConflictError) and isinstance(again, ComponentConflictError)
    assert await store.component_heads() == {("tool", "a"): 2, ("tool", "b"): 2, ("tool", "new"): 1}
    assert await store.component_count() == 5


async def test_beside_runs(store: Store) -> None:
    """In the same group commits as events, and not deleted with runs."""
    await store.create_run("run_1", manifest(), [created()])
    futures = [store.append("run_1", 0, [completed(n)]) for n in range(20)]
    await asyncio.gather(*(store.record_components([change(seq=seq)]) for seq in range(1, 21)), *map(done, futures))
    assert [event.seq for event in await store.load("run_1")] == list(range(1, 22))
    assert await store.delete_runs(["run_1"]) == ["run_1"]
    assert await store.component_heads() == {("tool", "search"): 20}


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    for store in (MemoryStore(), SqliteStore(tmp_path)):
        with pytest.raises(StoreError, match="is not open"):
            await store.record_components([change()])
        await store.open()
        await store.close()
        for attempt in (store.record_components([change()]), store.component_changes(), store.component_heads()):
            with pytest.raises(StoreError, match="closed"):
                await attempt


PLACES = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 4)), max_size=5)


@settings(max_examples=15, deadline=None)
@given(batches=st.lists(PLACES, max_size=6))
def test_the_memory_store_and_a_database_do_the_same(batches: list[list[tuple[str, int]]]) -> None:
    import tempfile

    async def play(store: Store) -> list[Any]:
        await store.open()
        said: list[Any] = []
        for batch in batches:
            try:
                await store.record_components([change(name, seq) for name, seq in batch])
            except ComponentConflictError as exc:
                said.append(str(exc))
        said += [await store.component_heads(), await store.component_changes()]
        await store.close()
        return said

    with tempfile.TemporaryDirectory() as folder:
        played = asyncio.run(play(SqliteStore(Path(folder))))
    assert played == asyncio.run(play(MemoryStore()))
    # The places of every history are 1, 2, 3, ...
    names = Counter(one.name for one in played[-1])
    assert played[-2] == {("tool", name): count for name, count in names.items()}


# --- what they refer to -------------------------------------------------------------------------


async def test_what_a_history_refers_to_is_no_garbage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TOUCHED_S", 0.0)
    texts = ["source", "blob", "one", "two", "inner", "old", "free", "in-a-run"]
    source, blob, one, two, inner, old, free, run = [await store.put_blob(text.encode()) for text in texts]
    listing = await store.put_blob(json.dumps({"files": {"a.py": inner}}).encode(), "application/json")
    await store.record_components([change("many", seq) for seq in range(1, 450)])  # more than one page
    await store.record_components(
        [
            change("a", 1, source=old),
            change("a", 2, source=source, blob=blob),
            change("z", 1, blobs=[one, two, listing]),
        ]
    )
    await store.create_run("run_1", manifest(labels={"pin": run}), [])
    assert await store.sweep_blobs(grace_s=0, dry_run=True) == (1, 4)
    assert await store.sweep_blobs(grace_s=0) == (1, 4)
    for kept in (source, blob, one, two, inner, old, listing, run):
        await store.get_blob(kept)
    with pytest.raises(StoreError):
        await store.get_blob(free)


# --- what a crash, a full disk and a lost answer leave ------------------------------------------


async def test_a_full_disk_leaves_nothing_of_a_batch(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, max_bytes=400_000)
    await store.open()
    await store.record_components([change("small")])
    with pytest.raises(StoreFullError, match="no space left for the log in the workspace"):
        await store.record_components([change(f"tool_{i}", text="x" * 10_000) for i in range(60)])
    assert await store.component_heads() == {("tool", "small"): 1}
    await store.record_components([change("small", 2)])
    await store.close()


async def test_an_error_of_the_database_is_no_conflict(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    with closing(sqlite3.connect(store.database)) as connection, connection:
        connection.execute("DROP TABLE components")
    with pytest.raises(StoreError, match="no such table: components") as raised:
        await store.record_components([change()])
    assert not isinstance(raised.value, ComponentConflictError)
    assert isinstance(raised.value.__cause__, OperationalError)
    await store.close()


@pytest.mark.parametrize("lose", ["answer", "commit"])
async def test_what_commit_did_not_answer_is_recorded_once(lose: str, server: Postgres, schema: str) -> None:
    """Tried blindly again it would be a conflict with itself."""
    with Proxy(server.port) as proxy:
        address = server.tcp().replace(str(server.port), str(proxy.port))
        store = PostgresStore(address, schema=schema, retry_s=60)
        await store.open()
        for seq in range(1, 4):
            proxy.lose = lose
            await store.record_components([change("a", seq), change("b", seq)])
            assert proxy.lost == seq
        assert await store.component_changes() == [*several("a", 1, 3), *several("b", 1, 3)]
        await store.close()


# --- many writers -------------------------------------------------------------------------------


WRITERS = """
import asyncio, random, sys
from datetime import datetime, UTC
from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import ComponentConflictError
from tests.store.support import store_at

async def writer(store, me):
    chance = random.Random(me)
    accepted = refused = 0
    while accepted < 2:
        batch = [("tool" if one % 2 else "agent", f"c{one}") for one in chance.sample(range(60), 3)]
        heads = await store.component_heads()
        names = [*batch, batch[0]]
        seqs = [heads.get(one, 0) + 1 for one in batch] + [heads.get(batch[0], 0) + 2]
        try:
            await store.record_components([
                ComponentChange(kind=kind, name=name, seq=seq, ts=datetime.now(UTC), type="registered",
                                body={"batch": f"{me}.{accepted}"})
                for (kind, name), seq in zip(names, seqs)
            ])
        except ComponentConflictError:
            refused += 1
        else:
            accepted += 1
    return accepted, refused

async def main():
    store = store_at(sys.argv[1])
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()
    done = await asyncio.gather(*(writer(store, me) for me in sys.argv[2].split()))
    print(sum(accepted for accepted, _ in done), sum(refused for _, refused in done))
    await store.close()
asyncio.run(main())
"""


@pytest.mark.long
async def test_fifty_writers_in_four_processes(tmp_path: Path) -> None:
    await write_at_once(str(tmp_path / "ws"))


@pytest.mark.long
async def test_fifty_writers_in_four_processes_on_postgresql(server: Postgres, schema: str) -> None:
    await write_at_once(f"{server.url}#{schema}")


async def write_at_once(place: str) -> None:
    store = store_at(place)
    await store.open()
    shares = [" ".join(f"w{i}" for i in range(50) if i % 4 == part) for part in range(4)]
    processes = [python(WRITERS, place, share) for share in shares]
    for process in processes:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    counts = [tuple(map(int, (await asyncio.to_thread(finish, process)).split())) for process in processes]
    assert sum(accepted for accepted, _ in counts) == 100
    assert sum(refused for _, refused in counts) > 0  # they met
    changes = await store.component_changes()
    places: dict[tuple[str, str], list[int]] = {}
    for one in changes:
        places.setdefault((one.kind, one.name), []).append(one.seq)
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in places.values())
    # Each accepted batch is whole, and there is nothing of a refused one.
    batches = Counter(str(one.body["batch"]) for one in changes)
    assert batches == {f"w{writer}.{n}": 4 for writer in range(50) for n in range(2)}
    await store.close()


async def test_a_place_is_taken_between_the_look_and_the_entry(server: Postgres, schema: str) -> None:
    """Two transactions see the same head, as if there were no lock; the primary key lets one of them in."""
    first = PostgresStore(server.url, schema=schema)
    await first.open()
    second = PostgresStore(server.url, schema=schema)
    await second.open()
    await first.record_components([change("a", 1)])
    look = second._heads
    racing: list[bool] = []

    def then_lose(connection: Any, keys: Any) -> Any:
        found = look(connection, keys)
        if not racing:
            racing.append(True)
            asyncio.run_coroutine_threadsafe(first.record_components([change("a", 2, who="first")]), loop).result(60)
        return found

    loop = asyncio.get_running_loop()
    second._heads = then_lose  # type: ignore[method-assign]
    second._one_at_a_time = lambda connection, subject: None  # type: ignore[method-assign]
    with pytest.raises(
        ComponentConflictError, match=r"entry 2 of tool 'a' was written by somebody else meanwhile \(its"
    ):
        await second.record_components([change("b", 1), change("a", 2, who="second")])
    assert racing == [True]
    assert [one.body for one in await second.component_changes([("tool", "a")])] == [{}, {"who": "first"}]
    assert await second.component_heads() == {("tool", "a"): 2}
    await second.record_components([change("a", 3)])
    await asyncio.gather(first.close(), second.close())
