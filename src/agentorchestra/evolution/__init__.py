"""How components improve from recorded runs, and are promoted on evidence held apart (000, sec. 3.4)."""
