"""The environment `terminal`."""
