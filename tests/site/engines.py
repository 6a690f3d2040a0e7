"""The programming interfaces of search engines and of the wiki, each in the format its maker documents.

What they find they find in the pages of this site. Each lies below a path of its own, which a test gives as the base
address in place of the real one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from html import escape
from typing import Any
from urllib.parse import quote

from aiohttp import web

from tests.site.pages import WIKI, Page
from tests.site.server import SITE, Site, answered, misbehave, mood, snippet

KEY = "key-of-the-tests"
"""What every engine that wants a key is given."""

Answer = Callable[[web.Request, Site], Awaitable[Any]]


def _engine(name: str, answer: Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        site = request.app[SITE]
        if bad := mood(site, name):
            return await misbehave(request, bad)
        if name in site.answers:
            return answered(site, name)
        said = await answer(request, site)
        return said if isinstance(said, web.StreamResponse) else web.json_response(said)

    return handle


def _refused(message: str = "invalid key") -> web.Response:
    return web.json_response({"message": message}, status=401)


def _dated(page: Page) -> str | None:
    return page.published.isoformat() if page.published else None


async def _serper(request: web.Request, site: Site) -> Any:
    if request.headers.get("X-API-KEY") != KEY:
        return _refused("Unauthorized.")
    asked = await request.json()
    since, until = _google_range(asked.get("tbs", ""))
    found = site.found(asked["q"], asked.get("num", 10), since, until, asked.get("hl", ""))
    organic = []
    for at, (path, page) in enumerate(found, start=1):
        one = {"title": page.title, "link": site.place("serper", path), "snippet": snippet(page), "position": at}
        if page.published:
            one["date"] = f"{page.published:%b} {page.published.day}, {page.published.year}"
        organic.append(one)
    return {"searchParameters": {"q": asked["q"], "type": "search"}, "organic": organic, "credits": 1}


def _google_range(tbs: str) -> tuple[str, str]:
    """`cdr:1,cd_min:1/31/2019,cd_max:12/31/2019`."""
    said = dict(part.split(":", 1) for part in tbs.split(",") if ":" in part)

    def day(text: str) -> str:
        if not text:
            return ""
        month, number, year = text.split("/")
        return f"{year}-{int(month):02}-{int(number):02}"

    return day(said.get("cd_min", "")), day(said.get("cd_max", ""))


async def _google(request: web.Request, site: Site) -> Any:
    asked = request.query
    if asked.get("key") != KEY or asked.get("cx") != "engine-1":
        body = {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}
        return web.json_response(body, status=400)
    since = until = ""
    if asked.get("sort", "").startswith("date:r:"):
        since, until = (f"{one[:4]}-{one[4:6]}-{one[6:]}" if one else "" for one in asked["sort"][7:].split(":"))
    items = []
    for path, page in site.found(asked["q"], int(asked.get("num", "10")), since, until):
        item: dict[str, Any] = {
            "kind": "customsearch#result",
            "title": page.title,
            "link": site.place("google", path),
            "snippet": snippet(page),
        }
        if page.published:
            item["pagemap"] = {"metatags": [{"article:published_time": f"{page.published}T08:00:00+00:00"}]}
        items.append(item)
    return {"kind": "customsearch#search", **({"items": items} if items else {})}


async def _brave(request: web.Request, site: Site) -> Any:
    if request.headers.get("X-Subscription-Token") != KEY:
        return _refused()
    asked = request.query
    since, _, until = asked.get("freshness", "").partition("to")
    results = []
    for path, page in site.found(asked["q"], int(asked.get("count", "20")), since, until):
        one = {
            "type": "search_result",
            "title": page.title,
            "url": site.place("brave", path),
            "description": f"<strong>{page.title}</strong> {snippet(page)}",
        }
        if page.published:
            one["page_age"] = f"{page.published}T08:00:00"
        results.append(one)
    return {"type": "search", "query": {"original": asked["q"]}, "web": {"type": "search", "results": results}}


async def _bing(request: web.Request, site: Site) -> Any:
    if request.headers.get("Ocp-Apim-Subscription-Key") != KEY:
        return web.json_response({"error": {"code": "401", "message": "Access denied"}}, status=401)
    asked = request.query
    since, _, until = asked.get("freshness", "").partition("..")
    value = []
    for path, page in site.found(asked["q"], int(asked.get("count", "10")), since, until):
        one = {"name": page.title, "url": site.place("bing", path), "snippet": snippet(page), "language": "en"}
        if page.published:
            one["datePublished"] = f"{page.published}T08:00:00.0000000"
        value.append(one)
    pages = {"webPages": {"totalEstimatedMatches": len(value), "value": value}} if value else {}
    return {"_type": "SearchResponse", "queryContext": {"originalQuery": asked["q"]}, **pages}


async def _baidu(request: web.Request, site: Site) -> Any:
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return web.json_response({"code": "invalid_iam_token", "message": "bad token"}, status=401)
    asked = await request.json()
    assert asked["search_source"] == "baidu_search_v2"
    span = asked.get("search_filter", {}).get("range", {}).get("page_time", {})
    top = asked["resource_type_filter"][0]["top_k"]
    found = site.found(asked["messages"][-1]["content"], top, span.get("gte", ""), span.get("lte", ""))
    references = [
        {
            "id": at,
            "type": "web",
            "title": page.title,
            "url": site.place("baidu", path),
            "content": page.text,
            "date": f"{page.published} 08:00:00" if page.published else "",
            "website": "Skerrow Record",
        }
        for at, (path, page) in enumerate(found, start=1)
    ]
    return {"request_id": "r-1", "references": references}


async def _firecrawl(request: web.Request, site: Site) -> Any:
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return web.json_response({"success": False, "error": "Unauthorized: Invalid token"}, status=401)
    asked = await request.json()
    since, until = _google_range(asked.get("tbs", ""))
    found = [
        {"url": site.place("firecrawl", path), "title": page.title, "description": snippet(page), "position": at}
        for at, (path, page) in enumerate(site.found(asked["query"], asked.get("limit", 5), since, until), start=1)
    ]
    return {"success": True, "data": {"web": found}}


async def _tavily(request: web.Request, site: Site) -> Any:
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return web.json_response({"detail": {"error": "Unauthorized: missing or invalid API key."}}, status=401)
    asked = await request.json()
    since, until = asked.get("start_date", ""), asked.get("end_date", "")
    results = [
        {
            "title": page.title,
            "url": site.place("tavily", path),
            "content": snippet(page),
            "score": round(0.9 / at, 3),
            **({"published_date": _dated(page)} if page.published else {}),
        }
        for at, (path, page) in enumerate(site.found(asked["query"], asked.get("max_results", 5), since, until), 1)
    ]
    return {"query": asked["query"], "answer": None, "images": [], "results": results, "response_time": 0.4}


async def _searxng(request: web.Request, site: Site) -> Any:
    asked = request.query
    if asked.get("format") != "json":
        return web.Response(text="<html>the page for people</html>", content_type="text/html")
    results = [
        {
            "url": site.place("searxng", path),
            "title": page.title,
            "content": snippet(page),
            "engine": "mojeek",
            "engines": ["mojeek"],
            "score": 1.0 / at,
            "category": "general",
            "publishedDate": f"{page.published}T08:00:00" if page.published else None,
        }
        for at, (path, page) in enumerate(site.found(asked["q"]), start=1)
    ]
    return {
        "query": asked["q"],
        "number_of_results": len(results),
        "results": results,
        "answers": [],
        "suggestions": [],
        "unresponsive_engines": [["qwant", "CAPTCHA"]],
    }


async def _crossref(request: web.Request, site: Site) -> Any:
    asked = request.query
    items = []
    if {"tide", "mill"} & set(asked["query.bibliographic"].lower().split()):
        items.append(
            {
                "DOI": "10.5555/skerrow.2020.1",
                "URL": "https://doi.org/10.5555/skerrow.2020.1",
                "title": ["The power of the tide mill of Skerrow"],
                "container-title": ["Annals of Small Mills"],
                "issued": {"date-parts": [[2020, 3]]},
                "author": [{"given": "M.", "family": "Ferrand"}],
                "type": "journal-article",
            }
        )
    return {"status": "ok", "message-type": "work-list", "message": {"total-results": len(items), "items": items}}


async def _wiki(request: web.Request, site: Site) -> Any:
    """`/w/api.php` of MediaWiki: search, extracts, revisions by date."""
    asked = request.query
    articles = WIKI.get(request.match_info["language"], {})
    if asked.get("action") != "query" or asked.get("format") != "json":
        return {"error": {"code": "badvalue", "info": "Unrecognized value for parameter"}}
    if asked.get("list") == "search":
        words = asked["srsearch"].lower().split()
        found = []
        for number, (title, revisions) in enumerate(articles.items(), start=1):
            text = f"{title} {revisions[-1][2]}".lower()
            if any(word in text for word in words) or any(title.lower() in asked["srsearch"] for title in articles):
                marked = f'<span class="searchmatch">{escape(title)}</span> {escape(revisions[-1][2])}'
                found.append(
                    {
                        "ns": 0,
                        "title": title,
                        "pageid": number,
                        "snippet": marked,
                        "timestamp": revisions[-1][1],
                        "wordcount": 12,
                    }
                )
        return {"batchcomplete": True, "query": {"searchinfo": {"totalhits": len(found)}, "search": found}}
    title = asked.get("titles", "")
    if title not in articles:
        return {"query": {"pages": [{"ns": 0, "title": title, "missing": True}]}}
    page: dict[str, Any] = {"pageid": 1, "ns": 0, "title": title}
    if asked.get("prop") == "extracts" and mood(site, "extracts"):
        return await misbehave(request, mood(site, "extracts"))
    if asked.get("prop") == "extracts":
        page["extract"] = articles[title][-1][2]
    if asked.get("prop") == "revisions":
        before = [one for one in articles[title] if one[1] <= asked.get("rvstart", "9999")]
        if before:
            number, time, text = before[-1]
            page["revisions"] = [
                {
                    "revid": number,
                    "parentid": 0,
                    "timestamp": time,
                    "slots": {"main": {"contentmodel": "wikitext", "content": f"'''{title}'''. {text}"}},
                }
            ]
    return {"batchcomplete": True, "query": {"pages": [page]}}


async def _article(request: web.Request, site: Site) -> Any:
    """`/wiki/Title` and `/w/index.php?title=&oldid=`: an article as people read it."""
    articles = WIKI.get(request.match_info["language"], {})
    title = (request.match_info.get("title") or request.query.get("title", "")).replace("_", " ")
    if title not in articles:
        return web.Response(status=404, text="no such article")
    old = request.query.get("oldid")
    chosen = next((one for one in articles[title] if str(one[0]) == old), articles[title][-1])
    return web.Response(text=Page(title, f"<p>{escape(chosen[2])}</p>").html(), content_type="text/html")


def _listed(site: Site, name: str, query: str) -> list[tuple[str, Page]]:
    return [(site.place(name, path), page) for path, page in site.found(query)]


async def _duckduckgo(request: web.Request, site: Site) -> Any:
    """The page without scripts of DuckDuckGo, by POST."""
    asked = await request.post()
    rows = "".join(
        '<div class="result results_links results_links_deep web-result"><div class="links_main links_deep '
        f'result__body"><h2 class="result__title"><a class="result__a" href="{escape(url)}">{escape(page.title)}</a>'
        f'</h2><a class="result__snippet" href="{escape(url)}">{escape(snippet(page))}</a></div></div>'
        for url, page in _listed(site, "duckduckgo", str(asked["q"]))
    )
    return web.Response(text=f"<html><body><div id='links'>{rows}</div></body></html>", content_type="text/html")


async def _mojeek(request: web.Request, site: Site) -> Any:
    rows = "".join(
        f'<li><h2><a class="title" href="{escape(url)}">{escape(page.title)}</a></h2>'
        f'<p class="s">{escape(snippet(page))}</p></li>'
        for url, page in _listed(site, "mojeek", request.query["q"])
    )
    return web.Response(text=f'<ul class="results-standard">{rows}</ul>', content_type="text/html")


async def _brave_web(request: web.Request, site: Site) -> Any:
    rows = "".join(
        f'<div class="snippet" data-type="web"><a href="{escape(url)}">'
        f'<div class="title">{escape(page.title)}</div></a>'
        f'<div class="generic-snippet snippet"><div class="content">{escape(snippet(page))}</div></div></div>'
        for url, page in _listed(site, "brave_web", request.query["q"])
    )
    return web.Response(text=f"<html><body>{rows}</body></html>", content_type="text/html")


async def _yahoo(request: web.Request, site: Site) -> Any:
    """Its links lead through a counter of its own."""
    rows = "".join(
        '<div class="dd algo relsrch"><div class="compTitle"><h3 class="title">'
        f'<a href="https://r.search.yahoo.com/_ylt=A/RV=2/RE=1/RO=10/RU={quote(url, safe="")}/RK=2/RS=x-">'
        f'{escape(page.title)}</a></h3></div><div class="compText">{escape(snippet(page))}</div></div>'
        for url, page in _listed(site, "yahoo", request.query["p"])
    )
    return web.Response(text=f"<html><body>{rows}</body></html>", content_type="text/html")


async def _model(request: web.Request, site: Site) -> Any:
    """A model that searches, as an OpenAI-compatible server offers it: it answers with a list of what it found."""
    asked = json.loads(await request.text())
    question = str(asked["messages"][-1]["content"])
    listed = [
        {"title": page.title, "address": site.place("model", path), "snippet": snippet(page), "date": _dated(page)}
        for path, page in site.found(question)
    ]
    reply = {"role": "assistant", "content": json.dumps({"results": listed})}
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked["model"],
        "choices": [{"index": 0, "message": reply, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
    }


def engine_routes() -> list[web.RouteDef]:
    """Where each of them answers."""
    return [
        web.post("/engines/serper/search", _engine("serper", _serper)),
        web.get("/engines/google/customsearch/v1", _engine("google", _google)),
        web.get("/engines/brave/res/v1/web/search", _engine("brave", _brave)),
        web.get("/engines/bing/v7.0/search", _engine("bing", _bing)),
        web.post("/engines/baidu/v2/ai_search/web_search", _engine("baidu", _baidu)),
        web.post("/engines/firecrawl/v2/search", _engine("firecrawl", _firecrawl)),
        web.post("/engines/tavily/search", _engine("tavily", _tavily)),
        web.get("/engines/searxng/search", _engine("searxng", _searxng)),
        web.get("/engines/crossref/works", _engine("crossref", _crossref)),
        web.post("/engines/duckduckgo/html/", _engine("duckduckgo", _duckduckgo)),
        web.get("/engines/mojeek/search", _engine("mojeek", _mojeek)),
        web.get("/engines/brave_web/search", _engine("brave_web", _brave_web)),
        web.get("/engines/yahoo/{tail:search;.*}", _engine("yahoo", _yahoo)),
        web.post("/engines/model/v1/chat/completions", _engine("model", _model)),
        web.get("/wikis/{language}/w/api.php", _engine("wikipedia", _wiki)),
        web.get("/wikis/{language}/w/index.php", _engine("wikipedia", _article)),
        web.get("/wikis/{language}/wiki/{title}", _engine("wikipedia", _article)),
    ]


__all__ = ["KEY", "engine_routes"]
