"""Git inside the sandbox: every command on a repository that agents can write to runs here, hooks included."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import GitSettings
from agentorchestra.environments.beneath import OutsideError, folder_at, open_file, parts_of
from agentorchestra.environments.git.wire import QUIET, one_line
from agentorchestra.environments.manifest import place_file
from agentorchestra.sandbox.shell import Shell

TRANSFER = ".git-transfer"  # folder beside the repositories through which packs pass; there during one action only
COMMAND_S = 60.0  # of one command in the sandbox, and of asking a remote what it has
_SAID_CHARS = 800
_CONFIG = {
    "safe.directory": "*",  # files that this process put there belong to another user; the sandbox is what protects
    "core.quotePath": "false",
    "core.pager": "cat",
    "core.fsmonitor": "false",
    "color.ui": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",  # remotes are spoken to by this process, never by the git inside
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "advice.detachedHead": "false",
}
_HINTS = (
    (
        "git: command not found",
        "install git where the sandbox finds it (Debian and Ubuntu: apt-get install git; with Docker build the image "
        "again: agentorchestra sandbox --dockerfile)",
    ),
    ("file size limit exceeded", "it holds larger files than the sandbox allows; folder.max_mib sets how large"),
    ("out of memory", "it needs more memory than the sandbox has; sandbox.memory_mib sets how much"),
    ("not a git repository", "make one with init, or name its folder with `repository`"),
    ("nothing to commit", "change something first, or look at status"),
    ("nothing added to commit", "commit with all_changes, or `git add` files in the terminal first"),
    ("no changes added to commit", "commit with all_changes, or `git add` files in the terminal first"),
    ("unknown revision", "look at `git log --all` in the terminal for the names there are"),
    ("ambiguous argument", "look at `git log --all` in the terminal for the names there are"),
    ("bad revision", "look at `git log --all` in the terminal for the names there are"),
    ("would be overwritten", "commit those changes first, or take them back with `git restore` in the terminal"),
    ("local changes", "commit those changes first, or take them back with `git restore` in the terminal"),
    ("index.lock", "another git is at work there; if none is, remove .git/index.lock"),
    ("unmerged files", "resolve the conflicts and commit with all_changes"),
    ("you have not concluded your merge", "resolve the conflicts and commit with all_changes"),
    ("unrelated histories", "the two have no commit in common: if it is the right repository, merge with `unrelated`"),
    ("already exists", "choose another name, or use what is there"),
)


class GitOutput(NamedTuple):
    code: int
    out: str
    err: str


class GitShell:
    """Runs git in a shell of a sandbox; `folder` is its folder here, `temporary` makes a file beside it and blocks."""

    def __init__(self, shell: Shell, folder: Path, temporary: Callable[[], Path], settings: GitSettings) -> None:
        self._shell, self._folder, self._settings = shell, folder, settings
        self._temporary = temporary

    async def run(self, repository: str, *words: str, ok: Sequence[int] = (0,), stdin: str | None = None) -> GitOutput:
        """Run `git WORDS` in a repository with `stdin` as its input; a ToolError for an exit code that is not `ok`."""
        reads = "" if stdin is None else f"printf %s {shlex.quote(stdin)} | "
        result = await self.script(repository, f"{reads}git {shlex.join(words)}", words[0])
        if result.code not in ok:
            raise ToolError(failure(words[0], result))
        return result

    async def script(self, repository: str, script: str, label: str) -> GitOutput:
        """Run a script in a repository; `label` names it in messages."""
        place = "/".join((self._shell.root.rstrip("/"), *path_of(repository)))
        above = place.rpartition("/")[0] or "/"
        settings = QUIET | {
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_EDITOR": "true",
            "GIT_CEILING_DIRECTORIES": above,  # no other repository than the one that was named
            "GIT_AUTHOR_NAME": self._settings.author_name,
            "GIT_AUTHOR_EMAIL": self._settings.author_email,
            "GIT_COMMITTER_NAME": self._settings.author_name,
            "GIT_COMMITTER_EMAIL": self._settings.author_email,
            "GIT_CONFIG_COUNT": str(len(_CONFIG)),
        }
        for number, (name, value) in enumerate(_CONFIG.items()):
            settings |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        # A subshell: nothing of this action is there for the next.
        command = f"( cd -- {shlex.quote(place)} && export {exports} && {script} )"
        outcome = await self._shell.run(command, timeout_s=COMMAND_S)
        if outcome.ending == "exited":
            return GitOutput(outcome.exit_code, outcome.stdout, outcome.stderr)
        reason = {
            "time": f"did not end within {COMMAND_S:g} s and was ended: a hook of the repository may "
            "hang, look in .git/hooks",
            "flood": "printed without end and was ended: ask for less",
            "memory": "needed more memory than the sandbox has: ask for less",
            "files": "wrote more or larger files than the sandbox allows: take a smaller repository, or a depth",
        }.get(outcome.ending, f"was ended ({outcome.detail or outcome.ending}): try again")
        raise ToolError(f"git {label} {reason}")

    async def put(self, name: str, data: bytes) -> str:
        """Hand bytes in; return the path from which scripts read them."""
        place = await self.place(name)

        def write() -> None:
            temp = self._temporary()
            temp.write_bytes(data)
            temp.chmod(0o644)
            place_file(self._folder, (TRANSFER, name), temp)

        await asyncio.to_thread(write)
        return place

    async def place(self, name: str) -> str:
        await self.clear(make=True)
        return f"{self._shell.root.rstrip('/')}/{TRANSFER}/{name}"

    async def take(self, name: str, most: int) -> bytes:
        """Return what a script wrote, and remove it; raise ToolError if it is larger than `most`, or not there."""

        def read() -> bytes:
            try:
                with folder_at(self._folder, (TRANSFER,)) as at:
                    descriptor = open_file(at, name)
            except (OSError, OutsideError):
                raise ToolError("git did not write what it was to write; try again") from None
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(most + 1)
            if len(data) > most:
                raise ToolError(f"it has more than {most >> 20} MiB; push less at once, or raise git.max_pack_mib")
            return data

        data = await asyncio.to_thread(read)
        await self.clear()
        return data

    async def clear(self, *, make: bool = False) -> None:
        script = f"rm -rf -- {TRANSFER}" + (f" && mkdir {TRANSFER}" if make else "")
        result = await self.script("", script, "transfer")
        if result.code:
            raise ToolError(f"the folder {TRANSFER} cannot be used: {shorten(result.err)}; remove it")


def path_of(repository: str) -> tuple[str, ...]:
    """Return the parts of a path below the run's folder; raise ToolError if it leads elsewhere."""
    try:
        return parts_of(repository)
    except OutsideError as error:
        raise ToolError(str(error)) from None


