"""What is known of a command of the shell while it runs. Inside of the sandbox."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentorchestra.sandbox._jobs import Log
else:  # inside there is nothing but the files beside this one
    from _jobs import Log


class Command:
    """One command, or what it left running."""

    def __init__(self, number: int, text: str, seconds: float, together: bool) -> None:
        self.number, self.text, self.together = number, text, together
        self.deadline = time.monotonic() + seconds
        self.log = Log()
        self.ending = ""
        self.began_to_end = 0.0
        self.interrupted: set[int] = set()
        self.next_interrupt = 0.0
        self.twice = False
        self.readers: dict[int, int] = {}
        self.own_writers: list[int] = []
        self.status: int | None = None
        self.paths: list[str] = []
