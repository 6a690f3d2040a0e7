"""Dynamic loading: source texts become modules that lie in no file (000, app. C.1, "Dynamic Manager").

`load_module` executes a text in this process, as importing a file would: it is for what the workspace's user wrote.
Code that anybody else wrote (an agent, a bundle, another machine) is never loaded here: `foreign.py` makes tools of
it whose calls run in the sandbox.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import sys
import threading
import types
from typing import Any

from agentorchestra.core.errors import SourceError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.names import did_you_mean
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.programs.former import with_former_names
from agentorchestra.tea.programs.imports import Completed, complete_imports, parse_source
from agentorchestra.tea.programs.namespaces import builtins_of, current

PREFIX = "agentorchestra_source_"  # of the names of virtual modules; the hash of the text follows

_loading = threading.RLock()


def load_module(
    text: str, *, name: str | None = None, package: str = "", label: str = "the source"
) -> types.ModuleType:
    """Execute a text of the workspace's user; return its module, or raise SourceError with the line.

    The module stands in `sys.modules`, and `inspect.getsource` finds the source of what it defines. The same text under
    the same name is loaded once; one that fails leaves nothing behind. `package` is for relative imports.
    """
    return _load(Completed(text), name or f"{PREFIX}{sha256_text(text)[:16]}", package, label)


def load_source(text: str, *, package: str = "", label: str = "the source") -> types.ModuleType:
    """Load the module of a text that may lack imports, with those that are known added; raise SourceError."""
    completed = complete_imports(text, label=label)
    return _load(completed, f"{PREFIX}{sha256_text(completed.text)[:16]}", package, label)


def _load(source: Completed, name: str, package: str, label: str) -> types.ModuleType:
    namespace = current()  # the workspace's own program, if another one of this process has its name
    if namespace:
        name, package = f"{name}_{namespace}", f"{namespace}.{package}".rstrip(".")
    with _loading:
        loaded = sys.modules.get(name)
        if loaded is not None:
            return loaded
        parse_source(source.text, label=label)
        file = f"<{name}>"
        module = types.ModuleType(name)
        module.__file__, module.__package__ = file, package
        vars(module)["__builtins__"] = with_former_names(builtins_of(namespace) if namespace else vars(builtins))
        linecache.cache[file] = (len(source.text), None, _lines(source.text), file)
        sys.modules[name] = module
        try:
            exec(compile(source.text, file, "exec", dont_inherit=True), vars(module))  # the user's own program
        except BaseException as exc:
            del sys.modules[name]
            reason = _reason(exc, file, source)
            linecache.cache.pop(file, None)
            if not isinstance(exc, Exception | SystemExit):
                raise
            raise SourceError(f"{label} cannot be loaded: {reason}; correct it") from exc
        return module


def _lines(text: str) -> list[str]:
    """Return the lines as the compiler counts them; joined they are the text."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _reason(exc: BaseException, file: str, source: Completed) -> str:
    line = exc.lineno if isinstance(exc, SyntaxError) and exc.filename == file else None
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    message = exc.msg if isinstance(exc, SyntaxError) else " ".join(str(exc).split())
    place = f"line {source.line(line)}: " if line is not None else ""
    return f"{place}{type(exc).__name__}: {message}" if message else f"{place}{type(exc).__name__}"


def member(module: types.ModuleType, name: str, *, label: str = "the source") -> Any:
    """Return what a virtual module defines under a name, or raise SourceError with the nearest name."""
    if name in vars(module):
        return vars(module)[name]
    own = sorted(key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    hint = did_you_mean(name, own, f"it defines {', '.join(own[:10]) or 'nothing'}")
    raise SourceError(f"{label} does not define {name!r}; {hint}")


def tools_from_source(text: str, *, name: str | None = None, package: str = "") -> list[Tool[..., Any]]:
    """Execute a text of the user's; return its tool `name`, all its `@tool`s, or its public functions."""
    module = load_source(text, package=package)
    if name is not None:
        return [_tool_named(module, name)]
    tools = [attr for attr in vars(module).values() if isinstance(attr, Tool) and attr.__module__ == module.__name__]
    if not tools:
        plain = [fn for fn in vars(module).values() if inspect.isfunction(fn) and fn.__module__ == module.__name__]
        tools = [tool(function) for function in plain if not function.__name__.startswith("_")]
    if not tools:
        raise SourceError("the source defines no function; write one with @tool, types and a docstring")
    return list({entry.name: entry for entry in tools}.values())


def _tool_named(module: types.ModuleType, name: str) -> Tool[..., Any]:
    for value in vars(module).values():
        if isinstance(value, Tool) and value.name == name:
            return value
    definition = member(module, name)
    if isinstance(definition, Tool):
        return definition
    if not inspect.isfunction(definition):
        raise SourceError(f"{name!r} in the source is a {type(definition).__name__}; a tool is a function")
    return tool(definition)


def class_from_source(text: str, name: str | None = None, *, has: tuple[str, ...] = (), package: str = "") -> type[Any]:
    """Execute a text of the user's; return its class `name`, or its only one with the members it `has`."""
    module = load_source(text, package=package)
    if name is None:
        own = [cls for cls in vars(module).values() if inspect.isclass(cls) and cls.__module__ == module.__name__]
        fit = [cls for cls in own if all(hasattr(cls, part) for part in has)]
        if len(fit) != 1:
            names = ", ".join(cls.__name__ for cls in fit or own) or "none"
            raise SourceError(f"the source defines {len(fit)} classes with {', '.join(has)} ({names}); name the one")
        return fit[0]
    cls = member(module, name)
    if not inspect.isclass(cls):
        raise SourceError(f"{name!r} in the source is a {type(cls).__name__}, and a class is needed")
    lacking = [part for part in has if not hasattr(cls, part)]
    if lacking:
        raise SourceError(f"the class {name!r} lacks {', '.join(lacking)}; it needs {', '.join(has)}")
    return cls
