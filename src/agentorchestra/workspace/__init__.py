"""The composition root: a folder with its log, its settings, its components - and the runs in it."""

from agentorchestra.workspace.catalog import packaged_prompts, systems, tools_by_name
from agentorchestra.workspace.creation import DEFAULT_COST_USD
from agentorchestra.workspace.driver import ReplayReport
from agentorchestra.workspace.settings import SETTINGS_FILE, load_settings, settings_path
from agentorchestra.workspace.workspace import DEFAULT_FOLDER, Workspace, load_app, open_workspace

__all__ = [
    "DEFAULT_COST_USD",
    "DEFAULT_FOLDER",
    "SETTINGS_FILE",
    "ReplayReport",
    "Workspace",
    "load_app",
    "load_settings",
    "open_workspace",
    "packaged_prompts",
    "settings_path",
    "systems",
    "tools_by_name",
]
