"""The sheet of a preset: row by row what the paper states, what it leaves open, what we do (docs/presets/)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from agentorchestra.core.settings import Settings
from agentorchestra.workspace.presets import Preset, SheetRow, with_preset


def sheet(preset: Preset) -> str:
    """Return the page in Markdown; every value is read from the settings, and from the agents that they govern."""
    settings = with_preset(Settings(), preset.name)
    code_column = any(row.code for row in preset.rows)
    left = ("its public code", "neither says") if code_column else ("it leaves open",)
    columns = ("what", "the paper states", "where", *left, "here", "settings")
    lines = [
        f"# {preset.name}",
        "",
        f"After {preset.title} ({preset.paper}). This page is what `agentorchestra presets show {preset.name}` prints; "
        "[presets.md](../presets.md) says how presets are used.",
        "",
        "Values in **bold** are set by the preset, the others are those that hold without one.",
        "",
        _cells(columns),
        "|" + "---|" * len(columns),
        *(_line(row, preset, settings, code_column=code_column) for row in preset.rows),
        "",
        "## As a settings file",
        "",
        "```toml",
        *_toml(preset.settings),
        "```",
        "",
        *_models(preset.role),
    ]
    return "\n".join(lines)


def _models(role: str) -> tuple[str, ...]:
    return (
        "## Models",
        "",
        "Presets name no models. The papers' are given to the roles as any others, in `agentorchestra.toml`",
        f"([settings.md](../settings.md#roles)) or by `--role {role}=NAME`:",
        "",
        "```toml",
        "[models.planning]",
        'model = "PROVIDER:NAME"',
        "",
        f"[roles.{role}]",
        'model = "planning"',
        "```",
        "",
    )


def _line(row: SheetRow, preset: Preset, settings: Settings, *, code_column: bool) -> str:
    """Return a row of the table; `code_column`: whether the table has the column of the public code."""
    values = "<br>".join(_setting(path, preset, settings) for path in row.settings)
    left = (row.code, row.open) if code_column else (row.open,)
    return _cells([row.what, row.states, row.where, *left, row.here, values])


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text or "-" for text in texts) + " |"


def _setting(path: str, preset: Preset, settings: Settings) -> str:
    part_value: Any = preset.settings
    for part in path.split("."):
        part_value = part_value.get(part) if isinstance(part_value, dict) else None
    value = _value_text(value_of(path, settings))
    return f"`{path}` = {value if part_value is None else f'**{value}**'}"


def value_of(path: str, settings: Settings) -> Any:
    """Return a setting's value by its dotted name, also an agent's; KeyError, AttributeError for an unknown name."""
    from agentorchestra.workspace.agents import agents_with_settings, builtin_agents

    result: Any = settings
    parts = path.split(".")
    if parts[0] == "agents":
        result, parts = agents_with_settings(builtin_agents(settings), settings.agents)[parts[1]], parts[2:]
    for part in parts:
        result = result[part] if isinstance(result, dict) else getattr(result, part)
    return result


def _value_text(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_none=True) or "none"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, tuple):
        return ", ".join(_value_text(part) for part in value) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def _toml(settings: dict[str, Any], name: str = "") -> list[str]:
    """Return a table as TOML; texts, numbers, booleans, and tables of these."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in settings.items() if not isinstance(value, dict)]
    lines = [f"[{name}]", *plain] if name and plain else plain
    for key, value in settings.items():
        if isinstance(value, dict):
            below = _toml(value, f"{name}.{key}" if name else key)
            lines += ["", *below] if lines else below
    return lines
