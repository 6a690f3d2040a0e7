"""The interface of a sandbox: the same for every backend (tests/sandbox/test_contract.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from agentorchestra.core.errors import SandboxUnavailableError

HostCall = Callable[[str, dict[str, JsonValue]], Awaitable[JsonValue]]
"""A tool of the host, called by a program: name and arguments; ToolError or TypeError for what the program may catch.

Arguments without a name, which only `Program.functions` may be given, come as a list under POSITIONAL."""

POSITIONAL = "*"

MIB = 1 << 20


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of one program.

    Attributes:
        seconds: of wall-clock time; the time the host takes for the calls of its tools does not count.
        cpu_seconds: of processor time, each process.
        memory_bytes: of all processes together, and of what they keep in temporary files.
        processes: that exist at the same time, threads included.
        work_bytes: of the files in the working folder.
        files: files and folders in the working folder.
        kept_bytes: of the files that are taken out at the end, together.
        kept_files: files that are taken out at the end.
        flood_bytes: of output; a program that writes more is stopped.
        calls: of the host's tools.
        call_bytes: of one call's arguments or result.
    """

    seconds: float = 60.0
    cpu_seconds: int = 120
    memory_bytes: int = 2048 * MIB
    processes: int = 64
    work_bytes: int = 512 * MIB
    files: int = 20_000
    kept_bytes: int = 64 * MIB
    kept_files: int = 100
    flood_bytes: int = 16 * MIB
    calls: int = 200
    call_bytes: int = MIB


@dataclass(frozen=True)
class Program:
    """A program to be run.

    Attributes:
        language: `python` (the value of the last expression is printed) or `bash`.
        folder: a folder of the host that is seen, read only, as `files/`; None for none. Where root runs the sandbox,
            the program is another user: what is closed to others cannot be read by it.
        names: entries of that folder that also stand directly in the working folder.
        kept: files that are put into the working folder first: name to bytes.
        tools: names of the host's tools that it may call.
        functions: those of them that a Python program calls as plain functions; the others as `tools.NAME`.
        network: whether it reaches the network of the host.
        seed: of its hashes and of `random`.
    """

    language: Literal["python", "bash"]
    code: str
    folder: Path | None = None
    names: tuple[str, ...] = ()
    kept: Mapping[str, bytes] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    network: bool = False
    seed: int = 0


Ending = Literal["exited", "time", "memory", "flood", "files", "lost"]


@dataclass(frozen=True)
class Ran:
    """The result of a program.

    Attributes:
        ending: `exited` by itself; stopped for `time`, `memory`, a `flood` of output, too many or too large `files`;
            `lost`: the sandbox went away or broke its protocol (`detail` says how).
        exit_code: of a program that exited; negative for the signal that ended it.
        stdout, stderr: what was printed, as text; a note stands where some was left out.
        made: files of the working folder that are new or changed: name to bytes.
        removed: names of `kept` files that are gone.
        notes: what was not taken out, a sentence each.
        calls: how many tools of the host were called.
        peak_bytes: the most memory that was seen in use.
        detail: more about the ending.
    """

    ending: Ending = "exited"
    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    made: Mapping[str, bytes] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    calls: int = 0
    peak_bytes: int = 0
    detail: str = ""


@runtime_checkable
class Sandbox(Protocol):
    """A place where code that a model wrote may run. Backends elsewhere register one as an entry point
    (`agentorchestra.sandboxes`): a callable that takes the `SandboxSettings`.

    Attributes:
        name: as the settings name it.
        safe: whether it isolates; one that does not is used only when it was asked for by name.
    """

    @property
    def name(self) -> str: ...

    @property
    def safe(self) -> bool: ...

    async def problem(self) -> str:
        """Return why it cannot be used here and what to install, "" when it can. Looked at once."""

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
        """Run a program in a sandbox of its own, which is gone afterwards, however this ends.

        Raises:
            SandboxUnavailableError: it cannot be used here.
            Exception: whatever `call` raises besides ToolError; the program is ended.
        """

    async def aclose(self) -> None:
        """End what still runs; idempotent."""


async def check_usable(sandbox: Sandbox) -> None:
    """Raise SandboxUnavailableError, with its problem, for a sandbox that cannot be used here."""
    problem = await sandbox.problem()
    if problem:
        raise SandboxUnavailableError(problem)
