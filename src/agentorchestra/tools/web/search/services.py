"""Engines that are services with an interface of their own, most of them by key.

Each is written from its maker's documentation; docs/web-search.md says which have only been tried against servers that
speak their format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any, ClassVar

from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.service import Service, result, rows, taken
from agentorchestra.tools.web.search.types import Query, SearchResult, Traits


class ServiceEngine:
    """What these engines have in common."""

    name: ClassVar[str]
    base: ClassVar[str] = ""
    key_env: ClassVar[str] = ""
    own: ClassVar[Traits] = Traits()

    def __init__(self, web: WebClient, settings: SearchEngineSettings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self.service = Service(web, settings, base=self.base, key_env=self.key_env, environ=environ)
        self.traits = replace(self.own, cost_usd=settings.cost_usd, timeout_s=settings.timeout_s)

    def missing(self) -> str:
        """What it needs and has not."""
        return self.service.missing().replace("NAME", self.name)

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        """What it finds, best first."""
        return taken(await self._search(query, ctx), query)

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        raise NotImplementedError


class Serper(ServiceEngine):
    """Google's results by serper.dev."""

    name = "serper"
    base = "https://google.serper.dev"
    key_env = "SERPER_API_KEY"
    own = Traits(dated=True, about="Google's results")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        asked = {
            "q": query.words,
            "num": query.limit,
            "gl": query.region,
            "hl": query.language,
            "tbs": google_range(query.since, query.until),
        }
        body = {name: value for name, value in asked.items() if value}
        data = await self.service.json("POST", "/search", json=body, headers={"X-API-KEY": self.service.key(ctx)})
        return [
            found
            for one in rows(data, "organic")
            for found in result(one.get("title"), one.get("link"), one.get("snippet"), one.get("date"), query)
        ]


class Google(ServiceEngine):
    """Google's Custom Search JSON API."""

    name = "google"
    base = "https://www.googleapis.com"
    key_env = "GOOGLE_API_KEY"
    own = Traits(dated=True, about="Google's results, of the sites of a search engine of your own")

    def missing(self) -> str:
        """Its key, or the search engine's id."""
        return super().missing() or ("" if self.settings.engine_id else "needs search.engine.google.engine_id (cx)")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        days = [f"{one:%Y%m%d}" if one else "" for one in (query.since, query.until)]
        params = {
            "key": self.service.key(ctx),
            "cx": self.settings.engine_id,
            "q": query.text,
            "num": min(query.limit, 10),
            "siteSearch": query.site,
            "siteSearchFilter": "i" if query.site else "",
            "lr": {"": "", "zh": "lang_zh-CN|lang_zh-TW"}.get(query.language, f"lang_{query.language}"),
            "gl": query.region,
            "sort": f"date:r:{days[0]}:{days[1]}" if any(days) else "",
        }
        data = await self.service.json("GET", "/customsearch/v1", params=params)
        return [
            found
            for one in rows(data, "items")
            for found in result(one.get("title"), one.get("link"), one.get("snippet"), _published(one), query)
        ]


def _published(item: Mapping[str, Any]) -> Any:
    """The date that the page itself says, in what Google keeps of its head."""
    pagemap = item.get("pagemap")
    tags = pagemap.get("metatags") if isinstance(pagemap, dict) else None
    first = tags[0] if isinstance(tags, list) and tags and isinstance(tags[0], dict) else {}
    names = ("article:published_time", "og:published_time", "datepublished", "date", "dc.date")
    return next((first[name] for name in names if first.get(name)), None)


