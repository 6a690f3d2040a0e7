"""The systems: one file per paradigm, and the handler of InvokeAgent that finds them by name."""
