"""What every store must do (core.protocols.Store)."""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import threading
from datetime import timedelta, timezone
from typing import Any

import pytest
from tests.store.support import (
    TS,
    answered,
    cancel,
    completed,
    created,
    done,
    manifest,
    owner,
    started,
    store_threads,
    told,
)

from agentorchestra.core.errors import DuplicateEventError, FencedError, RequestKeyError, StoreError, UnknownRunError
from agentorchestra.core.events import Event, NewEvent, RunCreated, Told
from agentorchestra.core.ids import PART
from agentorchestra.core.protocols import Acceptance, Store
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store.rows import INLINE_BYTES

LEASE_S = 3600.0


async def new_run(store: Store, run: str = "run_1", *events: NewEvent) -> str:
    await store.create_run(run, manifest(), events)
    return run


async def seqs(store: Store, run: str) -> list[int]:
    return [event.seq for event in await store.load(run)]


def test_it_is_a_store(store: Store) -> None:
    assert isinstance(store, Store)


# --- runs ---------------------------------------------------------------------------------------


async def test_a_new_run_has_its_first_events_and_nobody_drives_it(store: Store) -> None:
    asked = manifest("a task", labels={"a": "é"}, parent_run="run_0", fork_seq=7)
    await new_run(store, "run_0")
    await store.create_run("run_1", asked, [created("a task"), completed(0)])

    record = await store.get_run("run_1")
    assert record is not None
    assert record.model_dump() == {
        "id": "run_1",
        "status": RunStatus.CREATED,
        "manifest": asked.model_dump(),
        "next_seq": 3,
        "created": TS,
        "parent_run": "run_0",
        "fork_seq": 7,
        "imported": None,
        "accepted": None,
    }
    first, second = await store.load("run_1")
    assert (first.run, first.seq, first.branch, first.n, first.type) == ("run_1", 1, "", 1, "run_created")
    assert first.data == RunCreated(manifest=manifest("a task"))
    assert (second.seq, second.n) == (2, 0)
    job = await store.job("run_1")
    assert job is not None
    assert (job.run, job.owner, job.epoch, job.lease_until) == ("run_1", None, 0, None)


async def test_a_run_is_created_once(store: Store) -> None:
    await new_run(store, "run_1", created())
    with pytest.raises(StoreError, match="already holds a run 'run_1'; a new run needs a new id"):
        await store.create_run("run_1", manifest("another"), [created(), created()])
    record = await store.get_run("run_1")
    assert record is not None
    assert (record.manifest.task, record.next_seq) == ("count the sheep", 2)


async def test_a_run_is_created_with_all_its_events_or_not_at_all(store: Store) -> None:
    with pytest.raises(DuplicateEventError, match=re.escape("'completed' event at /#4, attempt 1")):
        await store.create_run("run_1", manifest(), [completed(4), completed(4)])
    assert await store.get_run("run_1") is None
    assert await store.job("run_1") is None
    await new_run(store, "run_1", completed(4))


async def test_an_unknown_run(store: Store) -> None:
    sentence = r"^no run 'run_x' in this workspace; `agentorchestra runs` lists them$"
    for epoch, event in ((0, completed()), (None, told())):
        with pytest.raises(UnknownRunError, match=sentence):
            await done(store.append("run_x", epoch, [event]))
    with pytest.raises(UnknownRunError, match=sentence):
        await store.load("run_x")
    with pytest.raises(UnknownRunError, match=sentence):
        await store.claim("run_x", owner(), lease_s=LEASE_S)
    assert await store.get_run("run_x") is None
    assert await store.job("run_x") is None
    await store.release("run_x", 1)
    assert await store.heartbeat({"run_x": 1}, lease_s=LEASE_S) == {"run_x"}


async def test_runs_are_listed_newest_first(store: Store) -> None:
    later = TS + timedelta(microseconds=1)
    # The same moment in another zone: what counts is the moment.
    elsewhere = later.astimezone(timezone(timedelta(hours=-5)))
    for run, when in (("run_c", TS), ("run_a", elsewhere), ("run_d", TS), ("run_b", later)):
        await store.create_run(run, manifest(created=when), [])
    assert [record.id for record in await store.list_runs()] == ["run_b", "run_a", "run_d", "run_c"]
    assert [record.id for record in await store.list_runs(limit=2)] == ["run_b", "run_a"]
    assert await store.list_runs(limit=0) == []


