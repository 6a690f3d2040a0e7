"""What most processes of the tests import: the parent of those in `tests.warm` has it before they begin."""

from __future__ import annotations

import asyncio
import gc
import importlib
import pkgutil
import tempfile

from agentorchestra import Settings, Workspace
from agentorchestra.cli import commands
from agentorchestra.testing import ScriptedModel, call

MODULES = (
    "agentorchestra.agents.analysis.tool",
    "agentorchestra.workspace.agents",
    "agentorchestra.environments.browser.environment",
    "agentorchestra.environments.computer.environment",
    "agentorchestra.environments.files.environment",
    "agentorchestra.environments.git.environment",
    "agentorchestra.environments.github.environment",
    "agentorchestra.environments.report.environment",
    "agentorchestra.environments.terminal.environment",
    "agentorchestra.evolution.canary",
    "agentorchestra.models.handler",
    "agentorchestra.models.offline.model",
    "agentorchestra.log.store.postgres",
    "agentorchestra.log.store.sqlite",
    "agentorchestra.systems.agentorchestra",
    "agentorchestra.tea.calling.recorded",
    "agentorchestra.tea.prompts.restrictions",
    "agentorchestra.tea.registry.context",
    "agentorchestra.tools.registry",
    "agentorchestra.tools.web.search.engines",
    "agentorchestra.workspace.changes",
    "agentorchestra.workspace.composition",
    "agentorchestra.workspace.task_folder",
    "jinja2.sandbox",
    "jsonschema",
    "pydantic_monty",
    "pydantic_settings",
    "url_normalize",
    "yaml",
    *(one.name for one in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}.")),
)


async def _run() -> None:
    """Have what a run makes once for a process: the packaged prompts and tools, their templates and schemas."""
    with tempfile.TemporaryDirectory(prefix="agentorchestra-warmed-") as place:
        async with Workspace(place, settings=Settings(), environ={}) as workspace:
            for system in ("react", "agentorchestra"):
                await workspace.run("Say hello", model=ScriptedModel([call("done", answer="hello")]), system=system)


for _module in MODULES:
    importlib.import_module(_module)
asyncio.run(_run())
gc.collect()
gc.freeze()  # the forks do not look there for garbage, nor copy it
