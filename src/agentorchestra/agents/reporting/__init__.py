"""The reporter."""
