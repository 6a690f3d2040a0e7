"""What every backend's shell does alike: what it keeps, how commands end, what runs in the background."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agentorchestra.core.errors import JobError, SandboxUnavailableError, ToolError
from agentorchestra.sandbox import Sandbox, SandboxLimits, Shell, ShellRan, ShellSandbox, ShellState
from agentorchestra.sandbox.base import MIB
from agentorchestra.sandbox.shell import Mount
from tests.support.patience import LONGEST_S, growing

LIMITS = SandboxLimits(seconds=LONGEST_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the shell works in."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture
async def opened(sandbox: Sandbox, folder: Path) -> AsyncIterator[Callable[..., object]]:
    """Makes shells that are closed in the end."""
    made: list[Shell] = []

    async def make(limits: SandboxLimits = LIMITS, **more: object) -> Shell:
        assert isinstance(sandbox, ShellSandbox)
        made.append(await sandbox.shell(folder, limits, **more))  # type: ignore[arg-type] # as for `shell`
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
async def shell(opened: Callable[..., object]) -> Shell:
    return await opened()  # type: ignore[misc, no-any-return] # the function above


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something inside that sets no event; the test's own limit ends it."""
    while not await condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def says(shell: Shell, command: str) -> str:
    """What a command prints that ends well."""
    ran = await shell.run(command, together=True)
    assert (ran.ending, ran.exit_code) == ("exited", 0), ran
    return ran.stdout


async def test_the_folder_is_the_working_folder_and_the_given_files_are_in_it(
    opened: Callable[..., object], folder: Path, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "a.txt").write_text("given\n")
    (folder / "ours.txt").write_text("from outside\n")
    shell: Shell = await opened(inputs=given)  # type: ignore[misc]
    assert await says(shell, "cat files/a.txt ours.txt; pwd") == f"given\nfrom outside\n{shell.root}\n"
    assert await says(shell, "mkdir -p d && echo new > d/made.txt && echo more >> ours.txt") == ""
    assert (folder / "d" / "made.txt").read_text() == "new\n"
    (folder / "ours.txt").write_text("changed outside\n")
    assert await says(shell, "cat ours.txt; echo again >> ours.txt; tail -1 ours.txt") == "changed outside\nagain\n"
    await shell.close()
    assert (given / "a.txt").read_text() == "given\n"


async def test_the_given_files_cannot_be_changed(safe: Sandbox, folder: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "a.txt").write_text("given\n")
    (folder / "files").symlink_to(tmp_path)  # as a command of an earlier shell may have left it
    assert isinstance(safe, ShellSandbox)
    shell = await safe.shell(folder, LIMITS, inputs=given)
    ran = await shell.run("echo x >> files/a.txt; echo x > files/b.txt; rm -rf files; cat files/a.txt", together=True)
    assert ran.stdout.count("Read-only file system") >= 2 and ran.stdout.endswith("given\n")
    assert sorted(one.name for one in given.iterdir()) == ["a.txt"] and tmp_path.exists()
    await shell.close()


async def test_what_is_kept_from_one_command_to_the_next(shell: Shell) -> None:
    await says(
        shell, "mkdir -p 'a b' && cd 'a b'; x=5; export Y='two words'; list=(1 'b c'); f() { echo \"f $1 $x\"; }"
    )
    await says(shell, "alias hey='echo hey'; shopt -s nullglob; umask 077")
    said = await says(
        shell, 'f in; echo "$Y" "${list[1]}"; basename "$PWD"; hey; echo *none*; umask; bash -c "echo $Y"'
    )
    assert said == "f in 5\ntwo words b c\na b\nhey\n\n0077\ntwo words\n"


async def test_outputs_and_exit_codes(shell: Shell) -> None:
    ran = await shell.run("echo out; echo err >&2; (exit 7)")
    assert (ran.stdout, ran.stderr, ran.exit_code, ran.ending) == ("out\n", "err\n", 7, "exited")
    ran = await shell.run("echo 1; echo 2 >&2; echo 3", together=True)
    assert (ran.stdout, ran.stderr) == ("1\n2\n3\n", "")
    ran = await shell.run("if true; then")
    assert ran.exit_code == 2 and "syntax error" in ran.stderr and ran.again == ""
    assert (await shell.run("no-such-command")).exit_code == 127
    assert (await shell.run("")).exit_code == 0
    ran = await shell.run("printf 'Grüße 世界\\xff'; cat <<'END'\nin a\ndocument\nEND\n")
    assert ran.stdout == "Grüße 世界\ufffdin a\ndocument\n"


