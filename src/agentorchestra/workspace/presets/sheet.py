"""The sheet of a preset: row by row what the paper states, what it leaves open, what we do (docs/presets/)."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from agentorchestra.core.settings import Settings
from agentorchestra.workspace.presets import Preset, Row, with_preset


def sheet(preset: Preset) -> str:
    """Return the page in Markdown; every value is read from the settings, and from the agents that they govern."""
    settings = with_preset(Settings(), preset.name)
    lines = [
        f"# {preset.name}",
        "",
        f"After {preset.title} ({preset.paper}). This page is what `agentorchestra presets show {preset.name}` prints; "
        "[presets.md](../presets.md) says how presets are used.",
        "",
        "Values in **bold** are set by the preset, the others are those that hold without one.",
        "",
        "| what | the paper states | where | it leaves open | here | settings |",
        "|---|---|---|---|---|---|",
        *(_line(row, preset, settings) for row in preset.rows),
        "",
        "## As a settings file",
        "",
        "```toml",
        *_toml(preset.settings),
        "```",
        "",
        *_MODELS,
    ]
    return "\n".join(lines)


_MODELS = (
    "## Models",
    "",
    "Presets name no models. The papers' are given to the roles as any others, in `agentorchestra.toml`",
    "([settings.md](../settings.md#roles)) or by `--role planner=NAME`:",
    "",
    "```toml",
    "[models.planning]",
    'model = "PROVIDER:NAME"',
    "",
    "[roles.planner]",
    'model = "planning"',
    "```",
    "",
)


def _line(row: Row, preset: Preset, settings: Settings) -> str:
    values = "<br>".join(_setting(path, preset, settings) for path in row.settings)
    return (
        f"| {row.what} | {row.states or '-'} | {row.where or '-'} | {row.open or '-'} | {row.here} | {values or '-'} |"
    )


def _setting(path: str, preset: Preset, settings: Settings) -> str:
    given: Any = preset.settings
    for part in path.split("."):
        given = given.get(part) if isinstance(given, dict) else None
    value = _written(value_of(path, settings))
    return f"`{path}` = {value if given is None else f'**{value}**'}"


def value_of(path: str, settings: Settings) -> Any:
    """Return the value of a setting by its dotted name; of an agent's setting, what the agent has.

    Raises:
        KeyError, AttributeError: for a name that no setting has.
    """
    from agentorchestra.agents.registry import adjusted, builtin_agents

    found: Any = settings
    parts = path.split(".")
    if parts[0] == "agents":
        found, parts = adjusted(builtin_agents(settings), settings.agents)[parts[1]], parts[2:]
    for part in parts:
        found = getattr(found, part)
    return found


def _written(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_none=True) or "none"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, tuple):
        return ", ".join(_written(one) for one in value) or "none"
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
