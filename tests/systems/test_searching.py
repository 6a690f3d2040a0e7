"""The search parts, on real servers that stand in for engine, archive and pages; `benchmarks/parts` has the tasks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.parts.searches import NOT_KNOWN, TASK, Seeker, drawn, emptied, queries, run

from agentorchestra.core.errors import SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace, load_settings
from tests.agents.researching import chosen
from tests.site import Site
from tests.site.pages import VERSIONS
from tests.support.programs import program
from tests.tools.search.support import KEYS


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site with no pages but those of the test."""
    async with emptied() as running:
        yield running


async def decides(
    folder: Path, site: Site, fact: str, parts: dict[str, Any], without: dict[str, Any], **options: Any
) -> None:
    """Run a task with parts and without them; the fact stands in a request, and in the answer, with them alone."""
    for settings, there in ((parts, True), (without, False)):
        seeker = Seeker(fact)
        result, _ = await run(folder / str(there), site, seeker, settings, **options)
        assert (result.answer == fact) is there
        assert any(fact in one for one in seeker.shown) is there


@pytest.mark.long
async def test_reflection_takes_the_place_of_the_query_and_variants_do_not(tmp_path: Path, site: Site) -> None:
    fact = drawn(1)
    await decides(tmp_path / "reflect", site, fact, {"reflect": True}, {"reflect": False})
    assert queries(site) == ["lighthouse bell", "beacon bell"]
    await decides(tmp_path / "expand", site, fact, {"expand": 1}, {"expand": 0})
    assert sorted(queries(site)[2:]) == ["beacon bell", "beacon bell", "lighthouse bell"]


@pytest.mark.long
async def test_oagents_searches_so_by_itself_and_each_part_can_be_switched_off(tmp_path: Path, site: Site) -> None:
    fact = drawn(3)
    off = {"plan": "none", "reflect": False, "expand": 0}
    await decides(tmp_path / "1", site, fact, {"plan": "none"}, off, system="oagents")
    await decides(tmp_path / "2", site, fact, {**off, "reflect": True}, off, system="oagents")
    await decides(tmp_path / "3", site, fact, {**off, "expand": 1}, off, system="static")


async def test_sub_agents_search_so_by_the_setting_alone(tmp_path: Path, site: Site) -> None:
    """The orchestrator has no `search`; whom it makes has one."""
    await decides(tmp_path, site, drawn(4), {"reflect": True}, {}, system="aorchestra")


async def test_earlier_queries_are_in_view_of_whoever_reflects(tmp_path: Path, site: Site) -> None:
    seeker = Seeker(drawn(5))
    asked = iter(["beacon bell", "nothing at all"])

    def twice(request: ModelRequest) -> ModelResponse:
        if request.settings.output_schema is not None:
            return seeker.reply(request)
        query = next(asked, None)
        return decide(calls=[call("search", query=query) if query else call("done", answer="")])

    settings = chosen(site, "google", parts={"reflect": True})
    async with Workspace(tmp_path, settings=settings, models={"scripted": ScriptedModel(twice)}, environ=KEYS) as ws:
        await ws.run(TASK, model="scripted", system="react")
    first, second = seeker.forms
    assert "beacon bell" in first and "lighthouse bell" not in first and "asked_so_far" not in first
    assert "- lighthouse bell\n" in second and "draft 1: nothing at all" in second


async def test_programs_search_so_too(tmp_path: Path, site: Site) -> None:
    fact = drawn(10)
    steps = ['print(search(query="beacon bell"))', "done(answer='found')"]
    seeker = Seeker(fact)
    left = iter(steps)

    def programs(request: ModelRequest) -> ModelResponse:
        return seeker.reply(request) if request.settings.output_schema is not None else program(next(left))

    settings = chosen(site, "google", parts={"reflect": True})
    async with Workspace(tmp_path, settings=settings, models={"scripted": ScriptedModel(programs)}, environ=KEYS) as ws:
        result = await ws.run(TASK, model="scripted", system="react", action="code")
    assert (result.answer, queries(site)) == ("found", ["lighthouse bell"])


