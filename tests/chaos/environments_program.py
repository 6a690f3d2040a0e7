"""A program whose agent works on the folder of its run with files, terminal and git; it dies where it is told to.

KILL_AT names a point of an effect (killing.py). KILL_IN names a function: `MODULE:NAME:COUNT` dies when
it is called for the COUNT-th time, with `:after` when it has returned. KILL_WHEN names a file of the folder: the
process dies when it appears.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from agentorchestra import Workspace
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.tea.calling.actions import action_effect
from tests.chaos.killing import die, hooks

NAMES = ("files", "terminal", "git")
ACTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("files", "write", {"path": "a/one.txt", "content": "one\n" * 2000}),
    ("files", "edit", {"path": "a/one.txt", "old": "one\n" * 2000, "new": "two\n"}),
    ("files", "copy", {"path": "a", "to": "b"}),
    ("files", "move", {"path": "b/one.txt", "to": "b/moved.txt"}),
    ("files", "delete", {"path": "a"}),
    ("files", "undelete", {"path": "a", "to": "c"}),
    (
        "terminal",
        "run",
        {"command": "cd b; X=kept; echo made >> log.txt; ln -s log.txt link; touch started; sleep 0.3"},
    ),
    ("terminal", "run", {"command": 'echo "$X in ${PWD##*/}" >> log.txt'}),
    ("git", "init", {}),
    ("terminal", "run", {"command": "cd ..; git add ."}),
    ("git", "commit", {"message": "All of it"}),
    ("files", "write", {"path": "last.txt", "content": "last"}),
]
"""The n-th one is the effect `/1.acts#n`."""

FINAL = {
    "b/link": "-> log.txt",
    "b/log.txt": "made\nkept in b\n",
    "b/moved.txt": "two\n",
    "b/started": "",
    "c/one.txt": "two\n",
    "last.txt": "last",
}


async def acts(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
    """One action after the other; what was not ok is said."""
    said = []
    for name, action, arguments in ACTIONS:
        outcome = await session.perform(action_effect(kit.environments[name](), action, arguments))
        said.append("ok" if outcome.ok else f"{name}.{action}: {outcome.status}: {outcome.error}")
    return AgentResult(answer=" ".join(said))


def _die_in(place: str) -> None:
    module_name, name, count, *rest = place.split(":")
    module = importlib.import_module(module_name)
    inner = getattr(module, name)
    calls = [0]

    @functools.wraps(inner)
    def dying(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        met = calls[0] == int(count)
        if met and not rest:
            die()
        value = inner(*args, **options)
        if met:
            die()
        return value

    setattr(module, name, dying)


def _die_when(folder: Path, name: str) -> None:
    def watch() -> None:
        while not [*folder.glob(f"runs/*/environments/main/folder/{name}")]:
            time.sleep(0.01)
        die()

    threading.Thread(target=watch, daemon=True).start()


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)
    settings = Settings(model="offline", system="acts")
    return Workspace(folder, systems={"acts": acts}, settings=settings, store=store, handlers=wrap)


async def main(folder: Path, run: str) -> None:
    """Begin, or go on with a run."""
    if place := os.environ.get("KILL_IN"):
        _die_in(place)
    if name := os.environ.get("KILL_WHEN"):
        _die_when(folder, name)
    async with workspace(folder) as ws:
        if run:
            await ws.resume(run)
        else:
            await ws.run("work", environments=NAMES)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
