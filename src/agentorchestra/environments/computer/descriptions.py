"""Descriptions of a desktop for agents."""

from __future__ import annotations

from collections.abc import Iterable

from agentorchestra.environments.computer.windows import DesktopWindow, Windows
from agentorchestra.environments.jobs import cut as cut
from agentorchestra.environments.jobs import short, status
from agentorchestra.sandbox import Job

MOST_PROGRAMS = 12
_CHANGES = 10


class Numbers:
    """Short numbers for windows, from 1; a window keeps its own."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._last = 0

    def of(self, window: int) -> int:
        if window not in self._of:
            self._last = self._of[window] = self._last + 1
        return self._of[window]

    def keep(self, windows: Iterable[int]) -> None:
        """Forget windows other than these, if there are many."""
        if len(self._of) > 1000:
            current = set(windows)
            self._of = {window: number for window, number in self._of.items() if window in current}

    def window(self, number: int) -> int | None:
        return next((window for window, value in self._of.items() if value == number), None)


def window_line(window: DesktopWindow, number: int) -> str:
    more = ", has the keyboard" if window.has_focus else ""
    more += ", minimized" if window.hidden else ""
    return f"{number}: {quote(window.title)} at {window.x}, {window.y}, size {window.width} x {window.height}{more}"


def window_lines(windows: Windows, numbers: Numbers) -> list[str]:
    if not windows.front:
        return ["windows: none"]
    lines = ["windows, the frontmost first:"]
    lines += [f"  {window_line(window, numbers.of(window.window))}" for window in windows.front]
    if windows.total > len(windows.front):
        lines.append(f"  and {windows.total - len(windows.front):,} more behind them")
    return lines


def what_changed(before: Windows, after: Windows, numbers: Numbers) -> list[str]:
    old = {window.window: window for window in before.front}
    new = {window.window: window for window in after.front}
    lines = []
    for window in after.front:
        if window.window not in old:
            lines.append(f"new window {window_line(window, numbers.of(window.window))}")
        elif window.title != old[window.window].title:
            lines.append(f"window {numbers.of(window.window)} is now called {quote(window.title)}")
    if before.total <= len(before.front) and after.total <= len(after.front):
        lines += [
            f"window {numbers.of(window.window)}, {quote(window.title)}, is closed"
            for window in before.front
            if window.window not in new
        ]
    elif before.total != after.total:
        lines.append(f"there are {after.total:,} windows, {before.total:,} before")
    old_focus = next((window for window in before.front if window.has_focus), None)
    focus = next((window for window in after.front if window.has_focus), None)
    if focus is not None and focus.window in old and (old_focus is None or old_focus.window != focus.window):
        lines.append(f"window {numbers.of(focus.window)} has the keyboard now")
    return lines if len(lines) <= _CHANGES else [*lines[:_CHANGES], f"and {len(lines) - _CHANGES} more changes"]


def quote(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'


def program_line(job: Job) -> str:
    return f"{job.job}: {status(job)}: {short(job.command)}"
