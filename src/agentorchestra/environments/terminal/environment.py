"""The environment `terminal`: a persistent shell in the run's folder, in the sandbox."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.effects import Tag
from agentorchestra.core.errors import JobError, SandboxUnavailableError, SettingsError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import WebSettings
from agentorchestra.environments.folder import FolderEnvironment
from agentorchestra.environments.jobs import cut, fold, status
from agentorchestra.environments.jobs import short as _short
from agentorchestra.environments.registry import EnvironmentParts
from agentorchestra.environments.terminal import verifier
from agentorchestra.environments.terminal.keys import encode_keys
from agentorchestra.environments.terminal.network import Reach, TerminalProxy, reach_of
from agentorchestra.sandbox import Job, Sandbox, SandboxLimits, ScreenLook, Shell, ShellRan, ShellState
from agentorchestra.sandbox._terminal import SIZE, Size
from agentorchestra.sandbox.factory import shell_in
from agentorchestra.sandbox.output import plain
from agentorchestra.sandbox.shell import Mount
from agentorchestra.tea.calling.environment import action

# What is kept: the shell's state, what runs in the background, what ran there before the shell was lost.
_SHELL, _JOBS, _LOST_JOBS = "shell", "jobs", "gone"
_SHOWN_VARIABLES = 30
# Lines of one command's output that whoever watches is told, and characters of a line.
_PROGRESS_LINES, _PROGRESS_CHARS = 200, 500
_LOOK_S = 0.2
# How long a program with a screen may work before the screen is shown.
_SETTLE_S = 3.0
# What programs print that look for a host where there is no network.
_NO_NETWORK = re.compile(
    r"Temporary failure (in name resolution|resolving)|Could not resolve (host|proxy)|Name or service not known"
    r"|Network is unreachable|ENOTFOUND|EAI_AGAIN|No matching distribution found"
    r"|terminal\.hosts does not name it|Tunnel connection failed: 403"
)
_cut = partial(cut, advice="; write the output to a file and look at parts of it")


Command = Annotated[str, Field(description="What bash runs: one command or a script.")]
JobNumber = Annotated[int, Field(description="The job's number, as terminal_start or terminal_jobs gave it.")]
Seconds = Annotated[float, Field(description="In seconds; 0 for the limit.", ge=0)]
Wait = Annotated[float, Field(ge=0)]
WaitFor = Annotated[str, Field(description="Wait until this text comes to the screen, up to wait_s.")]
Keys = Annotated[
    list[str],
    Field(
        description='Typed in order, e.g. ["print(1)", "<enter>"]. A text is typed as it is; a key stands alone: '
        "<enter>, <tab>, <escape>, <backspace>, <delete>, <up>, <down>, <left>, <right>, <home>, <end>, <pageup>, "
        "<pagedown>, <f1>, <ctrl+c>, <alt+x>."
    ),
]


class Terminal(FolderEnvironment):
    """A shell (bash) in a sandbox, with the folder as its working folder.

    State: the directory, the variables, functions and options of the shell, what runs in the background, and the files
    of the folder, which files and git work on too. The task's files are in files/, to be read only.
    Vision: each command gives what it printed, errors among it, and its exit code when that is not 0. Of a long output
    the beginning and the end are shown. A job with a screen shows what a person would see.
    Interaction: directory and variables stay from one command to the next. A command of terminal_run finds its input
    closed, and is interrupted when it takes longer than its time. terminal_start starts what takes long or serves
    others; with screen=true also what asks or draws (vim, a debugger, an installer), for terminal_send_keys and
    terminal_read_screen. When the run is resumed, directory and variables are back and the folder is as it was after
    the last action; what ran in the background is gone. The tools python and bash, where you have them, work here too:
    in the same directory, on the same files; their programs call no tools.
    """

    name = "terminal"
    on_machine = True
    begins_with = frozenset({"run"})

    def __init__(
        self,
        *,
        sandbox: Sandbox | None,
        limits: SandboxLimits | None = None,
        network: bool = False,
        mounts: Sequence[Mount] = (),
        reach: Reach | None = None,
        web: WebSettings | None = None,
        tested: bool = False,
    ) -> None:
        self._sandbox, self._limits, self._network = sandbox, limits or SandboxLimits(), network
        self._reach, self._web = reach or Reach(), web or WebSettings()
        self._proxy: TerminalProxy | None = None
        self._mounts = tuple(mounts)
        self._tested = tested  # whether tests will be brought to its machine
        self._shell: Shell | None = None

    @classmethod
    def from_parts(cls, parts: EnvironmentParts) -> Terminal:
        """Make it as a workspace has it; SettingsError for a mount that is no folder."""
        entries = parts.settings.terminal.mounts
        mounts = [Mount(Path(entry.folder).expanduser(), entry.inside, entry.writable) for entry in entries]
        for mount in mounts:
            if not mount.folder.is_dir():
                raise SettingsError(f"terminal.mounts names {str(mount.folder)!r}, which is no folder; make it first")
        return cls(
            sandbox=parts.sandbox,
            limits=parts.limits,
            network=parts.network,
            mounts=mounts,
            reach=reach_of(parts.settings.terminal.hosts, parts.environ),
            web=parts.settings.web,
            tested=parts.tested,
        )

    @property
    def _reaches_out(self) -> bool:
        return not self.confined or bool(self._reach.hosts)

    def tags(self, action: str) -> frozenset[Tag]:
        """Return what an action touches; with a network, or without a sandbox, commands can carry data out."""
        tags = super().tags(action)
        return tags | {Tag.NETWORK} if self._reaches_out and Tag.EXECUTE in tags else tags

    @property
    def confined(self) -> bool:
        """In the sandbox no command leaves its machine, but for the hosts and writable folders that the settings name.

        Those are the user's word that commands may change them, so nothing is asked about the first harmless one.
        """
        unsafe = self._sandbox is not None and not self._sandbox.safe
        return not (self._network or unsafe)

    def repeatable(self, action: str) -> bool:
        """Return True if commands reach nothing but the folder, which a resume first puts back."""
        return not self._reaches_out and not any(mount.writable for mount in self._mounts)

    @property
    def working(self) -> bool:
        return bool(self.kept.get(_JOBS))

    # -- life --------------------------------------------------------------------------------------------------------

    @property
    def tested_shell(self) -> Shell | None:
        """The shell to whose machine a task's tests can be brought; None for none."""
        return self._shell if self._tested else None

    async def opened_shell(self) -> Shell:
        if self._shell is None:
            if self._sandbox is None:
                raise ToolError(
                    'the terminal works in a sandbox, and the settings want none (sandbox.backend = "none"); set it to '
                    '"auto" and install bubblewrap or Docker'
                )
            try:
                state = ShellState.from_json(self.kept[_SHELL]) if _SHELL in self.kept else None
            except ValueError as exc:
                raise ToolError(f"the terminal's kept state cannot be used: {exc}") from None
            if self._reach.hosts and not self._network and self._proxy is None:
                self._proxy = TerminalProxy(self._reach, self._web)
                await self._proxy.start()
            own = await asyncio.to_thread(verifier.mounts, self._stands_on.place) if self._tested else ()
            seen = await self.seen()
            self._shell = await shell_in(
                self._sandbox,
                self.folder,
                self._limits,
                inputs=self.files,
                network=self._network,
                state=state,
                mounts=(*seen, *self._mounts, *own),
                machine=self._stands_on.machine,
                gate=self._proxy.gate if self._proxy is not None else None,
            )
        return self._shell

    async def open(self, ctx: Any) -> None:
        """Note what ran in the background when the state was kept: it ended with the process that had the shell."""
        self._note_gone()

    async def leave(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            await shell.close()
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.close()

    async def restored(self) -> None:
        """Directory and variables are as then; what ran in the background does not come back."""
        await self.leave()
        self._note_gone()

    async def close(self) -> None:
        await self.leave()
        await super().close()

    def _note_gone(self) -> None:
        running = self.kept.pop(_JOBS, None)
        if isinstance(running, dict) and running:
            jobs = self.kept.get(_LOST_JOBS)
            self.kept[_LOST_JOBS] = {**(jobs if isinstance(jobs, dict) else {}), **running}

    async def state(self) -> tuple[Block, ...]:
        """Directory, changed variables, what runs in the background."""
        try:
            shell = ShellState.from_json(self.kept.get(_SHELL, {}))
        except ValueError as exc:
            shell = ShellState()
            lines = [f"the kept state cannot be used: {exc}"]
        else:
            lines = [f"directory: {shell.directory}"]
        for text in list(shell.variables.values())[:_SHOWN_VARIABLES]:
            lines.append(f"variable: {_short(text.removeprefix('declare -- '))}")
        if len(shell.variables) > _SHOWN_VARIABLES:
            lines.append(f"and {len(shell.variables) - _SHOWN_VARIABLES} more variables")
        if shell.functions:
            lines.append(f"functions: {_short(', '.join(shell.functions))}")
        for title, name in (("in the background", _JOBS), ("gone, it ran in the background", _LOST_JOBS)):
            jobs = self.kept.get(name)
            lines += [f"{title}: job {number}: {_short(str(text))}" for number, text in _jobs_in(jobs)]
        if self._sandbox is not None and not self._sandbox.safe:
            lines.append("there is no sandbox: commands may do what the user may")
        return (TextBlock(text="\n".join(lines), source=Source(kind="environment", ref=self.name)),)

    async def _keep(self, shell: Shell, *, jobs: bool = True) -> None:
        """Note what has to be there after a resume; `jobs` is false where the shell said that it has none."""
        self.kept[_SHELL] = shell.state.to_json()
        try:
            background = await shell.jobs() if jobs else ()
            running = {str(job.job): job.command for job in background if job.state == "running"}
        except (ToolError, SandboxUnavailableError):  # the sandbox is gone, and with it what ran there
            running = {}
        if running:
            self.kept[_JOBS] = {number: text[:1000] for number, text in running.items()}
        else:
            self.kept.pop(_JOBS, None)

    def _seconds(self, seconds: float) -> float:
        most = self._limits.seconds
        if seconds > most:
            raise ToolError(f"a command may take {most:g} s here; start what takes longer with terminal_start")
        return seconds or most

    def _wait(self, wait: float) -> float:
        if wait > self._limits.seconds:
            raise ToolError(f"wait_s is {wait:g}; at most {self._limits.seconds:g} s are waited here: look again then")
        return wait

    # -- actions -----------------------------------------------------------------------------------------------------

    @action(effect=("write", "execute"))
    async def run(self, ctx: RunContext[Any], command: Command, timeout_s: Seconds = 0) -> str:
        """Run a command and wait for its end; gives what it printed and its exit code.

        Args:
            command: one command or a script of bash.
            timeout_s: after which it is interrupted.
        """
        if not command.strip():
            raise ToolError("the command is empty; give one, e.g. ls -la")
        seconds = self._seconds(timeout_s)
        shell = await self.opened_shell()
        losses = _jobs_in(self.kept.pop(_LOST_JOBS, None))
        progress = _Progress(ctx)
        result = await shell.run(command, timeout_s=seconds, together=True, on_output=progress)
        progress.end()
        if result.jobs_lost:
            self._note_gone()
        await self._keep(shell, jobs=result.jobs > 0)
        lines = [self._result_text(result, seconds)]
        lines += [f"[job {number} is gone with the shell it ran in: {_short(str(text))}]" for number, text in losses]
        return "\n".join(lines)

    @action(effect=("write", "execute"))
    async def start(self, command: Command, screen: bool = False, columns: int = SIZE[0], rows: int = SIZE[1]) -> str:
        """Start a command in the background, with directory and variables as they are now.

        Args:
            command: one command or a script of bash.
            screen: true for a program that asks or draws: it gets a terminal, and its screen is shown.
            columns: of the screen, 20 to 250.
            rows: of the screen, 5 to 100.
        """
        if not command.strip():
            raise ToolError("the command is empty; give one, e.g. python3 -m http.server 8000")
        shell = await self.opened_shell()
        job = await shell.start(command, screen=screen, size=(columns, rows))
        if screen:
            return await self._look(job.job, b"", min(_SETTLE_S, self._limits.seconds))
        await self._keep(shell)
        return f"job {job.job} runs in the background; look at it with terminal_output, end it with terminal_stop"

    @action(effect=("write", "execute"))
    async def send_keys(self, job: JobNumber, keys: Keys, wait_s: Wait = _SETTLE_S, wait_for: WaitFor = "") -> str:
        """Type into a job that was started with a screen; shows the screen once the job waits for input or has ended.

        Args:
            job: its number.
            keys: texts and keys.
            wait_s: after so many seconds the screen is shown in any case.
        """
        return await self._look(job, encode_keys(keys), self._wait(wait_s), wait_for)

    @action
    async def read_screen(self, job: JobNumber, wait_s: Wait = 0, wait_for: WaitFor = "") -> str:
        """Show the screen of a job, and say whether the job waits for input.

        Args:
            job: its number.
            wait_s: how long the job may go on before it waits for input or ends; 0 to look at once.
        """
        return await self._look(job, b"", self._wait(wait_s), wait_for)

    @action(effect=("write", "execute"))
    async def resize(self, job: JobNumber, columns: int, rows: int) -> str:
        """Give the screen of a job another size; shows it then.

        Args:
            job: its number.
            columns: 20 to 250.
            rows: 5 to 100.
        """
        return await self._look(job, b"", min(_SETTLE_S, self._limits.seconds), size=(columns, rows))

    async def _look(self, job: int, keys: bytes, seconds: float, wait_for: str = "", size: Size | None = None) -> str:
        shell = self._running_shell(job)
        seen = await shell.look(job, keys=keys, wait_s=seconds, wait_for=wait_for, size=size)
        await self._keep(shell)
        return _screen_text(seen) + f"\n[{wait_for!r} did not come in {seconds:g} s]" * (
            wait_for not in seen.picture.text
        )

    @action(effect="read")
    async def jobs(self) -> str:
        """List what runs in the background, and what ran there lately."""
        jobs = await self._shell.jobs() if self._shell is not None else ()
        lines = (f"job {job.job}: {status(job)}{' with a screen' * job.screen}: {_short(job.command)}" for job in jobs)
        return "\n".join(lines) or "no jobs"

    @action
    async def output(self, job: JobNumber, wait_s: Wait = 0) -> str:
        """Show what a job without a screen has printed so far, both outputs, beginning and end if that is long.

        Args:
            job: its number.
            wait_s: how long its end is waited for; 0 not at all.
        """
        seconds = self._wait(wait_s)
        shell = self._running_shell(job)
        record = await shell.output(job)
        if record.screen:
            raise JobError(f"job {job} has a screen; look at it with terminal_read_screen")
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while record.state == "running" and loop.time() < end:
            await asyncio.sleep(_LOOK_S)
            record = await shell.output(job)
        await self._keep(shell)
        return _job_text(record)

    @action(effect=("write", "execute"))
    async def interrupt(self, job: JobNumber) -> str:
        """Interrupt a job as Ctrl-C would; it may go on if it wants to.

        Args:
            job: its number.
        """
        return await self._signal(job, 2, force=False)

    @action(effect=("write", "execute"))
    async def stop(self, job: JobNumber) -> str:
        """End a job: it is asked to, and killed if it has not ended after a second.

        Args:
            job: its number.
        """
        return await self._signal(job, 15, force=True)

    async def _signal(self, job: int, number: int, *, force: bool) -> str:
        shell = self._running_shell(job)
        record = await shell.stop(job, number, force=force)
        if record.screen:
            return await self._look(job, b"", 0.0)
        await self._keep(shell)
        return _job_text(record)

    def _running_shell(self, job: int) -> Shell:
        command = dict(_jobs_in(self.kept.get(_LOST_JOBS))).get(str(job))
        if command is not None:
            raise JobError(f"job {job} is gone with the shell it ran in; start it again: {_short(str(command))}")
        if self._shell is None:
            state = self.kept.get(_SHELL)
            last = state.get("last_job") if isinstance(state, dict) else None
            if isinstance(last, int) and 0 < job <= last:
                raise JobError(f"job {job} is gone, with the shell it ran in or long ago; start it again")
            raise JobError(f"there is no job {job}; the jobs: none")
        return self._shell

    def _result_text(self, result: ShellRan, seconds: float) -> str:
        lines = []
        if self._sandbox is not None and not self._sandbox.safe:
            lines.append("[run without a sandbox]")
        if result.stdout:
            lines.append(_cut(plain(result.stdout, result.printed)))
        if not self._network and _NO_NETWORK.search(result.stdout):
            hosts = ", ".join(self._reach.hosts[:20]) or "none"
            lines.append(f"[commands have no network here but for the hosts that terminal.hosts names: {hosts}]")
        endings = {
            "time": f"it was stopped after its limit of {seconds:g} s; start what takes longer with terminal_start",
            "interrupted": "it was interrupted",
            "flood": f"it was stopped because it printed more than {self._limits.flood_bytes >> 20} MiB",
        }
        if result.ending in endings:
            lines.append(f"[{endings[result.ending]}]")
        elif result.ending != "exited":
            lines.append(f"[it was stopped: {result.detail}]")
        elif result.exit_code < 0:
            lines.append(f"[ended by signal {-result.exit_code}]")
        elif result.exit_code:
            lines.append(f"[exit code {result.exit_code}]")
        if result.again:
            suffix = "; what ran in the background is gone" if result.jobs_lost else ""
            lines.append(f"[{result.again}; a new shell has the directory and the variables as they were last{suffix}]")
        if result.jobs:
            lines.append(f"[{result.jobs} in the background: see terminal_jobs]")
        lines += [f"[too large to be kept over a restart: {note}]" for note in result.notes]
        return "\n".join(lines) or "(no output)"


class _Progress:
    """Tells whoever watches what a command prints, line by line, up to a limit."""

    def __init__(self, ctx: RunContext[Any]) -> None:
        self._ctx, self._left, self._rest = ctx, _PROGRESS_LINES, ""

    def __call__(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line)
        self._rest = self._rest[:_PROGRESS_CHARS]

    def end(self) -> None:
        if self._rest:
            self._line(self._rest)
        if self._left < 0:
            self._ctx.progress(f"[and {-self._left:,} more]")

    def _line(self, line: str) -> None:
        if self._left > 0:
            self._ctx.progress(plain(line, len(line))[:_PROGRESS_CHARS])
        self._left -= 1


def _jobs_in(jobs: JsonValue) -> list[tuple[str, JsonValue]]:
    return list(jobs.items()) if isinstance(jobs, dict) else []


def _screen_text(seen: ScreenLook) -> str:
    job, picture = seen.job, seen.picture
    lines = fold(picture.lines) or ["(the screen is empty)"]
    if seen.missed:
        lines.append(f"[{seen.missed:,} bytes were drawn before this and are not shown]")
    if picture.highlighted:
        lines.append(f"[highlighted: {' | '.join(picture.highlighted)}]")
    if seen.refused:
        lines.append(f"[the last {seen.refused:,} bytes of the keys were not taken: the program does not read them]")
    state = "waits for input" if seen.waits and job.state == "running" else status(job)
    at = f"; the cursor is in line {picture.line}, column {picture.column}" if job.state == "running" else ""
    return "\n".join([*lines, f"[job {job.job}: {state}{at}]"])


def _job_text(job: Job) -> str:
    output = _cut(plain(job.output or "", job.printed))
    return "\n".join([*([output] if output else []), f"[job {job.job}: {status(job)}]"])
