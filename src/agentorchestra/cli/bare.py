"""`agentorchestra` without a command: the chat at a terminal, else what to begin with."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentorchestra.cli.output import WORKSPACE_VARIABLE, say

_BEGINNING = """No model is set up yet. To begin:
  agentorchestra setup                                       set up a model
  agentorchestra run "What is ...?" -f FILE --model offline  a demo without a model
  agentorchestra --help                                      all commands"""


def bare(context: click.Context) -> int:
    """Open the chat at a terminal with a model that is set up; else say how to begin (NoArgsIsHelpError)."""
    from agentorchestra.cli.commands.chat import at_chat_terminal, chat, model_is_set
    from agentorchestra.workspace import DEFAULT_FOLDER, load_settings

    if not at_chat_terminal():
        raise click.exceptions.NoArgsIsHelpError(context)
    if not model_is_set(load_settings(Path(os.environ.get(WORKSPACE_VARIABLE) or DEFAULT_FOLDER))):
        say(_BEGINNING)
        return 0
    with chat.make_context("chat", [], parent=context) as inner:
        return int(chat.invoke(inner))
