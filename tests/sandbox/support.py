"""What the tests of the sandboxes share."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from agentorchestra.sandbox import HostCall, Program, Ran, Sandbox, SandboxLimits
from agentorchestra.sandbox.bubblewrap import Bubblewrap
from agentorchestra.sandbox.docker import Docker
from agentorchestra.sandbox.local import UnsafeLocal
from tests.support.patience import LONGEST_S, growing

BACKENDS: dict[str, Callable[[], Sandbox]] = {"bubblewrap": Bubblewrap, "docker": Docker, "unsafe-local": UnsafeLocal}


def here() -> list[str]:
    """The backends to be tested here: Docker only where an engine answers, so that its absence is said once."""
    return [name for name in BACKENDS if name != "docker" or not _sandbox(name)[1]]


@functools.cache
def _sandbox(name: str) -> tuple[Sandbox, str]:
    made = BACKENDS[name]()
    return made, asyncio.run(made.problem())


def usable(name: str) -> Sandbox:
    """A backend that works here.

    Where bubblewrap could have been installed (Linux with root) its absence is a failure: the tests that matter most
    must not be left out without anybody noticing. A Docker client without an engine is no backend.
    """
    sandbox, problem = _sandbox(name)
    if problem and name == "bubblewrap" and sys.platform.startswith("linux") and os.geteuid() == 0:
        pytest.fail(f"scripts/setup-system.sh could have installed it: {problem}")
    if problem:
        pytest.skip(f"not run: {problem}")
    return sandbox


async def run(
    sandbox: Sandbox,
    code: str,
    limits: SandboxLimits | None = None,
    *,
    language: Literal["python", "bash"] = "python",
    call: HostCall | None = None,
    folder: Path | None = None,
    names: tuple[str, ...] = (),
    kept: dict[str, bytes] | None = None,
    tools: tuple[str, ...] = (),
    seed: int = 0,
) -> Ran:
    """Run a program, which ends by itself if nothing else is said."""
    program = Program(language, code, folder=folder, names=names, kept=kept or {}, tools=tools, seed=seed)
    return await sandbox.run(program, limits or SandboxLimits(seconds=LONGEST_S), call=call)


async def run_out_of_time(sandbox: Sandbox, code: str, begun: Callable[[Ran], bool], **more: object) -> Ran:
    """Run a program without end; it gets more time where it had not `begun` before its time was over."""
    for seconds in growing(1.0):
        ran = await run(sandbox, code, SandboxLimits(seconds=seconds), **more)  # type: ignore[arg-type] # as for `run`
        assert ran.ending == "time", ran
        if begun(ran):
            break
    return ran


async def prints(sandbox: Sandbox, code: str, **more: object) -> str:
    """What a program prints that ends well."""
    ran = await run(sandbox, code, **more)  # type: ignore[arg-type] # as for `run`
    assert (ran.ending, ran.exit_code, ran.stderr) == ("exited", 0, ""), ran
    return ran.stdout


__all__ = ["BACKENDS", "here", "prints", "run", "run_out_of_time", "usable"]
