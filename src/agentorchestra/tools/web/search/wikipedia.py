"""Wikipedia: its articles, and as they were on a day."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import Any
from urllib.parse import quote, urlencode

from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.service import Fields, Service, plain, results, rows, value_at
from agentorchestra.tools.web.search.types import EngineError, Query, SearchResult, Traits

_REVISIONS = 3  # articles of which an earlier version is looked for
_TITLES = 5  # articles whose first sentences are shown


class Wikipedia(Service):
    """MediaWiki's interface of Wikipedia, or of a wiki of your own, whose `base_url` may hold `{language}` too."""

    def __init__(self, web: WebClient, settings: SearchEngineSettings, environ: Mapping[str, str]) -> None:
        traits = Traits(
            frozenset({"encyclopedia", "past"}),
            dated=True,
            about="Wikipedia, with the versions of its articles by date",
        )
        base = "https://{language}.wikipedia.org"
        super().__init__("wikipedia", web, settings, environ, base=base, traits=traits)

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        """Return articles; with `until`, as they were on that day."""
        base = self.base.replace("{language}", query.language or "en")
        pages = rows(await self._api(base, list="search", srsearch=query.text, srlimit=query.limit), "query", "search")
        titles = [str(page["title"]) for page in pages if isinstance(page.get("title"), str)]
        if query.until is not None:
            earlier = await asyncio.gather(*(self._as_of(base, title, query.until) for title in titles[:_REVISIONS]))
            return [version for versions in earlier for version in versions]
        beginnings = await self._beginnings(base, titles[:_TITLES])
        fields: Fields = (
            "title",
            lambda row: f"{base}/wiki/{quote(str(row.get('title')).replace(' ', '_'), safe='():,;/@!$*')}",
            lambda row: beginnings.get(str(row.get("title"))) or row.get("snippet"),
            "timestamp",
        )
        return results(pages, fields, replace(query, site=""))

    async def _beginnings(self, base: str, titles: list[str]) -> dict[str, str]:
        """Return the first sentences of articles, where the wiki can give them."""
        if not titles:
            return {}
        with suppress(EngineError):  # the titles are found, with words of their own
            data = await self._api(
                base, prop="extracts", exintro=1, explaintext=1, exlimit="max", exchars=600, titles="|".join(titles)
            )
            pages = rows(data, "query", "pages")
            return {str(row.get("title")): str(row["extract"]) for row in pages if isinstance(row.get("extract"), str)}
        return {}

    async def _as_of(self, base: str, title: str, day: date) -> list[SearchResult]:
        """Return the version of an article that stood at the end of a day."""
        data = await self._api(
            base,
            prop="revisions",
            titles=title,
            rvlimit=1,
            rvdir="older",
            rvstart=f"{day.isoformat()}T23:59:59Z",
            rvprop="ids|timestamp|content",
            rvslots="main",
        )
        versions = []
        for page in rows(data, "query", "pages"):
            for revision in rows(page, "revisions")[:1]:
                number = revision.get("revid")
                if not isinstance(number, int):
                    continue
                text = value_at(revision, "slots/main/content") or ""
                address = f"{base}/w/index.php?{urlencode({'title': title, 'oldid': number}, quote_via=quote)}"
                row = {**revision, "title": title, "address": address, "text": _without_markup(str(text))}
                for hit in results([row], ("title", "address", "text", "timestamp"), Query("")):
                    versions.append(hit.model_copy(update={"archived": hit.address, "archived_date": hit.date}))
        return versions

    async def _api(self, base: str, **params: Any) -> Any:
        query = {"action": "query", "format": "json", "formatversion": 2, **params}
        return await self.json("GET", "/w/api.php", params=query, base=base)


_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}|\{\|.*?\|\}|<ref[^>]*/>|<ref.*?</ref>|<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_FILE = re.compile(r"\[\[(?:File|Image|Datei|文件):[^\[\]]*(?:\[\[[^\[\]]*\]\][^\[\]]*)*\]\]", re.IGNORECASE)


def _without_markup(text: str) -> str:
    """Return the first words of an article's source."""
    text = text[:8_000]
    for _ in range(4):  # templates stand inside templates
        text, count = _TEMPLATE.subn(" ", text)
        if not count:
            break
    text = _LINK.sub(r"\1", _FILE.sub(" ", text))
    return plain(re.sub(r"'{2,}|^[=*#:;]+|={2,}", "", text, flags=re.MULTILINE))
