from __future__ import annotations

import click

from agentorchestra.cli.output import emit
from agentorchestra.core.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog="""\b
Examples:
  agentorchestra completion bash > ~/.local/share/bash-completion/completions/agentorchestra
  agentorchestra completion zsh > ~/.zfunc/_agentorchestra
  agentorchestra completion fish > ~/.config/fish/completions/agentorchestra.fish
  eval "$(agentorchestra completion bash)"

\b
Exit codes: 0; 2 for another shell."""
)
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print what makes SHELL (bash, zsh or fish) complete commands, options, files and the ids of runs.

    Write it to where your shell looks for completions (examples below), then begin a new shell. For zsh the folder,
    here ~/.zfunc, has to be in fpath before compinit runs.
    """
    from click.shell_completion import get_completion_class

    from agentorchestra.cli.group import cli

    completer = get_completion_class(shell)
    if completer is None:
        raise UsageError(f"this version of click completes nothing for {shell}; upgrade it: pip install -U click")
    emit(completer(cli, {}, "agentorchestra", "_AGENTORCHESTRA_COMPLETE").source())
    return 0
