"""Programs: their source texts, what they import, where they run."""
