"""An import or export that does not come to its end leaves nothing that counts, and can be done again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from agentorchestra.core.errors import BundleError, StoreFullError
from agentorchestra.core.settings import Settings
from agentorchestra.workspace import Workspace
from tests.bundle.support import here, recorded, settings

_KILLED = """
import asyncio, os, sys
from pathlib import Path
from agentorchestra.log.store import SqliteStore
from agentorchestra.workspace import Workspace

class Dying(SqliteStore):
    def before_commit(self, runs):
        if runs:  # the last step: the run's row and its events
            os._exit(9)

async def main():
    folder = Path(sys.argv[1])
    async with Workspace(folder, store=Dying(folder), environ={}) as ws:
        await ws.log.import_file(sys.argv[2])

asyncio.run(main())
"""


async def bundle(tmp_path: Path) -> tuple[Path, str]:
    async with here(tmp_path) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        return (await ws.log.export(run, tmp_path / "run.zip")).path, run


@pytest.mark.long
async def test_a_process_that_dies_before_the_last_commit(tmp_path: Path) -> None:
    path, run = await bundle(tmp_path)
    there = tmp_path / "there"
    words = [sys.executable, "-c", _KILLED, str(there), str(path)]
    done = await asyncio.to_thread(lambda: subprocess.run(words, capture_output=True, text=True, check=False))
    assert done.returncode == 9, done.stderr
    async with Workspace(there, settings=settings(), environ={}) as ws:
        assert await ws.runs.list() == []
        assert (there / "runs" / run / "files" / "report.txt").exists()  # what it had written by then
        (imported,) = await ws.log.import_file(path)
        assert not imported.identical
        assert (await ws.replay(run)).answer == "three figures"
        assert (there / "runs" / run / "files" / "more" / "ä b.txt").read_text() == "further words\n"


@pytest.mark.long
async def test_several_at_once(tmp_path: Path) -> None:
    path, run = await bundle(tmp_path)
    spaces = [Workspace(tmp_path / "there", settings=settings(), environ={}) for _ in range(4)]
    for ws in spaces:
        await ws.open()
    done = [one for (one,) in await asyncio.gather(*(ws.log.import_file(path) for ws in spaces))]
    assert [one.run_id for one in done] == [run] * 4
    assert sorted(one.identical for one in done) == [False, True, True, True]
    assert (tmp_path / "there" / "runs" / run / "files" / "report.txt").read_text().startswith("Figures wanted")
    assert (await spaces[0].replay(run)).answer == "three figures"
    for ws in spaces:
        await ws.close()


@pytest.mark.long
async def test_a_full_database(tmp_path: Path) -> None:
    path, run = await bundle(tmp_path)
    there = tmp_path / "there"
    async with Workspace(there, settings=Settings(max_bytes=100_000), environ={}) as ws:
        with pytest.raises(StoreFullError, match="no space left for the log"):
            await ws.log.import_file(path)
        assert await ws.runs.list() == []
        assert not (there / "runs" / run).exists()
    async with Workspace(there, settings=settings(), environ={}) as ws:
        assert [one.run_id for one in await ws.log.import_file(path)] == [run]


async def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    async with here(tmp_path) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        out = tmp_path / "out"
        out.mkdir()
        kept = tmp_path / "ws" / "files"
        (report,) = [path for path in kept.rglob("*") if path.is_file() and b"Figures" in path.read_bytes()]
        report.unlink()
        named = tmp_path / "ws" / "runs" / run / "files" / "report.txt"
        named.unlink()
        with pytest.raises(BundleError, match=r"the file 'report.txt' of the task is no longer kept in .* --no-files"):
            await ws.log.export(run, out / "run.zip")
        named.write_bytes(b"figures wanted: cover, left, right.\n")  # as long as it was
        with pytest.raises(BundleError, match=r"the file 'report.txt' of the task is not what it was when the run was"):
            await ws.log.export(run, out / "run.zip")
        assert list(out.iterdir()) == []
        done = await ws.log.export(run, out / "run.zip", files=False)
        assert [path.name for path in out.iterdir()] == ["run.zip"]
    async with Workspace(tmp_path / "there", settings=settings(), environ={}) as ws:
        (imported,) = await ws.log.import_file(done.path)
        assert imported.left_out
        assert (await ws.replay(run)).answer == "three figures"