async def test_output_is_told_as_it_comes(shell: Shell) -> None:
    told: list[str] = []
    first = asyncio.Event()

    def hear(text: str) -> None:
        told.append(text)
        first.set()

    running = asyncio.create_task(
        shell.run(
            "echo first; until [ -e go ]; do sleep 0.02; done; printf '\\xe4\\xb8'; printf '\\x96'", on_output=hear
        )
    )
    await first.wait()
    assert not running.done() and told == ["first\n"]
    job = await shell.start("touch go")
    ran = await running
    assert "".join(told) == ran.stdout == "first\n世"
    assert (await shell.output(job.job)).exit_code in (0, None)


async def test_a_long_output_keeps_its_two_ends(shell: Shell) -> None:
    ran = await shell.run("echo the beginning; head -c 1000000 /dev/zero | tr '\\0' x; echo the end")
    assert ran.stdout.startswith("the beginning\nxxx") and ran.stdout.endswith("xxxthe end\n")
    assert "[800,022 bytes left out]" in ran.stdout and ran.printed == 1_000_022


@pytest.mark.parametrize(
    "command", ["cat", "read line && echo got", "read line </dev/tty && echo got", "python3 -c 'input()'"]
)
async def test_who_waits_for_input_finds_its_end(shell: Shell, command: str) -> None:
    ran = await shell.run(command)
    assert ran.ending == "exited" and "got" not in ran.stdout and ran.again == ""


@pytest.mark.parametrize(
    ("command", "code", "variable"),
    [
        ("x=2; exit 3", 3, "2"),
        ("x=2; set -e; false; x=3", 1, "2"),
        ("x=2; exec true", 0, "1"),
        ("x=2; kill -9 $$", -9, "1"),
    ],
)
async def test_a_shell_that_ends_is_started_again_with_what_it_had(
    shell: Shell, command: str, code: int, variable: str
) -> None:
    await says(shell, "mkdir d; cd d; x=1; g() { echo g; }")
    ran = await shell.run(command)
    assert (ran.ending, ran.exit_code) == ("exited", code)
    assert "the shell itself ended" in ran.again
    assert await says(shell, 'echo $x; g; basename "$PWD"') == f"{variable}\ng\nd\n"


async def test_whoever_ends_the_parent_ends_the_sandbox_and_another_is_started(sandbox: Sandbox, shell: Shell) -> None:
    await says(shell, "mkdir d; cd d; x=1; sleep 300 &")
    if sandbox.name == "bubblewrap" and os.geteuid() != 0:  # there it is the first process, which nobody inside can end
        assert (await shell.run("kill -9 $PPID")).again == ""
        return
    ran = await shell.run("x=2; kill -9 $PPID; sleep 5")
    assert (ran.ending, ran.jobs_lost) == ("lost", True)
    assert ran.again.startswith("the sandbox was ended: ")
    assert await says(shell, 'echo $x; basename "$PWD"') == "1\nd\n"
    assert await shell.jobs() == ()


async def test_outputs_that_are_closed_are_there_for_the_next_command(shell: Shell) -> None:
    ran = await shell.run("exec >&- 2>&-; echo lost; x=1")
    assert (ran.stdout, ran.again) == ("", "")
    assert await says(shell, "echo back $x") == "back 1\n"


async def test_a_command_that_takes_too_long_is_interrupted(shell: Shell) -> None:
    for seconds in growing(0.2):
        await says(shell, "x=1")
        ran = await shell.run("x=2; echo on; for n in 1 2 3; do sleep 1000; done; x=3", timeout_s=seconds)
        assert (ran.ending, ran.again) == ("time", "")
        if ran.stdout:
            break
    assert await says(shell, "echo $x") == "2\n"


async def test_one_that_will_not_be_interrupted_is_killed_with_the_shell(shell: Shell) -> None:
    stubborn = "x=2; trap '' INT; setsid --wait sh -c 'trap \"\" INT; echo $$; sleep 1000'"
    for seconds in growing(0.2):
        await says(shell, "x=1")
        ran = await shell.run(stubborn, timeout_s=seconds)
        if ran.stdout:
            break
    assert (ran.ending, ran.exit_code) == ("time", -9)
    assert "was killed with the shell" in ran.again
    pid = int(ran.stdout)
    assert await says(shell, f"echo $x; while kill -0 {pid} 2>/dev/null; do sleep 0.02; done") == "1\n"


