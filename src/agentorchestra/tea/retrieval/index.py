"""The index of components: words (BM25) with pieces of words (TF-IDF over n-grams), and vectors where there are.

The paper retrieves by embeddings (000, app. C.2). Words and their pieces need no model, take a new component without a
rebuild, and find what embeddings miss: names. With an embedder, exact vector search joins in.

    name x3, description, parameters ─> words ────────> BM25  ─┐
                                     └> words, n-grams > TF-IDF ┴> weighted sum ─> best first
                                        an embedder's vector ──────┘

`benchmarks/retrieval` measures it. `retriever.py` has what is around it: embedder, scopes, what was of use.
"""

from __future__ import annotations

import functools
import heapq
import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

K1, B = 1.6, 0.3
"""BM25: how soon a repeated word stops counting, and how much length counts. Descriptions are short: little."""

NAME_COUNTS = 3  # a word in the name counts as often as so many in the description
SHORTEST, LONGEST = 3, 5  # characters of an n-gram; a word's begin and end belong to it
PIECES = 0.3  # the share of TF-IDF in the sum; the rest is BM25's
MOST_POSTINGS = 20_000  # places of n-grams that a query looks at: what bounds its time in a large index
VECTORS = 1 / 3  # the share of the vectors where an embedder is given; the rest is for words and pieces
LONGEST_TEXT, DEEPEST = 20_000, 16
"""Characters of a description, and of what is said of the parameters, that are read; levels of a schema."""

NEAREST = 100  # components that are found by their vectors alone, at most: words find the others
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Words that say how something is asked, not what for.
_STOP_WORDS_TEXT = """
a an the of in on at to for from by with and or as is are was were be been do does did has have had what which who when
where why how i me my we you your it its this that these those can could would should will please tell give find need
want if so there their some any
"""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
_ENDINGS = (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""))


@dataclass(frozen=True)
class Described:
    """The texts of a component before it is opened; of its parameters names and descriptions."""

    name: str
    description: str = ""
    parameters: str = ""

    @classmethod
    def of_schema(cls, name: str, description: str, parameters: Mapping[str, Any]) -> Described:
        """Return what a function-calling schema says; of very long texts the beginning."""
        words = " ".join(_of_properties(parameters))
        return cls(name, description[:LONGEST_TEXT], words[:LONGEST_TEXT])

    @property
    def text(self) -> str:
        """All of it, as an embedder reads it."""
        return "\n".join(part for part in (self.name, self.description, self.parameters) if part)


@dataclass(frozen=True)
class Match:
    """A component that was found, by its key; scores lie between 0 and 1, comparable within one answer only."""

    key: str
    score: float


def _of_properties(schema: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or depth > DEEPEST:
        return
    for name, inner in properties.items():
        yield str(name)
        if isinstance(inner, Mapping):
            yield str(inner.get("description") or "")
            yield from _of_properties(inner, depth + 1)
            items = inner.get("items")
            if isinstance(items, Mapping):
                yield from _of_properties(items, depth + 1)


def split(text: str) -> list[str]:
    """Return the words of a text in lower case; camelCase and names with `_` and `.` are several."""
    return [word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text))]


