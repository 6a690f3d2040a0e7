"""`agentorchestra evolve`: what is learnt from recorded runs."""

from __future__ import annotations

import click

from agentorchestra.cli.commands.evolution_export import export
from agentorchestra.cli.commands.evolution_tips import tips


@click.group(
    "evolve",
    epilog="""\b
Examples:
  agentorchestra evolve export data --system aorchestra
  agentorchestra evolve export data --evaluation first --min-score 1
  agentorchestra evolve export pairs --pairs --evaluation first
  agentorchestra evolve tips --evaluation first --model openai:gpt-5""",
)
def group() -> None:
    """Learn from recorded runs."""


group.add_command(export)
group.add_command(tips)
