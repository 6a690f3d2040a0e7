"""The interface of a shell in a sandbox: the same for every backend (tests/sandbox/test_shell.py).

One bash in one sandbox: directory, variables, functions and options stay from command to command. The folder of the
host is `/work` inside (elsewhere where there is no inside: `unsafe-local`), the given files are `/work/files`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol, Self, TypedDict, Unpack, runtime_checkable

from pydantic import JsonValue

from agentorchestra.sandbox._terminal import SIZE, Size
from agentorchestra.sandbox.base import Sandbox, SandboxLimits
from agentorchestra.sandbox.machine import Machine

STATE_BYTES = 2 << 20  # of a shell's state as JSON; a larger one is not taken

OnOutput = Callable[[str], None]
"""Told what a command prints as it prints it, both outputs in the order in which they arrive."""

ShellEnding = Literal["exited", "interrupted", "time", "flood", "memory", "files", "processes", "lost"]


@dataclass(frozen=True)
class ShellState:
    """The state of a shell when its last command ended.

    The values are what bash itself wrote (`declare -p`), and only a bash in a sandbox ever reads them.

    Attributes:
        directory: below the working folder relative to it (`.`), elsewhere absolute.
        variables: those that a new shell does not have, or has otherwise: name to the line that makes them.
        functions: name to text.
        options: lines that set shell options, the umask and aliases.
        last_job: the highest number that a job had.
    """

    directory: str = "."
    variables: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    last_job: int = 0

    def to_json(self) -> dict[str, JsonValue]:
        return {**asdict(self), "options": list(self.options)}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the state of what `to_json` gave, or claims to be; ValueError, a sentence, for anything else."""
        if not isinstance(value, dict):
            raise ValueError("the state of a shell is an object")
        try:
            size = len(json.dumps(value).encode("ascii"))
        except (TypeError, ValueError, RecursionError):
            raise ValueError("the state of a shell is JSON") from None
        if size > STATE_BYTES:
            raise ValueError(f"the state of the shell has {size:,} bytes; at most {STATE_BYTES:,} are kept")
        directory, options, last_job = value.get("directory", "."), value.get("options", []), value.get("last_job")
        if not _is_text(directory) or "\0" in directory:
            raise ValueError("the directory of a shell's state is a text")
        if not isinstance(options, list):
            raise ValueError("the options of a shell's state are a list of texts")
        return cls(
            directory=directory or ".",
            variables=_texts(value.get("variables"), "variables"),
            functions=_texts(value.get("functions"), "functions"),
            options=tuple(option for option in options if _is_text(option)),
            last_job=last_job if isinstance(last_job, int) and 0 <= last_job < 1_000_000 else 0,
        )


def _texts(value: object, name: str) -> dict[str, str]:
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"the {name} of a shell's state are an object of texts")
    # A value that is not text (bytes in no known encoding) is left out: records hold text only.
    pairs = (value or {}).items()
    return {name: text for name, text in pairs if _is_text(name) and _is_text(text) and "\0" not in text}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


@dataclass(frozen=True)
class ShellRan:
    """The result of a command.

    Attributes:
        ending: `exited` by itself; stopped: `interrupted`, after its `time`, for a `flood` of output, for more
            `memory`, `files` or `processes` than allowed; `lost`: the sandbox went away (`detail` says how).
        exit_code: as the shell has it in `$?`; negative for the signal that ended the shell itself.
        stdout, stderr: what was printed, as text; a note stands where some was left out.
        printed: bytes of both, those left out included.
        again: why the shell was started again afterwards, "" if it was not. Directory and variables were put back
            as they were when it last said what it has: at its exit, otherwise at the end of the command before.
        jobs_lost: whether what ran in the background is gone with it.
        jobs: how many jobs run in the background now.
        notes: variables that are too large to be kept.
        detail: more about the ending.
    """

    ending: ShellEnding = "exited"
    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    printed: int = 0
    again: str = ""
    jobs_lost: bool = False
    jobs: int = 0
    notes: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Job:
    """Something in the background.

    Attributes:
        job: its number, for `output` and `stop`; not the shell's own number.
        pid: of its process group, inside.
        state: `running`, `ended`, or `flood` (ended because it printed too much).
        exit_code: of one that was started as a job and has ended; negative for a signal. What a command left with
            `&` tells only the shell (`wait`).
        output: its beginning and end, None if it was not asked for.
        printed: bytes.
        screen: whether it has a screen, for `look`.
        short_of_memory: whether the kernel has killed a process of the sandbox since it began, because all together
            used too much memory. Which one it was is not known.
    """

    job: int
    command: str
    pid: int
    state: Literal["running", "ended", "flood"]
    exit_code: int | None = None
    output: str | None = None
    printed: int = 0
    screen: bool = False
    short_of_memory: bool = False