@functools.lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return a word without its usual English ending."""
    if len(word) > 3 and not word.endswith("ss"):
        for ending, instead in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)] + instead
    return word


def words_of(text: str) -> list[str]:
    """Return stems of the words that say what a text is about; all words where no other is left."""
    return [stem(word) for word in split(text) if word not in _STOP_WORDS]


@functools.lru_cache(maxsize=65_536)
def _pieces(word: str) -> tuple[str, ...]:
    frame = f" {word} "
    return tuple(
        frame[start : start + length]
        for length in range(SHORTEST, LONGEST + 1)
        for start in range(len(frame) - length + 1)
    )


def _features(words: Iterable[str], text: str) -> Counter[str]:
    """Return stems and n-grams with how often they occur; an n-gram is told from a word by its mark."""
    counts = Counter(words)
    for word in split(text):
        counts.update("#" + piece for piece in _pieces(word))
    return counts


_Postings: TypeAlias = "dict[str, tuple[array[int], array[float]]]"
"""For each term the documents that have it, and a weight."""


def _post(postings: _Postings, term: str, document: int, weight: float) -> None:
    posting = postings.get(term)
    if posting is None:
        posting = postings[term] = array("i"), array("f")
    posting[0].append(document)
    posting[1].append(weight)


class Index:
    """The components that can be found: a key added again replaces; not for use from several threads at once."""

    def __init__(self) -> None:
        self._keys: list[str | None] = []
        self._place: dict[str, int] = {}
        self._given: dict[str, Described] = {}
        self._words: _Postings = {}
        self._pieces: _Postings = {}
        self._lengths = array("f")
        self._norms = array("f")
        self._total = 0.0
        self._vectors = Vectors()
        self._gone: list[int] = []

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, key: object) -> bool:
        return key in self._place

    def add(self, key: str, component: Described, vector: Sequence[float] | None = None) -> None:
        """Take a component in; what was under the key is replaced. `vector` is an embedding of `one.text`."""
        self.remove(key)
        place = len(self._keys)
        names = " ".join([component.name] * NAME_COUNTS)
        text = f"{names} {component.description} {component.parameters}"
        words = words_of(text)
        for word, count in Counter(words).items():
            _post(self._words, word, place, count)
        norm = 0.0
        for term, count in _features(words, text).items():
            weight = 1.0 + math.log(count)
            _post(self._pieces, term, place, weight)
            # Without the rarity of the terms, which changes with every document: so no norm ever has to be made anew.
            norm += weight * weight
        self._keys.append(key)
        self._place[key], self._given[key] = place, component
        self._lengths.append(len(words))
        self._norms.append(math.sqrt(norm) or 1.0)
        self._total += len(words)
        if vector is not None:
            self._vectors.put(place, vector)

    def set_vector(self, key: str, vector: Sequence[float]) -> None:
        """Set a component's embedding; raise ValueError if it has another length than those that are there."""
        self._vectors.put(self._place[key], vector)

    def remove(self, key: str) -> None:
        """Take a component out; nothing happens where there is none."""
        place = self._place.pop(key, None)
        if place is None:
            return
        del self._given[key]
        self._keys[place] = None
        self._total -= self._lengths[place]
        self._vectors.drop(place)
        self._gone.append(place)
        if len(self._gone) > 64 and len(self._gone) > len(self._place):
            self._rebuild()

    def _rebuild(self) -> None:
        """Make the postings anew, since most of what stands in them was removed."""
        entries = [(key, self._given[key], self._vectors.get(place)) for key, place in self._place.items()]
        Index.__init__(self)
        for key, component, vector in entries:
            self.add(key, component, vector)

    def search(
        self, query: str, *, limit: int = 10, among: frozenset[str] | None = None, vector: Sequence[float] | None = None
    ) -> list[Match]:
        """Return the components that fit, best first; none that shares nothing."""
        if not self._place or limit < 1:
            return []
        parts = [(1 - PIECES, self._by_words(query)), (PIECES, self._by_pieces(query))]
        if vector is not None and len(self._vectors):
            parts = [((1 - VECTORS) * share, scores) for share, scores in parts]
            places = {place for _, scores in parts for place in scores}
            parts.append((VECTORS, self._vectors.likeness(vector, places)))
        score = _added(parts)
        for place in self._gone:
            score.pop(place, None)
        if among is not None:
            keys = self._keys
            score = {place: value for place, value in score.items() if keys[place] in among}
        # Thousands may fit a little: they are only counted past, and equal ones come in the order of their adding.
        least = min(heapq.nlargest(limit, score.values()), default=0.0)
        first = sorted((-value, place) for place, value in score.items() if value >= least and value > 0)[:limit]
        best = max(1.0, -first[0][0]) if first else 1.0
        return [Match(key, -value / best) for value, place in first if (key := self._keys[place]) is not None]

    def _by_words(self, query: str) -> dict[int, float]:
        score: dict[int, float] = {}
        average = self._total / max(1, len(self._place)) or 1.0
        for word in sorted(set(words_of(query) or split(query))):
            posting = self._words.get(word)
            if posting is None:
                continue
            places, counts = posting
            rarity = math.log(1 + (len(self._keys) - len(places) + 0.5) / (len(places) + 0.5))
            for place, count in zip(places, counts, strict=True):
                length = K1 * (1 - B + B * self._lengths[place] / average)
                score[place] = score.get(place, 0.0) + rarity * count * (K1 + 1) / (count + length)
        return score

    def _by_pieces(self, query: str) -> dict[int, float]:
        terms = []
        for term, count in _features(words_of(query), query).items():
            posting = self._pieces.get(term)
            if posting is not None:
                terms.append((len(posting[0]), term, count, posting))
        # The rarest first: what nearly all have tells little and costs most.
        terms.sort(key=lambda entry: entry[:2])
        score: dict[int, float] = {}
        left = MOST_POSTINGS
        for frequency, _, count, (places, weights) in terms:
            left -= frequency
            if left < 0:
                break
            rarity = math.log((1 + len(self._keys)) / (1 + frequency)) + 1
            factor = (1 + math.log(count)) * rarity * rarity
            for place, weight in zip(places, weights, strict=True):
                score[place] = score.get(place, 0.0) + factor * weight
        return {place: value / self._norms[place] for place, value in score.items()}


