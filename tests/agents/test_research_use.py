"""The researcher in the hands of others: under the planner, and as a tool of any agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.research.agent import deep_researcher
from agentorchestra.agents.transformations.a2t import a2t
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.agents import builtin_agents
from tests.agents.researching import ISLAND, KEEPER, TASK, TOWN, chosen, model, paths, searched
from tests.site import Site, served
from tests.site.pages import PAGES
from tests.tools.search.support import KEYS


@pytest.fixture
async def site(monkeypatch: Any) -> AsyncIterator[Site]:
    for path in [*PAGES]:
        monkeypatch.delitem(PAGES, path)
    PAGES.update(ISLAND)
    async with served() as running:
        yield running
    PAGES.clear()


async def test_under_the_planner(site: Site, tmp_path: Path) -> None:
    """Its quotes are looked up in what the run read, and another agent reads the page, before the answer is taken."""
    async with Workspace(tmp_path / "ws", models={"scripted": model()}, settings=chosen(site), environ=KEYS) as ws:
        result = await ws.run(TASK, model="scripted")
        assert (await ws.replay(result.run_id)).answer == result.answer
    assert (result.status, result.answer) == (RunStatus.COMPLETED, TOWN), result
    assert searched(site)[-1] == f"{KEEPER} born"
    assert paths(result, site) == {f"/people/{KEEPER.split()[1].lower()}"}


@pytest.mark.long
async def test_as_a_tool_of_another_agent(site: Site, tmp_path: Path) -> None:
    tools: Any = [*a2t(deep_researcher(), name="find_out")]
    scripted = model(tool="find_out")
    given: Any = {"settings": chosen(site), "environ": KEYS, "tools": tools}
    async with Workspace(tmp_path / "ws", models={"scripted": scripted}, **given) as ws:
        result = await ws.run(TASK, system="react", model="scripted")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, TOWN), result
    assert searched(site)[-1] == f"{KEEPER} born"


def test_what_a_planner_reads_of_it_is_short() -> None:
    agent = builtin_agents(Settings())["deep_researcher"]
    assert len(f"{agent.description} {agent.profile}".split()) <= 60
    assert "search" not in agent.description.split() and "fetch" not in agent.description
