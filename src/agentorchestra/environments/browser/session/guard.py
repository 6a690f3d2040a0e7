"""The guard: guard.sh, a shell that ends a browser and removes its folders when this process has ended."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path


class BrowserGuard:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", str(Path(__file__).with_name("guard.sh"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C at the terminal is not for it
        )
        assert self._process.stdin is not None
        self._input = self._process.stdin

    def tell(self, *lines: str) -> None:
        """Say what there is to end and to remove: lines as guard.sh reads them."""
        with contextlib.suppress(OSError):  # somebody ended it: then there is none
            self._input.write("".join(f"{line}\n" for line in lines).encode())
            self._input.flush()

    def end(self) -> None:
        """End it; it has nothing to do any more. Blocks for a moment."""
        self.tell("nothing")
        self._process.kill()
        with contextlib.suppress(OSError):
            self._input.close()
        self._process.wait()
