"""Runs one Python program inside a sandbox: `python -P -s _program.py FILE LIBRARIES SEED RESULTS CALLS FUNCTIONS`.

Prints the value of the last expression, as an interactive interpreter does. `tools.NAME(argument=value)` calls a tool
of the host, and raises ToolError for what it could not do; FUNCTIONS, a JSON list, are tools with names of their own.
"""

from __future__ import annotations

import ast
import builtins
import json
import linecache
import os
import random
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any


class ToolError(Exception):
    """A tool of the host could not do what was asked."""


class _Tools:
    """The host's tools, by name."""

    def __init__(self, results: int, calls: int) -> None:
        self.__results = os.fdopen(results, "rb")
        self.__calls = os.fdopen(calls, "wb")
        self.__lock = threading.Lock()
        self.__count = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*positional: Any, **arguments: Any) -> Any:
            if positional:
                raise TypeError(f"tools.{name} takes its arguments by name: tools.{name}(argument=value)")
            return self._call(name, arguments)

        call.__name__ = name
        return call

    def _function(self, name: str) -> Callable[..., Any]:
        """A tool as a plain function, which the host checks."""

        def call(*positional: Any, **arguments: Any) -> Any:
            return self._call(name, {**arguments, "*": list(positional)} if positional else arguments)

        call.__name__ = name
        return call

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        with self.__lock:
            self.__count += 1
            number = self.__count
            asked = json.dumps({"id": number, "name": name, "arguments": arguments})
            self.__calls.write(asked.encode() + b"\n")
            self.__calls.flush()
            line = self.__results.readline()
        if not line:
            raise ToolError("the host does not answer any more")
        answer = json.loads(line)
        if answer.get("error") is not None:
            raise (TypeError if answer.get("type") == "TypeError" else ToolError)(answer["error"])
        return answer.get("value")


def _told(error: BaseException) -> str:
    """The exception as Python tells it, without the lines of this file."""
    told = traceback.TracebackException.from_exception(error)
    todo: list[traceback.TracebackException | None] = [told]
    while todo:
        one = todo.pop()
        if one is not None:
            one.stack = traceback.StackSummary.from_list([frame for frame in one.stack if frame.filename != __file__])
            todo += [one.__cause__, one.__context__]
    return "".join(told.format())


def main() -> None:
    path, libraries, seed, results, calls, functions = sys.argv[1:]
    if os.path.isdir(libraries):  # these, and not what the system happens to have
        sys.path[:] = [one for one in sys.path if os.path.basename(one) not in ("site-packages", "dist-packages")]
        sys.path[:] = [one for one in sys.path if one != libraries]
        sys.path.append(libraries)
    sys.path.append(os.getcwd())
    sys.argv = [path]
    random.seed(int(seed))
    with open(path, encoding="utf-8", errors="surrogatepass") as source:
        code = source.read()
    name = "<program>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    tools = _Tools(int(results), int(calls))
    names |= {"tools": tools, "ToolError": ToolError}
    names |= {one: tools._function(one) for one in json.loads(functions)}
    try:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if value is not None:
                print(repr(value))
    except SystemExit:
        raise
    except BaseException as error:
        sys.stdout.flush()
        print(_told(error), end="", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
