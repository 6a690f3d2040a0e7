"""Nothing of a shell is left, whoever ends it; its pipe is not believed; containers that are left are removed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentorchestra.core.errors import JobError, SandboxUnavailableError, ToolError
from agentorchestra.sandbox import Sandbox, SandboxLimits, ShellSandbox, ShellState
from agentorchestra.sandbox import shell_driver as shelldrive
from agentorchestra.sandbox.base import MIB
from agentorchestra.sandbox.docker import LABEL, Docker, remove_orphans
from agentorchestra.sandbox.pipe import Launch
from agentorchestra.sandbox.shell_driver import DrivenShell, Inside, World
from tests.support.patience import LONGEST_S
from tests.support.processes import PROJECT, Seen, nothing_left

LIMITS = SandboxLimits(seconds=LONGEST_S)


def folder_in(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir(exist_ok=True)
    return made


async def test_after_a_shell_is_closed_nothing_is_left(sandbox: Sandbox, temporary: Path, tmp_path: Path) -> None:
    assert isinstance(sandbox, ShellSandbox)
    await (await sandbox.shell(folder_in(tmp_path), LIMITS)).close()
    seen = Seen()
    with nothing_left(temporary):
        shell = await sandbox.shell(folder_in(tmp_path), LIMITS)
        await shell.run("sleep 300 & setsid sleep 300 & (trap '' HUP TERM; sleep 300) & echo here >file")
        await shell.start("sleep 300")
        seen.look()
        await shell.close()
        await shell.close()
        await seen.gone()
    assert len(seen.processes) >= 6
    assert [one.name for one in folder_in(tmp_path).iterdir()] == ["file"]


@pytest.mark.long
async def test_cancelled_at_any_moment_nothing_is_left(safe: Sandbox, temporary: Path, tmp_path: Path) -> None:
    assert isinstance(safe, ShellSandbox)
    shell = await safe.shell(folder_in(tmp_path), LIMITS)
    await shell.close()
    seen = Seen()
    with nothing_left(temporary):
        for delay in (0, 0.005, 0.03, 0.15):
            shell = await safe.shell(folder_in(tmp_path), LIMITS)
            task = asyncio.create_task(shell.run("while :; do sleep 1; done"))
            await asyncio.sleep(delay)
            seen.look()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await shell.close()
        await seen.gone()


_PARENT = """
import asyncio, sys
from pathlib import Path
from agentorchestra.sandbox import SandboxLimits
from tests.sandbox.support import BACKENDS
async def main():
    shell = await BACKENDS[sys.argv[1]]().shell(Path(sys.argv[2]), SandboxLimits(seconds=300))
    await shell.start("sleep 300")
    await shell.run("setsid sleep 300 & sleep 300 & echo up >up; sleep 300", on_output=None)
