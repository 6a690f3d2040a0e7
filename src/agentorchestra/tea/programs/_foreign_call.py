"""Runs inside the sandbox: one call of a function that somebody else wrote. Only the standard library is there.

The text of this module is the beginning of the program; its last line is a call of `_call`, which `tea/foreign.py`
writes. `give` is the host's: what it is given goes through the JSON pipe, and nothing else counts as the result.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any


class _Context:
    """Stands where annotations name the run's context; nothing is there."""

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def _decorator(function: Any = None, /, **_: Any) -> Any:
    """`@tool` and `@tool(...)`: here the function stays a function."""
    return function if function is not None else lambda one: one


class _ToolError(Exception):
    """What a tool could not do, in its own words."""


def _call(give: Callable[..., Any], source: str, name: str, arguments: str, longest: int) -> None:
    # The program that this is a part of has the host's tools, and the error that they raise, under these names.
    tools, ToolError = globals().get("tools"), globals().get("ToolError", _ToolError)
    ours: Any = types.ModuleType("agentorchestra")
    ours.tool, ours.ToolError, ours.RunContext = _decorator, ToolError, _Context
    sys.modules["agentorchestra"] = ours
    module: Any = types.ModuleType("foreign")
    module.tools = tools
    sys.modules["foreign"] = module
    linecache.cache["<source>"] = (len(source), None, source.splitlines(True), "<source>")
    try:
        exec(compile(source, "<source>", "exec", dont_inherit=True), vars(module))
        value = getattr(module, name)(**json.loads(arguments))
        if inspect.isawaitable(value):

            async def waited() -> Any:
                return await value

            value = asyncio.run(waited())
    except ToolError as error:
        give(error=str(error)[:2000])
        return
    except Exception as error:
        line = 0
        trace = error.__traceback__
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "<source>" else line
            trace = trace.tb_next
        place = f" (line {line})" if line else ""
        give(error=f"{type(error).__name__}: {str(error)[:2000]}{place}")
        return
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        give(error=f"it returned a {type(value).__name__}, which is not JSON: {error}")
        return
    if len(text) > longest:
        give(error=f"it returned {len(text):,} characters of JSON; at most {longest:,} are taken")
        return
    give(value=json.loads(text))
