"""What agents are told of a job of a shell, and of what it printed."""

from __future__ import annotations

from itertools import groupby

from agentorchestra.sandbox import Job

_RESULT_CHARS = 16_000


def status(job: Job) -> str:
    if job.state == "flood":
        text = "stopped because it printed too much"
    elif job.state == "running" or job.exit_code is None:
        text = job.state
    else:
        text = f"ended by signal {-job.exit_code}" if job.exit_code < 0 else f"ended with exit code {job.exit_code}"
    return f"{text} (a program was killed: all together used more memory than they may)" * job.short_of_memory or text


def short(text: str, most: int = 120) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[:most]}…"


def fold(lines: tuple[str, ...]) -> list[str]:
    """Return lines with those that follow their like only counted, where they are many."""
    runs = ((line, len(list(group))) for line, group in groupby(lines))
    return [row for line, n in runs for row in ([line] * n if n <= 3 else [line, f"[{n - 1} more lines like this]"])]


def cut(text: str, advice: str = "") -> str:
    """Return the beginning and the end of a text; what is cut later keeps the beginning only."""
    left, half = len(text) - _RESULT_CHARS, _RESULT_CHARS // 2
    return text if left <= 0 else f"{text[:half]}\n[{left:,} characters left out here{advice}]\n{text[-half:]}"
