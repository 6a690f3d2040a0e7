"""What an agent is shown of its environments: a few actions, the others by name; beside many tools all that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra import Workspace, tool
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import Settings
from agentorchestra.tea.calling.environment import ActionEnvironment, action
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


async def test_environments_begin_with_a_few_actions(tmp_path: Path) -> None:
    names = await seen(tmp_path / "ws", tools=0)
    assert names == {
        *("files_read", "files_write", "files_edit", "terminal_run", "git_status", "git_diff", "git_commit"),
        *("done", "open_tools"),
    }


class Till(ActionEnvironment):
    """A till."""

    name = "till"
    begins_with = frozenset({"put"})

    @action
    def put(self, amount: int) -> str:
        """Put coins in.

        Args:
            amount: how many coins, as a whole number.
        """
        return f"{amount} coins are in"

    @action
    def ring(self) -> str:
        """Ring the bell."""
        return "it rang"


class LaterTill(Till):
    """A till."""

    name = "till"

    @action
    def empty(self) -> str:
        """Take all out."""
        return "it is empty"


async def test_what_waits_is_opened_by_its_name_and_replays_when_there_are_more(tmp_path: Path) -> None:
    calls = [call("open_tools", names=["till_ring"]), call("till_ring"), call("till_put", amount=3)]
    steps = [decide(calls=[one]) for one in (*calls, call("done", answer="3"))]
    model = ScriptedModel(steps)
    async with Workspace(tmp_path, environments={"till": Till}, settings=Settings(system="react")) as ws:
        result = await ws.run("Ring, then put three coins in.", model=model)
        assert result.answer == "3", result.error
    first, second = ([one.name for one in request.tools] for request in model.requests[:2])
    assert "till_put" in first and "till_ring" not in first and second == [*first, "till_ring"]
    opening = next(one for one in model.requests[0].tools if one.name == "open_tools")
    assert opening.description.endswith(", till_ring, todo, wait_until")
    async with Workspace(tmp_path, environments={"till": LaterTill}, settings=Settings(system="react")) as ws:
        assert (await ws.replay(result.run_id)).answer == "3"


async def test_what_was_chosen_comes_before_what_every_agent_has(tmp_path: Path) -> None:
    names = await seen(tmp_path / "ws", tools=60)
    assert {"files_write", "files_unpack", "terminal_run", "terminal_stop", "git_init", "git_commit"} <= names
    assert "open_tools" in names
