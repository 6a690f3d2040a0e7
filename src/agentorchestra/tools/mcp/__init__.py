"""Users' tools on MCP servers (Model Context Protocol): docs/mcp.md.

config.py               the `mcpServers` file, and what of it is secret
definitions.py          the tools a server lists: names, schemas, hints, bounded
transports.py           programs and HTTP
connection.py           the task that owns a connection
results.py              what a call gave, as blocks
toolkit.py              all of it as a toolkit
"""

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
