"""Runs several programs that wait, says `up` when all have called, and waits with them: to be ended from outside.

Arguments: the backend, how many.
"""

from __future__ import annotations

import asyncio
import sys

from pydantic import JsonValue

from agentorchestra.sandbox import Program, SandboxLimits
from tests.sandbox.support import BACKENDS

CODE = """
import os, subprocess, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
open("left.txt", "w").write("left")
tools.up()
time.sleep(600)
"""


async def main() -> None:
    sandbox, count, up = BACKENDS[sys.argv[1]](), int(sys.argv[2]), 0

    async def call(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        nonlocal up
        up += 1
        if up == count:
            print("up", flush=True)
        return None

    program = Program("python", CODE, tools=("up",))
    limits = SandboxLimits(seconds=600, processes=16)
    await asyncio.gather(*(sandbox.run(program, limits, call=call) for _ in range(count)))


if __name__ == "__main__":
    asyncio.run(main())
