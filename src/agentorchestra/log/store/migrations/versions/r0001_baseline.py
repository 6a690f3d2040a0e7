"""Baseline: runs, jobs, events, blobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0001"
down_revision = None

KEY = sa.Text().with_variant(TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the four tables."""
    op.create_table(
        "runs",
        sa.Column("id", KEY, nullable=False),
        sa.Column("parent_run", KEY),
        sa.Column("fork_seq", sa.BigInteger()),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("status", KEY, nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.Column("created", KEY, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_created", "runs", ["created", "id"])
    op.create_table(
        "jobs",
        sa.Column("run", KEY, nullable=False),
        sa.Column("owner", sa.Text()),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.Double()),
        sa.PrimaryKeyConstraint("run", name="pk_jobs"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_jobs_run"),
    )
    op.create_table(
        "events",
        sa.Column("run", KEY, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("branch", KEY, nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("type", KEY, nullable=False),
        sa.Column("v", sa.Integer(), nullable=False),
        sa.Column("ts", KEY, nullable=False),
        sa.Column("span", KEY),
        sa.Column("parent_span", KEY),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run", "seq", name="pk_events"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_events_run"),
        sa.UniqueConstraint("run", "branch", "n", "attempt", "type", name="uq_events_key"),
    )
    op.create_table(
        "blobs",
        sa.Column("sha256", KEY, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("sha256", name="pk_blobs"),
    )
