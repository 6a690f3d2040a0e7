"""Debates: their experts, their statements, their conclusion. `agents/debate/agent.py` leads them."""
