"""Runs carried to another machine: one file with everything that a replay needs (docs/bundles.md)."""
