"""A run's browser: the process, its pages and what they may reach."""
