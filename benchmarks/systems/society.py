#!/usr/bin/env python3
"""What a message between agents costs, next to a plain tool call of one agent in the same process.

    benchmarks/systems/society.py [--messages N] [--rounds N] [--python PYTHON]

The system `coral`: the orchestrator asks the four others at once, waits for their replies, and asks again, until N
messages went out, half of them its own. The reference is `react`, which calls a tool N times, a call in each step. The
model is scripted and replies from what it is shown alone; the workspace is a folder. Printed are, for a quarter of N
and for N, model requests per message or call and CPU milliseconds of this process per message or call, and the CPU of
a replay; what grows from one line to the other grows with the length of the run. The times are medians over rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
AGENTS = ("planner", "web_agent", "document_agent", "coding_agent")
ASKED = "What is the square of {}?"


def society(count: int) -> Any:
    """Return what the agents of a society decide, until so many messages went out."""
    from agentorchestra.testing import call, decide, say

    def reply(request: Any) -> Any:
        if all(one.name != "submit_answer" for one in request.tools):
            asked = re.findall(r"square of (\d+)", "\n".join(message.text for message in request.messages))
            return say(f"It is {int(asked[-1]) ** 2}.")
        back = [message.text for message in request.messages if message.role == "tool"]
        if not back:
            return decide(calls=[call("create_thread", thread="sums", participants=[*AGENTS])])
        asked = sum('"sent"' in text for text in back)
        heard = sum(text.count(" in thread 'sums'") for text in back)
        if heard < asked:
            return decide(calls=[call("wait_for_mention")])
        if heard + asked >= count:
            return decide(calls=[call("submit_answer", answer=str(heard + asked))])
        ask = AGENTS[: (count - heard - asked) // 2]
        questions = [(ASKED.format(asked + place), name) for place, name in enumerate(ask, start=1)]
        return decide(calls=[call("send_message", thread="sums", content=q, mentions=[n]) for q, n in questions])

    return reply


def alone(count: int) -> Any:
    """Return what an agent decides that calls a tool so many times."""
    from agentorchestra.testing import call, decide

    def reply(request: Any) -> Any:
        back = sum(message.role == "tool" for message in request.messages)
        return decide(calls=[call("done", answer=str(back)) if back == count else call("square", number=back)])

    return reply


def tools() -> list[Any]:
    """Return the tool of the reference."""
    from agentorchestra import tool

    @tool(effect="read")
    async def square(number: int) -> str:
        """Return the square of a number.

        Args:
            number: Any.
        """
        return f"It is {number**2}."

    return [square]


async def measured(system: str, count: int) -> tuple[float, float, float]:
    """Model requests and CPU milliseconds per message or call, and CPU milliseconds per one of them in a replay."""
    from agentorchestra import Workspace
    from agentorchestra.testing import ScriptedModel

    model = ScriptedModel(society(count) if system == "coral" else alone(count))
    with tempfile.TemporaryDirectory(prefix="society-") as folder:
        async with Workspace(folder, models={model.name: model}, tools=tools()) as ws:
            gc.collect()
            cpu = time.process_time()
            result = await ws.run("Square numbers.", system=system, model=model.name, max_steps=1000)
            cpu = time.process_time() - cpu
            if result.answer != str(count):
                sys.exit(f"{system} ended as {result.status.value} with {result.answer!r}: {result.error}")
            again = time.process_time()
            await ws.replay(result.run_id)
            again = time.process_time() - again
    return len(model.requests) / count, cpu * 1000 / count, again * 1000 / count


async def main(messages: int, rounds: int) -> None:
    """Measure both in turn and print."""
    lines = [(system, count) for count in (messages // 4, messages) for system in ("react", "coral")]
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = {line: [] for line in lines}
    for system in ("react", "coral"):
        await measured(system, 8)  # what the first runs import is nobody's
    for _ in range(rounds):
        for line in lines:
            found[line].append(await measured(*line))
    print(f"{'messages or calls':<28} requests each   CPU ms each   ratio   CPU ms each, replayed")
    for (system, count), runs in found.items():
        requests, cpu, again = (statistics.median(column) for column in zip(*runs, strict=True))
        ratio = cpu / statistics.median(one[1] for one in found["react", count])
        named = f"{count} messages, coral" if system == "coral" else f"{count} tool calls, react"
        print(f"{named:<28} {requests:13.2f} {cpu:13.2f} {ratio:7.2f} {again:23.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200, metavar="N", help="a multiple of 8 (default: 200)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--python", default=str(HERE.parents[1] / ".venv/bin/python"), metavar="PYTHON")
    arguments = parser.parse_args()
    if arguments.messages < 8 or arguments.messages % 8:
        parser.error(f"--messages is {arguments.messages}; it is a multiple of 8")
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; it needs at least 1")
    if Path(sys.executable) != Path(arguments.python).absolute() and "agentorchestra" not in sys.modules:
        try:
            import agentorchestra  # noqa: F401
        except ImportError:
            sys.exit(subprocess.run([arguments.python, __file__, *sys.argv[1:]], check=False).returncode)
    asyncio.run(main(arguments.messages, arguments.rounds))
