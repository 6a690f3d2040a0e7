"""Where a research ends: rounds, pages, tokens, time, the budget, what policy refuses. What was found is reported."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Budget
from agentorchestra.agents.deep_researcher import deep_researcher
from agentorchestra.core.settings import ResearchSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.workspace import Workspace
from tests.agents.researching import chosen, lines_with, model, page, researched, searched, section
from tests.site import Site, served
from tests.site.pages import PAGES
from tests.tools.search.support import KEYS


@pytest.fixture
async def site(monkeypatch: Any) -> AsyncIterator[Site]:
    for path in [*PAGES]:
        monkeypatch.delitem(PAGES, path)
    for number in range(1, 7):
        fact = f"The keeper of the lighthouse of Skerrow in log {number} was relieved at night."
        PAGES[f"/logs/{number}"] = page(f"Log {number}", fact, f"See log{number + 1}.")
    async with served() as running:
        yield running
    PAGES.clear()


def restless(system: str, material: str) -> Any:
    """Never content: searches for what was not searched for yet."""
    asked = re.findall(r"query (\d+): ", section(system, "asked_so_far"))
    further = [{"query": f"Skerrow night{len(asked)}", "follows": int(asked[-1])}]
    return {"complete": False, "missing": ["the last log"], "follow_ups": further}


def listed(system: str, material: str) -> Any:
    """Every finding with its mark."""
    found = re.findall(r"\[(E\d+)\][^\n]*?log (\d+)", material)
    return {"answer": ", ".join(number for _, number in found), "report": " ".join(f"[{mark}]" for mark, _ in found)}


def restless_model(**more: Any) -> Any:
    return model(judged=restless, taken=lines_with("relieved"), written=listed, **more)


@pytest.mark.long
@pytest.mark.parametrize(
    ("limits", "rounds", "pages", "said"),
    [
        ({"rounds": 2}, 2, 4, "The search ended after 2 rounds."),
        ({"rounds": 9, "pages": 3}, 2, 3, "The search ended after 3 pages."),
        ({"rounds": 9, "pages_per_round": 1, "tokens": 300}, 1, 1, "The search ended after "),
        ({"rounds": 9, "depth": 3}, 3, 6, ""),
        ({"rounds": 1, "insights": 1}, 1, 2, "The search ended after 1 rounds."),
    ],
)
async def test_limits(site: Site, tmp_path: Path, limits: dict[str, Any], rounds: int, pages: int, said: str) -> None:
    given = {"depth": 5, "pages_per_round": 2, "reflect": False, "variants": 0, **limits}
    result = await researched(site, tmp_path, restless_model(), **given)
    assert result.status is RunStatus.PARTIAL
    assert len(searched(site)) == rounds and len(site.asked("/logs/")) == pages
    assert said in result.report
    assert len(result.sources) == min(pages, limits.get("insights", 20)), "what was found is reported"
    if "tokens" in limits:
        assert "tokens." in result.report


class Slow:
    """A clock on which every look takes ten seconds."""

    def __init__(self) -> None:
        self._now = datetime(2026, 3, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(seconds=10)
        return self._now

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.mark.long
async def test_no_round_begins_after_the_time(site: Site, tmp_path: Path) -> None:
    for seconds in (60, 0):
        agent = deep_researcher(ResearchSettings(rounds=2, pages_per_round=1, seconds=seconds))
        given: Any = {"settings": chosen(site), "environ": KEYS, "agents": [agent], "clock": Slow()}
        async with Workspace(tmp_path / f"{seconds}", models={"scripted": restless_model()}, **given) as ws:
            result = await ws.run("keeper Skerrow", system="deep_researcher", model="scripted")
        said = re.search(r"The search ended after (\d+) s\.", result.report)
        assert bool(said) == bool(seconds), result.report
        assert said is None or int(said[1]) >= seconds
    assert len(searched(site)) == 1 + 2


@pytest.mark.long
async def test_a_search_that_policy_refuses_is_said_in_a_sentence(site: Site, tmp_path: Path) -> None:
    result = await researched(site, tmp_path, restless_model(), more={"policy": {"deny": ["search"]}})
    assert (result.status, result.answer) == (RunStatus.BLOCKED, "")
    assert "denied" in result.report and "search" in result.report and not searched(site)


@pytest.mark.long
async def test_pages_that_policy_refuses_are_named(site: Site, tmp_path: Path) -> None:
    result = await researched(site, tmp_path, restless_model(), more={"policy": {"deny": ["fetch"]}}, rounds=1)
    assert result.status is RunStatus.BLOCKED
    assert f"Not read: {site.address}/logs/1: denied" in result.report and not site.asked("/logs/")


@pytest.mark.parametrize(("tokens", "rounds"), [pytest.param(10_000, 1, marks=pytest.mark.long), (12_000, 2)])
async def test_what_was_found_until_the_budget_ended_is_reported(
    site: Site, tmp_path: Path, tokens: int, rounds: int
) -> None:
    given: Any = {"rounds": 9, "depth": 5, "pages_per_round": 1, "reflect": False, "variants": 0}
    result = await researched(site, tmp_path, restless_model(), run={"budget": Budget(tokens=tokens)}, **given)
    assert result.status is RunStatus.PARTIAL, result
    assert f"The budget ended the search: the run's budget of {tokens}" in result.report
    assert len(searched(site)) == rounds == len(result.sources) == len(result.answer.split(","))


@pytest.mark.long
async def test_a_run_without_search_does_not_have_the_agent(tmp_path: Path) -> None:
    settings = Settings.model_validate({"search": {"engines": []}})
    async with Workspace(tmp_path / "ws", settings=settings, models={"scripted": model()}, environ={}) as ws:
        result = await ws.run("who?", system="deep_researcher", model="scripted")
    assert re.search("'deep_researcher' is not in this run: .* search, fetch", str(result.error)), result
