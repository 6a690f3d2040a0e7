"""The actions of the environment `browser`."""
