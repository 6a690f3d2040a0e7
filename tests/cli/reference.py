"""The help texts in docs/cli.md: `python -m tests.cli.reference` writes them, test_help.py checks them."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from agentorchestra.cli.group import COMMANDS, cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
MARK = "<!-- What follows is written by `python -m tests.cli.reference` from the help texts. -->\n"


def help_text(*words: str) -> str:
    """What `agentorchestra ... --help` prints."""
    result = CliRunner().invoke(cli, [*words, "--help"], prog_name="agentorchestra", terminal_width=100)
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def reference() -> str:
    """The whole page: what stands before the mark, and today's help texts."""
    head, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert mark, f"{PAGE} has lost its mark"
    sections = [head + mark]
    for title, words in [("agentorchestra", []), *((f"agentorchestra {name}", [name]) for name in COMMANDS)]:
        sections.append(f"## {title}\n\n```text\n{help_text(*words)}\n```\n")
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
