"""A lexical index (BM25) over passages that takes a new document without a rebuild: SQLite's FTS5 in one file.

The index is a cache: it is keyed by the files' hashes, written in transactions of whole documents, and thrown away when
it cannot be read. A search names the documents it means, so what is no file of a task is never found.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentorchestra.tools.files.cache_db import open_cache
from agentorchestra.tools.files.documents import Document, document_from_json, document_to_json, is_media, pictures_of
from agentorchestra.tools.files.passages import passages
from agentorchestra.tools.files.readers import check_stop

_VERSION = 6
"""Of the tables and of how passages are cut; another one found in a file means: build anew.

1: the first. 2: passages are numbered by their document, problems are kept, the search's words are stored once.
3: writing without spaces between words (Chinese, Japanese) is found by its pairs of characters.
4: which pages are pictures. 5: the names of a table's columns are found; what cells have besides values is kept; JSON
and XML as they stand in the file; stretches of long lines have places of their own. 6: pictures on slides.
"""

_BITS = 24
"""A passage's number is its document's shifted left by these, plus its place in it: a search needs no look-up to tell
which document a passage is of."""

_TABLES = {
    "documents": """CREATE TABLE documents (
        id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, kept BLOB, problem TEXT, at REAL, pictures TEXT
    )""",
    "passages": "CREATE TABLE passages (id INTEGER PRIMARY KEY, place TEXT NOT NULL, body TEXT NOT NULL)",
    "words": """CREATE VIRTUAL TABLE words USING fts5 (
        text, heading, content = '', tokenize = "porter unicode61 remove_diacritics 2"
    )""",
}

PROBLEM_S = 3_600.0  # after this a file that could not be read is tried again: it may have been the machine
QUERY_S = 20.0  # the longest a query may take
# What is read without a process of its own
_CHEAP = frozenset({"text/plain", "text/markdown", "text/csv", "text/tab-separated-values"})
_HYPHENATION = re.compile(r"(\w)[-\u00ad]\n\s*(?=[a-zà-ÿ])")
_CAMEL = re.compile(r"(?<=[a-zà-ÿ])(?=[A-Z])|_")
_CELL_ADDRESS = re.compile(r"(?:^|(?<=; ))[A-Z]{1,3}\d+ (?=[^;]*:)")
_WORD = re.compile(r"\w+", re.UNICODE)
# Writing without spaces between words
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
# Words that say how something is asked, not what for. A query made of nothing else is searched as it stands.
_STOP_WORDS = """
a an the of in on at to for from by with and or as is are was were be been being do does did has have had what which who
whom whose when where why how many much that this these those there it its they their he she his her i you we will would
can could shall should may might must than then so if into about between under over per
der die das des dem den ein eine einer eines einem einen und oder ist sind war waren wird werden wurde wurden welche
welcher welches wer wen wem wann wo warum wie viel viele im am an auf aus bei mit nach von vom zu zum zur für über unter
als auch hat haben hatte es er sie
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True)
class PassageHit:
    sha256: str  # of the file it stands in
    place: str
    text: str
    score: float  # higher is better; comparable within one answer only


def query_words(query: str) -> list[str]:
    """Return the distinct words of a query, without stop words unless nothing else is left."""
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(query.replace("_", " "))))
    return [word for word in words if word not in STOP_WORDS] or words


@dataclass(frozen=True)
class Prepared:
    """A document made ready for the index: what takes time, done outside the lock."""

    rows: Sequence[tuple[str, str, str, str]] = ()  # (searchable words, heading, place, text) of each passage
    content: bytes | None = None  # the converted document where converting it again would be costly
    problem: str | None = None  # why it could not be read, with `{name}` for the file's name; it then has no rows
    pictures: str = ""  # the pages without text that could be searched, "" for none

    @property
    def chars(self) -> int:
        return sum(len(row[0]) + len(row[3]) for row in self.rows) + len(self.content or b"")


