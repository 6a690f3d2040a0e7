"""What an evaluation adds to the time that its models need.

    python -m benchmarks.evaluation [--questions 1000] [--latency-s 0.1] [--at-once 4]

Additions are asked of the system `direct`, with a model that answers after the latency. The ideal is
questions x latency / at once; printed is the wall time over it, that of a second start, which finds all answered, and
that of the scoring.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import Settings
from agentorchestra.evaluation.plan import Arm, keep, make_plan
from agentorchestra.evaluation.questions import load_set
from agentorchestra.evaluation.runner import Runner
from agentorchestra.evaluation.scores import score
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace


async def measure(folder: Path, questions: int, latency_s: float, at_once: int) -> dict[str, float]:
    """Return the wall seconds of asking, of a second start and of scoring, by name."""
    data = folder / "questions.jsonl"
    lines = (
        {"id": f"q{n}", "question": f"What is {n} + 1?", "answer": n + 1, "scorer": "number"} for n in range(questions)
    )
    data.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")

    async def reply(request: ModelRequest) -> str:
        await asyncio.sleep(latency_s)
        (number,) = re.findall(r"What is (\d+) \+ 1\?", request.messages[-1].text)
        return str(int(number) + 1)

    def workspace(where: Path, arm: Arm) -> Workspace[Any]:
        return Workspace(where, settings=arm.merge(Settings(model="slow")), models={"slow": ScriptedModel(reply)})

    arm = Arm(name="direct", system="direct")
    plan = keep(folder / "workspace", make_plan(load_set("local", data), [arm], data=str(data), name="benchmark"))

    async def asking() -> None:
        await Runner(folder / "workspace", plan, plan.load(), workspaces=workspace, at_once=at_once).run()

    async def scoring() -> None:
        async with workspace(folder / "workspace", arm) as ws:
            scores = await score(ws, plan, plan.load())
        assert all(one.status == "ok" for one in scores)

    stages: dict[str, Callable[[], Awaitable[None]]] = {"asked": asking, "again": asking, "scored": scoring}
    found = {}
    for name, work in stages.items():
        began = time.perf_counter()
        await work()
        found[name] = time.perf_counter() - began
    return found


def main() -> None:
    """Measure, and print the ratios."""
    reading = argparse.ArgumentParser(prog="python -m benchmarks.evaluation")
    reading.add_argument("--questions", type=int, default=1000, metavar="N")
    reading.add_argument("--latency-s", type=float, default=0.1, metavar="S")
    reading.add_argument("--at-once", type=int, default=4, metavar="N")
    given = reading.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder), given.questions, given.latency_s, given.at_once))
    ideal = given.questions * given.latency_s / given.at_once
    print(f"ideal    {ideal:8.2f} s: {given.questions} questions of {given.latency_s:g} s, {given.at_once} at once")
    for name, seconds in found.items():
        print(f"{name:<8} {seconds:8.2f} s, {seconds / ideal:.2f} of the ideal")


if __name__ == "__main__":
    main()
