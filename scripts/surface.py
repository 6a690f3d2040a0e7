"""Print what users of the package can name, one name a line: to compare it before and after a change.

python scripts/surface.py names     # public names: `__all__` of the package and of the packages in it
python scripts/surface.py options   # of the command line: commands, their arguments and options
python scripts/surface.py settings  # keys of agentorchestra.toml, dotted; NAME stands for any name
python scripts/surface.py errors    # classes of exceptions
python scripts/surface.py tests     # ids of all tests, those of the long tier too

python scripts/surface.py all FOLDER writes each of them into a file of its own.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import BaseModel

import agentorchestra
from agentorchestra.cli.group import cli
from agentorchestra.core.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
UNIMPORTED = ("migrations", "__main__")
"""Parts of names of modules that do something when they are imported."""


def names() -> Iterator[str]:
    """Each public name after its package."""
    packages = [one.name for one in pkgutil.walk_packages(agentorchestra.__path__, "agentorchestra.") if one.ispkg]
    for package in ["agentorchestra", *packages]:
        if not any(part in package for part in UNIMPORTED):
            yield from (f"{package}.{name}" for name in getattr(importlib.import_module(package), "__all__", ()))


def options() -> Iterator[str]:
    """Each argument and option after its command."""

    def of(command: click.Command, words: str, context: click.Context | None) -> Iterator[str]:
        inner = click.Context(command, parent=context, info_name=words.split()[-1])
        yield words
        for parameter in command.params:
            for name in (*parameter.opts, *parameter.secondary_opts):
                yield f"{words} {name if isinstance(parameter, click.Option) else name.upper()}"
        if isinstance(command, click.Group):
            for name in command.list_commands(inner):
                found = command.get_command(inner, name)
                assert found is not None
                yield from of(found, f"{words} {name}", inner)

    return of(cli, "agentorchestra", None)


def settings() -> Iterator[str]:
    """Each key, with those of the tables in it."""

    def models_in(annotation: Any) -> Iterator[tuple[type[BaseModel], bool]]:
        """The models of a field's type, and whether they stand under names."""
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation, False
        named = getattr(annotation, "__origin__", None) is dict
        for one in get_args(annotation):
            yield from ((model, named or inner) for model, inner in models_in(one))

    def of(model: type[BaseModel], prefix: str) -> Iterator[str]:
        for name, field in model.model_fields.items():
            yield f"{prefix}{name}"
            for inner, named in models_in(field.annotation):
                yield from of(inner, f"{prefix}{name}.{'NAME.' if named else ''}")

    return of(Settings, "")


def errors() -> Iterator[str]:
    """Each class of exceptions that the package defines, after the class that it is derived from."""
    for one in pkgutil.walk_packages(agentorchestra.__path__, "agentorchestra."):
        if not one.name.rpartition(".")[2].startswith("_") and not any(part in one.name for part in UNIMPORTED):
            importlib.import_module(one.name)

    def below(base: type[BaseException]) -> Iterator[str]:
        for one in base.__subclasses__():
            if one.__module__.partition(".")[0] == "agentorchestra" and not one.__name__.startswith("_"):
                yield f"{base.__name__} > {one.__name__}"
            yield from below(one)

    return below(BaseException)


def tests() -> Iterator[str]:
    """Each id as pytest gives it."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return (line for line in done.stdout.splitlines() if "::" in line)


KINDS: dict[str, Callable[[], Iterator[str]]] = {one.__name__: one for one in (names, options, settings, errors, tests)}


def lines(kind: str) -> list[str]:
    """The surface of a kind, sorted, each name once."""
    return sorted({*KINDS[kind]()})


def main(words: list[str]) -> None:
    """Print one kind, or write all into a folder."""
    match words:
        case [kind] if kind in KINDS:
            print("\n".join(lines(kind)))
        case ["all", folder]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for kind in KINDS:
                (Path(folder) / f"{kind}.txt").write_text("\n".join(lines(kind)) + "\n", encoding="utf-8")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
