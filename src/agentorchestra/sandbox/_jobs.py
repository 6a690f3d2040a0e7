"""Background jobs of a shell: started as such, or left there by a command. Inside the sandbox."""

from __future__ import annotations

import base64
import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentorchestra.sandbox._state import restoring
    from agentorchestra.sandbox._supervisor import CHUNK, Output, child_setup, encoded
    from agentorchestra.sandbox._terminal import PseudoTerminal
else:  # inside there is nothing but the files beside this one
    from _state import restoring
    from _supervisor import CHUNK, Output, child_setup, encoded
    from _terminal import PseudoTerminal

RUNNING_JOBS = 32
ENDED_JOBS = 32


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def kill_group(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGCONT)  # what is stopped hears nothing
        os.killpg(group, number)


class ShellJob:
    """Something in the background: started as such, or left by a command."""

    def __init__(self, number: int, text: str, group: int, log: Output, child: subprocess.Popen[bytes] | None) -> None:
        self.number, self.text, self.group, self.log, self.child = number, text, group, log, child
        self.reader = -1
        self.script = ""
        self.terminal: PseudoTerminal | None = None
        self.flooded = False
        self.code: int | None = None
        self.over = False

    def look(self) -> None:
        if self.over:
            return
        if self.child is not None:
            self.code = self.child.poll()
            self.over = self.code is not None
            if self.over and self.script:
                with contextlib.suppress(OSError):
                    os.unlink(self.script)
        else:
            self.over = not alive(self.group)
        if self.over and self.terminal is not None and self.reader < 0:
            self.terminal.close()

    def message(self) -> dict[str, Any]:
        state = "flood" if self.flooded else "ended" if self.over else "running"
        return {
            "job": self.number,
            "command": self.text[:1000],
            "pid": self.group,
            "is": state,
            "exit_code": self.code,
            "screen": self.terminal is not None,
        }


