"""One request to a service that searches, and every way in which it may not answer, in a few words each."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote, urlencode

from agentorchestra.core.errors import MissingKeyError, WebError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings
from agentorchestra.tools.web.http import Answer, WebClient
from agentorchestra.tools.web.search.types import EngineError, Query, SearchResult, Traits

MAX_BYTES = 4 * 1024 * 1024  # of one answer: a list of fifty results has some hundred thousand
NO_KEY, NO_QUOTA = "refused the key in {key}", "has no requests left for the key in {key}"
_LONGEST_WAIT = 3_600.0
_SNIPPET = 600
_TITLE = 300
_ADDRESS = 2_000

Field = str | Callable[[Mapping[str, Any]], Any]  # of a row: a way as `value_at` takes it, or what finds it
Fields = tuple[Field, Field, Field, Field]  # where a row has its title, address, snippet and date


class Service:
    """An engine that is asked over HTTP; each subclass says how. `environ` has its key before a run is there."""

    refusals: Mapping[
        str, str
    ] = {}  # what the words of an answer that fails mean, where its status says something else

    def __init__(
        self,
        name: str,
        web: WebClient,
        settings: SearchEngineSettings,
        environ: Mapping[str, str],
        *,
        base: str,
        traits: Traits,
        key_env: str = "",
    ) -> None:
        self.name = name
        self.traits = replace(traits, cost_usd=settings.cost_usd, timeout_s=settings.timeout_s)
        self.base = (settings.base_url or base).rstrip("/")
        self.key_env = settings.key_env or key_env
        self._web = web
        self._environ = environ
        # Whoever gives another address has chosen it: it may lie on this machine.
        self._own = (settings.base_url,) if settings.base_url else ()
        self._again = 0.0

    def missing(self) -> str:
        if not self.base:
            return f"needs its address: set search.engine.{self.name}.base_url"
        return f"needs a key: set {self.key_env}" if self.key_env and not self._environ.get(self.key_env) else ""

    def key(self, ctx: RunContext[Any]) -> str:
        """Return its key, which the log shows as the variable's name."""
        try:
            return ctx.secret(self.key_env)
        except MissingKeyError:
            raise EngineError(f"needs a key: set {self.key_env}") from None

    async def json(self, method: str, path: str, **options: Any) -> Any:
        """Return what it answers, as JSON; see `ask`."""
        answer = await self.ask(method, path, **options)
        try:
            return json.loads(answer.text)  # some send it in the charset of their pages
        except (ValueError, RecursionError):
            start = answer.body[:200].lstrip().lower()
            html = start.startswith(b"<")
            kind = "HTML that is no list of results" if html else "broken JSON" if start else "nothing"
            raise EngineError(f"answered {kind}") from None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        base: str = "",
    ) -> Answer:
        """Return what it answers to a path below `base` (its own by default); EngineError if it did not, or refused."""
        if (left := self._again - time.monotonic()) > 0:
            raise EngineError(f"asked to wait; {left:.0f} s of that are left", wait_s=left)
        query = {name: str(value) for name, value in (params or {}).items() if value not in (None, "")}
        url = f"{(base or self.base).rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else "")
        fields = dict(headers or {})
        data = urlencode(form).encode() if form is not None else None
        if form is not None:
            fields["content-type"] = "application/x-www-form-urlencoded"
        try:
            answer = await self._web.request(
                method, url, headers=fields, json=json, data=data, allowed=self._own, max_bytes=MAX_BYTES, retry=False
            )
        except WebError as error:
            raise EngineError(_failure(error)) from None
        return self._check(answer)

    def _check(self, answer: Answer) -> Answer:
        if answer.ok:
            return answer
        status = answer.status
        words = answer.body[:4_000].decode("utf-8", "replace")
        if meaning := next((self.refusals[refusal] for refusal in self.refusals if refusal in words), ""):
            raise EngineError(f"{meaning.format(key=self.key_env)} ({status})")
        if status in (429, 503):
            wait = min(max(answer.retry_after_s or 0.0, 0.0), _LONGEST_WAIT)
            self._again = time.monotonic() + wait
            raise EngineError(
                f"asked to wait {wait:.0f} s ({status})" if wait else f"is too busy ({status})", wait_s=wait
            )
        if status in (401, 403) and self.key_env:
            raise EngineError(f"{NO_KEY.format(key=self.key_env)} ({status})")
        raise EngineError(f"refused to answer ({status})" if status < 500 else f"failed ({status})")


def _failure(error: WebError) -> str:
    # Its sentence names the address, which may hold the key.
    return {
        "refused": "leads to an address that is not asked (not on the public network, or redirected)",
        "unreachable": "cannot be reached",
        "timeout": "did not answer in time",
        "too_large": f"answered more than {MAX_BYTES // 1024 // 1024} MiB",
        "bad_answer": "answered something that is no HTTP",
    }[error.kind]


