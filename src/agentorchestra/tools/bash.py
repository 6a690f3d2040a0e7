"""`bash`: a shell in the sandbox, a fresh one for each call."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tools.workbench import Workbench, has_terminal, in_terminal


def bash_tool(workbench: Workbench) -> Tool[..., Any]:
    @tool(effect=("composite", "execute"))
    async def bash(ctx: RunContext[Any], command: str) -> ToolResult:
        """Run a shell command or script.

        Each call is a fresh shell in the working folder with the task's files; files it writes stay for later calls of
        bash and python. No network.

        Args:
            command: What bash runs.
        """
        if not command.strip():
            raise ToolError("the command is empty; give one, e.g. ls -la")
        if has_terminal(ctx):
            return await in_terminal(ctx, f"(\n{command}\n)")
        return workbench.result(await workbench.run(ctx, "bash", command), ctx)

    return bash
