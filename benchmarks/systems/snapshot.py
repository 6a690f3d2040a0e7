#!/usr/bin/env python3
"""How long a large folder of a run takes: kept after an action, given to the candidates of a beam, put back by a fork.

    benchmarks/systems/snapshot.py [--megabytes N] [--candidates N] [--python PYTHON]

The system `react` with a scripted model, in a workspace in a folder. A command in the sandbox writes N files of a
megabyte (10^6 random bytes); then a small file is written, first in a plain step, then by each candidate of a step in a
folder of its own. Printed are wall seconds from the model's decision to its next request, without those in which the
command wrote, and what the workspace takes on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILL = """begin=$(date +%s.%N)
head -c {}000000 /dev/urandom | split -b 1000000 -a 4 - big_
echo wrote $begin $(date +%s.%N)"""
TASK = "Fill the folder, then write a small file."


async def main(megabytes: int, candidates: int) -> None:
    """Measure and print."""
    from agentorchestra import Workspace
    from agentorchestra.core.settings import FolderSettings, PartSettings, SandboxSettings, Settings
    from agentorchestra.testing import ScriptedModel, call, decide, say

    asked: list[tuple[str, float, float]] = []

    def reply(request: Any) -> Any:
        text = "\n".join(message.text for message in request.messages)
        wrote = re.search(r"wrote ([\d.]+) ([\d.]+)", text)
        if request.settings.output_schema is not None:  # the verifier
            return say('{"score": 9}' if "| split" in text else '{"score": 5}')
        first = "This is proposal" not in text or "This is proposal 1/" in text
        kind = "small" if "small.txt" not in text else "done"
        if wrote is None:
            kind = "fill" if "ready" in text else "begin"
        asked.append((kind, time.monotonic(), float(wrote[2]) - float(wrote[1]) if wrote else 0.0))
        if kind == "begin":  # the shell's start is no part of it
            return decide(calls=[call("terminal_run", command="echo ready")])
        if kind == "fill":
            fill = call("terminal_run", command=FILL.format(megabytes))
            return decide(calls=[fill if first else call("files_list")])
        if kind == "small":
            return decide(calls=[call("files_write", path="small.txt", content="small")])
        return decide(calls=[call("done", answer="done")])

    def seconds(before: str, after: str, *, wrote: bool = False) -> float:
        """Return the time from the last request of a kind to the first one of the next."""
        begin = max(at for kind, at, _ in asked if kind == before)
        end, took = min((at, took) for kind, at, took in asked if kind == after)
        asked[:] = [one for one in asked if one[0] != before]
        return end - begin - (took if wrote else 0.0)

    async def run(ws: Any, run_id: str) -> None:
        result = await ws.resume(run_id)
        if result.answer != "done":
            sys.exit(f"the run ended as {result.status.value}: {result.error or result.answer}")

    model = ScriptedModel(reply)
    most = 2 * megabytes + 100
    options: dict[str, Any] = {"environments": ["files", "terminal"], "system": "react", "model": model.name}
    print(f"{megabytes} files of a megabyte")
    with tempfile.TemporaryDirectory(prefix="snapshot-") as folder:
        sandbox = SandboxSettings(files_mib=most, timeout_s=600)
        settings = Settings(folder=FolderSettings(max_mib=most), sandbox=sandbox, tool_timeout_s=900)
        place = Path(folder) / "ws"
        async with Workspace(place, models={model.name: model}, settings=settings, environ={}) as ws:
            first = await ws.create(TASK, **options)
            await run(ws, first)
            print(f"kept, all is new                  {seconds('fill', 'small', wrote=True):7.2f} s", flush=True)
            print(f"kept again, a small file is new   {seconds('small', 'done'):7.2f} s", flush=True)
            asked.clear()
            at = await _after_fill(ws, first)
            begin = time.monotonic()
            fork = await ws.fork(first, at=at)
            await run(ws, fork)
            print(f"forked, put back, one action more {time.monotonic() - begin:7.2f} s", flush=True)
        asked.clear()
        beam = settings.model_copy(update={"parts": PartSettings(candidates=candidates)})
        async with Workspace(place, models={model.name: model}, settings=beam, environ={}) as ws:
            await run(ws, await ws.create(TASK, **options))
            print(f"{f'{candidates} candidates, an action each':33} {seconds('small', 'done'):7.2f} s", flush=True)
        used = sum(path.lstat().st_blocks * 512 for path in place.rglob("*"))
        print(f"on the disk, three runs           {used / 1e9:7.2f} GB")


async def _after_fill(ws: Any, run_id: str) -> str:
    """Return the key of the command that fills the folder."""
    from agentorchestra.core.effects import EffectKind
    from agentorchestra.log.ledger import Ledger

    records = Ledger.of(await ws.log.events(run_id)).records
    actions = sorted(key.n for key, one in records.items() if one.kind is EffectKind.INVOKE_ACTION)
    branch = next(key.branch for key, one in records.items() if one.kind is EffectKind.INVOKE_ACTION)
    return f"{branch}#{actions[1]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, metavar="N", help="default: 1000")
    parser.add_argument("--candidates", type=int, default=3, metavar="N", help="from 2 to 16 (default: 3)")
    parser.add_argument("--python", default=str(HERE.parents[1] / ".venv/bin/python"), metavar="PYTHON")
    arguments = parser.parse_args()
    if arguments.megabytes < 1 or not 2 <= arguments.candidates <= 16:
        parser.error(
            f"--megabytes is {arguments.megabytes}, --candidates {arguments.candidates}; give at least 1 megabyte, and "
            "from 2 to 16 candidates"
        )
    if Path(sys.executable) != Path(arguments.python).absolute() and "agentorchestra" not in sys.modules:
        try:
            import agentorchestra  # noqa: F401
        except ImportError:
            sys.exit(subprocess.run([arguments.python, __file__, *sys.argv[1:]], check=False).returncode)
    asyncio.run(main(arguments.megabytes, arguments.candidates))
