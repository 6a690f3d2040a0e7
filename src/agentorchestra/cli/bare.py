"""`agentorchestra` without a command: the chat at a terminal, else what to begin with."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from agentorchestra.cli.output import WORKSPACE_VARIABLE, emit, say

DEMO_TEXT = "The rent is 900 euros per month.\nThe notice period is three months.\n"
DEMO_TASK = "What is the notice period?"


def bare(context: click.Context) -> int:
    """Open the chat where somebody is at a terminal and a model is set up; else offer what to begin with.

    Raises:
        NoArgsIsHelpError: at no terminal; the help is printed.
    """
    from agentorchestra.cli.commands.chat import at_chat_terminal, model_is_set
    from agentorchestra.workspace import DEFAULT_FOLDER, load_settings

    if not at_chat_terminal():
        raise click.exceptions.NoArgsIsHelpError(context)
    if model_is_set(load_settings(Path(os.environ.get(WORKSPACE_VARIABLE) or DEFAULT_FOLDER))):
        return _run(context, "chat")
    say("No model is set up yet.\n  s  set one up (agentorchestra setup)\n  d  a demo without a model\n  h  help")
    choice = click.prompt("Which", type=click.Choice(["s", "d", "h"]), default="s", err=True)
    if choice == "d":
        with tempfile.TemporaryDirectory(prefix="agentorchestra-demo-") as folder:
            lease = Path(folder) / "lease.txt"
            lease.write_text(DEMO_TEXT, encoding="utf-8")
            say(f'{DEMO_TEXT}\nagentorchestra run "{DEMO_TASK}" --file lease.txt --model offline\n')
            return _run(context, "run", DEMO_TASK, "--file", str(lease), "--model", "offline")
    if choice == "s":
        return _run(context, "setup")
    emit(context.get_help())
    return 0


def _run(context: click.Context, name: str, *words: str) -> int:
    """Run a command as if it had been typed."""
    group = context.command
    assert isinstance(group, click.Group)
    command = group.get_command(context, name)
    if command is None:
        raise click.UsageError(f"there is no command {name!r} in this version")
    with command.make_context(name, [*words], parent=context) as inner:
        return int(command.invoke(inner) or 0)
