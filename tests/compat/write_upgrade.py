"""Writes a workspace of `tests/data/upgrades/` with the version of the package that is imported.

    git worktree add --detach /tmp/old COMMIT
    PYTHONPATH=/tmp/old/src python tests/compat/write_upgrade.py FOLDER OUT.tar.xz

`cases.json` beside the workspace has the runs by what they are cases of.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from agentorchestra import open_workspace
from agentorchestra.core.errors import AgentOrchestraError

HERE = Path(__file__).parent
SETTINGS = """
app = "upgrade_app:workspace"
model = "scribe"
"""
TASKS: dict[str, dict[str, Any]] = {
    "counted": {"task": "Count the parcels.", "files": True},
    "question": {"task": "Ask for the colour.", "files": True},
    "approval": {"task": "Offer a price.", "files": True},
    "places": {"task": "Work in places.", "environments": ["files", "terminal", "browser", "report"]},
    "team": {"task": "Lead the counting.", "system": "agentorchestra", "files": True},
}


async def write(folder: Path) -> dict[str, str]:
    """Make the runs that end or wait; return their ids by case."""
    cases: dict[str, str] = {}
    async with open_workspace(folder) as ws:
        for case, options in TASKS.items():
            arguments = {"system": "react", **options}
            task = arguments.pop("task")
            if arguments.pop("files", False):
                arguments["files"] = ["parcels.csv"]
            if "environments" in arguments:
                known = set(await ws.ecp.list()) if hasattr(ws, "ecp") else set()
                arguments["environments"] = [name for name in arguments["environments"] if name in known]
            try:
                result = await ws.run(task, **arguments)
            except (TypeError, AgentOrchestraError) as exc:  # this version has no such run
                print(f"{case}: {type(exc).__name__}: {str(exc)[:200]}", file=sys.stderr)
                continue
            print(case, result.status.value, result.answer[:60], result.error or "", file=sys.stderr)
            cases[case] = result.run_id
    return cases


async def crash(folder: Path) -> None:
    """Begin the run that ends its process."""
    async with open_workspace(folder) as ws:
        await ws.run("Crash once, with the text now.", system="react")


async def crashed(folder: Path) -> str:
    """Return the id of the run that ended its process."""
    async with open_workspace(folder) as ws:
        runs: Any = ws.runs  # a method in versions before there was `ws.runs.list`
        heads = await (runs.list if hasattr(runs, "list") else runs)()
        return next(str(head.id) for head in heads if head.manifest.task.startswith("Crash"))


def main(folder: Path, out: Path) -> None:
    """Write the workspace and pack it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(HERE / "upgrade_app.py", folder)
    (folder / "agentorchestra.toml").write_text(SETTINGS.lstrip())
    (folder / "parcels.csv").write_text("parcel,kg\nA,3\nB,4\nC,5\n")
    os.chdir(folder)
    workspace = folder / ".agentorchestra"
    cases = asyncio.run(write(workspace))
    ended = subprocess.run([sys.executable, __file__, "--crash"], env=os.environ | {"CRASH": "1"}, check=False)
    assert ended.returncode == -signal.SIGKILL, ended
    cases["crashed"] = asyncio.run(crashed(workspace))
    (folder / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    with tarfile.open(out, "w:xz", preset=9) as archive:
        archive.add(folder, arcname="upgrade", filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return None if "__pycache__" in info.name else info


if __name__ == "__main__":
    if "--crash" in sys.argv:
        asyncio.run(crash(Path(".agentorchestra").resolve()))
    else:
        main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
