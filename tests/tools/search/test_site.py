"""The website that the tests of searching and reading share: its pages, its search page, its archive."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import aiohttp

from tests.site import PAGES, Site


async def test_every_page_is_reached_by_links(site: Site) -> None:
    seen: set[str] = set()
    waiting = ["/"]
    async with aiohttp.ClientSession() as session:
        while waiting:
            path = waiting.pop()
            seen.add(path)
            async with session.get(site.address + path) as answer:
                assert answer.status == 200, path
                text = await answer.text() if answer.content_type == "text/html" else ""
            for link in re.findall(r'<a href="([^"]+)"', text):
                where = urljoin(path, link)
                if where.startswith("/") and where not in seen:
                    waiting.append(where)
    assert {*PAGES} - seen == {"/private/ledger"}
    assert len(seen) >= 30


async def test_its_search_page_lists_what_holds_the_words(site: Site) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{site.address}/search?q=tide+mill") as answer:
        text = await answer.text()
    assert text.index('href="/places/tide-mill"') > 0
    assert 'href="/data/rainfall"' not in text


async def test_its_archive_has_pages_as_they_were(site: Site) -> None:
    page = "http://www.skerrow.example/places/lighthouse"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{site.address}/wayback/available?url={page}&timestamp=20100101") as answer:
            copy = (await answer.json())["archived_snapshots"]["closest"]["url"]
        async with session.get(copy) as answer:
            assert "The lamp burns paraffin." in await answer.text()
