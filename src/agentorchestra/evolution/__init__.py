"""Self-evolution: components improve from recorded runs, and are promoted on evidence held apart (docs/evolution.md)."""
