"""Users' tools on MCP servers (Model Context Protocol): docs/mcp.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentorchestra.tools.mcp.toolkit import McpToolkit


def mcp(path: str | Path, *, environ: Mapping[str, str] | None = None) -> McpToolkit:
    """Return the tools of the MCP servers that an `mcpServers` file names: `Workspace(tools=[mcp("mcp.json")])`.

    The file is read, and the servers are reached, when the workspace needs its tools; they are left when it is closed.

    Args:
        path: the file (docs/mcp.md).
        environ: where its `${VAR}` come from; the process's environment by default.
    """
    return McpToolkit(path, environ)


__all__ = ["McpToolkit", "mcp"]
