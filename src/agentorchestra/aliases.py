"""Former names of modules, importable for one version: recorded runs hold texts of modules that import by them.

`former_modules.txt` lists them. A package that has the former name of a module gives the module's names by `former`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importing it takes longer than all else that `import agentorchestra` does

_PACKAGE = "agentorchestra."


@cache
def _table() -> dict[str, str]:
    from importlib.resources import files  # read only when an import would fail

    text = (files("agentorchestra") / "former_modules.txt").read_text(encoding="utf-8")
    return dict(line.split() for line in text.splitlines() if not line.startswith("#"))


def _present(name: str) -> str | None:
    parts = name.removeprefix(_PACKAGE).split(".")
    for n in range(len(parts), 0, -1):
        if home := _table().get(".".join(parts[:n])):
            return _PACKAGE + ".".join([home, *parts[n:]])
    return None


class FormerModules(Loader):
    """Finds modules by their former names. It stands behind all other finders, so only failing imports reach it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(_PACKAGE) or not (present := _present(name)):
            return None
        return ModuleSpec(name, self, origin=present, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the import system: `exec_module` puts the present module in its place."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Let the module give what the present one has. Its `__path__` stays empty: submodules come by here too."""
        spec = module.__spec__
        assert spec is not None and spec.origin is not None
        module.__dict__["__getattr__"] = partial(getattr, import_module(spec.origin))


def former(package: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for a package that has the former name of a module."""

    def get(name: str) -> Any:
        # Python asks here before it looks for a submodule, which the present module may be importing just now.
        if (
            not name.startswith("__")
            and not PathFinder.find_spec(name, sys.modules[package].__path__)
            and (present := _present(package))
        ):
            return getattr(import_module(present), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
