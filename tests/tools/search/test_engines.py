"""Every engine against a server that speaks its format: what it is sent, what is read from it, and how it fails."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import MissingKeyError, SettingsError, ToolError
from agentorchestra.core.settings import SearchEngineSettings, SearchSettings
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.engines import engines_of, key_variables
from agentorchestra.tools.web.search.types import EngineError, SearchEngine, SearchResult, query_of
from tests.site import Site
from tests.site.engines import KEY
from tests.tools.search.support import KEYS, settings

NOW = datetime(2024, 6, 1, tzinfo=UTC)
BY_KEY = ["serper", "google", "brave", "bing", "baidu", "firecrawl", "tavily"]
ON_THE_SITE = [*BY_KEY, "searxng", "duckduckgo", "mojeek", "brave_web", "yahoo"]


@dataclass
class Context:
    """What an engine needs of a run."""

    keys: dict[str, str]
    now: datetime = NOW

    def secret(self, name: str) -> str:
        if name not in self.keys:
            raise MissingKeyError(f"{name} is not set")
        return self.keys[name]


def engine(site: Site, name: str, **more: Any) -> SearchEngine:
    chosen = settings(site, name, engine={name: more} if more else None).search
    found = engines_of(chosen, folder=Path(), near=Path(), web=WebClient(), environ=KEYS)
    assert not found.lacking
    return found.by_name[name]


async def ask(
    running: Site, name: str, text: str, *, keys: dict[str, str] = KEYS, **options: Any
) -> list[SearchResult]:
    query = query_of(text, now=NOW, **options)
    one = engine(running, name)
    return await one.search(query, Context(keys))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ON_THE_SITE)
async def test_results_have_title_address_and_words(site: Site, name: str) -> None:
    found = await ask(site, name, "automated lighthouse", limit=3)
    assert found[0].title == "Lighthouse to be automated"
    assert found[0].address == f"{site.address}/news/2019/automation"
    assert "will have no keeper" in found[0].snippet
    assert "<" not in found[0].snippet
    assert len(found) <= 3


@pytest.mark.parametrize("name", [*BY_KEY, "searxng"])
async def test_dates_of_results_are_read_where_the_engine_gives_them(site: Site, name: str) -> None:
    found = {one.address.removeprefix(site.address): one.date for one in await ask(site, name, "lighthouse")}
    expected = None if name == "firecrawl" else "2019-10-18"
    assert found["/news/2019/automation"] == expected
    assert found["/places/lighthouse"] is None


@pytest.mark.parametrize("name", BY_KEY)
async def test_days_are_given_to_the_engine(site: Site, name: str) -> None:
    found = await ask(site, name, "lighthouse keeper mill", since="2018-06", until="2018-12-31")
    places = [one.address.removeprefix(site.address) for one in found]
    assert "/news/2018/tide-mill-grinds" in places
    assert "/news/2019/automation" not in places


@pytest.mark.parametrize(
    ("name", "where", "wanted"),
    [
        ("serper", "body", {"q": "mill site:x.example", "gl": "de", "hl": "en", "num": 7}),
        ("google", "query", {"q": "mill", "siteSearch": "x.example", "lr": "lang_en", "gl": "de", "num": "7"}),
        ("brave", "query", {"q": "mill site:x.example", "country": "DE", "search_lang": "en", "count": "7"}),
        ("bing", "query", {"q": "mill site:x.example", "mkt": "en-DE", "count": "7"}),
        ("firecrawl", "body", {"query": "mill site:x.example", "country": "DE", "limit": 7}),
        ("tavily", "body", {"query": "mill", "include_domains": ["x.example"], "max_results": 7}),
        ("searxng", "query", {"q": "mill site:x.example", "language": "en"}),
    ],
)
async def test_language_region_site_and_limit_are_sent(
    site: Site, name: str, where: str, wanted: dict[str, Any]
) -> None:
    found = await ask(site, name, "mill", language="en", region="de", site="x.example", limit=7)
    sent: Any = site.requests[-1].query if where == "query" else json.loads(site.requests[-1].body)
    assert wanted.items() <= sent.items()
    assert found == []  # what is listed from elsewhere is left out


async def test_baidu_is_asked_in_its_own_words(site: Site) -> None:
    found = await ask(site, "baidu", "灯塔 自动化", site="x.example", since="2019-01-01", until="2019-12-31")
    sent = json.loads(site.requests[-1].body)
    assert sent["messages"] == [{"role": "user", "content": "灯塔 自动化"}]
    assert sent["search_filter"] == {
        "match": {"site": ["x.example"]},
        "range": {"page_time": {"gte": "2019-01-01", "lte": "2019-12-31"}},
    }
    assert found == []
    (chinese, *_) = await ask(site, "baidu", "灯塔 自动化")
    assert (chinese.title, chinese.date) == ("斯凯罗岛的灯塔", "2019-12-05")


async def test_scholarly_works(site: Site) -> None:
    (work,) = await ask(site, "crossref", "tide mill", until="2021")
    assert work.title == "The power of the tide mill of Skerrow"
    assert work.address == "https://doi.org/10.5555/skerrow.2020.1"
    assert work.snippet == "M. Ferrand. Annals of Small Mills"
    assert work.date == "2020-03-01"
    assert site.requests[-1].query["filter"] == "until-pub-date:2021-12-31"


async def test_articles_with_their_first_sentences(site: Site) -> None:
    found = await ask(site, "wikipedia", "lighthouse")
    assert found[0].address == f"{site.address}/wikis/en/wiki/Skerrow_Lighthouse"
    assert found[0].snippet == "Skerrow Lighthouse is an automatic lighthouse without a keeper."
    assert found[0].archived is None


async def test_articles_as_they_were_on_a_day(site: Site) -> None:
    (then,) = await ask(site, "wikipedia", "lighthouse", until="2012-01-01")
    assert then.snippet == "Skerrow Lighthouse. Skerrow Lighthouse is a manned lighthouse. Its keeper is Ada Lindqvist."
    assert then.address.endswith("/w/index.php?title=Skerrow%20Lighthouse&oldid=1001")
    assert (then.archived, then.archived_date) == (then.address, "2011-02-03")
    # There was no article then.
    assert await ask(site, "wikipedia", "lighthouse", until="2009-01-01") == []


async def test_the_wiki_of_a_language(site: Site) -> None:
    (found,) = await ask(site, "wikipedia", "斯凯罗灯塔", language="zh")
    assert found.snippet == "斯凯罗灯塔是一座自动化灯塔。"
    assert site.requests[-1].path == "/wikis/zh/w/api.php"


async def test_captures_of_a_page_newest_first(site: Site) -> None:
    page = f"{site.address}/places/lighthouse"
    found = await ask(site, "archive", f"what was {page}?", until="2018")
    assert [one.date for one in found] == ["2017-03-02", "2009-05-14"]
    assert found[0].address == f"{site.address}/web/20170302080000/{page}"
    # The page's own address stands inside the copy's only: nobody may have received it.
    assert "http" not in found[0].title


async def test_the_archive_is_asked_for_addresses(site: Site) -> None:
    with pytest.raises(ToolError, match=r"^finds pages by their address: give it in the query, or the site$"):
        await ask(site, "archive", "lighthouse keeper")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("mood", "sentence"),
    [
        ("429", "asked to wait 30 s (429)"),
        ("500", "failed (500)"),
        ("html", "answered HTML that is no list of results"),
        ("broken", "answered broken JSON"),
        ("huge", "answered more than 4 MiB"),
        ("bomb", "answered more than 4 MiB"),
        ("empty", "answered nothing"),
        ("redirect", "leads to an address that is not asked (not on the public network, or redirected)"),
    ],
)
async def test_what_is_no_answer_is_said(site: Site, mood: str, sentence: str) -> None:
    site.moods["serper"] = mood
    with pytest.raises(EngineError) as caught:
        await ask(site, "serper", "lighthouse")
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", [*BY_KEY, "searxng", "crossref", "wikipedia", "archive"])
async def test_json_of_another_form_breaks_nothing(site: Site, name: str) -> None:
    site.moods[name] = "odd"
    try:
        found = await ask(site, name, "http://x.example/")
    except EngineError as error:
        assert str(error) in ("answered JSON that is no list of results", "answered JSON that is no list of captures")
    else:
        assert found == []


@pytest.mark.parametrize("mood", ["html", "broken", "empty"])
async def test_a_page_that_lists_nothing_is_no_empty_list(site: Site, mood: str) -> None:
    site.moods["duckduckgo"] = mood
    with pytest.raises(EngineError, match="answered HTML that"):
        await ask(site, "duckduckgo", "lighthouse")


async def test_an_engine_that_asked_to_wait_is_left_alone(site: Site) -> None:
    site.moods["serper"] = "429"
    one = engine(site, "serper")
    with pytest.raises(EngineError, match="asked to wait 30 s"):
        await one.search(query_of("lighthouse"), Context(KEYS))  # type: ignore[arg-type]
    site.moods.clear()
    with pytest.raises(EngineError, match=r"asked to wait; (29|30) s of that are left"):
        await one.search(query_of("lighthouse"), Context(KEYS))  # type: ignore[arg-type]
    assert len(site.asked("/engines/serper")) == 1


@pytest.mark.parametrize("name", ["serper", "brave", "bing", "baidu", "firecrawl", "tavily"])
async def test_a_key_that_is_refused_is_named_and_not_shown(site: Site, name: str) -> None:
    variable = f"{name.upper()}_API_KEY"
    with pytest.raises(EngineError) as caught:
        await ask(site, name, "lighthouse", keys={variable: "wrong"})
    assert str(caught.value) == f"refused the key in {variable} (401)"


async def test_google_refuses_a_key_by_400(site: Site) -> None:
    with pytest.raises(EngineError, match=r"^refused the key in GOOGLE_API_KEY \(400\)$"):
        await ask(site, "google", "lighthouse", keys={"GOOGLE_API_KEY": "wrong"})


async def test_a_server_that_is_not_there(site: Site) -> None:
    one = engine(site, "serper", base_url="http://127.0.0.1:9")
    with pytest.raises(EngineError, match=r"^cannot be reached$"):
        await one.search(query_of("lighthouse"), Context(KEYS))  # type: ignore[arg-type]


async def test_an_engine_cannot_lead_into_this_machine() -> None:
    """Only an address of the user's own settings may: not the one that a name of the maker's leads to."""

    async def here(name: str) -> list[str]:
        return ["127.0.0.1"]

    chosen = settings(Site(), "serper").search.model_copy(update={"engine": {}})
    web = WebClient(resolver=here)
    one = engines_of(chosen, folder=Path(), near=Path(), web=web, environ=KEYS).by_name["serper"]
    with pytest.raises(EngineError, match="leads to an address that is not asked"):
        await one.search(query_of("lighthouse"), Context(KEYS))  # type: ignore[arg-type]


def test_what_cannot_be_asked_says_what_it_lacks(site: Site) -> None:
    chosen = settings(site, "auto").search.model_copy(update={"engine": {}})
    found = engines_of(chosen, folder=Path(), near=Path(), web=WebClient(), environ={"TAVILY_API_KEY": KEY})
    assert [one.name for one in found.ready][:2] == ["local", "tavily"]
    assert found.lacking["serper"] == "needs a key: set SERPER_API_KEY"
    assert found.lacking["searxng"] == "needs its address: set search.engine.searxng.base_url"
    assert found.lacking["model"] == "needs the model that searches: set search.engine.model.model"


def test_google_needs_the_id_of_a_search_engine(site: Site) -> None:
    chosen = settings(site, "google", engine={"google": {"engine_id": ""}}).search
    found = engines_of(chosen, folder=Path(), near=Path(), web=WebClient(), environ=KEYS)
    assert found.lacking["google"] == "needs search.engine.google.engine_id (cx)"


def test_a_name_that_no_engine_has_is_refused(site: Site) -> None:
    with pytest.raises(SettingsError, match="search names the engine 'altavista'; it can be one of: auto, local, "):
        engines_of(settings(site, "altavista").search, folder=Path(), near=Path(), web=WebClient(), environ={})


def test_the_variables_of_keys() -> None:
    chosen = settings(Site(), "serper").search
    mine = {**chosen.engine, "searxng": SearchEngineSettings(key_env="MY_SEARXNG")}
    assert {"SERPER_API_KEY", "MY_SEARXNG"} <= {*key_variables(chosen.model_copy(update={"engine": mine}))}


@pytest.mark.parametrize(
    ("name", "said", "sentence"),
    [
        ("local", {"key_env": "X"}, "search.engine.local has key_env, which it does not use; it can have: timeout_s"),
        (
            "model",
            {"cost_usd": 1},
            "search.engine.model has cost_usd, which it does not use; it can have: model, timeout_s",
        ),
        (
            "serper",
            {"engine_id": "x"},
            "search.engine.serper has engine_id, which it does not use; it can have: base_url",
        ),
        ("serper", {"base_url": "ftp://x.example"}, "search.engine.serper.base_url: "),
        ("wikipedia", {"base_url": "{language}.example"}, "search.engine.wikipedia.base_url: "),
    ],
)
def test_settings_that_an_engine_would_ignore_are_refused(name: str, said: dict[str, Any], sentence: str) -> None:
    chosen = SearchSettings(engine={name: SearchEngineSettings(**said)})
    with pytest.raises(SettingsError) as caught:
        engines_of(chosen, folder=Path(), near=Path(), web=WebClient(), environ={})
    assert str(caught.value).startswith(sentence)


async def test_an_installed_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cards.py").write_text(
        "from agentorchestra.tools.web.search.types import SearchResult, Traits\n"
        "class Cards:\n"
        "    name, traits = 'cards', Traits(network=False)\n"
        "    def __init__(self, web, settings, environ):\n"
        "        self.drawer = environ['DRAWER']\n"
        "    def missing(self):\n"
        "        return ''\n"
        "    async def search(self, query, ctx):\n"
        "        return [SearchResult(title=query.text, address=self.drawer)]\n"
    )
    folder = tmp_path / "cards-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: cards\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[agentorchestra.search_engines]\ncards = cards:Cards\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    chosen = SearchSettings(engines=("cards",))
    found = engines_of(chosen, folder=Path(), near=Path(), web=WebClient(), environ={"DRAWER": "drawer 3"})
    (result,) = await found.by_name["cards"].search(query_of("tides"), Context({}))  # type: ignore[arg-type]
    assert (result.title, result.address) == ("tides", "drawer 3")


async def test_a_page_made_to_be_large_is_read_in_part(site: Site) -> None:
    """Nested items that each hold all the text: as many copies of it as there are items."""
    site.moods["duckduckgo"] = "nested"
    found = await ask(site, "duckduckgo", "lighthouse", limit=50)
    assert len(found) <= 50
    assert all(len(one.title) <= 300 and len(one.snippet) <= 600 for one in found)


async def test_baidu_counts_a_chinese_character_twice(site: Site) -> None:
    await ask(site, "baidu", "灯塔" * 40)
    assert json.loads(site.requests[-1].body)["messages"][0]["content"] == "灯塔" * 18
