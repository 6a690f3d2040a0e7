"""Large blobs in a bucket: shared, verified, copied, collected; what is wrong with the bucket or its address."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.postgres import Postgres
from tests.s3 import SECRET, Bucket, bucket
from tests.store.support import completed, created, manifest

from agentorchestra.core.errors import (
    AgentOrchestraError,
    ArtifactsError,
    ArtifactsUnavailableError,
    OtherArtifactsError,
    SettingsError,
    StoreError,
)
from agentorchestra.core.settings import Settings
from agentorchestra.log.store import artifacts, writer
from agentorchestra.log.store.factory import store_for
from agentorchestra.log.store.rows import INLINE_BYTES
from agentorchestra.log.store.sql import SqlStore

LARGE = b"large " * INLINE_BYTES
NAME = hashlib.sha256(LARGE).hexdigest()
KEY = f"{NAME[:2]}/{NAME}"

Make = Callable[..., SqlStore]


@pytest.fixture(scope="module")
def s3() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


@pytest.fixture(autouse=True)
def environment(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    s3.requests.clear()
    yield
    s3.answer = None


@pytest.fixture
async def make(tmp_path: Path, server: Postgres, schema: str, s3: Bucket) -> AsyncIterator[Make]:
    """Stores of one database, each with a folder of its own; the prefix is the schema's name."""
    async with AsyncExitStack() as stack:

        def made(folder: str = "a", **settings: object) -> SqlStore:
            given = {
                "database": server.url,
                "database_schema": schema,
                "database_retry_s": 0,
                "artifacts": f"s3://{s3.name}/{schema}",
            }
            store = store_for(Settings.model_validate(given | settings), tmp_path / folder)
            stack.push_async_callback(store.close)
            return store

        yield made


async def refused(store: SqlStore, error: type[AgentOrchestraError], sentence: str) -> None:
    with pytest.raises(error) as raised:
        await store.open()
    assert sentence in str(raised.value), str(raised.value)
    assert SECRET not in str(raised.value)


# --- blobs --------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_blob_is_read_through_another_folder_once(make: Make, s3: Bucket, schema: str) -> None:
    one, other = make("a"), make("b")
    await one.open()
    await other.open()
    assert await one.put_blob(LARGE, "text/plain") == NAME
    small = await one.put_blob(b"small")
    assert set(s3.objects(schema)) == {f"{schema}/{KEY}", f"{schema}/owner"}, "small ones stay in the database"
    s3.requests.clear()
    assert await other.get_blob(NAME) == LARGE
    assert await other.get_blob(small) == b"small"
    assert [one for one in s3.requests if one[1].endswith(NAME)] == [("GET", f"/{s3.name}/{schema}/{KEY}")]
    s3.requests.clear()
    assert await other.get_blob(NAME) == await one.get_blob(NAME) == LARGE
    assert s3.requests == [], "both folders have a copy"


async def test_a_damaged_copy_is_fetched_again(make: Make, tmp_path: Path) -> None:
    store = make()
    await store.open()
    await store.put_blob(LARGE)
    copy = tmp_path / "a" / "artifacts" / NAME
    copy.write_bytes(b"damaged")
    assert await store.get_blob(NAME) == LARGE
    assert copy.read_bytes() == LARGE


async def test_a_damaged_or_missing_object_is_an_error(make: Make, s3: Bucket, schema: str) -> None:
    one, other = make("a"), make("b")
    await one.open()
    await other.open()
    await one.put_blob(LARGE)
    s3.put(f"{schema}/{KEY}", LARGE[::-1])
    with pytest.raises(StoreError, match=f"blob {NAME} was changed after it was written: s3://artifacts/{schema}/"):
        await other.get_blob(NAME)
    found = await one.inspect()
    assert len(found.damage) == 1 and "was changed after it was written" in found.damage[0], "not the copy is looked at"
    s3.client.delete_object(Bucket=s3.name, Key=f"{schema}/{KEY}")
    with pytest.raises(StoreError, match=f"there is no object s3://artifacts/{schema}/{KEY}; restore it"):
        await other.get_blob(NAME)
    await other.put_blob(LARGE)  # whoever has the bytes still mends it
    assert s3.objects(schema)[f"{schema}/{KEY}"] == LARGE
    assert not (await one.inspect()).damage


