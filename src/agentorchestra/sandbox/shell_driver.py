"""Drives one shell: the host's end of the pipe to `_shell.py`. Shared by all backends.

Nothing that comes through the pipe is believed. A sandbox that ends, whoever ended it, is started again at the next
command with the directory and the variables that the shell had last.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from agentorchestra.core.errors import JobError, SandboxUnavailableError, ToolError
from agentorchestra.sandbox._supervisor import Output
from agentorchestra.sandbox._terminal import DRAWN_BYTES, SIZE, Size
from agentorchestra.sandbox.base import SandboxLimits, check_usable
from agentorchestra.sandbox.cgroup import Group
from agentorchestra.sandbox.changes import WORTH, FolderWatch
from agentorchestra.sandbox.ground import close_to_others, give
from agentorchestra.sandbox.machine import WORK, Machine
from agentorchestra.sandbox.monitor import too_much_memory, watched_shell
from agentorchestra.sandbox.pipe import Broken, Launch, Pipe, decoded, printable, text_or_kind
from agentorchestra.sandbox.shell import (
    Gate,
    Job,
    Mount,
    OnOutput,
    ScreenLook,
    Shell,
    ShellEnding,
    ShellOptions,
    ShellRan,
    ShellSandbox,
    ShellState,
)

SHELL_FILES = ("_shell.py", "_jobs.py", "_state.py", "_supervisor.py", "_terminal.py", "_after.sh", "_program.py")
"""The files that have to be there inside."""

_START_S = 30.0
_GRACE_S = 30.0  # how long the other end may take beyond a command's time, to interrupt, kill and start again
_ANSWER_S = 30.0
_CANCEL_S = 3.0
_LONGEST_COMMAND = 1 << 20
_MOST_JOBS = 1_000_000
_STRAYS = 1_000
_FIRST_LOOK_S, _LOOK_S = 0.01, 0.25
"""Pauses between two looks at a screen: the first one, and the longest of those that follow."""
_STILL_S, _STILL_UNTOLD_S = 0.05, 0.5
"""How long nothing may have been drawn: by who waits or has ended, and where the system does not tell who waits."""
_SIGNALS = re.compile(rb"[\x03\x1a\x1c]|[^\x03\x1a\x1c]+")  # keys that a terminal makes a signal of, and others
_BEFORE_SIGNAL_S = 3.0
_SCREENS = 64
_ENDINGS = ("exited", "interrupted", "time", "flood")  # endings that only the other end knows of


@dataclass(frozen=True)
class Inside:
    root: str  # the working folder's name there
    temporary: str = "/tmp"  # a folder for what the shell needs
    own_user: bool = True  # whether the number of processes can be limited for it alone
    file_systems: tuple[str, ...] | None = ("tmp", "dev/shm")  # file systems to look at; None where processes cannot be
    user: int | None = None  # whose the folder's files have to be, None for ours


@dataclass(frozen=True)
class World:
    """The world that the commands of a shell see; all as for `ShellSandbox.shell`."""

    folder: Path
    limits: SandboxLimits
    inputs: Path | None = None
    network: bool = False
    state: ShellState | None = None
    mounts: Sequence[Mount] = ()
    machine: Machine | None = None
    gate: Gate | None = None

    def without_machine(self, backend: str) -> World:
        """Return it for a backend that has no machines: the folder is all.

        Raises:
            SandboxUnavailableError: it has something of a machine, or a gate, which only bubblewrap can give.
        """
        machine = self.machine or Machine(Path())
        features = {
            "hosts": self.gate is not None,
            "image": machine.image is not None,
            "workdir": machine.work != WORK,
            "environment": bool(machine.environment),
        }
        for name in [name for name, is_present in features.items() if is_present]:
            raise SandboxUnavailableError(
                f"terminal.{name} needs the sandbox bubblewrap, and this is {backend}; install bubblewrap and set "
                f'sandbox.backend = "bubblewrap", or leave terminal.{name} away'
            )
        return replace(self, machine=None)


class Lost(Exception):
    """The sandbox is gone."""

    def __init__(self, detail: str, ending: ShellEnding = "lost") -> None:
        super().__init__(detail)
        self.detail = detail
        self.ending: ShellEnding = ending
        self.told = False


@dataclass
class _Running:
    number: int
    on_output: OnOutput | None
    outputs: dict[int, Output]
    decoders: dict[int, Any]
    answer: asyncio.Future[dict[str, Any]] | None = None
    kills: int = 0  # that the kernel had made in the sandbox's group when it began


class _View:
    """The screen of a job, and how much of what was drawn it has seen."""

    def __init__(self, size: Size = SIZE) -> None:
        self.size = size
        self.position = 0
        self.one_look = asyncio.Lock()
        self.clear()

    def clear(self) -> None:
        from agentorchestra.sandbox.screen import Screen  # late: only who has a screen needs pyte

        self.screen = Screen(self.size)

    async def take(self, data: bytes, size: int) -> int:
        """Draw what was drawn up to `size` bytes in all, of which `data` came last; return how many are missed."""
        data = data[-DRAWN_BYTES:]
        gap = max(0, size - self.position - len(data))
        self.position = max(0, size)
        if gap:  # begin at the next sequence or line
            self.clear()
            data = data[next((at for at, byte in enumerate(data) if byte in b"\x1b\n"), 0) :]
        for piece in self.screen.pieces(data):
            self.screen.draw(piece)
            await asyncio.sleep(0)  # what others do goes on meanwhile
        return gap


class DrivenShell(Shell):
    """A shell behind a pipe: `launch` makes what starts a sandbox, `done` is called at the end of everything."""

    def __init__(
        self, launch: Callable[[], Launch], world: World, inside: Inside, done: Callable[[], None] = lambda: None
    ) -> None:
        self._launch = launch
        self._folder, self._limits = world.folder, world.limits
        self._inside = inside
        self._state = world.state or ShellState()
        self._done: Callable[[], None] | None = done
        self._pipe: Pipe | None = None
        self._group: Group | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._running: _Running | None = None
        self._screens: dict[int, _View] = {}
        self._last = 0
        self._kills_before: dict[int, int] = {}
        self._lost: Lost | None = None
        self._news: Lost | None = None
        self._had_jobs = False
        self._unasked = 0
        self._problem = ""
        self._ending: asyncio.Task[None] | None = None
        self._machine = world.machine
        self._changes = FolderWatch(world.folder)
        self._many = False  # whether there is so much in the folder that only what changed is looked at
        self._one_command = asyncio.Lock()
        self._one_start = asyncio.Lock()

    @property
    def state(self) -> ShellState:
        return self._state

    @property
    def root(self) -> str:
        return self._inside.root

    # -- commands ----------------------------------------------------------------------------------------------------

    async def run(
        self, command: str, *, timeout_s: float | None = None, together: bool = False, on_output: OnOutput | None = None
    ) -> ShellRan:
        seconds = self._limits.seconds if timeout_s is None else timeout_s
        _check_command(command)
        async with self._one_command:
            await self._up()
            await self._give()
            self._last += 1
            number = self._last
            fds = (1,) if together else (1, 2)
            decoders = {fd: codecs.getincrementaldecoder("utf-8")("replace") for fd in fds}
            running = self._running = _Running(number, on_output, {1: Output(), 2: Output()}, decoders)
            running.kills = self._kills()
            request = {"kind": "run", "command": command, "seconds": seconds, "together": together, "id": number}
            try:
                running.answer = await self._ask(request)
                return self._result(running, await self._await_answer(running.answer, seconds + _GRACE_S))
            except Lost as loss:
                return self._result(running, None, loss)
            except asyncio.CancelledError:
                await asyncio.shield(self._give_up(running))
                raise
            finally:
                self._running = None
                with contextlib.suppress(OSError):
                    close_to_others(self._folder)

    async def _give_up(self, running: _Running) -> None:
        """End a command that nobody waits for any more, with the sandbox if need be."""
        if running.answer is not None:
            with contextlib.suppress(Lost, TimeoutError):
                await self.interrupt()
                async with asyncio.timeout(_CANCEL_S):
                    reply = await running.answer
                self._keep(reply)
                return
        await self._down(Lost("it was ended"))

    def _result(self, running: _Running, reply: dict[str, Any] | None, loss: Lost | None = None) -> ShellRan:
        stdout, stderr = running.outputs[1], running.outputs[2]
        end = ShellRan(stdout=stdout.text(), stderr=stderr.text(), printed=stdout.size + stderr.size)
        if self._kills() > running.kills:
            end = replace(end, ending="memory", detail=too_much_memory(self._limits))
            if loss is not None:
                loss.detail, loss.ending = end.detail, "memory"
        if loss is not None:
            loss.told = True
            again = f"the sandbox was ended: {loss.detail}"
            had_jobs, self._had_jobs = self._had_jobs, False
            return replace(end, ending=loss.ending, exit_code=-9, again=again, jobs_lost=had_jobs, detail=loss.detail)
        assert reply is not None
        self._keep(reply)
        jobs, notes, code = reply.get("jobs"), reply.get("notes"), reply.get("exit_code")
        news, self._news = self._news, None
        had_jobs = news is not None and self._had_jobs
        self._had_jobs = isinstance(jobs, int) and jobs > 0
        self._number(reply.get("last_job"))
        again = printable(text_or_kind(reply.get("again", "")))[:500]
        problem, self._problem = self._problem, ""
        again = "; ".join(text for text in (problem, again) if text)
        if news is not None:
            again = f"the sandbox was ended before this command: {news.detail}" + (f"; {again}" if again else "")
        ending: ShellEnding = kind if (kind := reply.get("ending")) in _ENDINGS else "lost"
        return replace(
            end,
            ending=end.ending if end.ending == "memory" else ending,
            exit_code=code if isinstance(code, int) else 0,
            again=again,
            jobs_lost=had_jobs,
            jobs=jobs if isinstance(jobs, int) else 0,
            notes=tuple(printable(text_or_kind(note))[:200] for note in notes[:20]) if isinstance(notes, list) else (),
        )

    def _kills(self) -> int:
        """Return how many processes of the sandbox the kernel ended for their memory."""
        return self._group.kills() if self._group is not None else 0

    def _keep(self, reply: dict[str, Any]) -> None:
        with contextlib.suppress(ValueError):  # a state that is none: the one before stays
            self._state = replace(ShellState.from_json(reply.get("state")), last_job=self._state.last_job)

    def _number(self, job: object) -> None:
        """Note a job's number: those after a new start go on from there."""
        if isinstance(job, int) and self._state.last_job < job < _MOST_JOBS:
            self._state = replace(self._state, last_job=job)

    async def interrupt(self) -> None:
        if self._running is not None and self._pipe is not None:
            with contextlib.suppress(Lost):
                await self._send({"kind": "interrupt"})

    # -- jobs --------------------------------------------------------------------------------------------------------

    async def start(self, command: str, *, screen: bool = False, size: Size = SIZE) -> Job:
        _check_command(command)
        _check_size(size)
        kills = self._kills()
        job = _job(await self._about_jobs({"kind": "job", "command": command, "screen": screen, "size": size}))
        if screen:
            self._screens[job.job] = _View(size)
        self._kills_before[job.job] = kills
        self._had_jobs = True
        self._number(job.job)
        return job

    async def run_apart(self, command: str, *, timeout_s: float) -> Job:
        _check_command(command)
        request = {"kind": "job", "command": command, "screen": False, "cpu_seconds": int(2 * timeout_s) + 1}
        job = _job(await self._about_jobs(request))
        self._number(job.job)
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + timeout_s, _FIRST_LOOK_S
        while (job := await self.output(job.job)).state == "running" and loop.time() < end:
            await asyncio.sleep(min(pause, max(0.0, end - loop.time())))
            pause = min(2 * pause, _LOOK_S)
        if job.state == "running":
            await self.stop(job.job, 9)
        return job

    async def look(
        self, job: int, *, keys: bytes = b"", wait_s: float = 0.0, wait_for: str = "", size: Size | None = None
    ) -> ScreenLook:
        _check_size(size or SIZE)
        if keys and (state := await self.output(job)).state != "running":
            raise JobError(f"job {job} has ended and takes no keys; start it again: {state.command[:200]}")
        view = self._screens.pop(job, None) or _View()
        self._screens[job] = view
        for oldest in list(self._screens)[:-_SCREENS]:  # those that nobody looked at
            del self._screens[oldest]
        async with view.one_look:
            try:
                seen = [await self._look(view, job, b"", 0.0)] if size is not None or wait_for else []
                if size is not None:
                    await self._about_jobs({"kind": "resize", "job": job, "size": size})
                    view.size = size
                    view.screen.resize(size)
                before = view.screen.picture().text.count(wait_for) if keys and wait_for else 0
                *earlier, last = _SIGNALS.findall(keys) or [b""]
                seen += [await self._look(view, job, part, max(wait_s, _BEFORE_SIGNAL_S)) for part in earlier]
                seen.append(await self._look(view, job, last, wait_s, wait_for, before))
                return replace(seen[-1], missed=sum(a.missed for a in seen), refused=sum(a.refused for a in seen))
            except Broken as exc:
                raise JobError(f"the screen of job {job} cannot be seen: {exc}") from None

    async def _look(
        self, view: _View, job: int, keys: bytes, wait_s: float, wait_for: str = "", before: int = 0
    ) -> ScreenLook:
        """Send keys and look until the program waits for more, and shows the text that it did not show `before`."""
        loop = asyncio.get_running_loop()
        end, pause, gap, refusals = loop.time() + wait_s, _FIRST_LOOK_S, 0, None
        pending = keys = view.screen.keys_for(keys)
        while True:
            request = {"kind": "look", "job": job, "keys": base64.b64encode(pending).decode(), "after": view.position}
            reply = await self._about_jobs(request)
            size, count, quiet = (reply.get(name) for name in ("size", "taken", "quiet"))
            gap += await view.take(decoded(reply), size if isinstance(size, int) else 0)
            if refusals is None:
                refusals = max(0, len(keys) - count) if isinstance(count, int) else 0
            pending = view.screen.answers()
            state, waits = self._mark(_job(reply)), flag if isinstance(flag := reply.get("waits"), bool) else None
            is_still = isinstance(quiet, float) and quiet >= (_STILL_UNTOLD_S if waits is None else _STILL_S)
            is_over = is_still and not pending and (state.state != "running" or waits is not False)
            if wait_for and state.state == "running":
                is_over = (hits := view.screen.picture().text.count(wait_for)) > before or (is_over and hits > 0)
            if is_over or loop.time() >= end:
                return ScreenLook(state, view.screen.picture(), waits, gap, refusals)
            await asyncio.sleep(min(pause, max(0.0, end - loop.time())))
            pause = min(2 * pause, _LOOK_S)

    async def jobs(self) -> tuple[Job, ...]:
        if self._pipe is None:
            return ()
        rows = (await self._about_jobs({"kind": "jobs"})).get("jobs")
        return tuple(self._mark(_job(row)) for row in rows[:200]) if isinstance(rows, list) else ()

    async def output(self, job: int) -> Job:
        return self._mark(_job(await self._about_jobs({"kind": "output", "job": job})))

    def _mark(self, job: Job) -> Job:
        """Return a job with what the kernel did since it began, in the group that counts the sandbox's memory."""
        kills = self._kills()
        return replace(job, short_of_memory=kills > self._kills_before.get(job.job, kills))

    async def stop(self, job: int, number: int = 15, *, force: bool = True) -> Job:
        if not 1 <= number <= 64:
            raise ToolError(f"there is no signal {number}; the numbers: 1 to 64")
        return _job(await self._about_jobs({"kind": "stop", "job": job, "signal": number, "force": force}))

    async def _about_jobs(self, message: dict[str, Any]) -> dict[str, Any]:
        await self._up()
        if message["kind"] == "job":
            await self._give()
        try:
            self._last += 1
            reply = await self._await_answer(await self._ask({**message, "id": self._last}), _ANSWER_S)
        except Lost as loss:
            raise JobError(f"the sandbox was ended: {loss.detail}; what ran in the background is gone") from None
        if "error" in reply:
            raise JobError(printable(text_or_kind(reply["error"]))[:500])
        return reply

    async def _give(self) -> None:
        """Give what was put into the folder since the last command to the commands' user."""
        if self._inside.user is None:
            return
        try:
            await asyncio.to_thread(self._give_changed, self._inside.user)
        except OSError as exc:
            raise SandboxUnavailableError(f"the shell's folder cannot be used: {exc}") from exc

    def _give_changed(self, user: int) -> None:
        changed = self._changes.take("give") if self._many else None
        count = give(self._folder, user, changed)
        self._many = self._many or count >= WORTH

    def _prepare(self, machine: Machine) -> None:
        """Make the machine ready. What a snapshot put there becomes the commands' user's: nobody else writes there."""
        machine.prepare()
        close_to_others(machine.layer)
        if self._inside.user is not None:
            give(machine.layer, self._inside.user)

    # -- the process -------------------------------------------------------------------------------------------------

    async def _up(self) -> None:
        async with self._one_start:
            if self._done is None:
                raise SandboxUnavailableError("the shell is closed")
            if self._pipe is not None and self._lost is None:
                return
            if self._pipe is not None and self._lost is not None:
                await self._down(self._lost)
            if self._lost is not None and not self._lost.told:
                self._news = self._lost
            self._lost, self._unasked = None, 0
            await self._give()
            if self._machine is not None:
                await asyncio.to_thread(self._prepare, self._machine)
            try:
                self._pipe = pipe = await Pipe.open(self._launch())
            except OSError as exc:
                raise SandboxUnavailableError(f"the sandbox cannot be started: {exc}") from exc
            self._group = pipe.group
            first: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._waiting = {0: first}
            self._tasks = [asyncio.create_task(self._listen(pipe)), asyncio.create_task(self._watch(pipe.process.pid))]
            start = {
                "temporary": self._inside.temporary,
                "own_user": self._inside.own_user,
                "last_job": self._state.last_job,
                "state": self._state.to_json() if self._state != ShellState() else None,
                "limits": asdict(self._limits),
            }
            try:
                async with asyncio.timeout(_START_S):
                    await self._send(start)
                    reply = await first
            except (Lost, TimeoutError) as exc:
                detail = str(exc) or f"it was not ready within {_START_S:g} s"
                await self._down(Lost(detail))
                raise SandboxUnavailableError(f"the shell cannot be started: {detail}") from None
            except asyncio.CancelledError:
                await asyncio.shield(self._down(Lost("it was ended")))
                raise
            self._keep(reply)
            self._problem = printable(text_or_kind(reply.get("problem", "")))[:300]

    async def _ask(self, message: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[message["id"]] = answer
        await self._send(message)
        return answer

    async def _await_answer(self, answer: asyncio.Future[dict[str, Any]], seconds: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(answer)
        except TimeoutError:
            loss = Lost("it did not answer any more and was killed", "time")
            await self._down(loss)
            raise loss from None

    async def _send(self, message: dict[str, Any]) -> None:
        if self._pipe is None:
            raise self._lost or Lost("it is gone")
        try:
            await self._pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            await asyncio.sleep(0)
            raise self._lost or Lost("it ended without a word") from None

    async def _listen(self, pipe: Pipe) -> None:
        try:
            while (message := await pipe.receive()) is not None:
                self._hear(message)
                await asyncio.sleep(0)  # messages that are all there already must not hold up the others
            self._is_lost(Lost(await pipe.last_words()))
        except Broken as exc:
            self._is_lost(Lost(str(exc)))

    def _hear(self, message: dict[str, Any]) -> None:
        kind = message.get("kind")
        if kind == "out":
            self._print(message)
        elif kind == "reply":
            waiting = self._waiting.pop(message["id"], None) if isinstance(message.get("id"), int) else None
            if waiting is None:
                self._count_stray()
            elif not waiting.done():
                waiting.set_result(message)
        elif kind == "ready":
            self._count_stray()
        else:
            raise Broken("it said something unknown")

    def _count_stray(self) -> None:
        """Count a message that nobody waits for; a few are answers that came too late."""
        self._unasked += 1
        if self._unasked > _STRAYS:
            raise Broken("it talks without being asked")

    def _print(self, message: dict[str, Any]) -> None:
        running, fd = self._running, message.get("fd")
        data = decoded(message)
        if running is None or message.get("id") != running.number or fd not in running.decoders:
            self._count_stray()
            return
        running.outputs[fd].add(data)
        if sum(output.size for output in running.outputs.values()) > self._limits.flood_bytes + (1 << 20):
            raise Broken("it printed without end")
        if running.on_output is not None:
            text = running.decoders[fd].decode(data)
            if text:
                running.on_output(text)

    async def _watch(self, pid: int) -> None:
        ending, detail = await watched_shell(
            pid,
            self._folder,
            self._limits,
            self._inside.file_systems,
            lambda: self._running is not None,
            self._changes,
            self._machine.layer if self._machine is not None else None,
        )
        self._is_lost(Lost(detail, ending))

    def _is_lost(self, loss: Lost) -> None:
        """Tell whoever waits; the process is ended before the next start, or now if it still runs."""
        self._lost = self._lost or loss
        self._fail_waiting(self._lost)
        if self._pipe is not None and self._pipe.process.returncode is None:
            self._ending = asyncio.create_task(self._down(self._lost))

    async def _down(self, loss: Lost) -> None:
        """End the process; whoever waits hears why."""
        pipe, self._pipe = self._pipe, None
        tasks, self._tasks = self._tasks, []
        self._screens.clear()
        if pipe is not None:
            self._lost = self._lost or loss
        self._fail_waiting(self._lost or loss)
        if pipe is not None:
            await pipe.close(*tasks)

    def _fail_waiting(self, loss: Lost) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(loss)
                future.exception()  # nobody may be there to hear it
        self._waiting.clear()

    async def close(self) -> None:
        done, self._done = self._done, None
        self._changes.close()
        await asyncio.shield(self._down(Lost("it was closed")))
        if self._ending is not None:
            await asyncio.shield(self._ending)
        if done is not None:
            done()


class Backend(ShellSandbox):
    """A sandbox that starts a process for each program and for each shell; it keeps nothing between them."""

    _problem: str | None = None

    async def problem(self) -> str:
        if self._problem is None:
            self._problem = await self._look()
        return self._problem

    @abstractmethod
    async def _look(self) -> str:
        """Return why it cannot be used here, "" when it can."""

    async def shell(self, folder: Path, limits: SandboxLimits | None = None, **options: Unpack[ShellOptions]) -> Shell:
        await check_usable(self)
        return await self._open_shell(World(folder.absolute(), limits or SandboxLimits(), **options))

    @abstractmethod
    async def _open_shell(self, world: World) -> Shell:
        """Make a shell ready to be started."""

    async def aclose(self) -> None:
        pass  # a shell is closed by whoever has it


def _check_size(size: Size) -> None:
    if not (20 <= size[0] <= 250 and 5 <= size[1] <= 100):
        raise JobError(f"a screen cannot have {size[0]} columns and {size[1]} lines; choose 20 to 250 and 5 to 100")


def _check_command(command: str) -> None:
    if "\0" in command:
        raise ToolError("a command cannot hold a zero character")
    size = len(command.encode("utf-8", "surrogatepass"))
    if size > _LONGEST_COMMAND:
        raise ToolError(
            f"the command has {size:,} bytes; at most {_LONGEST_COMMAND:,} are taken: write it to a file and run that"
        )


def _job(message: object) -> Job:
    """Return the job of a message; what does not fit in it is left out."""
    if not isinstance(message, dict):
        raise ToolError("the sandbox said something that is no job")
    number, pid, code, size = (
        value if isinstance(value := message.get(name), int) else None for name in ("job", "pid", "exit_code", "size")
    )
    state, output = message.get("is"), None
    if "head" in message:
        with contextlib.suppress(Broken):
            head, tail = decoded({"data": message["head"]}), decoded({"data": message.get("tail", "")})
            output = Output(head, tail, size or 0).text()
    return Job(
        job=number or 0,
        command=printable(" ".join(text_or_kind(message.get("command", "")).split()))[:1000],
        pid=pid or 0,
        state=state if state in ("running", "flood") else "ended",
        exit_code=code,
        output=output,
        printed=size or 0,
        screen=message.get("screen") is True,
    )