class SlowQueryError(Exception):
    """A query took longer than `QUERY_S`."""


def prepare(document: Document, stop: threading.Event | None = None) -> Prepared:
    """Cut a document into the passages to be indexed; Stopped if `stop` is set meanwhile."""
    rows = []
    for count, passage in enumerate(passages(document)):
        if count % 256 == 0:
            check_stop(stop)
        if count >> _BITS:
            break
        table = passage.place.rpartition("!")[2].startswith("row ")
        rows.append((_searchable(passage.text, table), passage.heading, passage.place, passage.text))
    data = None
    if is_costly(document.media_type):
        data = zlib.compress(json.dumps(document_to_json(document), ensure_ascii=False).encode("utf-8", "replace"), 1)
    return Prepared(rows, data, pictures=pictures_of(document))


def is_costly(media_type: str) -> bool:
    """Return True if files of a type take a process to be read, so that their documents are kept."""
    return media_type not in _CHEAP and not is_media(media_type)


class PassageIndex:
    """Passages of many documents in `folder`/index.db, or in memory without a folder.

    Methods block; call them in a thread. One lock serialises the threads of one object; several objects and processes
    may use one file.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = open_cache(folder / "index.db" if folder is not None else None, _VERSION, _TABLES, timeout_s=30)
        with contextlib.suppress(sqlite3.OperationalError):  # in use, or a disk on which it cannot be
            self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA temp_store = MEMORY")
        self._db.execute("CREATE TEMP TABLE wanted (sha256 TEXT PRIMARY KEY, position INTEGER) WITHOUT ROWID")
        self._db.execute("CREATE TEMP TABLE chosen (id INTEGER PRIMARY KEY, position INTEGER)")

    def close(self) -> None:
        """Release the file; idempotent."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> PassageIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def has(self, sha256: str) -> bool:
        statement = "SELECT 1 FROM documents WHERE sha256 = ? AND problem IS NULL"
        with self._lock:
            return self._db.execute(statement, (sha256,)).fetchone() is not None

    def document(self, sha256: str) -> Document | None:
        """Return a document that was added and is costly to convert again, None for the others."""
        with self._lock:
            row = self._db.execute("SELECT kept FROM documents WHERE sha256 = ?", (sha256,)).fetchone()
        content = row[0] if row is not None else None
        return document_from_json(json.loads(zlib.decompress(content))) if content is not None else None

    def problems(self, sha256s: Iterable[str]) -> dict[str, str]:
        """Return "" for documents that can be searched, else why one could not be read lately."""
        statement = "SELECT sha256, coalesce(problem, '') FROM wanted JOIN documents USING (sha256) " + (
            "WHERE problem IS NULL OR at > ?"
        )
        with self._lock:
            self._want(sha256s)
            return dict(self._db.execute(statement, (time.time() - PROBLEM_S,)).fetchall())

    def pictures(self, sha256s: Iterable[str]) -> dict[str, str]:
        """Return the documents of these that have pages without text, with these pages."""
        with self._lock:
            self._want(sha256s)
            statement = "SELECT sha256, pictures FROM wanted JOIN documents USING (sha256) WHERE pictures <> ''"
            return dict(self._db.execute(statement).fetchall())

    def _want(self, sha256s: Iterable[str]) -> None:
        """Put the documents of a search into a table: a statement takes only so many values."""
        rows = ((sha256, number) for number, sha256 in enumerate(sha256s))
        with self._db:
            self._db.execute("BEGIN")
            self._db.execute("DELETE FROM wanted")
            self._db.executemany("INSERT OR IGNORE INTO wanted VALUES (?, ?)", rows)

    def add(self, sha256: str, document: Document, stop: threading.Event | None = None) -> int:
        """Add a document unless it is there, all of it or nothing; return how many passages were added."""
        entry = prepare(document, stop)  # before the file is locked for the writing
        check_stop(stop)
        return self.put([(sha256, entry)])

    def put(self, documents: Sequence[tuple[str, Prepared]]) -> int:
        """Add prepared documents that are not there yet, all of them or none; return how many passages were added."""
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            return sum(self._put(sha256, entry) for sha256, entry in documents)

    def _put(self, sha256: str, entry: Prepared) -> int:
        row = self._db.execute("SELECT id, problem FROM documents WHERE sha256 = ?", (sha256,)).fetchone()
        if row is not None and row[1] is None:
            return 0
        number = row[0] if row is not None else None
        cursor = self._db.execute(
            "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?)",
            (number, sha256, entry.content, entry.problem, time.time(), entry.pictures),
        )
        first = (number or cursor.lastrowid or 0) << _BITS
        self._db.executemany(
            "INSERT INTO words (rowid, text, heading) VALUES (?, ?, ?)",
            ((first + at, words, heading) for at, (words, heading, _, _) in enumerate(entry.rows)),
        )
        self._db.executemany(
            "INSERT INTO passages VALUES (?, ?, ?)",
            ((first + at, place, text) for at, (_, _, place, text) in enumerate(entry.rows)),
        )
        return len(entry.rows)

    def search(
        self, query: str, sha256s: Sequence[str], limit: int = 5, stop: threading.Event | None = None
    ) -> list[PassageHit]:
        """Return the best passages of these documents: those that hold more of the query's rarer words first.

        Any text is a query. SlowQueryError if it takes longer than `QUERY_S`, Stopped if `stop` was set meanwhile.
        """
        words = query_words(query)
        if not words or not sha256s:
            return []
        # Each word in quotes is a string to FTS5; `\w` holds no quote.
        terms = dict.fromkeys(term for word in words[:64] for term in _terms(word))
        match = " OR ".join(f'"{term}"' for term in [*terms][:128])
        deadline = time.monotonic() + QUERY_S

        def late() -> bool:
            return time.monotonic() > deadline or (stop is not None and stop.is_set())

        with self._lock:
            self._want(sha256s)
            self._db.execute("DELETE FROM chosen")
            self._db.execute("INSERT INTO chosen SELECT id, position FROM wanted JOIN documents USING (sha256)")
            self._db.set_progress_handler(late, 10_000)
            try:
                rows = self._db.execute(_SEARCH, (match, max(1, limit))).fetchall()
            except sqlite3.OperationalError:
                if not late():
                    raise
                check_stop(stop)
                raise SlowQueryError from None
            finally:
                self._db.set_progress_handler(None, 0)
        return [PassageHit(*row) for row in rows]


