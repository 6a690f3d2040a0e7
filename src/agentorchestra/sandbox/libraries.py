"""The libraries that programs in a sandbox may import: the files of some distributions and of all they require.

They are those of the interpreter that runs AgentOrchestra (extra `sandbox`), each bound read only: nothing else of that
environment is seen.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import re
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

DEFAULT_LIBRARIES = (
    "numpy",
    "pandas",
    "openpyxl",
    "python-calamine",
    "matplotlib",
    "pypdf",
    "pillow",
    "scipy",
    "cloudpickle",
)
"""What the extra `sandbox` installs: with python-calamine, pandas reads .xls and .ods; cloudpickle keeps the functions
of a program for the next one."""


@functools.lru_cache(maxsize=8)
def library_paths(names: tuple[str, ...]) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Return what to bind (entry of the library folder -> path on this machine) and the distributions not installed."""
    paths: dict[str, Path] = {}
    missing: list[str] = []
    seen: set[str] = set()
    todo = [(name, True) for name in names]
    while todo:
        name, is_direct = todo.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if is_direct:
                missing.append(name)
            continue
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__", "/") and top not in paths:
                path = Path(str(distribution.locate_file(top)))
                if path.exists():
                    paths[top] = path
        for line in distribution.requires or ():
            with contextlib.suppress(InvalidRequirement):
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    todo.append((requirement.name, False))
    return paths, tuple(missing)