BAD = [
    ({"reflect": True}, {"query": " "}, "The reflection gave no better query; it was searched as it is."),
    ({"reflect": True}, {"queries": []}, "The reflection gave no better query; it was searched as it is."),
    ({"reflect": True}, {"queries": "none"}, "No usable reply came on the query; it was searched as it is."),
    ({"expand": 2}, {"variants": []}, "0 of 2 variants were searched; the others are missing or repeat one."),
    (
        {"expand": 3},
        {"variants": ["beacon bell", "Beacon  bell", "old bell"]},
        "1 of 3 variants were searched; the others are missing or repeat one.",
    ),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("parts", "says", "sentence"), BAD)
async def test_a_part_that_comes_to_nothing_says_so_and_the_search_goes_on(
    tmp_path: Path, site: Site, parts: dict[str, Any], says: dict[str, Any], sentence: str
) -> None:
    drawn(6)
    seeker = Seeker("no number", says)
    result, asked = await run(tmp_path, site, seeker, parts)
    assert result.status is RunStatus.COMPLETED
    # Variants are searched at the same time.
    assert sorted(asked) == ["beacon bell", *(["old bell"] if "1 of 3" in sentence else [])]
    assert any(sentence in one and "Beacon of hope" in one for one in seeker.shown)


async def test_an_engine_that_is_down_is_named_and_the_others_answer(tmp_path: Path, site: Site) -> None:
    fact = drawn(7)
    site.moods["bing"] = "500"
    seeker = Seeker(fact)
    result, _ = await run(tmp_path, site, seeker, {"reflect": True, "expand": 1}, "google", "bing")
    assert result.answer == fact
    assert any('"bing":"failed (500)"' in one for one in seeker.shown)


async def test_without_any_engine_that_answers_the_call_fails_with_the_reasons(tmp_path: Path, site: Site) -> None:
    site.moods["google"] = "500"
    seeker = Seeker("no number")
    result, asked = await run(tmp_path, site, seeker, {"reflect": True, "expand": 2})
    assert (result.answer, len(asked)) == (NOT_KNOWN, 1)
    assert any("No search engine gave results: google failed (500)" in one for one in seeker.shown)


@pytest.mark.long
async def test_a_day_that_the_archive_has_no_copy_of_is_said(tmp_path: Path, site: Site) -> None:
    """The page as it was is found; of the other one, which was never kept, there is none."""
    drawn(8)
    VERSIONS["/tower"] = (("20190302080000", "<p>Nothing.</p>"),)
    seeker = Seeker("no number")
    task = 'As it was as of 2018-01-31: search for "lighthouse beacon".'
    result, _ = await run(tmp_path, site, seeker, {}, "google", "archive", task=task)
    assert result.answer == NOT_KNOWN
    assert any("2019-03-02" in one for one in seeker.shown)


async def test_what_cannot_be_searched_is_refused_before_anybody_is_asked(tmp_path: Path, site: Site) -> None:
    drawn(9)
    seeker = Seeker("no number")
    task = 'As it was as of 2018-13-77: search for "beacon bell".'
    _, asked = await run(tmp_path, site, seeker, {"reflect": True}, task=task)
    assert not asked and not seeker.forms
    assert any("until is '2018-13-77'; give a day like 2024-01-31" in one for one in seeker.shown)


@pytest.mark.parametrize(("name", "value"), [("expand", -1), ("expand", 6), ("reflect", "perhaps")])
def test_values_that_are_none_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    file = tmp_path / "agentorchestra.toml"
    file.write_text(f"[parts]\n{name} = {json.dumps(value)}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=f"parts.{name}"):
        load_settings(file)
    assert Settings().parts.expand is None
