"""Transformed components in the registry: called outside of runs, exported with a run, found and described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra import (
    ActionEnvironment,
    Agent,
    Condition,
    RunContext,
    Workspace,
    a2t,
    action,
    e2a,
    e2t,
    t2a,
    t2e,
    tool,
)
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.environments.registry import PACKAGED
from agentorchestra.log.store import MemoryStore

CALLED: list[str] = []


class Lamp(ActionEnvironment):
    """A lamp."""

    name = "lamp"

    def __init__(self) -> None:
        self.is_on = False

    @action
    def switch(self) -> bool:
        """Switch it."""
        self.is_on = not self.is_on
        return self.is_on

    @action(effect="read", before=[Condition("it is on", lambda self, given: self.is_on)])
    def read(self, page: int) -> str:
        """Read by its light."""
        return f"page {page}"


@tool(effect="pure")
def press(ctx: RunContext[Any]) -> int:
    """Press a button."""
    CALLED.append("press")
    ctx.vars["pressed"] = int(str(ctx.vars["pressed"])) + 1
    return int(str(ctx.vars["pressed"]))


def panel() -> Any:
    return t2e([press], name="panel", state={"pressed": 0})


async def test_they_are_called_outside_of_runs_and_listed_where_they_are_what_they_became(tmp_path: Path) -> None:
    store = MemoryStore()
    agent = Agent(name="helper", description="Helps.", prompt="worker")
    given: dict[str, Any] = {"tools": [*e2t(Lamp), *a2t(agent)], "environments": {"panel": panel()}}
    async with Workspace(tmp_path, store=store, **given) as ws:
        assert {"lamp_switch", "lamp_read", "lamp_state", "helper"} <= set(await ws.tcp.list())
        assert {*await ws.ecp.list()} == {"panel", *PACKAGED} and "helper" not in await ws.acp.list()
        assert "press" not in await ws.tcp.list()
        config = await ws.tcp.info("lamp_read")
        assert config.origin == "environment:lamp" and "page" in config.operations[0].arguments_model.model_fields
        assert (await ws.ecp.info("panel")).description == "Press a button."
        with pytest.raises(UnknownComponentError):
            await ws.ecp.info("lamp")

        refused = await ws.tcp.invoke("lamp_read", {"page": 3})
        assert refused.error == "lamp does not allow read now: not true that it is on"
        assert (await ws.tcp.invoke("lamp_switch", {})).value is True
        assert (await ws.tcp.invoke("lamp_read", {"page": 3})).value == "page 3"
        assert [(await ws.ecp.invoke("panel", "press", {})).value for _ in range(2)] == [1, 2]
        assert [getattr(one, "text", "") for one in await ws.ecp.state("panel")] == ["pressed: 2"]


async def test_an_imported_run_executes_nothing_of_an_environment_made_of_tools(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "one", environments={"panel": panel()}) as ws:
        result = await ws.run("panel_press()", system="react", model="offline")
        assert result.status == "completed" and result.answer.startswith("1")
        await ws.log.export(result.run_id, tmp_path / "run.zip")
    CALLED.clear()
    async with Workspace(tmp_path / "two", environments={"panel": panel()}) as ws:
        await ws.log.import_file(tmp_path / "run.zip")
        report = await ws.replay(result.run_id)
        assert report.answer == result.answer_text
    assert CALLED == []


async def test_what_is_registered_later_brings_its_parts_too(tmp_path: Path) -> None:
    async with Workspace(tmp_path, store=MemoryStore()) as ws:
        await ws.tcp.register([*e2t(Lamp)])
        assert (await ws.tcp.invoke("lamp_switch", {})).value is True
        result = await ws.run("lamp_switch(), then lamp_read(page=2)", system="react", model="offline")
        assert result.status == "completed" and "page 2" in result.answer


async def test_a_condition_that_cannot_be_told_does_not_hold(tmp_path: Path) -> None:
    class Odd(ActionEnvironment):
        """Odd."""

        @action(before=[Condition("it makes sense", lambda self, given: given["missing"])])
        def go(self) -> None:
            """Go."""

    odd = t2e(e2t(Odd), name="strange")
    async with Workspace(tmp_path, store=MemoryStore(), tools=e2t(Odd), environments={"strange": odd}) as ws:
        outcome = await ws.tcp.invoke("odd_go", {})
        assert (
            outcome.error == "odd does not allow go now: not true that it makes sense (which cannot be told: "
            "KeyError: 'missing')"
        )


def test_identity_follows_from_what_stands_behind() -> None:
    @tool(effect="pure", name="press")
    def other() -> int:
        """Press a button."""
        return 1

    class Dark(Lamp):
        """A lamp."""

    assert t2a([press], name="hand").content_hash != t2a([other], name="hand").content_hash
    assert e2a(Lamp, name="x").content_hash != e2a(Dark, name="x").content_hash
    assert t2e([press], name="x")().content_hash != t2e([other], name="x")().content_hash
    assert e2t(Lamp)[0].content_hash != e2t(Dark)[0].content_hash
