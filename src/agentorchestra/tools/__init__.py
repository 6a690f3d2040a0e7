"""The packaged tools."""
