"""Has `_worker.py` read a file in a process of its own, in bounds; its refusals become sentences."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from agentorchestra.core.errors import FileInputError

READABLE = (
    "PDF, Word, Excel, PowerPoint, OpenDocument texts and workbooks, EPUB, mail, notebooks, HTML, XML, JSON, CSV, "
    "plain text, zip and tar archives, pictures and recordings"
)


@dataclass(frozen=True)
class ReadLimits:
    max_bytes: int = 100_000_000  # of any file, and of any member of an archive
    seconds: float = 60.0  # wall-clock and processor time for one file
    memory_bytes: int = 1 << 30  # address space of the process that reads it
    output_bytes: int = 256_000_000  # what that process may write
    pages: int = 3_000  # pages of one PDF
    chars: int = 30_000_000  # characters of text of one file
    cells: int = 500_000  # cells of its tables; rows beyond are left out, and that is said
    members: int = 5_000  # parts of one archive, with those inside it
    unpacked_bytes: int = 400_000_000  # what an archive holds unpacked, with those inside it


LIMITS = ReadLimits()
_ENDING_S = 10.0  # how long the end of a killed worker is waited for; a busy machine takes a while to end it
_NO_STATUS = 256  # no status of a process: the one that forks has ended
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
    encoding: str = ""  # of the file's text; "" to look


def run(request: Request, limits: ReadLimits) -> tuple[dict[str, Any], bytes]:
    """Ask a worker; return its result, and the bytes that followed. Blocks. What it refuses is a FileInputError."""
    with tempfile.NamedTemporaryFile() as out:
        forker, name, ending = _start(request, limits, out.name)
        try:
            status = ending.result(limits.seconds)
        except TimeoutError:
            raise refusal(request.path, "time", "", limits) from None
        finally:
            if not ending.done():
                forker.tell({"kill": name})
                concurrent.futures.wait([ending], _ENDING_S)
        return forker.outcome(request.path, out, status, limits)


async def run_async(request: Request, limits: ReadLimits) -> tuple[dict[str, Any], bytes]:
    """Do as `run` for a caller with an event loop; when it is cancelled, no process is left."""
    with tempfile.NamedTemporaryFile() as out:
        starting = asyncio.create_task(asyncio.to_thread(_start, request, limits, out.name))
        try:
            async with asyncio.timeout(limits.seconds):
                _, _, ending = await asyncio.shield(starting)
                status = await asyncio.shield(asyncio.wrap_future(ending))
        except TimeoutError:
            raise refusal(request.path, "time", "", limits) from None
        finally:
            forker, name, ending = await starting  # a thread goes on when its caller is cancelled
            waiting = asyncio.wrap_future(ending)
            if not ending.done():
                forker.tell({"kill": name})
                await asyncio.wait([waiting], timeout=_ENDING_S)
            if not waiting.cancel():
                waiting.exception()  # looked at, wherever this is left
        return await asyncio.to_thread(forker.outcome, request.path, out, status, limits)


def payload(request: Request, limits: ReadLimits) -> dict[str, Any]:
    return asdict(request) | {"path": str(request.path.absolute()), "numbers": asdict(limits)}


def environment() -> dict[str, str]:
    """Return only what Python needs to start: a parser of hostile input gets no keys."""
    names = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT")
    # One thread each for libraries that would start one per processor, with a stack in the bounded address space.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {name: os.environ[name] for name in names if name in os.environ} | {"PYTHONUTF8": "1"} | threads


def refusal(path: Path, code: str, detail: str, limits: ReadLimits) -> FileInputError:
    """Return the error with the sentence for a code of a converter's."""
    if code == "foreign":
        kind, _, way_out = detail.partition("|")
        return FileInputError(f"{path} is {kind}, which cannot be read; {way_out}. Readable are {READABLE}.")
    more = f" ({detail})" if detail else ""
    mib = limits.memory_bytes >> 20
    unpacked_mb = limits.unpacked_bytes // 1_000_000
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
        "gone": "was not read: all readers were ended from outside, as by lack of memory; read it again.",
        "output": "holds more text than can be kept; give the part you need.",
        "archive": f"is corrupt: this archive cannot be read{more}; download or copy it again.",
        "archive_empty": f"holds no member that can be read{more}; give a file with content.",
        "member": f"is corrupt: one of its parts cannot be read ({detail}); download or copy it again.",
        "ratio": f"is packed like a bomb ({detail} grows more than 500 times); unpack it and give the part you need.",
        "unpacked": f"holds more than {unpacked_mb:,} MB when it is unpacked; give the part you need.",
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
        "encoding": f"cannot be read: {detail}; give a name such as 'cp1251', 'koi8-r' or 'big5'.",
        "extra_reading": "is HTML, which needs the extra `reading` to be read: pip install 'agentorchestra[reading]'.",
        "extra": f"needs {detail} to be read, which is not installed: pip install 'agentorchestra[files]'.",
        "corrupt": f"is corrupt: it cannot be read{more}; give an intact copy.",
    }
    return FileInputError(f"{path} {sentences.get(code) or f'cannot be read ({code} {detail}); give an intact copy.'}")


