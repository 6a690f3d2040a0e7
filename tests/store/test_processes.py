"""Several processes, and processes that die."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from tests.store.support import completed, done, finish, manifest, python, store_at, told
from tests.support.patience import LONGEST_S

from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import SqliteStore
from agentorchestra.log.store.rows import INLINE_BYTES

COMMON = """
import asyncio, os, resource, signal, sys
from pathlib import Path
from agentorchestra.core.errors import StoreFullError
from agentorchestra.core.spec import RunStatus
from tests.store.support import completed, created, done, kind_of, manifest, owner, store_at, told
place = sys.argv[1]
def say(*words):
    print(*words, flush=True)
"""


async def make(place: str, *runs: str) -> None:
    store = store_at(place)
    await store.open()
    for run in runs:
        await store.create_run(run, manifest(), [])
    await store.close()


def expect(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == line + "\n"


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.long
async def test_processes_that_open_a_new_workspace_at_once(place: str) -> None:
    program = (
        COMMON
        + """
import agentorchestra.log.store.migrations
async def main():
    store = store_at(place)
    say("ready")
    sys.stdin.readline()
    await store.open()
    await store.create_run(sys.argv[2], manifest(), [])
    await store.close()
asyncio.run(main())
"""
    )
    processes = [python(program, place, f"run_{i}") for i in range(5)]
    for process in processes:
        expect(process, "ready")
    for process in processes:
        go(process)
    for process in processes:
        finish(process)
    store = store_at(place)
    await store.open()
    assert sorted(record.id for record in await store.list_runs()) == [f"run_{i}" for i in range(5)]
    await store.close()


@pytest.mark.long
async def test_of_processes_that_claim_at_once_one_wins(place: str) -> None:
    runs = [f"run_{i}" for i in range(20)]
    await make(place, *runs)
    program = (
        COMMON
        + """
async def main():
    store = store_at(place)
    await store.open()
    say("ready")
    sys.stdin.readline()
    for run in sys.argv[2:]:
        epoch = await store.claim(run, owner(os.getpid()), lease_s=3600)
        if epoch is not None:
            say(run, epoch)
    await store.close()
asyncio.run(main())
"""
    )
    processes = [python(program, place, *runs) for _ in range(4)]
    for process in processes:
        expect(process, "ready")
    for process in processes:
        go(process)
    won = [line.split() for process in processes for line in finish(process).splitlines()]
    assert sorted(won) == sorted([run, "1"] for run in runs)


@pytest.mark.sampled(2)
async def test_processes_write_at_once(place: str) -> None:
    await make(place, "run_0", "run_1", "run_2", "shared")
    program = (
        COMMON
        + """
async def main():
    store = store_at(place)
    await store.open()
    say("ready")
    sys.stdin.readline()
    for n in range(150):
        await done(store.append(sys.argv[2], 0, [completed(n), told()]))
        await done(store.append("shared", None, [told(sys.argv[2])]))
    await store.close()
asyncio.run(main())
"""
    )
    processes = [python(program, place, f"run_{i}") for i in range(3)]
    for process in processes:
        expect(process, "ready")
    for process in processes:
        go(process)
    for process in processes:
        finish(process)
    store = store_at(place)
    await store.open()
    for i in range(3):
        events = await store.load(f"run_{i}")
        assert [event.seq for event in events] == list(range(1, 301))
        assert [event.n for event in events[::2]] == list(range(150))
    shared = await store.load("shared")
    assert [event.seq for event in shared] == list(range(1, 451))
    texts = [event.body["text"] for event in shared]
    assert [texts.count(f"run_{i}") for i in range(3)] == [150, 150, 150]
    await store.close()


@pytest.mark.sampled(2)
async def test_changed_sees_another_process(place: str) -> None:
    await make(place, "run_1")
    store = store_at(place)
    await store.open()
    assert not await store.changed()
    program = (
        COMMON
        + """
