"""Texts as Word wrote them until 2003 (.doc): read by antiword, which sees its own files and this one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .base import Job, Refused, one_line, text_document
from .media import die_with_parent, in_memory

DOC = "application/msword"


def convert_doc(job: Job, data: bytes) -> dict[str, Any]:
    """Return the text, its tables as lines whose cells stand between `|`."""
    program, bwrap = shutil.which("antiword"), shutil.which("bwrap")
    if program is None or bwrap is None:
        raise Refused("doc", "antiword" if program is None else "bubblewrap")
    if job.check:
        return text_document(job, "", DOC)
    home = Path(program).parent.parent
    shown = [word for one in ("/usr", "/lib", "/lib64", str(home)) for word in ("--ro-bind-try", one, one)]
    with in_memory(data) as (_, fd):
        command = [
            *(bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", *shown),
            *("--setenv", "ANTIWORDHOME", str(home / "share" / "antiword"), "--ro-bind-data", str(fd), "/a.doc"),
            *(program, "-m", "UTF-8.txt", "-w", "0", "-i", "1", "/a.doc"),
        ]
        os.lseek(fd, 0, os.SEEK_SET)
        options = {"stdin": subprocess.DEVNULL, "pass_fds": (fd,), "preexec_fn": die_with_parent}
        done = subprocess.run(command, capture_output=True, check=False, **options)
    text = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        raise Refused("office", one_line(" ".join(done.stderr.decode("utf-8", "replace").split())))
    if not text:
        raise Refused("no_text", "this document has no text")
    return text_document(job, text + "\n", DOC)