def rows(data: Any, *path: str) -> list[dict[str, Any]]:
    """Return the objects of a list in an answer, none where it is left out; EngineError for an error in its place."""
    answer = data
    for name in path:
        data = data.get(name) if isinstance(data, dict) else ""
        if data is None:
            if error := answer.get("error") or answer.get("errors") or answer.get("code"):
                code = str(error.get("code", "") if isinstance(error, dict) else error)
                label = code if re.fullmatch(r"[\w.-]{1,60}", code) else ""
                raise EngineError(f"answered with an error {label}".rstrip())
            return []
    if not isinstance(data, list):
        raise EngineError("answered JSON that is no list of results")
    return [row for row in data if isinstance(row, dict)]


def value_at(data: Any, ways: str) -> Any:
    """Return what stands at `a/0/b`, or the first that is not empty at `a/b|c`; None for nothing."""
    for way in ways.split("|"):
        value = data
        for name in way.split("/"):
            if isinstance(value, list):
                value = next(iter(value), None) if name == "0" else None
            else:
                value = value.get(name) if isinstance(value, dict) else None
        if value:
            return value
    return None


def results(entries: Iterable[Mapping[str, Any]], fields: Fields, query: Query) -> list[SearchResult]:
    """Return the rows that have an address, those of the wanted host only, as many as were wanted."""
    hits = []
    for row in entries:
        title, address, snippet, moment = (field(row) if callable(field) else value_at(row, field) for field in fields)
        link = clean_address(address)
        if link and (not query.site or of_site(link, query.site)):
            day = day_of(moment, query.now)
            found_title = plain(title, _TITLE) or link
            hits.append(SearchResult(title=found_title, address=link, snippet=plain(snippet, _SNIPPET), date=day))
    return hits[: query.limit]


def clean_address(address: Any) -> str:
    """Return an address of the web, "" for anything else; quotes are escaped: readers of text take them for its end."""
    if not isinstance(address, str) or len(address) > _ADDRESS:
        return ""
    text = address.strip()
    if not re.match(r"https?://[^\s/]", text, re.IGNORECASE) or re.search(r"[\s\x00-\x1f\x7f]", text):
        return ""
    return re.sub(r"[\"'`<>\\]", lambda match: quote(match[0], safe=""), text)


def plain(text: Any, most: int = _SNIPPET) -> str:
    """Return words without tags, escapes, control characters and superfluous white space."""
    if not isinstance(text, str):
        return ""
    words = unescape(re.sub(r"<[^<>]{0,200}>", "", text[: most * 6]))
    words = " ".join("".join(char if char.isprintable() else " " for char in words).split())
    return words if len(words) <= most else f"{words[: most - 1].rstrip()}…"


def of_site(address: str, site: str) -> bool:
    """Return True if an address is of a host or of one below it."""
    place = re.sub(r"^https?://(?:[^/@]*@)?", "", address.lower()).partition("/")[0].partition("?")[0]
    domain = site.removeprefix("www.")
    host = place if ":" in domain else place.partition(":")[0]
    return host == domain or host.endswith(f".{domain}")


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATES = (  # 2019-10-18 or 2019年10月18日; Oct 18, 2019; 18 October 2019
    re.compile(r"(?P<year>\d{4})\s*[-/年]\s*(?P<month>\d{1,2})\s*[-/月]\s*(?P<day>\d{1,2})"),
    re.compile(r"(?P<month>[A-Za-z]{3})[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})"),
    re.compile(r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\.?\s+(?P<month>[A-Za-z]{3})[a-z]*\.?,?\s+(?P<year>\d{4})"),
)
_AGO = re.compile(r"(\d{1,4})\s+(minute|hour|day|week|month|year)s?\s+ago")
_DAYS = {"minute": 0.0, "hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.44, "year": 365.25}


def day_of(text: object, now: datetime | None = None) -> str | None:
    """Return the day of `Oct 18, 2019`, `2019年10月18日`, `3 days ago` (from `now`) as `2019-10-18`; None for none."""
    text = text[:200] if isinstance(text, str) else ""
    try:
        for match in filter(None, (pattern.search(text) for pattern in _DATES)):
            month = match["month"].lower()
            if month.isdigit() or month in _MONTHS:
                number = int(month) if month.isdigit() else _MONTHS.index(month) + 1
                return date(int(match["year"]), number, int(match["day"])).isoformat()
        if now is not None and (ago := _AGO.search(text)):
            return (now - timedelta(days=int(ago[1]) * _DAYS[ago[2]])).date().isoformat()
    except (ValueError, OverflowError):
        return None
    return None
