"""What the chaos tests have in common: processes, and reading a log from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agentorchestra.core.effects import EffectKind
from agentorchestra.core.events import Event
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.store.factory import store_for
from agentorchestra.workspace import Workspace, load_settings
from tests import warm
from tests.chaos.killing import KILL_AT, MARK_POINTS, POINTS

SOURCE = Path(__file__).resolve().parents[2]
KILLED = -signal.SIGKILL


def start(
    words: Sequence[str | Path],
    *,
    kill_at: str = "",
    environ: Mapping[str, str] | None = None,
    python: Sequence[str] = (),
) -> subprocess.Popen[str]:
    """A Python process with the package and `tests` on its path: a warm one, unless `python` is what starts it.

    One that has another PYTHONPATH, with another version of the package, is a process of its own.
    """
    has_own_path = "PYTHONPATH" in (environ or {})
    environment = _environment(kill_at, environ)
    if has_own_path and not python:
        python = (sys.executable,)
    if not python:
        return warm.start(words, environ=environment, streams=(subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE))
    return subprocess.Popen(
        [*python, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _environment(kill_at: str, environ: Mapping[str, str] | None) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTORCHESTRA_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(SOURCE / "src"), str(SOURCE)])
    environment.pop(KILL_AT, None)
    if kill_at:
        environment[KILL_AT] = kill_at
    return environment | dict(environ or {})


def python(
    words: Sequence[str | Path],
    *,
    kill_at: str = "",
    code: int = 0,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run it to its end; what it printed. It must die by SIGKILL if it was to be killed, else end with this code."""
    ended = warm.run(words, environ=_environment(kill_at, environ), cwd=cwd)
    assert ended.returncode == (KILLED if kill_at else code), (kill_at, ended)
    return ended.stdout


async def until(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Look again and again; the time limit of the test is the only one. The process must live meanwhile."""
    while not condition():
        if process is not None and process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode}: {process.communicate()}")
        await asyncio.sleep(0.02)


async def read_log(folder: Path, run: str) -> list[Event]:
    """The log of a run as another process sees it."""
    store = store_for(load_settings(folder), folder)
    await store.open()
    try:
        return await store.load(run)
    finally:
        await store.close()


async def only_run(folder: Path) -> str:
    """The id of the one run in a workspace."""
    store = store_for(load_settings(folder), folder)
    await store.open()
    try:
        (record,) = await store.list_runs()
        return record.id
    finally:
        await store.close()


def kill_points(events: Iterable[Event]) -> list[str]:
    """Every point of every effect of an undisturbed run, in the order of the log."""
    keys: dict[str, set[str]] = {}
    for event in events:
        if event.span is not None:
            keys.setdefault(event.span, set()).add(event.type)
    found = []
    for key, types in keys.items():
        points = (*MARK_POINTS, *POINTS) if "started" in types else POINTS
        found += [f"{point}:{key}" for point in points]
    return found


def effect_keys(events: Iterable[Event]) -> set[str]:
    """The keys a log holds."""
    return {event.span for event in events if event.span is not None}


async def remembered(ws: Workspace[None], run: str) -> list[tuple[str, str]]:
    """What a run wrote, in order."""
    found = Ledger.of(await ws.store.load(run)).records.values()
    entries = [
        entry
        for one in found
        if one.effect["kind"] == EffectKind.WRITE_MEMORY and one.outcome is not None
        for entry in one.effect["arguments"]["entries"]
    ]
    return [(str(one["kind"]), str(one["text"]).partition(":")[0]) for one in entries]
