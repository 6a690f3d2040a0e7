"""Attempts to get out, each with its positive control: the same program succeeds outside of the sandbox.

What counts is the effect: nothing secret comes back, nothing outside is changed, no server is reached, everything that
lived still lives, nothing is left behind.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentorchestra.sandbox import Ran, Sandbox
from agentorchestra.sandbox.cgroup import parent_group
from tests.sandbox.attempts import ATTEMPTS, Attempt
from tests.sandbox.database import QUERY, postgres
from tests.sandbox.support import run
from tests.sandbox.world import BEGAN, NOBODY, World, world
from tests.support.patience import LONGEST_S

PROJECT = Path(__file__).parents[2]
ROOT = os.geteuid() == 0
_OWN_MOUNTS = ["unshare", "--mount", "--propagation", "private"]
_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world() as made:
        monkeypatch.setenv("AGENTORCHESTRA_SECRET", made.token)
        yield made


def returned(ran: Ran) -> bytes:
    """All that came back."""
    texts = (ran.stdout, ran.stderr, ran.detail, *ran.notes, *ran.made, *ran.removed)
    return b"\n".join([*(text.encode("utf-8", "replace") for text in texts), *ran.made.values()])


def outside(attempt: Attempt, around: World, folder: Path) -> bytes:
    """What the same program gives back without a sandbox; its files are read as somebody careless would."""
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "files").symlink_to(around.folder)
    script = folder / ".script"
    script.write_text(around.code(attempt.language, attempt.code))
    command = ["/bin/bash", str(script)] if attempt.language == "bash" else [sys.executable, "-P", "-s", str(script)]
    prefix = {
        "plain": [],
        "mounts": _OWN_MOUNTS,
        "read_only_mounts": [*_OWN_MOUNTS, "sh", "-c", _READ_ONLY, str(around.folder)],
        "nobody": ["setpriv", "--reuid", str(NOBODY), "--clear-groups"],
        "terminal": ["setsid", sys.executable, "-c", _TERMINAL],
        "parent": ["sh", "-c", '"$@" >/dev/null 2>&1; true', "sh"],
    }[attempt.outside]
    done = subprocess.run(
        [*prefix, *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LONGEST_S,
        check=False,
        start_new_session=True,
    )
    script.unlink()
    found = [done.stdout, done.stderr]
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size < 1_000_000:
            found.append(path.read_bytes())
    for path in folder.iterdir():
        if path.is_symlink() and path.is_dir() and path.name != "files":
            found += [inner.read_bytes() for inner in path.iterdir()]
    return b"\n".join(found)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: f"{attempt.language}: {attempt.name}")
async def test_no_way_out(attempt: Attempt, safe: Sandbox, around: World) -> None:
    if attempt.name == "memory in queues of news" and parent_group() is None:
        pytest.skip("only a control group counts memory of the kernel, and none can be made here")
    code = around.code(attempt.language, attempt.code)
    ran = await run(safe, code, attempt.limits, language=attempt.language, folder=around.folder)
    assert ran.stdout.startswith(BEGAN), f"the attempt was not made: {ran}"
    assert around.evidence(returned(ran)) == "", ran


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "attempt",
    # Those that take memory take seconds.
    [pytest.param(one, marks=pytest.mark.long) if "memory" in one.name else one for one in ATTEMPTS],
    ids=lambda attempt: f"{attempt.language}: {attempt.name}",
)
def test_outside_it_succeeds(attempt: Attempt, around: World) -> None:
    """The positive control: an attempt that fails everywhere would prove nothing."""
    if attempt.root and not ROOT:
        pytest.skip("only root could do this outside, and these tests do not run as root")
    came_back = outside(attempt, around, around.root / "work")
    assert around.evidence(came_back) != "", came_back.decode("utf-8", "replace")


_SANDBOXED = """
import asyncio, sys
from agentorchestra.sandbox import Program, SandboxLimits
from tests.sandbox.support import BACKENDS
open("/dev/tty").close()
ran = asyncio.run(BACKENDS[sys.argv[1]]().run(Program("python", sys.argv[2]), SandboxLimits(seconds=20)))
print(ran.stdout, ran.stderr, ran.detail)
"""


async def test_no_keys_are_typed_into_a_terminal_of_ours(safe: Sandbox, around: World) -> None:
    """As above, but where the host has a terminal to be taken from it."""
    code = around.code("python", next(one.code for one in ATTEMPTS if one.outside == "terminal"))
    command = ["setsid", sys.executable, "-c", _TERMINAL, sys.executable, "-c", _SANDBOXED, safe.name, code]
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert BEGAN.encode() in done.stdout, done.stderr
    assert around.evidence(done.stdout) == "", done.stdout


async def test_the_database_of_the_host(safe: Sandbox, around: World) -> None:
    with postgres(around.token) as port:
        around.facts["postgres"] = port
        attempt = Attempt("PostgreSQL", QUERY)
        ran = await run(safe, around.code("python", attempt.code), attempt.limits, folder=around.folder)
        assert ran.stdout == f"{BEGAN}\n"
        assert "ConnectionRefusedError" in ran.stderr
        assert around.evidence(returned(ran)) == ""
        assert around.token.encode() in await asyncio.to_thread(outside, attempt, around, around.root / "work")
