"""The environment `github`."""
