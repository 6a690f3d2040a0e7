"""Self-evolution: components improve from runs, and are promoted on evidence held apart (docs/evolution.md)."""
