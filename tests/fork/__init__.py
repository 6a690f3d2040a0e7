"""Fork, compare, and what is kept by hash."""
