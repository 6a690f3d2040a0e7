"""Runs: when a server took them on, and the key under which a request can be sent again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0004"
down_revision = "0003"

KEY = sa.Text().with_variant(TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the columns; runs of earlier versions were taken on by nobody."""
    for name in ("accepted", "request_key", "request_digest"):
        op.add_column("runs", sa.Column(name, KEY))
    op.create_index("ix_runs_accepted", "runs", ["status", "accepted", "id"])
    op.create_index("ix_runs_request_key", "runs", ["request_key"], unique=True)