class Brave(ServiceEngine):
    """Brave's own index."""

    name = "brave"
    base = "https://api.search.brave.com"
    key_env = "BRAVE_API_KEY"
    own = Traits(dated=True, about="an index of the web of its own")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        params = {
            "q": query.words,
            "count": min(query.limit, 20),
            "country": query.region.upper(),
            "search_lang": {"zh": "zh-hans", "ja": "jp", "pt": "pt-pt"}.get(query.language, query.language),
            "freshness": _span(query, "to"),
        }
        headers = {"X-Subscription-Token": self.service.key(ctx), "Accept": "application/json"}
        data = await self.service.json("GET", "/res/v1/web/search", params=params, headers=headers)
        return [
            found
            for one in rows(data, "web", "results")
            for found in result(
                one.get("title"), one.get("url"), one.get("description"), one.get("page_age") or one.get("age"), query
            )
        ]


class Bing(ServiceEngine):
    """Bing's Web Search API, version 7. Its maker closed it in August 2025; others offer its format."""

    name = "bing"
    base = ""
    key_env = "BING_API_KEY"
    own = Traits(dated=True, about="Bing's results")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        market = f"{query.language}-{query.region.upper()}" if query.language and query.region else ""
        params = {
            "q": query.words,
            "count": query.limit,
            "mkt": market,
            "setLang": query.language,
            "freshness": _span(query, ".."),
        }
        headers = {"Ocp-Apim-Subscription-Key": self.service.key(ctx)}
        data = await self.service.json("GET", "/v7.0/search", params=params, headers=headers)
        return [
            found
            for one in rows(data, "webPages", "value")
            for found in result(one.get("name"), one.get("url"), one.get("snippet"), one.get("datePublished"), query)
        ]


class Baidu(ServiceEngine):
    """Baidu's index, by the AI Search interface of its cloud (Qianfan)."""

    name = "baidu"
    base = "https://qianfan.baidubce.com"
    key_env = "BAIDU_API_KEY"
    own = Traits(frozenset({"general", "chinese"}), dated=True, about="the web in Chinese")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": _short(query.text, 72)}],
            "search_source": "baidu_search_v2",
            "resource_type_filter": [{"type": "web", "top_k": query.limit}],
        }
        wanted: dict[str, Any] = {}
        if query.site:
            wanted["match"] = {"site": [query.site]}
        days = {"gte": query.since, "lte": query.until}
        if span := {name: day.isoformat() for name, day in days.items() if day}:
            wanted["range"] = {"page_time": span}
        if wanted:
            body["search_filter"] = wanted
        headers = {"Authorization": f"Bearer {self.service.key(ctx)}"}
        data = await self.service.json("POST", "/v2/ai_search/web_search", json=body, headers=headers)
        return [
            found
            for one in rows(data, "references")
            for found in result(one.get("title"), one.get("url"), one.get("content"), one.get("date"), query)
        ]


def _short(text: str, most: int) -> str:
    """The beginning of a text, in which a Chinese character counts twice: Baidu refuses what is longer."""
    left = most
    for at, char in enumerate(text):
        left -= 1 if char.isascii() else 2
        if left < 0:
            return text[:at].rstrip()
    return text


class Firecrawl(ServiceEngine):
    """Firecrawl's search (v2)."""

    name = "firecrawl"
    base = "https://api.firecrawl.dev"
    key_env = "FIRECRAWL_API_KEY"
    own = Traits(dated=True, about="the web, by a service that also reads pages")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        asked = {
            "query": query.words[:500],
            "limit": query.limit,
            "country": query.region.upper(),
            "tbs": google_range(query.since, query.until),
        }
        body = {name: value for name, value in asked.items() if value}
        headers = {"Authorization": f"Bearer {self.service.key(ctx)}"}
        data = await self.service.json("POST", "/v2/search", json=body, headers=headers)
        return [
            found
            for one in rows(data, "data", "web")
            for found in result(one.get("title"), one.get("url"), one.get("description"), one.get("date"), query)
        ]


