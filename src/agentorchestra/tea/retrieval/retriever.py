"""Finding components of one kind: the index with what is around it - an embedder and scopes.

    query ─> Index (words, pieces, vectors) ─> among those of a scope

One more component adds its own words and has one text embedded; nothing is made anew. Without an embedder, or while
the one there is fails, words find.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.ids import sha256_text
from agentorchestra.tea.retrieval.index import Described, Index, Match

LONGEST_QUERY = 4_000  # characters of a query that are read: what bounds the time of a hostile one
QUERIES_KEPT = 256  # vectors of queries that are kept
TOGETHER = 128  # texts of components that are embedded by one call


Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""Gives a vector for each text, all of one length: `ctx.embed` within a run, or a function that makes a run for it."""


@dataclass(frozen=True)
class ComponentGroup:
    """A branch of the tree category -> toolkit -> component."""

    path: str  # `mcp`, `mcp/github`
    count: int  # components in it and below
    keys: tuple[str, ...] = ()  # of the components that lie in it itself, in the order in which they were added


class Retriever:
    """The components of one kind, to be found by what is wanted; without an embedder words find.

    `vectors` keeps those of components by the SHA-256 of their texts, in memory by default.
    """

    def __init__(
        self, embed: Embed | None = None, *, vectors: MutableMapping[str, Sequence[float]] | None = None
    ) -> None:
        self._index = Index()
        self._embed = embed
        self._hash: dict[str, str] = {}
        self._text: dict[str, str] = {}
        self._waiting: dict[str, None] = {}
        self._vectors: MutableMapping[str, Sequence[float]] = {} if vectors is None else vectors
        self._queries: OrderedDict[str, Sequence[float]] = OrderedDict()
        self._path: dict[str, tuple[str, ...]] = {}
        self.problem = ""  # why the last search had no vectors though there is an embedder

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, key: object) -> bool:
        return key in self._index

    def add(self, key: str, component: Described, *, path: str = "") -> None:
        """Take a component in at `path` of the tree; one under the same key is embedded anew if its text changed."""
        digest = sha256_text(component.text)
        self._index.add(key, component)
        self._hash[key], self._path[key] = digest, parts_of(path)
        vector = self._vectors.get(digest) if self._embed is not None else None
        if vector is not None:
            self._index.set_vector(key, vector)
        elif self._embed is not None:
            self._waiting[key], self._text[key] = None, component.text

    def remove(self, key: str) -> None:
        """Take a component out; nothing happens where there is none. Its vector is kept, in case it comes again."""
        self._index.remove(key)
        for table in (self._hash, self._path, self._waiting, self._text):
            table.pop(key, None)

    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        under: str | None = None,
        among: Collection[str] | None = None,
        embed: Embed | None = None,
        vectors: bool = True,
    ) -> list[Match]:
        """Return the components that fit, best first; those of a scope in their order where nothing is asked.

        `embed` embeds the query instead of the retriever's own embedder (`ctx.embed`, a run's own question); without
        `vectors` words alone are compared.
        """
        allowed = self._allowed(under, among)
        query = query[:LONGEST_QUERY]
        if not query.strip():
            keys = self.keys(under) if under is not None else ()
            return [Match(key, 0.0) for key in keys if among is None or key in among][: max(0, limit)]
        vector = await self._vector(query, embed) if vectors else None
        return self._index.search(query, limit=limit, among=allowed, vector=vector)

    def nearest(self, query: str, *, limit: int = 3, among: Collection[str] | None = None) -> list[str]:
        """Return keys that fit by words alone: for a name that was not spelt as it stands."""
        matches = self._index.search(query[:LONGEST_QUERY], limit=limit, among=self._allowed(None, among))
        return [match.key for match in matches]

    def keys(self, under: str | None = None) -> list[str]:
        """Return all keys, or those of a branch, in the order in which they were added."""
        above = parts_of(under or "")
        return [key for key, path in self._path.items() if path[: len(above)] == above]

    def browse(self, under: str = "", *, among: Collection[str] | None = None) -> list[ComponentGroup]:
        """Return the branches below a branch, with how much of what is asked for is in each; sorted by path."""
        above = parts_of(under)
        counts: dict[tuple[str, ...], int] = {}
        own: dict[tuple[str, ...], list[str]] = {}
        for key, path in self._path.items():
            if len(path) > len(above) and path[: len(above)] == above and (among is None or key in among):
                below = path[: len(above) + 1]
                counts[below] = counts.get(below, 0) + 1
                if path == below:
                    own.setdefault(below, []).append(key)
        return [ComponentGroup("/".join(path), counts[path], tuple(own.get(path, ()))) for path in sorted(counts)]

    def _allowed(self, under: str | None, among: Collection[str] | None) -> frozenset[str] | None:
        scope = frozenset(self.keys(under)) if under else None
        if among is None:
            return scope
        return frozenset(among) if scope is None else scope.intersection(among)

    async def _vector(self, query: str, embed: Embed | None) -> Sequence[float] | None:
        if self._embed is None or not await self.prepare():
            return None
        # A run asks for itself, whatever this process knows already: else a repetition would find another log.
        if embed is None and query in self._queries:
            self._queries.move_to_end(query)
            return self._queries[query]
        try:
            (vector,) = await (embed or self._embed)([query])
        except (AgentOrchestraError, ValueError) as exc:
            self._failed(exc)
            return None
        self._queries[query] = vector
        if len(self._queries) > QUERIES_KEPT:
            self._queries.popitem(last=False)
        return vector

    async def prepare(self) -> bool:
        """Embed the components that have no vector yet; False, with the reason in `problem`, where that failed."""
        self.problem = ""
        while self._waiting and self._embed is not None:
            texts = {self._hash[key]: self._text[key] for key in list(self._waiting)[:TOGETHER]}
            try:
                vectors = await self._embed(list(texts.values()))
                for digest, vector in zip(texts, vectors, strict=True):
                    self._vectors[digest] = array("f", vector)
                for key in [key for key in self._waiting if self._hash[key] in texts]:
                    self._index.set_vector(key, self._vectors[self._hash[key]])
                    del self._waiting[key], self._text[key]
            except (AgentOrchestraError, ValueError) as exc:
                self._failed(exc)
                return False
        return True

    def _failed(self, error: Exception) -> None:
        """Keep why the embedder failed: a search must not fail because a model is away."""
        self.problem = f"the embedder failed, so words alone were compared: {error}"


def parts_of(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
