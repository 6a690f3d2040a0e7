"""Reads one PDF in a process of its own: `python _pdf_worker.py PATH MODE MAX_PAGES MAX_CHARS MEMORY CPU_S PARENT FD`.

Run by path, not imported: it needs nothing but the standard library and pypdf. A parser of hostile input can neither be
interrupted nor bounded inside the caller's process, so it runs here, with limits set before the parser is imported, and
dies with its parent: by the kernel's parent-death signal on Linux, and everywhere by a pipe whose other end the
parent holds.

Writes one JSON object: {"pages": [...], "count": n} or {"error": code, "detail": sentence}.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import resource
import signal
import sys
import threading
from typing import Any


def die_with_parent(parent: int, fd: int) -> None:
    """End this process as soon as the parent is gone, however it went."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(fd, 1)  # nothing is ever written: this returns when the parent's end is closed
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit(memory: int, cpu_s: int) -> None:
    """Bound memory and processor time; no core files, no files written."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def correct_space_widths() -> None:
    """Let words apart in fonts that have no space of their own, as XeTeX writes them.

    pypdf 7.1 takes the default width of a CID font (1,000, an em) for the width of its space, so no gap between words
    is wide enough to count. There is no public setting for it; without the patch each line is one long word.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from pypdf.generic._font import Font

        original = Font.from_font_resource

        def corrected(*args: Any, **kwargs: Any) -> Any:
            font = original(*args, **kwargs)
            if font.space_width > 600:  # no font that is read has a space wider than a typewriter's
                font.space_width = 250
            return font

        Font.from_font_resource = staticmethod(corrected)  # type: ignore[method-assign]


def read(path: str, mode: str, max_pages: int, max_chars: int) -> dict[str, Any]:
    """The pages' texts (`mode` "read"), or only a look whether they can be had (`mode` "check")."""
    import pypdf

    correct_space_widths()
    logging.disable(logging.CRITICAL)  # pypdf logs a line per oddity of the file
    try:
        reader = pypdf.PdfReader(path, strict=False)
        if reader.is_encrypted:
            try:
                opened = bool(reader.decrypt(""))
            except Exception:
                opened = False
            if not opened:
                return {"error": "encrypted", "detail": ""}
        count = len(reader.pages)
    except MemoryError:
        return {"error": "memory", "detail": ""}
    except Exception as error:
        return {"error": "corrupt", "detail": f"{type(error).__name__}: {error}"[:200]}
    if count == 0:
        return {"error": "corrupt", "detail": "it has no pages"}
    if count > max_pages:
        return {"error": "pages", "detail": str(count)}
    pages: list[str] = []
    chars = failures = 0
    wanted = min(count, 3) if mode == "check" else count
    for number in range(wanted):
        try:
            text = reader.pages[number].extract_text()
        except MemoryError:
            return {"error": "memory", "detail": ""}
        except Exception:
            # One damaged page must not hide the others; a document without any good page is corrupt.
            text, failures = "", failures + 1
        text = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
        chars += len(text)
        if chars > max_chars:
            return {"error": "chars", "detail": str(number + 1)}
        pages.append(text)
    if failures == wanted:
        return {"error": "corrupt", "detail": "none of its pages can be decoded"}
    return {"pages": pages, "count": count}


def main() -> None:
    """Set the limits, read, write the result."""
    path, mode, *numbers = sys.argv[1:]
    max_pages, max_chars, memory, cpu_s, parent, fd = (int(number) for number in numbers)
    die_with_parent(parent, fd)
    limit(memory, cpu_s)
    try:
        result = read(path, mode, max_pages, max_chars)
    except MemoryError:
        result = {"error": "memory", "detail": ""}
    except RecursionError:
        result = {"error": "corrupt", "detail": "its objects are nested without end"}
    sys.stdout.write(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # the watching thread is blocked in a read


if __name__ == "__main__":
    main()
