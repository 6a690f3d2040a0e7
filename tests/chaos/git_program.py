"""An agent that commits, pushes and opens an issue: `python -m tests.chaos.git_program FOLDER URL run|RUN_ID`.

KILL_AT (killing.py) and KILL_IN say where it ends with SIGKILL: KILL_IN is a command of git, after which it dies.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import GitHubSettings, GitSettings, Settings
from agentorchestra.environments.git.shell import GitOutput, GitShell
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.trust.policy import AllowAll
from tests.chaos.killing import die, hooks

NAME = "octocat/game"
TOKEN = "ghp_0123456789abcdefTESTONLY"


def decide(address: str, request: ModelRequest) -> ToolCall:
    """The next call, from what the request shows alone: a process that resumes decides as the first one did."""
    told = [
        block.text for one in request.messages if one.role == "tool" for block in one.content if block.type == "text"
    ]
    last = told[-1] if told else ""
    if "may have happened" in last:  # looked up first, whatever it was
        return call("github_list_issues", repository=NAME, state="all")
    doubted = sum("may have happened" in one for one in told)
    plan = [
        call("files_write", path="game/a.txt", content="a\n"),
        call("git_init", repository="game"),
        call("git_commit", message="First", repository="game", all_changes=True),
        call("git_push", remote=address, repository="game"),
        call("github_create_issue", repository=NAME, title="Play it"),
        call("git_pull", remote=address, repository="game"),
        call("terminal_run", command="git -C game log --format=%s"),
    ]
    done = len(told) - 2 * doubted  # a doubt and its look-up do not move the plan on
    if doubted and done == 4 and "Play it" in last:
        done += 1
    return plan[done] if done < len(plan) else call("done", answer=last)


def die_in(command: str) -> None:
    """Die when git has done this, before anything is kept of it."""
    run = GitShell.run

    async def killing(self: GitShell, repository: str, *words: str, **options: Any) -> GitOutput:
        said = await run(self, repository, *words, **options)
        if words[0] == command:
            die()
        return said

    GitShell.run = killing  # type: ignore[method-assign]


async def work(folder: Path, url: str, what: str) -> None:
    """Create the run and drive it, or drive it on."""
    if os.environ.get("KILL_IN"):
        die_in(os.environ["KILL_IN"])
    place = url.removeprefix("http://")
    store, wrap = hooks(folder)
    ws = Workspace(
        folder,
        store=store,
        handlers=wrap,
        policy=AllowAll(),
        environ={"GITHUB_TOKEN": TOKEN},
        models={"author": ScriptedModel(lambda request: decide(f"{url}/{NAME}.git", request), name="author")},
        settings=Settings(
            model="author",
            system="react",
            prompt_tool_chars=0,
            lease_s=2,
            github=GitHubSettings(base_url=f"{url}/api/v3"),
            git=GitSettings(tokens={place: "GITHUB_TOKEN"}),
        ),
    )
    async with ws:
        if what == "run":
            result = await ws.run("Publish the game.", environments=["files", "git", "github", "terminal"])
        else:
            result = await ws.resume(what)
        report = await ws.replay(result.run_id)
        told = {"status": result.status, "answer": result.answer, "replayed": report.keys}
        print(json.dumps({**told, "folder": str(ws.files.folder(result.run_id))}))


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
