"""Texts as Word wrote them until 2003 (.doc): read by programs of the system in a sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .base import ReadJob, Refused, text_document
from .media import in_memory

DOC = "application/msword"
_READERS = {"antiword": ("-m", "UTF-8.txt", "-w", "0", "-i", "1"), "catdoc": ("-d", "utf-8", "-w")}


def convert_doc(job: ReadJob, data: bytes) -> dict[str, Any]:
    """Return the text that the first of the programs gives which can read it."""
    programs = [path for name in _READERS if (path := shutil.which(name))]
    if not programs or shutil.which("bwrap") is None:
        raise Refused("doc", "bubblewrap" if programs else "antiword")
    text = "" if job.check else next(filter(None, (_read(Path(program), data) for program in programs)), "")
    if not (text or job.check):
        raise Refused("no_text", "no text in it can be found")
    return text_document(job, text, DOC)


def _read(program: Path, data: bytes) -> str:
    """Return what a program makes of a file, "" where it fails: it sees itself, its files and this one."""
    home = str(program.parent.parent)
    mounts = [word for path in ("/usr", "/lib", "/lib64", home) for word in ("--ro-bind-try", path, path)]
    with in_memory(data) as (_, fd):
        os.lseek(fd, 0, os.SEEK_SET)
        command = [
            *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
            *(*mounts, "--setenv", "ANTIWORDHOME", f"{home}/share/antiword", "--ro-bind-data", str(fd), "/a.doc"),
            *(str(program), *_READERS[program.name], "/a.doc"),
        ]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, pass_fds=(fd,), check=False)
    text = done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""
    return text and f"{text}\n"