class Forker:
    """The process that forks a worker for each file, in bounds; it has loaded what the workers before needed.

    It is shared by all threads and event loops of this process, and ends with it, or when there is no work for a while.
    """

    def __init__(self) -> None:
        self.pid, self.environ = os.getpid(), environment()
        self.gone = False
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[int]] = {}
        self._load: list[str] = []  # modules that workers had to load themselves
        read_end, self._lifeline = os.pipe()  # only this process holds the other end: workers see it close
        self.process = subprocess.Popen(
            [*_COMMAND, str(read_end)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environ,
            pass_fds=(read_end,),
            start_new_session=True,
        )
        os.close(read_end)
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, request: Request, limits: ReadLimits, out: str) -> tuple[int, Future[int]]:
        """Start a worker that writes to a file; return its number, and what becomes its status."""
        name, ending = next(self._ids), Future[int]()
        self._waiting[name] = ending
        with self._lock:
            load, self._load = self._load, []
        self.tell({"id": name, "out": out, "load": load, "request": payload(request, limits)})
        return name, ending

    def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with self._lock, contextlib.suppress(OSError, ValueError):  # it is gone: `_listen` says so
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def outcome(self, path: Path, out: IO[bytes], status: int, limits: ReadLimits) -> tuple[dict[str, Any], bytes]:
        """Return what a worker wrote, and keep which modules it loaded, for those after it."""
        out.seek(0)
        try:
            result = json.loads(out.readline())
        except ValueError:
            # SIGXCPU or SIGKILL at the processor limit; 1 when even reporting took more memory than there is.
            code = {-24: "time", -9: "time", 1: "memory", 3: "output", _NO_STATUS: "gone"}.get(status, "corrupt")
            raise refusal(path, code, f"its reader ended with status {status}", limits) from None
        with self._lock:
            self._load += result.pop("loaded", ())
        if "error" in result:
            raise refusal(path, result["error"], result["detail"], limits)
        return result, out.read()

    def _listen(self) -> None:
        assert self.process.stdout is not None and self.process.stdin is not None
        with self.process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                with _starting:
                    ending = self._waiting.pop(message["id"], None)
                    self.gone = ending is None and not self._waiting  # it is idle
                if self.gone:
                    break
                if ending is not None and ending.set_running_or_notify_cancel():
                    ending.set_result(message["status"])
        with _starting:
            self.gone = True
        os.close(self._lifeline)
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        for ending in self._waiting.values():
            if ending.set_running_or_notify_cancel():
                ending.set_result(_NO_STATUS)


_forkers: list[Forker] = []
_starting = threading.Lock()


def _start(request: Request, limits: ReadLimits, out: str) -> tuple[Forker, int, Future[int]]:
    """Start a worker as `Forker.start`, by a new process that forks where there is none with this environment."""
    with _starting:
        if _forkers and (_forkers[0].gone or _forkers[0].pid != os.getpid() or _forkers[0].environ != environment()):
            _end()
        if not _forkers:
            _forkers.append(Forker())
        return _forkers[0], *_forkers[0].start(request, limits, out)


@atexit.register
def _end() -> None:
    """End the process that forks, and with it its workers."""
    old = _forkers.pop() if _forkers else None
    if old is not None and old.pid == os.getpid():
        old.process.kill()
        old.process.wait()
