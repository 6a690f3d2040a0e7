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
from agentorchestra.tools.web.search.service import Service, clean_address
from agentorchestra.tools.web.search.types import EngineError, Query, SearchResult, Traits

_ADDRESS = re.compile(
    r"https?://[^\s<>\"'`\\]+|(?<![\w@.])(?:[a-z0-9-]+\.)+[a-z]{2,24}(?::\d+)?(?:/[^\s<>\"'`\\]*)?", re.IGNORECASE
)


class Archive(Service):
    """The interfaces of the Wayback Machine: the list of captures (CDX), and the nearest one (availability)."""

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

    async def copy_of(self, address: str, day: date) -> SearchResult | None:
        """Return the last capture of a page up to the end of a day; if there is none, the first one after it."""
        rows = await self._captures(address, until=day, limit=-1)
        if rows:
            return self._capture(address, rows[-1])
        params = {"url": address, "timestamp": f"{day:%Y%m%d}235959"}
        data = await self.json("GET", "/wayback/available", params=params, base=self._nearest)
        snapshots = data.get("archived_snapshots") if isinstance(data, dict) else None
        nearest = snapshots.get("closest") if isinstance(snapshots, dict) else None
        time = nearest.get("timestamp") if isinstance(nearest, dict) and nearest.get("available") else None
        return self._capture(address, time) if isinstance(time, str) and _day(time) else None

    async def _captures(self, page: str, *, since: date | None = None, until: date | None, limit: int) -> list[str]:
        """Return the times of captures, oldest first; a negative limit means the last ones."""
        params = {
            "url": page,
            "output": "json",
            "fl": "timestamp,original,statuscode",
            "filter": "statuscode:200",
            "collapse": "digest",
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
        return match[0].rstrip(".,;:!?)]}")
    return query.site


def _day(time: str) -> str:
    match = re.fullmatch(r"(\d{4})(\d{2})(\d{2})\d{0,6}", time)
    try:
        return date(int(match[1]), int(match[2]), int(match[3])).isoformat() if match else ""
    except ValueError:
        return ""
