"""Changing single values of `agentorchestra.toml`: every other line stays as its user wrote it."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import SettingsError, WorkspaceNotWritableError
from agentorchestra.workspace.settings import SETTINGS_FILE, settings_path

Place = tuple[str, ...]  # the names of tables, then of the key: ("models", "local", "base_url")


def settings_target(folder: Path) -> Path:
    """Return a workspace's settings file, or the one to be made; WorkspaceNotWritableError if it cannot be written."""
    path = (settings_path(folder) or folder.absolute().parent / SETTINGS_FILE).resolve()
    if folder.exists() and not (folder.is_dir() and os.access(folder, os.W_OK)):
        flaw = "cannot be written" if folder.is_dir() else "is a file"
        raise WorkspaceNotWritableError(f"the workspace {folder} {flaw}; choose another folder with --workspace")
    base = path if path.exists() else next(parent for parent in path.parents if parent.exists())
    if not os.access(base, os.W_OK) or not os.access(base.parent, os.X_OK) or (base != path and not base.is_dir()):
        raise WorkspaceNotWritableError(
            f"{path} cannot be written; change the rights of {base}, or choose another folder with --workspace"
        )
    return path


def edit_settings(folder: Path, changes: Mapping[Place, Any], *, new: str = "") -> Path:
    """Write values into a workspace's settings file, into the text `new` where there is none; return its path.

    Raises:
        SettingsError: see `edit_text`.
        WorkspaceNotWritableError: it cannot be written.
    """
    path = settings_target(folder)
    try:
        text = edit_text(path.read_bytes().decode() if path.exists() else new, changes, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f"{path.name}.new")
        half.write_bytes(text.encode())
        if path.exists():
            half.chmod(path.stat().st_mode & 0o777)
        half.replace(path)
    except OSError as exc:
        raise WorkspaceNotWritableError(f"{path} cannot be written: {exc}; make room, or correct its rights") from None
    return path


def edit_text(text: str, changes: Mapping[Place, Any], path: Path = Path(SETTINGS_FILE)) -> str:
    """Return the text of a settings file with other values.

    A value on a line of its own is replaced there, and its comment stays; any other is added below the head of its
    table. The result is read again: if it does not say just what was wanted, SettingsError says what to write by hand.
    """
    values, result = tomllib.loads(text), text if not text or text.endswith("\n") else f"{text}\n"
    for (*tables, key), value in reversed([*changes.items()]):
        inner = values
        for name in tables:
            inner = inner.setdefault(name, {})
        inner[key] = value
        result = _with(result, f"[{'.'.join(tables)}]" if tables else "", key, _literal(value))
    try:
        same = tomllib.loads(result) == values
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        by_hand = "; ".join(f"{'.'.join(place)} = {_literal(value)}" for place, value in changes.items())
        raise SettingsError(f"{path} was left as it is, because of how it is written; write into it: {by_hand}")
    return result


def _with(text: str, head: str, key: str, literal: str) -> str:
    parts = re.split(r"(?m)^(?=[ \t]*\[)", text)  # what stands above all tables, then each table with its head
    at = next((n for n, part in enumerate(parts) if n and head and part.lstrip().startswith(head)), 0)
    if head and not at:
        return f"{text}\n{head}\n{key} = {literal}\n"
    value = r"""(?:"[^"\n]*"|'[^'\n]*'|\[[^]\n]*]|\{[^}\n]*}|[^]{}["'#\s]+)"""
    line = re.compile(rf"(?m)^([ \t]*{re.escape(key)}[ \t]*=[ \t]*){value}([ \t]*(?:#.*)?\r?)$")
    parts[at], count = line.subn(lambda old: f"{old[1]}{literal}{old[2]}", parts[at], count=1)
    if not count:
        first, end, rest = parts[at].partition("\n") if at else ("", "", parts[at])
        parts[at] = f"{first}{end}{key} = {literal}\n{rest}"
    return "".join(parts)


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_literal(item)}" for name, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)  # texts, numbers and lists have the same form in TOML
