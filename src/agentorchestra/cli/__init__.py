"""The command line. `main` is the command `agentorchestra`; each command is a module of `commands/`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command `agentorchestra` with these arguments, by default the process's; return its exit code."""
    try:
        # Imported here, so that Ctrl-C is met by this function even while Python still reads files.
        from agentorchestra.cli.entry import main as enter

        return enter(args)
    except KeyboardInterrupt:
        sys.stderr.write("error: stopped\n")
        return 130
