"""Jobs with a screen: real programs that ask and draw, keys, and programs that misuse their terminal."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentorchestra.core.errors import JobError
from agentorchestra.environments.terminal.keys import encode_keys
from agentorchestra.sandbox import Sandbox, SandboxLimits, ScreenLook, Shell, ShellSandbox
from agentorchestra.sandbox.base import MIB
from tests.support.patience import LONGEST_S

LIMITS = SandboxLimits(seconds=LONGEST_S, flood_bytes=4 * MIB)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture
async def shell(sandbox: Sandbox, folder: Path) -> AsyncIterator[Shell]:
    assert isinstance(sandbox, ShellSandbox)
    made = await sandbox.shell(folder, LIMITS)
    yield made
    await made.close()


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is missing: scripts/setup-system.sh")


async def until(shell: Shell, job: int, shows: Callable[[ScreenLook], bool]) -> ScreenLook:
    """Look until something is to be seen."""
    end = asyncio.get_running_loop().time() + LONGEST_S
    while not shows(seen := await shell.look(job, wait_s=0.2)):
        assert asyncio.get_running_loop().time() < end, f"it did not come: {seen}"
    return seen


async def over(shell: Shell) -> str:
    """How the only job stands once it does not run any more."""
    while (job := (await shell.jobs())[0]).state == "running":  # noqa: ASYNC110 # what happens inside sets no event
        await asyncio.sleep(0.02)
    return job.state


class Person:
    """Somebody who types when the program waits, and looks until what they expect is there."""

    def __init__(self, shell: Shell, job: int) -> None:
        self.shell, self.job = shell, job

    async def sees(self, *texts: str) -> ScreenLook:
        """A screen with these texts, of a program that waits for input."""
        return await until(
            self.shell, self.job, lambda seen: seen.waits is True and all(one in text(seen) for one in texts)
        )

    async def types(self, *keys: str) -> None:
        await self.shell.look(self.job, keys=encode_keys(keys))

    async def ends(self) -> ScreenLook:
        return await until(self.shell, self.job, lambda seen: seen.job.state != "running")


async def at(shell: Shell, command: str) -> Person:
    return Person(shell, (await shell.start(command, screen=True)).job)


def text(seen: ScreenLook) -> str:
    return "\n".join(seen.picture.lines)


async def test_a_question_is_asked_and_answered(shell: Shell) -> None:
    one = await at(shell, "read -p 'Name? ' name; sleep 0.3; read -s -p 'Word? ' word; echo; echo $name, $word")
    seen = await one.sees("Name?")
    assert (seen.picture.line, seen.picture.column) == (1, 7)
    await one.types("Bo", "<backspace>", "ob", "<enter>")
    await one.sees("Name? Bob\nWord?")
    await one.types("hidden", "<enter>")
    over = await one.ends()
    assert text(over).endswith("\nBob, hidden") and (over.job.exit_code, over.waits) == (0, False)


async def test_what_works_or_serves_does_not_wait(shell: Shell) -> None:
    working = await at(shell, "echo on; until [ -e go ]; do sleep 0.02; done; read x")
    serving = await at(shell, "python3 -uc 'import select, socket; print(1); select.select([socket.socket()], [], [])'")
    for one, said in ((working, "on"), (serving, "1")):
        seen = await until(shell, one.job, lambda seen, said=said: text(seen) == said)  # type: ignore[misc]
        assert seen.waits is False
    await shell.run("touch go")
    await working.sees("on")


async def test_a_python_prompt(shell: Shell) -> None:
    one = await at(shell, "python3")
    await one.sees(">>>")
    await one.types("n = 6", "<enter>", "print(n * 7)", "<enter>")
    await one.sees("\n42\n>>>")
    await one.types("<up>", "<left>", " + 1", "<enter>")
    await one.sees("\n43\n>>>")
    await one.types("while True: pass\n\n")
    await until(shell, one.job, lambda seen: seen.waits is False)
    await one.types("<ctrl+c>")
    await one.sees("KeyboardInterrupt\n>>>")
    await one.types("<ctrl+d>")
    await one.ends()


@pytest.mark.long
async def test_a_debugger_of_python(shell: Shell, folder: Path) -> None:
    (folder / "sum.py").write_text("total = 0\nfor one in (1, 2, 3):\n    total += one\nprint(total)\n")
    one = await at(shell, "python3 -m pdb sum.py")
    await one.sees("-> total = 0\n(Pdb)")
    await one.types("b 3, one == 3", "<enter>", "c", "<enter>")
    await one.sees("-> total += one")
    await one.types("p total, one", "<enter>")
    await one.sees("(3, 3)")
    await one.types("q", "<enter>")
    await one.ends()


@needs("vim")
async def test_an_editor(shell: Shell, folder: Path) -> None:
    (folder / "a.txt").write_text("first\nsecond\nthird\n")
    one = await at(shell, "vim -u NONE a.txt")
    await one.sees("first\nsecond\nthird\n~")
    await one.types("<down>", "ddAer", "<escape>")
    seen = await one.sees("first\nthirder\n~")
    assert (seen.picture.line, seen.picture.column) == (2, 7)
    await one.types("V")
    await until(shell, one.job, lambda seen: bool(seen.picture.highlighted))
    await one.types("<escape>", ":nonsense", "<enter>")
    await one.sees("E492")
    await one.types(":wq", "<enter>")
    assert (await one.ends()).job.exit_code == 0
    assert (folder / "a.txt").read_text() == "first\nthirder\n"


@pytest.mark.long
@needs("less")
async def test_a_pager(shell: Shell) -> None:
    one = await at(shell, "seq 500 | less")
    assert text(await one.sees("\n39\n:")).startswith("1\n2\n3\n")
    await one.types("<pagedown>")
    await one.sees("\n78\n:")
    await one.types("/^333", "<enter>")
    seen = await one.sees("333\n334\n")
    assert seen.picture.highlighted == ("333",)
    await one.types("q")
    await one.ends()


@pytest.mark.long
@needs("top")
async def test_a_program_that_draws_again_and_again(shell: Shell) -> None:
    one = await at(shell, "top -d 0.1")
    seen = await one.sees("Tasks:", "COMMAND")
    assert any("COMMAND" in line for line in seen.picture.highlighted)
    await one.types("q")
    assert (await one.ends()).job.exit_code == 0


@pytest.mark.long
@needs("gdb")
async def test_a_debugger_of_programs(shell: Shell) -> None:
    one = await at(shell, "gdb -q -nx -ex 'set confirm off' --args sleep 300")
    await one.sees("(gdb)")
    await one.types("run", "<enter>")
    await until(shell, one.job, lambda seen: seen.waits is False and "Starting program" in text(seen))
    ran = "until pgrep -x sleep; do :; done"  # it is started, not only about to be
    assert (await shell.run(ran)).exit_code == 0
    await one.types("<ctrl+c>")
    await one.sees("received signal SIGINT")
    await one.types("kill", "<enter>", "quit", "<enter>")
    assert (await one.ends()).job.exit_code == 0


@pytest.mark.long
@needs("gdb")
async def test_a_debugger_reaches_no_process_that_keeps_the_sandbox(safe: Sandbox, folder: Path) -> None:
    assert isinstance(safe, ShellSandbox)
    shell = await safe.shell(folder, LIMITS)
    each = "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || [ ! -d /proc/$p ] || gdb -q -nx -batch -p $p; done"
    ran = await shell.run(f"{each} 2>&1 | grep ptrace: | sort | uniq -c")
    assert ran.stdout.split(maxsplit=1)[1:] == ["ptrace: Operation not permitted.\n"], ran
    own = await shell.run("sleep 300 & gdb -q -nx -batch -p $! -ex 'info registers pc' 2>/dev/null; kill $!")
    assert "nanosleep" in own.stdout
    await shell.close()


async def test_a_shell_in_it_has_jobs_of_its_own_and_is_interrupted(shell: Shell) -> None:
    one = await at(shell, "PS1='ready> ' bash --norc")
    await one.sees("ready>")
    await one.types("echo begun; sleep 300", "<enter>")
    await until(shell, one.job, lambda seen: "\nbegun" in text(seen) and seen.waits is False)
    await shell.stop(one.job, 2, force=False)  # as Ctrl-C: for what is in the foreground
    await one.sees("\nready>")
    assert (await shell.look(one.job)).job.state == "running"
    assert (await shell.stop(one.job)).state == "ended"
    with pytest.raises(JobError, match=rf"job {one.job} has ended and takes no keys; start it again: PS1="):
        await shell.look(one.job, keys=b"x")
    assert "ready>" in text(await shell.look(one.job))


async def test_jobs_go_on_while_commands_run(shell: Shell) -> None:
    one = await at(shell, "until [ -e go ]; do sleep 0.02; done; touch went; read -p 'more? '")
    ran = await shell.run("touch go; until [ -e went ]; do sleep 0.02; done; tty <&1; echo $TERM")
    assert ran.stdout == "not a tty\ndumb\n"  # plain commands have no terminal
    await one.sees("more?")


async def test_what_draws_without_end_is_bounded_and_ended_when_nobody_looks(shell: Shell) -> None:
    one = await at(shell, "yes $'\\e[2J\\e[5;5Hframe'")
    seen = await until(shell, one.job, lambda seen: seen.missed > 0)
    assert len(seen.picture.lines) <= 40
    assert await over(shell) == "flood"  # nobody looks
    assert (await shell.look(one.job)).job.state == "flood"
    assert (await shell.run("echo still here")).stdout == "still here\n"


@pytest.mark.long
async def test_a_hundred_megabytes_of_sequences(shell: Shell) -> None:
    one = await at(
        shell, "yes $'\\e[?1049h\\e[31m\\e[;;;;H\\e[4h\\e[99999L\\e]0;\\e(0\\eP' | head -c 100000000; echo end"
    )
    assert await over(shell) == "flood"
    assert len((await shell.look(one.job)).picture.lines) <= 40
    assert (await shell.run("echo still here")).stdout == "still here\n"


async def test_modes_that_a_dead_program_left_are_its_own(shell: Shell) -> None:
    one = await at(shell, "stty raw -echo; printf '\\e[?1049h\\e[?25l\\e[7m\\e[3;8r\\e]0;never ended'; kill -9 $$")
    assert (await one.ends()).job.exit_code == -9
    two = await at(shell, "read -p 'line? ' x; echo got $x")
    await two.sees("line?")
    await two.types("a", "<enter>")
    assert text(await two.ends()) == "line? a\ngot a"


async def test_what_leaves_its_terminal(shell: Shell) -> None:
    late = "touch begun; until [ -e go ]; do sleep 0.02; done; echo late; touch done"
    # Before it has left the terminal's session, the end of the job would end it too.
    one = await at(shell, f"(setsid sh -c '{late}' &) ; until [ -e begun ]; do sleep 0.02; done; echo left")
    assert text(await one.ends()) == "left"
    assert (await shell.run("touch go; until [ -e done ]; do sleep 0.02; done")).ending == "exited"
    await until(shell, one.job, lambda seen: "left" in text(seen))
    closed = await at(shell, "exec <&- >&- 2>&-; sleep 300")
    seen = await shell.look(closed.job, wait_s=0.2)
    assert seen.job.state == "running" and seen.picture.lines == ()


async def test_keys_that_nobody_reads(shell: Shell) -> None:
    one = await at(shell, "stty raw -echo; echo on; sleep 300")
    await until(shell, one.job, lambda seen: "on" in text(seen))
    refused = 0
    while not refused:
        refused = (await shell.look(one.job, keys=b"x" * 4_000)).refused
    assert refused <= 4_000 and (await shell.look(one.job)).job.state == "running"


async def test_mistakes(shell: Shell) -> None:
    with pytest.raises(JobError, match="there is no job 5; the jobs: none"):
        await shell.look(5)
    plain = await shell.start("sleep 300")
    with pytest.raises(JobError, match=rf"job {plain.job} has no screen"):
        await shell.look(plain.job, keys=b"x")


async def test_a_new_shell_knows_that_a_job_is_gone(shell: Shell, sandbox: ShellSandbox, folder: Path) -> None:
    one = await at(shell, "read x")
    second = await sandbox.shell(folder, LIMITS, state=shell.state)
    with pytest.raises(JobError, match=rf"job {one.job} is gone, with the shell it ran in or long ago; start it again"):
        await second.look(one.job, keys=b"x\r")
    await second.close()
