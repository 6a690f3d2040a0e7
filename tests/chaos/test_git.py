"""`git` and `github` killed with SIGKILL in the middle of what they change, and resumed in a fresh process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from loopback_github import LoopbackGitHub

from agentorchestra.core.events import Event
from tests.chaos.git_program import NAME, TOKEN
from tests.chaos.support import KILLED, only_run, read_log, start, until
from tests.environments.gits import SANDBOX, git
from tests.support.patience import LONGEST_S

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),  # many processes, on a machine that may be busy
    pytest.mark.skipif(SANDBOX is None, reason="no sandbox here: install bubblewrap"),
]


class Killer(LoopbackGitHub):
    """A stand-in that ends whoever asks for something, when it has done what was asked and before it answers."""

    victim: subprocess.Popen[str] | None = None
    at = ""

    def _done(self, path: str) -> None:
        if self.at and self.at in path and self.victim is not None:
            self.at = ""
            os.kill(self.victim.pid, signal.SIGKILL)

    async def _git_http(self, request: Any) -> Any:
        answer = await super()._git_http(request)
        self._done(f"{request.method} {request.path}")
        return answer

    async def _api(self, request: Any) -> Any:
        answer = await super()._api(request)
        self._done(f"{request.method} {request.path}")
        return answer


async def drive(folder: Path, server: Killer, what: str, *, code: int = 0, **environ: str) -> dict[str, Any]:
    """One process to its end; what it said."""
    words: list[str | Path] = ["-m", "tests.chaos.git_program", folder, server.url, what]
    process = start(words, kill_at=environ.pop("kill_at", ""), environ=environ)
    server.victim = process
    out, err = await asyncio.to_thread(process.communicate, timeout=LONGEST_S)
    assert process.returncode == code, (process.returncode, out, err)
    return dict(json.loads(out)) if out else {}


def processes_in(folder: Path) -> list[int]:
    """The processes, of sandboxes too, that have to do with a folder."""
    found = []
    for one in psutil.process_iter(["pid", "cmdline"]):
        if one.info["pid"] != os.getpid() and any(str(folder) in word for word in one.info["cmdline"] or ()):
            found.append(one.info["pid"])
    return found


def outcomes(events: list[Event]) -> dict[str, list[str]]:
    """What came of each action, by its name, in order."""
    names: dict[tuple[str | None, int | None], str] = {}
    found: dict[str, list[str]] = {}
    for event in events:
        effect = event.body.get("effect") or {}
        if effect.get("kind") == "InvokeAction":
            names[event.branch, event.n] = str(effect["arguments"].get("action"))
        if event.type == "completed" and (event.branch, event.n) in names:
            outcome = event.body["outcome"]
            found.setdefault(names[event.branch, event.n], []).append(str(outcome.get("status", "ok")))
    return found


async def actions_of(folder: Path) -> dict[str, str]:
    """The key of each action of an undisturbed run."""
    events = await read_log(folder, await only_run(folder))
    return {
        str(event.body["effect"]["arguments"]["action"]): str(event.span)
        for event in events
        if event.type == "started" and event.body["effect"].get("kind") == "InvokeAction"
    }


async def check(folder: Path, how: dict[str, str], doubted: str) -> None:
    """Killed there and resumed: everything was done once, and what may have happened was said so."""
    folder.mkdir()
    async with Killer(folder / "hub", token=TOKEN) as server:
        made = await server.create(NAME)
        server.at = how.get("server", "")
        await drive(folder / "ws", server, "run", code=KILLED, **{k: v for k, v in how.items() if k != "server"})
        await until(lambda: not processes_in(folder))  # the sandboxes go with the process that had them
        run = await only_run(folder / "ws")
        told = await drive(folder / "ws", server, run)
        assert told["status"] == "completed", (how, told)
        seen = outcomes(await read_log(folder / "ws", run))
        assert (seen.get("push", []) + seen.get("create_issue", [])).count("uncertain") == bool(doubted), (how, seen)
        assert not doubted or seen[doubted][0] == "uncertain", (how, seen)
        # Done once, and everywhere the same.
        here = Path(told["folder"]) / "game"
        assert git(here, "log", "--format=%s") == "First", how
        assert git(here, "status", "--porcelain") == "" and git(here, "fsck", "--strict") == "", how
        assert git(made.folder, "rev-parse", "main") == git(here, "rev-parse", "main"), how
        assert [one["title"] for one in made.issues] == ["Play it"], how
        assert not processes_in(folder)
        assert TOKEN not in json.dumps([one.model_dump(mode="json") for one in await read_log(folder / "ws", run)])


async def test_killed_in_the_middle_of_each_change(tmp_path: Path) -> None:
    whole = tmp_path / "undisturbed"
    whole.mkdir()
    async with Killer(whole / "hub", token=TOKEN) as server:
        await server.create(NAME)
        told = await drive(whole / "ws", server, "run")
        assert told["status"] == "completed" and told["answer"] == "First"
        keys = await actions_of(whole / "ws")
    cases: list[tuple[dict[str, str], str]] = [
        ({"KILL_IN": "add"}, ""),
        ({"KILL_IN": "commit"}, ""),
        ({"kill_at": f"after:{keys['commit']}"}, ""),
        ({"kill_at": f"after_record:{keys['commit']}"}, ""),
        ({"kill_at": f"before:{keys['push']}"}, "push"),
        ({"server": "GET /octocat/game.git/info/refs"}, "push"),
        ({"server": "POST /octocat/game.git/git-receive-pack"}, "push"),
        ({"kill_at": f"in_record:{keys['push']}"}, "push"),
        ({"kill_at": f"after_record:{keys['push']}"}, ""),
        ({"kill_at": f"before:{keys['create_issue']}"}, "create_issue"),
        ({"server": "POST /api/v3/repos/octocat/game/issues"}, "create_issue"),
        ({"KILL_IN": "merge"}, ""),
    ]
    for number, (how, doubted) in enumerate(cases):
        await check(tmp_path / f"case{number}", how, doubted)