async def test_an_interrupt(shell: Shell) -> None:
    began = asyncio.Event()
    running = asyncio.create_task(shell.run("echo on; while :; do :; done; echo over", on_output=lambda _: began.set()))
    await began.wait()
    await shell.interrupt()
    ran = await running
    assert (ran.ending, ran.stdout) == ("interrupted", "on\n")


async def test_when_nobody_waits_any_more_the_command_ends(shell: Shell) -> None:
    began = asyncio.Event()
    command = "x=1; echo on; sleep 300; touch too-late"
    running = asyncio.create_task(shell.run(command, on_output=lambda _: began.set()))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await says(shell, "echo $x; ls; jobs") == "1\n"


async def test_output_without_end_is_stopped(opened: Callable[..., object]) -> None:
    shell: Shell = await opened(replace(LIMITS, flood_bytes=2 * MIB))  # type: ignore[misc]
    for command in (
        "yes",
        "w=$(head -c 50000 /dev/zero | tr '\\0' x); while :; do echo $w; done",
        "yes >&2",
        "trap '' PIPE INT; yes 2>&1; sleep 100",
    ):
        ran = await shell.run(command)
        assert ran.ending == "flood", command
        assert len(ran.stdout) + len(ran.stderr) < 500_000
    assert await says(shell, "echo alive") == "alive\n"


@pytest.mark.parametrize(("most", "printed"), [(1_000, 3_000), (50_000, 60_000)], ids=["first read", "what is left"])
async def test_too_much_output_of_a_shell_that_has_ended(
    bubblewrap: Sandbox, folder: Path, most: int, printed: int
) -> None:
    """What keeps the shell hears of it only when the shell has printed all and is gone.

    It reads 48,000 bytes before it notices the end of the shell: they are too much already, or what is left is.
    """
    assert isinstance(bubblewrap, ShellSandbox)
    shell = await bubblewrap.shell(folder, replace(LIMITS, flood_bytes=most))
    os.mkfifo(folder / "go")
    running = asyncio.create_task(shell.run(f"read <go; printf %{printed}s; kill -9 $$"))
    go = -1

    async def reads() -> bool:
        nonlocal go
        with contextlib.suppress(OSError):  # nobody has it open yet
            go = os.open(folder / "go", os.O_WRONLY | os.O_NONBLOCK)
        return go >= 0

    async def has(process: psutil.Process, status: str) -> bool:
        return process.status() == status

    await until(reads)
    (bash,) = [one for one in psutil.Process().children(recursive=True) if one.name() == "bash"]
    keeper = psutil.Process(bash.ppid())
    keeper.suspend()
    try:
        await until(lambda: has(keeper, psutil.STATUS_STOPPED))
        os.close(go)  # the shell goes on
        await until(lambda: has(bash, psutil.STATUS_ZOMBIE))
    finally:
        keeper.resume()
    ran = await running
    assert (ran.ending, ran.exit_code, ran.printed) == ("flood", -9, printed), ran
    assert await says(shell, "echo alive") == "alive\n"
    assert keeper.is_running()  # the sandbox is still the same
    await shell.close()


async def test_jobs_that_were_started(shell: Shell) -> None:
    await says(shell, "mkdir d; cd d; word=job")
    job = await shell.start("echo $word in $(basename $PWD) >&2; sleep 300")

    async def printed(job: int) -> bool:
        return bool((await shell.output(job)).output)

    await until(lambda: printed(job.job))
    found = await shell.output(job.job)
    assert (found.output, found.state) == ("job in d\n", "running")
    quick = await shell.start("exit 4")

    async def over() -> bool:
        return (await shell.output(quick.job)).state == "ended"

    await until(over)
    assert [(one.job, one.state, one.exit_code) for one in await shell.jobs()] == [
        (1, "running", None),
        (2, "ended", 4),
    ]
    assert (await shell.run("true")).jobs == 1
    stopped = await shell.stop(job.job)
    assert (stopped.state, stopped.exit_code) == ("ended", -15)
    deaf = await shell.start("trap '' TERM; echo on; while :; do sleep 1; done")
    await until(lambda: printed(deaf.job))
    assert (await shell.stop(deaf.job, 2, force=False)).state in ("running", "ended")
    assert (await shell.stop(deaf.job)).exit_code in (-9, -2)
    with pytest.raises(ToolError, match=r"there is no job 9; the jobs: 1, 2, 3"):
        await shell.output(9)