# The matching passages come first (CROSS JOIN keeps the order): one look at the task's documents for each of them.
_SEARCH = f"""
SELECT documents.sha256, place, body, score FROM (
    SELECT words.rowid AS id, position, -bm25(words, 1.0, 0.3) AS score
    FROM words CROSS JOIN chosen ON chosen.id = (words.rowid >> {_BITS})
    WHERE words MATCH ? ORDER BY score DESC, position, words.rowid LIMIT ?
) AS hits JOIN passages ON passages.id = hits.id JOIN documents ON documents.id = (hits.id >> {_BITS})
ORDER BY score DESC, position, hits.id
"""


def _searchable(text: str, table: bool) -> str:
    """Return the words to index: hyphenation undone, `lifeExp` and `life_exp` as two words, cell addresses left out."""
    text = _HYPHENATION.sub(r"\1", text)
    if table:
        text = _CELL_ADDRESS.sub("", text)
    apart = [term for word in _WORD.findall(text) if _CJK.search(word) for term in _terms(word)]
    split = _CAMEL.sub(" ", text)
    return " ".join([text, *([split] if split != text else []), *apart])


def _terms(word: str) -> list[str]:
    """Return what is looked for: the word; of writing without spaces its pairs of characters, and what is between."""
    runs = _CJK.findall(word)
    if not runs:
        return [word]
    pairs = [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
    return [*pairs, *(piece for piece in _CJK.split(word) if piece)]
