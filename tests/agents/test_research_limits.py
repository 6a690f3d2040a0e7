"""Where a research ends: rounds, pages, tokens, time, the budget, what policy refuses. What was found is reported."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Budget
from agentorchestra.agents.research import reader, workflow
from agentorchestra.core.budget import Usage
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace
from tests.agents.researching import (
    ASKED,
    chosen,
    lines_with,
    model,
    page,
    performed,
    researched,
    searched,
    section,
    world,
)
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
        ({"rounds": 9, "tokens": 900}, 1, 1, "The search ended after "),
        ({"rounds": 9, "depth": 3}, 3, 6, ""),
        ({"rounds": 1, "insights": 1}, 1, 2, "The search ended after 1 rounds."),
    ],
)
async def test_limits(
    site: Site,
    tmp_path: Path,
    limits: dict[str, Any],
    rounds: int,
    pages: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "PAGES_PER_ROUND", 1 if "tokens" in limits else 2)
    given = {"depth": 5, "reflect": False, "variants": 0, **limits}
    result = await researched(site, tmp_path, restless_model(), **given)
    assert result.status is RunStatus.PARTIAL
    assert len(searched(site)) == rounds and len(site.asked("/logs/")) == pages
    assert said in result.report
    assert len(result.sources) == min(pages, limits.get("insights", 20)), "what was found is reported"
    if "tokens" in limits:
        assert "tokens." in result.report


class Jumping:
    """A clock that stands still, and has gone on by 200 s once something has happened."""

    def __init__(self, happened: Callable[[], object]) -> None:
        self.happened = happened

    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=200 if self.happened() else 0)

    def monotonic(self) -> float:
        return time.monotonic()


def asked_of(scripted: Any, start: str) -> int:
    """How often the model was asked what begins so."""
    return sum(start in one.messages[0].text for one in scripted.requests)


PLANS, LOOKS, READS, JUDGES, WRITES, _ = ASKED


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("limit", "after", "searches", "pages", "readers", "judged", "left"),
    [
        pytest.param("seconds", PLANS, 0, 0, 0, 0, "not searched: keeper lighthouse Skerrow", marks=pytest.mark.long),
        pytest.param("tokens", PLANS, 0, 0, 0, 0, "not searched: keeper lighthouse Skerrow"),
        pytest.param("seconds", LOOKS, 0, 0, 0, 0, "not searched: keeper lighthouse Skerrow", marks=pytest.mark.long),
        pytest.param("tokens", LOOKS, 0, 0, 0, 0, "not searched: keeper lighthouse Skerrow", marks=pytest.mark.long),
        ("seconds", "search", 1, 0, 0, 0, "not read: {0}/logs/1; not read: {0}/logs/2; what round 1 brought"),
        ("seconds", "page", 1, 2, 0, 0, "not read by the model: {0}/logs/1; not read by the model: {0}/logs/2; what"),
        pytest.param("seconds", READS, 1, 2, 2, 0, "what round 1 brought not judged"),
        pytest.param("tokens", READS, 1, 2, 2, 0, "what round 1 brought not judged", marks=pytest.mark.long),
        pytest.param("seconds", JUDGES, 1, 2, 2, 1, "not searched: Skerrow night1", marks=pytest.mark.long),
        pytest.param("tokens", JUDGES, 1, 2, 2, 1, "not searched: Skerrow night1", marks=pytest.mark.long),
        pytest.param("seconds", "", 2, 4, 4, 2, "", marks=pytest.mark.long),
        pytest.param("tokens", "", 2, 4, 4, 2, "", marks=pytest.mark.long),
    ],
)
async def test_nothing_is_begun_after_the_limit_but_the_report(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    after: str,
    searches: int,
    pages: int,
    readers: int,
    judged: int,
    left: str,
) -> None:
    """The clock jumps, or a reply is as long as the whole allowance, at one point of the first round."""
    monkeypatch.setattr(reader, "PAGES_PER_ROUND", 2)
    scripted = restless_model()
    points = {"search": lambda: searched(site), "page": lambda: site.asked("/logs/"), "": lambda: False}
    points[READS] = lambda: asked_of(scripted, READS) == 2  # both have begun
    clock = Jumping(points.get(after, lambda: asked_of(scripted, after)) if limit == "seconds" else lambda: False)
    if limit == "tokens":
        scripted = costly(after)
    given: dict[str, Any] = {"rounds": 2, "depth": 5, "variants": 0, "reflect": True}
    given |= {"seconds": 120} if limit == "seconds" else {"tokens": 120_000}
    result = await researched(site, tmp_path, scripted, clock=clock, **given)
    assert len(searched(site)) == searches and len(site.asked("/logs/")) == pages, result.report
    assert (asked_of(scripted, READS), asked_of(scripted, JUDGES)) == (readers, judged)
    # Of what was found there is a report; the last judgement writes it, where there is one.
    assert asked_of(scripted, WRITES) == (1 if readers and after else 0)
    assert result.status is (RunStatus.PARTIAL if readers else RunStatus.BLOCKED)
    assert len(result.sources) == readers
    why = "The search ended after 200 s." if limit == "seconds" else "tokens."
    assert (f"Left out for it: {left.format(site.address)}" in result.report and why in result.report) == bool(left)
    # A replay has another clock, and stops where the run did.
    clock.happened = lambda: after == ""
    async with Workspace(tmp_path / "ws", **world(site, scripted, clock=clock, **given)) as ws:
        again = await ws.replay(result.run_id)
    assert again.answer == result.answer_text


def costly(start: str) -> Any:
    """A model of which the replies to one question take more tokens than the research has."""
    plain = restless_model()

    def answer(request: Any) -> Any:
        reply = plain._function(request)
        if start and start in request.messages[0].text:
            reply = reply.model_copy(update={"usage": Usage(requests=1, input_tokens=120_000, output_tokens=1)})
        return reply

    return ScriptedModel(answer, profile=plain.profile)


@pytest.mark.long
async def test_readers_that_wait_for_their_model_are_not_begun_after_the_time(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PAGES_PER_ROUND", 3)
    scripted = restless_model(concurrency=1)
    clock = Jumping(lambda: asked_of(scripted, READS))
    given: Any = {"seconds": 120, "reflect": False, "variants": 0}
    result = await researched(site, tmp_path, scripted, clock=clock, **given)
    assert len(site.asked("/logs/")) == 3 and asked_of(scripted, READS) == 1
    assert result.status is RunStatus.PARTIAL and len(result.sources) == 1
    assert result.report.count("not read by the model: ") == 2, result.report


def greedy(**more: Any) -> Any:
    """Wants more of everything than it may have."""

    def planned(system: str, material: str) -> Any:
        return {"questions": ["?"], "queries": [many(f"keeper Skerrow plan{n}") for n in range(6)]}

    def many(query: str) -> dict[str, Any]:
        return {"query": query, "variants": [f"{query} variant{n}" for n in range(5)]}

    def looked_at(system: str, material: str) -> Any:
        drafts = re.findall(r"- draft (\d+): (.*)", section(system, "drafts"))
        return {"queries": 2 * [{"draft": int(number), **many(query)} for number, query in drafts]}

    def judged(system: str, material: str) -> Any:
        asked = len(re.findall(r"query \d+: ", section(system, "asked_so_far")))
        further = [{**many(f"Skerrow more{asked}-{n}"), "follows": 1 + n % asked} for n in range(8)]
        sums = [{"what": f"sum {asked} {n}", "code": f"print({asked} + {n})"} for n in range(4)]
        return {"complete": False, "follow_ups": further, "calculations": sums}

    return model(planned=planned, looked_at=looked_at, judged=judged, taken=lines_with("relieved"), written=listed)


@pytest.mark.long
@pytest.mark.parametrize("reflect", [True, False])
async def test_a_model_that_wants_more_gets_as_much_as_is_set(
    site: Site, tmp_path: Path, reflect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PAGES_PER_ROUND", 2)
    monkeypatch.setattr(workflow, "PLANNED_QUERIES", 2)
    monkeypatch.setattr(workflow, "MOST_CALCULATIONS", 1)
    limits: dict[str, Any] = {"reflect": reflect, "variants": 1, "follow_ups": 3, "branches": 1}
    result = await researched(site, tmp_path, greedy(), rounds=2, **limits)
    asked = searched(site)
    assert asked[:4] == [
        *(f"keeper Skerrow plan{n}" for n in (0, 1)),
        *(f"keeper Skerrow plan{n} variant0" for n in (0, 1)),
    ]
    assert len(asked) == 4 + 2 and asked[5] == f"{asked[4]} variant0", "of three follow-ups one, with its variant"
    assert len(await performed(tmp_path, result.run_id, "python")) == 2, "one in each round"
    assert len(site.asked("/logs/")) == 4


@pytest.mark.long
async def test_the_limits_of_a_preset_are_those_of_a_run(site: Site, tmp_path: Path) -> None:
    """001: depth 2, two of three follow-ups, three findings of a page, 60 seconds."""
    fact = "The keeper of the lighthouse of Skerrow was relieved at"
    PAGES["/logs/7"] = page("Logs of the keeper Skerrow", *(f"{fact} {hour}." for hour in range(9)))
    scripted = greedy()
    clock = Jumping(lambda: asked_of(scripted, JUDGES) >= 2)  # before and after it computed
    given: Any = {"settings": chosen(site), "environ": KEYS, "models": {"scripted": scripted}, "clock": clock}
    async with Workspace(tmp_path / "ws", preset="paper-001", **given) as ws:
        result = await ws.run("keeper Skerrow", system="deep_researcher", model="scripted")
    asked = searched(site)
    assert len(asked) == 6, "three of the plan, each with its variant: depth 2 leads on, but the time is over by then"
    added = await performed(tmp_path, result.run_id, "report")
    assert len([one for one in added[0]["citations"] if one["source"].endswith("/logs/7")]) == 3
    assert (
        "The search ended after 200 s. Left out for it: not searched: Skerrow more6-0; not searched: " in result.report
    )
    assert result.report.count("not searched: ") == 2, "two of three follow-ups"


@pytest.mark.long
async def test_a_search_that_policy_refuses_is_said_in_a_sentence(site: Site, tmp_path: Path) -> None:
    result = await researched(site, tmp_path, restless_model(), more={"policy": {"deny": ["search"]}})
    assert (result.status, result.answer_text) == (RunStatus.BLOCKED, "")
    assert "denied" in result.report and "search" in result.report and not searched(site)


@pytest.mark.long
async def test_pages_that_policy_refuses_are_named(site: Site, tmp_path: Path) -> None:
    result = await researched(site, tmp_path, restless_model(), more={"policy": {"deny": ["fetch"]}}, rounds=1)
    assert result.status is RunStatus.BLOCKED
    assert f"Not read: {site.address}/logs/1: denied" in result.report and not site.asked("/logs/")


@pytest.mark.parametrize(("tokens", "rounds"), [pytest.param(7_000, 1, marks=pytest.mark.long), (9_000, 2)])
async def test_what_was_found_until_the_budget_ended_is_reported(
    site: Site, tmp_path: Path, tokens: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PAGES_PER_ROUND", 1)
    given: Any = {"rounds": 9, "depth": 5, "reflect": False, "variants": 0}
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
