"""Writes a workspace as this version of the package writes it: later versions must still open it (test_old_workspaces).

    unshare --uts sh -c "hostname example && python -m tests.compat.write_old /srv/example"

It makes the folder, which must not be there yet, and puts into `tests/data/old_workspace/` what the test reads:
`workspace.tar.gz` (settings, application, workspace), `NAME.zip` (bundles), `tools.json` (a saved registry) and
`cases.json` (which run is which). The folder's path and the host's name stand in the log, so give ones that say nothing
about a machine; the folder can be deleted afterwards. Needs bubblewrap.

The files there were written by the code of commit 69105ff7556e89ec86c31e576786af96b9aa70fe. They are what users of that
version have on their disks: add others beside them, never write them anew.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentorchestra import Agent, Workspace, open_workspace
from agentorchestra.core.events import Event
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.testing import ScriptedModel
from tests.agents.debating import TOPIC, debater
from tests.agents.generating import TASK as GENERATE
from tests.agents.generating import Model
from tests.agents.researching import ISLAND, model, world
from tests.agents.researching import TASK as RESEARCH
from tests.chaos.killing import KILL_AT, hooks
from tests.compat import old_app
from tests.site import PAGES, served

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "old_workspace"
FIXED_TIME = 1_700_000_000

SETTINGS = """
app = "old_app:workspace"
model = "scribe"

[generator]
keep = "workspace"

