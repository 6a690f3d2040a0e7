"""The Wayback Machine: pages as they were on a day."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SearchEngineSettings
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.service import Service, clean_address, value_at
from agentorchestra.tools.web.search.types import EngineError, Query, SearchResult, Traits, day_named

_ADDRESS = re.compile(
    r"https?://[^\s<>\"'`\\]+|(?<![\w@.])(?:[a-z0-9-]+\.)+[a-z]{2,24}(?::\d+)?(?:/[^\s<>\"'`\\]*)?", re.IGNORECASE
)


class Archive(Service):
    """The interfaces of the Wayback Machine: the list of captures (CDX), and the nearest one (availability)."""

    refusals: Mapping[str, str] = {"AccessControlException": "shows no copies of this page, as its owner wants it"}

    def __init__(self, web: WebClient, settings: SearchEngineSettings, environ: Mapping[str, str]) -> None:
        about = "pages as they were on a day, found by their address only"
        traits = Traits(frozenset({"past"}), dated=True, about=about)
        super().__init__("archive", web, settings, environ, base="https://web.archive.org", traits=traits)
        self._nearest = settings.base_url or "https://archive.org"

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        """Return the captures of the page whose address is in the query, newest first."""
        page = address_in(query)
        if not page:
            raise ToolError("finds pages by their address: give it in the query, or the site")
        rows = await self._captures(page, since=query.since, until=query.until, limit=-query.limit)
        return [self._capture(page, time) for time in reversed(rows)]

    async def copy_of(self, address: str, on: str) -> tuple[SearchResult | None, date]:
        """Return the last capture of a page up to the end of a day, else the first one after it; and that day."""
        page, day = address_in(Query(address)), day_named(on, "date", end=True)
        if day is None or not page:
            raise ToolError(f"address is {address[:80]!r}, date {on!r}; give the address of a page, and a day.")
        rows = await self._captures(page, until=day, limit=-1)
        if rows:
            return self._capture(page, rows[-1]), day
        params = {"url": page, "timestamp": f"{day:%Y%m%d}235959"}
        data = await self.json("GET", "/wayback/available", params=params, base=self._nearest)
        nearest = value_at(data, "archived_snapshots/closest")
        time = value_at(nearest, "timestamp") if value_at(nearest, "available") else None
        return (self._capture(page, time) if isinstance(time, str) and _day(time) else None), day

    async def _captures(self, page: str, *, since: date | None = None, until: date | None, limit: int) -> list[str]:
        """Return the times of captures, oldest first; a negative limit means the last ones."""
        params = {
            "url": page,
            "output": "json",
            "fl": "timestamp,original,statuscode",
            "filter": "statuscode:200",
            "collapse": "" if limit == -1 else "digest",  # which keeps the first of those that are the same
            "from": f"{since:%Y%m%d}" if since else "",
            "to": f"{until:%Y%m%d}" if until else "",
            "limit": limit,
        }
        data = await self.json("GET", "/cdx/search/cdx", params=params)
        if not isinstance(data, list):
            raise EngineError("answered JSON that is no list of captures")
        if not data:
            return []
        head, *rows = data
        # The first row names the columns.
        if not isinstance(head, list) or "timestamp" not in head:
            raise EngineError("answered JSON that is no list of captures")
        at = head.index("timestamp")
        times = [row[at] for row in rows if isinstance(row, list) and len(row) > at and isinstance(row[at], str)]
        return sorted(time for time in times if _day(time))

    def _capture(self, page: str, time: str) -> SearchResult:
        copy = clean_address(f"{self.base}/web/{time}/{page}")
        day = _day(time)
        # The address of the page itself may be one that nobody has received: it stands inside the copy's only.
        title = f"Copy of {day} of {re.sub(r'^https?://', '', page)[:200]}"
        return SearchResult(title=title, address=copy, date=day, archived=copy, archived_date=day)


def address_in(query: Query) -> str:
    """Return the address of a page in the words of a query, or the site's; "" where there is none."""
    match = _ADDRESS.search(query.text)
    if match is not None:
        address = match[0].rstrip(".,;:!?]}")
        return address if address.count("(") >= address.count(")") else address.rstrip(".,;:!?)")
    return query.site


def _day(time: str) -> str:
    match = re.fullmatch(r"(\d{4})(\d{2})(\d{2})\d{0,6}", time)
    try:
        return date(int(match[1]), int(match[2]), int(match[3])).isoformat() if match else ""
    except ValueError:
        return ""
