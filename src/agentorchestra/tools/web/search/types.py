"""Queries, results, and what every search engine has."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext

MOST_RESULTS = 50  # that are asked for at once
INVENTIVE = "model"  # the engine that may make up what it lists: what another one lists as well is had from that one
_LONGEST_QUERY = 1_000
_HOST = re.compile(r"(?!-)[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::\d{1,5})?")
_LANGUAGE = re.compile(r"([a-z]{2,3})(?:[-_]([a-z]{2,4}))?", re.IGNORECASE)


class EngineError(ToolError):
    """An engine that gave no results: the rest of a sentence that begins with its name.

    `wait_s` has the seconds that it asks to be left alone.
    """

    def __init__(self, message: str, *, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


@dataclass(frozen=True)
class Query:
    """The words to search for, and what narrows the search.

    Attributes:
        limit: results at most.
        since, until: days between which what is found was published, these included.
        language: two or three letters, "" for any.
        region: two letters of a country, "" for any.
        site: the host that it has to be from, "" for any.
        now: the time of the run: what "3 days ago" counts from.
    """

    text: str
    limit: int = 10
    since: date | None = None
    until: date | None = None
    language: str = ""
    region: str = ""
    site: str = ""
    now: datetime | None = None

    @property
    def words(self) -> str:
        """The words, with the host as most engines want it."""
        return f"{self.text} site:{self.site}" if self.site else self.text


class EngineRank(BaseModel, frozen=True):
    """An engine that listed a result, and at which place."""

    engine: str
    rank: int


class SearchResult(BaseModel, frozen=True):
    """One thing that was found.

    Attributes:
        address: where it is read: on the web, or the name of a file of the task.
        snippet: the words that the engine shows of it.
        date: when it was published, `2024-01-31`; None where that is unknown.
        place: where inside it, for a file: `p. 3`.
        sources: the engines that listed it, with their ranks.
        archived: the address of a copy as of the time that was asked for, in an archive.
        archived_date: when that copy was made.
        mirrored: whether the engine searched a copy of the page at `address`, as the settings say: the address is then
            a received link, whatever the engine's traits. Nobody is shown it.
    """

    title: str
    address: str
    snippet: str = ""
    date: str | None = None
    place: str | None = None
    sources: tuple[EngineRank, ...] = ()
    archived: str | None = None
    archived_date: str | None = None
    mirrored: bool = Field(default=False, exclude=True)


Strength = Literal["general", "past", "chinese", "scholarly", "encyclopedia", "local"]  # what an engine is chosen for


@dataclass(frozen=True)
class Traits:
    """The properties of an engine.

    Attributes:
        strengths: what it is chosen for.
        dated: whether it can be told the days; what others list is looked through afterwards.
        network: whether it asks over the network; False for what is on this machine.
        composite: whether it performs effects through `ctx` (a model that searches).
        cost_usd: US dollars of one request.
        timeout_s: seconds one request has; None for the settings'.
        about: what it is, in a few words for whoever chooses.
    """

    strengths: frozenset[Strength] = frozenset({"general"})
    dated: bool = False
    network: bool = True
    composite: bool = False
    cost_usd: float = 0.0
    timeout_s: float | None = None
    about: str = ""


@runtime_checkable
class SearchEngine(Protocol):
    """A search engine: one of the packaged ones, or one of your own (`Workspace(search_engines=[...])`, or an entry
    point in the group `agentorchestra.search_engines`).

    Attributes:
        name: lower case letters, digits and `_`.
        traits: what it says about itself.
    """

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    def missing(self) -> str:
        """Return what it needs and has not, as the rest of a sentence that begins with its name; "" if it is ready."""

    async def search(self, query: Query, ctx: RunContext[Any]) -> list[SearchResult]:
        """Return what it finds, best first; EngineError without results, ToolError for a query that is none for it."""


def query_of(
    text: str,
    *,
    limit: int = 10,
    since: str | None = None,
    until: str | None = None,
    language: str | None = None,
    region: str | None = None,
    site: str | None = None,
    now: datetime | None = None,
) -> Query:
    """Return a query from what a model wrote; a ToolError names the value that does not fit and what does."""
    words = " ".join(text.split())
    if not words:
        raise ToolError("The query is empty; give the words to search for.")
    if len(words) > _LONGEST_QUERY:
        raise ToolError(f"The query has {len(words):,} characters; give at most {_LONGEST_QUERY:,}.")
    if not 1 <= limit <= MOST_RESULTS:
        raise ToolError(f"limit is {limit}; give a number from 1 to {MOST_RESULTS}.")
    first, last = day_named(since, "since", end=False), day_named(until, "until", end=True)
    if first and last and first > last:
        raise ToolError(f"since is {first} and until is {last}: no day lies between them.")
    tongue, country = _tongue(language)
    land = (region or country).lower()
    if land and not re.fullmatch(r"[a-z]{2}", land):
        raise ToolError(f"region is {region!r}; give the two letters of a country, e.g. 'de'.")
    host = _host(site)
    return Query(words, limit, first, last, tongue, land, host, now)


def _tongue(language: str | None) -> tuple[str, str]:
    if not language:
        return "", ""
    match = _LANGUAGE.fullmatch(language.strip())
    if match is None:
        raise ToolError(f"language is {language!r}; give two letters, e.g. 'en' or 'zh'.")
    country = match[2] or ""
    return match[1].lower(), country.lower() if len(country) == 2 else ""


def _host(site: str | None) -> str:
    if not site:
        return ""
    host = re.sub(r"^https?://", "", site.strip().lower()).partition("/")[0]
    if not _HOST.fullmatch(host):
        raise ToolError("site is no host; give one, e.g. 'docs.python.org'.")
    return host


def day_named(text: str | None, name: str, *, end: bool) -> date | None:
    """Return the first or last day of `2024-01-31`, `2024-01` or `2024`."""
    if not text:
        return None
    match = re.fullmatch(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?(?:T.*)?", text.strip())
    try:
        if match is None:
            raise ValueError
        year, month, day = int(match[1]), int(match[2] or (12 if end else 1)), match[3]
        if day:
            return date(year, month, int(day))
        return date(year, month, calendar.monthrange(year, month)[1] if end else 1)
    except ValueError:
        raise ToolError(
            f"{name} is {text[:40]!r}; give a day like 2024-01-31, a month like 2024-01, or a year."
        ) from None
