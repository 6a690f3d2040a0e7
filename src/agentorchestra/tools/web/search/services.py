"""Engines that are services with an interface of their own, most of them by key: a table of how each is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.service import NO_KEY, NO_QUOTA, Fields, Service, results, rows
from agentorchestra.tools.web.search.types import EngineError, Query, SearchResult, Traits

ServiceCall = tuple[str, str, dict[str, Any]]  # method, path, options of `Service.json`


@dataclass(frozen=True)
class Api:
    """One service: how it is asked, and where the results stand in its answer."""

    name: str
    base: str  # its maker's address of it, "" where the settings must give one
    key_env: str  # the variable that holds its key, "" for a service without one
    traits: Traits
    ask: Callable[[Query, str, SearchEngineSettings], ServiceCall]  # the request for a query, by key and settings
    path: tuple[str, ...]  # the way to the list of results
    fields: Fields  # where a result has its title, address, snippet and date
    needs: tuple[str, str] = ("", "")  # a setting it cannot be without, and how a message calls that
    refusals: Mapping[str, str] = field(default_factory=dict)  # as in `Service`


class ServiceEngine(Service):
    """An engine of the table."""

    def __init__(self, api: Api, web: WebClient, settings: SearchEngineSettings, environ: Mapping[str, str]) -> None:
        super().__init__(api.name, web, settings, environ, base=api.base, key_env=api.key_env, traits=api.traits)
        self._api = api
        self.refusals = api.refusals
        self._settings = settings

    def missing(self) -> str:
        setting, need = self._api.needs
        lacks = f"needs {need}" if setting and not getattr(self._settings, setting) else ""
        return super().missing() or lacks

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        key = self.key(ctx) if self.key_env else ""
        method, path, options = self._api.ask(query, key, self._settings)
        data = await self.json(method, path, **options)
        entries = rows(data, *self._api.path)
        if not entries and data.get("unresponsive_engines"):  # of SearXNG
            raise EngineError("found nothing, and not all of its engines answered")
        return results(entries, self._api.fields, query)


def _nonempty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def google_range(since: date | None, until: date | None) -> str:
    """Return two days as Google writes them: `cdr:1,cd_min:1/31/2024,cd_max:2/29/2024`."""
    days = [f"{name}:{day.month}/{day.day}/{day.year}" for name, day in (("cd_min", since), ("cd_max", until)) if day]
    return ",".join(["cdr:1", *days]) if days else ""


def _span(query: Query) -> tuple[str, ...]:
    """Return the first and the last day, of which both have to be named; nothing where neither was."""
    if query.since is None and query.until is None:
        return ()
    last = query.until or (query.now.date() if query.now else date.max)
    return str(query.since or date(1990, 1, 1)), str(last)


def _serper(query: Query, key: str, _: SearchEngineSettings) -> ServiceCall:
    days = google_range(query.since, query.until)
    body = {"q": query.words, "num": query.limit, "gl": query.region, "hl": query.language, "tbs": days}
    return "POST", "/search", {"json": _nonempty(body), "headers": {"X-API-KEY": key}}


def _google(query: Query, key: str, settings: SearchEngineSettings) -> ServiceCall:
    days = [f"{day:%Y%m%d}" if day else "" for day in (query.since, query.until)]
    params = {
        "key": key,
        "cx": settings.engine_id,
        "q": query.text,
        "num": min(query.limit, 10),
        "siteSearch": query.site,
        "siteSearchFilter": "i" if query.site else "",
        "lr": {"": "", "zh": "lang_zh-CN|lang_zh-TW"}.get(query.language, f"lang_{query.language}"),
        "gl": query.region,
        "sort": f"date:r:{days[0]}:{days[1]}" if any(days) else "",
    }
    return "GET", "/customsearch/v1", {"params": params}


def _google_date(item: Mapping[str, Any]) -> Any:
    """Return the date that the page itself says, in what Google keeps of its head."""
    pagemap = item.get("pagemap")
    tags = pagemap.get("metatags") if isinstance(pagemap, dict) else None
    first = tags[0] if isinstance(tags, list) and tags and isinstance(tags[0], dict) else {}
    names = ("article:published_time", "og:published_time", "datepublished", "date", "dc.date")
    return next((first[name] for name in names if first.get(name)), None)


def _brave(query: Query, key: str, _: SearchEngineSettings) -> ServiceCall:
    params = {
        "q": " ".join(query.words.split()[:50])[:400],
        "count": min(query.limit, 20),
        "country": query.region.upper(),
        "search_lang": {"zh": "zh-hans", "ja": "jp", "pt": "pt-pt"}.get(query.language, query.language),
        "freshness": "to".join(_span(query)),
    }
    headers = {"X-Subscription-Token": key, "Accept": "application/json"}
    return "GET", "/res/v1/web/search", {"params": params, "headers": headers}


def _tavily(query: Query, key: str, _: SearchEngineSettings) -> ServiceCall:
    body: dict[str, Any] = {"query": query.text[:400], "max_results": min(query.limit, 20)}
    days = {"start_date": query.since, "end_date": query.until}
    body |= {name: day.isoformat() for name, day in days.items() if day}
    if query.site:
        body["include_domains"] = [query.site]
    return "POST", "/search", {"json": body, "headers": _bearer(key)}


def _firecrawl(query: Query, key: str, _: SearchEngineSettings) -> ServiceCall:
    days = google_range(query.since, query.until)
    body = {"query": query.words[:500], "limit": query.limit, "country": query.region.upper(), "tbs": days}
    return "POST", "/v2/search", {"json": _nonempty(body), "headers": _bearer(key)}


def _bing(query: Query, key: str, _: SearchEngineSettings) -> ServiceCall:
    params = {
        "q": query.words,
        "count": query.limit,
        "mkt": f"{query.language}-{query.region.upper()}" if query.language and query.region else "",
        "setLang": query.language,
        "freshness": "..".join(_span(query)),
    }
    return "GET", "/v7.0/search", {"params": params, "headers": {"Ocp-Apim-Subscription-Key": key}}


def _baidu(query: Query, key: str, _: SearchEngineSettings) -> ServiceCall:
    span = dict(zip(("gte", "lte"), _span(query), strict=False))
    filters = {"match": {"site": [query.site]} if query.site else None, "range": {"page_time": span} if span else None}
    body = {
        "messages": [{"role": "user", "content": _beginning(query.text, 72)}],
        "search_source": "baidu_search_v2",
        "resource_type_filter": [{"type": "web", "top_k": query.limit}],
        "search_filter": _nonempty(filters),
    }
    return "POST", "/v2/ai_search/web_search", {"json": _nonempty(body), "headers": _bearer(key)}


def _beginning(text: str, most: int) -> str:
    """Return the beginning of a text, in which a Chinese character counts twice: Baidu refuses what is longer."""
    left = most
    for at, char in enumerate(text):
        left -= 1 if char.isascii() else 2
        if left < 0:
            return text[:at].rstrip()
    return text


def _searxng(query: Query, key: str, _: SearchEngineSettings) -> ServiceCall:
    params = {"q": query.words, "format": "json", "language": query.language}
    return "GET", "/search", {"params": params, "headers": _bearer(key)}


def _crossref(query: Query, _key: str, _: SearchEngineSettings) -> ServiceCall:
    days = (("from-pub-date", query.since), ("until-pub-date", query.until))
    params = {
        "query.bibliographic": query.text,
        "rows": query.limit,
        "filter": ",".join(f"{name}:{day.isoformat()}" for name, day in days if day),
        "select": "DOI,URL,title,container-title,issued,author,abstract",
    }
    return "GET", "/works", {"params": params}


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else None


def _crossref_about(work: Mapping[str, Any]) -> str:
    names = [
        " ".join(str(row[part]) for part in ("given", "family", "name") if row.get(part))
        for row in rows(work, "author")[:4]
    ]
    parts = (", ".join(names), _first(work.get("container-title")), work.get("abstract"))
    return ". ".join(str(part) for part in parts if part)


def _crossref_date(work: Mapping[str, Any]) -> str | None:
    """Return the day a work was published on; the first of the month or year where no more is known."""
    issue = work.get("issued")
    parts = _first(issue.get("date-parts")) if isinstance(issue, dict) else None
    if not isinstance(parts, list) or not parts or not all(isinstance(part, int) for part in parts):
        return None
    year, month, day = (*parts, 1, 1)[:3]
    return f"{year:04}-{month:02}-{day:02}"


SERVICES = (
    Api(
        "serper",
        "https://google.serper.dev",
        "SERPER_API_KEY",
        Traits(dated=True, about="Google's results"),
        _serper,
        ("organic",),
        ("title", "link", "snippet", "date"),
        refusals={"Not enough credits": NO_QUOTA},
    ),
    Api(
        "google",
        "https://www.googleapis.com",
        "GOOGLE_API_KEY",
        Traits(dated=True, about="Google's results, of the sites of a search engine of your own"),
        _google,
        ("items",),
        ("title", "link", "snippet", _google_date),
        needs=("engine_id", "search.engine.google.engine_id (cx)"),
        refusals={"API key not valid": NO_KEY, " per day": NO_QUOTA, "dailyLimitExceeded": NO_QUOTA},
    ),
    Api(
        "brave",
        "https://api.search.brave.com",
        "BRAVE_API_KEY",
        Traits(dated=True, about="an index of the web of its own"),
        _brave,
        ("web", "results"),
        ("title", "url", "description", lambda row: row.get("page_age") or row.get("age")),
        refusals={"SUBSCRIPTION_TOKEN": NO_KEY, "QUOTA_LIMITED": NO_QUOTA},
    ),
    Api(
        "tavily",
        "https://api.tavily.com",
        "TAVILY_API_KEY",
        Traits(dated=True, about="the web, with passages that fit the question"),
        _tavily,
        ("results",),
        ("title", "url", "content", "published_date"),
        refusals={"usage limit": NO_QUOTA, "pay-as-you-go limit": NO_QUOTA},
    ),
    Api(
        "firecrawl",
        "https://api.firecrawl.dev",
        "FIRECRAWL_API_KEY",
        Traits(dated=True, about="the web, by a service that also reads pages"),
        _firecrawl,
        ("data", "web"),
        ("title", "url", "description", "date"),
        refusals={"Insufficient credits": NO_QUOTA, "Payment required": NO_QUOTA},
    ),
    Api(
        "bing",  # its maker closed it in August 2025; others offer its format (version 7)
        "",
        "BING_API_KEY",
        Traits(dated=True, about="Bing's results"),
        _bing,
        ("webPages", "value"),
        ("name", "url", "snippet", "datePublished"),
        refusals={"Out of call volume quota": NO_QUOTA},
    ),
    Api(
        "baidu",  # by the AI Search interface of its cloud (Qianfan)
        "https://qianfan.baidubce.com",
        "BAIDU_API_KEY",
        Traits(frozenset({"general", "chinese"}), dated=True, about="the web in Chinese"),
        _baidu,
        ("references",),
        ("title", "url", "content", "date"),
        refusals={"216003": NO_KEY, "QUOTA_USER_DAILY": NO_QUOTA, "INSUFFICIENT_BALANCE": NO_QUOTA},
    ),
    Api(
        "searxng",
        "",
        "",
        Traits(about="many engines at once, by a server of your own"),
        _searxng,
        ("results",),
        ("title", "url", "content", "publishedDate"),
        refusals={"403 Forbidden": "gives no JSON: add `json` to search.formats in its settings.yml"},
    ),
    Api(
        "crossref",
        "https://api.crossref.org",
        "",
        Traits(frozenset({"scholarly"}), dated=True, about="scholarly works by title, author and journal"),
        _crossref,
        ("message", "items"),
        (lambda row: _first(row.get("title")), "URL", _crossref_about, _crossref_date),
    ),
)
