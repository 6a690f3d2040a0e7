"""How components improve from experience: evidence, optimisers, checks, validation, promotion (000, sec. 3.4)."""
