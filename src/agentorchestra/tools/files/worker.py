"""Starts `_worker.py`, or forks it from a loaded process for many files, in bounds; its refusals become sentences."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

from agentorchestra.core.errors import FileInputError

READABLE = (
    "PDF, Word, Excel, PowerPoint, OpenDocument texts and workbooks, EPUB, mail, notebooks, HTML, XML, JSON, CSV, "
    "plain text, zip and tar archives, pictures and recordings"
)


@dataclass(frozen=True)
class Limits:
    """Bounds on what is read."""

    max_bytes: int = 100_000_000  # of any file, and of any member of an archive
    seconds: float = 60.0  # wall-clock and processor time for one file
    memory_bytes: int = 1 << 30  # address space of the process that reads it
    output_bytes: int = 256_000_000  # what that process may write
    pages: int = 3_000  # pages of one PDF
    chars: int = 30_000_000  # characters of text of one file
    cells: int = 500_000  # cells of its tables; rows beyond are left out, and that is said
    members: int = 5_000  # parts of one archive, with those inside it
    unpacked_bytes: int = 400_000_000  # what an archive holds unpacked, with those inside it


LIMITS = Limits()
_COMMAND = (sys.executable, "-P", str(Path(__file__).with_name("_worker.py")))

Mode = Literal["check", "read", "media", "frames", "member", "unpack", "shape", "page"]


@dataclass(frozen=True)
class Request:
    """A question to a worker."""

    path: Path
    mode: Mode
    member: Sequence[str] = ()  # the names of the parts that lead to a member; none for the file itself
    at: Sequence[float] = ()  # seconds at which frames are taken
    count: int = 0  # frames that are taken evenly, when `at` is empty
    # The form that is wanted (formats/media.py), or what a server said of a page (formats/webpage.py)
    asked: Mapping[str, Any] = field(default_factory=dict)


class WorkersGoneError(Exception):
    """The process that forks workers has ended; they are started one by one."""


# Runs the workers of this task in another way
FORKER: ContextVar[Callable[[Request, Limits], Awaitable[tuple[dict[str, Any], bytes]]] | None] = ContextVar(
    "forker", default=None
)


def run(request: Request, limits: Limits) -> tuple[dict[str, Any], bytes]:
    """Ask a worker; return its result, and the bytes that followed. Blocks. What it refuses is a FileInputError."""
    with _starting(request, limits) as (command, out, options), subprocess.Popen(command, **options) as process:
        try:
            process.wait(limits.seconds)
        except subprocess.TimeoutExpired:
            raise refused(request.path, "time", "", limits) from None
        finally:
            _end(process.pid)
            process.kill()  # a no-op after a normal end; `with` reaps it
        return outcome(request.path, out, process.returncode, limits)


async def run_async(request: Request, limits: Limits) -> tuple[dict[str, Any], bytes]:
    """Do as `run` for a caller with an event loop; when it is cancelled, no process is left."""
    forker = FORKER.get()
    if forker is not None:
        with contextlib.suppress(WorkersGoneError):
            return await forker(request, limits)
    with _starting(request, limits) as (command, out, options):
        process = await asyncio.create_subprocess_exec(*command, **options)
        try:
            async with asyncio.timeout(limits.seconds):
                await process.wait()
        except TimeoutError:
            raise refused(request.path, "time", "", limits) from None
        finally:
            _end(process.pid)
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                # Reap it even while being cancelled: a killed process ends at once.
                await process.wait()
        return await asyncio.to_thread(outcome, request.path, out, process.returncode, limits)


def _end(pid: int) -> None:
    """End what the worker started (ffmpeg): its process group has its id."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


@contextlib.contextmanager
def _starting(request: Request, limits: Limits) -> Iterator[tuple[list[str], IO[bytes], dict[str, Any]]]:
    """Give the command of a worker, the file it writes to, and the options of its process."""
    with lifeline() as child_end, tempfile.TemporaryFile() as out:
        told = asked(request, limits) | {"parent": os.getpid(), "fd": child_end}
        command = [*_COMMAND, json.dumps(told)]
        options = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.DEVNULL, "env": environment()}
        yield command, out, {**options, "pass_fds": (child_end,), "start_new_session": True}


def asked(request: Request, limits: Limits) -> dict[str, Any]:
    return asdict(request) | {"path": str(request.path.absolute()), "numbers": asdict(limits)}


def environment() -> dict[str, str]:
    """Return only what Python needs to start: a parser of hostile input gets no keys."""
    kept = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT")
    # One thread each for libraries that would start one per processor, with a stack in the bounded address space.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONUTF8": "1"} | threads


@contextlib.contextmanager
def lifeline() -> Iterator[int]:
    """Return a pipe whose write end only this process holds: the child sees it close when this process is gone."""
    read_end, write_end = os.pipe()
    try:
        yield read_end
    finally:
        os.close(read_end)
        os.close(write_end)


def outcome(path: Path, out: IO[bytes], returncode: int | None, limits: Limits) -> tuple[dict[str, Any], bytes]:
    out.seek(0)
    try:
        result = json.loads(out.readline())
    except ValueError:
        # SIGXCPU or SIGKILL at the processor limit; 1 when even reporting took more memory than there is.
        code = {-24: "time", -9: "time", 1: "memory", 3: "output"}.get(returncode or 0, "corrupt")
        raise refused(path, code, f"its reader ended with status {returncode}", limits) from None
    if "error" in result:
        raise refused(path, result["error"], result["detail"], limits)
    return result, out.read()


