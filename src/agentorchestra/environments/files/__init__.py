"""The environment `files`."""
