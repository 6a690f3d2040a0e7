"""The event store: one contract (`core.protocols.Store`), in a dictionary, in SQLite or in PostgreSQL.

rows.py        an event as a row and back
histories.py   an entry of a component's history as a row and back
schema.py      the tables, shared by every database
blobs.py       large bytes in files by hash
references.py  which blobs a text refers to
sql.py         the store over SQLAlchemy Core: the writes of the contract
writer.py      one writer thread with group commit; commits.py: the futures it resolves
reader.py      a few readers
database.py    what both have in common, and what each database does its own way
deletion.py    what is deleted
sqlite.py      what is SQLite's own
postgres.py    what is PostgreSQL's own
address.py     where a PostgreSQL is, and how that is shown
factory.py     the store that the settings name
pages.py       a query of any size
memory.py      the same contract over dictionaries
migrations/    Alembic's revisions
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentorchestra.log.store.memory import MemoryStore

if TYPE_CHECKING:
    from agentorchestra.log.store.postgres import PostgresStore
    from agentorchestra.log.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "PostgresStore", "SqliteStore"]


def __getattr__(name: str) -> Any:
    # SQLAlchemy is only loaded where a database is used (PEP 562).
    if name == "SqliteStore":
        from agentorchestra.log.store.sqlite import SqliteStore

        return SqliteStore
    if name == "PostgresStore":
        from agentorchestra.log.store.postgres import PostgresStore

        return PostgresStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
