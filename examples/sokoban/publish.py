"""A small web game goes into a repository on GitHub; the push fails twice, and the agent finds its way (000, app. G.3).

    python examples/sokoban/publish.py [FOLDER]

It writes Sokoban with `files`, commits it with `git`, pushes, is refused because there is no such repository, creates
it with `github`, is refused because a README is there already, pulls, and pushes again. No key and no network: GitHub
is a stand-in on the loopback address with real repositories behind it, and what a language model would decide is
decided by `Author` below, which reads what the last call said. Everything it does is done: files, commits, requests.
Before something is sent, policy asks; here the question is shown and allowed.

FOLDER keeps the workspace; without it everything is gone at the end. The exit status is 1 if the game is not in the
repository then.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from loopback_github import LoopbackGitHub

from agentorchestra import RunResult, Workspace
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import GitHubSettings, GitSettings, Settings
from agentorchestra.core.spec import Question
from agentorchestra.testing import ScriptedModel, call

GAME = Path(__file__).parent / "game"
FILES = ("index.html", "style.css", "main.js")
NAME = "sokoban-mini"
TOKEN = "github_pat_of_the_stand_in"


class Author:
    """Decides what to do next from a plan and from what the last call said, as a model would."""

    def __init__(self, address: str) -> None:
        self.address = address
        push = call("git_push", remote=address, repository=NAME)
        self.plan = [
            call("files_make_folder", path=NAME),
            *(call("files_write", path=f"{NAME}/{one}", content=(GAME / one).read_text()) for one in FILES),
            call("git_init", repository=NAME),
            call("git_commit", message="Sokoban: three levels, undo", repository=NAME, all_changes=True),
            push,
            call("github_get_repository", repository=f"octocat/{NAME}"),
        ]
        self.push = push

    def __call__(self, request: ModelRequest) -> ToolCall:
        """The next call."""
        said = [
            block.text
            for one in request.messages
            if one.role == "tool"
            for block in one.content
            if block.type == "text"
        ]
        last = said[-1] if said else ""
        if "create it first" in last:
            self.plan.insert(0, self.push)
            return call("github_create_repository", name=NAME, description="Simple web Sokoban", with_readme=True)
        if "pull them" in last:
            self.plan.insert(0, self.push)
            return call("git_pull", remote=self.address, repository=NAME, unrelated=True)
        if self.plan:
            return self.plan.pop(0)
        return call("done", answer=f"The game is at {self.address}.")


async def allow(question: Question) -> bool:
    """Whoever is asked says yes."""
    print(f"  asked:   {question.question}\n           allowed")
    return True


async def publish(folder: Path) -> tuple[RunResult, list[str]]:
    """Run the task; its result, and what is not as it should be afterwards."""
    async with LoopbackGitHub(folder / "github", token=TOKEN) as server:
        address = f"{server.url}/octocat/{NAME}.git"
        settings = Settings(
            prompt_tool_chars=0,  # the author knows all tools, and looks for none
            github=GitHubSettings(base_url=server.base_url),
            git=GitSettings(tokens={server.place: "GITHUB_TOKEN"}),
        )
        task = f"Write a Sokoban game for the browser in a folder {NAME} and put it into a new repository, {address}"
        print(task)
        ws = Workspace(folder / "workspace", settings=settings, asker=allow, environ={"GITHUB_TOKEN": TOKEN})
        async with ws:
            model = ScriptedModel(Author(address))
            result = await ws.run(task, model=model, system="react", environments=["files", "git", "github"])
            await show(ws, result)
        for one in server.requests:
            print(f"  server:  {one.method} {one.path.partition('?')[0]}{'' if one.token else ', without the token'}")
        faults = [] if result.status == "completed" else [f"the run ended as {result.status}"]
        made = server.repositories.get(f"octocat/{NAME}")
        if made is None:
            return result, [*faults, "there is no repository"]
        wrong = [name for name in FILES if committed(made.folder, name) != (GAME / name).read_bytes()]
        faults += [f"{name} in the repository is not the game's" for name in wrong]
        return result, faults


def committed(repository: Path, name: str) -> bytes:
    """A file as it is on the main branch of a bare repository."""
    return subprocess.run(["git", "-C", repository, "show", f"main:{name}"], capture_output=True, check=False).stdout


async def show(ws: Workspace, result: RunResult) -> None:
    """What was done, and what came of it."""
    for event in await ws.log.events(result.run_id):
        body = event.body
        if event.type == "completed" and body.get("outcome", {}).get("error"):
            print(f"  refused: {body['outcome']['error']}")
    print(f"  answer:  {result.answer_text}\n  run:     {result.run_id} ({result.status}, {result.steps} steps)")


def main() -> int:
    """Publish the game; 0 when it is where it should be."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        _, faults = asyncio.run(publish(folder))
    print(f"  check:   {'; '.join(faults) or 'right: the repository holds the game, byte for byte'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
