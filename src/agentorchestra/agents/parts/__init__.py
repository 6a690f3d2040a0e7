"""Parts of an agent that the settings choose, in any system that works in steps (004, sec. 3.2)."""
