"""The help texts in docs/cli.md: `python -m tests.cli.reference` writes them, test_help.py checks them."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

from agentorchestra.cli.commands.components.group import components
from agentorchestra.cli.group import COMMANDS, cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
MARK = "<!-- What follows is written by `python -m tests.cli.reference` from the help texts. -->\n"


SHORT_FORMS = {"tools", "environments", "agents", "prompts", "memories"}
"""Their commands are those of `components`, described once, and some of their own."""


def help_text(*words: str) -> str:
    """What `agentorchestra ... --help` prints."""
    result = CliRunner().invoke(cli, [*words, "--help"], prog_name="agentorchestra", terminal_width=100)
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def _section(words: list[str]) -> str:
    return f"## {' '.join(['agentorchestra', *words])}\n\n```text\n{help_text(*words)}\n```\n"


def reference() -> str:
    """The whole page: what stands before the mark, and today's help texts."""
    head, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert mark, f"{PAGE} has lost its mark"
    sections = [head + mark]
    for words in ([], *([name] for name in COMMANDS)):
        sections.append(_section(words))
        found = cli.get_command(click.Context(cli), words[0]) if words else None
        if isinstance(found, click.Group):
            described = components.commands if words[0] in SHORT_FORMS else {}
            sections += [_section([*words, name]) for name in found.commands if name not in described]
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
