"""The memory store and the database do the same, whatever is done to them."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.postgres import Postgres
from tests.store.support import TS, done, manifest, owner
from tests.support.examples import examples

from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.events import NewEvent
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import MemoryStore, PostgresStore, SqliteStore

RUNS = st.sampled_from(["run_1", "run_2", "run_3"])
EPOCHS = st.integers(0, 2)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=3),
    max_leaves=8,
)
EVENT = st.builds(
    NewEvent,
    branch=st.sampled_from(["", "/", "/1.x"]),
    n=st.none() | st.integers(0, 3),
    attempt=st.integers(1, 2),
    type=st.sampled_from(["started", "completed", "told", "told"]),
    v=st.just(1),
    ts=st.just(TS),
    span=st.none() | st.just("/#1"),
    actor=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
    body=st.dictionaries(st.text(st.characters(codec=None), max_size=5) | st.just("$blob"), JSON, max_size=3),
)
OPERATION = st.one_of(
    st.tuples(st.just("create"), RUNS, st.lists(EVENT, max_size=3)),
    st.tuples(
        st.just("append"),
        RUNS,
        st.none() | EPOCHS,
        st.lists(EVENT, max_size=3),
        st.none() | st.sampled_from(list(RunStatus)),
    ),
    # Leases that are over at once and ones that outlast the test: nothing depends on how fast it is.
    st.tuples(st.just("claim"), RUNS, st.sampled_from([0.0, 3600.0]), st.none() | EPOCHS),
    st.tuples(st.just("heartbeat"), st.dictionaries(RUNS, EPOCHS), st.sampled_from([0.0, 3600.0])),
    st.tuples(st.just("release"), RUNS, EPOCHS),
    st.tuples(st.just("load"), RUNS, st.integers(-1, 4), st.none() | st.integers(-1, 4)),
)


async def play(store: Store, operations: list[tuple[Any, ...]]) -> list[Any]:
    """What each operation gave, and all that is there in the end."""
    await store.open()
    seen: list[Any] = []

    async def one(operation: tuple[Any, ...]) -> Any:
        match operation:
            case ("create", run, events):
                return await store.create_run(run, manifest(), events)
            case ("append", run, epoch, events, status):
                return await done(store.append(run, epoch, events, status=status))
            case ("claim", run, lease_s, expect_epoch):
                return await store.claim(run, owner(), lease_s=lease_s, expect_epoch=expect_epoch)
            case ("heartbeat", epochs, lease_s):
                return await store.heartbeat(epochs, lease_s=lease_s)
            case ("release", run, epoch):
                return await store.release(run, epoch)
            case ("load", run, after, upto):
                return await store.load(run, after=after, upto=upto)
        raise AssertionError(operation)

    try:
        for operation in operations:
            try:
                seen.append(await one(operation))
            except AgentOrchestraError as exc:
                seen.append((type(exc), str(exc)))
        for record in await store.list_runs():
            job = await store.job(record.id)
            assert job is not None
            seen.append((record, job.owner, job.epoch, job.lease_until is None, await store.load(record.id)))
    finally:
        await store.close()
    return seen


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OPERATION, max_size=15))
def test_every_store_does_the_same(database: str, server: Postgres, operations: list[tuple[Any, ...]]) -> None:
    operations = [("create", "run_1", []), *operations]
    expected = asyncio.run(play(MemoryStore(), operations))
    if database == "postgres":
        # A new schema for each example would take most of the time.
        if server.sql("select to_regclass('equal.runs')"):
            server.sql("truncate equal.runs, equal.jobs, equal.events, equal.blobs")
        assert asyncio.run(play(PostgresStore(server.url, schema="equal"), operations)) == expected
    else:
        with tempfile.TemporaryDirectory() as folder:
            assert asyncio.run(play(SqliteStore(Path(folder)), operations)) == expected
