"""SQLite files that are caches: begun anew where they are broken or of another version."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path


def open_cache(path: Path | None, version: int, tables: Mapping[str, str], timeout_s: float) -> sqlite3.Connection:
    """Return a connection that threads may share, in memory without a path; tables of another version are made anew."""
    for attempt in (1, 2):
        db = sqlite3.connect(path or ":memory:", timeout=timeout_s, check_same_thread=False, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = NORMAL")
            _make(db, version, tables)
            return db
        except sqlite3.DatabaseError as error:
            db.close()
            if path is None or attempt == 2 or isinstance(error, sqlite3.OperationalError):
                raise
            for name in (path, *path.parent.glob(f"{path.name}-*")):
                name.unlink(missing_ok=True)
    raise AssertionError("unreachable")


def _make(db: sqlite3.Connection, version: int, tables: Mapping[str, str]) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0] == version:
        return
    with db:  # which commits, or rolls back
        db.execute("BEGIN IMMEDIATE")
        # Another process may have made the tables while this one waited for the lock.
        if db.execute("PRAGMA user_version").fetchone()[0] != version:
            for name, statement in tables.items():
                db.execute(f"DROP TABLE IF EXISTS main.{name}")
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {version}")
