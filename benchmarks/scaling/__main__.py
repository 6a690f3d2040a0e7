"""What each part of test-time scaling is worth on a task that it decides, over many seeds (docs/scaling.md).

    python -m benchmarks.scaling [--seeds N] [--parts NAME,...]

Each task is done once without and once with the part, by a scripted model that knows neither; see `archive.py`. Printed
are the rate at which the verifier errs, the share of right answers without and with the part, the gain in points, and
requests to models per task. The figures are the same in every run.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scaling.archive import CASES, PLACES, TASK, Case, Volume, model, tools

from agentorchestra import MemoryStore, Workspace
from agentorchestra.agents.parts.verifier import form_of
from agentorchestra.core.settings import PartSettings, Settings


class Found(NamedTuple):
    """What came of one task."""

    right: bool
    requests: int
    seen: bool
    """Whether the mark stood in any request of the agent."""


async def answered(case: Case, parts: PartSettings, seeds: range) -> list[Found]:
    """Do the tasks of these seeds, one after the other."""
    halves = [model(case, "low", PLACES[:3]), model(case, "high", PLACES[3:])] if case.mixed else [model(case)]
    models = {one.name: one for one in halves}
    settings = Settings(model=halves[0].name, system="react", parts=parts)
    found = []
    with tempfile.TemporaryDirectory(prefix="scaling-") as folder:
        options: dict[str, Any] = {"settings": settings, "store": MemoryStore(), "environ": {}}
        async with Workspace(Path(folder) / "ws", tools=tools(case), models=models, **options) as ws:
            for seed in seeds:
                begin = {one.name: len(one.requests) for one in halves}
                result = await ws.run(TASK.format(seed), max_steps=case.max_steps, seed=str(seed))
                asked = [request for one in halves for request in one.requests[begin[one.name] :]]
                shown = [message.text for request in asked if request.tools for message in request.messages]
                seen = any(form in text for text in shown for form in Volume(seed).forms)
                right = form_of(result.answer) == Volume(seed).truth
                found.append(Found(right, len(asked), seen))
    return found


def _share(found: list[Found]) -> float:
    return 100 * sum(one.right for one in found) / len(found)


async def main(seeds: range, names: list[str]) -> None:
    """Measure and print."""
    print(f"{len(seeds)} tasks each")
    print(f"{'part':24}{'errs':>6}{'without':>9}{'with':>7}{'gain':>7}{'requests':>16}")
    for case in CASES:
        if names and case.name not in names:
            continue
        plain = await answered(case, PartSettings(), seeds)
        scaled = await answered(case, case.parts, seeds)
        without, having = _share(plain), _share(scaled)
        asked = [sum(one.requests for one in found) / len(found) for found in (plain, scaled)]
        print(
            f"{case.name:24}{case.errs:>6.0%}{without:>8.1f}%{having:>6.1f}%{having - without:>+7.1f}"
            f"{asked[0]:>8.1f}{asked[1]:>8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=200, help="tasks for each part")
    parser.add_argument("--parts", default="", help="names of parts, with commas between them; all without it")
    given = parser.parse_args()
    wanted = [one.strip() for one in given.parts.split(",") if one.strip()]
    unknown = sorted({*wanted} - {one.name for one in CASES})
    if unknown or given.seeds < 1:
        known = ", ".join(one.name for one in CASES)
        parser.error(f"--parts has {', '.join(unknown) or 'no mistake'}, --seeds is {given.seeds}; the parts: {known}")
    asyncio.run(main(range(given.seeds), wanted))