def refused(path: Path, code: str, detail: str, limits: Limits) -> FileInputError:
    """Return the error with the sentence for a code of a converter's."""
    if code == "foreign":
        what, _, way_out = detail.partition("|")
        return FileInputError(f"{path} is {what}, which cannot be read; {way_out}. Readable are {READABLE}.")
    more = f" ({detail})" if detail else ""
    mib = limits.memory_bytes >> 20
    unpacked = limits.unpacked_bytes // 1_000_000
    sentences = {
        "empty": "is empty; give a file with content.",
        "binary": f"is corrupt or not a document: it holds binary data; give a readable file ({READABLE}).",
        "encrypted_pdf": "is an encrypted PDF; remove its password first, e.g. with qpdf --decrypt.",
        "encrypted_office": "is an encrypted office document; save it without a password.",
        "encrypted_archive": "is an encrypted archive; unpack it with its password and give what it holds.",
        "encrypted_member": f"holds an encrypted member{more}; unpack it with its password and give what it holds.",
        "pdf": f"is corrupt: this PDF cannot be read{more}; give an intact copy.",
        "pdf_cut": "is corrupt: this PDF is cut off (its end is missing); download or copy it again.",
        "pdf_blank": f"has {detail} page(s), and nothing is written or drawn on them; give a document with content.",
        "pages": f"has {detail} pages; at most {limits.pages} can be read: give the part you need.",
        "chars": f"holds more than {limits.chars:,} characters by {detail}; give the part you need.",
        "memory": f"needs more than {mib} MiB to be read; give a smaller part of it.",
        "time": f"could not be read within {limits.seconds:g} s; give a smaller part of it.",
        "output": "holds more text than can be kept; give the part you need.",
        "archive": f"is corrupt: this archive cannot be read{more}; download or copy it again.",
        "archive_empty": f"holds no member that can be read{more}; give a file with content.",
        "member": f"is corrupt: one of its parts cannot be read ({detail}); download or copy it again.",
        "ratio": f"is packed like a bomb ({detail} grows more than 500 times); unpack it and give the part you need.",
        "unpacked": f"holds more than {unpacked:,} MB when it is unpacked; give the part you need.",
        "members": f"holds more than {limits.members:,} parts; give those you need.",
        "depth": "lies inside too many archives; unpack it first.",
        "entities": "declares XML entities, by which small files grow without end; write them out and save it again.",
        "office": f"is corrupt: this document cannot be read{more}; save it again and give the new file.",
        "mail": f"is corrupt: this message cannot be read{more}; save it again and give the new file.",
        "ole": "is an old office document; save it as .docx, .xlsx, .pptx or .pdf.",
        "doc": f"is a Word document of before 2007, which needs {detail} to be read (Debian: apt install {detail}); "
        "install it, or save the file as .docx.",
        "open_document": f"is an OpenDocument file{more}; save it as .docx, .xlsx, .pptx or .pdf.",
        "no_text": f"holds nothing that can be read: {detail}; give a document with content.",
        "no_frames": f"gives no frames: {detail}.",
        "no_member": f"has no member {detail!r}.",
        "no_archive": "is no zip or tar archive and no compressed file; there is nothing to unpack.",
        "medium": f"cannot be looked at or listened to: {detail}.",
        "extra_reading": "is HTML, which needs the extra `reading` to be read: pip install 'agentorchestra[reading]'.",
        "extra": f"needs {detail} to be read, which is not installed: pip install 'agentorchestra[files]'.",
        "corrupt": f"is corrupt: it cannot be read{more}; give an intact copy.",
    }
    return FileInputError(f"{path} {sentences.get(code) or f'cannot be read ({code} {detail}); give an intact copy.'}")


MANY = 8  # files from which on loading the libraries for all of them is worth it
# What the workers import for a type of file; `markitdown` brings the libraries of all others
_LIBRARIES: dict[str, tuple[str, ...]] = {
    "application/pdf": ("pypdf", "pdfplumber"),
    "application/json": (),
    "application/xml": (),
    "application/gzip": (),
    "application/x-tar": (),
}


class ForkServer:
    """While it is open, files that this task reads are read by forked workers: a process each, with the same limits."""

    def __init__(self, kinds: set[str]) -> None:
        self._load = sorted({name for kind in kinds for name in _LIBRARIES.get(kind, ("markitdown",))})
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._stack = contextlib.ExitStack()
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        fd = self._stack.enter_context(lifeline())
        self._process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            "--fork",
            str(fd),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment(),
            pass_fds=(fd,),
            start_new_session=True,
        )
        self._listening = asyncio.create_task(self._listen(self._process))
        self._token = FORKER.set(self.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        FORKER.reset(self._token)
        assert self._process is not None and self._listening is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()  # the kernel ends its workers, and so does the pipe
        self._stack.close()
        await self._process.wait()
        await self._listening

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            told = json.loads(line)
            future = self._waiting.pop(told["id"], None)
            if future is not None and not future.done():
                future.set_result(told["status"])
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkersGoneError())
        self._waiting.clear()

    async def run(self, request: Request, limits: Limits) -> tuple[dict[str, Any], bytes]:
        """Do as `run_async`; WorkersGoneError if there is no process that forks."""
        name = next(self._ids)
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._listening is None or self._listening.done():
            raise WorkersGoneError
        self._waiting[name] = ended
        with tempfile.NamedTemporaryFile() as out:
            self._tell({"id": name, "out": out.name, "load": self._load, "request": asked(request, limits)})
            try:
                async with asyncio.timeout(limits.seconds):
                    status = await asyncio.shield(ended)
            except TimeoutError:
                raise refused(request.path, "time", "", limits) from None
            finally:
                if not ended.done():
                    self._tell({"kill": name})
                    await asyncio.wait([ended], timeout=1.0)  # it may be loading: then the end of all ends it
                if not ended.cancelled():
                    ended.exception()  # looked at, wherever this is left
            return await asyncio.to_thread(outcome, request.path, out, status, limits)

    def _tell(self, what: dict[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
