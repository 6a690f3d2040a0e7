"""The event store: one contract (`core.protocols.Store`), in a dictionary, in SQLite or in PostgreSQL."""

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
