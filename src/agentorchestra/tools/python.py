"""`python`: snippets in Monty, an interpreter without files, network or environment.

No callbacks are given to it, so it cannot touch anything: the tool is pure and may be executed again freely.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.tea.tool import Tool, tool

MAX_SECONDS = 10.0
MAX_MEMORY = 256_000_000
MAX_RECURSION = 500
MAX_PRINTED = 100_000
MAX_PROCESSES = 4


class PythonTool:
    """The tool and its pool of interpreters, started with the first call and closed with the workspace."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._entered: Any = None
        self._lock = asyncio.Lock()
        self.tool: Tool[..., Any] = self._make()

    def _make(self) -> Tool[..., Any]:
        @tool(effect="read", timeout_s=MAX_SECONDS + 20)
        async def python(code: str) -> str:
            """Run Python code and get what it prints and the value of its last expression.

            For arithmetic, dates, text and data given in the code. It has no files, network or packages; class
            inheritance, generators and some standard modules are missing. Variables are not kept between calls.

            Args:
                code: The program.
            """
            return await self._run(code)

        return python

    async def _start(self) -> Any:
        async with self._lock:
            if self._pool is None:
                from pydantic_monty import AsyncMonty

                self._entered = AsyncMonty(max_processes=MAX_PROCESSES)
                self._pool = await self._entered.__aenter__()
            return self._pool

    async def _run(self, code: str) -> str:
        if not code.strip():
            raise ToolError("the code is empty; give a program, e.g. print(2 + 2)")
        from pydantic_monty import MontyError

        pool = await self._start()
        printed = _Printed()
        limits = {
            "max_feed_duration_secs": MAX_SECONDS,
            "max_memory": MAX_MEMORY,
            "max_recursion_depth": MAX_RECURSION,
        }
        try:
            async with pool.checkout(limits=limits) as session:
                value = await session.feed_run(code, print_callback=printed.take)
        except MontyError as exc:
            shown = exc.display() if hasattr(exc, "display") else str(exc)
            raise ToolError(f"{printed.text()}{_explained(shown)}") from None
        text = printed.text()
        if value is not None:
            text += repr(value)
        return text.rstrip("\n") or "(no output)"

    async def aclose(self) -> None:
        """End the interpreters; idempotent."""
        entered, self._entered, self._pool = self._entered, None, None
        if entered is not None:
            await entered.__aexit__(None, None, None)


class _Printed:
    """What a program printed, up to a limit."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = MAX_PRINTED
        self._dropped = 0

    def take(self, stream: str, text: str) -> None:
        """One piece."""
        kept = text[: max(0, self._left)]
        self._left -= len(kept)
        self._dropped += len(text) - len(kept)
        if kept:
            self._parts.append(kept)

    def text(self) -> str:
        """Everything kept, with a note about the rest."""
        note = f"\n[{self._dropped} further characters were printed]\n" if self._dropped else ""
        return "".join(self._parts) + note


def _explained(message: str) -> str:
    hint = ""
    if "No module named" in message or "not yet support" in message or "not supported" in message:
        hint = "\nThis interpreter lacks that part of Python; write it with plain functions and the builtins."
    return f"{message.strip()}{hint}"


__all__ = ["PythonTool"]
