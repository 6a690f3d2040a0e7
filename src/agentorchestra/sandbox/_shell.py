"""The first program inside a sandbox with a shell: `python -E -s -B _shell.py WORK`.

It speaks JSON lines with the host over its standard input and output and keeps one interactive bash on a terminal of
its own (so that jobs and interrupts are the shell's own), whose commands come through a pipe and whose outputs go
through a FIFO each. A bash that ends is started again with what it had. Standard library only. It shares user and world
with the commands, so nothing it says is believed: every bound is kept again by the host (shell_driver.py).

In:  {"kind": "start", ...}, {"kind": "run", "id", "command", "seconds", "together"}, {"kind": "interrupt"},
     {"kind": "job", "id", "command", "screen", "size", "cpu_seconds"}, {"kind": "jobs", "id"},
     {"kind": "output", "id", "job"}, {"kind": "look", "id", "job", "keys", "after"},
     {"kind": "resize", "id", "job", "size"}, {"kind": "stop", "id", "job", "signal", "force"}
Out: {"kind": "ready"}, {"kind": "out", "id", "fd", "data"}, {"kind": "reply", "id", ...}
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentorchestra.sandbox._jobs import ShellJobs
    from agentorchestra.sandbox._state import ShellSnapshot, restoring
    from agentorchestra.sandbox._supervisor import CHUNK, HERE, Lines, Output, child_setup, encoded, say
else:  # inside there is nothing but the files beside this one
    from _jobs import ShellJobs
    from _state import ShellSnapshot, restoring
    from _supervisor import CHUNK, HERE, Lines, Output, child_setup, encoded, say

CONTROL = 199  # where the shell says that a command is done

AFTER = f'\\builtin . {shlex.quote(HERE)}/_after.sh "$?"'
INTERRUPT_S = 2.0  # how long a command that is to end may take after the interrupt
SETTLE_S = 20.0  # how long a new shell may take to be ready
AGAIN_S = 0.2
PRCTL_SUBREAPER, PRCTL_DUMPABLE = 36, 4


def catches_interrupts(pid: int) -> bool:
    """Return True if a process does something of its own when it is interrupted."""
    with (
        contextlib.suppress(OSError, ValueError),
        open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status,
    ):
        for line in status:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) & 1 << signal.SIGINT - 1)
    return True


def descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as source:
                parent = int(source.read().rpartition(b")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    pids, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        pids += children
        todo += children
    return pids


class Command:
    """One command, or what it left running."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.number, self.text, self.together = message["id"], message["command"], message["together"]
        self.deadline = time.monotonic() + message["seconds"]
        self.log = Output()
        self.ending = ""
        self.began_to_end = 0.0
        self.interrupted: set[int] = set()
        self.next_interrupt = 0.0
        self.twice = False
        self.readers: dict[int, int] = {}
        self.own_writers: list[int] = []
        self.paths: list[str] = []


