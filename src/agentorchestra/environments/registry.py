"""The environments every workspace has: known by name, imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agentorchestra.core.protocols import Environment
from agentorchestra.core.settings import Settings
from agentorchestra.sandbox import Sandbox, SandboxLimits
from agentorchestra.sandbox.base import MIB

# Name -> `module:class`. The class method `from_parts` makes it.
PACKAGED: Mapping[str, str] = {
    "browser": "agentorchestra.environments.browser.environment:Browser",
    "computer": "agentorchestra.environments.computer.environment:Computer",
    "files": "agentorchestra.environments.files.environment:FilesEnvironment",
    "git": "agentorchestra.environments.git.environment:Git",
    "github": "agentorchestra.environments.github.environment:GitHub",
    "report": "agentorchestra.environments.report.environment:Report",
    "terminal": "agentorchestra.environments.terminal.environment:Terminal",
}


@dataclass(frozen=True)
class EnvironmentParts:
    """What a workspace hands to the environments that come with the package."""

    settings: Settings = field(default_factory=Settings)  # the workspace's
    sandbox: Sandbox | None = None  # where code that a model wrote runs; None where the settings want none
    limits: SandboxLimits = field(default_factory=SandboxLimits)  # what it may use
    network: bool = False  # whether it reaches the network
    environ: Mapping[str, str] = field(default_factory=dict)  # the process's environment, for handles of secrets
    images: Path = Path("images")  # where images of the terminal are unpacked
    reports: Path | None = None  # the workspace's folder of the reports that its runs share
    tested: bool = False  # whether tests are run on the terminal's machine when a run has ended


def packaged_environments(parts: EnvironmentParts) -> dict[str, Callable[[], Environment]]:
    """Return makers of the packaged environments by name; the first use of one imports its module."""
    return {name: partial(_make, place, parts) for name, place in PACKAGED.items()}


def _make(place: str, parts: EnvironmentParts) -> Environment:
    from agentorchestra.environments.base import base_for
    from agentorchestra.environments.folder import FolderEnvironment
    from agentorchestra.environments.manifest import FolderLimits

    settings = parts.settings.folder
    folder = FolderLimits(int(settings.max_mib * MIB), settings.max_entries, int(settings.max_file_mib * MIB))
    # Commands work in the same folder: what they may write is what it may hold.
    parts = replace(parts, limits=replace(parts.limits, work_bytes=folder.bytes, files=folder.entries))
    module, _, name = place.partition(":")
    environment: Environment = getattr(importlib.import_module(module), name).from_parts(parts)
    if isinstance(environment, FolderEnvironment):
        environment.limits = folder
        environment.base = base_for(parts.settings.terminal, parts.images)
    return environment
