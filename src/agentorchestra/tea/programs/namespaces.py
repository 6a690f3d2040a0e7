"""Programs of several workspaces in one process: modules of the same name in two folders are two modules.

Python knows one module by each name. The first folder whose program is loaded goes onto `sys.path`, and its modules
have the names that the user gave them. Those of any further folder, and of one that has a module whose name is taken,
are imported below a name of their own, a namespace: `app` is `agentorchestra_program_1f0c.app` there. An import of
`helpers` in them finds the `helpers.py` of their own folder, whenever it is carried out (`importlib.import_module` does
not). What is recorded of a module is the name that the user gave it (`without_namespace`).
"""

from __future__ import annotations

import builtins
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from agentorchestra.core.ids import sha256_text

PREFIX = "agentorchestra_program_"

_first: set[str] = set()  # the folders that were put onto sys.path here
_current: ContextVar[str] = ContextVar("agentorchestra_namespace", default="")


def namespace_of(folder: Path) -> str:
    """Return the name below which the modules of a folder are imported, "" where they have their own names."""
    place = str(folder.absolute())
    if not _is_taken(place):
        if place in sys.path:
            return ""
        if _first.isdisjoint(sys.path):
            _first.add(place)
            sys.path.insert(0, place)  # found as `python -m module` finds them in that folder
            importlib.invalidate_caches()
            return ""
    name = f"{PREFIX}{sha256_text(place)[:12]}"
    if name not in sys.modules:
        package = ModuleType(name, f"The program of {place}.")
        package.__path__ = [place]
        sys.modules[name] = package
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
    importlib.invalidate_caches()
    return name


def _is_taken(place: str) -> bool:
    """Return True if another folder's module has the name of one of this folder."""
    loaded = (sys.modules.get(info.name) for info in pkgutil.iter_modules([place]))
    files = (getattr(module, "__file__", None) for module in loaded if module is not None)
    return any(not Path(file or "").absolute().is_relative_to(place) for file in files)


def import_below(name: str, namespace: str) -> ModuleType:
    """Import a module of a program, or of an installed package where its folder has none of this name."""
    if namespace and _has(namespace, name.partition(".")[0]):
        name = f"{namespace}.{name}"
    return importlib.import_module(name)


def without_namespace(name: str) -> str:
    return name.partition(".")[2] if name.startswith(PREFIX) else name


@contextmanager
def within(namespace: str) -> Iterator[None]:
    """Let the texts that are loaded meanwhile import what a program with this namespace imports."""
    token = _current.set(namespace)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> str:
    return _current.get()


def builtins_of(namespace: str) -> dict[str, Any]:
    """Return the built-in names of the modules of a program: `import` finds those of its own folder first."""
    return {**vars(builtins), "__import__": partial(_import, namespace)}


def _import(
    namespace: str,
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    top = name.partition(".")[0]
    if level or not _has(namespace, top):
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    module = builtins.__import__(f"{namespace}.{name}", globals, locals, fromlist or ())
    return module if fromlist else sys.modules[f"{namespace}.{top}"]


def _has(namespace: str, name: str) -> bool:
    """Return True if the folder of a program has a module; a folder of this name without code is none."""
    if f"{namespace}.{name}" in sys.modules:
        return True
    spec = PathFinder.find_spec(name, sys.modules[namespace].__path__)
    return spec is not None and (spec.origin is not None or not _is_known(name))


@cache
def _is_known(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


class _Finder:
    """Finds the modules of programs that have a namespace."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(PREFIX):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = builtins_of(module.__name__.partition(".")[0])
        super().exec_module(module)
