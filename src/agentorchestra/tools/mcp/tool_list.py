"""The tools of a server as they come: page by page, in a form that the SDK accepts whatever is in it, bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from agentorchestra.tools.mcp.definitions import MAX_TOOL, MAX_TOOLS, size_of
from mcp import ClientSession, types

MAX_PAGES = 200
MAX_LISTED = 2_000_000  # characters of all tools of a server, as JSON
_LONGEST_NAME = 500
_USED = ("name", "title", "description", "inputSchema", "annotations")


class Dispatcher(JSONRPCDispatcher):
    """The SDK's, which also says when the connection has ended, and lets no broken tool spoil a whole page."""

    def __init__(self, *pair: Any) -> None:
        super().__init__(*pair)
        self.ended: Callable[[], None] = lambda: None
        self.page: list[dict[str, Any]] = []

    async def run(self, *args: Any, **options: Any) -> None:
        try:
            await super().run(*args, **options)
        finally:
            self.ended()

    async def send_raw_request(self, method: str, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the raw result; a page of tools in a form that the SDK accepts whatever is in it."""
        raw = await super().send_raw_request(method, *args, **options)
        if method != "tools/list":
            return raw
        entries = raw.get("tools")
        tools = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        # What tools give is checked by nobody here: it is untrusted whatever its schema says.
        self.page = [_cut_tool({key: tool[key] for key in _USED if key in tool}) for tool in tools[: MAX_TOOLS + 1]]
        cursor = raw.get("nextCursor")
        usable = [tool for tool in self.page if isinstance(tool.get("name"), str)]
        return {
            **raw,
            "tools": [_acceptable(tool) for tool in usable],
            "nextCursor": cursor if isinstance(cursor, str) else None,
        }

    async def list_tools(self, session: ClientSession) -> tuple[list[dict[str, Any]], bool]:
        """Return the tools of all pages, and whether there are more; MCPError, ValidationError for no proper answer."""
        capabilities = session.server_capabilities
        if capabilities is not None and capabilities.tools is None:
            return [], False
        tools: list[dict[str, Any]] = []
        seen: set[str] = set()
        cursor: str | None = None
        size = 0
        for _ in range(MAX_PAGES):
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            cursor = page.next_cursor
            tools += self.page
            size += sum(size_of(tool) for tool in self.page)
            if cursor is None or cursor in seen or len(tools) > MAX_TOOLS or size > MAX_LISTED:
                break
            seen.add(cursor)
        return tools[:MAX_TOOLS], cursor is not None or len(tools) > MAX_TOOLS


def _cut_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as it came; of one that is too large only what names it."""
    size = size_of(tool)
    if size <= MAX_TOOL:
        return tool
    name = tool.get("name")
    return {"name": name[:_LONGEST_NAME] if isinstance(name, str) else "", "size": size}


def _acceptable(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool in a form that the SDK accepts; one that it does not, with no arguments described."""
    bare = {"name": tool["name"], "inputSchema": tool.get("inputSchema")}
    try:
        validate_server_result("tools/list", "2025-11-25", {"tools": [bare]})
    except ValidationError:
        return {"name": tool["name"], "inputSchema": {"type": "object"}}
    return bare
