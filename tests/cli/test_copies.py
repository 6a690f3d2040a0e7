"""Workspaces that were copied, moved, backed up or cannot be written; paths that are no workspace."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.clock import SystemClock
from agentorchestra.core.errors import BackupError
from agentorchestra.core.events import Noted, new_event
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.workspace import Workspace
from tests.cli.support import Folder

BWRAP = shutil.which("bwrap")
ONE_AFTER_THE_OTHER = """
import contextlib, io, json, sys
from agentorchestra.cli import main

ended = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        ended.append((main(words), said.getvalue()))
print(json.dumps(ended))
"""
"""The commands given as JSON, in one process: each one's exit code and what it wrote to standard error."""


async def _append(ws: Workspace[Any], run: str, epoch: int, size: int) -> None:
    event = new_event(Noted(message="x" * size), ts=SystemClock().now())
    await asyncio.wrap_future(ws.store.append(run, epoch, [event]))


async def test_a_backup_is_consistent_while_a_run_goes_on(tmp_path: Path) -> None:
    targets = [tmp_path / "copies" / str(n) for n in range(3)]
    async with Workspace(tmp_path / "ws") as ws:
        run = await ws.create("What?")
        (ws.folder / "runs" / run).mkdir(parents=True, exist_ok=True)
        (ws.folder / "runs" / run / "workspace.db").write_text("a file of the run's own")
        epoch = await ws.engine.claim(run)
        ended = asyncio.Event()

        async def write() -> None:
            size = 0
            while not ended.is_set():
                size = (size + 7919) % 60_000  # some lie in blobs, each in another one
                await _append(ws, run, epoch, size + 1)

        writing = asyncio.create_task(write())
        for target in targets:
            await ws.log.backup(target)
        ended.set()
        await writing
        await ws.engine.release(run, epoch)
        whole = await ws.log.events(run)
    counts = []
    for target in targets:
        assert not [one for one in target.iterdir() if one.name.startswith("workspace.db.")]
        assert (target / "runs" / run / "workspace.db").read_text() == "a file of the run's own"
        async with Workspace(target) as copy:
            events = await copy.log.events(run)
            assert events == whole[: len(events)]
            record = await copy.store.get_run(run)
            assert record is not None
            assert record.next_seq == len(events) + 1
            counts.append(len(events))
    assert counts == sorted(counts)
    assert counts[0] > 0


async def test_a_backup_needs_a_free_place_outside_and_a_log_in_the_folder(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        (tmp_path / "there").mkdir()
        with pytest.raises(BackupError, match=r"there is there already; name a folder that is not"):
            await ws.log.backup(tmp_path / "there")
        with pytest.raises(BackupError, match=r"lies in the workspace .* itself; name a folder outside"):
            await ws.log.backup(ws.folder / "copy")
        (tmp_path / "file").write_text("")
        with pytest.raises(BackupError, match=r"cannot be made \(Not a directory\); name another folder"):
            await ws.log.backup(tmp_path / "file" / "copy")
    async with Workspace(tmp_path / "ws2", store=MemoryStore()) as ws:
        with pytest.raises(BackupError, match=r"the log lies in memory, not in the folder"):
            await ws.log.backup(tmp_path / "copy")


async def test_a_moved_workspace_and_a_copied_one_open_and_go_on(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        run = (await ws.run("What is 6 * 7?", model="offline")).run_id
    shutil.copytree(tmp_path / "ws", tmp_path / "copied")
    (tmp_path / "ws").rename(tmp_path / "moved")
    for place in ("copied", "moved"):
        async with Workspace(tmp_path / place) as ws:
            assert (await ws.replay(run)).status is RunStatus.COMPLETED
            assert (await ws.run("What is 6 * 7?", model="offline")).status is RunStatus.COMPLETED


def test_a_changed_event_is_said_to_be_changed(app: Folder) -> None:
    run = app.run("run", "PLAN escape", "--json").json["run_id"]
    with closing(sqlite3.connect(app.workspace / "workspace.db")) as connection, connection:
        query = "SELECT max(seq) FROM events WHERE type = 'completed' AND body LIKE '%text%'"
        (seq,) = connection.execute(query).fetchone()
        connection.execute("UPDATE events SET body = replace(body, 'text', 'test') WHERE seq = ?", (seq,))
    said = f"the log was changed: event {seq} of run {run} is not the one that was recorded"
    for words in (("replay", run), ("export", run), ("fork", run, "--at", str(seq))):
        refused = app.run(*words)
        assert (refused.code, said in refused.err) == (1, True), (words, refused.err)
        assert "diverged" not in refused.err
    assert app.run("show", run).code == 0
    assert f"run {run}: event {seq} was changed after it was recorded" in app.run("doctor", "--deep").out
    fork = app.run("fork", run, "--at", str(seq - 1), "--json")
    assert fork.code == 0, fork.err


@pytest.mark.long
def test_a_given_file_that_was_changed_is_named(folder: Folder) -> None:
    (folder.path / "notes.txt").write_text("The deposit is 900 euros.\n")
    folder.run("run", "How much is the deposit?", "--file", "notes.txt", "--model", "offline")
    assert re.search(r"given files +1 were read", folder.run("doctor", "--deep").out)
    (kept,) = (folder.workspace / "files").glob("??/*")
    kept.chmod(0o600)
    kept.write_text("The deposit is 100 euros.\n")
    done = folder.run("doctor", "--deep")
    assert done.code == 1
    assert f"{kept.name} was changed after it was given; restore it from a backup" in done.out


@pytest.mark.long
@pytest.mark.skipif(BWRAP is None, reason="bubblewrap mounts the folder read-only")
def test_a_workspace_that_cannot_be_written_can_be_read(app: Folder) -> None:
    assert app.run("run", "PLAN ask").code == 3
    (run,) = app.ids()

    readable = [
        ("runs",),
        ("show", run),
        ("replay", run),
        ("compare", run, run),
        ("export", run, "--out", "run.zip"),
        ("cost",),
        ("backup", "copy"),
    ]
    changing = [("cancel", run), ("answer", run, "blue"), ("run", "PLAN ask")]
    command = [str(BWRAP), "--bind", "/", "/", "--ro-bind", str(app.workspace), str(app.workspace), "--dev", "/dev"]
    command += ["--chdir", str(app.path), sys.executable, "-c", ONE_AFTER_THE_OTHER, json.dumps(readable + changing)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ended = json.loads(done.stdout.splitlines()[-1])
    for words, (code, said) in zip(readable + changing, ended, strict=True):
        assert code == (0 if words in readable else 1), (words, said)
        if words in changing:
            assert "cannot write to the workspace" in said
            assert "make it writable, or choose another --workspace" in said
    assert app.run("answer", run, "blue", "--workspace", "copy").code == 0


@pytest.mark.parametrize("words", [["runs"], ["log"], ["show", "last"], ["backup", "copy"]])
def test_a_path_that_is_no_workspace_is_an_error(folder: Folder, words: list[str]) -> None:
    (folder.path / "other").mkdir()
    before = sorted(folder.path.rglob("*"))
    for name, why in (("lease.txt", "is a file"), ("other", "holds no workspace"), ("missing", "does not exist")):
        refused = folder.run(*words, "--workspace", name)
        assert refused.code == 2
        assert f"{name} {why}; name a workspace with --workspace" in refused.error
    assert sorted(folder.path.rglob("*")) == before