async def test_what_is_there_is_not_sent_again(make: Make, s3: Bucket) -> None:
    store = make()
    await store.open()
    await store.put_blob(LARGE)
    s3.requests.clear()
    await store.put_blob(LARGE)
    assert [method for method, _ in s3.requests] == ["HEAD"]


async def test_the_log_stays_in_the_database(make: Make, s3: Bucket, schema: str) -> None:
    store = make()
    await store.open()
    body = completed(0, value="x" * INLINE_BYTES * 2)
    await store.create_run("run_1", manifest(), [created(), body])
    assert s3.objects(schema) == {}
    assert (await store.load("run_1"))[1].body == body.body


async def test_a_body_with_the_bytes_of_an_artifact(make: Make) -> None:
    from agentorchestra.log.store import rows

    store = make()
    await store.open()
    body = completed(0, value="x" * INLINE_BYTES * 2)
    large = rows.encode_append(0, [body], None)[0].large
    assert large is not None
    await store.put_blob(large)
    await store.create_run("run_1", manifest(), [created(), body])
    assert (await store.load("run_1"))[1].body == body.body


async def test_blobs_from_before_stay_in_the_table(make: Make, s3: Bucket, schema: str) -> None:
    before = make("a", artifacts=None)
    await before.open()
    await before.put_blob(LARGE)
    store = make("b")
    await store.open()
    assert await store.put_blob(LARGE) == NAME
    assert await store.get_blob(NAME) == LARGE
    assert s3.objects(schema) == {}


async def test_the_longest_unused_copies_go(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "CACHE_BYTES", 3 * INLINE_BYTES * 2)
    store = make()
    await store.open()
    names = []
    for number in range(6):
        names.append(await store.put_blob(bytes([number]) * INLINE_BYTES * 2))
        await asyncio.sleep(0.01)  # apart by the file system's clock
    kept = {path.name for path in (tmp_path / "a" / "artifacts").iterdir()}
    assert kept == set(names[-len(kept) :]) and 1 <= len(kept) <= 3
    assert await store.get_blob(names[0]) == bytes([0]) * INLINE_BYTES * 2


# --- collecting ---------------------------------------------------------------------------------


