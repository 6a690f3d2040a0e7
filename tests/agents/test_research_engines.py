"""A research whose engine is a model (`model`, docs/web-search.md): it may make up what it lists."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.research import reader
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.prices import FREE
from agentorchestra.testing import ScriptedModel, say
from agentorchestra.workspace import Workspace
from tests.agents.researching import EVIL, ISLAND, KEEPER, LAST, TASK, TOWN, lines_with, model, page, paths, world
from tests.site import Site, served, write_mirror
from tests.site.pages import PAGES

INVENTED = "/made/up"
QUERY = "keeper lighthouse Skerrow"


@pytest.fixture
async def site(monkeypatch: Any) -> AsyncIterator[Site]:
    for path in [*PAGES]:
        monkeypatch.delitem(PAGES, path)
    PAGES.update(ISLAND)
    PAGES[INVENTED] = page("Nothing to be found by", f"Native of {EVIL}.")  # no words of any query
    async with served() as running:
        yield running
    PAGES.clear()


def finder(site: Site, *, spelling: str = "") -> ScriptedModel:
    """Lists an address that it made up.

    Args:
        site: whose pages it lists.
        spelling: put behind the address of the page that the words of its query belong to, which it then lists first.
    """

    def answer(request: ModelRequest) -> ModelResponse:
        system = request.messages[0].text
        assert "Search the web for the query" in system
        query = re.findall(r"<query>\n(.*)\n</query>", request.messages[1].text)[0]
        path = f"/people/{LAST.lower()}" if KEEPER in query else "/places/lighthouse"
        found = [{"title": "?", "address": f"{site.address}{path}{spelling}", "snippet": ""}] if spelling else []
        found += [{"title": query, "address": f"{site.address}{INVENTED}?q={len(query)}", "snippet": query}]
        return say(json.dumps({"results": found}))

    return ScriptedModel(answer, profile=ModelProfile(model="finder", tools=True, price=FREE))


def given(site: Site, searching: ScriptedModel, *engines: str, **research: Any) -> dict[str, Any]:
    """What a workspace is made of in which these engines are asked, the engine `model` by this model."""
    scripted = model(taken=lines_with("last keeper was", "orn in", "Native of"))
    more = {"engine": {"model": {"model": "finder"}}}
    made = world(site, scripted, *engines, more=more, reflect=False, variants=0, **research)
    return {**made, "models": {**made["models"], "finder": searching}}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spelling", ["", "?utm_source=finder"])
async def test_what_a_model_made_up_is_not_read_unasked(
    site: Site, tmp_path: Path, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it take the place of what another engine lists, whose address is read however the model spells it."""
    monkeypatch.setattr(reader, "PAGES_PER_ROUND", 1)
    searching = finder(site, spelling=spelling)
    setting = given(site, searching, "model", "serper")
    async with Workspace(tmp_path / "ws", **setting) as ws:
        result = await ws.run(TASK, system="deep_researcher", model="scripted", on_ask="deny")
        assert (await ws.replay(result.run_id)).answer == result.answer
    assert searching.requests, "it was asked"
    assert (result.status, result.answer) == (RunStatus.COMPLETED, TOWN), result.report
    assert paths(result, site) == {f"/people/{LAST.lower()}"}
    assert not site.asked(INVENTED) and EVIL not in result.report


async def test_pages_that_only_a_copy_of_the_site_lists_are_read_without_a_question(site: Site, tmp_path: Path) -> None:
    """A research without a terminal ends, with nothing on the network asked but the pages it read."""
    copy = write_mirror(tmp_path / "copy", *ISLAND)
    folders = {"search": {"engines": ["local"], "folders": [{"path": str(copy), "address": site.address}]}}
    setting = world(site, model(), "local", more=folders, reflect=False, variants=0)
    async with Workspace(tmp_path / "ws", **setting) as ws:
        result = await ws.run(TASK, system="deep_researcher", model="scripted", on_ask="wait")
        assert (result.status, result.questions) == (RunStatus.COMPLETED, ()), result.questions
        asked = len(site.requests)
        assert (await ws.replay(result.run_id)).answer == result.answer == TOWN
        assert len(site.requests) == asked
    assert paths(result, site) == {f"/people/{LAST.lower()}"}
    assert {one.path for one in site.requests} <= {*ISLAND, "/robots.txt"}


@pytest.mark.long
async def test_what_a_model_made_up_is_named_where_nobody_lists_anything_else(site: Site, tmp_path: Path) -> None:
    setting = given(site, finder(site), "model", rounds=1)
    async with Workspace(tmp_path / "ws", **setting) as ws:
        result = await ws.run(TASK, system="deep_researcher", model="scripted", on_ask="deny")
    assert (result.status, result.answer_text) == (RunStatus.BLOCKED, "") and not site.asked(INVENTED)
    assert f"Not read: {site.address}{INVENTED}?q={len(QUERY)}: denied" in result.report


@pytest.mark.long
@pytest.mark.parametrize("allowed", [True, False])
async def test_what_a_model_made_up_is_read_where_a_human_allows_it(site: Site, tmp_path: Path, allowed: bool) -> None:
    setting = given(site, finder(site), "model", rounds=1)
    async with Workspace(tmp_path / "ws", **setting) as ws:
        waiting = await ws.run(TASK, system="deep_researcher", model="scripted", on_ask="wait")
        assert waiting.status is RunStatus.WAITING and not site.asked(INVENTED)
        (question,) = waiting.questions
        assert INVENTED in question.question and "received link or search result" in question.question
        await (ws.approve if allowed else ws.deny)(waiting.run_id)
        result = await ws.resume(waiting.run_id)
    assert bool(site.asked(INVENTED)) == allowed == (f"Native of {EVIL}" in result.report)
