from __future__ import annotations

import click

from agentorchestra.cli.options import WORDS
from agentorchestra.cli.output import emit


@click.group(
    epilog="""\b
Examples:
  agentorchestra presets list
  agentorchestra presets show paper-000
  agentorchestra run "Which of the two is older?" --preset paper-000

\b
Exit codes: 0 printed, 2 wrong usage."""
)
def presets() -> None:
    """Settings with the limits that a paper states, for `--preset`.

    What the settings file, the environment or an option say goes before them.
    """


@presets.command("list", short_help="List the presets.")
def list_presets() -> int:
    """List the presets."""
    from agentorchestra.workspace.presets import find_preset, preset_names

    for name in preset_names():
        preset = find_preset(name)
        emit(f"{name}  {preset.title} ({preset.paper})")
    return 0


@presets.command("show", short_help="Print the sheet of a preset.")
@click.argument("name", metavar="NAME", type=WORDS)
def show_preset(name: str) -> int:
    """Print the sheet of the preset NAME: what the paper states, what it leaves open, what is done here."""
    from agentorchestra.workspace.presets import find_preset
    from agentorchestra.workspace.presets.sheet import sheet

    emit(sheet(find_preset(name)).rstrip("\n"))
    return 0