[sandbox]
memory_mib = 256
"""

PARCELS = "parcel,kg\nA,3\nB,4\nC,5\n"

MEASURE = '''
from typing import Any

from agentorchestra.core.content import TextBlock
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.tool import ToolResult, tool


@tool(effect="pure")
def measure(thing: str, ctx: RunContext[Any]) -> ToolResult:
    """The width of a thing in cm.

    Args:
        thing: what is measured.
    """
    if not thing:
        raise ToolError("name a thing")
    return ToolResult(content=[TextBlock(text=f"{thing}: {len(thing)} cm")])
'''

SHELF = '''
from agentorchestra.environments.folder import FolderEnvironment
from agentorchestra.runtime.policy import DefaultPolicy
from agentorchestra.tea.environment import ActionEnvironment, action

assert FolderEnvironment and DefaultPolicy


class Shelf(ActionEnvironment):
    """A shelf with things."""

    name = "shelf"

    def __init__(self) -> None:
        self.things: list[str] = []

    @action
    def put(self, thing: str) -> str:
        """Put a thing onto the shelf.

        Args:
            thing: what to put there.
        """
        self.things.append(thing)
        return f"{len(self.things)} things"
'''

DIARY = '''
from dataclasses import dataclass

from agentorchestra.tea.memory.base import Entry
from agentorchestra.tea.memory.systems import Window


@dataclass
class Diary(Window):
    """One line for each task."""

    name: str = "diary"
    description: str = "Keeps one line for each task."

    async def begin(self, memory) -> list[Entry]:
        return await memory.read(kinds=("insight",), limit=1)

    async def step(self, memory, event) -> None:
        return

    async def end(self, memory, event) -> None:
        await memory.write("insight", "LINE " + event.text, of=[event])
'''

BRIEF = """---
name: brief
version: 1.0.0
description: How the measurer works.
variables: [native, code, max_tools, tools, environments, has_todo, finish]
---
You measure things. Be brief.
"""


def main(folder: Path) -> None:
    """Write the folder, then what the test reads."""
    ws = folder / "ws"
    folder.mkdir(parents=True)
    shutil.copy(old_app.__file__, folder / "old_app.py")
    (folder / "agentorchestra.toml").write_text(SETTINGS.lstrip(), encoding="utf-8")
    (folder / old_app.PARCELS).write_text(PARCELS, encoding="utf-8")
    os.chdir(folder)
    asyncio.run(begin(ws))
    cases = asyncio.run(write_runs(ws))
    command = [sys.executable, "-m", "tests.compat.write_old", str(folder), "--killed"]
    where = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    environ = os.environ | where | {KILL_AT: f"after_mark:{cases.pop('last note')}"}
    ended = subprocess.run(command, env=environ, check=False)
    assert ended.returncode == -signal.SIGKILL, ended
    cases |= asyncio.run(change(ws))
    DATA.mkdir(parents=True, exist_ok=True)
    asyncio.run(export(ws, cases))
    pack(folder, DATA / "workspace.tar.gz")
    cases["research"] = asyncio.run(research(folder / "research"))
    (DATA / "cases.json").write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


async def begin(folder: Path) -> None:
    """The workspace with what is registered there."""
    async with open_workspace(folder) as ws:
        await register(ws)


async def register(ws: Workspace) -> None:
    """Components of every kind that are kept in the workspace; their texts import modules of the package."""
    await ws.tcp.register(source=MEASURE, reason="things have a width")
    await ws.ecp.register(source=SHELF)
    await ws.components.memories.register(source=DIARY)
    await ws.components.prompts.register(source=BRIEF)
    await ws.acp.register(Agent("measurer", "Measures things.", prompt="brief", tools=("measure", "todo")))


async def write_runs(folder: Path) -> dict[str, str]:
    """The runs, by what they are cases of; under `last note` the key of an effect of the first one."""
    cases: dict[str, str] = {}
    async with open_workspace(folder) as ws:

        async def run(case: str, task: str, status: RunStatus = RunStatus.COMPLETED, **options: Any) -> RunResult:
            result = await ws.run(task, labels={"case": case}, **{"system": "react", **options})
            assert result.status is status, (case, result)
            cases[case] = result.run_id
            return result

        files = [old_app.PARCELS]
        counted = await run("react", "Count the parcels.", files=files)
        await run("approval", "Offer a price.", RunStatus.WAITING, files=files)
        await run("question", "Ask for the colour.", RunStatus.WAITING)
        await run("team", "Lead the counting.", system="agentorchestra", files=files)
        shelf = await run("environments", "Fill the shelf.", environments=["files", "shelf"])
        await run("pinned", "Measure the box.", system="measurer")
        await run("report", "Write the report.", environments=["report", "terminal"])
        await run("code", "Weigh A by a program.", action="code")
        await run("timer", "Wait for a while.", RunStatus.WAITING)
        task = "How many kg has parcel B?"
        await run("offline", task, system="agentorchestra", model="offline", files=files)
        experts = {"experts": ["finance_expert", "mathematics_expert"], "rounds": 2}
        await run("debate", TOPIC, system="debate", model=debater(), options=experts)
        for case in ("memory", "memory again"):
            await run(case, "Remember the box.", memory="diary", session="boxes")
        await run("generator", GENERATE, system="tool_generator", model=ScriptedModel(Model().answer, name="scribe"))
        cases["fork"] = await ws.fork(shelf.run_id, at=first_write(await ws.log.events(shelf.run_id)))
        assert (await ws.resume(cases["fork"])).status is RunStatus.COMPLETED
        cases["last note"] = last_note(await ws.log.events(counted.run_id))
    return cases


def first_write(events: Sequence[Event]) -> int:
    """The event after which a folder stood at its first snapshot."""
    return next(one.seq for one in events if one.body and "env:folder" in one.body.get("outcome", {}).get("writes", {}))


def last_note(events: Sequence[Event]) -> str:
    """The key of the last call of `note`."""
    components = [(one.span, str((one.body or {}).get("effect", {}).get("component", ""))) for one in events]
    return [str(span) for span, component in components if component.startswith("note@")][-1]


async def die(folder: Path) -> None:
    """The run that KILL_AT ends, between the mark of a call and its outcome."""
    store, wrap = hooks(folder)
    made = old_app.workspace(folder, store=store, handlers=wrap)
    made.app, made.app_folder = "old_app:workspace", str(folder.parent)
    async with made as ws:
        labels = {"case": "killed"}
        await ws.run("Count them again.", files=[old_app.PARCELS], system="react", labels=labels)


async def change(folder: Path) -> dict[str, str]:
    """Further versions of what the runs used, one of them of a packaged tool; a run that uses that."""
    async with open_workspace(folder) as ws:
        await ws.tcp.update("measure", source=MEASURE.replace("len(thing)", "2 * len(thing)"), reason="doubled")
        await ws.components.prompts.update("brief", source=BRIEF.replace("Be brief", "Be very brief"))
        (code,) = await ws.tcp.vars("todo")
        assert "plans = Plans.of(ctx.vars)\n" in code.value
        changed = code.value.replace("plans = Plans.of(ctx.vars)\n", "plans = Plans.of(ctx.vars)  # changed\n", 1)
        await ws.tcp.setvars("todo", {"code": changed}, reason="a note")
        result = await ws.run("Plan with the changed tool.", system="react", labels={"case": "evolved"})
        assert result.status is RunStatus.COMPLETED, result
        killed = [one.id for one in await ws.runs.list() if one.manifest.labels.get("case") == "killed"]
        return {"evolved": result.run_id, "killed": killed[0]}


async def research(folder: Path) -> str:
    """A run of the deep researcher in a workspace of its own, which only its bundle is kept of."""
    PAGES.clear()
    PAGES.update(ISLAND)
    async with served() as site, Workspace(folder, **world(site, model())) as ws:
        result = await ws.run(RESEARCH, system="deep_researcher", model="scripted")
        assert result.status is RunStatus.COMPLETED, result
        await bundle(ws, "research", result.run_id)
        return result.run_id


async def export(folder: Path, cases: dict[str, str]) -> None:
    """Bundles of some runs, and the registry of tools."""
    async with Workspace(folder) as ws:
        for case in ("react", "team", "fork", "pinned", "killed"):
            await bundle(ws, case, cases[case])
        await ws.tcp.save(DATA / "tools.json")


async def bundle(ws: Workspace, case: str, run: str) -> None:
    """The bundle of a run."""
    path = DATA / f"{case}.zip"
    path.unlink(missing_ok=True)
    await ws.log.export(run, path)
    path.chmod(0o644)


def pack(folder: Path, out: Path) -> None:
    """Everything below the folder, without owners and times."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = FIXED_TIME
        return None if "__pycache__" in info.name else info

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, arcname="example", filter=plain)
    out.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


if __name__ == "__main__":
    if "--killed" in sys.argv:
        asyncio.run(die(Path(sys.argv[1]) / "ws"))
    else:
        main(Path(sys.argv[1]))
