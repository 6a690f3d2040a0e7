"""`search` in a workspace: several engines at the same time, one list, every failure said, everything in the log."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.tools.web.search.types import Query, SearchResult, Traits
from agentorchestra.workspace import Workspace
from tests.site import Site
from tests.site.engines import KEY
from tests.tools.search.support import KEYS, searched, settings, titles, workspace


async def test_three_engines_of_which_one_is_dead_and_one_slow(site: Site, tmp_path: Path) -> None:
    site.moods["brave"] = "silent"
    chosen = settings(
        site,
        "serper",
        "brave",
        "tavily",
        engine={"tavily": {"base_url": "http://127.0.0.1:9"}, "brave": {"timeout_s": 0.3}},
    )
    found = await searched(tmp_path, chosen, "automated lighthouse")
    assert titles(found)[0] == "Lighthouse to be automated"
    assert found["results"][0]["sources"] == {"serper": 1}
    assert found["failed"] == {"brave": "did not answer in 0.3 s", "tavily": "cannot be reached"}
    assert found["engines"]["brave"] == "failed; the whole web"


async def test_an_engine_that_hangs_is_left_alone(site: Site, tmp_path: Path) -> None:
    site.moods["serper"] = "silent"
    chosen = settings(site, "serper", "brave", engine={"serper": {"timeout_s": 0.3}})
    async with workspace(tmp_path, chosen) as ws:
        first = (await ws.tcp.invoke("search", {"query": "lighthouse"})).result()
        site.moods.clear()
        second = (await ws.tcp.invoke("search", {"query": "mill"})).result()
    assert isinstance(first, dict) and first["failed"] == {"serper": "did not answer in 0.3 s"}
    assert isinstance(second, dict) and isinstance(second["failed"], dict)
    assert re.fullmatch(r"did not answer lately; it is asked again in \d\d s", str(second["failed"]["serper"]))
    assert len(site.asked("/engines/serper")) == 1
    assert len(site.asked("/engines/brave")) == 2


def asks_once(request: ModelRequest) -> ModelResponse:
    """Search, and answer with all that came of it."""
    results = [one.text for one in request.messages if one.role == "tool"]
    if results:
        return decide(calls=[call("done", answer=results[0])])
    return decide(calls=[call("search", query="automated lighthouse")])


@pytest.mark.long
async def test_what_an_engine_gave_is_given_again_for_a_while_and_costs_nothing(site: Site, tmp_path: Path) -> None:
    asked: dict[str, JsonValue] = {"query": "automated lighthouse"}
    costs: dict[str, dict[str, Any]] = {"serper": {"cost_usd": 0.5}}
    kept = settings(site, "serper", engine=costs, cache_s=3600)
    runs = []
    for _ in range(2):  # the second time in another workspace object, as the arms of an evaluation are
        async with workspace(tmp_path, kept) as ws:
            runs.append(await ws.run("Search.", system="react", model=ScriptedModel(asks_once)))
            assert (await ws.replay(runs[-1].run_id)).answer == runs[-1].answer
    assert len(site.asked("/engines/serper")) == 1
    assert [one.cost_usd for one in runs] == [0.5, 0.0]
    assert runs[0].answer == runs[1].answer and "Lighthouse to be automated" in runs[0].answer
    async with workspace(tmp_path, kept) as ws:
        await ws.tcp.invoke("search", {**asked, "limit": 20})
    assert len(site.asked("/engines/serper")) == 2, "more results were asked for"
    async with workspace(tmp_path, settings(site, "serper", engine=costs)) as ws:
        await ws.tcp.invoke("search", asked)
    assert len(site.asked("/engines/serper")) == 3, "nothing is taken from there unless the settings say so"
    for one in (tmp_path / "ws" / "web").rglob("*"):
        if one.is_file():
            one.write_bytes(b"{broken")
    async with workspace(tmp_path, kept) as ws:
        await ws.tcp.invoke("search", asked)
    assert len(site.asked("/engines/serper")) == 4, "what cannot be read is asked again"


async def test_engines_are_asked_at_the_same_time(site: Site, tmp_path: Path) -> None:
    """The second answers although the first one never does: nothing else could be if they were asked in turn."""
    site.moods["serper"] = "silent"
    chosen = settings(site, "serper", "brave", engine={"serper": {"timeout_s": 0.5}})
    found = await searched(tmp_path, chosen, "lighthouse")
    assert {*found["failed"]} == {"serper"}
    assert {one.path for one in site.requests} == {"/engines/serper/search", "/engines/brave/res/v1/web/search"}


async def test_all_that_fail_are_one_sentence(site: Site, tmp_path: Path) -> None:
    site.moods |= {"serper": "429", "brave": "html", "tavily": "broken"}
    found = await searched(tmp_path, settings(site, "serper", "brave", "tavily"), "lighthouse")
    assert found["error"] == (
        "No search engine gave results: serper asked to wait 30 s (429); tavily answered broken JSON; "
        "brave answered HTML that is no list of results"
    ) or found["error"] == (
        "No search engine gave results: serper asked to wait 30 s (429); brave answered HTML that is no list of "
        "results; tavily answered broken JSON"
    )


async def test_a_page_in_many_spellings_is_one_result(site: Site, tmp_path: Path) -> None:
    site.host |= {"serper": "https://www.skerrow.example", "brave": "http://skerrow.example"}
    site.host |= {"tavily": "https://m.skerrow.example", "bing": "https://skerrow.example:443"}
    site.spelling |= {
        "serper": "{path}?utm_source=serper&gclid=1",
        "brave": "{path}/",
        "tavily": "/amp{path}#top",
        "bing": "{path}/index.html?fbclid=7",
    }
    found = await searched(tmp_path, settings(site, "serper", "brave", "tavily", "bing"), "automated lighthouse keeper")
    assert len(titles(found)) == len({*titles(found)})
    assert found["results"][0]["sources"] == {"serper": 1, "brave": 1, "tavily": 1, "bing": 1}


async def test_days_are_kept_to_and_what_is_unknown_is_said(site: Site, tmp_path: Path) -> None:
    """SearXNG takes no days: what it lists is looked through afterwards."""
    found = await searched(
        tmp_path, settings(site, "searxng"), "lighthouse mill", since="2018-01-01", until="2018-12-31"
    )
    dates = {one["title"]: one.get("date") for one in found["results"]}
    assert dates["The tide mill grinds again"] == "2018-06-29"
    assert "Lighthouse to be automated" not in dates
    assert None in dates.values()
    outside, undated = found["notes"]
    assert outside.endswith("results outside of the days that were asked for are left out.")
    assert undated.startswith("Of ") and undated.endswith("it is not known when they were published.")


async def test_the_past_comes_with_copies_of_the_day(site: Site, tmp_path: Path) -> None:
    found = await searched(
        tmp_path, settings(site, "serper", "wikipedia", "archive"), "lighthouse keeper", until="2018-01-01"
    )
    by_title = {one["title"]: one for one in found["results"]}
    assert found["engines"]["wikipedia"] == "1 results; until 2018-01-01 is the past"
    assert by_title["Skerrow Lighthouse"]["archived_date"] == "2016-10-01"
    page = f"{site.address}/places/lighthouse"
    assert by_title["The lighthouse"]["archived"] == f"{site.address}/web/20170302080000/{page}"


async def test_a_copy_of_a_day_or_the_next_one(site: Site, tmp_path: Path) -> None:
    page = f"{site.address}/places/harbour"
    async with workspace(tmp_path, settings(site, "archive")) as ws:
        before = (await ws.tcp.invoke("archived_page", {"address": page, "date": "2022-05-05"})).result()
        after = (await ws.tcp.invoke("archived_page", {"address": page, "date": "2001"})).result()
        none = await ws.tcp.invoke("archived_page", {"address": f"{site.address}/faq", "date": "2022"})
    assert isinstance(before, dict) and before["date"] == "2012-06-01"
    assert isinstance(after, dict) and after["snippet"] == (
        "There is no copy of 2001-12-31 or before: this one is from 2012-06-01."
    )
    assert none.error == "The archive has no copy of this page."


async def test_a_chinese_question_reaches_the_chinese_page(site: Site, tmp_path: Path) -> None:
    chosen = settings(site, "baidu", "wikipedia", "serper")
    found = await searched(tmp_path, chosen, "斯凯罗岛 灯塔 守塔人")
    assert found["results"][0]["title"] == "斯凯罗岛的灯塔"
    assert found["engines"]["baidu"].endswith("the question is in Chinese")
    assert site.asked("/wikis/zh/")


async def test_the_choice_and_every_engine_are_effects_of_their_own(site: Site, tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            decide(calls=[call("search", query="lighthouse keeper", until="2018-01-01")]),
            decide(calls=[call("done", answer="Ada Lindqvist")]),
        ]
    )
    chosen = settings(site, "serper", "brave", "wikipedia", engine={"brave": {"cost_usd": 0.005}})
    site.moods["serper"] = "429"
    async with Workspace(
        tmp_path / "ws", store=MemoryStore(), settings=chosen, models={model.name: model}, environ=KEYS
    ) as ws:
        result = await ws.run(
            "Who kept the lighthouse in 2017?", model=model, system="react", budget=Budget(cost_usd=1)
        )
        asked = len(site.requests)
        events = await ws.store.load(result.run_id)
        report = await ws.replay(result.run_id)
    assert result.answer_text == report.answer == "Ada Lindqvist"
    assert len(site.requests) == asked  # a replay asks nobody
    done: dict[str, Any] = {}
    names: dict[str, str] = {}
    for event in events:
        body = event.body or {}
        if event.type == "started" or "effect" in body:
            effect = body.get("effect") or {}
            if effect.get("kind") == EffectKind.INVOKE_TOOL:
                names[f"{event.branch}{event.n}"] = str(effect["component"]).partition("@")[0]
        if event.type == "completed":
            done[names.get(f"{event.branch}{event.n}", "")] = body["outcome"]
    assert done["choose_search_engines"]["value"] == {
        "wikipedia": "until 2018-01-01 is the past",
        "brave": "the whole web",
        "serper": "the whole web",
    }
    assert done["search_engine_serper"]["error"] == "asked to wait 30 s (429)"
    assert done["search_engine_brave"]["usage"]["cost_usd"] == 0.005
    assert result.usage.cost_usd == 0.005
    assert KEY not in json.dumps([event.body for event in events], default=str)


async def test_an_engine_that_costs_more_than_is_left_is_not_asked(site: Site, tmp_path: Path) -> None:
    shown: list[str] = []

    def finish(request: Any) -> Any:
        shown.append(request.messages[-2].text)
        return decide(calls=[call("done", answer="x")])

    chosen = settings(site, "serper", "brave", engine={"brave": {"cost_usd": 0.5}})
    model = ScriptedModel([decide(calls=[call("search", query="lighthouse")]), finish])
    async with workspace(tmp_path, chosen, models={model.name: model}) as ws:
        result = await ws.run("q", model=model, system="react", budget=Budget(cost_usd=0.1))
    assert result.answer == "x"
    assert site.asked("/engines/serper") and not site.asked("/engines/brave")
    assert "costs more than is left: " in shown[0]


async def test_a_run_that_had_a_key_is_replayed_where_there_is_none(site: Site, tmp_path: Path) -> None:
    steps = [decide(calls=[call("search", query="lighthouse")]), decide(calls=[call("done", answer="x")])]
    chosen = settings(site, "serper", "wikipedia")
    model = ScriptedModel(steps)
    async with Workspace(tmp_path / "ws", settings=chosen, models={model.name: model}, environ=KEYS) as ws:
        run = await ws.run("q", model=model, system="react")
    asked = len(site.requests)
    async with Workspace(tmp_path / "ws", settings=chosen, models={model.name: model}, environ={}) as ws:
        assert (await ws.replay(run.run_id)).answer == "x"
        found = (await ws.tcp.invoke("search", {"query": "lighthouse"})).result()
    assert isinstance(found, dict) and isinstance(found["engines"], dict)
    assert {*found["engines"]} == {"wikipedia"}
    assert len(site.requests) > asked


@pytest.mark.long
async def test_a_choice_of_a_model_is_replayed_where_other_engines_can_be_asked(site: Site, tmp_path: Path) -> None:
    steps = [decide(calls=[call("search", query="lighthouse")]), decide(calls=[call("done", answer="x")])]
    chooser = ScriptedModel(['{"engines": [{"reason": "fits best", "name": "serper"}]}'], name="chooser")
    model = ScriptedModel(steps)
    models = {"chooser": chooser, model.name: model}
    chosen = settings(site, "serper", "wikipedia", choice="model").model_copy(update={"model": model.name})
    chosen = Settings.model_validate(
        {**chosen.model_dump(exclude_unset=True), "roles": {"search": {"model": "chooser"}}}
    )
    async with Workspace(tmp_path / "ws", settings=chosen, models=models, environ=KEYS) as ws:
        run = await ws.run("q", system="react")
    assert run.answer == "x"
    async with Workspace(tmp_path / "ws", settings=chosen, models=models, environ={}) as ws:
        assert (await ws.replay(run.run_id)).answer == "x"


async def test_a_search_that_was_interrupted_asks_only_who_has_not_answered(site: Site, tmp_path: Path) -> None:
    site.moods["brave"] = "silent"
    model = ScriptedModel(
        [decide(calls=[call("search", query="lighthouse")]), decide(calls=[call("done", answer="x")])]
    )
    async with workspace(tmp_path, settings(site, "serper", "brave"), models={model.name: model}) as ws:
        run = asyncio.create_task(ws.run("q", model=model, system="react"))

        async def answered() -> str:
            """The run, once one engine's outcome is in its log and the other one was asked."""
            while True:
                for state in await ws.store.run_states():
                    done = [one for one in await ws.store.load(state.id) if one.type == "completed"]
                    listed = any(f"{site.address}/" in str(one.body) for one in done)
                    if listed and site.asked("/engines/brave"):
                        return state.id
                await asyncio.sleep(0.01)

        run_id = await answered()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        site.moods.clear()
        result = await ws.resume(run_id)
    assert result.answer == "x"
    assert len(site.asked("/engines/serper")) == 1
    assert len(site.asked("/engines/brave")) == 2