async def test_what_a_command_leaves_in_the_background(shell: Shell) -> None:
    ran = await shell.run("(until [ -e go ]; do sleep 0.02; done; echo late; sleep 300) & echo over")
    assert (ran.stdout, ran.jobs) == ("over\n", 1)
    await says(shell, "touch go")
    (job,) = await shell.jobs()

    async def late() -> bool:
        return "late" in str((await shell.output(job.job)).output)

    await until(late)
    assert "Running" in await says(shell, "jobs")
    await shell.run("exit 1")  # another shell, the job goes on
    assert [one.state for one in await shell.jobs()] == ["running"]
    assert (await shell.stop(job.job)).state == "ended"


async def test_a_job_that_prints_without_end_is_stopped(opened: Callable[..., object]) -> None:
    shell: Shell = await opened(replace(LIMITS, flood_bytes=MIB))  # type: ignore[misc]
    job = await shell.start("yes")
    await shell.run("yes & true")

    async def over() -> bool:
        return all(one.state != "running" for one in await shell.jobs())

    await until(over)
    assert [one.state for one in await shell.jobs()] == ["flood", "flood"]
    assert len(str((await shell.output(job.job)).output)) < 300_000


async def test_the_state_goes_into_a_snapshot_and_back(opened: Callable[..., object], folder: Path) -> None:
    first: Shell = await opened()  # type: ignore[misc]
    # What is in a variable is never a command, whoever reads it later.
    hostile = "$(touch owned) `touch owned` '; touch owned; ' \"; touch owned; \" \\"
    await says(first, "mkdir -p 'a b/c'; cd 'a b/c'; export V=1; f() { echo f; }; set -u; sleep 300 &")
    await says(first, f"cat >h <<'END'\n{hostile}\nEND\nh=$(cat h); rm h")
    kept = ShellState.from_json(first.state.to_json())
    assert kept == first.state and kept.directory == "a b/c"
    second: Shell = await opened(state=kept)  # type: ignore[misc]
    assert (
        await says(second, 'f; echo $V; bash -c \'echo $V\'; echo "$h"; basename "$PWD"') == f"f\n1\n1\n{hostile}\nc\n"
    )
    assert (await second.run("echo $unset_variable")).exit_code != 0
    assert await second.jobs() == ()
    assert [one.name for one in folder.rglob("owned")] == []


async def test_a_directory_that_is_gone_is_not_the_end(opened: Callable[..., object]) -> None:
    shell: Shell = await opened(state=ShellState(directory="no/longer", variables={"x": "declare -- x=1"}))  # type: ignore[misc]
    assert await says(shell, "echo $x; pwd") == f"1\n{shell.root}\n"


async def test_any_value_survives(opened: Callable[..., object], folder: Path) -> None:
    chance = random.Random(7)
    alphabet = "ab \t\n\r\x01\x1b\x7f'\"\\`$(){}[];&|<>!*?~#=%-é世🌍\u2028\ufeff"
    values = ["", "\n", " ", "-n", "--", "$(kill -9 $$)", "'", '"', "\\", "é\n\n", "${x}", "a=(1 2)"]
    values += ["".join(chance.choices(alphabet, k=chance.randrange(1, 30))) for _ in range(300)]
    (folder / "in").write_bytes(b"".join(one.encode() + b"\0" for one in values))
    first: Shell = await opened()  # type: ignore[misc]
    await says(first, 'mapfile -d \'\' -t all <in; declare -A named; for v in "${all[@]}"; do named["x$v"]=$v; done')
    second: Shell = await opened(state=ShellState.from_json(first.state.to_json()))  # type: ignore[misc]
    await says(
        second,
        'printf \'%s\\0\' "${all[@]}" >out; for v in "${all[@]}"; do printf \'%s\\0\' "${named["x$v"]}"; done >out2',
    )
    assert (folder / "out").read_bytes() == (folder / "out2").read_bytes() == (folder / "in").read_bytes()


