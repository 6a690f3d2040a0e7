"""Former names of modules lead to the modules that are there now."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from agentorchestra import aliases

TABLE = Path(aliases.__file__).with_name("former_modules.txt")
MOVED = [
    tuple(line.split()) for line in TABLE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
]
INSIDE_A_SANDBOX = ("sandbox._", "tea.programs._")
"""Modules that only the interpreter inside of a sandbox imports."""


def test_a_former_name_gives_what_the_module_has() -> None:
    for before, now in MOVED:
        if now.startswith(INSIDE_A_SANDBOX):
            continue
        present, former = import_module(f"agentorchestra.{now}"), import_module(f"agentorchestra.{before}")
        own = [
            name
            for name, value in vars(present).items()
            if not name.startswith("__") and getattr(value, "__module__", "") == present.__name__
        ]
        for name in own:
            assert getattr(former, name) is getattr(present, name)


def test_a_submodule_is_not_loaded_twice() -> None:
    from agentorchestra.runtime.store.sqlite import SqliteStore as Former  # type: ignore[import-not-found]

    from agentorchestra.log.store.sqlite import SqliteStore

    assert Former is SqliteStore


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"agentorchestra\.runtime\.nothing"):
        import_module("agentorchestra.runtime.nothing")
    with pytest.raises(ImportError, match="nothing"):
        from agentorchestra.environments.files import nothing  # noqa: F401


def test_importing_by_a_former_name_replaces_nothing() -> None:
    """An import binds the module in its parent package, where no function may have the same name."""
    for before, _ in MOVED:
        parent, _, child = f"agentorchestra.{before}".rpartition(".")
        try:
            package = import_module(parent)
        except ImportError:
            continue
        found = vars(package).get(child)
        assert found is None or isinstance(found, ModuleType), f"{before} is a {type(found).__name__} of {parent} now"


def test_any_module_of_a_package_with_a_former_name_may_be_imported_first() -> None:
    code = "import agentorchestra.environments.files.trash as trash; print(trash.Trash.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "Trash\n", done.stderr
