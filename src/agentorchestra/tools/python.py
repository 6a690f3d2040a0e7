"""`python`: snippets in Monty, an interpreter without files, network or environment.

Nothing is handed to it that reaches outside, its clock stands at the run's time and its chance comes from the run's
seed. So a call is pure: executed again after a crash it gives the same result.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.tool import Tool, tool

_MODULES = (
    "base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib, itertools, json, "
    "math, random, re, time, tomllib, typing, unicodedata"
)
_LONGEST_ERROR = 4_000
_QUEUE_S = 600.0  # the limits below end a program; this one ends the wait for a free interpreter


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    Attributes:
        seconds: of computing.
        memory: bytes of its heap.
        depth: nested calls.
        printed: characters of output that are kept.
        processes: interpreters that run at the same time; further calls wait.
    """

    seconds: float = 10.0
    memory: int = 256_000_000
    depth: int = 500
    printed: int = 100_000
    processes: int = 4


class PythonTool:
    """The tool and its pool of interpreters, started with the first call and closed with the workspace.

    Attributes:
        tool: what a model calls.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._pool: Any = None
        self._lock = asyncio.Lock()
        self.tool: Tool[..., Any] = self._make()

    def _make(self) -> Tool[..., Any]:
        @tool(effect="pure", timeout_s=_QUEUE_S)
        async def python(ctx: RunContext[Any], code: str) -> str:
            """Run Python code and get what it prints and the value of its last expression.

            For arithmetic, dates, text and data given in the code. It has no files, network or packages; class
            inheritance, generators and some standard modules are missing. Variables are not kept between calls.

            Args:
                code: The program.
            """
            return await self.run(code, now=ctx.now, seed=ctx.random.getrandbits(32))

        return python

    async def run(self, code: str, *, now: datetime, seed: int) -> str:
        """What the program prints and the value of its last expression.

        Args:
            code: the program.
            now: what its clock shows, from the beginning to the end.
            seed: of its `random`.

        Raises:
            ToolError: for a program that fails or exceeds a limit, with what it printed until then.
        """
        if not code.strip():
            raise ToolError("the code is empty; give a program, e.g. print(2 + 2)")
        from pydantic_monty import MontyError

        printed = _Text(self._limits.printed)
        session = (await self._started()).checkout(
            limits={
                "max_feed_duration_secs": self._limits.seconds,
                "max_memory": self._limits.memory,
                "max_recursion_depth": self._limits.depth,
            },
            os_policy={"datetime": now, "sleep": "zero", "random_start": {"seed": seed}},
        )
        try:
            async with session as interpreter:
                value = await interpreter.feed_run(code, print_callback=lambda _, text: printed.add(text))
        except MontyError as exc:
            raise ToolError(_failure(exc, printed.text())) from None
        if value is not None:
            printed.add(repr(value))
        return printed.text().rstrip("\n") or "(no output)"

    async def _started(self) -> Any:
        async with self._lock:
            if self._pool is None:
                from pydantic_monty import AsyncMonty

                pool = AsyncMonty(max_processes=self._limits.processes)
                await pool.__aenter__()
                self._pool = pool
            return self._pool

    async def aclose(self) -> None:
        """End the interpreters; idempotent."""
        async with self._lock:
            pool, self._pool = self._pool, None
            if pool is not None:
                await pool.__aexit__(None, None, None)


class _Text:
    """Text up to a number of characters, and how much more there was."""

    def __init__(self, most: int) -> None:
        self._parts: list[str] = []
        self._left = most
        self._dropped = 0

    def add(self, text: str) -> None:
        """One piece more."""
        kept = text[: self._left]
        self._left -= len(kept)
        self._dropped += len(text) - len(kept)
        if kept:
            self._parts.append(kept)

    def text(self) -> str:
        """What was kept, with a note about the rest."""
        note = f"\n[{self._dropped:,} further characters left out]" if self._dropped else ""
        return "".join(self._parts) + note


def _failure(error: Any, printed: str) -> str:
    """What was printed before the error, the error with its line, and what to do about a part that is missing."""
    shown = str(error.display() if hasattr(error, "display") else error).strip()
    hint = ""
    if "No module named" in shown:
        hint = f"\nThe modules it has: {_MODULES}."
    elif "not yet support" in shown or "not supported in this environment" in shown:
        hint = "\nThis interpreter lacks that; write it with plain functions, lists, dicts and the values in the code."
    before = _end_of(printed)
    return f"{before}{_ends_of(shown)}{hint}"


def _end_of(printed: str) -> str:
    if len(printed) > _LONGEST_ERROR:
        printed = f"[...]{printed[-_LONGEST_ERROR:]}"
    return printed if not printed or printed.endswith("\n") else f"{printed}\n"


def _ends_of(error: str) -> str:
    """Beginning and end: the first line that failed, and what was wrong."""
    half = _LONGEST_ERROR // 2
    return error if len(error) <= _LONGEST_ERROR else f"{error[:half]}\n[...]\n{error[-half:]}"


__all__ = ["Limits", "PythonTool"]
