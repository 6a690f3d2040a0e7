"""Former names of modules, for texts of components alone: they import by the names of the time they were recorded.

`former_modules.txt` lists them, and as `module:NAME` what a module defined under another name, or in another form
(`former_action.py`); a name of the package itself has no module before the colon.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

_PACKAGE = "agentorchestra"
_Import = Callable[..., ModuleType]


def with_former_names(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the built-in names of a recorded text: its `import` finds what the package has under other names now."""
    return {**names, "__import__": partial(_import, names["__import__"])}


def _import(
    present: _Import,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    package = str((globals or {}).get("__package__") or "")
    absolute = resolve_name("." * level + name, package) if level and package else name
    if absolute.partition(".")[0] != _PACKAGE:
        return present(name, globals, locals, fromlist or (), level)
    module = _module(absolute)
    if module is None:
        return present(absolute, globals, locals, fromlist or ())  # raises the error of Python
    if not fromlist:
        return _Former(_PACKAGE)
    if isinstance(module, _Former) and "*" not in fromlist:
        return module
    return builtins.__import__(module.__name__, fromlist=fromlist)


class _Former(ModuleType):
    """Stands where a text has a module that has, or has below it, names that are others now."""

    def __getattr__(self, name: str) -> Any:
        return _member(self.__name__, name)


def _member(module: str, name: str) -> Any:
    """Return what a module has, or had, under a name, or raise AttributeError; the present meaning comes first."""
    if target := _table().get(f"{module}:{name}"):
        return _member(*target.split(":"))
    below = f"{module}.{name}"
    try:
        value = getattr(import_module(module), name)
    except (AttributeError, ModuleNotFoundError):
        if (submodule := _module(below)) is not None:
            return submodule
        if not (present := _present_name(module)):
            raise
        return _member(present, name)
    return _module(below) if isinstance(value, ModuleType) and value.__name__ == below else value


def _module(name: str) -> ModuleType | None:
    """Return the module that has, or had, a name: itself where nothing in it or below it was renamed."""
    module: ModuleType | None
    try:
        module = import_module(name)
    except ModuleNotFoundError as exc:
        if not exc.name or not f"{name}.".startswith(f"{exc.name}."):
            raise  # it lacks a dependency
        module = _module(present) if (present := _present_name(name)) else None
        return _Former(name) if module is not None and name in _holders() else module
    return _Former(name) if name in _holders() or name in _table() else module


def _present_name(name: str) -> str | None:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        former = ".".join(parts[:end])
        present = _table().get(former)
        # What lies below a module that became a package is its own, and did not move with what the module had.
        if present and (former == name or not present.startswith(f"{former}.")):
            return ".".join([present, *parts[end:]])
    return None


@cache
def _table() -> dict[str, str]:
    text = (files(_PACKAGE) / "former_modules.txt").read_text(encoding="utf-8")
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {f"{_PACKAGE}.{former}".replace(".:", ":"): f"{_PACKAGE}.{present}" for former, present in lines}


@cache
def _holders() -> frozenset[str]:
    """Return the modules that hold former names, of modules below them or of what they define."""
    return frozenset(
        name[:end] for name in _table() for end, letter in enumerate(name.replace(":", ".")) if letter == "."
    )
