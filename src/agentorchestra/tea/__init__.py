"""Tools, environments, agents and prompts as versioned components (the TEA protocol)."""