async def test_what_nothing_refers_to_is_removed(
    make: Make, s3: Bucket, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TOUCHED_S", 0.0)
    store = make()
    await store.open()
    used = await store.put_blob(LARGE + b"used")
    await store.put_blob(LARGE)
    orphan = hashlib.sha256(b"orphan").hexdigest()
    s3.put(f"{schema}/{orphan[:2]}/{orphan}", b"orphan")  # its process died before it wrote a row
    s3.put(f"{schema}/notes.txt", b"somebody's")
    await store.create_run("run_1", manifest(used), [created()])
    assert (await store.sweep_blobs(grace_s=3600)).blobs == 0
    await asyncio.sleep(1.1)  # an object's time has whole seconds
    assert await store.sweep_blobs(grace_s=0, dry_run=True) == (2, len(LARGE) + 6)
    assert len(s3.objects(schema)) == 5
    assert await store.sweep_blobs(grace_s=0) == (2, len(LARGE) + 6)
    left = {f"{schema}/{used[:2]}/{used}", f"{schema}/owner", f"{schema}/notes.txt"}
    assert set(s3.objects(schema)) == left
    with pytest.raises(StoreError, match="no blob"):
        await store.get_blob(NAME)
    await store.put_blob(LARGE)
    assert await store.get_blob(NAME) == LARGE


@pytest.mark.long
async def test_an_object_that_is_put_while_it_is_collected_stays(
    make: Make, s3: Bucket, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TOUCHED_S", 0.0)
    one, other = make("a"), make("b")
    await one.open()
    await other.open()
    await one.put_blob(LARGE)
    await asyncio.sleep(1.1)
    listed, go_on = threading.Event(), threading.Event()
    names = artifacts.Artifacts.names

    def held(self: artifacts.Artifacts) -> Iterator[tuple[str, float, int]]:
        found = [*names(self)]
        listed.set()
        go_on.wait(60)
        yield from found

    monkeypatch.setattr(artifacts.Artifacts, "names", held)
    sweeping = asyncio.create_task(one.sweep_blobs(grace_s=1))  # its rows are gone, its objects are about to go
    await asyncio.to_thread(listed.wait, 60)
    await other.put_blob(LARGE)
    go_on.set()
    await sweeping
    assert s3.objects(schema)[f"{schema}/{KEY}"] == LARGE


# --- what is wrong ------------------------------------------------------------------------------


async def test_everybody_names_the_same_place(make: Make, s3: Bucket, schema: str) -> None:
    first = make()
    await first.open()
    noted = f"lie at s3://{s3.name}/{schema}, and the settings name"
    await refused(make("b", artifacts=None), OtherArtifactsError, f'{noted} none; set `artifacts = "s3://')
    await refused(make("b", artifacts="s3://elsewhere"), OtherArtifactsError, f"{noted} s3://elsewhere; set")
    await make("c", artifacts=f"s3://{s3.name}/{schema}/").open()  # a last slash says nothing


@pytest.mark.long
async def test_a_place_that_was_moved(make: Make, server: Postgres, s3: Bucket, schema: str) -> None:
    first = make()
    await first.open()
    await first.put_blob(LARGE)
    await first.close()
    for key, data in s3.objects(schema).items():
        s3.put(f"moved/{key}", data)
        s3.client.delete_object(Bucket=s3.name, Key=key)
    address = f"s3://{s3.name}/moved/{schema}"
    server.sql(f"UPDATE {schema}.artifacts SET address = '{address}'")  # as docs/stores.md says
    await refused(make(), OtherArtifactsError, f'set `artifacts = "{address}"`')
    store = make("b", artifacts=address)
    await store.open()
    assert await store.get_blob(NAME) == LARGE


@pytest.mark.long
async def test_one_place_belongs_to_one_database(make: Make, schema: str) -> None:
    first, other = make(), make("b", database_schema=f"{schema}_b")
    await first.open()
    await other.open()
    await first.put_blob(LARGE)
    with pytest.raises(OtherArtifactsError, match=r"holds the artifacts of another database; give each database a"):
        await other.put_blob(LARGE)
    with pytest.raises(OtherArtifactsError):
        await other.sweep_blobs(grace_s=0)
    assert await first.get_blob(NAME) == LARGE
    third = make("c", database_schema=f"{schema}_c")
    await refused(third, OtherArtifactsError, "holds the artifacts of another database")


@pytest.mark.long
async def test_a_bucket_that_is_not_there(make: Make) -> None:
    sentence = "there is no such bucket; make it, or correct `artifacts`"
    await refused(make(artifacts="s3://nowhere/at-all"), ArtifactsError, sentence)
    await make().open()  # what cannot be used was not noted


async def test_keys_without_rights(make: Make, s3: Bucket) -> None:
    s3.answer = 403
    await refused(make(), ArtifactsError, "the store refuses these keys (said AccessDenied); they need the rights to")


async def test_no_keys(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    await refused(make(), ArtifactsError, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile")


async def test_a_store_that_is_away(make: Make, s3: Bucket, schema: str) -> None:
    store = make(artifacts_options={"endpoint": s3.endpoint})
    await store.open()
    s3.stop()
    try:
        with pytest.raises(ArtifactsUnavailableError) as raised:
            await store.put_blob(LARGE)
        assert f"the artifacts at s3://{s3.name}/{schema} ({s3.endpoint}) have been away for 0 s" in str(raised.value)
        await store.create_run("run_1", manifest(), [created()])  # the log can be written
        await store.put_blob(b"small")
    finally:
        s3.start()
    assert await store.put_blob(LARGE) == NAME


@pytest.mark.long
async def test_a_store_that_comes_back_is_waited_for(make: Make, s3: Bucket, caplog: pytest.LogCaptureFixture) -> None:
    store = make(database_retry_s=60)
    await store.open()
    s3.answer = 503
    with caplog.at_level(logging.WARNING, "agentorchestra.store"):
        putting = asyncio.create_task(store.put_blob(LARGE))
        while not caplog.messages:  # noqa: ASYNC110  # said in a thread
            await asyncio.sleep(0.01)
        assert caplog.messages[0].endswith("do not answer (said ServiceUnavailable); trying again for 60 s")
        s3.answer = None
        assert await putting == NAME
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("gs://bucket/x", "artifacts begins with gs://; give s3://bucket/prefix, or leave it out to keep artifacts"),
        ("/mnt/shared", "artifacts begins with no scheme; give s3://bucket/prefix"),
        (f"s3://key:{SECRET}@bucket/x", "artifacts is no address of a bucket and a prefix; write s3://bucket/prefix"),
        ("s3://", "artifacts is no address of a bucket and a prefix"),
        ("s3://bucket/a/../b", "artifacts is no address of a bucket and a prefix"),
        ("s3://bucket//b", "artifacts is no address of a bucket and a prefix"),
        ("s3://Bucket", "artifacts is no address of a bucket and a prefix"),
    ],
)
def test_an_address_that_is_none(make: Make, address: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        make(artifacts=address)
    assert str(raised.value).startswith(sentence) and SECRET not in str(raised.value)


@pytest.mark.parametrize("endpoint", ["ftp://x", "minio:9000", f"http://key:{SECRET}@minio:9000"])
def test_an_endpoint_that_is_none(make: Make, endpoint: str) -> None:
    with pytest.raises(SettingsError, match=r"artifacts_options.endpoint is no address of a server") as raised:
        make(artifacts_options={"endpoint": endpoint})
    assert SECRET not in str(raised.value)


def test_a_workspace_in_its_folder_has_no_address(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="and there is no `database`; leave `artifacts` out"):
        store_for(Settings(artifacts="s3://bucket"), tmp_path / "ws")
    assert not (tmp_path / "ws").exists()


async def test_keys_in_use_are_secrets(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert make().secrets == {"AWS_SECRET_ACCESS_KEY": SECRET}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[agents]\naws_access_key_id = AKIA2\naws_secret_access_key = of-a-profile\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    store = make(artifacts_options={"profile": "agents"})
    await store.open()
    assert store.secrets == {"AWS_SECRET_ACCESS_KEY": "of-a-profile"}


def test_the_extra_is_named_when_it_is_missing(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
sys.modules["s3fs"] = None
from agentorchestra.core.errors import MissingExtraError
from agentorchestra.core.settings import Settings
from agentorchestra.log.store.factory import store_for
try:
    store_for(Settings(database="postgresql://me@db/log", artifacts="s3://bucket"), Path("ws"))
except MissingExtraError as exc:
    print(exc)
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == (
        "artifacts = 's3://bucket' needs the extra s3, which is not installed; install it with "
        "`pip install 'agentorchestra[s3]'`, or leave `artifacts` out to keep them in the database\n"
    )


async def test_opening_a_database_that_has_its_place_makes_no_request(make: Make, s3: Bucket) -> None:
    await make().open()
    s3.requests.clear()
    await make("b").open()
    assert s3.requests == []
