#!/usr/bin/env python3
"""How long sub-agents take that are delegated to at once, next to one after the other.

    benchmarks/systems/parallel.py [--children N] [--wait S] [--rounds N] [--python PYTHON]

The system `aorchestra` with its delegations, and `react` with subtasks (`parts.subtasks`) where there are at most 8. A
workspace in a folder, a model server on the loopback address. The main agent and checks of results are answered at
once. Each sub-agent asks once, waits S seconds for its answer and is done with it. Printed are, as medians over the
rounds, the wall seconds of the whole run, how many requests were open at the same time, and the CPU per request of this
process, in which the server is too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TASK = "Do all parts."
MOST_SUBTASKS = 8
"""Of one task (`agents/parts/graph.py`)."""


async def measured(children: int, wait: float, *, at_once: int = 1, subtasks: bool = False) -> tuple[float, float, int]:
    """Wall seconds of a run, CPU milliseconds per request, requests that were open at the same time.

    Args:
        at_once: delegations of one decision.
        subtasks: the children are subtasks instead of delegations.
    """
    from agentorchestra import Workspace
    from agentorchestra.core.settings import AOrchestraSettings, ModelProfile, PartSettings, Settings
    from agentorchestra.testing import LoopbackModelServer, ServerReply, call

    def answer(body: dict[str, Any]) -> Any:
        offered = {one["function"]["name"] for one in body.get("tools", ())}
        if not offered:
            asked = body["response_format"]["json_schema"]["schema"]["properties"]
            parts = [{"task": f"Do part {number}.", "needs": []} for number in range(children)]
            return json.dumps({"subtasks": parts} if "subtasks" in asked else {"valid": True})
        if subtasks and TASK in str(body["messages"]):
            return call("done", answer=str(children))
        if "delegate_task" not in offered:
            return ServerReply(answer=call("done", answer="done"), latency_s=wait)
        back = sum(one["role"] == "tool" for one in body["messages"])
        if back == children:
            return call("complete", answer=str(back))
        parts = [f"Do part {number}." for number in range(back, back + at_once)]
        return [call("delegate_task", task_instruction=part, tools=["read_file"]) for part in parts]

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "parts.txt"
        file.write_text("There are many parts.\n", encoding="utf-8")
        async with LoopbackModelServer(answer) as server:
            settings = Settings(
                model="local",
                models={"local": ModelProfile(model="local", base_url=server.base_url, api_key_env="")},
                aorchestra=AOrchestraSettings(attempts=children, parallel=at_once),
                parts=PartSettings(subtasks=subtasks),
                max_steps=children + 2,
            )
            async with Workspace(Path(folder) / "ws", settings=settings, environ={}) as ws:
                wall, cpu = time.monotonic(), time.process_time()
                result = await ws.run(TASK, system="react" if subtasks else "aorchestra", files=[file])
                wall, cpu = time.monotonic() - wall, time.process_time() - cpu
            if result.answer != str(children):
                sys.exit(f"the run ended as {result.status} with {result.answer!r}: {result.error}")
            return wall, cpu * 1000 / server.count, server.most_at_once


async def main(children: int, wait: float, rounds: int) -> None:
    """Measure both in turn and print."""
    await measured(1, 0.0, at_once=1)  # what the first run imports is nobody's
    found: dict[str, list[tuple[float, float, int]]] = {"at once": [], "one after the other": [], "as subtasks": []}
    for _ in range(rounds):
        found["at once"].append(await measured(children, wait, at_once=children))
        found["one after the other"].append(await measured(children, wait, at_once=1))
        if 2 <= children <= MOST_SUBTASKS:
            found["as subtasks"].append(await measured(children, wait, subtasks=True))
    print(f"{children} sub-agents, each waits {wait:g} s".ljust(32), "wall s   open at once   CPU ms per request")
    for name, figures in ((name, one) for name, one in found.items() if one):
        waited, cpu, opened = (statistics.median(column) for column in zip(*figures, strict=True))
        print(f"{name:<32} {waited:6.2f} {opened:14.0f} {cpu:20.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--children", type=int, default=8, metavar="N", help="from 1 to 16 (default: 8)")
    parser.add_argument("--wait", type=float, default=1.0, metavar="S", help="seconds (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--python", default=str(HERE.parents[1] / ".venv/bin/python"), metavar="PYTHON")
    arguments = parser.parse_args()
    if not 1 <= arguments.children <= 16:
        parser.error(f"--children is {arguments.children}; at most 16 delegations go out at once, and at least 1")
    if arguments.rounds < 1 or arguments.wait < 0:
        parser.error(
            f"--rounds is {arguments.rounds}, --wait {arguments.wait:g}; give at least 1 round and no less than 0 s"
        )
    if Path(sys.executable) != Path(arguments.python).absolute() and "agentorchestra" not in sys.modules:
        try:
            import agentorchestra  # noqa: F401
        except ImportError:
            sys.exit(subprocess.run([arguments.python, __file__, *sys.argv[1:]], check=False).returncode)
    asyncio.run(main(arguments.children, arguments.wait, arguments.rounds))
