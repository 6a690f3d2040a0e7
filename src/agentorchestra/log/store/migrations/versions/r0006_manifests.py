"""Runs: a manifest once, in the row, its long fields as blobs; those that are there stay as they are."""

from __future__ import annotations

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Change nothing: an earlier version could not read what this one writes."""
