"""Finding components that fit a task."""