async def test_bytes_that_are_no_text_are_not_kept_and_harm_nothing(opened: Callable[..., object]) -> None:
    first: Shell = await opened()  # type: ignore[misc]
    await says(first, "raw=$(printf '\\xff\\xfe'); x=1; printf -v \"y\" '\\x80'; f() { echo $'\\xff'; }")
    second: Shell = await opened(state=ShellState.from_json(first.state.to_json()))  # type: ignore[misc]
    assert await says(second, "echo $x") == "1\n"


@pytest.mark.long
async def test_many_commands_and_jobs_leave_nothing_open(safe: Sandbox, folder: Path) -> None:
    assert isinstance(safe, ShellSandbox)
    shell = await safe.shell(folder, LIMITS)
    for n in range(1200):  # more than descriptors may be open
        ran = await shell.run(f"echo {n}; true & wait")
        assert ran.stdout == f"{n}\n", ran
    for _ in range(60):  # more than may run at the same time
        job = await shell.start("exit 3")
        assert (await shell.stop(job.job)).state == "ended"
    assert 30 <= len(await shell.jobs()) <= 34
    await shell.close()


async def test_a_state_that_cannot_be_put_back_costs_only_itself(opened: Callable[..., object]) -> None:
    variables = {"a": "declare -- a=1", "b": "if then (", "c": "exit 5", "d": "declare -- d=2"}
    shell: Shell = await opened(state=ShellState(variables=variables))  # type: ignore[misc]
    assert await says(shell, 'echo "${a-none}"') in ("1\n", "none\n")