def name_of(name: str, kind: str) -> str:
    """Return the name of a branch, tag or remote; raise ToolError if git could take it for an option."""
    if not name or name.startswith("-") or not name.isprintable() or any(char in name for char in " ~^:?*[\\"):
        raise ToolError(
            f"{name[:100]!r} is no name of a {kind}; it must not begin with - or hold a space or ~ ^ : ? * ["
        )
    return name


def revision_of(text: str) -> str:
    """Return a commit's name (`main~2`, `v1..main`); raise ToolError if git could take it for an option."""
    if not text or text.startswith("-") or not text.isprintable():
        raise ToolError(f"{text[:100]!r} names no commit; give a branch, a tag or the beginning of a commit's hash")
    return text


def failure(command: str, result: GitOutput) -> str:
    words = shorten("\n".join(text for text in (result.err, result.out) if text.strip())) or f"status {result.code}"
    low = words.lower()
    hint = next((hint for sign, hint in _HINTS if sign in low), "correct it and try again")
    return f"git {command} failed: {words}; {hint}"


def shorten(text: str) -> str:
    """Return the beginning and the end of what was printed, in one line and harmless to show."""
    words = one_line(text, len(text))
    half = _SAID_CHARS // 2
    return words if len(words) <= _SAID_CHARS else f"{words[:half]} … {words[-half:]}"
