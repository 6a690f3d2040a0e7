"""The search engines of a workspace, as its settings and its environment make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentorchestra.core.settings import Settings
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.search.engines import engines_of, key_variables
from agentorchestra.tools.web.search.tool import Engines
from agentorchestra.workspace.settings import settings_path


def search_engines(settings: Settings, folder: Path, environ: Mapping[str, str], given: Sequence[Any]) -> Engines:
    """The engines that can be asked, and what the others lack.

    Args:
        settings: of the workspace; the folders that they name lie beside the settings file.
        folder: of the workspace.
        environ: where keys are.
        given: the user's own engines.

    Raises:
        SettingsError: they name an engine that there is not, or two have one name.
    """
    beside = settings_path(folder)
    return engines_of(
        settings.search,
        folder=folder,
        near=beside.parent if beside is not None else Path(),
        web=WebClient(settings.web),
        environ=environ,
        given=given,
    )


__all__ = ["key_variables", "search_engines"]
