"""What an agent is shown of its environments: all that they can do, when there is not room for everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra import Workspace, tool
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide

THREE = ("files", "terminal", "git")


async def seen(folder: Path, *, tools: int, **settings: Any) -> set[str]:
    """The names of the tools in the first prompt of an agent with three environments, and further tools."""

    def one(number: int) -> Any:
        def fetch_thing(key: str) -> str:
            return key

        fetch_thing.__doc__ = f"Fetch the thing of shelf {number}. {'It is found by its key. ' * 20}"
        return tool(effect="read", name=f"fetch_thing_{number}")(fetch_thing)

    first: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        first.append(request)
        return decide(calls=[call("done", answer="seen")])

    chosen = Settings(system="react", **settings)
    async with Workspace(folder, tools=[one(n) for n in range(tools)], settings=chosen) as ws:
        result = await ws.run("Look around.", model=ScriptedModel(reply), environments=THREE)
    assert result.answer == "seen", result.error
    return {found.name for found in first[0].tools}


async def test_three_environments_have_room_beside_the_packaged_tools(tmp_path: Path) -> None:
    names = await seen(tmp_path / "ws", tools=0)
    assert {"files_write", "terminal_run", "git_init", "git_status", "open_tools", "search"} <= names
    assert "find_tools" not in names


async def test_what_was_chosen_comes_before_what_every_agent_has(tmp_path: Path) -> None:
    names = await seen(tmp_path / "ws", tools=60)
    assert {"files_write", "files_unpack", "terminal_run", "terminal_stop", "git_init", "git_commit"} <= names
    assert "open_tools" in names
