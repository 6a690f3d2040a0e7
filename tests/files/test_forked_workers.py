"""Many files are read by forked workers: the same results, limits and ends as one by one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import MakePdf
from tests.support.file_tools import Watched, place, search

from agentorchestra.core.errors import FileInputError
from agentorchestra.core.spec import FileRef
from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.indexer import bring_up
from agentorchestra.tools.files.readers import read_document
from agentorchestra.tools.files.worker import ForkServer, Limits

KINDS = {"application/json", "application/pdf", "text/html"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


@pytest.fixture
def files(tmp_path: Path, make_pdf: MakePdf) -> list[Path]:
    """A file of several kinds."""
    made = {
        "a.html": "<html><body><h1>Birds</h1><p>The heron stands.</p></body></html>",
        "b.json": '{"bird": "heron"}',
        "c.xml": "<?xml version='1.0'?><birds><bird>heron</bird></birds>",
        "d.txt": "The heron stands.\n",
    }
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as archive:
        archive.writestr("inside.csv", "bird,legs\nheron,2\n")
    return [*(tmp_path / name for name in made), tmp_path / "e.zip", make_pdf("The heron stands.", "The otter swims.")]


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Any) -> None:
    """Wait for what must come; a test that waits in vain is ended by its time limit."""
    while not condition():  # noqa: ASYNC110  # other processes set no event
        await asyncio.sleep(0.02)


@pytest.mark.long
async def test_the_same_documents_and_refusals(files: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4\nnothing\n%%EOF\n")
    singly = [await read_document(path) for path in files]
    with pytest.raises(FileInputError) as refused:
        await read_document(broken)
    async with ForkServer(KINDS) as server:
        together = await asyncio.gather(*(read_document(path) for path in files * 3))
        assert together == singly * 3
        with pytest.raises(FileInputError) as caught:
            await read_document(broken)
        assert str(caught.value) == str(refused.value)
        assert server._process is not None and children(server._process.pid) == []
    assert not running(server._process.pid)


async def test_a_file_that_takes_too_long_is_ended_and_the_others_go_on(slow_pdf: Path, files: list[Path]) -> None:
    async with ForkServer({"application/pdf"}) as server:
        await read_document(files[-1])
        with pytest.raises(FileInputError, match=r"slow\.pdf could not be read within 0\.5 s"):
            await read_document(slow_pdf, Limits(seconds=0.5))
        assert server._process is not None and children(server._process.pid) == []
        assert (await read_document(files[-1])).kind == "pdf"


async def test_memory_is_bounded(files: list[Path]) -> None:
    async with ForkServer({"application/pdf"}):
        with pytest.raises(FileInputError, match=r"made\.pdf needs more than 16 MiB to be read"):
            await read_document(files[-1], Limits(memory_bytes=16 << 20))


async def test_a_cancelled_reader_leaves_no_worker(slow_pdf: Path) -> None:
    async with ForkServer({"application/pdf"}) as server:
        task = asyncio.create_task(read_document(slow_pdf))
        assert server._process is not None
        pid = server._process.pid
        await until(lambda: children(pid))
        (worker,) = children(pid)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not running(worker))


async def test_without_the_process_files_are_read_one_by_one(files: list[Path], slow_pdf: Path) -> None:
    async with ForkServer(KINDS) as server:
        assert server._process is not None
        server._process.kill()
        assert (await read_document(files[0])).kind == "text"
        await server._process.wait()
        assert (await read_document(files[-1])).kind == "pdf"


_PARENT = """
import asyncio, sys
from pathlib import Path
from agentorchestra.tools.files.readers import read_document
from agentorchestra.tools.files.worker import ForkServer

async def main():
    async with ForkServer({"application/pdf"}) as server:
        print(server._process.pid, flush=True)
        await read_document(Path(sys.argv[1]))

asyncio.run(main())
"""


async def test_all_end_with_a_killed_parent(slow_pdf: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PARENT, str(slow_pdf), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    server = int(await parent.stdout.readline())
    await until(lambda: children(server))
    (worker,) = children(server)
    os.kill(parent.pid, signal.SIGKILL)
    await parent.wait()
    await until(lambda: not running(server) and not running(worker))


async def test_a_folder_of_pages_is_indexed_by_forked_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [tmp_path / f"page{number}.json" for number in range(30)]
    for number, page in enumerate(pages):
        page.write_text(json.dumps({"otter": number, "river": "Arn" if number == 17 else "Ulm"}))
    started: list[Any] = []
    original = asyncio.create_subprocess_exec

    async def counted(*command: Any, **options: Any) -> Any:
        started.append(command)
        return await original(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    ctx: Any = Watched([], tmp_path / "run")
    ctx._paths = {page.name: page for page in pages}
    ctx.manifest.files = tuple(
        FileRef(name=page.name, sha256=page.name, size=page.stat().st_size, media_type="application/json")
        for page in pages
    )
    blocks = await search(ctx, tmp_path, query="Arn")
    assert place(blocks[0])[0] == "page17.json"
    assert len(started) == 1
    with PassageIndex() as index:
        standing = await bring_up(ctx, index, ctx.manifest.files[:3])  # a few are not worth it
        assert len(standing.readable) == 3
    assert len(started) == 4
