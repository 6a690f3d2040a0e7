"""The pages that searches found: which is read next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentorchestra.tools.web.search.merge import page_key
from agentorchestra.tools.web.search.types import INVENTIVE

_RANK = 60  # of reciprocal rank fusion, as `search` merges its engines


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
        chosen = dict([row for row in first if row is not None][:most])
        for name, hit in open_:
            if len(chosen) >= most:
                break
            chosen.setdefault(name, hit)
        self._read |= set(chosen)
        return [*chosen.values()]


def _page(place: object) -> str:
    """Return a page of a file, to be read by itself; single lines and cells are too little to understand."""
    page = str(place or "")
    return page if page.startswith("p. ") else ""
