"""Runs: the session as a column of its own (it was in the manifest only), whether they came from a bundle.

Blobs: when they were last put. Writers: how far each one came.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0002"
down_revision = "0001"

KEY = sa.Text().with_variant(TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns and fill in the sessions."""
    op.add_column("runs", sa.Column("session", KEY))
    op.add_column("runs", sa.Column("imported", KEY))
    op.add_column("blobs", sa.Column("touched", sa.Double()))
    op.create_table(
        "writers",
        sa.Column("id", KEY, nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("touched", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_writers"),
    )
    op.create_index("ix_runs_session", "runs", ["session", "created"])
    op.create_index("ix_runs_status", "runs", ["status", "id"])
    connection = op.get_bind()
    runs = sa.table("runs", sa.column("id"), sa.column("manifest"), sa.column("session"))
    set_session = sa.update(runs).where(runs.c.id == sa.bindparam("run")).values(session=sa.bindparam("name"))
    rows = connection.execute(sa.select(runs.c.id, runs.c.manifest).where(runs.c.manifest.like('%"session":"%')))
    sessions = [{"run": run, "name": json.loads(manifest).get("session")} for run, manifest in rows]
    if sessions:
        connection.execute(set_session, sessions)
