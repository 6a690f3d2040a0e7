"""Run the tasks on a system with the model of your settings.

    python -m examples.tasks --system react [--seed 7] [--task NAME]... [--model M] [--workspace DIR]

It prints a line for each task: whether it was solved or why not, the requests and the tokens. The exit status is 1 if
one was not solved.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .catalog import TASKS, make
from .running import run_task


def main() -> int:
    """Run the tasks that the command line names."""
    reading = argparse.ArgumentParser(prog="python -m examples.tasks", description=(__doc__ or "").splitlines()[0])
    reading.add_argument("--system", required=True, metavar="NAME", help="the system, as `agentorchestra run` takes it")
    reading.add_argument("--task", action="append", choices=[*TASKS], help="only this one; may be repeated")
    reading.add_argument("--seed", default="1", help="where names and numbers come from (default: 1)")
    reading.add_argument("--model", default="", metavar="M", help="a model (default: that of the settings)")
    reading.add_argument("--workspace", default=".agentorchestra", type=Path, metavar="DIR", help="of the runs")
    given = reading.parse_args()
    wrong = 0
    print(f"{'kind':<12} {'task':<11} {'requests':>8} {'tokens':>8}  result")
    for name in given.task or TASKS:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as made:
            task = make(name, given.seed, Path(folder))
            outcome = run_task(task, given.system, Path(made), workspace=given.workspace, model=given.model)
        wrong += bool(outcome.problems)
        said = "; ".join(outcome.problems) or "right"
        print(f"{task.kind:<12} {name:<11} {outcome.requests:>8} {outcome.tokens:>8,}  {said}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
