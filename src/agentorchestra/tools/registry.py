from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentorchestra.core.protocols import Handler
from agentorchestra.core.settings import SandboxSettings, WebSettings
from agentorchestra.sandbox import Sandbox
from agentorchestra.sandbox.factory import limits_for, sandbox_for
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tools.artifacts import read_artifact
from agentorchestra.tools.bash import bash_tool
from agentorchestra.tools.files import file_tools
from agentorchestra.tools.media import ask_media
from agentorchestra.tools.python import MONTY, PythonTool
from agentorchestra.tools.timer import wait_until
from agentorchestra.tools.todo import todo
from agentorchestra.tools.web.fetch import fetch_tool
from agentorchestra.tools.web.reader import WebPageReader
from agentorchestra.tools.web.search.local import Local
from agentorchestra.tools.web.search.tool import Engines, search_tools
from agentorchestra.tools.workbench import INTERPRETER, Workbench


@dataclass
class BuiltinTools:
    """The packaged tools by name, and what they hold open."""

    tools: dict[str, Tool[..., Any]]
    python: PythonTool
    workbench: Workbench

    @property
    def interpreters(self) -> dict[str, Handler]:
        return {MONTY: self.python, INTERPRETER: self.workbench}

    @property
    def sandbox(self) -> str:
        """The name of the sandbox, "none" for none."""
        return self.workbench.sandbox.name if self.workbench.sandbox is not None else "none"

    async def aclose(self) -> None:
        """Close interpreters; nothing stays behind."""
        await self.python.aclose()
        await self.workbench.aclose()


def builtin_tools(
    folder: Path,
    settings: SandboxSettings | None = None,
    *,
    sandbox: Sandbox | None = None,
    web: WebSettings | None = None,
    engines: Engines | None = None,
) -> BuiltinTools:
    """Return the packaged tools of a workspace, whose `folder` keeps the search index and pages of the web."""
    settings = settings or SandboxSettings()
    workbench = Workbench(sandbox or sandbox_for(settings), limits_for(settings), network=settings.network)
    python = PythonTool(workbench=workbench)
    local = [engine for engine in engines.all if isinstance(engine, Local)] if engines is not None else []
    tools: list[Tool[..., Any]] = [
        todo,
        python.tool,
        bash_tool(workbench),
        read_artifact,
        wait_until,
        *file_tools(folder),
        fetch_tool(WebPageReader(web or WebSettings(), folder, local[0].copy_of if local else None)),
        *(search_tools(engines) if engines is not None else ()),
        ask_media,
    ]
    return BuiltinTools({tool.name: tool for tool in tools}, python, workbench)
