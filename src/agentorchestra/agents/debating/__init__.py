"""What a debate is made of: who takes part, what was said, what it comes to. `agents/debate.py` leads it."""
