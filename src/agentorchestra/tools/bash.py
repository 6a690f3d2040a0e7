"""`bash`: a shell in the sandbox, a fresh one for each call."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.tool import Tool, ToolResult, tool
from agentorchestra.tools.workbench import Workbench


def bash_tool(workbench: Workbench) -> Tool[..., Any]:
    """The tool, over a workbench."""

    @tool(effect=("composite", "execute"))
    async def bash(ctx: RunContext[Any], command: str) -> ToolResult:
        """Run a shell command and get its output, errors and exit code.

        Each call is a fresh shell without network. The task's files are in the working folder, to be read by their
        names; files that the command writes there stay for later calls of bash and python.

        Args:
            command: What bash runs: one command or a script.
        """
        if not command.strip():
            raise ToolError("the command is empty; give one, e.g. ls -la")
        return workbench.result(await workbench.run(ctx, "bash", command))

    return bash


__all__ = ["bash_tool"]
