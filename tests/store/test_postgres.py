"""What is PostgreSQL's own: the address, what goes wrong with it, schemas, locks of several processes."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from tests.postgres import NAME, PASSWORD, USER, Postgres, postgres
from tests.store.support import completed, created, done, manifest, owner, store_threads, told

from agentorchestra.core.errors import (
    AgentOrchestraError,
    FencedError,
    SettingsError,
    StoreError,
    StoreUnavailableError,
    WorkspaceCorruptError,
    WorkspaceNewerError,
    WorkspaceNotWritableError,
)
from agentorchestra.core.settings import Settings
from agentorchestra.log.store import PostgresStore
from agentorchestra.log.store.address import Address, check_schema
from agentorchestra.log.store.factory import store_for
from agentorchestra.log.store.rows import INLINE_BYTES
from agentorchestra.log.store.schema import REVISIONS, metadata


async def refused(store: PostgresStore, error: type[AgentOrchestraError], sentence: str) -> None:
    with pytest.raises(error) as raised:
        await store.open()
    assert re.fullmatch(sentence, str(raised.value)), str(raised.value)
    assert PASSWORD not in str(raised.value) and "staple" not in str(raised.value)
    assert store_threads() == []
    await store.close()


# --- the address --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@db.example.org:5433/log", "postgresql://me@db.example.org:5433/log"),
        ("postgres://me@db/log?password=secret&sslmode=require", "postgresql://me@db/log"),
        ("postgresql:///log?host=/run/pg&port=5", "postgresql:///log?host=/run/pg&port=5"),
        ("postgresql://me:sec%40ret@[::1]/log", "postgresql://me@::1/log"),
        ("postgresql://m%40e:secret@a,b/log", "postgresql://m%40e@a,b/log"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert Address(url).shown == shown


@pytest.mark.parametrize("url", ["mysql://me:secret@db/log", "secret", "sqlite:///secret"])
def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"^database begins with '\w*'; give an address of PostgreSQL") as raised:
        Address(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["postgresql://me:se%cret@db/log", "postgresql://me:secret@db:x:y/l?secret=1"])
def test_an_address_that_is_none_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(
        SettingsError, match="database is no address that PostgreSQL's driver can read; write"
    ) as raised:
        Address(url)
    assert "cret" not in str(raised.value)


@pytest.mark.parametrize("schema", ["", "Big", "1st", "a-b", "a;drop", "pg_mine", "x" * 49, "ü"])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    with pytest.raises(SettingsError, match=f"database_schema is {re.escape(repr(schema))}; a schema's name has small"):
        check_schema(schema)


def test_the_settings_never_show_the_password(tmp_path: Path) -> None:
    settings = Settings.model_validate({"database": f"postgresql://me:{PASSWORD}@db/log", "max_bytes": 5})
    assert PASSWORD not in repr(settings) + settings.model_dump_json() + str(settings.model_dump())
    with pytest.raises(SettingsError, match="max_bytes = 5 limits the workspace's own database file; with `database`"):
        store_for(settings, tmp_path / "ws")
    assert not (tmp_path / "ws").exists()


def test_the_extra_is_named_when_it_is_missing(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["psycopg"] = None
from agentorchestra.core.errors import MissingExtraError
from agentorchestra.log.store import PostgresStore
try:
    PostgresStore("postgresql://me@db/log")
except MissingExtraError as exc:
    print(exc)
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.startswith("a database on PostgreSQL needs the extra postgres (")
    assert out.endswith(
        "install it with `pip install 'agentorchestra[postgres]'`, or leave `database` out for SQLite\n"
    )


# --- opening ------------------------------------------------------------------------------------


async def test_a_password_opens_it_and_is_a_secret(server: Postgres, schema: str) -> None:
    store = PostgresStore(server.tcp(), schema=schema)
    await store.open()
    await store.create_run("run_1", manifest(), [created()])
    assert store.secrets == {"database": PASSWORD}
    assert PASSWORD not in store.place and USER in store.place
    await store.close()


async def test_a_password_from_the_environment(server: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    store = PostgresStore(server.tcp(password=None), schema=schema)
    await store.open()
    assert store.secrets == {"database": PASSWORD}
    await store.close()


async def test_who_is_not_let_in(server: Postgres) -> None:
    where = f"postgresql://{USER}@127.0.0.1:{server.port}/{NAME}"
    sentence = (
        rf"the database {re.escape(where)} does not let this user in \(.*password.*\); "
        r"correct user and password in `database`, PGPASSWORD or \.pgpass"
    )
    await refused(PostgresStore(server.tcp(password="staple")), StoreUnavailableError, sentence)
    await refused(PostgresStore(server.tcp(password=None)), StoreUnavailableError, sentence)


async def test_no_such_database(server: Postgres) -> None:
    where = f"postgresql://{USER}@127.0.0.1:{server.port}/songs"
    sentence = (
        f"there is no database 'songs' at {re.escape(where)}; make it \\(createdb -E UTF8 songs\\), "
        "or correct `database`"
    )
    await refused(PostgresStore(server.tcp(name="songs")), StoreUnavailableError, sentence)


async def test_nobody_listens() -> None:
    sentence = (
        r"cannot connect to the database postgresql://me@127\.0\.0\.1:9/log \(.*Connection refused.*\); "
        "check that it runs and that `database` is right"
    )
    await refused(PostgresStore("postgresql://me:staple@127.0.0.1:9/log"), StoreUnavailableError, sentence)


async def test_a_schema_of_something_else(server: Postgres, schema: str) -> None:
    server.sql(f"create schema {schema}; create table {schema}.songs (id int)")
    sentence = (
        rf"postgresql://.*, schema {schema} cannot be read as a workspace's database \(it holds other tables: songs\); "
        "restore it from a backup, or choose another database_schema"
    )
    await refused(PostgresStore(server.url, schema=schema), WorkspaceCorruptError, sentence)


async def test_a_workspace_of_a_later_version(server: Postgres, schema: str) -> None:
    store = PostgresStore(server.url, schema=schema)
    await store.open()
    await store.close()
    server.sql(f"update {schema}.alembic_version set version_num = '9999'")
    sentence = (
        rf"the workspace in postgresql://.*, schema {schema} was written by a later version of agentorchestra "
        rf"\(format '9999', this version knows up to '{REVISIONS[-1]}'\); upgrade, or choose another database_schema"
    )
    await refused(PostgresStore(server.url, schema=schema), WorkspaceNewerError, sentence)


async def test_a_user_without_rights(server: Postgres, schema: str) -> None:
    server.sql("do $$ begin create role reader login password 'reader-pass'; exception when others then null; end $$")
    store = PostgresStore(server.tcp(user="reader", password="reader-pass"), schema=schema)
    await refused(store, WorkspaceNotWritableError, _lacking(schema, "database agentorchestra"))
    await made(server, schema)
    store = PostgresStore(server.tcp(user="reader", password="reader-pass"), schema=schema)
    await refused(store, WorkspaceNotWritableError, _lacking(schema, f"schema {schema}"))
    server.sql(f"grant usage on schema {schema} to reader")
    store = PostgresStore(server.tcp(user="reader", password="reader-pass"), schema=schema)
    await refused(store, WorkspaceNotWritableError, _lacking(schema, "table alembic_version"))


def _lacking(schema: str, where: str) -> str:
    return (
        rf"the user of postgresql://reader@.* lacks a right in the schema {schema} \(permission denied for {where}\); "
        "grant it USAGE on that schema and SELECT on its tables to read; to write also INSERT, UPDATE and DELETE; "
        "CREATE to make it"
    )


async def made(server: Postgres, schema: str) -> PostgresStore:
    """A workspace with a run; the store is closed."""
    store = PostgresStore(server.url, schema=schema)
    await store.open()
    await store.create_run("run_1", manifest(), [created(), completed(0, "x" * INLINE_BYTES)])
    await store.close()
    return store


def reader_of(server: Postgres, schema: str, *grants: str) -> PostgresStore:
    """The store for a role of its own that may read the schema, and what else it is granted."""
    role = f"reader_{schema}"
    server.sql(f"create role {role} login password 'reader-pass'; grant usage on schema {schema} to {role}")
    for one in ("select", *grants):
        server.sql(f"grant {one} on all tables in schema {schema} to {role}")
    return PostgresStore(server.tcp(user=role, password="reader-pass"), schema=schema)


async def assert_only_reads(store: PostgresStore, sentence: str) -> None:
    """It opens and gives what is there; each write is refused with one sentence, and leaves nothing."""
    await store.open()
    assert [event.type for event in await store.load("run_1", verify=True)] == ["run_created", "completed"]
    assert [one.id for one in await store.list_runs()] == ["run_1"]
    assert (await store.inspect()).events == 2
    sentence = rf"cannot write to the workspace in {re.escape(store.place)}: {sentence}"
    for write in (
        lambda: store.create_run("run_2", manifest(), []),
        lambda: done(store.append("run_1", None, [told()])),
        lambda: store.claim("run_1", owner(), lease_s=60),
        lambda: store.put_blob(b"x"),
        lambda: store.delete_runs(["run_1"]),
    ):
        with pytest.raises(WorkspaceNotWritableError) as raised:
            await write()
        assert re.fullmatch(sentence, str(raised.value)), str(raised.value)
    assert "store-writer" not in store_threads()
    await store.close()


async def test_a_role_that_may_only_read_reads(server: Postgres, schema: str) -> None:
    await made(server, schema)
    role = f"reader_{schema}"
    every = "blobs, components, events, jobs, runs, writers"
    sentence = (
        f"the role {role} may not insert into {every}; to write, run as the owner: "
        f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
    )
    await assert_only_reads(reader_of(server, schema), sentence)
    assert server.sql(f"select count(*) from {schema}.writers") == "0"
    # What it says is what is needed.
    server.sql(f"grant insert, update, delete on all tables in schema {schema} to {role}")
    store = PostgresStore(server.tcp(user=role, password="reader-pass"), schema=schema)
    await store.open()
    assert await done(store.append("run_1", None, [told()])) == (3,)
    await store.close()


@pytest.mark.long
async def test_a_role_whose_transactions_only_read(server: Postgres, schema: str) -> None:
    await made(server, schema)
    store = reader_of(server, schema, "insert, update, delete")
    role = f"reader_{schema}"
    server.sql(f"alter role {role} set default_transaction_read_only to on")
    sentence = (
        f"transactions of the role {role} only read; to write, run as the owner: "
        f"ALTER ROLE {role} SET default_transaction_read_only TO off"
    )
    await assert_only_reads(store, sentence)


@pytest.mark.long
async def test_who_only_reads_brings_nothing_up_to_date(server: Postgres, schema: str) -> None:
    await made(server, schema)
    store = reader_of(server, schema)
    server.sql(f"update {schema}.alembic_version set version_num = '0004'")
    await refused(
        store,
        WorkspaceNotWritableError,
        rf"cannot write to the workspace in .*: its format 0004 has to be brought up to date, and the role "
        rf"reader_{schema} may not insert into .*; to write, run as the owner: GRANT .*",
    )
    assert server.sql(f"select version_num from {schema}.alembic_version") == "0004"


async def test_a_standby_gives_what_it_has(server: Postgres, schema: str) -> None:
    await made(server, schema)
    with postgres(primary=server) as standby:
        said = "the server is a standby, which only gives reads; name the primary server in `database`"
        await assert_only_reads(PostgresStore(standby.url, schema=schema), said)
        found = PostgresStore(standby.url, schema=schema).examine()
        assert (found.runs, found.sealed) == (1, said)
        await refused(
            PostgresStore(standby.url, schema=f"{schema}_none"),
            WorkspaceNotWritableError,
            f"cannot write to the workspace in .*: there is no workspace yet, and {said}",
        )


async def test_another_encoding(server: Postgres, schema: str) -> None:
    server.sql("create database latin encoding 'LATIN1' template template0", database="postgres")
    sentence = r"the database .*/latin has the encoding LATIN1; make one with the encoding UTF8 \(createdb -E UTF8\)"
    await refused(PostgresStore(server.tcp(name="latin"), schema=schema), StoreError, sentence)


async def test_the_revisions_make_the_tables(server: Postgres, schema: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    store = PostgresStore(server.url, schema=schema)
    await store.open()
    assert store._connection is not None
    context = MigrationContext.configure(store._connection, opts={"compare_type": True, "compare_server_default": True})
    assert compare_metadata(context, metadata) == []
    store._connection.rollback()
    await store.close()
    columns = server.sql(
        f"select distinct collation_name from information_schema.columns where table_schema = '{schema}' "
        "and column_name in ('id', 'run', 'branch', 'type', 'sha256', 'created')"
    )
    assert columns == "C"


async def test_workspaces_in_one_database_know_nothing_of_each_other(server: Postgres, schema: str) -> None:
    one, other = (PostgresStore(server.url, schema=f"{schema}_{i}") for i in range(2))
    await asyncio.gather(one.open(), other.open())
    await one.create_run("run_1", manifest("mine"), [])
    await other.create_run("run_1", manifest("yours"), [])
    await done(one.append("run_1", None, [told()]))
    assert not await other.changed()
    record = await other.get_run("run_1")
    assert record is not None and (record.manifest.task, record.next_seq) == ("yours", 1)
    await asyncio.gather(one.close(), other.close())


async def test_all_bytes_are_in_the_table(server: Postgres, schema: str) -> None:
    store = PostgresStore(server.url, schema=schema)
    await store.open()
    await store.create_run("run_1", manifest(), [])
    large = "x" * INLINE_BYTES * 3
    await done(store.append("run_1", 0, [completed(0, large), completed(1, large), completed(2)]))
    sha256 = await store.put_blob(b"y" * 300_000)
    assert [e.body["outcome"]["value"] for e in await store.load("run_1")] == [large, large, "ok"]
    assert await store.get_blob(sha256) == b"y" * 300_000
    assert server.sql(f"select count(*), count(data) from {schema}.blobs") == "2|2"
    server.sql(f"update {schema}.blobs set data = 'changed' where sha256 = '{sha256}'")
    with pytest.raises(
        StoreError, match=f"the blob {sha256} was changed after it was written: the table `blobs` holds"
    ):
        await store.get_blob(sha256)
    await store.close()


# --- several processes at once ------------------------------------------------------------------


async def test_who_takes_over_waits_for_the_commit_and_fences_what_follows(server: Postgres, schema: str) -> None:
    """The epoch is read and held in one statement: no append commits under an epoch that is over."""
    store, other = PostgresStore(server.url, schema=schema), PostgresStore(server.url, schema=schema)
    await asyncio.gather(store.open(), other.open())
    await store.create_run("run_1", manifest(), [])
    epochs: list[int] = []
    drawn: list[tuple[int, int]] = []

    async def drive(one: PostgresStore, pid: int) -> None:
        for turn in range(25):
            job = await one.job("run_1")
            assert job is not None
            epoch = await one.claim("run_1", owner(pid), lease_s=60, expect_epoch=job.epoch)
            if epoch is None:
                continue
            epochs.append(epoch)
            for n in range(4):
                try:
                    (seq,) = await done(
                        one.append("run_1", epoch, [completed(None, epoch, branch=f"/{pid}.{turn}.{n}")])
                    )
                except FencedError:
                    break
                drawn.append((seq, epoch))

    await asyncio.gather(drive(store, 1), drive(other, 2))
    assert len(set(epochs)) == len(epochs)
    events = await store.load("run_1")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    found = [(event.seq, event.body["outcome"]["value"]) for event in events]
    assert sorted(drawn) == found
    assert [epoch for _, epoch in found] == sorted(epoch for _, epoch in found)
    await asyncio.gather(store.close(), other.close())


class Held(PostgresStore):
    """Its writer waits inside a transaction, so that what comes meanwhile is one batch."""

    holding: threading.Event | None = None

    def before_commit(self, runs: list[str]) -> None:
        hold, self.holding = self.holding, None
        if hold is not None:
            assert hold.wait(60)


@pytest.mark.long
async def test_transactions_in_each_others_way_are_tried_again(server: Postgres, schema: str) -> None:
    """A batch and another transaction change the same rows in opposite orders: the server ends one of the two."""
    # It looks once, this long after the store began to wait: the other transaction must wait too by then.
    server.sql("alter role current_user set deadlock_timeout to '6s'")
    store = Held(server.url, schema=schema)
    await store.open()
    server.sql("alter role current_user reset deadlock_timeout")
    for run in ("run_0", "run_1", "run_2"):
        await store.create_run(run, manifest(), [])
    store.holding = hold = threading.Event()
    first = store.append("run_0", 0, [completed(0)])
    with psycopg.connect(server.url, autocommit=True) as raw:
        raw.execute(f"set search_path to {schema}")
        raw.execute("set deadlock_timeout to '60s'")  # the other one is ended, after six seconds
        raw.execute("begin")
        raw.execute("update runs set status = status where id = 'run_2'")
        one = store.append("run_1", 0, [completed(0)])
        between = asyncio.ensure_future(store.claim("run_0", owner(), lease_s=60))
        await asyncio.sleep(0)
        two = store.append("run_2", 0, [completed(0)])
        hold.set()
        assert await done(first) == (1,)
        await until_waiting(server)
        await asyncio.to_thread(raw.execute, "update runs set status = status where id = 'run_1'")
        assert not two.done()
        raw.execute("commit")
    assert (await done(one), await between, await done(two)) == ((1,), 1, (1,))
    assert [event.seq for event in await store.load("run_1")] == [1]
    await store.close()


async def until_waiting(server: Postgres) -> None:
    """Until a connection waits for a lock that another one holds."""
    while server.sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == "0":
        await asyncio.to_thread(time.sleep, 0.02)


async def test_a_run_that_was_released_before_a_failover_to_a_slower_clock_is_free(
    server: Postgres, schema: str
) -> None:
    store = PostgresStore(server.url, schema=schema)
    await store.open()
    await store.create_run("run_1", manifest(), [created()])
    assert await store.claim("run_1", owner(1), lease_s=60) == 1
    await store.release("run_1", 1)
    with psycopg.connect(server.url) as connection:
        connection.execute(f"UPDATE {schema}.jobs SET lease_until = 99999999999")
    assert await store.claim("run_1", owner(2), lease_s=60) == 2
    await store.close()