class ShellJobs:
    """All of them, by number; `place` is a folder for their scripts, `watch` where their outputs are waited for."""

    def __init__(
        self, start: dict[str, Any], work: str, place: str, watch: selectors.BaseSelector, reap: Callable[[], None]
    ) -> None:
        self.start, self.limits, self.work, self.place = start, start["limits"], work, place
        self.watch, self.reap = watch, reap
        self.jobs: dict[int, ShellJob] = {}
        self.last = int(start["last_job"])

    def note(self, jobs: list[tuple[int, str]], log: Output) -> None:
        """Add the shell's new jobs (process group, text), which belong to the command of this log."""
        groups = self.groups()
        for group, text in jobs:
            if group not in groups and alive(group):
                self.add(text, group, log, None)

    def groups(self) -> set[int]:
        return {job.group for job in self.jobs.values() if not job.over}

    def children(self) -> dict[int, subprocess.Popen[bytes]]:
        children = [job.child for job in self.jobs.values() if job.child is not None]
        return {child.pid: child for child in children if child.returncode is None}

    def end_flood(self, log: Output) -> None:
        """End the jobs of a log that grew too large."""
        for job in self.jobs.values():
            if job.log is log:
                job.flooded = True
                kill_group(job.group, signal.SIGKILL)

    def add(self, text: str, group: int, log: Output, child: subprocess.Popen[bytes] | None) -> ShellJob:
        over = [number for number, job in self.jobs.items() if job.over and job.reader < 0]
        for number in over[: max(0, len(over) - ENDED_JOBS)]:
            del self.jobs[number]
        self.last += 1
        job = self.jobs[self.last] = ShellJob(self.last, text, group, log, child)
        return job

    def begin(self, message: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        apart = message.get("cpu_seconds")  # of a job that has nothing of the shell
        if self.running() >= RUNNING_JOBS and apart is None:
            return {"error": f"{RUNNING_JOBS} background jobs are running already; stop one first"}
        os.makedirs(self.place, exist_ok=True)
        path = f"{self.place}/job-{message['id']}"
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as target:
            before = restoring(state, self.work) if apart is None else ""
            target.write(before + "\n" + message["command"] + "\n")
        command = ["/bin/bash", "--noprofile", "--norc", path]
        start = self.start
        if apart is not None:
            start = {**start, "limits": {**self.limits, "cpu_seconds": apart}}
        limit = child_setup(start, start["own_user"])
        terminal = None
        try:
            if message["screen"]:
                terminal = PseudoTerminal(message["size"])
                reader, child = terminal.end, terminal.start(command, self.work, limit)
            else:
                reader, child = self.start_piped(command, limit)
        except (OSError, subprocess.SubprocessError) as error:
            if terminal is not None:
                terminal.close()
            return {"error": f"no process could be started: {error}"}
        job = self.add(message["command"], child.pid, Output(), child)
        job.reader, job.script, job.terminal = reader, path, terminal
        self.watch.register(reader, selectors.EVENT_READ)
        return job.message()

    def start_piped(self, command: list[str], limit: Callable[[], None]) -> tuple[int, subprocess.Popen[bytes]]:
        """Start a program without input, whose outputs are one pipe; return the end to read from, and the program."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            return reader, subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, preexec_fn=limit, cwd=self.work
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)

    def hear(self, fd: int) -> None:
        """Read from a descriptor that may be a job's."""
        for job in self.jobs.values():
            if job.reader == fd:
                self.hear_one(job)
                return

    def hear_one(self, job: ShellJob) -> None:
        if job.terminal is not None:
            self.hear_terminal(job, job.terminal)
            return
        try:
            data = os.read(job.reader, CHUNK)
        except BlockingIOError:
            return
        job.log.add(data)
        if job.log.size > self.limits["flood_bytes"]:
            job.flooded, data = True, b""
            kill_group(job.group, signal.SIGKILL)
        if not data:
            self.close(job)

    def hear_terminal(self, job: ShellJob, terminal: PseudoTerminal) -> None:
        """Take what a job drew; one that draws without end while nobody looks is ended."""
        is_open = terminal.hear()
        if terminal.size - terminal.looked_at > self.limits["flood_bytes"]:
            job.flooded, is_open = True, False
            kill_group(job.group, signal.SIGKILL)
        if not is_open:
            self.close(job)

    def close(self, job: ShellJob) -> None:
        """Read no more from a job; a terminal stays open as long as the job runs, which a hangup would end."""
        self.watch.unregister(job.reader)
        if job.terminal is None:
            os.close(job.reader)
        elif job.over or job.flooded:
            job.terminal.close()
        job.reader = -1

    def running(self) -> int:
        for job in self.jobs.values():
            job.look()
        return sum(not job.over for job in self.jobs.values())

    def answer(self, message: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        kind = message["kind"]
        if kind == "job":
            return self.begin(message, state)
        self.running()
        if kind == "jobs":
            return {"jobs": [job.message() for job in self.jobs.values()]}
        job = self.jobs.get(message["job"])
        if job is None and 0 < message["job"] <= self.last:
            return {"error": f"job {message['job']} is gone, with the shell it ran in or long ago; start it again"}
        if job is None:
            numbers = ", ".join(str(job) for job in self.jobs) or "none"
            return {"error": f"there is no job {message['job']}; the jobs: {numbers}"}
        if kind == "look":
            return self.look(job, message)
        if kind == "resize" and job.terminal is not None and job.terminal.end >= 0:
            job.terminal.resize(message["size"])
        if kind == "stop" and not job.over:
            if job.terminal is not None and message["signal"] == signal.SIGINT:
                job.terminal.interrupt()
            else:
                kill_group(job.group, message["signal"])
            if not self.over(job) and message["force"]:
                kill_group(job.group, signal.SIGKILL)
                self.over(job)
        if job.reader >= 0:
            self.hear_one(job)
        head, tail = job.log.ends()
        return {**job.message(), "head": encoded(head), "tail": encoded(tail), "size": job.log.size}

    def look(self, job: ShellJob, message: dict[str, Any]) -> dict[str, Any]:
        """Send keys to a job's terminal and return what was drawn there after a position."""
        terminal = job.terminal
        if terminal is None:
            return {"error": f"job {job.number} has no screen"}
        keys = base64.b64decode(message["keys"])
        count = terminal.type(keys) if keys and job.reader >= 0 and not job.over else 0
        waits = terminal.waits() if job.reader >= 0 and not job.over else False
        if job.reader >= 0:
            self.hear_one(job)
        quiet = time.monotonic() - terminal.since
        data = encoded(terminal.after(message["after"]))
        return {**job.message(), "data": data, "size": terminal.size, "taken": count, "waits": waits, "quiet": quiet}

    def over(self, job: ShellJob) -> bool:
        """Return True if a job ends within a second."""
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            self.reap()
            job.look()
            if job.over:
                return True
            time.sleep(0.01)
        return False
