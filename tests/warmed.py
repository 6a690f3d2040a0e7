"""What most processes of the tests import: the parent of those in `tests.warm` has it before they begin."""

from __future__ import annotations

import importlib

MODULES = (
    "agentorchestra.agents.analysis.tool",
    "agentorchestra.workspace.agents",
    "agentorchestra.cli.commands.replay",
    "agentorchestra.cli.commands.resume",
    "agentorchestra.cli.commands.run",
    "agentorchestra.cli.commands.show",
    "agentorchestra.environments.browser.environment",
    "agentorchestra.environments.computer.environment",
    "agentorchestra.environments.files.environment",
    "agentorchestra.environments.git.environment",
    "agentorchestra.environments.github.environment",
    "agentorchestra.environments.report.environment",
    "agentorchestra.environments.terminal.environment",
    "agentorchestra.models.handler",
    "agentorchestra.models.offline.model",
    "agentorchestra.log.store.sqlite",
    "agentorchestra.systems.agentorchestra",
    "agentorchestra.tea.registry.context",
    "agentorchestra.testing",
    "agentorchestra.tools.registry",
    "agentorchestra.tools.web.search.engines",
    "agentorchestra.workspace.composition",
    "jinja2.sandbox",
    "pydantic_settings",
    "yaml",
)

for _module in MODULES:
    importlib.import_module(_module)
