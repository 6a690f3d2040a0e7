"""The environment `git`."""
