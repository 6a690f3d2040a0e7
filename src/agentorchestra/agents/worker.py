"""The worker: carries out what the user's own tools are for."""

from __future__ import annotations

from agentorchestra.agents.agent import Agent

WORKER = Agent(
    name="worker",
    description=(
        "Carries out work with the tools that the user gave for this task, and gives back what they said. Say with "
        "which values."
    ),
    tools=None,
    prompt="worker",
    role="worker",
    max_steps=15,
)

__all__ = ["WORKER"]
