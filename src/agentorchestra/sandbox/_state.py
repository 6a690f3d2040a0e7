"""The state of a shell: read from the file that _after.sh writes, and the script that puts it back.

Inside the sandbox. All texts are what bash itself wrote (`declare -p` and its kind); only a bash in here reads them.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

RECORD_BYTES = 64_000
STATE_BYTES = 512_000
LOOKED_AT = 64 << 20

_TRANSIENT = re.compile(
    r"BASH.*|EUID|UID|PPID|SHELLOPTS|RANDOM|SRANDOM|SECONDS|LINENO|PWD|OLDPWD|SHLVL|_|FUNCNAME|GROUPS|DIRSTACK|HISTCMD|"
    r"PIPESTATUS|EPOCH.*|COMP_.*|OPTIND|OPTERR|PS[0124]|TMOUT|MAILCHECK|HISTFILE|PROMPT_COMMAND|COLUMNS|LINES|__ao_.*"
)
_OPTIONS_NOT_KEPT = re.compile(r"errexit|monitor|history|histexpand|noexec|onecmd|restricted_shell|login_shell")


class ShellSnapshot:
    """The last known state of the shell; directories below the working folder are kept relative to it."""

    def __init__(self, work: str) -> None:
        self.work = os.path.realpath(work)
        self.directory = "."
        self.variables: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.options: list[str] = []
        self.baseline: dict[str, str] = {}  # what a new shell has
        self.defaults: set[str] = set()
        self.jobs: list[tuple[int, str]] = []  # process groups and texts of what the shell has in the background
        self.notes: list[str] = []  # what is too large to be kept

    def begin(self, path: str) -> None:
        """Note what a new shell has."""
        records = read_records(path)
        self.baseline = {name: text for kind, name, text in records if kind == "variable"}
        self.defaults = {
            line for kind, _, text in records if kind in ("options", "umask") for line in text.splitlines()
        }

    def read(self, path: str) -> None:
        """Take what the shell wrote; a file that is missing or not whole changes nothing."""
        try:
            records = read_records(path)
        except OSError:
            return
        if not any(kind == "status" for kind, _, _ in records):
            return
        self.variables, self.functions, self.options, self.notes, size = {}, {}, [], [], 0
        self.jobs = []
        for kind, name, text in records:
            if kind == "directory":
                self.directory = self.relative(text)
            elif kind in ("variable", "function"):
                if kind == "variable" and (_TRANSIENT.fullmatch(name) or self.baseline.get(name) == text):
                    continue
                size += len(text)
                if len(text) > RECORD_BYTES or size > STATE_BYTES:
                    size -= len(text)
                    self.notes.append(f"{kind} {name[:100]} ({len(text):,} characters)")
                else:
                    (self.variables if kind == "variable" else self.functions)[name] = text
            elif kind in ("options", "umask"):
                changed = [line for line in text.splitlines() if line not in self.defaults]
                self.options += [line for line in changed if not _OPTIONS_NOT_KEPT.fullmatch(line.split()[-1])]
            elif kind == "aliases":
                if len(text) <= RECORD_BYTES and text.strip():
                    self.options.append(text)
            elif kind == "jobs":
                matches = re.findall(r"^\[\d+\][+-]?\s+(\d+) (?:Running|Stopped)\S*\s+(.*)$", text, re.MULTILINE)
                self.jobs = [(int(pid), command) for pid, command in matches[:100]]
        # A variable of a new shell that is gone is unset again.
        seen = {name for kind, name, _ in records if kind == "variable"}
        for name in self.baseline:
            if name not in seen and not _TRANSIENT.fullmatch(name):
                self.variables[name] = f"unset -v {name}"

    def relative(self, directory: str) -> str:
        real = directory.rstrip("\n") or "/"
        return os.path.relpath(real, self.work) if f"{real}/".startswith(f"{self.work}/") else real

    def message(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("directory", "variables", "functions", "options")}


def read_records(path: str) -> list[tuple[str, str, str]]:
    """Return kind, name and text of each record."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as source:
        data = source.read(LOOKED_AT)
    records = []
    for record in data.split(b"\0"):
        kind, _, rest = record.decode("utf-8", "surrogateescape").partition(" ")
        if kind in ("variable", "function"):
            name, _, text = rest.partition("\n")
            records.append((kind, name, text.rstrip("\n")))
        else:
            records.append((kind, "", rest))
    return records


def restoring(state: dict[str, Any], work: str) -> str:
    """Return the script that puts a state back; each part by itself, so that a wrong one costs only itself."""
    lines = [*state["variables"].values(), *state["functions"].values(), *state["options"]]
    script = [f"\\builtin eval {shlex.quote(line)}" for line in lines]
    directory = os.path.join(work, state["directory"])
    script.append(f"\\builtin cd -- {shlex.quote(directory)} 2>/dev/null || \\builtin cd -- {shlex.quote(work)}")
    return "\n".join(script) + "\n"
