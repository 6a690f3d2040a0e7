"""Runs one Python program inside a sandbox: `python -P -s _program.py SEED FILE LIBRARIES RESULTS CALLS FUNCTIONS`.

In a terminal: `python3 _program.py SEED VARIABLES`. The program is its input, and calls no tools of the host.

Prints the value of the last expression, as an interactive interpreter does. `tools.NAME(argument=value)` calls a tool
of the host, and raises ToolError for what it could not do; FUNCTIONS, a JSON list, are tools with names of their own.

Where a file VARIABLES stands in the working folder the program sees the variables in it, and leaves its own there for
the next program. A file EARLIER holds programs that ran elsewhere and are run here again, in silence, before it.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import io
import json
import linecache
import os
import pickle
import random
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

VARIABLES = ".variables"
EARLIER = ".earlier.json"
MOST_BYTES = 32 << 20  # of the variables that are kept; the largest are left out first


class ToolError(Exception):
    """A tool of the host could not do what was asked."""


class _Tools:
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
            request = json.dumps({"id": number, "name": name, "arguments": arguments})
            self.__calls.write(request.encode() + b"\n")
            self.__calls.flush()
            line = self.__results.readline()
        if not line:
            raise ToolError("the host does not answer any more")
        answer = json.loads(line)
        if answer.get("error") is not None:
            raise (TypeError if answer.get("type") == "TypeError" else ToolError)(answer["error"])
        return answer.get("value")


class _NoTools:
    """Stands for the host's tools where there is no way to them."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise ToolError(f"a program in the terminal calls no tools: call {name} yourself, and give it what came back")