@dataclass(frozen=True)
class Picture:
    """A screen at one moment.

    Attributes:
        lines: without what is empty at their right and at the bottom; a line that the terminal wrapped is one.
        line, column: where the cursor is in `lines`, from 1.
        highlighted: the texts in reverse video (a choice, a status line), from above.
    """

    lines: tuple[str, ...]
    line: int
    column: int
    highlighted: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class ScreenLook:
    """A look at the screen of a job.

    Attributes:
        job: how it stands.
        waits: whether it waits for keys; None where the system does not tell.
        missed: bytes that were drawn since the last look and are not in the picture, because newer ones drove them out.
        refused: bytes of the keys that the terminal did not take: nobody reads them.
    """

    job: Job
    picture: Picture
    waits: bool | None = None
    missed: int = 0
    refused: int = 0


@runtime_checkable
class Shell(Protocol):
    """One shell. Commands run one after another; everything else may be asked while one runs."""

    @property
    def state(self) -> ShellState:
        """The state at the end of the last command."""

    @property
    def root(self) -> str:
        """The working folder's name inside."""

    async def run(
        self, command: str, *, timeout_s: float | None = None, together: bool = False, on_output: OnOutput | None = None
    ) -> ShellRan:
        """Run a command (any bash program) and wait for its end; it finds its input closed.

        Args:
            timeout_s: in seconds; the limits' `seconds` by default. Then it is interrupted, and after two seconds
                more killed with the shell, which is started again.
            together: whether what goes to the error output is among the other output, in its order.
            on_output: told what is printed meanwhile.

        Raises:
            SandboxUnavailableError: the sandbox cannot be started (again).
        """

    async def interrupt(self) -> None:
        """Interrupt (SIGINT) the command that runs; nothing if none does."""

    async def start(self, command: str, *, screen: bool = False, size: Size = SIZE) -> Job:
        """Start a command in the background, with directory and variables as they are now.

        Args:
            screen: whether it works at a terminal of its own, for `look`; otherwise it finds its input closed.
            size: of that terminal: 20 to 250 columns, 5 to 100 lines.

        Raises:
            JobError: it cannot be started; the sentence says why.
        """

    async def run_apart(self, command: str, *, timeout_s: float) -> Job:
        """Run a command beside the shell and what it left running, and wait for its end.

        It begins in the working folder and has no variables and functions of the shell.

        Args:
            timeout_s: in seconds; a job that still runs then is killed.

        Returns:
            The job as it ended, with its output; `running` where it was killed for its time.

        Raises:
            JobError: it cannot be started, or the sandbox was ended before it.
        """

    async def look(
        self, job: int, *, keys: bytes = b"", wait_s: float = 0.0, wait_for: str = "", size: Size | None = None
    ) -> ScreenLook:
        """Send keys to the terminal of a job and look at its screen once it waits for more, or has ended.

        Args:
            keys: as a terminal sends them; none to look only. A signal among them, which throws away what nobody has
                read, is sent when the program waits for keys, or after `wait_s` (at least three seconds).
            wait_s: seconds after which the screen is looked at in any case.
            wait_for: a text that has to come to the screen first; the program need not wait for keys then.
            size: that the terminal gets.

        Raises:
            JobError: there is no such job, it has no screen, or it has ended and gets keys.
        """

    async def jobs(self) -> tuple[Job, ...]:
        """Return what runs in the background, and what ran there lately."""

    async def output(self, job: int) -> Job:
        """Return a job with what it has printed; JobError if there is no such job."""

    async def stop(self, job: int, number: int = 15, *, force: bool = True) -> Job:
        """Send a job a signal and wait a second for its end.

        Args:
            number: of the signal.
            force: whether it is killed if it is still there then.

        Raises:
            JobError: there is no such job.
        """

    async def close(self) -> None:
        """End everything; idempotent. Nothing of it is left."""


@dataclass(frozen=True)
class Mount:
    """A folder of this machine that commands see besides the working folder."""

    folder: Path  # on this machine
    inside: str  # where it is seen; without an inside (`unsafe-local`) where it is
    writable: bool = False  # whether commands may change what is in it


@dataclass(frozen=True)
class Gate:
    """The one way out of a sandbox without a network: a proxy of this machine."""

    socket: Path  # where it listens
    environment: Mapping[str, str] = field(default_factory=dict)  # more of what commands are told


class ShellOptions(TypedDict, total=False):
    inputs: Path | None
    network: bool
    state: ShellState | None
    mounts: Sequence[Mount]
    machine: Machine | None
    gate: Gate | None


@runtime_checkable
class ShellSandbox(Sandbox, Protocol):
    async def shell(self, folder: Path, limits: SandboxLimits | None = None, **options: Unpack[ShellOptions]) -> Shell:
        """Start a shell in a sandbox of its own.

        Args:
            folder: of this machine, which commands read and write. Where root runs the sandbox, it and what is in it
                belongs to the user of the commands from then on.
            limits: of the shell and all it runs together; `seconds` is the time of a command.
            options: `inputs`, a folder that is seen, read only, as `files` in it; `network`, whether commands reach
                that of the host; `state`, what it begins with; `mounts`, what is seen besides; `machine`, what else
                commands may write, and what the rest lies on; `gate`, a proxy that they reach where there is no
                network (both bubblewrap only).

        Raises:
            SandboxUnavailableError: it cannot be used here.
        """
