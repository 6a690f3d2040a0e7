"""What the gate lets through, and what optimisers gain, in a world whose truth is known.

    python -m benchmarks.evolution gate [--cases 1000]
    python -m benchmarks.evolution loop [--seeds 30] [--evaluations 240]

`gate` simulates validations of a candidate that is better, equal or worse, and prints how often the gate promotes it,
next to the rate that its plan names, and to the rule "keep it if the single score is higher". `loop` carries out whole
evolutions by textual gradients, reflection, GEPA and random edits, each until it has had that many answers, and prints
how often the prompt that is current then succeeds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.evolution.world import PLACE, Improver, Worker, random_edits, success

from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evaluation.questions import load_set
from agentorchestra.evaluation.statistics import Spread, mean
from agentorchestra.evolution.components import version_of
from agentorchestra.evolution.evolver import Evolver
from agentorchestra.evolution.gate import GateTerms, decide, power
from agentorchestra.evolution.optimisers import optimiser
from agentorchestra.evolution.record import keep, new_evolution
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace

GAIN = 0.15


def drawn(gain: float, questions: int, repeats: int, seed: int) -> tuple[dict[str, list[float]], ...]:
    """Return the scores of both versions on questions of different difficulty."""
    chance = random.Random(seed)
    found: tuple[dict[str, list[float]], ...] = ({}, {})
    for number in range(questions):
        base = 0.15 + 0.55 * chance.random()  # so that no gain or loss is cut off at 0 or 1
        for scores, share in zip(found, (base, base + gain), strict=True):
            scores[f"q{number}"] = [float(chance.random() < share) for _ in range(repeats)]
    return found


def true_spread(gain: float) -> Spread:
    """Return the spread of the differences that `drawn` has: none between questions, and that of the draws."""
    shares = [0.15 + 0.55 * step / 1000 for step in range(1001)]
    return Spread(questions=0.0, repeats=fmean(b * (1 - b) + (b + gain) * (1 - b - gain) for b in shares))


def gate(cases: int, questions: int, repeats: int) -> None:
    """Print how often the gate promotes."""
    terms = GateTerms()
    print(f"{cases} validations each, {questions} questions, {repeats} repeats, level {terms.level:g}")
    print(f"{'true gain':>10} {'promoted':>22} {'the plan names':>15} {'higher single score':>24}")
    for number, gain in enumerate((GAIN, 0.0, -GAIN)):
        promoted, higher = {}, {}
        for case in range(cases):
            current, candidate = drawn(gain, questions, repeats, case * 3 + number)
            promoted[f"c{case}"] = [float(decide(current, candidate, terms).verdict == "promote")]
            single = [fmean(each[0] for each in scores.values()) for scores in (current, candidate)]
            higher[f"c{case}"] = [float(single[1] > single[0])]
        named = f"{100 * power(questions, gain, true_spread(gain), terms, repeats=repeats):.1f}%" if gain > 0 else ""
        named = named or (f"at most {100 * terms.level:g}%" if gain == 0 else "")
        print(f"{gain:>+10.2f} {_share(promoted):>22} {named:>15} {_share(higher):>24}")


def _share(found: dict[str, list[float]]) -> str:
    one = mean(found)
    return f"{100 * one.value:.1f}% [{100 * one.low:.1f}, {100 * one.high:.1f}]"


class Enough(AgentOrchestraError):
    """The answers are used up."""


async def evolved(folder: Path, name: str, seed: int, evaluations: int) -> tuple[float, int]:
    """Carry out an evolution; return how often the prompt that is current at its end succeeds, and the answers used."""
    data = folder / "questions.jsonl"
    lines = ({"id": f"q{n}", "question": f"What is the value of item {n}?", "answer": n * 10} for n in range(40))
    data.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    worker, improver = Worker(seed), Improver(seed)

    def workspace(where: Path, arm: Arm | None = None) -> Workspace[Any]:
        settings = Settings(system="react", model="worker")
        free = Price(input=0, output=0)
        return Workspace(
            where,
            settings=settings if arm is None else arm.merge(settings),
            models={
                one: ScriptedModel(reply, profile=ModelProfile(model=one, price=free))
                for one, reply in (("worker", worker), ("improver", improver))
            },
        )

    def told(line: str) -> None:
        if worker.asked >= evaluations:
            raise Enough(line)

    place = folder / "workspace"
    record = new_evolution(
        "evolution",
        training=("local", str(data), load_set("local", data)),
        subjects=("prompt:react",),
        variables=(PLACE,),
        optimiser=name,
        optimiser_model="improver",
        rounds=6,
        batch=8,
        seed=seed,
    )
    proposes = random_edits(seed) if name == "random" else optimiser(name)
    with suppress(Enough):
        await Evolver(place, keep(place, record), proposes, workspaces=workspace, tell=told).run()
    async with workspace(place) as ws:
        current = await version_of(ws, "prompt:react")
        parts = {one.name: one.value for one in await ws.components.prompts.vars("react", current)}
    return success(parts[PLACE.partition("/")[2]]), worker.asked


def loop(seeds: int, evaluations: int, names: Sequence[str]) -> None:
    """Print what each optimiser gains."""
    print(f"{seeds} seeds, {evaluations} answers each; at first the prompt succeeds in {100 * success(''):.0f}%")
    print(f"{'optimiser':>12} {'succeeds at the end':>26} {'answers':>8} {'CPU s':>7}")
    for name in names:
        ended, asked, began = {}, [], time.process_time()
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                share, used = asyncio.run(evolved(Path(folder), name, seed, evaluations))
            ended[str(seed)], asked = [share], [*asked, used]
        print(f"{name:>12} {_share(ended):>26} {fmean(asked):>8.0f} {time.process_time() - began:>7.0f}", flush=True)


def main() -> None:
    """Measure what is asked for."""
    reading = argparse.ArgumentParser(prog="python -m benchmarks.evolution")
    parts = reading.add_subparsers(dest="part", required=True)
    one = parts.add_parser("gate")
    one.add_argument("--cases", type=int, default=1000)
    one.add_argument("--questions", type=int, default=60)
    one.add_argument("--repeats", type=int, default=2)
    other = parts.add_parser("loop")
    other.add_argument("--seeds", type=int, default=30)
    other.add_argument("--evaluations", type=int, default=240)
    other.add_argument("--optimisers", nargs="+", default=["random", "textgrad", "reflection", "gepa"])
    given = reading.parse_args()
    if given.part == "gate":
        gate(given.cases, given.questions, given.repeats)
    else:
        loop(given.seeds, given.evaluations, given.optimisers)


if __name__ == "__main__":
    main()
