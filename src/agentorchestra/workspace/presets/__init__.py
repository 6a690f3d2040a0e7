"""Presets: settings with the limits that a paper states, under everything that the user sets."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from agentorchestra.core.errors import SettingsError
from agentorchestra.core.settings import NO_PRESET, Settings


class SheetRow(BaseModel, frozen=True, extra="forbid"):
    """A line of a preset's sheet: what the paper says of one matter, and what is done here.

    Attributes:
        states: what the paper states, "" where it says nothing.
        code: what its public code does, "" where that says nothing; a sheet has the column where a row has it.
        open: what is left open, "" where nothing is.
        here: what we do, and why.
        settings: the settings that hold it, dotted; their values are read when the sheet is made.
    """

    what: str
    states: str = ""
    where: str = ""
    code: str = ""
    open: str = ""
    here: str
    settings: tuple[str, ...] = ()


class Preset(BaseModel, frozen=True, extra="forbid"):
    """Settings after a paper.

    Attributes:
        name: how it is chosen.
        title, paper: which paper.
        role: a role of its system, for the example of the sheet.
        settings: as a settings file would have them.
    """

    name: str
    title: str
    paper: str
    role: str = "planner"
    settings: dict[str, Any]
    rows: tuple[SheetRow, ...]


def preset_names() -> tuple[str, ...]:
    names = (path.name for path in importlib.resources.files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def find_preset(name: str) -> Preset:
    """Return a preset by its name; SettingsError with the names there are."""
    names = preset_names()
    if name not in names:
        raise SettingsError(f"there is no preset {name!r}; the presets: {', '.join(names)}, or {NO_PRESET!r}")
    return _read(name)


@cache
def _read(name: str) -> Preset:
    text = (importlib.resources.files(__package__) / f"{name}.toml").read_text(encoding="utf-8")
    return Preset(name=name, **tomllib.loads(text))


def merge_tables(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return two tables of settings as one; the second one wins key by key."""
    result = dict(under)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merge_tables(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def with_preset(settings: Settings, name: str | None = None) -> Settings:
    """Return the settings over a preset, by default the one they name; SettingsError for an unknown name."""
    name = settings.preset if name is None else name
    if name == NO_PRESET and settings.preset == NO_PRESET:
        return settings
    own = settings.model_dump(exclude_unset=True)
    values = {} if name == NO_PRESET else find_preset(name).settings
    result = Settings(**{**merge_tables(values, own), "preset": name})
    # A preset is other defaults: as set (`model_fields_set`) count those alone that the user chose.
    result.__pydantic_fields_set__.intersection_update({*own, "preset"})
    return result


__all__ = ["NO_PRESET", "Preset", "SheetRow", "find_preset", "merge_tables", "preset_names", "with_preset"]
