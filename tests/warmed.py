"""What most processes of the tests import: the parent of those in `tests.warm` has it before they begin."""

from __future__ import annotations

import importlib

MODULES = (
    "agentorchestra.agents.analysis.tool",
    "agentorchestra.agents.registry",
    "agentorchestra.cli.commands.replay",
    "agentorchestra.cli.commands.resume",
    "agentorchestra.cli.commands.run",
    "agentorchestra.cli.commands.show",
    "agentorchestra.environments.browser.environment",
    "agentorchestra.environments.computer.environment",
    "agentorchestra.environments.files",
    "agentorchestra.environments.git",
    "agentorchestra.environments.github",
    "agentorchestra.environments.report.environment",
    "agentorchestra.environments.terminal",
    "agentorchestra.models.handler",
    "agentorchestra.models.offline",
    "agentorchestra.runtime.store.sqlite",
    "agentorchestra.systems.agentorchestra",
    "agentorchestra.tea.context",
    "agentorchestra.testing",
    "agentorchestra.tools.registry",
    "agentorchestra.workspace.opened",
    "agentorchestra.workspace.searching",
    "jinja2.sandbox",
    "pydantic_settings",
    "yaml",
)

for _module in MODULES:
    importlib.import_module(_module)
