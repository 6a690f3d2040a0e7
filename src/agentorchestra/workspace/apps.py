"""The user's application: the workspace that the settings name."""

from __future__ import annotations

import importlib
import importlib.resources
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentorchestra.core.errors import (
    AppError,
)

if TYPE_CHECKING:
    pass

from agentorchestra.workspace.settings import load_settings, settings_path
from agentorchestra.workspace.workspace import DEFAULT_FOLDER, Workspace


def load_app(reference: str, folder: Path) -> Workspace[Any]:
    """The user's workspace of `app = "module:workspace"`.

    Args:
        reference: `module:attribute`; a Workspace, or a function without arguments that returns one.
        folder: where the settings file lies: the module is looked for there first, as in the user's own programs.

    Raises:
        AppError: in one sentence.
    """
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute:
        raise AppError(f'app is {reference!r}; write it as "module:workspace"')
    place = str(folder)
    if place not in sys.path:
        # The module is the user's own program: it is found as `python -m module` finds it in that folder.
        sys.path.insert(0, place)
    try:
        found = getattr(importlib.import_module(module_name), attribute)
        workspace = found if isinstance(found, Workspace) else found()
    except (Exception, SystemExit) as exc:
        raise AppError(f"the app {reference!r} cannot be loaded from {folder}: {type(exc).__name__}: {exc}") from None
    if not isinstance(workspace, Workspace):
        raise AppError(f"the app {reference!r} is a {type(workspace).__name__}, not a Workspace")
    workspace.app = reference
    workspace.app_folder = place
    return workspace


def open_workspace(
    folder: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    app: bool = True,
    preset: str | None = None,
) -> Workspace[Any]:
    """The workspace of a folder with the user's application, where the settings name one (not yet opened).

    Args:
        folder: default `.agentorchestra/` in the current folder.
        environ: replaces the process's environment.
        app: load the application; reading the log needs none, and must work while it is broken.
        preset: see Workspace; None for the one that the application or the settings name.
    """
    base = Path(folder or DEFAULT_FOLDER)
    settings = load_settings(base, preset)
    path = settings_path(base)
    if settings.app is None or not app:
        return Workspace(base, environ=environ, preset=preset)
    workspace = load_app(settings.app, path.parent if path is not None else Path.cwd())
    workspace.folder = base
    workspace.preset = workspace.preset if preset is None else preset
    return workspace


__all__ = ["load_app", "open_workspace"]