class _Variables:
    """What programs leave for the next ones, in a file that the host keeps from one to the next.

    Functions and classes are kept with their code (cloudpickle); where that is not installed they are not kept. Nor are
    the names that every program has (`own`).
    """

    def __init__(self, tools: dict[str, Any], path: str = VARIABLES) -> None:
        own = {"__name__": "__main__", "__builtins__": builtins, "ToolError": ToolError, **tools}
        self.names: dict[str, Any] = dict(own)
        self.lost: dict[str, str] = {}  # of earlier programs: what could not be kept, and why
        self._own = own
        self._path = os.path.abspath(path)
        self._process = os.getpid()
        self._wanted = os.path.exists(self._path)

    def load(self) -> None:
        """See what earlier programs left."""
        if not self._wanted or not os.path.getsize(self._path):
            return
        try:
            with open(self._path, "rb") as file:
                anchor, values, self.lost = self._read(file)
        except Exception as error:  # whatever it is: the program can make them anew
            print(f"[the variables of earlier programs cannot be read: {error}]", file=sys.stderr)
            return
        if anchor is not None:
            self.names = anchor.__globals__  # where the functions of earlier programs look their names up
        self.names.update({**self._own, **values})

    def _read(self, file: Any) -> Any:
        own = self._own

        class Reader(pickle.Unpickler):
            def persistent_load(self, name: str) -> Any:
                return own[name]

        return Reader(file).load()

    def again(self) -> None:
        """Run programs that ran elsewhere: only for what they assign."""
        try:
            with open(EARLIER, encoding="utf-8") as file:
                earlier = json.load(file)
        except OSError:
            return
        os.remove(EARLIER)
        for code in earlier["programs"]:
            silent = io.StringIO()
            with contextlib.suppress(Exception), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
                exec(compile(code, "<earlier program>", "exec"), self.names)
        for name, reason in earlier["lost"].items():
            self.names.pop(name, None)
            self.lost[name] = reason

    def keep(self) -> None:
        """Leave what can be left for the next program."""
        if not self._wanted or os.getpid() != self._process:
            return
        sizes: dict[str, int] = {}
        for name, value in self.names.items():
            if name in ("__builtins__", "__name__") or self._own.get(name, self) is value:
                continue
            self.lost.pop(name, None)
            try:
                data = self._pickle(value)
                if type(value).__module__ != "builtins" and not self._readable(data):
                    raise ValueError(name)  # it would take all others with it
                sizes[name] = len(data)
            except Exception as error:  # what can be kept is known by trying
                large = isinstance(error, _TooLargeError)
                kind = f"a value of more than {MOST_BYTES:,} bytes" if large else f"a {type(value).__name__}"
                self.lost[name] = f"{kind} cannot be kept"
        for name in sorted(sizes, key=lambda size: sizes[size], reverse=True):
            if sum(sizes.values()) > MOST_BYTES:
                self.lost[name] = f"variables of more than {MOST_BYTES:,} bytes together cannot be kept"
                del sizes[name]
        values = {name: self.names[name] for name in sizes}
        anchor = FunctionType((lambda: None).__code__, self.names, "anchor")
        for first in (anchor, None):  # without cloudpickle no function can be kept
            with contextlib.suppress(Exception):
                data = self._pickle((first, values, self.lost))
                with open(self._path, "wb") as file:
                    file.write(data)
                return

    def _readable(self, data: bytes) -> bool:
        """Return True if a value can be read again: tried in another process, where it changes nothing of this one."""
        child = os.fork()
        if child == 0:
            failed = 1
            with contextlib.suppress(BaseException):
                self._read(io.BytesIO(data))
                failed = 0
            os._exit(failed)
        return os.waitpid(child, 0)[1] == 0

    def _pickle(self, value: Any) -> bytes:
        target = _Limited()
        self._writer(target, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return target.getvalue()

    @functools.cached_property
    def _writer(self) -> Any:
        try:
            from cloudpickle import Pickler  # type: ignore[import-untyped]
        except ImportError:
            from pickle import Pickler
        own_names = {id(value): name for name, value in self._own.items() if not name.startswith("__")}

        class Writer(Pickler):  # type: ignore[misc]
            def persistent_id(self, value: Any) -> str | None:
                return own_names.get(id(value))

        return Writer


class _TooLargeError(Exception):
    """A value is larger than all that is kept."""


class _Limited(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() + len(data) > MOST_BYTES:
            raise _TooLargeError
        return super().write(data)


def _traceback(error: BaseException, losses: dict[str, str]) -> str:
    """Return the exception as Python formats it, without this file's lines, and why a variable is missing."""
    formatter = traceback.TracebackException.from_exception(error)
    todo: list[traceback.TracebackException | None] = [formatter]
    while todo:
        exc = todo.pop()
        if exc is not None:
            exc.stack = traceback.StackSummary.from_list([frame for frame in exc.stack if frame.filename != __file__])
            todo += [exc.__cause__, exc.__context__]
    text = "".join(formatter.format())
    name = getattr(error, "name", None)
    if isinstance(error, NameError) and name in losses:
        text += f"({name} of an earlier program was not kept: {losses[name]}. Make it anew.)\n"
    missing = os.path.join("files", os.path.basename(str(getattr(error, "filename", ""))))
    if isinstance(error, FileNotFoundError) and os.path.isfile(missing):
        text += f"(there is {missing})\n"
    return text


def _by_host(path: str, libraries: str, results: str, calls: str, functions: str) -> tuple[str, _Variables]:
    """Return the program that the supervisor has put there, and the variables it sees."""
    if os.path.isdir(libraries):  # these, and not what the system happens to have
        sys.path[:] = [entry for entry in sys.path if os.path.basename(entry) not in ("site-packages", "dist-packages")]
        sys.path[:] = [entry for entry in sys.path if entry != libraries]
        sys.path.append(libraries)
    sys.path.append(os.getcwd())
    sys.argv = [path]
    with open(path, encoding="utf-8", errors="surrogatepass") as source:
        code = source.read()
    tools = _Tools(int(results), int(calls))
    variables = _Variables({"tools": tools, **{load: tools._function(load) for load in json.loads(functions)}})
    variables.load()
    variables.again()
    return code, variables


def _in_terminal(path: str) -> tuple[str, _Variables]:
    """Return the program that comes through the input, and the variables that `path` holds for it."""
    sys.path[0] = os.getcwd()
    sys.argv = [""]
    variables = _Variables({"tools": _NoTools()}, path)
    variables.load()
    return sys.stdin.read(), variables


def main() -> None:
    seed, *words = sys.argv[1:]
    random.seed(int(seed))
    warnings.formatwarning = lambda text, kind, *_: f"{kind.__name__}: {str(text).strip().partition(chr(10))[0]}\n"
    warnings.simplefilter("ignore", FutureWarning)  # of versions that are not installed
    code, variables = _by_host(*words) if len(words) > 1 else _in_terminal(*words)
    names, name = variables.names, "<program>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
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
        print(_traceback(error, variables.lost), end="", file=sys.stderr, flush=True)
        sys.exit(1)
    finally:
        variables.keep()


if __name__ == "__main__":
    main()
