"""Descriptions of a desktop for agents."""

from __future__ import annotations

from collections.abc import Iterable

from agentorchestra.environments.computer.windows import Window, Windows
from agentorchestra.environments.jobs import cut as cut
from agentorchestra.environments.jobs import how, short
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
            there = set(windows)
            self._of = {one: number for one, number in self._of.items() if one in there}

    def window(self, number: int) -> int | None:
        return next((one for one, its in self._of.items() if its == number), None)


def window_line(window: Window, number: int) -> str:
    more = ", has the keyboard" if window.focused else ""
    more += ", minimized" if window.hidden else ""
    return f"{number}: {quoted(window.title)} at {window.x}, {window.y}, size {window.width} x {window.height}{more}"


def window_lines(windows: Windows, numbers: Numbers) -> list[str]:
    if not windows.shown:
        return ["windows: none"]
    lines = ["windows, the frontmost first:"]
    lines += [f"  {window_line(one, numbers.of(one.window))}" for one in windows.shown]
    if windows.total > len(windows.shown):
        lines.append(f"  and {windows.total - len(windows.shown):,} more behind them")
    return lines


def what_changed(before: Windows, after: Windows, numbers: Numbers) -> list[str]:
    old = {one.window: one for one in before.shown}
    new = {one.window: one for one in after.shown}
    lines = []
    for one in after.shown:
        if one.window not in old:
            lines.append(f"new window {window_line(one, numbers.of(one.window))}")
        elif one.title != old[one.window].title:
            lines.append(f"window {numbers.of(one.window)} is now called {quoted(one.title)}")
    if before.total <= len(before.shown) and after.total <= len(after.shown):
        lines += [
            f"window {numbers.of(one.window)}, {quoted(one.title)}, is closed"
            for one in before.shown
            if one.window not in new
        ]
    elif before.total != after.total:
        lines.append(f"there are {after.total:,} windows, {before.total:,} before")
    had = next((one for one in before.shown if one.focused), None)
    has = next((one for one in after.shown if one.focused), None)
    if has is not None and has.window in old and (had is None or had.window != has.window):
        lines.append(f"window {numbers.of(has.window)} has the keyboard now")
    return lines if len(lines) <= _CHANGES else [*lines[:_CHANGES], f"and {len(lines) - _CHANGES} more changes"]


def quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'


def program_line(job: Job) -> str:
    return f"{job.job}: {how(job)}: {short(job.command)}"
