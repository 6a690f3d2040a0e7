"""The six transformations between tools, environments and agents, and their composition (000, app. A.2, C.3)."""
