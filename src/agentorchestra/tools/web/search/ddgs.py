"""The engines of the library `ddgs`: pages of results as browsers get them, without a key.

The library says how each engine is asked and reads its page. What goes over the network goes through our own client,
which judges every address, bounds every answer and keeps no cookies: the library's own client does none of that (it
also passes for a browser, so an engine may answer it where it shows us a puzzle; we say so then).
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.service import Service, results
from agentorchestra.tools.web.search.types import EngineError, Query, SearchResult, Traits

# Ours, and where each is asked
NAMES: dict[str, str] = {
    "duckduckgo": "https://html.duckduckgo.com",
    "mojeek": "https://www.mojeek.com",
    "brave_web": "https://search.brave.com",
    "yahoo": "https://search.yahoo.com",
}
_MOST_CHARS = 1_000_000
_MOST_ITEMS = 60
_MOST_WORDS = 4_000


class _Cookies:
    """Stands in for the library's client while it makes a request up."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.client = self

    def set_cookies(self, _url: str, cookies: Mapping[str, str]) -> None:
        self.kept |= cookies

    def headers_update(self, _headers: Mapping[str, str]) -> None:
        """Do nothing: the engine's class has them."""


class Ddgs(Service):
    """One of the library's engines, by one of `NAMES`."""

    def __init__(self, name: str, web: WebClient, settings: SearchEngineSettings, environ: Mapping[str, str]) -> None:
        traits = Traits(about="the web, by its page for browsers")
        super().__init__(name, web, settings, environ, base=NAMES[name], traits=traits)

    def missing(self) -> str:
        is_installed = importlib.util.find_spec("ddgs") is not None
        return "" if is_installed else "needs the extra `search`: pip install 'agentorchestra[search]'"

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        if problem := self.missing():
            raise EngineError(problem)
        engine, path, payload, cookies = await asyncio.to_thread(self._request, query)
        headers = {"accept": "text/html", **dict(engine.headers_update)}
        if cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        if engine.search_method == "POST":
            answer = await self.ask("POST", path, form=payload, headers=headers)
        else:
            answer = await self.ask("GET", path, params=payload, headers=headers)
        entries = await asyncio.to_thread(self._read, engine, answer.text)
        if not entries and not re.search("no results|no pages found|did not find results", answer.text, re.IGNORECASE):
            # An empty list and a puzzle for robots look alike to the library.
            raise EngineError("answered HTML that is no list of results (it may take us for a robot)")
        return results(entries, ("title", "address", "snippet", "date"), query)

    def _request(self, query: Query) -> tuple[Any, str, dict[str, str], dict[str, str]]:
        from ddgs.engines import ENGINES

        kind = ENGINES["text"].get("brave" if self.name == "brave_web" else self.name)
        if kind is None:
            raise EngineError("is not offered by the installed version of ddgs")
        engine = kind.__new__(kind)  # without its client, which would be made here
        jar = _Cookies()
        engine.http_client = jar  # type: ignore[assignment]
        region = f"{query.region or 'us'}-{query.language or 'en'}"
        payload = engine.build_payload(query.words, region, "moderate", None, 1)
        place = urlsplit(engine.search_url)
        return engine, place.path, {name: str(value) for name, value in payload.items()}, jar.kept

    def _read(self, engine: Any, text: str) -> list[dict[str, str]]:
        try:
            entries = engine.post_extract_results(_extract(engine, text))
        except Exception as error:  # of lxml, on pages that are none
            raise EngineError(f"answered HTML that cannot be read ({type(error).__name__})") from None
        return [{"title": entry.title, "address": _direct_link(entry.href), "snippet": entry.body} for entry in entries]


def _extract(engine: Any, text: str) -> list[Any]:
    """Do as the library's `extract_results`, but of a page made to be large: so many items, so much of each."""
    tree = engine.extract_tree(engine.pre_process_html(text[:_MOST_CHARS]))
    entries = []
    for item in tree.xpath(engine.items_xpath)[:_MOST_ITEMS]:
        entry = engine.result_type()
        for name, path in engine.elements_xpath.items():
            words = "".join(islice((str(piece)[:_MOST_WORDS] for piece in item.xpath(path)), 200))
            setattr(entry, name, " ".join(words[:_MOST_WORDS].split()))
        entries.append(entry)
    return entries


def _direct_link(href: str) -> str:
    """Return the address behind a link that leads through the engine's own counter."""
    text = f"https:{href}" if href.startswith("//") else href
    if "/l/?" in text and "uddg=" in text:
        return next(iter(parse_qs(urlsplit(text).query).get("uddg", [])), "")
    return text
