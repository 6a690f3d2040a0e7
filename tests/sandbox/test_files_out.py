"""What a program leaves in its working folder to trap whoever takes it out."""

from __future__ import annotations

import contextlib
import pickle
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from pydantic import JsonValue

from agentorchestra.sandbox import Sandbox
from agentorchestra.sandbox.base import MIB
from tests.sandbox.attempts import LIMITS
from tests.sandbox.support import run
from tests.support.patience import LONGEST_S


@dataclass(frozen=True)
class Trap:
    """A trap.

    Attributes:
        name: of what is left.
        code: leaves it.
        there: whether it is in a folder: the program is also run outside, where the trap must really be laid.
        made: names that may come back, besides `good.txt`.
        note: what is said of the rest.
    """

    name: str
    code: str
    there: Callable[[Path], object]
    made: tuple[str, ...] = ()
    note: str = ""


_SWAPPED = """
import subprocess, sys, time
swaps = '''
import os, time
for n in range(10**9):
    write, link = lambda: open("x", "w").write("x" * 1000), lambda: os.symlink("/etc/ld.so.cache", "x")
    for act in (write, link, lambda: os.mkfifo("x")):
        try:
            os.unlink("x")
        except OSError: pass
        try: act()
        except OSError: pass
'''
subprocess.Popen([sys.executable, "-c", swaps], start_new_session=True)
time.sleep(0.5)
"""
_GROWING = (
    "import subprocess\n"
    "subprocess.Popen('while true; do head -c 10000 /dev/zero >> grows; done', shell=True, start_new_session=True)\n"
    "import time; time.sleep(0.3)\n"
)


def _changes(folder: Path) -> bool:
    """Whether `x` is a file at one moment and something else at another."""
    seen: set[int] = set()
    until = time.monotonic() + LONGEST_S
    while len(seen) < 2 and time.monotonic() < until:
        with contextlib.suppress(OSError):
            seen.add(stat.S_IFMT((folder / "x").lstat().st_mode))
    return len(seen) == 2