# --- runs that a server took on -----------------------------------------------------------------


async def test_a_key_stands_for_one_run(store: Store) -> None:
    await store.create_run("run_1", manifest(), [created()], acceptance=Acceptance(TS, "offer-7", "abc"))
    assert await store.request("offer-7") == ("run_1", "abc")
    assert await store.request("offer-8") is None
    with pytest.raises(RequestKeyError, match="a run under the key 'offer-7' already; send a new request under a new"):
        await store.create_run("run_2", manifest(), [created()], acceptance=Acceptance(TS, "offer-7", "abc"))
    assert await store.get_run("run_2") is None and await store.job("run_2") is None
    for run in ("run_2", "run_3"):  # without a key as many as come
        await store.create_run(run, manifest(), [created()], acceptance=Acceptance(TS))
    record = await store.get_run("run_3")
    assert record is not None and record.accepted == TS


async def test_lists_leave_parts_of_runs_out(store: Store) -> None:
    part = f"{PART}a"
    await store.create_run("run_a", manifest(), [completed(0)])
    await store.create_run(part, manifest(parent_run="run_a", fork_seq=1), [completed(0)])
    assert [one.id for one in await store.list_runs()] == ["run_a"]
    assert [one.id for one in await store.list_runs(limit=1)] == ["run_a"]
    assert [one.id for one in await store.unfinished_runs()] == ["run_a"]
    assert [one.id for one in await store.unfinished_runs(parts=True)] == [part]
    assert [one.run for one in await store.query(LogQuery())] == ["run_a"]
    assert [one.run for one in await store.query(LogQuery(runs=(part,)))] == [part]
    assert {one.id for one in await store.run_states()} == {"run_a", part}
    assert [one.id for one in await store.run_states(parts=True)] == [part]
    assert await store.delete_runs([part]) == [part]
    assert [one.id for one in await store.run_states()] == ["run_a"]


async def test_the_unfinished_runs_and_who_drives_them(store: Store) -> None:
    second = TS + timedelta(seconds=1)
    await store.create_run("run_b", manifest(created=second), [], acceptance=Acceptance(second))
    for run in ("run_a", "run_c", "run_over"):
        await store.create_run(run, manifest(), [])
    epoch = await store.claim("run_c", owner(), lease_s=LEASE_S)
    assert epoch is not None
    await done(store.append("run_c", epoch, [completed(0)], status=RunStatus.RUNNING))
    await done(store.append("run_over", 0, [completed(0)], status=RunStatus.COMPLETED))

    found = await store.unfinished_runs()
    assert [(one.id, one.status, one.is_accepted, one.owner, one.is_held) for one in found] == [
        ("run_c", RunStatus.RUNNING, False, owner(), True),
        ("run_b", RunStatus.CREATED, True, None, False),
        ("run_a", RunStatus.CREATED, False, None, False),
    ]
    assert [one.id for one in await store.unfinished_runs(limit=2)] == ["run_c", "run_b"]
    assert [one.id for one in await store.unfinished_runs(status=RunStatus.CREATED)] == ["run_b", "run_a"]
    assert [one.id for one in await store.unfinished_runs(runs=["run_a", "run_over", "run_x"])] == ["run_a"]
    assert [one.id for one in await store.unfinished_runs(is_accepted=True)] == ["run_b"]
    assert [one.id for one in await store.unfinished_runs(is_accepted=False, limit=1)] == ["run_c"]
    assert await store.count_created() == 1

    await store.accept("run_a", TS)
    await store.accept("run_b", TS)
    assert await store.count_created() == 2
    (later,) = [await store.get_run("run_b")]
    assert later is not None and later.accepted == second  # the first note stays
    assert await store.claim("run_a", owner(), lease_s=0.0) == 1
    (run_a,) = [one for one in await store.unfinished_runs() if one.id == "run_a"]
    assert (run_a.owner, run_a.is_held, run_a.is_accepted) == (owner(), False, True)


# --- append and load ----------------------------------------------------------------------------