asyncio.run(main())
"""


@pytest.mark.long
async def test_when_the_parent_is_killed_everything_of_the_shell_ends(sandbox: Sandbox, tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    command = [sys.executable, "-c", _PARENT, sandbox.name, str(folder)]
    parent = subprocess.Popen(command, cwd=PROJECT, start_new_session=True)  # noqa: ASYNC220
    try:
        while not (folder / "up").exists():
            assert parent.poll() is None
            await asyncio.sleep(0.02)
        seen = Seen(parent.pid)
        seen.look()
        assert len(seen.processes) >= 6
    finally:
        parent.kill()
        parent.wait()
    await seen.gone()


# -- what comes through the pipe ---------------------------------------------------------------------------------------

LIAR = """
import json, sys, time
def say(**fields): sys.stdout.write(json.dumps(fields) + "\\n"); sys.stdout.flush()
def hear(): return json.loads(sys.stdin.readline())
say(kind="ready"); hear()
STATE = {"directory": ".", "variables": {}, "functions": {}, "options": []}
say(kind="reply", id=0, state=STATE)
asked = hear()
number = asked["id"]
def out(data, fd=1): say(kind="out", id=number, fd=fd, data=data)
"""
LIES = {
    "no JSON": ("print('garbage', flush=True); time.sleep(60)", "it sent something that is not JSON"),
    "no message": ("print('[1]', flush=True); time.sleep(60)", "it sent something that is no message"),
    "unknown": ("say(kind='what'); time.sleep(60)", "it said something unknown"),
    "a line without end": ("while True: sys.stdout.write('x' * 65536)", "it sent a line that is longer than allowed"),
    "no base64": ("out('!'); time.sleep(60)", "it sent data that cannot be read"),
    "output without end": (
        "import base64; data = base64.b64encode(b'x' * 48000).decode()\nwhile True: out(data)",
        "it printed without end",
    ),
    "talk without end": ("while True: say(kind='reply', id=999)", "it talks without being asked"),
    "output of another": ("while True: say(kind='out', id=7, fd=1, data='eA==')", "it talks without being asked"),
    "the end": ("sys.exit(3)", "it ended without a word (status 3)"),
    "silence": ("time.sleep(60)", "it did not answer any more and was killed"),
}


def liar(tmp_path: Path, lie: str, limits: SandboxLimits = LIMITS) -> DrivenShell:
    def launch() -> Launch:
        return Launch([sys.executable, "-c", LIAR + lie], {"PATH": os.defpath})

    return DrivenShell(launch, World(folder_in(tmp_path), limits), Inside(root="/work", file_systems=None))


@pytest.mark.parametrize("lie", LIES, ids=str)
async def test_a_sandbox_that_lies(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelldrive, "_GRACE_S", 0.1)
    code, said = LIES[lie]
    shell = liar(tmp_path, code, replace(LIMITS, flood_bytes=MIB))
    ran = await shell.run("echo", timeout_s=0.1 if lie == "silence" else LONGEST_S)
    assert ran.ending == ("time" if lie == "silence" else "lost")
    assert ran.again == f"the sandbox was ended: {said}"
    assert len(ran.stdout) < 300_000 and shell.state == ShellState()
    await shell.close()


@pytest.mark.parametrize(
    "fields",
    [
        "exit_code=[1], ending={}, again=[[[]]], state=[], jobs='many', notes=5, last_job=-3",
        "exit_code='x', ending='nothing', again='\\x1b[31m' * 1000, state={'variables': [1]}, jobs=10**30, notes=[[]]",
        "state={'directory': '/x\\x00', 'variables': {'a': '\\udcff', 'b': 5}}, last_job=10**30",
    ],
)
async def test_answers_of_other_kinds(fields: str, tmp_path: Path) -> None:
    shell = liar(tmp_path, f"say(kind='reply', id=number, {fields}); time.sleep(60)")
    ran = await shell.run("echo")
    assert ran.ending == "lost" and ran.again.isprintable() and len(ran.again) <= 500
    json.dumps(shell.state.to_json()).encode()
    assert shell.state.last_job == 0 and dict(shell.state.variables) == {}
    await shell.close()


async def test_jobs_of_other_kinds(tmp_path: Path) -> None:
    shell = liar(tmp_path, "say(kind='reply', id=number, error=[1, 2]); time.sleep(60)")
    with pytest.raises(ToolError, match="a list"):
        await shell.start("x")
    await shell.close()
    shell = liar(tmp_path, "say(kind='reply', id=number, job='x', pid=[], head='!', command=5); time.sleep(60)")
    job = await shell.start("x")
    assert (job.job, job.pid, job.output, job.command) == (0, 0, None, "a int")
    await shell.close()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nonexistent"], "the sandbox cannot be started: "),
        ([sys.executable, "-c", "import sys; sys.exit('no such image')"], r"the shell .* \(status 1\): no such image"),
    ],
)
async def test_a_sandbox_that_cannot_be_started(command: list[str], said: str, tmp_path: Path) -> None:
    shell = DrivenShell(lambda: Launch(command, {}), World(folder_in(tmp_path), LIMITS), Inside(root="/work"))
    with pytest.raises(SandboxUnavailableError, match=said):
        await shell.run("true")
    await shell.close()


# -- containers --------------------------------------------------------------------------------------------------------


def test_the_container_of_a_shell(tmp_path: Path) -> None:
    world = World(tmp_path, LIMITS, inputs=tmp_path / "in")
    words = Docker("image").shell_command(world, "agentorchestra-x", 1234)
    line = " ".join(words)
    for part in (
        f"--label {LABEL}={os.getpid()}@",
        "--network none --read-only --user 1234:1234 --cap-drop ALL --security-opt no-new-privileges",
        f"--volume {tmp_path}:/work --workdir /work --volume {tmp_path}/in:/work/files:ro",
        "_after.sh:/opt/agentorchestra/_after.sh:ro",
        "_program.py:/opt/agentorchestra/_program.py:ro image python3 -E -s -B /opt/agentorchestra/_shell.py /work",
    ):
        assert part in line
    assert "--tmpfs /work" not in line


async def test_containers_of_processes_that_are_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen(["true"])  # noqa: ASYNC220
    gone.wait()
    host = os.uname().nodename
    ours = f"{os.getpid()}@{host}"
    (tmp_path / "list").write_text(
        f"agentorchestra-a {gone.pid}@{host}\nagentorchestra-b {ours}\nagentorchestra-c {gone.pid}@elsewhere\n"
        f"other {gone.pid}@{host}\nagentorchestra-d x@{host}\n"
    )
    client = tmp_path / "docker"
    client.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n[ "$1" = ps ] && cat {tmp_path}/list\nexit 0\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert await remove_orphans() == 1
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0].startswith(f"ps --all --no-trunc --filter label={LABEL} --format") and asked[1:] == [
        "rm --force agentorchestra-a"
    ]


@pytest.mark.parametrize(
    ("fields", "seen"),
    [
        ("job='x', data='', size=-1, taken=[1], waits='yes', quiet='long'", (None, 0, 0, ())),
        ("data='QUJD', size=10**30, taken=None, waits=None, quiet=1.0", (None, 10**30 - 3, 0, ("ABC",))),
        ("data='', size=5, taken=10**9, waits=True, quiet=1.0", (True, 5, 0, ())),
    ],
)
async def test_screens_of_other_kinds(fields: str, seen: tuple[object, ...], tmp_path: Path) -> None:
    shell = liar(tmp_path, f"say(kind='reply', id=number, {fields}, **{{'is': 'running'}}); time.sleep(60)")
    found = await shell.look(1)
    assert (found.waits, found.missed, found.refused, found.picture.lines) == seen
    await shell.close()


async def test_a_screen_that_cannot_be_read(tmp_path: Path) -> None:
    shell = liar(tmp_path, "say(kind='reply', id=number, data='!', size=1); time.sleep(60)")
    with pytest.raises(JobError, match="the screen of job 1 cannot be seen: it sent data that cannot be read"):
        await shell.look(1)
    await shell.close()