async def main():
    store = store_at(place)
    await store.open()
    await store.load("run_1")
    say("read")
    sys.stdin.readline()
    await done(store.append("run_1", None, [told("from elsewhere")]))
    await store.close()
asyncio.run(main())
"""
    )
    process = python(program, place)
    expect(process, "read")
    assert not await store.changed()
    go(process)
    finish(process)
    assert await store.changed()
    assert not await store.changed()
    assert (await store.load("run_1"))[0].body["text"] == "from elsewhere"
    assert await done(store.append("run_1", 0, [completed(0)])) == (2,)
    await store.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("acknowledged", [1, 17, 120])
async def test_a_killed_process_keeps_what_was_acknowledged(place: str, acknowledged: int) -> None:
    """Three chains; killed while they write."""
    await make(place, "run_1")
    program = (
        COMMON
        + """
async def chain(store, branch):
    for n in range(100_000):
        value = branch * 9000 if n % 5 == 4 else branch
        events = [completed(2 * n, value, branch), completed(2 * n + 1, branch=branch)]
        for seq in await done(store.append("run_1", 0, events)):
            say(branch, seq)
async def main():
    store = store_at(place)
    await store.open()
    await asyncio.gather(*(chain(store, f"/{i}.x") for i in range(3)))
asyncio.run(main())
"""
    )
    process = python(program, place)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    # Not communicate(): it reads past what readline() has buffered, and loses it.
    assert process.stderr is not None
    with process:
        out, err = process.stdout.read(), process.stderr.read()
    assert (process.returncode, err) == (-signal.SIGKILL, "")
    # The last line may have been cut off.
    lines = [line.split() for line in ("".join(said) + out).splitlines(keepends=True) if line.endswith("\n")]
    told_ = {int(seq): branch for branch, seq in lines}

    store = store_at(place)
    await store.open()
    events = await store.load("run_1")
    seqs = [event.seq for event in events]
    assert seqs == list(range(1, len(seqs) + 1))
    assert told_.items() <= {event.seq: event.branch for event in events}.items()
    for i in range(3):
        mine = [event for event in events if event.branch == f"/{i}.x"]
        # Each append holds two events: never one of them.
        assert [event.n for event in mine] == list(range(len(mine)))
        assert len(mine) % 2 == 0
        for event in mine:
            assert event.n is not None
            large = event.n % 10 == 8
            assert event.body["outcome"]["value"] in (f"/{i}.x" * 9000 if large else f"/{i}.x", "ok")
    record = await store.get_run("run_1")
    assert record is not None
    assert record.next_seq == len(events) + 1
    assert await done(store.append("run_1", 0, [completed(None)])) == (len(events) + 1,)
    await store.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("hook", "written"), [("before_commit", False), ("after_commit", True)])
async def test_killed_at_the_commit(place: str, hook: str, written: bool) -> None:
    await make(place, "run_1", "run_2")
    program = (
        COMMON
        + """
class Dying(kind_of(place)):
    def die(self, runs):
        if "run_2" in runs:
            os.kill(os.getpid(), signal.SIGKILL)
setattr(Dying, sys.argv[2], Dying.die)
async def main():
    store = store_at(place, Dying)
    await store.open()
    for n in range(3):
        print(await done(store.append("run_1", 0, [completed(n)])), flush=True)
    futures = [
        store.append("run_2", 0, [completed(0), completed(1, "x" * 20_000)], status=RunStatus.RUNNING),
        store.append("run_2", 0, [completed(2)]),
    ]
    await done(futures[0])
    say("never")
asyncio.run(main())
"""
    )
    process = python(program, place, hook)
    out, err = process.communicate(timeout=LONGEST_S)
    assert (process.returncode, out, err) == (-signal.SIGKILL, "(1,)\n(2,)\n(3,)\n", "")

    store = store_at(place)
    await store.open()
    assert [event.seq for event in await store.load("run_1")] == [1, 2, 3]
    record = await store.get_run("run_2")
    assert record is not None
    # The second append may or may not have been in the same transaction.
    seqs = [event.seq for event in await store.load("run_2")]
    assert seqs in ([[1, 2], [1, 2, 3]] if written else [[]])
    assert record.next_seq == len(seqs) + 1
    assert record.status is (RunStatus.RUNNING if written else RunStatus.CREATED)
    await store.close()


@pytest.mark.sampled(2)
async def test_a_process_that_does_not_close_ends_all_the_same(place: str) -> None:
    await make(place, "run_1")
    program = (
        COMMON
        + """
