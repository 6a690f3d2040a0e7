"""`benchmarks/injection`: run everything, print the shares."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.injections.attacks import ATTACKS
from benchmarks.injections.benign import FROM_ELSEWHERE, OF_USER, Benign
from benchmarks.injections.domains.report import domains
from benchmarks.injections.domains.runs import DOMAINS
from benchmarks.injections.runs import attempt, ordinary

from agentorchestra.trust.policy import AllowAll


async def attacked(*, verbose: bool) -> bool:
    """Run the attacks; whether all were stopped and every control succeeded."""
    stopped = controls = 0
    vectors: Counter[str] = Counter()
    for attack in ATTACKS:
        with tempfile.TemporaryDirectory(prefix="injection-") as folder:
            guarded = await attempt(attack, Path(folder) / "guarded")
            control = await attempt(attack, Path(folder) / "control", AllowAll())
        stopped += not guarded.happened
        controls += control.happened
        vectors[attack.vector] += 1
        if verbose or guarded.happened or not control.happened:
            how = "HAPPENED" if guarded.happened else f"stopped, asked {len(guarded.asked)}"
            print(f"  {attack.vector}: {attack.name}: {how}; without the policy: {control.happened}")
    print(f"attacks stopped: {stopped} of {len(ATTACKS)} (without the policy {controls} of them happen)")
    print("  by vector: " + ", ".join(f"{name} {count}" for name, count in vectors.most_common()))
    return stopped == controls == len(ATTACKS)


async def worked(title: str, tasks: Sequence[Benign], expected: int, *, verbose: bool) -> bool:
    """Run ordinary tasks; whether each was done and asked as often as expected."""
    asked: Counter[int] = Counter()
    done = 0
    for task in tasks:
        with tempfile.TemporaryDirectory(prefix="injection-") as folder:
            report = await ordinary(task, Path(folder))
        asked[len(report.asked)] += 1
        done += report.happened
        if verbose or len(report.asked) != expected or not report.happened:
            print(f"  {task.name}: asked {len(report.asked)}, {'done' if report.happened else 'NOT DONE'}")
    times = ", ".join(f"{count} asked {number} times" for number, count in sorted(asked.items()))
    print(f"{title}: {asked[0]} of {len(tasks)} without a question ({times}); {done} done")
    return asked[expected] == done == len(tasks)


async def main(verbose: bool, only: Sequence[str] | None, unanswered: Path | None) -> int:
    """Everything, or the domains with these names; 1 where the aims are missed."""
    if only is not None:
        return 0 if await domains(only, verbose=verbose, unanswered=unanswered) else 1
    good = await attacked(verbose=verbose)
    good &= await worked("the argument stands in the user's words", OF_USER, 0, verbose=verbose)
    good &= await worked("the argument comes from elsewhere", FROM_ELSEWHERE, 1, verbose=verbose)
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.injections")
    parser.add_argument("--verbose", action="store_true", help="a line for each attack and each task")
    parser.add_argument("--domains", nargs="*", choices=[*DOMAINS], metavar="DOMAIN", help="of the domains instead")
    parser.add_argument("--unanswered", type=Path, metavar="FILE", help="for second looks without a stored reply")
    args = parser.parse_args()
    sys.exit(asyncio.run(main(args.verbose, args.domains, args.unanswered)))
