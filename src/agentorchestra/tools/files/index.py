"""A lexical index (BM25) over passages that takes a new document without a rebuild: SQLite's FTS5 in one file.

The index is a cache: it is keyed by the files' hashes, written in one transaction per document, and thrown away when it
cannot be read.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentorchestra.tools.files.passages import passages
from agentorchestra.tools.files.readers import Document, PdfDocument, TableDocument, check_stop

_VERSION = 1
"""Of the tables and of how passages are cut; another one found in a file means: build anew. 1: the first."""

_TABLES = """
CREATE TABLE documents (sha256 TEXT PRIMARY KEY, pages TEXT);
CREATE VIRTUAL TABLE passages USING fts5 (
    words, heading, sha256 UNINDEXED, place UNINDEXED, body UNINDEXED,
    tokenize = "porter unicode61 remove_diacritics 2"
);
"""

_HYPHENATED = re.compile(r"(\w)[-\u00ad]\n\s*(?=[a-zà-ÿ])")
_CAMEL = re.compile(r"(?<=[a-zà-ÿ])(?=[A-Z])|_")
_CELL_ADDRESS = re.compile(r"(?:^|(?<=; ))[A-Z]{1,3}\d+ (?=[^;]*:)")
_WORD = re.compile(r"\w+", re.UNICODE)

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
class Hit:
    """A passage that was found.

    Attributes:
        sha256: of the file it stands in.
        score: higher is better; comparable within one answer only.
    """

    sha256: str
    place: str
    text: str
    score: float


def query_words(query: str) -> list[str]:
    """The distinct words of a query, without stop words unless nothing else is left."""
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(query.replace("_", " "))))
    return [word for word in words if word not in STOP_WORDS] or words


class PassageIndex:
    """Passages of many documents in `folder`/index.db, or in memory.

    Methods block; call them in a thread. One lock serialises the threads of one object; several objects and processes
    may use one file.

    Args:
        folder: where index.db lies; None for memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = folder / "index.db" if folder is not None else None
        self._lock = threading.Lock()
        self._db = self._connect()

    def _connect(self) -> sqlite3.Connection:
        if self._path is None:
            return self._prepared(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None))
        for attempt in (1, 2):
            db = sqlite3.connect(self._path, timeout=10, check_same_thread=False, isolation_level=None)
            try:
                return self._prepared(db)
            except sqlite3.DatabaseError as error:
                db.close()
                broken = not isinstance(error, sqlite3.OperationalError)
                if attempt == 2 or not broken:
                    raise
                self._path.unlink(missing_ok=True)
        raise AssertionError("unreachable")

    def _prepared(self, db: sqlite3.Connection) -> sqlite3.Connection:
        db.execute("PRAGMA synchronous = NORMAL")
        if db.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
            return db
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have made the tables while this one waited for the lock.
            if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                db.execute("DROP TABLE IF EXISTS documents")
                db.execute("DROP TABLE IF EXISTS passages")
                for statement in _TABLES.split(";\n"):
                    if statement.strip():
                        db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        return db

    def close(self) -> None:
        """Release the file; idempotent."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> PassageIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def has(self, sha256: str) -> bool:
        """Whether the document is in the index."""
        with self._lock:
            return self._db.execute("SELECT 1 FROM documents WHERE sha256 = ?", (sha256,)).fetchone() is not None

    def pages(self, sha256: str) -> PdfDocument | None:
        """The pages of a PDF that was added: extracting them again would take seconds."""
        with self._lock:
            row = self._db.execute("SELECT pages FROM documents WHERE sha256 = ?", (sha256,)).fetchone()
        return PdfDocument(tuple(json.loads(row[0]))) if row is not None and row[0] is not None else None

    def add(self, sha256: str, document: Document, stop: threading.Event | None = None) -> int:
        """Add a document unless it is there; all of it or nothing.

        Returns:
            How many passages were added.

        Raises:
            Stopped: if `stop` was set meanwhile.
        """
        # Cut first, write then: the file is locked for the writing only.
        table = isinstance(document, TableDocument)
        rows = []
        for count, passage in enumerate(passages(document)):
            if count % 256 == 0:
                check_stop(stop)
            rows.append((_searchable(passage.text, table), passage.heading, sha256, passage.place, passage.text))
        kept = json.dumps(document.pages) if isinstance(document, PdfDocument) else None
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                if self._db.execute("INSERT OR IGNORE INTO documents VALUES (?, ?)", (sha256, kept)).rowcount != 1:
                    rows = []
                self._db.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?)", rows)
                check_stop(stop)
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
        return len(rows)

    def search(self, query: str, sha256s: Sequence[str], limit: int = 5) -> list[Hit]:
        """The best passages of these documents: those that hold more of the query's rarer words first.

        Any text is a query: operators and quotes of the search language have no meaning.
        """
        words = query_words(query)
        if not words or not sha256s:
            return []
        # Each word in quotes is a string to FTS5; `\w` holds no quote.
        match = " OR ".join(f'"{word}"' for word in words[:64])
        marks = ", ".join("?" for _ in sha256s)
        statement = (
            f"SELECT sha256, place, body, -bm25(passages, 1.0, 0.3) AS score FROM passages "
            f"WHERE passages MATCH ? AND sha256 IN ({marks}) ORDER BY score DESC, rowid LIMIT ?"
        )
        with self._lock:
            rows = self._db.execute(statement, (match, *sha256s, max(1, limit))).fetchall()
        return [Hit(*row) for row in rows]


def _searchable(text: str, table: bool) -> str:
    """The words to index: hyphenation undone, `lifeExp` and `life_exp` as two words, cell addresses left out."""
    text = _HYPHENATED.sub(r"\1", text)
    if table:
        text = _CELL_ADDRESS.sub("", text)
    return f"{text} {split}" if (split := _CAMEL.sub(" ", text)) != text else text