@pytest.mark.parametrize(("cost", "limit"), [(0.0, None), (0.005, 1.0)])
async def test_with_a_paid_engine_the_default_budget_holds(
    site: Site, tmp_path: Path, cost: float, limit: float | None
) -> None:
    model = ScriptedModel([decide(calls=[call("done", answer="x")])])
    chosen = settings(site, "brave", engine={"brave": {"cost_usd": cost}})
    async with workspace(tmp_path, chosen, models={model.name: model}) as ws:
        result = await ws.run("q", model=model, system="react")
        record = await ws.store.get_run(result.run_id)
    assert record is not None
    assert record.manifest.budget.cost_usd == limit


def told(request: Any) -> str:
    return str(request.messages[-1].text) + str(request.messages[-2].text)


async def run_calls(site: Site, folder: Path, chosen: Settings, *steps: Any, **options: Any) -> Any:
    model = ScriptedModel([*steps, decide(calls=[call("done", answer="x")])])
    async with Workspace(
        folder / "ws", store=MemoryStore(), settings=chosen, models={model.name: model}, environ=KEYS
    ) as ws:
        return await ws.run("Find out about the island.", model=model, system="react", on_ask="deny", **options)


async def test_what_is_searched_for_is_no_address_and_links_of_results_are_received(site: Site, tmp_path: Path) -> None:
    """After something untrusted was seen, a word that looks like a host is searched for all the same."""
    seen: list[str] = []

    def after(*calls: Any) -> Any:
        def reply(request: Any) -> Any:
            seen.append(told(request))
            return decide(calls=[*calls])

        return reply

    chosen = settings(site, "serper", "archive").model_copy(
        update={"web": Settings.model_validate({"web": {"private": [site.address.removeprefix("http://")]}}).web}
    )
    await run_calls(
        site,
        tmp_path,
        chosen,
        decide(calls=[call("search", query="automated lighthouse")]),
        after(call("search", query="lighthouse.example", site="skerrow.example")),
        after(call("fetch", url=f"{site.address}/news/2019/automation")),
        after(call("search", query=f"{site.address}/collect?data=secret")),
        after(call("archived_page", address=f"{site.address}/collect?data=secret", date="2020")),
        # To have searched for an address is not to have received it.
        after(call("fetch", url=f"{site.address}/collect?data=secret")),
        after(),
    )
    assert [json.loads(one.body)["q"] for one in site.asked("/engines/serper")] == [
        "automated lighthouse",
        "lighthouse.example site:skerrow.example",
        f"{site.address}/collect?data=secret",
    ]
    assert site.asked("/news/2019/automation")
    assert not site.asked("/collect")