async def test_an_event_comes_back_as_it_was(store: Store) -> None:
    run = await new_run(store)
    event = NewEvent(
        branch="/3.planner/0.x",
        n=2,
        attempt=3,
        type="completed",
        v=1,
        ts=TS.astimezone(timezone(timedelta(hours=2))),
        span="/3.planner#2",
        parent_span="/#3",
        actor="planner",
        body={"outcome": {"value": [1, 2.5, None, True, {"a": ""}]}, "fingerprint": "f"},
    )
    assert await done(store.append(run, 0, [event])) == (1,)
    (read,) = await store.load(run)
    assert type(read) is Event
    assert read.model_dump() == {**event.model_dump(), "run": run, "seq": 1}
    assert read.ts == TS
    assert read.ts.utcoffset() == timedelta(0)


async def test_without_n_an_event_takes_its_sequence(store: Store) -> None:
    run = await new_run(store, "run_1", created())
    assert await done(store.append(run, 0, [completed(0), completed(None), completed(None, branch="")])) == (2, 3, 4)
    assert [event.n for event in await store.load(run)] == [1, 0, 3, 4]


async def test_load_gives_the_part_that_was_asked_for(store: Store) -> None:
    run = await new_run(store, "run_1", *(completed(n) for n in range(10)))

    async def part(after: int = 0, upto: int | None = None) -> list[int]:
        return [event.seq for event in await store.load(run, after=after, upto=upto)]

    assert await part() == list(range(1, 11))
    assert await part(after=3) == [4, 5, 6, 7, 8, 9, 10]
    assert await part(upto=3) == [1, 2, 3]
    assert await part(after=2, upto=4) == [3, 4]
    assert await part(after=10) == []
    assert await part(after=99, upto=100) == []
    assert await part(after=4, upto=4) == []
    assert await part(upto=0) == []


async def test_what_was_read_can_be_changed_without_changing_the_log(store: Store) -> None:
    event = completed(0, {"list": [1]})
    run = await new_run(store)
    future = store.append(run, 0, [event])
    event.body["outcome"]["value"]["list"].append("changed after the append")
    await done(future)
    (read,) = await store.load(run)
    read.body["outcome"]["value"]["list"].append("changed after the load")
    (again,) = await store.load(run)
    assert again.body["outcome"]["value"] == {"list": [1]}


@pytest.mark.parametrize(
    "value",
    [
        "ünï ☃ 漢字 🐑",
        "half a pair \ud83d",
        "two halves \ud83d\ude00 that are not one character",
        "nul \x00 and \x7f \u2028",
        {"\ud800": {"$blob": "not a reference"}},
        "x" * (INLINE_BYTES + 1),
        "漢" * INLINE_BYTES,
        [math.inf, 1e308, -0.0, 2**63, 123456789012345678901234567890],
        {"": [[[[]]]]},
    ],
    ids=["unicode", "surrogate", "surrogates", "controls", "key", "large", "large-unicode", "numbers", "empty"],
)
async def test_bodies_come_back_exactly(store: Store, value: Any) -> None:
    run = await new_run(store)
    await done(store.append(run, 0, [NewEvent(type="noted", v=1, ts=TS, body={"value": value}) for _ in range(2)]))
    assert [event.body for event in await store.load(run)] == [{"value": value}] * 2


async def test_a_body_that_looks_like_a_reference_is_none(store: Store) -> None:
    run = await new_run(store)
    event = NewEvent(type="noted", v=1, ts=TS, body={"$blob": "0" * 64})
    await done(store.append(run, 0, [event]))
    assert (await store.load(run))[0].body == {"$blob": "0" * 64}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", [INLINE_BYTES - 100, INLINE_BYTES, 3_000_000])
async def test_large_bodies_come_back(store: Store, size: int) -> None:
    run = await new_run(store)
    values = [chr(97 + i) * size for i in range(3)]
    assert await done(store.append(run, 0, [completed(i, v) for i, v in enumerate(values)])) == (1, 2, 3)
    assert [event.body["outcome"]["value"] for event in await store.load(run)] == values


async def test_a_run_may_begin_with_a_large_body(store: Store) -> None:
    run = await new_run(store, "run_1", completed(0, "x" * INLINE_BYTES))
    assert (await store.load(run))[0].body["outcome"]["value"] == "x" * INLINE_BYTES