async def test_variables_that_are_too_large_are_named(shell: Shell) -> None:
    ran = await shell.run("large=$(head -c 300000 /dev/zero | tr '\\0' a); small=1")
    assert ran.notes == ("variable large (300,019 characters)",)
    assert list(shell.state.variables) == ["small"]
    assert await says(shell, "echo ${#large}") == "300000\n"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "the state of a shell is an object"),
        ({"variables": "x"}, "the variables of a shell's state are an object of texts"),
        ({"directory": 5}, "the directory of a shell's state is a text"),
        (
            {"variables": {"x": "a" * 3_000_000}},
            "the state of the shell has 3,000,024 bytes; at most 2,097,152 are kept",
        ),
    ],
)
def test_a_state_that_is_none(value: object, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        ShellState.from_json(value)


async def test_commands_that_are_none(shell: Shell) -> None:
    with pytest.raises(ToolError, match="a command cannot hold a zero character"):
        await shell.run("echo \0")
    with pytest.raises(
        ToolError, match="the command has 2,000,000 bytes; at most 1,048,576 are taken: write it to a file"
    ):
        await shell.run("x" * 2_000_000)
    await shell.close()
    with pytest.raises(SandboxUnavailableError, match="the shell is closed"):
        await shell.run("true")


async def crowd(shell: Shell, ran: ShellRan) -> ShellRan:
    """Go on until the sandbox was ended."""
    while not ran.again:
        ran = await shell.run("echo alive", timeout_s=2)
        await asyncio.sleep(0.3)
    return ran


@pytest.mark.long
async def test_processes_without_end_are_ended(safe: Sandbox, folder: Path) -> None:
    assert isinstance(safe, ShellSandbox)
    shell = await safe.shell(folder, replace(LIMITS, processes=16))
    await says(shell, "x=1")
    ran = await crowd(shell, await shell.run("b() { b | b & }; b", timeout_s=2))
    assert "16 processes" in ran.again or "killed" in ran.again, ran
    assert await says(shell, "echo $x") == "1\n"
    await shell.close()


@pytest.mark.long
async def test_memory_and_files_are_limited(safe: Sandbox, folder: Path) -> None:
    assert isinstance(safe, ShellSandbox)
    limits = replace(LIMITS, memory_bytes=256 * MIB, work_bytes=8 * MIB, files=300)
    shell = await safe.shell(folder, limits)
    await says(shell, "x=1")
    ran = await shell.run(
        "for n in 1 2 3 4 5; do python3 -c 'import time; x = b\"x\" * (90 << 20); time.sleep(30)' & done; wait"
    )
    assert ran.ending == "memory", ran
    ran = await shell.run("n=0; while :; do n=$((n+1)); head -c 3000000 /dev/zero >f$n; sleep 0.02; done")
    assert (ran.ending, ran.detail) == ("files", ran.detail) and ran.detail.endswith("MiB; at most 8 are allowed")
    assert await says(shell, "rm f*; echo $x") == "1\n"  # what was too much can be removed
    ran = await shell.run("n=0; while :; do n=$((n+1)); : >g$n; done")
    assert (ran.ending, ran.detail) == ("files", "the folder has more than 300 files and folders")
    ran = await shell.run("head -c 9000000 /dev/zero >large")
    assert ran.exit_code != 0
    await shell.close()


WRITES = "n=0; while :; do n=$((n+1)); head -c 1000000 /dev/zero >f$n; sleep 0.02; done"


@pytest.mark.parametrize("how", ["left by a command", "job"])
async def test_what_runs_in_the_background_stays_under_the_folders_limit(safe: Sandbox, folder: Path, how: str) -> None:
    assert isinstance(safe, ShellSandbox)
    outside = folder.with_name("outside")
    outside.mkdir()
    process = await asyncio.create_subprocess_exec("bash", "-c", WRITES, cwd=outside, start_new_session=True)

    async def written() -> bool:
        return (outside / "f20").exists()

    await until(written)  # nobody ends it there
    os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    shell = await safe.shell(folder, replace(LIMITS, work_bytes=8 * MIB))
    if how == "job":
        await shell.start(WRITES)
    else:
        assert (await shell.run(f"({WRITES}) & echo over")).stdout == "over\n"

    said = []

    async def ended() -> bool:
        try:
            return await shell.jobs() == ()
        except JobError as error:  # while it was looked at
            said.append(str(error))
            return True

    await until(ended)
    ran = await shell.run("echo again")
    assert (ran.stdout, ran.jobs) == ("again\n", 0)
    assert re.search(r"the folder has \d+ MiB; at most 8 are allowed", f"{said} {ran.again}"), ran
    await shell.close()


async def test_the_folder_stays_open_for_its_owner_and_closed_for_others(safe: Sandbox, folder: Path) -> None:
    assert isinstance(safe, ShellSandbox)
    shell = await safe.shell(folder, LIMITS)
    for mode in ("000", "4777"):
        await says(shell, f"mkdir -p d; touch d/f; chmod {mode} .")
        assert folder.stat().st_mode & 0o7777 == 0o700
        assert await says(shell, "ls d") == "f\n"
    await shell.close()
    again = await safe.shell(folder, LIMITS)  # by another of this folder, as of the terminal beside git
    assert await says(again, "echo more >>d/f; cat d/f") == "more\n"
    await again.close()


async def test_there_is_no_network_and_no_way_out(safe: Sandbox, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    assert isinstance(safe, ShellSandbox)
    shell = await safe.shell(folder, LIMITS)
    probe = "import socket; socket.create_connection(('127.0.0.1', 22), 1)"
    ran = await shell.run(
        f'cat {tmp_path}/secret /work/../secret; python3 -c "{probe}"; env; ls /home /root', together=True
    )
    assert "secret" not in ran.stdout.replace(f"{tmp_path}/secret", "").replace("/work/../secret", "")
    assert "ConnectionRefusedError" in ran.stdout
    ran = await shell.run(
        "ln -s /etc/passwd link; chmod 4755 /work; unshare -U true; mount -t tmpfs x /tmp", together=True
    )
    assert "unshare failed" in ran.stdout and "must be superuser" in ran.stdout, ran
    await shell.close()


async def test_further_folders_are_seen_where_they_were_asked_for(safe: ShellSandbox, folder: Path) -> None:
    given, taken = folder.parent / "given", folder.parent / "taken"
    for one in (given, taken):
        one.mkdir(mode=0o777)
        one.chmod(0o777)
    (given / "a.txt").write_text("from here")
    mounts = (Mount(given, "/tmp/given"), Mount(taken, "/tmp/taken", writable=True))
    shell = await safe.shell(folder, LIMITS, mounts=mounts)
    try:
        ran = await shell.run("cat /tmp/given/a.txt; echo x >/tmp/given/b || echo y >/tmp/taken/c")
        assert ran.stdout == "from here"
    finally:
        await shell.close()
    assert [one.name for one in given.iterdir()] == ["a.txt"]
    assert (taken / "c").read_text() == "y\n"