async def main():
    store = store_at(place)
    await store.open()
    await done(store.append("run_1", 0, [completed(0)]))
    say(len(await store.load("run_1")))
asyncio.run(main())
"""
    )
    process = python(program, place)
    out, _ = process.communicate(timeout=LONGEST_S)
    assert (process.returncode, out) == (0, "1\n")


@pytest.mark.long
async def test_a_limit_of_the_system_is_a_full_disk(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the write itself fails, in the database's files and in those of blobs."""
    await make(str(tmp_path), "run_1", "run_2")
    program = (
        COMMON
        + """
from agentorchestra.log.store import SqliteStore
folder = Path(place)
async def main():
    store = SqliteStore(folder)
    await store.open()
    await done(store.append("run_2", 0, [completed(0)]))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    drawn = []
    try:
        for n in range(1000):
            drawn += await done(store.append("run_1", 0, [completed(n, "x" * 10_000)]))
    except StoreFullError as exc:
        say(exc)
    events = await store.load("run_1")
    assert [event.seq for event in events] == drawn and len(drawn) > 5, drawn
    say(len(drawn))
    for attempt in (store.put_blob(b"x" * 500_000), done(store.append("run_2", 0, [completed(1, "x" * 500_000)]))):
        try:
            await attempt
        except StoreFullError as exc:
            say(exc)
    assert list((folder / "blobs" / "tmp").iterdir()) == []

    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    again = await done(store.append("run_1", 0, [completed(len(drawn), "x" * 10_000)]))
    assert again == (len(drawn) + 1,), again
    assert await done(store.append("run_2", 0, [completed(1, "x" * 500_000)])) == (2,)
    assert await store.get_blob(await store.put_blob(b"x" * 500_000)) == b"x" * 500_000
    await store.close()
asyncio.run(main())
"""
    )
    lines = finish(python(program, tmp_path)).splitlines()
    sentence = (
        f"no space left for the log in the workspace {tmp_path} (%s); nothing of this step was recorded. "
        "Free space there, then resume the run"
    )
    assert lines[0] == sentence % "disk I/O error"
    assert lines[2:] == [sentence % "File too large"] * 2
    store = SqliteStore(tmp_path)
    await store.open()
    assert [event.seq for event in await store.load("run_1")] == list(range(1, int(lines[1]) + 2))
    assert [len(event.body["outcome"]["value"]) for event in await store.load("run_2")] == [2, 500_000]
    assert INLINE_BYTES < 500_000
    await store.close()


@pytest.mark.long
async def test_a_stopped_process_does_not_hold_the_log_of_others(tmp_path: Path) -> None:
    """Readers go on while another process is stopped inside its transaction; writers wait for it."""
    await make(str(tmp_path), "run_1", "run_2")
    program = (
        COMMON
        + """
class Stopping(kind_of(place)):
    def before_commit(self, runs):
        say("inside")
        sys.stdin.readline()
async def main():
    store = store_at(place, Stopping)
    await store.open()
    await done(store.append("run_2", 0, [completed(0)]))
    await store.close()
asyncio.run(main())
"""
    )
    process = python(program, tmp_path)
    expect(process, "inside")
    store = SqliteStore(tmp_path)
    await store.open()
    assert await store.load("run_2") == []
    waiting = store.append("run_1", None, [told()])
    assert not waiting.done()
    go(process)
    assert await done(waiting) == (1,)
    finish(process)
    assert [event.seq for event in await store.load("run_2")] == [1]
    await store.close()