async def test_a_body_that_is_not_json_is_refused_alone(store: Store) -> None:
    run = await new_run(store)
    bad = NewEvent(type="completed", v=1, ts=TS, branch="/7.x", body={"value": object()})
    futures = [
        store.append(run, 0, [completed(0)]),
        store.append(run, 0, [completed(1), bad]),
        store.append(run, 0, [completed(2)]),
    ]
    with pytest.raises(StoreError, match=r"the body of a 'completed' event at '/7\.x' is not JSON: .*object"):
        await done(futures[1])
    assert [await done(futures[0]), await done(futures[2])] == [(1,), (2,)]


async def test_a_naive_time_is_refused(store: Store) -> None:
    run = await new_run(store)
    naive = completed(0).model_copy(update={"ts": TS.replace(tzinfo=None)})
    with pytest.raises(StoreError, match="has no zone"):
        await done(store.append(run, 0, [naive]))
    with pytest.raises(StoreError, match="has no zone"):
        await store.create_run("run_2", manifest(created=TS.replace(tzinfo=None)), [])


@pytest.mark.sampled(2)
async def test_sequences_are_gap_free_whoever_appends_at_once(store: Store) -> None:
    runs = [await new_run(store, f"run_{i}") for i in range(20)]

    async def chain(run: str, branch: str) -> list[int]:
        drawn: list[int] = []
        for n in range(15):
            pair = await done(store.append(run, 0, [started(n, branch), completed(n, branch=branch)]))
            drawn.extend(pair)
        return drawn

    chains = await asyncio.gather(*(chain(run, f"/{c}.x") for run in runs for c in range(3)))
    for i, run in enumerate(runs):
        own = chains[3 * i : 3 * i + 3]
        assert all(drawn == sorted(drawn) for drawn in own)
        assert sorted(seq for drawn in own for seq in drawn) == list(range(1, 91))
        events = await store.load(run)
        assert [event.seq for event in events] == list(range(1, 91))
        for c, drawn in enumerate(own):
            mine = [event for event in events if event.branch == f"/{c}.x"]
            assert [event.seq for event in mine] == drawn
            assert [(event.n, event.type) for event in mine] == [
                (n, kind) for n in range(15) for kind in ("started", "completed")
            ]


@pytest.mark.long
async def test_200_runs_at_once_need_few_threads(store: Store) -> None:
    before = threading.active_count()
    runs = [f"run_{i:03}" for i in range(200)]
    await asyncio.gather(*(new_run(store, run, created()) for run in runs))
    most = 0

    async def drive(run: str) -> None:
        nonlocal most
        epoch = await store.claim(run, owner(), lease_s=LEASE_S)
        assert epoch == 1
        for n in range(5):
            await done(store.append(run, epoch, [completed(n)]))
        assert len(await store.load(run)) == 6
        most = max(most, threading.active_count())
        await store.release(run, epoch)

    await asyncio.gather(*map(drive, runs))
    assert most - before <= 5
    assert len(await store.list_runs()) == 200
    for run in runs:
        assert await seqs(store, run) == [1, 2, 3, 4, 5, 6]


async def test_appends_of_one_caller_keep_their_order(store: Store) -> None:
    run = await new_run(store)
    futures = [
        store.append(run, None if n % 7 == 3 else 0, [told(str(n))] * (n % 3 + 1) if n % 7 == 3 else [completed(n)])
        for n in range(100)
    ]
    drawn = [seq for future in futures for seq in await done(future)]
    assert drawn == list(range(1, len(drawn) + 1))


async def test_an_append_can_be_empty(store: Store) -> None:
    run = await new_run(store)
    assert await done(store.append(run, 0, [])) == ()
    assert await done(store.append(run, 0, [], status=RunStatus.RUNNING)) == ()
    record = await store.get_run(run)
    assert record is not None
    assert (record.status, record.next_seq) == (RunStatus.RUNNING, 1)
    with pytest.raises(FencedError):
        await done(store.append(run, 1, []))


