"""Many files are read by forked workers: the same results, limits and ends as one by one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import MakePdf

from agentorchestra.core.errors import FileInputError
from agentorchestra.tools.files import worker
from agentorchestra.tools.files.readers import check_input, read_document, read_document_sync
from agentorchestra.tools.files.worker import ReadLimits

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


def forking() -> int:
    """The process that forks the workers of this one."""
    (kept,) = worker._forkers
    return kept.process.pid


@pytest.mark.long
async def test_the_same_documents_and_refusals(files: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4\nnothing\n%%EOF\n")
    singly = [await asyncio.to_thread(read_document_sync, path) for path in files]
    with pytest.raises(FileInputError) as refused:
        await read_document(broken)
    together = await asyncio.gather(*(read_document(path) for path in files * 3))
    assert together == singly * 3
    with pytest.raises(FileInputError) as caught:
        read_document_sync(broken)
    assert str(caught.value) == str(refused.value)
    assert children(forking()) == []


async def test_one_process_reads_all_files_of_a_process(files: list[Path]) -> None:
    for path in files:
        check_input(path)
    first = forking()
    threads = [asyncio.to_thread(read_document_sync, path) for path in files]
    await asyncio.gather(*threads, *(read_document(path) for path in files))
    assert forking() == first


async def test_what_one_worker_loads_is_there_for_those_after_it(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere/at/all")  # another environment: a process that has loaded nothing
    seen: list[list[str]] = []
    outcome = worker.Forker.outcome

    def noted(self: worker.Forker, *arguments: Any) -> Any:
        found = outcome(self, *arguments)
        seen.append([*self._load])
        return found

    monkeypatch.setattr(worker.Forker, "outcome", noted)
    for _ in range(3):
        await read_document(files[-1])
    assert "pypdf" in seen[0] and seen[1:] == [[], []]


async def test_a_file_that_takes_too_long_is_ended_and_the_others_go_on(slow_pdf: Path, files: list[Path]) -> None:
    await read_document(files[-1])
    with pytest.raises(FileInputError, match=r"slow\.pdf could not be read within 0\.5 s"):
        await read_document(slow_pdf, ReadLimits(seconds=0.5))
    await until(lambda: children(forking()) == [])
    assert (await read_document(files[-1])).kind == "pdf"


async def test_memory_is_bounded(files: list[Path]) -> None:
    for _ in range(3):  # whatever is loaded already
        with pytest.raises(FileInputError, match=r"made\.pdf needs more than 16 MiB to be read"):
            await read_document(files[-1], ReadLimits(memory_bytes=16 << 20))
        await read_document(files[-1])


async def test_a_cancelled_reader_leaves_no_worker(slow_pdf: Path, files: list[Path]) -> None:
    await read_document(files[1])
    task = asyncio.create_task(read_document(slow_pdf))
    await until(lambda: children(forking()))
    (reader,) = children(forking())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not running(reader))


async def test_another_process_forks_where_the_first_has_ended(files: list[Path], slow_pdf: Path) -> None:
    await read_document(files[1])
    task = asyncio.create_task(read_document(slow_pdf))
    first = forking()
    await until(lambda: children(first))
    os.kill(first, signal.SIGKILL)
    with pytest.raises(FileInputError, match=r"slow\.pdf was not read: all readers were ended"):
        await task
    assert (await asyncio.to_thread(read_document_sync, files[1])).kind == "text"
    assert (await read_document(files[-1])).kind == "pdf"
    assert forking() != first and not running(first)


async def test_a_process_without_work_is_ended(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    idle, source = files[0].with_name("_worker.py"), Path(worker._COMMAND[-1])
    (idle.parent / "formats").symlink_to(source.parent / "formats")
    idle.write_text(source.read_text().replace("_IDLE_S = 60.0", "_IDLE_S = 0.01"))
    monkeypatch.setattr(worker, "_COMMAND", (*worker._COMMAND[:-1], str(idle)))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")  # another environment: another process
    assert (await read_document(files[1])).kind == "text"
    (first,) = worker._forkers
    await until(lambda: not running(first.process.pid))
    assert (await read_document(files[1])).kind == "text"
    assert worker._forkers[0] is not first


_PARENT = """
import asyncio, sys
from pathlib import Path
from agentorchestra.tools.files import worker
from agentorchestra.tools.files.readers import read_document, read_document_sync

read_document_sync(Path(sys.argv[2]))
print(worker._forkers[0].process.pid, flush=True)
asyncio.run(read_document(Path(sys.argv[1])))
"""


async def test_all_end_with_a_killed_parent(slow_pdf: Path, files: list[Path]) -> None:
    words = (sys.executable, "-c", _PARENT, str(slow_pdf), str(files[1]))
    parent = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    server = int(await parent.stdout.readline())
    await until(lambda: children(server))
    (reader,) = children(server)
    os.kill(parent.pid, signal.SIGKILL)
    await parent.wait()
    await until(lambda: not running(server) and not running(reader))
