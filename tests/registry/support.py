"""A module of tools whose text the tests write, and change."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from agentorchestra import Workspace
from agentorchestra.core.ids import sha256_text

PRICE = '''from agentorchestra import tool


@tool(effect="pure")
def price_of(item: str) -> float:
    """The price of an item in euros.

    Args:
        item: what is bought.
    """
    return 12.5
'''


def imported(folder: Path, text: str, name: str = "shop") -> ModuleType:
    """The module of a text, as a new process would import it from its file."""
    path = folder / sha256_text(text)[:8] / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def shop(folder: Path, text: str = PRICE, **options: object) -> Workspace:
    """A workspace whose application has that module."""
    return Workspace(folder / "ws", tools=[imported(folder, text).price_of], **options)  # type: ignore[arg-type]