async def test_the_status_changes_with_the_events(store: Store) -> None:
    run = await new_run(store)
    await done(store.append(run, 0, [completed(0)], status=RunStatus.RUNNING))
    with pytest.raises(DuplicateEventError):
        await done(store.append(run, 0, [completed(0)], status=RunStatus.FAILED))
    with pytest.raises(FencedError):
        await done(store.append(run, 5, [completed(1)], status=RunStatus.FAILED))
    record = await store.get_run(run)
    assert record is not None
    assert (record.status, record.next_seq) == (RunStatus.RUNNING, 2)
    futures = [
        store.append(run, 0, [completed(1)], status=RunStatus.WAITING),
        store.append(run, 0, [completed(2)]),
        store.append(run, 0, [completed(3)], status=RunStatus.COMPLETED),
        store.append(run, 0, [completed(4)]),
    ]
    await asyncio.gather(*map(done, futures))
    record = await store.get_run(run)
    assert record is not None
    assert (record.status, record.next_seq) == (RunStatus.COMPLETED, 6)


async def test_a_key_is_recorded_once(store: Store) -> None:
    run = await new_run(store, "run_1", started(0), completed(0))
    other = await new_run(store, "run_2")
    cases = [
        ([completed(1), completed(0)], "/#0, attempt 1"),
        ([completed(2), started(3), completed(2)], "/#2, attempt 1"),
        ([completed(1, branch="/4.x", attempt=2), completed(1, branch="/4.x", attempt=2)], "/4.x#1, attempt 2"),
    ]
    for events, place in cases:
        future, fine = store.append(run, 0, events), store.append(other, 0, [completed(None)])
        sentence = f"run 'run_1' already holds a 'completed' event at {place}; a key is recorded once"
        with pytest.raises(DuplicateEventError, match=re.escape(sentence)):
            await done(future)
        await done(fine)
    assert await seqs(store, run) == [1, 2]
    assert await seqs(store, other) == [1, 2, 3]
    # Neither another attempt, type, branch nor run is the same key.
    more = [completed(0, attempt=2), started(0, attempt=2), completed(0, branch="/0.x"), completed(1)]
    assert await done(store.append(run, 0, more)) == (3, 4, 5, 6)


async def test_events_of_one_append_are_written_together_or_not_at_all(store: Store) -> None:
    run = await new_run(store, "run_1", completed(5))
    with pytest.raises(DuplicateEventError):
        await done(store.append(run, 0, [completed(n, "x" * INLINE_BYTES) for n in range(10)]))
    assert await seqs(store, run) == [1]
    assert await done(store.append(run, 0, [completed(n) for n in range(5)])) == (2, 3, 4, 5, 6)


# --- the epoch ----------------------------------------------------------------------------------


async def test_an_old_epoch_is_fenced(store: Store) -> None:
    run = await new_run(store, "run_1", created())
    other = await new_run(store, "run_2")
    old = await store.claim(run, owner(1), lease_s=0)
    assert old == 1
    await done(store.append(run, old, [completed(0)]))
    new = await store.claim(run, owner(2), lease_s=LEASE_S)
    assert new == 2

    futures = [
        store.append(other, 0, [completed(0)]),
        store.append(run, old, [completed(1)]),
        store.append(run, new, [completed(1, "mine")]),
        store.append(run, old, [completed(2)], status=RunStatus.FAILED),
        store.append(other, 0, [completed(1)]),
    ]
    sentence = (
        "run 'run_1' is no longer driven from here: here:2:1.50 drives it under epoch 2, this process had epoch 1"
    )
    for i in (1, 3):
        with pytest.raises(FencedError, match=re.escape(sentence)):
            await done(futures[i])
    assert [await done(futures[i]) for i in (0, 2, 4)] == [(1,), (3,), (2,)]
    assert [event.body.get("outcome") for event in (await store.load(run))[1:]] == [{"value": "ok"}, {"value": "mine"}]
    # An epoch of the future is no better.
    with pytest.raises(FencedError):
        await done(store.append(run, 3, [completed(2)]))


