"""The command line. `main` is the command `agentorchestra`; each command is a module of `commands/`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command `agentorchestra` with these arguments, by default the process's; return its exit code."""
    own = args is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if own:
        signal.signal(signal.SIGINT, _stop)  # before the imports that take long
    try:
        # Imported here, so that Ctrl-C is met by this function even while Python still reads files.
        from agentorchestra.cli.entry import main as enter

        code = enter(args)
        if own:
            signal.signal(signal.SIGINT, lambda *_: os._exit(code))  # all is done: libraries and threads only end
        return code
    except KeyboardInterrupt:
        sys.stderr.write("error: stopped\n")
        return 130


def _stop(number: int, frame: Any) -> None:
    """End the process: nothing is begun yet; what runs takes the signal itself (`driver.Stop`).

    A KeyboardInterrupt would come up in the middle of an import, or of what a library does.
    """
    if "--json" in sys.argv:
        os.write(1, b'{"status": "cancelled", "error": "stopped", "error_type": "Interrupted"}\n')
    os.write(2, b"error: stopped\n")
    os._exit(130)
