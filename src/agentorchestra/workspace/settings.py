from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import SettingsError, WorkspaceNotWritableError
from agentorchestra.core.names import did_you_mean, nearest
from agentorchestra.core.settings import ArtifactsOptions, PolicySettings, Settings
from agentorchestra.workspace.presets import with_preset

SETTINGS_FILE = "agentorchestra.toml"


def load_settings(folder: Path, preset: str | None = None) -> Settings:
    """Return the settings of a workspace: a preset, its file, the environment - each over the one before, key by key.

    The file is `agentorchestra.toml` in the workspace's folder or the one above it.

    Environment variables are named `AGENTORCHESTRA_MODEL`, `AGENTORCHESTRA_SYSTEM`, `AGENTORCHESTRA_MAX_STEPS`,
    nested ones with two underscores (`AGENTORCHESTRA_BUDGET__COST_USD`); they win over the file.

    Args:
        preset: its name, `none` for no preset, None for the one that file or environment name.

    Raises:
        SettingsError: with the file or variable, the value, and what is allowed.
    """
    _refuse_unknown_variables(os.environ)
    path = settings_path(folder)
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise SettingsError(f"{path} cannot be read: {exc}; correct it or move it away") from None
    limits = values.get("budget")
    if isinstance(limits, dict) and (unknown := sorted(set(limits) - set(Budget.model_fields))):
        guess = did_you_mean(unknown[0], Budget.model_fields, f"the limits: {', '.join(Budget.model_fields)}")
        raise SettingsError(f"budget.{unknown[0]} in {path} is no limit; {guess}")
    try:
        settings = _settings_class()(**values)
    except ValidationError as exc:
        first = exc.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["loc"][0] == "artifacts_options":  # what stands there may be a key: it is not repeated
            raise SettingsError(
                f"{name} in {path or 'the environment'} does not fit: {first['msg']}; the options are "
                f"{', '.join(ArtifactsOptions.model_fields)}. Keys belong into AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY"
            ) from None
        raise SettingsError(
            f"{_misfit(first, name, str(path or 'the environment'))}; docs/settings.md lists the settings"
        ) from None
    except Exception as exc:  # pydantic-settings has its own error for a variable that is not JSON
        raise SettingsError(f"the environment's AGENTORCHESTRA_ variables do not fit: {exc}") from None
    return with_preset(settings, preset)


def _misfit(error: Any, name: str, place: str) -> str:
    *above, last = error["loc"]
    if error["type"] == "extra_forbidden":  # its value may be a key: it is not repeated
        names = _fields(above)
        guess = did_you_mean(str(last), names, "remove it" if len(names) > 20 else f"there are: {', '.join(names)}")
        return f"{place} has the setting {name}, which does not exist; {guess}"
    if isinstance(error["input"], dict) and f"{name}s" in Settings.model_fields:
        key = next(iter(error["input"]), "NAME")
        return f"[{name}.{key}] in {place} does not fit: {name} is one name; to describe {key}, write [{name}s.{key}]"
    return f"{name} = {error['input']!r} in {place} does not fit: {error['msg']}"


def _fields(place: Sequence[Any]) -> list[str]:
    """Return the names of the settings at a place, which is a path of names and keys."""
    kinds: list[Any] = [Settings]
    for part in place:
        fields = [kind.model_fields[part].annotation for kind in kinds if part in getattr(kind, "model_fields", ())]
        kinds = [kind for field in fields or kinds for kind in _models_in(field)]
    return [name for kind in kinds for name in getattr(kind, "model_fields", ())]


def _models_in(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [kind for arg in get_args(annotation) for kind in _models_in(arg)]


_OTHER_VARIABLES = ("WORKSPACE", "DEBUG", "TOKEN")  # read by the command line; they are no settings


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Refuse a variable that names no setting: pydantic-settings would pass over it without a word.

    What follows two underscores is left to the models of the settings, which refuse what they do not know; the one of
    the budget is not of the settings alone, and passes over it.
    """
    prefix = "AGENTORCHESTRA_"
    names = [name.upper() for name in Settings.model_fields]
    for variable in sorted(environ):
        if not variable.upper().startswith(prefix):
            continue
        name = variable.upper().removeprefix(prefix)
        limits = [f"BUDGET__{field.upper()}" for field in Budget.model_fields]
        misspelt_limit = name.startswith("BUDGET__") and name not in limits
        if name in _OTHER_VARIABLES or (name.partition("__")[0] in names and not misspelt_limit):
            continue
        rules = [f"POLICY__{field.upper()}" for field in PolicySettings.model_fields]
        close = nearest(name, [*names, *_OTHER_VARIABLES, *limits, *rules])
        guess = f"did you mean {prefix}{close[0]}? Else remove it" if close else "correct or remove it"
        raise SettingsError(
            f"the environment variable {variable} names no setting; {guess}; docs/settings.md lists the settings"
        )


@cache
def _settings_class() -> type[Settings]:
    from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

    class LayeredSettings(Settings, BaseSettings):
        """Environment over file."""

        model_config = SettingsConfigDict(
            frozen=True, extra="forbid", env_prefix="AGENTORCHESTRA_", env_nested_delimiter="__"
        )

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return env_settings, init_settings

    return LayeredSettings


def settings_path(folder: Path) -> Path | None:
    """Return a workspace's settings file, or None; WorkspaceNotWritableError if the folder may not be entered."""
    for candidate in (folder / SETTINGS_FILE, folder.absolute().parent / SETTINGS_FILE):
        try:
            if candidate.is_file():
                return candidate
        except PermissionError:
            raise WorkspaceNotWritableError(
                f"{candidate.parent} may not be entered; change its permissions, or choose another --workspace"
            ) from None
    return None


def settings_folder(folder: Path) -> Path:
    """Return the folder of the settings file: what the settings name lies there; the current one without a file."""
    path = settings_path(folder)
    return path.parent if path is not None else Path()
