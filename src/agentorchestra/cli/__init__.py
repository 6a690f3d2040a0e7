"""The command line. `main` is the command `agentorchestra`; each command is a module of `commands/`."""

from agentorchestra.cli.entry import main

__all__ = ["main"]