def _added(parts: Iterable[tuple[float, dict[int, float]]]) -> dict[int, float]:
    """Return the scores of the parts, each by its share; the best of a part counts 1 in it."""
    total: dict[int, float] = {}
    for share, scores in parts:
        best = max(scores.values(), default=0.0)
        factor = share / best if best > 0 else 0.0
        if not total:
            total = {place: factor * value for place, value in scores.items()}
            continue
        for place, value in scores.items():
            total[place] = total.get(place, 0.0) + factor * value
    return total


class Vectors:
    """Vectors of length 1 in one matrix that doubles: a query is one product. The first one imports numpy."""

    def __init__(self) -> None:
        self._matrix: Any = None
        self._mask: Any = None
        self._used = 0
        self._there: set[int] = set()

    def __len__(self) -> int:
        return len(self._there)

    def put(self, place: int, vector: Sequence[float]) -> None:
        """Keep a vector in place of what was there; raise ValueError if it has another length than the others."""
        import numpy

        unit = _unit(vector)
        if self._matrix is None:
            self._matrix = numpy.zeros((64, len(unit)), dtype=numpy.float32)
            self._mask = numpy.zeros(64, dtype=numpy.float32)
        if len(unit) != self._matrix.shape[1]:
            raise ValueError(f"a vector of {len(unit)} numbers among those of {self._matrix.shape[1]}")
        if place >= len(self._matrix):
            matrix = numpy.zeros((max(place + 1, 2 * len(self._matrix)), len(unit)), dtype=numpy.float32)
            matrix[: self._used] = self._matrix[: self._used]
            self._matrix = matrix
            self._mask = numpy.concatenate([self._mask, numpy.zeros(len(matrix) - len(self._mask), numpy.float32)])
        self._matrix[place], self._mask[place] = unit, 1.0
        self._used = max(self._used, place + 1)
        self._there.add(place)

    def drop(self, place: int) -> None:
        """Forget a vector; nothing happens where there is none."""
        if place in self._there:
            self._there.remove(place)
            self._matrix[place], self._mask[place] = 0.0, 0.0

    def get(self, place: int) -> Any:
        return self._matrix[place].copy() if place in self._there else None

    def likeness(self, query: Sequence[float], places: Collection[int]) -> dict[int, float]:
        """Return how much more like the query than the average they are: the nearest, and those that are asked for.

        Cosines of texts of one sort lie close together. Without the average taken off, what fits and what does not
        would differ by little beside what words say.
        """
        import numpy

        unit = _unit(query)
        if len(unit) != self._matrix.shape[1]:
            return {}
        # Not `@`: its threads wait for each other longer than the product takes.
        scores = numpy.einsum("ij,j->i", self._matrix[: self._used], unit)
        if len(self._there) > 1:
            scores = (scores - scores.sum() / len(self._there)) * self._mask[: self._used]
        nearest: Iterable[int] = range(len(scores))
        if len(scores) > NEAREST:
            nearest = numpy.argpartition(scores, -NEAREST)[-NEAREST:].tolist()
        targets = [place for place in {*places, *nearest} if place < self._used]
        return {place: score for place, score in zip(targets, scores[targets].tolist(), strict=True) if score > 0}


def _unit(vector: Sequence[float]) -> Any:
    import numpy

    values = numpy.asarray(vector, dtype=numpy.float32)
    return values / (float(numpy.linalg.norm(values)) or 1.0)
