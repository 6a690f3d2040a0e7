"""The tables, in SQLAlchemy Core: the same ones in every database.

JSON is kept as text: the log is read by this package, and text keeps what JSON columns normalise away. Times are text
of fixed width in UTC; only leases are numbers (seconds since 1970), because the database's own clock reckons with them.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from agentorchestra.core.ids import PART

Key = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that is compared by its bytes, as SQLite does: the order does not depend on a server's language."""

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
"""Alembic's revisions, oldest first; the last one is what this version writes (tests compare with migrations/)."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)

runs = Table(
    "runs",
    metadata,
    Column("id", Key, primary_key=True),
    Column("parent_run", Key),
    Column("fork_seq", BigInteger),
    Column("manifest", Text, nullable=False),
    Column("status", Key, nullable=False),
    Column("next_seq", BigInteger, nullable=False),
    Column("created", Key, nullable=False),
    Column("session", Key),
    # When a run that was made elsewhere came here, from a bundle or a file; NULL for runs made here.
    Column("imported", Key),
    # When a server took the run on; NULL for runs that somebody else drives.
    Column("accepted", Key),
    # The key under which its request can be sent again, and the digest of that request.
    Column("request_key", Key),
    Column("request_digest", Key),
)
Index("ix_runs_created", runs.c.created, runs.c.id)
Index("ix_runs_session", runs.c.session, runs.c.created)
Index("ix_runs_status", runs.c.status, runs.c.id)
Index("ix_runs_accepted", runs.c.status, runs.c.accepted, runs.c.id)
Index("ix_runs_request_key", runs.c.request_key, unique=True)

jobs = Table(
    "jobs",
    metadata,
    Column("run", Key, ForeignKey("runs.id"), primary_key=True),
    Column("owner", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("lease_until", Double),
)

events = Table(
    "events",
    metadata,
    Column("run", Key, ForeignKey("runs.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("branch", Key, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("type", Key, nullable=False),
    Column("v", Integer, nullable=False),
    Column("ts", Key, nullable=False),
    Column("span", Key),
    Column("parent_span", Key),
    Column("actor", Text, nullable=False),
    Column("body", Text, nullable=False),
    # Of the other columns (`rows.checksum`). NULL: an earlier version wrote the event.
    Column("checksum", BigInteger),
    PrimaryKeyConstraint("run", "seq", name="pk_events"),
    UniqueConstraint("run", "branch", "n", "attempt", "type", name="uq_events_key"),
)

# A row for each process that has a store open, where a COMMIT can go unanswered: how far it came. A transaction's own
# number would not do: after a crash the server gives it to another one.
writers = Table(
    "writers",
    metadata,
    Column("id", Key, primary_key=True),
    Column("last", BigInteger, nullable=False),
    Column("touched", Double, nullable=False),
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", Key, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    # NULL: the bytes are in a file.
    Column("data", LargeBinary),
    # When they were last put, in the database's time: what is about to be referred to is no garbage. NULL: long ago.
    Column("touched", Double),
)

# The histories of components: entries are only ever added, each at the next place of its history.
components = Table(
    "components",
    metadata,
    Column("kind", Key, nullable=False),
    Column("name", Key, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("ts", Key, nullable=False),
    Column("type", Key, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("kind", "name", "seq", name="pk_components"),
)

# Where large blobs of a database lie that are not in its table; made when the settings first name such a place. `owner`
# stands there, too: below one address lie the artifacts of one database.
artifacts = Table(
    "artifacts", MetaData(), Column("address", Text, nullable=False), Column("owner", Text, nullable=False)
)

# Alembic's own table.
_alembic_version = Table(
    "alembic_version",
    MetaData(naming_convention={"pk": "%(table_name)s_pkc"}),
    Column("version_num", String(32), primary_key=True),
)


def is_part(run: ColumnElement[str]) -> ColumnElement[bool]:
    """Return a condition on the id of a run: that it is a part of another one."""
    return (run >= PART) & (run < f"{PART}~")  # the index on ids has them in one place


def create(connection: Connection) -> None:
    """Make the tables in an empty database, as all revisions one after the other would, and say so to Alembic."""
    metadata.create_all(connection, checkfirst=False)
    _alembic_version.create(connection)
    connection.execute(_alembic_version.insert(), {"version_num": REVISIONS[-1]})