async def test_an_engine_of_ones_own(site: Site, tmp_path: Path) -> None:
    class Own:
        name = "own"
        traits = Traits(network=False, about="the card index of the office")

        def missing(self) -> str:
            return ""

        async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
            return [SearchResult(title=f"Card on {query.text}", address="card 7", date="2001-01-01")]

    class Broken(Own):
        name = "broken"

        async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
            return {"results": []}  # type: ignore[return-value]

    options = {"search_engines": [Own(), Broken()]}
    found = await searched(tmp_path, settings(site, "own", "broken"), "tides", options=options)
    assert titles(found) == ["Card on tides"]
    assert found["failed"] == {"broken": "gave dict in place of a list of SearchResult"}


async def test_what_is_no_engine_is_refused(site: Site, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is no search engine: it needs a name of lower case letters"):
        async with workspace(tmp_path, settings(site), search_engines=[object()]):
            pass


async def test_without_engines_there_is_no_search(site: Site, tmp_path: Path) -> None:
    async with workspace(tmp_path, settings(site)) as ws:
        assert not {"search", "archived_page"} & {*ws.catalog.tools}


@pytest.mark.long
async def test_a_model_that_searches_is_asked_through_the_door(site: Site, tmp_path: Path) -> None:
    profile = {
        "finder": {
            "model": "openai:finder",
            "base_url": f"{site.address}/engines/model/v1",
            "api_key_env": "",
            "price": {"input": 1, "output": 1},
            "stream": False,
        }
    }
    chosen = settings(site, "model", engine={"model": {"model": "finder"}})
    chosen = Settings.model_validate({**chosen.model_dump(exclude_unset=True), "models": profile})
    model = ScriptedModel(
        [
            decide(calls=[call("search", query="automated lighthouse")]),
            decide(calls=[call("fetch", url=f"{site.address}/news/2019/automation")]),
            decide(calls=[call("done", answer="x")]),
        ]
    )
    async with Workspace(
        tmp_path / "ws", store=MemoryStore(), settings=chosen, models={model.name: model}, environ=KEYS
    ) as ws:
        result = await ws.run("q", model=model, system="react", on_ask="deny")
    assert site.asked("/engines/model")
    assert result.usage.cost_usd == 20 / 1_000_000
    # What a model lists may be made up: it is no received link.
    assert not site.asked("/news/2019/automation")


@pytest.mark.long
async def test_research_with_citations(site: Site, tmp_path: Path) -> None:
    """What is found is read, and what is cited stands there: on a page of a PDF, on a line of a page in Chinese."""
    places: dict[str, str] = {}
    checked: list[Any] = []

    @tool(effect="composite")
    async def research(ctx: RunContext[Any], question: str, quote: str) -> str:
        """Find, read, cite."""
        found: Any = (await ctx.call_tool("search", query=question)).result()
        address = found["results"][0]["address"]
        for block in (await ctx.call_tool("fetch", url=address)).blocks():
            if quote in getattr(block, "text", "") and block.source is not None and block.source.place:
                places[address.removeprefix(site.address)] = place = block.source.place
        right: dict[str, JsonValue] = {"source": address, "place": place, "quote": quote}
        wrong: dict[str, JsonValue] = {**right, "quote": "12.5 kilowatts"}
        checked.append((await ctx.call_tool("check_quotes", quotes=[right, wrong])).result())
        return f"{address}, {place}"

    web = Settings.model_validate({"web": {"private": [site.address.removeprefix("http://")]}}).web
    await run_calls(
        site,
        tmp_path,
        settings(site, "serper", "baidu", "brave").model_copy(update={"web": web}),
        decide(
            calls=[
                call("research", question="kilowatts measured wheel tides", quote="11.5 kilowatts at most"),
                call("research", question="潮汐磨坊 水轮 落叶松", quote="水轮由落叶松制成"),
            ]
        ),
        tools=[research],
    )
    assert places["/papers/tidal-energy.pdf"] == "p. 2"
    assert places["/zh/tide-mill"].startswith("line")
    assert checked == [[True, False], [True, False]]


async def test_a_model_chooses_the_engines_where_the_settings_say_so(site: Site, tmp_path: Path) -> None:
    chooser = ScriptedModel(
        [
            """{"engines": [{"reason": "fits best", "name": "tavily"}, {"reason": "old", "name": "altavista"}]}""",
            "I would ask all of them.",
        ],
        name="chooser",
    )
    chosen = settings(site, "serper", "tavily", choice="model")
    chosen = chosen.model_copy(update={"model": "chooser"})
    async with workspace(tmp_path, chosen, models={"chooser": chooser}) as ws:
        first = (await ws.tcp.invoke("search", {"query": "lighthouse"})).result()
        second = (await ws.tcp.invoke("search", {"query": "lighthouse"})).result()
    assert isinstance(first, dict) and isinstance(second, dict)
    assert first["engines"] == {"tavily": "9 results; fits best"}
    asked = chooser.requests[0].messages[0].text + chooser.requests[0].messages[-1].text
    assert "- serper: Google's results" in asked
    assert "altavista" not in asked
    # A model that does not choose does not end the search: the rules do it, and the reason says so.
    assert isinstance(second["engines"], dict)
    assert {*second["engines"]} == {"serper", "tavily"}
    assert "by rules: the model that chooses answered something else" in str(second["engines"]["serper"])


async def test_a_tool_of_the_users_may_be_called_like_an_engine(tmp_path: Path) -> None:
    @tool(effect="pure")
    def search_google(query: str) -> str:
        """The user's own."""
        return f"mine: {query}"

    async with Workspace(tmp_path / "ws", tools=[search_google]) as ws:
        assert (await ws.tcp.invoke("search_google", {"query": "tides"})).result() == "mine: tides"
