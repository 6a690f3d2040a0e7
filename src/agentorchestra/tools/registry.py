"""The tools every workspace has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentorchestra.tea.tool import Tool
from agentorchestra.tools.artifacts import read_artifact
from agentorchestra.tools.files import file_tools
from agentorchestra.tools.python import PythonTool
from agentorchestra.tools.todo import todo


@dataclass
class BuiltinTools:
    """The packaged tools by name, and what they hold open."""

    tools: dict[str, Tool[..., Any]]
    python: PythonTool

    async def aclose(self) -> None:
        """Close interpreters; nothing stays behind."""
        await self.python.aclose()


def builtin_tools(folder: Path) -> BuiltinTools:
    """The packaged tools of a workspace.

    Args:
        folder: the workspace's folder, where the search index is kept.
    """
    python = PythonTool()
    found: list[Tool[..., Any]] = [todo, python.tool, read_artifact, *file_tools(folder)]
    return BuiltinTools({one.name: one for one in found}, python)
