"""The queries of a search: which were asked, what became of them, which follow from which; the pages they found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentorchestra.agents.forms import INTEGER, TEXT, TEXTS, form, list_of
from agentorchestra.tools.web.search.merge import page_key
from agentorchestra.tools.web.search.types import INVENTIVE

QUERY: dict[str, dict[str, Any]] = {"query": TEXT, "since": TEXT, "until": TEXT, "language": TEXT, "variants": TEXTS}

_BETTER = form(("draft", "query"), draft=INTEGER, problems=TEXTS, suggestion=TEXT, **QUERY)
BETTER = form(("queries",), queries=list_of(_BETTER))  # queries with what was wrong with their drafts, and what helps

NO_RESULTS = "nothing was found"  # why a query failed that was answered

_LONGEST = 300
_RANK = 60  # of reciprocal rank fusion, as `search` merges its engines
_DAY = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
_TONGUE = re.compile(r"[a-z]{2}")


@dataclass
class ResearchQuery:
    query: str
    since: str = ""
    until: str = ""
    language: str = ""
    variants: tuple[str, ...] = ()
    number: int = 0  # by which it is named, from 1
    round: int = 0  # in which it was asked; 0 before that
    branch: int = 0  # the number of the query of the plan that it goes back to; 0 for that one itself
    depth: int = 0  # 0 for those of the plan, one more than that of the query that it follows from
    draft: str = ""  # as it was before it was looked at again, "" where it is as it was
    problems: tuple[str, ...] = ()
    suggestion: str = ""  # what helps against them
    addresses: tuple[str, ...] = ()
    engines: Mapping[str, str] = field(default_factory=dict)  # those that gave nothing, and why
    failed: str = ""  # why it gave nothing

    @property
    def arguments(self) -> dict[str, Any]:
        filters = {"since": self.since, "until": self.until, "language": self.language}
        return {"query": self.query, **{name: value for name, value in filters.items() if value}}

    @property
    def mark(self) -> str:
        """Return what two queries have in common that ask the same."""
        return " ".join(str(value) for value in self.arguments.values()).casefold()

    @property
    def root(self) -> int:
        """Return the number of the query of the plan that it goes back to."""
        return self.branch or self.number


def query_from(row: Mapping[str, Any]) -> ResearchQuery:
    """Return a query as a model wrote it, without days and languages that are none."""
    days = [str(row.get(name) or "").strip() for name in ("since", "until")]
    since, until = (day if _DAY.fullmatch(day) else "" for day in days)
    if since and until and since > until:
        since = until = ""
    language = str(row.get("language") or "").strip().lower()
    return ResearchQuery(
        _words(row["query"]),
        since=since,
        until=until,
        language=language if _TONGUE.fullmatch(language) else "",
        variants=tuple(_words(variant) for variant in row.get("variants") or ()),
    )


def _words(query: Any) -> str:
    return " ".join(str(query).split())[:_LONGEST]


class Queries:
    """All queries of a research, of which at most `depth` follow each other, for each query of the plan by itself."""

    def __init__(self, depth: int) -> None:
        self.asked: list[ResearchQuery] = []
        self._depth = depth

    def take(self, queries: Sequence[ResearchQuery], number: int) -> None:
        """Number these, which are asked in the round of this number."""
        for query in queries:
            self.asked.append(query)
            query.number, query.round = len(self.asked), number

    def new(self, queries: Sequence[ResearchQuery]) -> list[ResearchQuery]:
        marks = {query.mark for query in self.asked}
        fresh = []
        for query in queries:
            if query.query and query.mark not in marks:
                marks.add(query.mark)
                fresh.append(query)
        return fresh

    def follow_ups(
        self, rows: Sequence[Mapping[str, Any]], most: int, last: Sequence[ResearchQuery]
    ) -> list[ResearchQuery]:
        """Return the follow-ups that are searched next, breadth first: one of each branch, then the second ones.

        Each branch has a depth of its own: one that went deep takes nothing from the others (001's implementation let
        all of them share one). What does not say what it follows from follows the deepest query of this round.
        """
        by_branch: dict[int, list[ResearchQuery]] = {}
        queries = [(query_from(row), self._predecessor(row, last)) for row in rows]
        fresh = {id(query) for query in self.new([query for query, _ in queries])}
        for query, before in queries:
            if id(query) not in fresh or (before is not None and before.depth + 1 >= self._depth):
                continue
            if before is not None:  # pages of the task are followed by queries that follow no other
                query = replace(query, depth=before.depth + 1, branch=before.root)
            by_branch.setdefault(query.branch, []).append(query)
        longest = max((len(branch) for branch in by_branch.values()), default=0)
        return [branch[turn] for turn in range(longest) for branch in by_branch.values() if turn < len(branch)][:most]

    def _predecessor(self, row: Mapping[str, Any], last: Sequence[ResearchQuery]) -> ResearchQuery | None:
        number = int(row.get("follows") or 0)
        if 0 < number <= len(self.asked):
            return self.asked[number - 1]
        return max(last, key=lambda query: query.depth, default=None)

    @property
    def may_follow(self) -> bool:
        return not self.asked or any(query.depth + 1 < self._depth for query in self.asked)

    def spread(self, queries: Sequence[ResearchQuery], variants: int) -> list[ResearchQuery]:
        """Return those that were not asked yet, and so many variants of each behind all of them."""
        further = [
            replace(query, query=variant, variants=())
            for query in queries
            for variant in query.variants[:variants]
            if variant
        ]
        return self.new([*queries, *further])

    def revise(self, drafts: Sequence[ResearchQuery], rows: Sequence[Mapping[str, Any]]) -> list[ResearchQuery]:
        """Return drafts after a second look; one that the model left out stays as it is."""
        better_drafts = [*drafts]
        seen: set[int] = set()
        for row in rows:
            number = int(row["draft"])
            if not 0 < number <= len(drafts) or number in seen:
                continue
            seen.add(number)
            draft = drafts[number - 1]
            # What is not said of its days and language stays as it was.
            better = query_from({"since": draft.since, "until": draft.until, "language": draft.language, **row})
            if not better.query:
                continue
            problems = tuple(str(problem)[:_LONGEST] for problem in row.get("problems", ()))[:5]
            better_drafts[number - 1] = replace(
                better,
                draft=draft.query if better.mark != draft.mark else "",
                problems=problems,
                suggestion=" ".join(str(row.get("suggestion") or "").split())[:_LONGEST],
                branch=draft.branch,
                depth=draft.depth,
                variants=better.variants or draft.variants,
            )
        return better_drafts


@dataclass
class Hit:
    address: str  # of the page, or the name of a file of the task
    title: str = ""
    score: float = 0.0  # the higher, the earlier it is read
    query: int = 0  # the number of the query that found it first; 0 where the task names it
    place: str = ""  # the page of a file that fits, "" to begin at its beginning
    doubtful: bool = False  # whether nobody lists it but an engine that may make it up


class Hits:
    """The pages that were found so far, the best first; each is read once."""

    def __init__(self) -> None:
        self._hits: dict[str, Hit] = {}
        self._read: set[str] = set()

    def take(self, number: int, results: Sequence[Mapping[str, Any]]) -> None:
        for rank, result in enumerate(results, start=1):
            address = str(result.get("archived") or result.get("address") or "")
            if not address:
                continue
            made_up = {*(result.get("sources") or ())} == {INVENTIVE}
            title, place = str(result.get("title") or ""), _page(result.get("place"))
            hit = self._hits.setdefault(
                page_key(address), Hit(address, title, query=number, place=place, doubtful=made_up)
            )
            if hit.doubtful and not made_up:  # as somebody lists it who does not make it up
                hit.address, hit.title, hit.place, hit.doubtful = address, title, place, False
            hit.score += 1 / (_RANK + rank)

    def best(self, most: int, among: Sequence[int], readable: Callable[[str], bool] = bool) -> list[Hit]:
        """Choose the pages to be read next: the best of each of these queries, then the best of all of them.

        What may be made up comes behind everything else.
        """
        open_ = [(name, hit) for name, hit in self._hits.items() if name not in self._read and readable(hit.address)]
        open_.sort(key=lambda row: (row[1].doubtful, -row[1].score))
        sure = [row for row in open_ if not row[1].doubtful]
        first = [next((row for row in sure if row[1].query == number), None) for number in among]
        choice = dict([row for row in first if row is not None][:most])
        for name, hit in open_:
            if len(choice) >= most:
                break
            choice.setdefault(name, hit)
        self._read |= set(choice)
        return [*choice.values()]


def _page(place: object) -> str:
    """Return a page of a file, to be read by itself; single lines and cells are too little to understand."""
    page = str(place or "")
    return page if page.startswith("p. ") else ""
