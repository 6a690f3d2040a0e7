"""Every engine against the answers that its maker documents: a wrong key, no requests left, nothing found, charsets.

An answer is a status and a body; what is expected of it is a sentence, or the titles that are listed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentorchestra.tools.web.search.types import EngineError
from tests.site import Site
from tests.tools.search.test_engines import BY_KEY, ask

TITLE = "斯凯罗岛的灯塔实现自动化"
PAGE = "http://page.example/x"
KEY, QUOTA = "refused the key in {0}_API_KEY ({1})", "has no requests left for the key in {0}_API_KEY ({1})"
BUSY, EMPTY = "is too busy (429)", ""
ROBOT = "answered HTML that is no list of results (it may take us for a robot)"


def _google(code: int, message: str, reason: str, status: str) -> dict[str, Any]:
    errors = [{"message": message, "domain": "global", "reason": reason}]
    return {"error": {"code": code, "message": message, "errors": errors, "status": status}}


def _brave(status: int, code: str) -> dict[str, Any]:
    return {
        "type": "ErrorResponse",
        "error": {"id": "5d83", "status": status, "code": code, "detail": "...", "meta": {}},
    }


def _tavily(message: str) -> dict[str, Any]:
    return {"detail": {"error": message}}


_PER = "Quota exceeded for quota metric 'Queries' and limit 'Queries per {}' of service 'customsearch.googleapis.com'"

# engine: status, body, what is made of it
ANSWERS: dict[str, list[tuple[int, Any, str]]] = {
    "serper": [
        (403, {"message": "Unauthorized.", "statusCode": 403}, KEY),
        (400, {"message": "Not enough credits", "statusCode": 400}, QUOTA),
        (429, {"message": "Rate limit exceeded", "statusCode": 429}, BUSY),
        (200, {"searchParameters": {"q": "x"}, "organic": [], "credits": 1}, EMPTY),
    ],
    "google": [
        (400, _google(400, "API key not valid. Please pass a valid API key.", "badRequest", "INVALID_ARGUMENT"), KEY),
        (403, _google(403, "The request is missing a valid API key.", "forbidden", "PERMISSION_DENIED"), KEY),
        (429, _google(429, _PER.format("day"), "rateLimitExceeded", "RESOURCE_EXHAUSTED"), QUOTA),
        (403, _google(403, "Daily Limit Exceeded", "dailyLimitExceeded", "PERMISSION_DENIED"), QUOTA),
        (429, _google(429, _PER.format("minute"), "rateLimitExceeded", "RESOURCE_EXHAUSTED"), BUSY),
        (200, {"kind": "customsearch#search", "searchInformation": {"totalResults": "0"}}, EMPTY),
    ],
    "brave": [
        (422, _brave(422, "SUBSCRIPTION_TOKEN_INVALID"), KEY),
        (429, _brave(429, "QUOTA_LIMITED"), QUOTA),
        (429, _brave(429, "RATE_LIMITED"), BUSY),
        (200, {"type": "search", "query": {"original": "x"}}, EMPTY),
    ],
    "tavily": [
        (401, _tavily("Unauthorized: missing or invalid API key."), KEY),
        (432, _tavily("This request exceeds your plan's set usage limit. Please upgrade your plan."), QUOTA),
        (433, _tavily("This request exceeds the pay-as-you-go limit. You can increase it in the dashboard."), QUOTA),
        (429, _tavily("Your request has been blocked due to excessive requests."), BUSY),
        (200, {"query": "x", "results": [], "response_time": 0.4}, EMPTY),
    ],
    "firecrawl": [
        (401, {"success": False, "error": "Unauthorized: Invalid token"}, KEY),
        (402, {"success": False, "error": "Insufficient credits to perform this request."}, QUOTA),
        (402, {"success": False, "error": "Payment required to access this resource."}, QUOTA),
        (429, {"success": False, "error": "Rate limit exceeded."}, BUSY),
        (200, {"success": True, "data": {"web": []}}, EMPTY),
        (200, {"success": True, "data": {}}, EMPTY),
        (200, {"success": False, "error": "UNKNOWN_ERROR"}, "answered with an error UNKNOWN_ERROR"),
    ],
    "bing": [
        (401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key."}}, KEY),
        (403, {"statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 7 days."}, QUOTA),
        (429, {"error": {"code": "429", "message": "Rate limit is exceeded. Try again in 1 seconds."}}, BUSY),
        (200, {"_type": "SearchResponse", "queryContext": {"originalQuery": "x"}}, EMPTY),
        (200, {"_type": "ErrorResponse", "errors": [{"code": "ServerError"}]}, "answered with an error"),
    ],
    "baidu": [
        (401, {"code": "invalid_iam_token", "message": "bad token", "type": "invalid_request_error"}, KEY),
        (400, {"requestId": "r", "code": 216003, "message": "Authentication error"}, KEY),
        (200, {"requestId": "r", "code": 216003, "message": "Authentication error"}, "answered with an error 216003"),
        (429, {"code": "QUOTA_USER_DAILY_FREE", "message": "daily request limit"}, QUOTA),
        (200, {"code": "QUOTA_USER_DAILY_FREE"}, "answered with an error QUOTA_USER_DAILY_FREE"),
        (429, {"code": "rate_limit_exceeded", "message": "qps limit"}, BUSY),
        (200, {"request_id": "r", "references": []}, EMPTY),
    ],
    "searxng": [
        (
            403,
            "<!doctype html><title>403 Forbidden</title>",
            "gives no JSON: add `json` to search.formats in its settings.yml (403)",
        ),
        (429, "Too Many Requests", BUSY),
        (200, {"query": "x", "results": [], "unresponsive_engines": []}, EMPTY),
        (
            200,
            {"query": "x", "results": [], "unresponsive_engines": [["brave", "Suspended: too many requests"]]},
            "found nothing, and not all of its engines answered",
        ),
    ],
    "crossref": [
        (429, "Too Many Requests", BUSY),
        (400, {"status": "failed", "message-type": "validation-failure", "message": []}, "refused to answer (400)"),
        (200, {"status": "ok", "message": {"total-results": 0, "items": []}}, EMPTY),
    ],
    "wikipedia": [
        (429, "<html>Too many requests</html>", BUSY),
        (200, {"error": {"code": "ratelimited", "info": "..."}}, "answered with an error ratelimited"),
        (200, {"batchcomplete": True, "query": {"search": []}}, EMPTY),
    ],
    "archive": [
        (429, "<html>Too Many Requests</html>", BUSY),
        (
            403,
            "org.archive.wayback.exception.AdministrativeAccessControlException: Blocked Site Error",
            "shows no copies of this page, as its owner wants it (403)",
        ),
        (200, [], EMPTY),
    ],
    "duckduckgo": [
        (202, "<html><div class='anomaly-modal'>Unfortunately, bots use DuckDuckGo too.</div></html>", ROBOT),
        (200, "<html><div class='no-results'>No results.</div></html>", EMPTY),
    ],
    "mojeek": [
        (403, "<html>Forbidden</html>", "refused to answer (403)"),
        (200, "<html><p>No pages found matching: x</p></html>", EMPTY),
    ],
    "brave_web": [(429, "<html>captcha</html>", BUSY), (200, "<html>No results found for x</html>", EMPTY)],
    "yahoo": [
        (500, "<html>999</html>", "failed (500)"),
        (200, "<html><p>We did not find results for: <b>x</b></p></html>", EMPTY),
    ],
}

_ROW = {"title": TITLE, "name": TITLE, "link": PAGE, "url": PAGE, "URL": PAGE}
_LISTS: dict[str, Any] = {
    "serper": {"organic": [_ROW]},
    "google": {"items": [_ROW]},
    "brave": {"web": {"results": [_ROW]}},
    "tavily": {"results": [_ROW]},
    "firecrawl": {"success": True, "data": {"web": [_ROW]}},
    "bing": {"webPages": {"value": [_ROW]}},
    "baidu": {"references": [_ROW]},
    "searxng": {"results": [_ROW]},
    "crossref": {"message": {"items": [{**_ROW, "title": [TITLE]}]}},
    "wikipedia": {"query": {"search": [_ROW]}},
    "duckduckgo": f"<div class=body><h2>{TITLE}</h2><a href='{PAGE}'>x</a></div>",
    "mojeek": f"<ul class=results><li><h2><a href='{PAGE}'>{TITLE}</a></h2></li></ul>",
    "brave_web": f"<div data-type=web><a href='{PAGE}'><div class=title>{TITLE}</div></a></div>",
    "yahoo": f"<div class=relsrch><div class=compTitle><h3>{TITLE}</h3><a href='{PAGE}'>x</a></div></div>",
}
_CHARSETS = [
    ("utf-8", "", TITLE),
    ("utf-8", "iso-8859-1", TITLE),  # a server's default, which is not true
    ("utf-16", "", TITLE),
    ("gb18030", "gb18030", TITLE),
    ("windows-1251", "windows-1251", "Маяк острова больше не имеет смотрителя"),
    ("iso-8859-1", "iso-8859-1", "Die Fähre über den Sund fährt früher"),
]


def _packed(body: Any, charset: str = "utf-8", title: str = TITLE) -> bytes:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text.replace(TITLE, title).encode(charset)


async def _made_of(site: Site, name: str, status: int, body: bytes, declared: str) -> str:
    """Return the titles that an engine lists, or its sentence."""
    site.answers[name] = (status, body, declared)
    try:
        return "|".join(one.title for one in await ask(site, name, "http://x.example/a"))
    except EngineError as error:
        return str(error)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ANSWERS)
async def test_documented_answers(site: Site, name: str) -> None:
    kind = "application/json" if name in _LISTS and not isinstance(_LISTS[name], str) else "text/html"
    wrong: list[Any] = []
    for status, body, expected in ANSWERS[name]:
        sentence = expected.format(name.upper(), status) if expected in (KEY, QUOTA) else expected
        if (made := await _made_of(site, name, status, _packed(body), kind)) != sentence:
            wrong.append((status, body, made))
    for charset, declared, title in _CHARSETS if name in _LISTS else ():
        body = _packed(_LISTS[name], charset, title)
        made = await _made_of(site, name, 200, body, f"{kind}; charset={declared}" if declared else kind)
        if made != title:
            wrong.append((charset, declared, made))
    assert not wrong


@pytest.mark.parametrize("name", BY_KEY)
async def test_an_engine_without_its_key_is_not_asked(site: Site, name: str) -> None:
    with pytest.raises(EngineError, match=f"^needs a key: set {name.upper()}_API_KEY$"):
        await ask(site, name, "lighthouse", keys={})
    assert site.requests == []


async def test_what_engines_would_refuse_or_ignore_is_not_sent(site: Site) -> None:
    """Brave takes 50 words and 400 characters, Tavily 400; Baidu leaves out a range with one end."""
    await ask(site, "brave", "tide " * 150)
    assert site.requests[-1].query["q"] == " ".join(["tide"] * 50)
    await ask(site, "tavily", "x" * 900)
    assert len(json.loads(site.requests[-1].body)["query"]) == 400
    await ask(site, "baidu", "灯塔", since="2019-01-01")
    span = json.loads(site.requests[-1].body)["search_filter"]["range"]["page_time"]
    assert span == {"gte": "2019-01-01", "lte": "2024-06-01"}


async def test_an_author_that_is_an_organisation(site: Site) -> None:
    work = {**_ROW, "title": [TITLE], "author": [{"name": "Skerrow Trust"}, {"given": "M.", "family": "Ferrand"}]}
    site.answers["crossref"] = (200, _packed({"message": {"items": [work]}}), "application/json")
    (found,) = await ask(site, "crossref", "mill")
    assert found.snippet == "Skerrow Trust, M. Ferrand"


async def test_titles_are_listed_though_their_beginnings_are_refused(site: Site) -> None:
    site.moods["extracts"] = "429"
    assert [one.title for one in await ask(site, "wikipedia", "lighthouse")] == ["Skerrow Lighthouse"]
