"""`fetch` in whole runs, over a real website: places, parts, quotes, kept pages, robots.txt, traps, policy."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import JsonValue

from agentorchestra.agents.citations import look_up
from agentorchestra.core.content import without_numbers
from agentorchestra.core.effects import Outcome, Tag
from agentorchestra.core.errors import DoorError, SettingsError, WebError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import Settings, WebSettings
from agentorchestra.core.spec import Citation, RunResult
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.tools.files.places import parse_place
from agentorchestra.tools.registry import builtin_tools
from agentorchestra.tools.web import http, reader
from agentorchestra.tools.web.page_cache import KeptPages
from agentorchestra.tools.web.pages import Page
from agentorchestra.tools.web.reader import WebPageReader
from agentorchestra.trust.addresses import links_in, links_within
from agentorchestra.workspace import Workspace
from tests.site import Site, served
from tests.support.web import serving


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with served() as made:
        yield made


def web_of(site: Site, **more: Any) -> WebSettings:
    return WebSettings.model_validate({"private": [f"127.0.0.1:{site.port}"], "max_mib": 2, **more})


def workspace(folder: Path, model: ScriptedModel, settings: WebSettings, **options: Any) -> Workspace[Any]:
    return Workspace(
        folder, store=MemoryStore(), models={model.name: model}, settings=Settings(web=settings), environ={}, **options
    )


def shown(outcome: Outcome) -> str:
    return "\n".join(getattr(block, "text", "") for block in outcome.blocks())


def places(outcome: Outcome) -> dict[str, str]:
    return {
        block.source.place: without_numbers(block)
        for block in outcome.blocks()
        if block.type == "text" and block.source is not None and block.source.place
    }


async def in_run(folder: Path, settings: WebSettings, work: Any, task: str = "read") -> RunResult:
    """A run in which a composite tool does the work through the door."""

    failed: list[Exception] = []

    @tool(effect="composite")
    async def job(ctx: RunContext[Any]) -> str:
        try:
            await work(ctx)
        except DoorError:
            raise
        except Exception as error:  # an assertion's, too: in a run it would be an observation
            failed.append(error)
        return "worked"

    model = ScriptedModel([decide(calls=[call("job")]), decide(calls=[call("done", answer="read")])])
    async with workspace(folder, model, settings, tools=[job]) as ws:
        result = await ws.run(task, model=model, system="react", on_ask="deny")
        for error in failed:
            raise error
        assert result.answer == "read", result
        assert (await ws.replay(result.run_id)).answer == "read" and not failed
    return result


async def test_pages_documents_and_quotes_with_places(site: Site, tmp_path: Path) -> None:
    """HTML, PDF and a workbook; quotes are checked against what the run read; a replay reads nothing."""
    tower, paper, oysters = (
        f"{site.address}{path}" for path in ("/places/lighthouse", "/papers/tidal-energy.pdf", "/data/oysters.xlsx")
    )

    async def work(ctx: RunContext[Any]) -> None:
        page = await ctx.call_tool("fetch", url=tower)
        quote = "stands 31 metres high on the west cliff"
        place = next(place for place, text in places(page).items() if quote in text)
        assert "title: The lighthouse" in shown(page) and "(part='links')" in shown(page)
        assert {block.source.ref for block in page.blocks() if block.source is not None} == {tower}
        read = await ctx.call_tool("fetch", url=paper)
        assert "11.5 kilowatts" in places(read)["p. 2"] and "pp. 1-2" in shown(read)
        assert [*places(await ctx.call_tool("fetch", url=paper, part="p. 2"))] == ["p. 2"]
        book = await ctx.call_tool("fetch", url=oysters, part="Oysters!B2")
        assert places(book) == {"Oysters!B2": "41200"}
        links = await ctx.call_tool("fetch", url=tower, part="links")
        assert f"- Ada Lindqvist: {site.address}/people/ada-lindqvist" in places(links)["links"]
        wrong = await ctx.call_tool("fetch", url=tower, part="p. 9")
        assert not wrong.ok and "has no part 'p. 9'; it has lines 1-" in shown(wrong)
        quotes: list[JsonValue] = [
            {"source": tower, "place": place, "quote": quote},
            {"source": tower, "place": place, "quote": "stands 30 metres high"},
            {"source": tower, "place": "line 99", "quote": quote},
            {"source": paper, "place": "p. 2", "quote": "11.5 kilowatts at most"},
            {"source": paper, "place": "p. 1", "quote": "11.5 kilowatts at most"},
            {"source": oysters, "place": "Oysters!B2", "quote": "41200"},
            {"source": f"{site.address}/about", "place": "line 1", "quote": "never read"},
        ]
        assert isinstance(ctx, BranchContext)
        cited = [Citation.model_validate(one) for one in quotes]
        assert (await look_up(cited, ctx)).misquoted == [cited[1], cited[2]]
        checked = await ctx.call_tool("check_quotes", quotes=quotes)
        assert checked.value == [True, False, False, True, "p. 2", True, None]  # the page before it was meant
        assert (await ctx.read_artifact(page.artifacts[0])).decode().startswith("# The lighthouse")
        assert (await ctx.read_artifact(read.artifacts[0])).startswith(b"%PDF")

    await in_run(tmp_path / "ws", web_of(site), work, f"read {tower} {paper} {oysters}")
    assert len(site.asked("/papers/")) == 1 and len(site.asked("/robots.txt")) == 1


async def test_links_that_were_read_may_be_followed_and_composed_ones_may_not(site: Site, tmp_path: Path) -> None:
    start = f"{site.address}/places/lighthouse"

    async def work(ctx: RunContext[Any]) -> None:
        assert (await ctx.call_tool("fetch", url=start)).ok
        followed = await ctx.call_tool("fetch", url=f"{site.address}/people/ada-lindqvist", part="lines 1-3")
        assert followed.ok and "Lindqvist" in shown(followed)
        composed = await ctx.call_tool("fetch", url=f"{site.address}/collect?data=SECRET")
        assert composed.status == "denied", composed
        assert "composed address can carry data out" in str(composed.error)

    await in_run(tmp_path / "ws", web_of(site), work, f"read {start}")
    assert site.asked("/people/") and not site.asked("/collect")


async def test_a_long_page_is_read_in_parts_with_its_headings_first(site: Site, tmp_path: Path) -> None:
    address = f"{site.address}/long"

    async def work(ctx: RunContext[Any]) -> None:
        first = await ctx.call_tool("fetch", url=address)
        assert "Headings:" in shown(first) and "Year 1960" in shown(first)
        assert len(places(first)) == 1, "one piece"
        way_on = re.search(r"Read on with part='(lines [\d-]+)'", shown(first))
        assert way_on is not None
        second = await ctx.call_tool("fetch", url=address, part=way_on[1])
        pieces = places(first) | places(second)
        spans = [place for piece in pieces if (place := parse_place(piece)) is not None]
        assert len(spans) == len(pieces) == 2 and "Headings:" not in shown(second)
        assert all(one.last < other.first for one, other in itertools.pairwise(spans))
        whole = (await ctx.read_artifact(first.artifacts[0])).decode().split("\n")
        for piece, text in pieces.items():
            found = parse_place(piece)
            assert found is not None and "\n".join(whole[found.first - 1 : found.last]) == text

    await in_run(tmp_path / "ws", web_of(site), work, f"read {address}")
    assert len(site.asked("/long")) == 1


MORE = tuple(f"/trap/{name}" for name in ("charset", "instructions", "truncated", "scripted", "leading", "legacy"))
TOO_LARGE = ("/trap/endless", "/trap/big")


async def test_traps_become_observations_and_the_run_goes_on(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "IDLE_S", 0.5)
    traps = {
        "/trap/bomb": "is empty",
        "/trap/binary": "holds binary data",
        "/trap/silent": "fell silent for 0.5 s",
        "/trap/loop/0": "redirects in a circle",
        "/trap/redirect?to=http://169.254.169.254/latest": "is not on the public network (link-local",
        "/trap/redirect?to=http://127.0.0.1:1/": "is not on the public network (loopback",
        "/private/ledger": "the site's robots.txt asks programs not to; read another source",
        "/trap/redirect?to=/private/ledger": "the site's robots.txt asks programs not to",
        "/no/such/page": "answered 404 (Not Found): there is no such page; check the address, or search for it",
    }

    async def work(ctx: RunContext[Any]) -> None:
        for path, said in traps.items():
            outcome = await ctx.call_tool("fetch", url=f"{site.address}{path}")
            assert outcome.status == "error" and said in shown(outcome), (path, shown(outcome))
            assert shown(outcome).count("\n") < 3 and len(shown(outcome)) < 800
        wrong = await ctx.call_tool("fetch", url=f"{site.address}/trap/charset")
        assert "Die Fähre fährt über den Sund." in shown(wrong)
        broken = await ctx.call_tool("fetch", url=f"{site.address}/trap/truncated")
        assert "Note: the site broke off: this is what came of it; fresh=true tries again." in shown(broken)
        assert "It was a dark and" in shown(broken)
        again = await ctx.call_tool("fetch", url=f"{site.address}/trap/truncated")  # it was not kept
        assert again.ok and "kept since" not in shown(again)
        scripted = await ctx.call_tool("fetch", url=f"{site.address}/trap/scripted")
        assert "the environment `browser` shows it" in shown(scripted) and "createRoot" not in shown(scripted)
        leading = await ctx.call_tool("fetch", url=f"{site.address}/trap/leading")
        assert "High tide is at noon." in shown(leading) and "by 1 redirect(s)" in shown(leading)
        guessed = await ctx.call_tool("fetch", url=f"{site.address}/trap/legacy")
        assert "Маяк построен" in shown(guessed) and "Read as Windows-1251, a guess by its letters (it says" in shown(
            guessed
        )
        assert "read it again with another `encoding`." in shown(guessed)
        for kept in (False, True):  # what is read so is kept beside what was guessed
            named = await ctx.call_tool("fetch", url=f"{site.address}/trap/legacy", encoding="koi8-r")
            assert "лЮЪЙ ОНЯРПНЕМ" in shown(named) and "guess" not in shown(named)
            assert ("kept since" in shown(named)) is kept
        page = (await ctx.read_artifact(named.artifacts[0])).decode()
        assert "лЮЪЙ ОНЯРПНЕМ" in page  # quotes are checked against what was read last
        assert "Маяк построен" in shown(await ctx.call_tool("fetch", url=f"{site.address}/trap/legacy"))
        unknown = await ctx.call_tool("fetch", url=f"{site.address}/trap/legacy", encoding="klingon")
        assert "cannot be read: the encoding 'klingon' is unknown; give a name such as 'cp1251'" in shown(unknown)
        endless = await ctx.call_tool("fetch", url=f"{site.address}/trap/endless")
        assert "Note: it is longer; only its beginning was read." in shown(endless)
        big = await ctx.call_tool("fetch", url=f"{site.address}/trap/big")
        further = re.search(r"Read on with part='([^']+)'", shown(big))
        assert "2,097,152 bytes" in shown(big) and further is not None
        more = await ctx.call_tool("fetch", url=f"{site.address}/trap/big", part=further[1])
        assert "x" * 4_000 in shown(more)
        hidden = await ctx.call_tool("fetch", url=f"{site.address}/trap/instructions")
        assert "High tide is at noon." in shown(hidden) and "Ignore what" not in shown(hidden)

    named = [f"{site.address}{path}" for path in (*traps, *MORE, *TOO_LARGE)]
    await in_run(tmp_path / "ws", web_of(site), work, "\n".join(named))
    assert not site.asked("/private/")


# -- kept pages --------------------------------------------------------------------------------------------------------


async def test_a_page_is_read_once_for_a_workspace_and_never_for_another(site: Site, tmp_path: Path) -> None:
    address = f"{site.address}/faq"
    settings = web_of(site, reader="raw")
    mine, other = WebPageReader(settings, tmp_path / "mine"), WebPageReader(settings, tmp_path / "other")
    first, body, kept = await mine.page(f"{address}#questions")
    assert not kept and (await mine.page(address))[1:] == (body, True)
    assert (await WebPageReader(settings, tmp_path / "mine").page(address))[0] == first  # by another process, later
    assert len(site.asked("/faq")) == 1
    assert not (await mine.page(address, fresh=True))[2] and len(site.asked("/faq")) == 2
    assert not (await other.page(address))[2] and len(site.asked("/faq")) == 3
    (path,) = (tmp_path / "mine" / "web").glob("*/*")
    head, _, rest = path.read_bytes().partition(b"\n")
    past = json.loads(head) | {"read_at": "2020-01-01T00:00:00+00:00"}
    path.write_bytes(json.dumps(past).encode() + b"\n" + rest)
    none = WebPageReader(settings.model_copy(update={"cache_mib": 0.0}), tmp_path / "mine")
    assert not (await none.page(address))[2]
    assert not KeptPages(tmp_path / "mine" / "web", 1 << 20, 86_400).get(address, "raw")  # too old
    assert KeptPages(tmp_path / "mine" / "web", 1 << 20, 1e12).get(address, "raw")
    assert not KeptPages(tmp_path / "mine" / "web", 1 << 20, 1e12).get(address, "text")  # by another reader


def page_at(url: str, size: int) -> Page:
    now = "2999-01-01T00:00:00+00:00"
    return Page(url, url, (), now, "text/plain", size, {"kind": "text", "text": "", "media_type": "text/plain"})


def test_kept_pages_are_bounded_and_damage_is_a_page_that_is_not_kept(tmp_path: Path) -> None:
    import datetime

    folder = tmp_path / "web"
    kept = KeptPages(folder, 40_000, 1e12)
    now = datetime.datetime.now(datetime.UTC).isoformat()
    urls = [f"http://a.example/{n}" for n in range(12)]
    for turn, url in enumerate(urls):
        page = page_at(url, 5_000)
        kept.put(Page.from_json({**page.to_json(), "read_at": now}), b"x" * 5_000)
        for path in folder.glob("*/*"):  # the order of use, whatever the clock of the file system
            if path.stat().st_mtime > 1_000_000:
                os.utime(path, (turn, turn))
    assert sum(path.stat().st_size for path in folder.glob("*/*")) <= 40_000
    assert kept.get(urls[0], "text") is None and kept.get(urls[-1], "text") is not None
    kept.put(page_at("http://a.example/large", 30_000), b"x" * 30_000)
    assert kept.get("http://a.example/large", "text") is None
    for path in folder.glob("*/*"):
        path.write_bytes(path.read_bytes()[:-1])
    assert kept.get(urls[-1], "text") is None
    for path in folder.glob("*/*"):
        path.write_bytes(b"\xff{}")
    assert kept.get(urls[-1], "text") is None
    KeptPages(tmp_path / "file" / "web", 1000, 10).put(page_at("http://a.example/", 1), b"x")
    (tmp_path / "plain").write_text("a file where a folder should be")
    KeptPages(tmp_path / "plain", 10_000, 10).put(page_at("http://a.example/", 1), b"x")


# -- readers and robots ------------------------------------------------------------------------------------------------


async def test_a_reading_service_is_given_the_address_and_its_key(site: Site, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    async def service(request: web.Request) -> web.Response:
        asked.append((request.raw_path, request.headers.get("Authorization", "")))
        return web.Response(text="# Read by a service\n\nWords.", content_type="text/markdown")

    async with serving(service) as address:
        settings = web_of(site, reader="service", service_url=f"{address}/{{url}}", service_key_env="KEY", robots=False)
        reader = WebPageReader(settings)
        # The service is public or the user's own; the page must be public, as if it were read from here.
        with pytest.raises(WebError, match="is not on the public network"):
            await reader.page(f"{site.address}/faq", secret=lambda name: f"value of {name}")
        page, _, _ = await reader.page("http://93.184.216.34/a?b=1", secret=lambda name: f"value of {name}")
        assert (
            page.document["text"].startswith("# Read by a service") and page.final_url == "http://93.184.216.34/a?b=1"
        )
        assert asked == [("/http://93.184.216.34/a?b=1", "Bearer value of KEY")]
        quoted = WebPageReader(settings.model_copy(update={"service_url": f"{address}/read?u={{url}}"}))
        await quoted.page("http://93.184.216.34/a?b=1", secret=lambda name: "k")
        assert asked[-1][0] == "/read?u=http%3A%2F%2F93.184.216.34%2Fa%3Fb%3D1"
    with pytest.raises(
        SettingsError, match=r"web\.service_url is ''; with web\.reader = 'service' it is the address of"
    ):
        WebPageReader(WebSettings(reader="service"))


@pytest.mark.long
async def test_a_crawler_reads_what_the_page_links_to_on_its_site(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CRAWLED_PAGES", 2)
    tower = f"{site.address}/places/lighthouse"

    async def work(ctx: RunContext[Any]) -> None:
        found = await ctx.call_tool("fetch", url=tower)
        sources = [block.source.ref for block in found.blocks() if block.type == "text" and block.source is not None]
        assert [*dict.fromkeys(sources)] == [tower, f"{site.address}/news/2019/automation"]
        place, text = [*places(found).items()][-1]
        cited: dict[str, JsonValue] = {"source": sources[-1], "place": place, "quote": text.split("\n")[0]}
        assert (await ctx.call_tool("check_quotes", quotes=[cited])).value == [True]

    await in_run(tmp_path / "ws", web_of(site, reader="crawler"), work, f"read {tower}")
    # Two pages and no more: not the navigation, not the third page, not what the second one links to.
    assert [one.path for one in site.requests] == ["/robots.txt", "/places/lighthouse", "/news/2019/automation"]


async def test_robots_are_respected_unless_the_user_says_otherwise(site: Site) -> None:
    from agentorchestra.tools.web.addresses import parse_address
    from agentorchestra.tools.web.robots import Robots

    def robots(settings: WebSettings) -> Robots:
        return WebPageReader(settings)._robots

    page, _, _ = await WebPageReader(web_of(site, robots=False, reader="raw")).page(f"{site.address}/private/ledger")
    assert "robots.txt says so" in page.document["text"] and not site.asked("/robots.txt")
    rules = {
        "text": "User-agent: agentorchestra\nDisallow: /a\nAllow: /a/b$\n\nUser-agent: *\nDisallow: /",
        "status": 200,
    }

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=str(rules["text"]), status=int(str(rules["status"])))

    async with serving(answer) as address:
        settings = WebSettings(private=(parse_address(address).place,))
        checker = robots(settings)
        await checker.check(parse_address(f"{address}/c"))
        await checker.check(parse_address(f"{address}/a/b"))
        with pytest.raises(WebError, match=r"/a/c is not read: .* \(the user can set web\.robots = false\)"):
            await checker.check(parse_address(f"{address}/a/c"))
        with pytest.raises(WebError, match="asks programs not to"):
            await robots(settings.model_copy(update={"user_agent": "other/2"})).check(parse_address(f"{address}/c"))
        for status, allowed in ((404, True), (403, True), (500, False)):
            rules["status"] = status
            if allowed:
                await robots(settings).check(parse_address(f"{address}/a/c"))
            else:
                with pytest.raises(WebError, match=r"robots\.txt, which says what programs may read, answered 500"):
                    await robots(settings).check(parse_address(f"{address}/c"))


# -- the tool ----------------------------------------------------------------------------------------------------------


def test_what_fetch_says_of_itself(tmp_path: Path) -> None:
    fetch = builtin_tools(tmp_path).tools["fetch"]
    assert fetch.traits.tags == {Tag.READ, Tag.NETWORK}
    assert fetch.schema.parameters["properties"]["part"]["format"] == "name-inside"
    assert not (tmp_path / "web").exists()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (
            "see [Skerrow](https://site.example/wiki/Skerrow_(island)), an island",
            "https://site.example/wiki/Skerrow_(island)",
        ),
        ("see (https://site.example/wiki/Skerrow_(island)).", "https://site.example/wiki/Skerrow_(island)"),
        ("[a](https://site.example/a)[b](https://site.example/b)", "https://site.example/a"),
        ("[a](https://site.example/a?x=1&amp;y=(2))", "https://site.example/a?x=1&y=(2)"),
    ],
)
def test_links_of_markdown_are_received_whole(text: str, address: str) -> None:
    assert address in links_in(text)


def test_a_link_at_the_beginning_of_a_line_is_received() -> None:
    value: JsonValue = [{"text": "Results:\nhttps://site.example/a\n\thttps://site.example/b", "n": [1, None]}]
    assert links_within(value) == {"https://site.example/a", "https://site.example/b"}
