#!/usr/bin/env python3
"""What each packaged system asks and costs on the same small task, beside `react` in the same process.

    python benchmarks/systems [--things N] [--rounds N] [--systems NAME,...] [--python PYTHON]

N things are put on a scale, one in each step; the last step says what the scale shows. The tools are scripted, and so
is the model, which is a function of what it is shown: it hands the task on or writes it to an agent where it can, else
calls the tool, then finishes. Nothing goes to a network. A system whose only action is a shell is answered the same by
a `bash` that knows one command. Printed are model requests, the bytes of all prompts (messages as a model is shown
them, schemas as JSON), CPU milliseconds of this process per request and wall milliseconds of a run, each with its ratio
to `react`. Requests and bytes are the same in every round; the times are medians. `parallel.py` measures delegations at
the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
OURS = HERE.parent.parent / ".venv/bin/python"

REFERENCE = "react"
ASIDE = {"debate", "direct", "reflection", "textgrad"}
"""Systems that only speak, or improve texts instead of doing a task."""

THINGS = ("bell", "rope", "lantern", "anchor", "plank", "bucket", "sail", "compass", "barrel", "oar")
TASK = "Put these on the scale, one after the other, and say what it shows: {}."


def shows(things: Sequence[str]) -> str:
    """Return what the scale shows."""
    return f"{sum(map(len, things))} kg"


def tools() -> list[Any]:
    """Return the scripted tools."""
    from agentorchestra import tool

    @tool(effect="read")
    async def weigh(things: list[str]) -> str:
        """Weigh things together on one scale.

        Args:
            things: All that is on the scale.
        """
        return shows(things)

    @tool(effect="read")
    async def bash(command: str) -> str:
        """Run a command in a shell that knows one: `weigh THING...`.

        Args:
            command: What is run.
        """
        return shows(command.removeprefix("weigh ").split())

    return [weigh, bash]


def decision(request: Any) -> Any:
    """Return what the model decides, from what it is shown alone: hand on or write, else act, then finish."""
    from agentorchestra.testing import call, decide, say

    names = {one.name for one in request.tools}
    shown = "\n".join(message.text for message in request.messages)
    results = [message.text for message in request.messages if message.role == "tool"]
    read = re.findall(r"\d+ kg", shown)
    programs = re.findall(r"^- (\w+): .*\bprograms\b", shown, re.MULTILINE)
    found = re.search(r"[Ss]ay what it shows: ([\w, ]+)\.", shown)
    # Not the user's words as they are: a planner that hands these on is not asked again.
    things, order = (found[1].split(", "), found[0].capitalize()) if found else ([], "")
    finish: Any = next((name for name in ("done", "complete", "submit", "submit_answer") if name in names), None)
    if finish is None and "send_message" not in names:  # a form: of a plan, of a reviewer, of a judge
        asked = (request.settings.output_schema or {}).get("properties", {})
        known = {"subtasks": [order], "worker": "".join(programs), "answer": "".join(read[-1:])}
        given = {name: known.get(name) or _PLAIN.get(str(one.get("type")), "") for name, one in asked.items()}
        return say(json.dumps(given))
    assert found is not None, "the task is not in the prompt"
    if finish == "submit_answer":
        sent: dict[str, Any] = {"thread": "scale", "content": order, "mentions": programs}
        turns = [call("create_thread", thread="scale", participants=programs), call("send_message", **sent)]
        turns += [call("wait_for_mention"), call(finish, answer="".join(read[-1:]))]
        return decide(calls=[turns[len(results)]])
    agents = [one for one in request.tools if "task" in one.parameters["properties"]]
    delegations = [call(one.name, task=order) for one in agents if _WEIGHS in one.description]
    if "delegate_task" in names:
        delegations = [call("delegate_task", task_instruction=order, tools=["weigh"])]
    if delegations and results:
        back = json.loads(results[-1])
        return decide(calls=[call(finish, answer=back.get("result") or back["answer"])])
    if delegations:
        return decide(calls=delegations[:1])
    if len(results) == len(things):
        mail = re.search(r"^(\w+) in thread '(\w+)':", shown, re.MULTILINE)
        back = {"thread": mail[2], "content": results[-1], "mentions": [mail[1]]} if mail else {}
        return decide(calls=[call(finish, answer=results[-1]) if finish else call("send_message", **back)])
    if len(results) > len(things):
        return decide(calls=[call("wait_for_mention")])
    now: Any = things[: len(results) + 1]
    act = call("weigh", things=now) if "weigh" in names else call("bash", command=f"weigh {' '.join(now)}")
    return decide(calls=[act])


_WEIGHS = "Weigh things"
"""What an agent that holds the tool says it can."""

_PLAIN = {"array": ["The scale was read."], "boolean": True}
"""What stands in a reply of JSON, by the type of a field."""


def size(request: Any) -> int:
    """Return the bytes of a prompt: its messages as a model is shown them, and the schemas."""
    from agentorchestra.models.render import render_message

    sent = [{"name": one.name, "description": one.description, "parameters": one.parameters} for one in request.tools]
    texts = [*map(render_message, request.messages), *(json.dumps(one, ensure_ascii=False) for one in sent)]
    return sum(len(text.encode()) for text in texts)


class Measured(NamedTuple):
    """One run: model requests, bytes of their prompts, CPU milliseconds per request, wall milliseconds in all."""

    requests: int
    prompts: int
    cpu_ms: float
    wall_ms: float


async def measured(system: str, folder: Path, things: Sequence[str]) -> Measured:
    """Measure one run, without opening and closing its workspace.

    Raises:
        SandboxUnavailableError: the system needs one, and this machine has none.
        SystemExit: it did not come to the answer.
    """
    from agentorchestra import Workspace
    from agentorchestra.core.errors import SandboxUnavailableError
    from agentorchestra.testing import ScriptedModel

    model = ScriptedModel(decision)
    async with Workspace(folder, models={model.name: model}, tools=tools()) as ws:
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        result = await ws.run(TASK.format(", ".join(things)), system=system, model=model.name)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if result.error_type == SandboxUnavailableError.__name__:
        raise SandboxUnavailableError(result.error)
    if result.answer_text != shows(things):
        sys.exit(f"{system} ended as {result.status.value}: {result.error or result.answer_text}")
    count = len(model.requests)
    return Measured(count, sum(map(size, model.requests)), cpu * 1000 / count, wall * 1000)


async def main(names: Sequence[str], *, things: int, rounds: int) -> None:
    """Measure the systems in turn, and print a line for each."""
    from agentorchestra.core.errors import SandboxUnavailableError

    async def one(name: str) -> Measured:
        with tempfile.TemporaryDirectory(prefix="systems-") as folder:
            return await measured(name, Path(folder), THINGS[:things])

    found: dict[str, list[Measured]] = {}
    for name in names:
        try:
            await one(name)  # loads modules
            found[name] = []
        except SandboxUnavailableError as error:
            print(f"{name} left out: {error}")
    for _ in range(rounds):
        for name, runs in found.items():
            runs.append(await one(name))
    head = ("requests", "ratio", "bytes", "ratio", "CPU ms/request", "ratio", "wall ms", "ratio")
    print(f"{'system':16} " + " ".join(f"{title:>{14 if ' ms/' in title else 9}}" for title in head))
    middle = {name: Measured(*map(statistics.median, zip(*runs, strict=True))) for name, runs in found.items()}
    for name, own in middle.items():
        ratios = [a / b for a, b in zip(own, middle[REFERENCE], strict=True)]
        print(
            f"{name:16} {own.requests:9,.0f} {ratios[0]:9.2f} {own.prompts:9,.0f} {ratios[1]:9.2f} "
            f"{own.cpu_ms:14.1f} {ratios[2]:9.2f} {own.wall_ms:9.0f} {ratios[3]:9.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--things", type=int, default=5, metavar="N", help="1 to 10 (default: 5)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default: 7")
    parser.add_argument("--systems", default="", metavar="NAME,...", help="default: all that have tools")
    parser.add_argument("--python", default=str(OURS), metavar="PYTHON")
    arguments = parser.parse_args()
    if Path(sys.executable) != Path(arguments.python).absolute() and "agentorchestra" not in sys.modules:
        try:
            import agentorchestra  # noqa: F401
        except ImportError:
            sys.exit(subprocess.run([arguments.python, HERE, *sys.argv[1:]], check=False).returncode)
    from agentorchestra.workspace.catalog import systems

    known = [REFERENCE, *sorted({*systems()} - {REFERENCE, *ASIDE})]
    named = arguments.systems.split(",") if arguments.systems else known
    if unknown := sorted({*named} - {*known}):
        parser.error(f"there is no system {unknown[0]!r} here; the systems: {', '.join(known)}")
    if not 1 <= arguments.things <= len(THINGS):
        parser.error(f"--things is {arguments.things}; it is a number from 1 to {len(THINGS)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; it needs at least 1")
    chosen = [name for name in known if name == REFERENCE or name in named]
    asyncio.run(main(chosen, things=arguments.things, rounds=arguments.rounds))
