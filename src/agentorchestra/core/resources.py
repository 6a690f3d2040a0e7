"""What a process lacks, where an error of the system says so: descriptors, threads, memory."""

from __future__ import annotations

import errno
import os
import re

from agentorchestra.core.errors import ResourceError

LEAST_ADDRESS_SPACE = 256 << 20
LEAST_DESCRIPTORS = 12

_THREADS = (
    "this process cannot start another thread: too little address space (ulimit -v) or too many threads (ulimit -u)"
)
_MEMORY = "this process has too little memory (ulimit -v, or the limit of its container)"
_SYSTEM = "the whole system has too many files open"
_OF_ERRNO = {errno.EMFILE: "", errno.ENFILE: _SYSTEM, errno.ENOMEM: _MEMORY, errno.EAGAIN: _THREADS}
_OF_LIBRARIES = re.compile(r"(?:os error |code: )(\d+)\b")  # as Rust says it
_MAPPING_FAILURE = re.compile(r"failed to map segment|[Cc]annot allocate memory")  # as the loader of libraries says it
_NO_THREAD = re.compile(r"can't start new thread|spawn (?:worker )?thread")


def shortage(exc: BaseException | None) -> str:
    """Return what the process lacks by an error or by what led to it, a phrase; "" where it lacks nothing.

    A MemoryError counts too: somebody asked for more than there is.
    """
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        number: int | None = None
        if isinstance(exc, MemoryError):
            return _MEMORY
        if isinstance(exc, OSError):
            number = exc.errno
        elif isinstance(exc, ImportError) and _MAPPING_FAILURE.search(str(exc)):
            return _MEMORY
        elif isinstance(exc, RuntimeError) or type(exc).__name__ == "PanicException":
            if _NO_THREAD.search(str(exc)):
                return _THREADS
            match = _OF_LIBRARIES.search(str(exc))
            number = int(match[1]) if match else None
        # A socket that would block says EAGAIN too, and is no shortage.
        if number in _OF_ERRNO and not isinstance(exc, BlockingIOError):
            return _OF_ERRNO[number] or _descriptors()
        exc = exc.__cause__ or exc.__context__
    return ""


def refuse_small_limits() -> None:
    """Raise ResourceError where a limit of the process is too small for any run.

    With so little a thread can die before it has begun, and Python then waits for it without end.
    """
    import resource

    for limit, least, resource_name in (
        (resource.RLIMIT_AS, LEAST_ADDRESS_SPACE, "bytes of address space (ulimit -v, in KiB)"),
        (resource.RLIMIT_NOFILE, LEAST_DESCRIPTORS, "open files (ulimit -n)"),
    ):
        limit_value = resource.getrlimit(limit)[0]
        if limit_value != resource.RLIM_INFINITY and limit_value < least:
            raise ResourceError(f"this process may have {limit_value:,} {resource_name}; allow at least {least:,}")


def descriptor_shortage() -> str:
    """Return what is lacking where no further file can be opened, "" where one can; for libraries that do not say."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as exc:
        return shortage(exc)
    return ""


def refuse_shortage(exc: BaseException) -> None:
    """Raise ResourceError if an error came of what the process lacks."""
    lacking = shortage(exc)
    if lacking:
        raise ResourceError(f"{lacking}; allow more of it, then resume the run") from exc


def _descriptors() -> str:
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"this process may open {most} files at once, which is too few (ulimit -n)"