async def test_without_an_epoch_only_external_events(store: Store) -> None:
    run = await new_run(store, "run_1", created())
    await done(store.append(run, 0, [], status=RunStatus.WAITING))
    assert await store.claim(run, owner(), lease_s=LEASE_S) == 1
    assert await done(store.append(run, None, [told(), answered(), cancel()])) == (2, 3, 4)
    with pytest.raises(StoreError, match="'completed' can be appended only by the process that drives the run"):
        await done(store.append(run, None, [told(), completed(0)]))
    with pytest.raises(StoreError, match="'later_type' can be appended only by"):
        await done(store.append(run, None, [NewEvent(type="later_type", v=1, ts=TS, body={})]))
    with pytest.raises(StoreError, match="the status 'failed' can be set only by the process that drives the run"):
        await done(store.append(run, None, [told()], status=RunStatus.FAILED))
    events = await store.load(run)
    assert [event.type for event in events] == ["run_created", "told", "answered", "cancel_requested"]
    assert events[1].data == Told(text="hello", by="me")
    record = await store.get_run(run)
    assert record is not None
    assert record.status is RunStatus.WAITING
    # The owner may write them too, and the run may have ended.
    await done(store.append(run, 1, [told()], status=RunStatus.COMPLETED))
    assert await done(store.append(run, None, [told()])) == (6,)


async def test_claim_takes_what_is_free(store: Store) -> None:
    run = await new_run(store)
    assert await store.claim(run, owner(1), lease_s=LEASE_S) == 1
    job = await store.job(run)
    assert job is not None
    assert (job.owner, job.epoch) == (owner(1), 1)
    assert job.lease_until is not None
    assert job.lease_until.utcoffset() == timedelta(0)
    assert await store.claim(run, owner(2), lease_s=LEASE_S) is None
    assert await store.claim(run, owner(1), lease_s=LEASE_S) is None
    assert await store.job(run) == job

    await store.release(run, 1)
    released = await store.job(run)
    assert released is not None
    assert (released.owner, released.epoch) == (None, 1)
    assert released.lease_until is None  # no time to compare: the clock may go back before the next claim
    assert await store.claim(run, owner(2), lease_s=LEASE_S) == 2


async def test_claim_takes_what_is_over(store: Store) -> None:
    run = await new_run(store)
    assert await store.claim(run, owner(1), lease_s=0) == 1
    assert await store.claim(run, owner(2), lease_s=-5) == 2
    assert await store.claim(run, owner(3), lease_s=LEASE_S) == 3
    assert await store.claim(run, owner(4), lease_s=LEASE_S) is None


async def test_claim_with_proof_takes_what_is_held(store: Store) -> None:
    run = await new_run(store)
    assert await store.claim(run, owner(1), lease_s=LEASE_S) == 1
    assert await store.claim(run, owner(2), lease_s=LEASE_S, expect_epoch=0) is None
    assert await store.claim(run, owner(2), lease_s=LEASE_S, expect_epoch=1) == 2
    assert await store.claim(run, owner(3), lease_s=LEASE_S, expect_epoch=1) is None
    job = await store.job(run)
    assert job is not None
    assert (job.owner, job.epoch) == (owner(2), 2)
    await store.release(run, 2)
    assert await store.claim(run, owner(3), lease_s=LEASE_S, expect_epoch=2) == 3


async def test_many_claims_at_once_have_one_winner(store: Store) -> None:
    run = await new_run(store)
    won = await asyncio.gather(*(store.claim(run, owner(i), lease_s=LEASE_S) for i in range(20)))
    assert sorted(epoch for epoch in won if epoch is not None) == [1]


async def test_a_heartbeat_prolongs_what_is_held_and_names_what_was_lost(store: Store) -> None:
    kept, lost, released = [await new_run(store, f"run_{name}") for name in ("kept", "lost", "released")]
    for run in (kept, lost, released):
        assert await store.claim(run, owner(1), lease_s=0) == 1
    assert await store.claim(lost, owner(2), lease_s=0) == 2
    await store.release(released, 1)

    held = {kept: 1, lost: 1, released: 1}
    assert await store.heartbeat(held, lease_s=LEASE_S) == {lost}
    # The one is held now, the others are as they were.
    assert await store.claim(kept, owner(3), lease_s=LEASE_S) is None
    assert await store.claim(lost, owner(3), lease_s=LEASE_S) == 3
    assert await store.claim(released, owner(3), lease_s=LEASE_S) == 2
    assert await store.heartbeat({}, lease_s=LEASE_S) == set()