class Keeper:
    def __init__(self, work: str, start: dict[str, Any]) -> None:
        self.work, self.start, self.limits = work, start, start["limits"]
        self.place = tempfile.mkdtemp(prefix=".shell-", dir=start["temporary"])
        self.state_path = shlex.quote(f"{self.place}/state")
        self.watch = selectors.DefaultSelector()
        self.state = ShellSnapshot(work)
        self.now: Command | None = None
        self.left: list[Command] = []
        self.jobs = ShellJobs(start, work, self.place, self.watch, self.reap)
        self.bash: subprocess.Popen[bytes] | None = None
        self.terminal = -1
        self.control, inside = os.pipe()
        os.set_blocking(self.control, False)
        os.dup2(inside, CONTROL)
        os.close(inside)
        self.said = b""
        self.again = ""
        self.watch.register(self.control, selectors.EVENT_READ)

    # -- bash --------------------------------------------------------------------------------------------------------

    def start_bash(self, state: dict[str, Any] | None) -> str:
        """Start a new shell; return what could not be put back, "" if all was."""
        self.end_bash()
        self.terminal, inside = os.openpty()
        modes = termios.tcgetattr(inside)
        modes[3] = (modes[3] & ~(termios.ICANON | termios.ECHO)) | termios.ISIG
        modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0  # whoever reads the terminal finds its end
        termios.tcsetattr(inside, termios.TCSANOW, modes)
        act = child_setup(self.start, self.start["own_user"])

        def before() -> None:
            act()
            fcntl.ioctl(2, termios.TIOCSCTTY, 0)

        try:
            self.bash = subprocess.Popen(
                ["/bin/bash", "--noprofile", "--norc", "--noediting", "-i"],
                stdin=subprocess.PIPE,
                stdout=inside,
                stderr=inside,
                pass_fds=(CONTROL,),
                preexec_fn=before,
                cwd=self.work,
                env=os.environ | {"PS1": "", "PS2": "", "TERM": "dumb", "AGENTORCHESTRA_PYTHON": f"{HERE}/_program.py"},
            )
        finally:
            os.close(inside)
        os.set_blocking(self.terminal, False)
        self.watch.register(self.terminal, selectors.EVENT_READ)
        # MAILCHECK would look at files, TMOUT would end the shell.
        self.tell("\\builtin set +o history; \\builtin set +H; \\builtin unset -v HISTFILE MAILCHECK PS1 PS2")
        self.tell(f"\\builtin trap {shlex.quote(f'{AFTER} {self.state_path} exit')} EXIT")
        self.after()
        if not self.is_settled():
            raise OSError("bash did not come up")
        if not self.state.baseline:
            self.state.begin(f"{self.place}/state")
        if state is None:
            return ""
        with open(f"{self.place}/restore", "w", encoding="utf-8", errors="surrogateescape") as target:
            target.write(restoring(state, self.work))
        self.tell(f"\\builtin . {shlex.quote(self.place)}/restore </dev/null >/dev/null 2>&1 {CONTROL}>&-")
        self.after()
        if not self.is_settled():
            self.start_bash(None)
            return "its variables could not be put back"
        self.state.read(f"{self.place}/state")
        return ""

    def tell(self, line: str) -> None:
        assert self.bash is not None and self.bash.stdin is not None
        with contextlib.suppress(OSError):  # it is gone: the next look says so
            self.bash.stdin.write(line.encode("utf-8", "surrogateescape") + b"\n")
            self.bash.stdin.flush()

    def after(self, number: int = 0) -> None:
        self.tell(f"{AFTER} {self.state_path} {number}")

    def is_settled(self) -> bool:
        assert self.bash is not None
        end = time.monotonic() + SETTLE_S
        while time.monotonic() < end and self.bash.poll() is None:
            for key, _ in self.watch.select(0.05):
                if key.fd == self.terminal:
                    self.drain_terminal()
                elif key.fd == self.control and self.heard_done() is not None:
                    return True
        return False

    def heard_done(self, number: int = 0) -> int | None:
        with contextlib.suppress(BlockingIOError):
            self.said = (self.said + os.read(self.control, 4096))[-4096:]
        *lines, self.said = self.said.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                status, command_number = (int(word) for word in line.split()[1:])
                if command_number == number:
                    return status
        return None

    def drain_terminal(self) -> None:
        try:
            while os.read(self.terminal, 1 << 16):
                pass
        except BlockingIOError:
            return
        except OSError:  # nobody has it open now; closing it would be a hangup for what has it still as its terminal
            self.watch.unregister(self.terminal)

    def end_bash(self) -> None:
        """End the shell and all it runs in the foreground."""
        if self.bash is not None:
            groups = self.jobs.groups()
            for pid in [*descendants(self.bash.pid), self.bash.pid]:
                with contextlib.suppress(OSError):
                    if os.getpgid(pid) not in groups or pid == self.bash.pid:
                        os.kill(pid, signal.SIGKILL)
            self.bash.wait()
            if self.bash.stdin is not None:
                with contextlib.suppress(OSError):
                    self.bash.stdin.close()
            self.bash = None
        if self.terminal >= 0:
            with contextlib.suppress(KeyError):
                self.watch.unregister(self.terminal)
            os.close(self.terminal)
            self.terminal = -1
        self.said = b""

    def foreground(self) -> int:
        """Return the process group in the foreground, 0 if there is none: the shell has ended."""
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(self.terminal)
        return self.bash.pid if self.bash is not None else 0

    # -- commands ----------------------------------------------------------------------------------------------------

    def run(self, message: dict[str, Any]) -> None:
        command = self.now = Command(message)
        os.makedirs(self.place, exist_ok=True)
        with contextlib.suppress(OSError):
            os.unlink(f"{self.place}/state")
        script = f"{self.place}/{command.number}.sh"
        with open(script, "w", encoding="utf-8", errors="surrogateescape") as target:
            target.write(command.text + "\n")
        command.paths.append(script)
        outputs = []
        for fd in (1,) if command.together else (1, 2):
            path = f"{self.place}/{command.number}.{fd}"
            os.mkfifo(path, 0o600)
            command.paths.append(path)
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            command.own_writers.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            command.readers[reader] = fd
            self.watch.register(reader, selectors.EVENT_READ)
            outputs.append(f"{fd}>{shlex.quote(path)}")
        outputs += ["2>&1"] if command.together else []
        self.tell(f"\\builtin . {shlex.quote(script)} </dev/null {' '.join(outputs)} {CONTROL}>&-")
        self.after(command.number)

    def end_command(self, ending: str) -> None:
        """Ask the running command to end; `look` sees to it that it does."""
        command = self.now
        if command is not None and not command.began_to_end:
            command.ending, command.began_to_end = ending, time.monotonic()
            self.interrupt(command)

    def interrupt(self, command: Command) -> None:
        """Interrupt what is in the foreground.

        The shell may just have been about to start it: then the signal went to the shell, or to its copy that had not
        become the other program yet. Or it was about to say what it has: it is asked for that again.
        """
        group, now = self.foreground(), time.monotonic()
        command.next_interrupt = now + AGAIN_S
        if group not in command.interrupted or not catches_interrupts(group):
            self.signal_foreground(signal.SIGINT)
        elif self.bash is not None and group == self.bash.pid:
            self.after(command.number)
        elif now > command.began_to_end + INTERRUPT_S / 4 and not command.twice:
            command.twice = True
            self.signal_foreground(signal.SIGINT)
        command.interrupted.add(group)
        if self.bash is not None:
            command.interrupted.add(self.bash.pid)

    def signal_foreground(self, number: int) -> None:
        with contextlib.suppress(OSError):
            if group := self.foreground():  # to group 0 would be to our own, and to what the sandbox stands on
                os.killpg(group, number)

    def finish(self, status: int, again: str = "", *, with_shell: bool = False) -> None:
        """End a command; of one that was killed with the shell nothing that it changed is kept."""
        command = self.now
        assert command is not None
        for reader in list(command.readers):
            if reader in command.readers:  # a flood in the one before closes all
                self.hear_rest(command, reader)
        self.now = None
        for fd in command.own_writers:
            os.close(fd)
        for path in command.paths:
            with contextlib.suppress(OSError):
                os.unlink(path)
        if command.readers:
            self.left.append(command)
        if not with_shell:  # the shell may have gone on for a moment, when its command was gone and it was not yet
            self.state.read(f"{self.place}/state")
        self.jobs.note(self.state.jobs, command.log)
        again, self.again = again or self.again, ""
        if self.bash is None or self.bash.poll() is not None:
            problem = self.start_bash(self.state.message())
            again = f"{again}; {problem}" if problem else again
        say(
            "reply",
            id=command.number,
            exit_code=status,
            ending=command.ending or "exited",
            again=again,
            state=self.state.message(),
            notes=self.state.notes,
            jobs=self.jobs.running(),
            last_job=self.jobs.last,
        )

    def hear_rest(self, command: Command, reader: int) -> None:
        """Take what was written up to now: who goes on in the background may never stop."""
        waiting = array.array("i", [0])
        fcntl.ioctl(reader, termios.FIONREAD, waiting)
        until = command.log.size + waiting[0]
        while command.log.size < until and self.hear(command, reader):
            pass

    def hear(self, command: Command, reader: int) -> bool:
        """Take what has arrived; return True if there may be more."""
        try:
            data = os.read(reader, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.watch.unregister(reader)
            os.close(reader)
            del command.readers[reader]
            return False
        command.log.add(data)
        if command is self.now:
            say("out", id=command.number, fd=command.readers[reader], data=encoded(data))
        if command.log.size <= self.limits["flood_bytes"]:
            return True
        for other in list(command.readers):  # whoever goes on printing finds its pipe broken
            self.watch.unregister(other)
            os.close(other)
        command.readers.clear()
        if command is self.now:
            self.end_command("flood")
        else:
            self.jobs.end_flood(command.log)
        return False

    # -- the loop ----------------------------------------------------------------------------------------------------

    def reap(self) -> None:
        """End the bookkeeping of processes that lost their parent: they come to this one."""
        own = self.jobs.children()
        if self.bash is not None:
            own[self.bash.pid] = self.bash
        with contextlib.suppress(ChildProcessError):
            while child_info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                child = own.pop(child_info.si_pid, None)
                if child is not None:
                    child.poll()
                elif child_info.si_pid != (self.bash.pid if self.bash is not None else 0):
                    os.waitpid(child_info.si_pid, os.WNOHANG)
                else:
                    break

    def look(self) -> None:
        """Notice what changed without a message: ended processes, times that are over."""
        self.reap()
        command = self.now
        if self.bash is not None and self.bash.poll() is not None:
            code = self.bash.returncode
            ending = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            if command is not None:
                self.finish(code, f"the shell itself ended ({ending})")
            else:
                self.start_bash(self.state.message())
                self.again = f"the shell itself ended ({ending}) before this command"
            return
        if command is None:
            return
        now = time.monotonic()
        if now > command.deadline:
            self.end_command("time")
        if command.began_to_end and now > command.next_interrupt:
            self.interrupt(command)
        if command.began_to_end and now > command.began_to_end + INTERRUPT_S:
            self.end_bash()  # all at once: a child whose parent is killed first is no longer found below the shell
            reason = "the command did not end when it was interrupted and was killed with the shell"
            self.finish(-9, reason, with_shell=True)

    def turn(self, lines: Lines) -> None:
        """Wait for something and act on it."""
        busy = self.now is not None
        for key, _ in self.watch.select(0.05 if busy else 0.5):
            if key.fd == lines.fd:
                for line in lines.read():
                    self.answer(json.loads(line))
                if not lines.open:
                    self.close()
            elif key.fd == self.control:
                status = self.heard_done(self.now.number if self.now is not None else 0)
                if status is not None and self.now is not None:
                    self.finish(status)
            elif key.fd == self.terminal:
                self.drain_terminal()
            else:
                self.hear_one(key.fd)
        self.look()

    def hear_one(self, fd: int) -> None:
        for command in [*self.left, *([self.now] if self.now is not None else [])]:
            if fd in command.readers:
                self.hear(command, fd)
                if not command.readers and command in self.left:
                    self.left.remove(command)
                return
        self.jobs.hear(fd)

    def answer(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "run":
            self.run(message)
        elif kind == "interrupt":
            self.end_command("interrupted")
        else:
            say("reply", id=message["id"], **self.jobs.answer(message, self.state.message()))

    def close(self) -> None:
        """End everything: the host is gone or wants it."""
        for _ in range(100):
            pids = descendants(os.getpid())
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.01)
        shutil.rmtree(self.place, ignore_errors=True)
        os._exit(0)


def main() -> None:
    signal.signal(signal.SIGINT, lambda *_: None)  # not ignored, which what is started here would inherit
    signal.signal(signal.SIGHUP, lambda *_: None)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PRCTL_DUMPABLE, 0, 0, 0, 0)
        ctypes.CDLL(None).prctl(PRCTL_SUBREAPER, 1, 0, 0, 0)
    work = sys.argv[1]
    os.chdir(work)
    say("ready")
    lines = Lines(0, 4 << 20)
    first: list[bytes] = []
    while not first:
        first = lines.read()
        if not lines.open:
            sys.exit(3)
    start = json.loads(first[0])
    keeper = Keeper(work, start)
    problem = keeper.start_bash(start["state"])
    say("reply", id=0, problem=problem, state=keeper.state.message())
    keeper.watch.register(0, selectors.EVENT_READ)
    try:
        for line in first[1:]:
            keeper.answer(json.loads(line))
        while True:
            keeper.turn(lines)
    except BrokenPipeError:
        keeper.close()


if __name__ == "__main__":
    main()
