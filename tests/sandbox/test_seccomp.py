"""The filter of system calls: each refused one really is refused inside, and is not outside."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import subprocess
import sys

import pytest

from agentorchestra.sandbox import Sandbox, seccomp
from agentorchestra.sandbox.seccomp import filter_for
from tests.sandbox.support import prints, run
from tests.support.patience import LONGEST_S

NUMBERS = {name: numbers[0] for name, numbers in seccomp._REFUSALS.items()}
ASK = """
import ctypes, json, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def ask(number, *arguments):
    found = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(one) for one in arguments])
    if found == 0 and number == 56: os._exit(0)  # the child of a clone
    return ctypes.get_errno() if found < 0 else 0
"""
# Bad pointers, descriptors and magic numbers: nothing can come of a call. msgget would make a queue with such flags.
EACH = f"""{ASK}
bad = {{name: [-1] * 6 for name in {NUMBERS!r}}} | {{"msgget": [-1, 0]}}
print(json.dumps({{name: ask(number, *bad[name]) for name, number in {NUMBERS!r}.items()}}))
"""
FAMILIES = f"{ASK}\nprint(json.dumps([ask(41, family, 1, 0) for family in range(46)]))"
KINDS = (
    *((2, kind, protocol) for kind in (1, 2) for protocol in (0, 1, 6, 17, 33, 132, 136, 262)),
    *((10, 2, protocol) for protocol in (0, 17, 58, 136)),
    *((16, 3, protocol) for protocol in range(23)),
    *((1, kind, 0) for kind in (1, 2, 5)),
)
SOCKETS = f"{ASK}\nprint(json.dumps([ask(41, family, kind | 0x80800, protocol) for family, kind, protocol in {KINDS}]))"
NEW = f"{ASK}\nprint(json.dumps([ask(number, -1, -1, -1, -1, -1, -1) for number in range(463, 520)]))"
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
CLONES = f"{ASK}\nprint(json.dumps([ask(56, flag | 17, 0, 0, 0, 0) for flag in (0, *{NAMESPACES})]))"
X32 = f"{ASK}\nprint(ask(0x40000000 + 39))"
INT80 = f"""{ASK}
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))  # the 32-bit getpid
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print(call() == os.getpid())
"""

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="outside only root may do it")


def outside(code: str) -> str:
    """What a program prints without a sandbox."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LONGEST_S)
    return done.stdout


@on_x86
async def test_every_refused_call_is_refused(bubblewrap: Sandbox) -> None:
    assert json.loads(await prints(bubblewrap, EACH)) == dict.fromkeys(NUMBERS, errno.EPERM)


@on_x86
@as_root
def test_outside_the_same_calls_are_not_refused() -> None:
    """The positive control: the numbers are those of the calls, and it is the filter that refuses them."""
    assert [name for name, found in json.loads(outside(EACH)).items() if found == errno.EPERM] == []


@on_x86
async def test_only_known_kinds_of_sockets(bubblewrap: Sandbox) -> None:
    inside, without = (json.loads(text) for text in (await prints(bubblewrap, FAMILIES), outside(FAMILIES)))
    assert [family for family, found in enumerate(inside) if found != errno.EPERM] == [1, 2, 10, 16]
    assert without.count(errno.EPERM) < len(without) - 4


@on_x86
async def test_of_the_known_kinds_only_common_protocols(bubblewrap: Sandbox) -> None:
    """Memory that the kernel queues for the others no limit counts everywhere."""
    inside, without = (json.loads(text) for text in (await prints(bubblewrap, SOCKETS), outside(SOCKETS)))
    made = {one for one, found in zip(KINDS, inside, strict=True) if found == 0}
    assert made == {
        *((2, 1, 0), (2, 1, 6), (2, 2, 0), (2, 2, 17), (10, 2, 0), (10, 2, 17)),
        *((16, 3, 0), (1, 1, 0), (1, 2, 0), (1, 5, 0)),
    }
    elsewhere = {one for one, found in zip(KINDS, without, strict=True) if found == 0}
    assert {(2, 2, 136), (10, 2, 136), (16, 3, 15)} <= elsewhere, "UDP-Lite and news of the kernel are there outside"


@on_x86
async def test_calls_that_are_newer_than_the_filter_are_not_there(bubblewrap: Sandbox) -> None:
    assert set(json.loads(await prints(bubblewrap, NEW))) == {errno.ENOSYS}


@on_x86
async def test_no_new_namespaces_but_new_processes(bubblewrap: Sandbox) -> None:
    assert json.loads(await prints(bubblewrap, CLONES)) == [0, *[errno.EPERM] * len(NAMESPACES)]


@on_x86
@as_root
def test_outside_there_are_new_namespaces() -> None:
    assert json.loads(outside(CLONES)) == [0] * (1 + len(NAMESPACES))


@on_x86
@pytest.mark.parametrize("code", [X32, INT80], ids=["x32", "32 bit"])
async def test_a_foreign_calling_convention_ends_the_program(code: str, bubblewrap: Sandbox) -> None:
    ran = await run(bubblewrap, code)
    assert (ran.exit_code, ran.stdout) == (-signal.SIGSYS, "")
    assert outside(code) != ""  # which has no such filter


@pytest.mark.parametrize("machine", ["riscv64", "i686", "armv7l"])
def test_there_is_none_for_a_machine_it_was_not_written_for(machine: str) -> None:
    assert filter_for(machine) is None


def test_both_machines_have_one_of_their_own() -> None:
    both = [filter_for(machine) for machine in ("x86_64", "aarch64")]
    assert None not in both
    assert both[0] != both[1]
    assert all(rules is not None and len(rules) % 8 == 0 and len(rules) // 8 < 4096 for rules in both)