async def test_release_of_another_epoch_does_nothing(store: Store) -> None:
    run = await new_run(store)
    assert await store.claim(run, owner(1), lease_s=0) == 1
    assert await store.claim(run, owner(2), lease_s=LEASE_S) == 2
    await store.release(run, 1)
    job = await store.job(run)
    assert job is not None
    assert job.owner == owner(2)
    assert await store.claim(run, owner(3), lease_s=LEASE_S) is None


async def test_the_last_appends_and_a_release_may_be_queued_together(store: Store) -> None:
    run = await new_run(store)
    assert await store.claim(run, owner(1), lease_s=LEASE_S) == 1
    future = store.append(run, 1, [completed(0)], status=RunStatus.COMPLETED)
    await store.release(run, 1)
    assert await store.claim(run, owner(2), lease_s=LEASE_S) == 2
    assert future.result(0) == (1,)


# --- blobs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, INLINE_BYTES, INLINE_BYTES + 1, 2_000_000])
async def test_blobs_come_back(store: Store, size: int) -> None:
    data = bytes(i % 251 for i in range(1000)) * (size // 1000) + b"\xff" * (size % 1000)
    sha256 = await store.put_blob(data, "image/png")
    assert sha256 == hashlib.sha256(data).hexdigest()
    assert await store.get_blob(sha256) == data
    assert await asyncio.gather(*(store.put_blob(data) for _ in range(8))) == [sha256] * 8
    assert await store.get_blob(sha256) == data


async def test_a_blob_that_was_never_kept(store: Store) -> None:
    for sha256 in ("0" * 64, "../../etc/passwd", ""):
        with pytest.raises(StoreError, match=re.escape(f"no blob {sha256!r} in this workspace")):
            await store.get_blob(sha256)


# --- threads, loops, closing --------------------------------------------------------------------


@pytest.mark.sampled(2)
async def test_several_event_loops_use_one_store(store: Store) -> None:
    run = await new_run(store)
    errors: list[BaseException] = []

    async def drive(thread: int) -> None:
        for n in range(20):
            await done(store.append(run, 0, [completed(n, branch=f"/{thread}.x")]))
            assert await store.load(run, upto=1) != []
            await store.put_blob(b"x" * thread)

    def main(thread: int) -> None:
        try:
            asyncio.run(drive(thread))
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=main, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.gather(drive(9), *(asyncio.to_thread(thread.join) for thread in threads))
    assert errors == []
    assert await seqs(store, run) == list(range(1, 101))


async def test_changed_sees_what_comes_from_outside(store: Store) -> None:
    run = await new_run(store)
    await store.changed()
    assert not await store.changed()
    await done(store.append(run, None, [told()]))
    assert await store.changed()
    assert not await store.changed()


async def test_what_was_queued_is_written_though_nobody_waits(store: Store) -> None:
    run = await new_run(store)
    task = asyncio.ensure_future(done(store.append(run, 0, [completed(0)])))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await done(store.append(run, 0, [completed(1)])) == (2,)


async def test_close_writes_what_was_appended_and_leaves_no_thread(store: Store) -> None:
    run = await new_run(store)
    futures = [store.append(run, 0, [completed(n)]) for n in range(200)]
    await asyncio.gather(store.close(), store.close())
    await store.close()
    assert [future.result(0) for future in futures] == [(n + 1,) for n in range(200)]
    assert store_threads() == []


async def test_a_closed_store_says_so(store: Store) -> None:
    run = await new_run(store)
    await store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.append(run, 0, [completed(0)])
    with pytest.raises(StoreError, match="is closed"):
        store.append(run, None, [completed(0)])
    for call in (
        store.load(run),
        store.get_run(run),
        store.list_runs(),
        store.job(run),
        store.claim(run, owner(), lease_s=1),
        store.heartbeat({run: 1}, lease_s=1),
        store.release(run, 1),
        store.create_run("run_2", manifest(), []),
        store.put_blob(b""),
        store.get_blob(""),
        store.changed(),
    ):
        with pytest.raises(StoreError, match="is closed"):
            await call
    with pytest.raises(StoreError, match="was closed"):
        await store.open()


async def test_a_store_opens_twice_without_harm(store: Store) -> None:
    run = await new_run(store)
    await asyncio.gather(store.open(), store.open())
    assert await seqs(store, run) == []