class Tavily(ServiceEngine):
    """Tavily's search."""

    name = "tavily"
    base = "https://api.tavily.com"
    key_env = "TAVILY_API_KEY"
    own = Traits(dated=True, about="the web, with passages that fit the question")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        body: dict[str, Any] = {"query": query.text, "max_results": min(query.limit, 20)}
        if query.since:
            body["start_date"] = query.since.isoformat()
        if query.until:
            body["end_date"] = query.until.isoformat()
        if query.site:
            body["include_domains"] = [query.site]
        headers = {"Authorization": f"Bearer {self.service.key(ctx)}"}
        data = await self.service.json("POST", "/search", json=body, headers=headers)
        return [
            found
            for one in rows(data, "results")
            for found in result(one.get("title"), one.get("url"), one.get("content"), one.get("published_date"), query)
        ]


class SearXNG(ServiceEngine):
    """A SearXNG of your own; its settings must allow the format `json`."""

    name = "searxng"
    own = Traits(about="many engines at once, by a server of your own")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        params = {"q": query.words, "format": "json", "language": query.language}
        headers = {"Authorization": f"Bearer {self.service.key(ctx)}"} if self.service.key_env else {}
        data = await self.service.json("GET", "/search", params=params, headers=headers)
        return [
            found
            for one in rows(data, "results")
            for found in result(one.get("title"), one.get("url"), one.get("content"), one.get("publishedDate"), query)
        ]


class Crossref(ServiceEngine):
    """The register of scholarly works by Crossref."""

    name = "crossref"
    base = "https://api.crossref.org"
    own = Traits(frozenset({"scholarly"}), dated=True, about="scholarly works by title, author and journal")

    async def _search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        days = [
            f"{name}:{day.isoformat()}"
            for name, day in (("from-pub-date", query.since), ("until-pub-date", query.until))
            if day
        ]
        params = {
            "query.bibliographic": query.text,
            "rows": query.limit,
            "filter": ",".join(days),
            "select": "DOI,URL,title,container-title,issued,author,abstract",
        }
        data = await self.service.json("GET", "/works", params=params)
        return [
            found
            for one in rows(data, "message", "items")
            for found in result(_first(one.get("title")), one.get("URL"), _about(one), _issued(one), query)
        ]


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else None


def _about(work: Mapping[str, Any]) -> str:
    names = [
        " ".join(str(one[part]) for part in ("given", "family") if one.get(part)) for one in rows(work, "author")[:4]
    ]
    parts = (", ".join(names), _first(work.get("container-title")), work.get("abstract"))
    return ". ".join(str(one) for one in parts if one)


def _issued(work: Mapping[str, Any]) -> str | None:
    """The day a work was published on; the first of the month or year where no more is known."""
    issued = work.get("issued")
    parts = _first(issued.get("date-parts")) if isinstance(issued, dict) else None
    if not isinstance(parts, list) or not parts or not all(isinstance(one, int) for one in parts):
        return None
    year, month, day = (*parts, 1, 1)[:3] if len(parts) < 3 else parts[:3]
    return f"{year:04}-{month:02}-{day:02}"


def google_range(since: date | None, until: date | None) -> str:
    """Google's way to say two days: `cdr:1,cd_min:1/31/2024,cd_max:2/29/2024`."""
    if since is None and until is None:
        return ""
    days = [("cd_min", since), ("cd_max", until)]
    said = [f"{name}:{day.month}/{day.day}/{day.year}" for name, day in days if day]
    return ",".join(["cdr:1", *said])


def _span(query: Query, between: str) -> str:
    """`2024-01-01to2024-02-01`: both ends have to be named."""
    if query.since is None and query.until is None:
        return ""
    last = query.until or (query.now.date() if query.now else date.max)
    return f"{query.since or date(1990, 1, 1)}{between}{last}"


SERVICES: tuple[type[ServiceEngine], ...] = (
    Serper,
    Google,
    Brave,
    Tavily,
    Firecrawl,
    Bing,
    Baidu,
    SearXNG,
    Crossref,
)

__all__ = ["SERVICES", "ServiceEngine", "google_range"]
