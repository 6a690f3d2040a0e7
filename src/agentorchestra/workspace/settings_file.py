"""Changing single values of `agentorchestra.toml`: every other line stays as its user wrote it."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import SettingsError, WorkspaceNotWritableError
from agentorchestra.workspace.settings import SETTINGS_FILE, settings_path

Place = tuple[str, ...]  # the names of tables, then of the key: ("models", "local", "base_url")


def settings_target(folder: Path) -> Path:
    """Return the settings file of a workspace, or the one that would be made beside its folder.

    Raises:
        WorkspaceNotWritableError: it cannot be written.
    """
    path = (settings_path(folder) or folder.absolute().parent / SETTINGS_FILE).resolve()
    place = next(one for one in path.parents if one.exists())
    if (
        not place.is_dir()
        or not os.access(place, os.W_OK | os.X_OK)
        or (path.exists() and not os.access(path, os.W_OK))
    ):
        raise WorkspaceNotWritableError(
            f"{path} cannot be written; make {path if path.exists() else place} a place that can, or choose another "
            "folder with --workspace"
        )
    return path


def edit_settings(folder: Path, changes: Mapping[Place, Any], *, new: str = "") -> Path:
    """Write values into the settings file of a workspace, a text `new` where there is none; return its path.

    Raises:
        SettingsError: it is written in a way in which this cannot be done without a change of other lines.
        WorkspaceNotWritableError: it cannot be written.
    """
    path = settings_target(folder)
    try:
        text = edited(path.read_bytes().decode() if path.exists() else new, changes, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f"{path.name}.new")
        half.write_bytes(text.encode())
        if path.exists():
            half.chmod(path.stat().st_mode & 0o777)
        half.replace(path)
    except OSError as exc:
        raise WorkspaceNotWritableError(f"{path} cannot be written: {exc}; make room, or correct its rights") from None
    return path


def edited(text: str, changes: Mapping[Place, Any], path: Path = Path(SETTINGS_FILE)) -> str:
    """Return the text of a settings file with other values.

    A value on a line of its own is replaced there, and its comment stays; any other is added. The result is read again:
    if it does not say exactly what was wanted, SettingsError says what to write by hand.
    """
    wanted, lines = tomllib.loads(text), text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    for (*tables, key), value in changes.items():
        inner = wanted
        for name in tables:
            inner = inner.setdefault(name, {})
        inner[key] = value
        _set(lines, tables, key, _literal(value))
    if _parsed("".join(lines)) != wanted:
        by_hand = "; ".join(f"{'.'.join(place)} = {_literal(value)}" for place, value in changes.items())
        raise SettingsError(f"{path} was left as it is, because of how it is written; write into it: {by_hand}")
    return "".join(lines)


def _set(lines: list[str], tables: list[str], key: str, literal: str) -> None:
    heads = [n for n, line in enumerate(lines) if line.lstrip().startswith("[")]
    begin, nested = 0, {}
    for name in reversed(tables):
        nested = {name: nested}
    if tables:
        begin = next((n + 1 for n in heads if _parsed(lines[n]) == nested), 0)
        if not begin:
            lines += ["\n", f"[{'.'.join(map(json.dumps, tables))}]\n".replace('"', ""), f"{key} = {literal}\n"]
            return
    end = next((n for n in heads if n >= begin), len(lines))
    for n, line in enumerate(lines[begin:end], begin):
        held = _parsed(line)
        if held is not None and [*held] == [key]:
            # The value ends where the rest is a comment: what is before the mark says the same.
            marks = [at for at, sign in enumerate(line) if sign == "#" and _parsed(line[:at]) == held]
            rest = line[len(line[: marks[0]].rstrip()) :] if marks else line[len(line.rstrip()) :]
            lines[n] = f"{line[: line.index('=')]}= {literal}{rest}"
            return
    # Below what the table has: a comment above a key stays above it.
    filled = [n for n in range(begin, end) if lines[n].strip() and not lines[n].lstrip().startswith("#")]
    lines.insert(filled[-1] + 1 if filled else begin, f"{key} = {literal}\n")


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_literal(one)}" for name, one in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)  # texts, numbers and lists have the same form in TOML
