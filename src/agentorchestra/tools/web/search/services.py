"""Engines that are services with an interface of their own, most of them by key: a table of how each is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.service import NO_KEY, NO_QUOTA, Fields, Service, results, rows, value_at
from agentorchestra.tools.web.search.types import MOST_RESULTS, EngineError, Query, SearchResult, Strength, Traits


@dataclass(frozen=True)
class Api:
    """One service: how it is asked, and where the results stand in its answer.

    The key's header and the parameters name the values of `_values` in braces; what has only empty ones is left out.
    """

    name: str
    about: str
    request: str  # its method and address, without a host where the settings must give one
    key: tuple[str, str]  # the variable that holds it, "" for a service without one, and the header that sends it
    parameters: str  # of a GET the query, of a POST the JSON: `a/0/b=text` is {"a": [{"b": "text"}]}
    results: str  # the way to the list of results
    fields: Fields  # where a result has its title, address, snippet and date
    refusals: Mapping[str, str] = field(default_factory=dict)  # as in `Service`
    strengths: frozenset[Strength] = frozenset({"general"})
    dated: bool = True
    most: int = MOST_RESULTS  # results of one request
    longest: tuple[int, int] = (1_000, 1_000)  # words and characters of a query
    wide: int = 1  # characters that one which is not ASCII counts as
    languages: Mapping[str, str] = field(default_factory=dict)  # its names of those that it calls otherwise
    needs: tuple[str, str] = ("", "")  # a setting it cannot be without, and how a message calls that


class ServiceEngine(Service):
    """An engine of the table."""

    def __init__(self, api: Api, web: WebClient, settings: SearchEngineSettings, environ: Mapping[str, str]) -> None:
        traits = Traits(api.strengths, dated=api.dated, about=api.about)
        self._method, base, self._path = re.findall(r"^(\w+) (https://[^/]+)?(/.*)", api.request)[0]
        super().__init__(api.name, web, settings, environ, base=base, key_env=api.key[0], traits=traits)
        self._api = api
        self.refusals = api.refusals
        self._settings = settings

    def missing(self) -> str:
        setting, need = self._api.needs
        return super().missing() or (f"needs {need}" if setting and not getattr(self._settings, setting) else "")

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        api = self._api
        values = {**_values(query, api), "key": self.key(ctx) if self.key_env else "", "cx": self._settings.engine_id}
        pairs = [pair.split("=", 1) for pair in api.parameters.split("&")]
        sent = {name: value for name, form in pairs if (value := _filled(form, values))}
        name, _, form = api.key[1].partition(": ")
        headers = {"Accept": "application/json"} | ({name: key} if (key := _filled(form, values)) else {})
        body = {"json": _nested(sent)} if self._method == "POST" else {"params": sent}
        data = await self.json(self._method, self._path, headers=headers, **body)
        entries = rows(data, *api.results.split("/"))
        if not entries and data.get("unresponsive_engines"):  # of SearXNG
            raise EngineError("found nothing, and not all of its engines answered")
        return results(entries, api.fields, query)


def _values(query: Query, api: Api) -> dict[str, Any]:
    days = [(name, day) for name, day in (("since", query.since), ("until", query.until)) if day]
    google_days = [f"cd_{'min' if name == 'since' else 'max'}:{day.month}/{day.day}/{day.year}" for name, day in days]
    last = query.until or (query.now.date() if query.now else date.max)
    region, language = query.region.upper(), api.languages.get(query.language, query.language)
    return {
        "text": _beginning(query.text, api),
        "words": _beginning(query.words, api),
        "limit": min(query.limit, api.most),
        "site": query.site,
        "of_site": "i" if query.site else "",
        "language": language,
        "region": query.region,
        "REGION": region,
        "market": f"{language}-{region}" if language and region else "",
        **dict.fromkeys(("since", "until", "since_digits", "until_digits", "first", "last"), ""),
        **{name: day.isoformat() for name, day in days},
        **{f"{name}_digits": f"{day:%Y%m%d}" for name, day in days},
        # The first and the last day, for those that want both of them named.
        **({"first": str(query.since or date(1990, 1, 1)), "last": str(last)} if days else {}),
        "google_days": ",".join(["cdr:1", *google_days]) if days else "",
        "published": ",".join(f"{'from' if name == 'since' else name}-pub-date:{day}" for name, day in days),
    }


def _filled(form: str, values: Mapping[str, Any]) -> Any:
    names = re.findall(r"\{(\w+)\}", form)
    if [form] == [f"{{{name}}}" for name in names]:
        return values[names[0]]
    return form.format(**values) if not names or any(values[name] for name in names) else ""


def _nested(sent: Mapping[str, Any]) -> Any:
    tree: dict[str, Any] = {}
    for path, value in sent.items():
        head, _, rest = path.partition("/")
        tree.setdefault(head, {})[rest] = value
    parts = {head: below[""] if "" in below else _nested(below) for head, below in tree.items()}
    return [parts["0"]] if "0" in parts else parts


def _beginning(text: str, api: Api) -> str:
    """Return the beginning of a text: an engine may refuse what is longer."""
    most_words, left = api.longest
    text = " ".join(text.split()[:most_words])
    for at, char in enumerate(text):
        left -= 1 if char.isascii() else api.wide
        if left < 0:
            return text[:at].rstrip()
    return text


def _crossref_about(work: Mapping[str, Any]) -> str:
    names = [
        " ".join(str(row[part]) for part in ("given", "family", "name") if row.get(part))
        for row in rows(work, "author")[:4]
    ]
    parts = (", ".join(names), value_at(work, "container-title/0"), work.get("abstract"))
    return ". ".join(str(part) for part in parts if part)


def _crossref_date(work: Mapping[str, Any]) -> str | None:
    """Return the day a work was published on; the first of the month or year where no more is known."""
    parts = value_at(work, "issued/date-parts/0")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, int) for part in parts):
        return None
    year, month, day = (*parts, 1, 1)[:3]
    return f"{year:04}-{month:02}-{day:02}"


_BEARER = "Authorization: Bearer {key}"
_PAGE_DATES = ("article:published_time", "og:published_time", "datepublished", "date", "dc.date")

SERVICES = (
    Api(
        "serper",
        "Google's results",
        "POST https://google.serper.dev/search",
        ("SERPER_API_KEY", "X-API-KEY: {key}"),
        "q={words}&num={limit}&gl={region}&hl={language}&tbs={google_days}",
        "organic",
        ("title", "link", "snippet", "date"),
        {"Not enough credits": NO_QUOTA},
    ),
    Api(
        "google",
        "Google's results, of the sites of a search engine of your own",
        "GET https://www.googleapis.com/customsearch/v1",
        ("GOOGLE_API_KEY", ""),
        "key={key}&cx={cx}&q={text}&num={limit}&siteSearch={site}&siteSearchFilter={of_site}&lr=lang_{language}"
        "&gl={region}&sort=date:r:{since_digits}:{until_digits}",
        "items",
        # The date that the page itself says, in what Google keeps of its head.
        ("title", "link", "snippet", "|".join(f"pagemap/metatags/0/{name}" for name in _PAGE_DATES)),
        {"API key not valid": NO_KEY, " per day": NO_QUOTA, "dailyLimitExceeded": NO_QUOTA},
        most=10,
        languages={"zh": "zh-CN|lang_zh-TW"},
        needs=("engine_id", "search.engine.google.engine_id (cx)"),
    ),
    Api(
        "brave",
        "an index of the web of its own",
        "GET https://api.search.brave.com/res/v1/web/search",
        ("BRAVE_API_KEY", "X-Subscription-Token: {key}"),
        "q={words}&count={limit}&country={REGION}&search_lang={language}&freshness={first}to{last}",
        "web/results",
        ("title", "url", "description", "page_age|age"),
        {"SUBSCRIPTION_TOKEN": NO_KEY, "QUOTA_LIMITED": NO_QUOTA},
        most=20,
        longest=(50, 400),
        languages={"zh": "zh-hans", "ja": "jp", "pt": "pt-pt"},
    ),
    Api(
        "tavily",
        "the web, with passages that fit the question",
        "POST https://api.tavily.com/search",
        ("TAVILY_API_KEY", _BEARER),
        "query={text}&max_results={limit}&start_date={since}&end_date={until}&include_domains/0={site}",
        "results",
        ("title", "url", "content", "published_date"),
        {"usage limit": NO_QUOTA, "pay-as-you-go limit": NO_QUOTA},
        most=20,
        longest=(1_000, 400),
    ),
    Api(
        "firecrawl",
        "the web, by a service that also reads pages",
        "POST https://api.firecrawl.dev/v2/search",
        ("FIRECRAWL_API_KEY", _BEARER),
        "query={words}&limit={limit}&country={REGION}&tbs={google_days}",
        "data/web",
        ("title", "url", "description", "date"),
        {"Insufficient credits": NO_QUOTA, "Payment required": NO_QUOTA},
        longest=(1_000, 500),
    ),
    Api(
        "bing",  # its maker closed it in August 2025; others offer its format (version 7)
        "Bing's results",
        "GET /v7.0/search",
        ("BING_API_KEY", "Ocp-Apim-Subscription-Key: {key}"),
        "q={words}&count={limit}&mkt={market}&setLang={language}&freshness={first}..{last}",
        "webPages/value",
        ("name", "url", "snippet", "datePublished"),
        {"Out of call volume quota": NO_QUOTA},
    ),
    Api(
        "baidu",  # by the AI Search interface of its cloud (Qianfan)
        "the web in Chinese",
        "POST https://qianfan.baidubce.com/v2/ai_search/web_search",
        ("BAIDU_API_KEY", _BEARER),
        "messages/0/role=user&messages/0/content={text}&search_source=baidu_search_v2"
        "&resource_type_filter/0/type=web&resource_type_filter/0/top_k={limit}&search_filter/match/site/0={site}"
        "&search_filter/range/page_time/gte={first}&search_filter/range/page_time/lte={last}",
        "references",
        ("title", "url", "content", "date"),
        {"216003": NO_KEY, "QUOTA_USER_DAILY": NO_QUOTA, "INSUFFICIENT_BALANCE": NO_QUOTA},
        strengths=frozenset({"general", "chinese"}),
        longest=(1_000, 72),
        wide=2,
    ),
    Api(
        "searxng",
        "many engines at once, by a server of your own",
        "GET /search",
        ("", _BEARER),
        "q={words}&format=json&language={language}",
        "results",
        ("title", "url", "content", "publishedDate"),
        {"403 Forbidden": "gives no JSON: add `json` to search.formats in its settings.yml"},
        dated=False,
    ),
    Api(
        "crossref",
        "scholarly works by title, author and journal",
        "GET https://api.crossref.org/works",
        ("", ""),
        "query.bibliographic={text}&rows={limit}&filter={published}"
        "&select=DOI,URL,title,container-title,issued,author,abstract",
        "message/items",
        ("title/0", "URL", _crossref_about, _crossref_date),
        strengths=frozenset({"scholarly"}),
    ),
)