TRAPS = (
    Trap("pipe", "os.mkfifo('a-pipe')", lambda folder: (folder / "a-pipe").is_fifo()),
    Trap(
        "socket",
        "import socket; socket.socket(socket.AF_UNIX).bind('a-socket')",
        lambda folder: (folder / "a-socket").is_socket(),
    ),
    Trap("endless device", "os.symlink('/dev/zero', 'zeros')", lambda folder: (folder / "zeros").is_char_device()),
    Trap("loop of links", "os.symlink('b', 'a'); os.symlink('a', 'b')", lambda folder: (folder / "a").is_symlink()),
    Trap("link to the folder above", "os.symlink('..', 'up')", lambda folder: (folder / "up").is_dir()),
    Trap("link to all", "os.symlink('/', 'all')", lambda folder: (folder / "all" / "usr").is_dir()),
    Trap("link to memory", "os.symlink('/proc/self/mem', 'mem')", lambda folder: (folder / "mem").is_symlink()),
    Trap(
        "file with a large hole",
        "open('hole', 'wb').truncate(400 << 20)",
        lambda folder: (folder / "hole").stat().st_size == 400 * MIB,
        note="hole (419,430,400 bytes) was not kept: too many or too large files",
    ),
    Trap(
        "deep folders",
        "for n in range(1500): os.mkdir('d'); os.chdir('d')\nopen('bottom.txt', 'w').write('x')",
        lambda folder: Path(folder, *["d"] * 900).is_dir(),
        note="there are folders deeper than 50; what is in them was not looked at",
    ),
    Trap(
        "folder that cannot be read",
        "os.mkdir('closed'); open('closed/x', 'w').close(); os.chmod('closed', 0)",
        lambda folder: (folder / "closed").stat().st_mode & 0o777 == 0,
    ),
    Trap(
        "file that cannot be read",
        "open('closed', 'w').close(); os.chmod('closed', 0)",
        lambda folder: (folder / "closed").stat().st_mode & 0o777 == 0,
    ),
    Trap("swapped while it is read", _SWAPPED, _changes, made=("x",)),
    Trap("growing while it is read", _GROWING, lambda folder: (folder / "grows").exists(), made=("grows",)),
    *(
        Trap(
            f"name {name!r}",
            f"open({name!r}, 'w').write('x')",
            lambda folder, name=name: name in [path.name for path in folder.iterdir()],  # type: ignore[misc]
            note="was not kept: its name holds characters that cannot be shown",
        )
        for name in ("a\nb", "a\x1b[31mred", "\x07", "a\u202etxt.exe", "\udcff\udcfe", "a\u2028b", "a\x7f")
    ),
    Trap(
        "name with a backslash",
        "open('..\\\\..\\\\evil', 'w').write('x')",
        lambda folder: (folder / "..\\..\\evil").exists(),
        note="was not kept: its name is not a path below the working folder",
    ),
    Trap(
        "long name",
        "open('n' * 250, 'w').write('x')",
        lambda folder: (folder / ("n" * 250)).exists(),
        note="was not kept: names have 1 to 200 characters",
    ),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
async def test_traps(trap: Trap, safe: Sandbox) -> None:
    code = f"import os\nopen('good.txt', 'w').write('good')\nhere = os.getcwd()\n{trap.code}\nos.chdir(here)"
    ran = await run(safe, code, LIMITS)
    assert (ran.ending, ran.exit_code, ran.stderr) == ("exited", 0, ""), ran
    assert ran.made["good.txt"] == b"good"
    assert set(ran.made) <= {"good.txt", *trap.made}
    assert sum(len(data) for data in ran.made.values()) < LIMITS.kept_bytes
    assert trap.note in "\n".join(ran.notes)
    assert all(note.isprintable() for note in ran.notes)
    assert bool(ran.notes) == bool(trap.note)


def end_all_in(folder: Path) -> None:
    """End what was left running there: some traps lead a session of their own."""
    left = True
    while left:
        left = False
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(folder):
                    left = True
                    process.kill()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_outside_the_traps_are_laid(trap: Trap, tmp_path: Path) -> None:
    """The positive control: the same program leaves the trap in a folder."""
    work = tmp_path / "work"
    work.mkdir()
    process = subprocess.Popen([sys.executable, "-c", f"import os\n{trap.code}"], cwd=work, start_new_session=True)
    try:
        assert process.wait(LONGEST_S) == 0
        assert trap.there(work)
    finally:
        process.kill()
        process.wait()
        end_all_in(work)
        subprocess.run(["rm", "-rf", "--", str(work)], check=False)


async def test_nobody_opens_a_pickle(safe: Sandbox, tmp_path: Path) -> None:
    """A program hands over objects that run a command when they are loaded, on every way that leads out."""
    proof = tmp_path / "loaded"
    code = (
        "import os, pickle, base64\n"
        "class Evil:\n"
        f"    def __reduce__(self): return os.system, ('touch {proof}',)\n"
        "data = pickle.dumps(Evil())\n"
        "open('data.pkl', 'wb').write(data)\n"
        "open('data.npy', 'wb').write(data)\n"
        "tools.keep(data=base64.b64encode(data).decode(), object={'py/reduce': [{'py/type': 'os.system'}, ['x']]})\n"
        "import sys; sys.stdout.buffer.write(data); sys.stdout.flush()\n"
    )
    got: list[JsonValue] = []

    async def keep(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        got.append(arguments)
        return arguments

    ran = await run(safe, code, call=keep, tools=("keep",))
    assert ran.stderr == ""
    assert set(ran.made) == {"data.pkl", "data.npy"}
    assert len(got) == 1
    assert not proof.exists()
    pickle.loads(ran.made["data.pkl"])  # noqa: S301 - the positive control: it would have done it
    assert proof.exists()


async def test_a_program_cannot_close_the_folder_to_the_end(safe: Sandbox) -> None:
    ran = await run(safe, "import os\nopen('x', 'w').close()\ntry: os.chmod('.', 0)\nexcept OSError: pass")
    assert (ran.ending, ran.exit_code) == ("exited", 0)
    assert await run(safe, "6 * 7") is not None


async def test_kept_names_that_collide_are_said(safe: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "given.txt").write_text("given")
    kept = {"a": b"a file", "a/b": b"below a file", "files/new": b"below the task's folder"}
    ran = await run(safe, "open('a').read()", folder=tmp_path, kept=kept)
    assert ran.stdout == "'a file'\n"
    assert [note.partition(":")[0] for note in ran.notes] == [
        "a/b could not be put into the working folder",
        "files/new could not be put into the working folder",
    ]
    assert not (tmp_path / "new").exists()
