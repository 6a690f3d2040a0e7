"""A real MCP server of the official SDK in a process of its own: `python server.py KIND [PORT]`; with a port over HTTP.

Each call is written to the file that `MCP_TEST_LOG` names, so that a test can count what really happened.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

from mcp import types

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
NUMBER: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer", "description": "Which one."}},
    "required": ["n"],
}
BROKEN: dict[str, dict[str, Any]] = {
    "nonsense": {"type": "object", "properties": {"n": {"type": "nonsense"}}},
    "nowhere": {"type": "object", "properties": {"n": {"$ref": "#/$defs/Missing"}}},
    "elsewhere": {"type": "object", "properties": {"n": {"$ref": "http://127.0.0.1:9/schema.json"}}},
    "huge": {"type": "object", "properties": {"n": {"type": "string", "description": "x" * 200_000}}},
}


def log(line: str) -> None:
    with Path(os.environ["MCP_TEST_LOG"]).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def logged() -> list[str]:
    path = Path(os.environ["MCP_TEST_LOG"])
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def tool(name: str, schema: dict[str, Any] = EMPTY, **hints: bool) -> types.Tool:
    annotations = types.ToolAnnotations.model_validate(hints) if hints else None
    return types.Tool(name=name, description=f"Does {name}.", input_schema=schema, annotations=annotations)


def text(*parts: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=part) for part in parts])


TOOLS = {
    "plain": [
        tool("count", NUMBER),
        tool("repeat", NUMBER, idempotentHint=True),
        tool("look", readOnlyHint=True, openWorldHint=True),
        tool("destroy", readOnlyHint=True, destructiveHint=True),
        tool("die", NUMBER),
        tool("die_repeatable", NUMBER, readOnlyHint=True),
        tool("hang"),
        tool("fail"),
        tool("everything"),
        tool("structured"),
        tool("environment"),
        tool("grow"),
    ],
    "many": [tool(f"tool-{number}", NUMBER) for number in range(300)],
    "broken": [*(tool(name, schema) for name, schema in BROKEN.items()), tool("whole", NUMBER)],
}


class TestServer:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tools = list(TOOLS.get(kind, ()))
        self.server: Server[Any] = Server(
            f"test-{kind}", version="2.1.0", on_list_tools=self.list_tools, on_call_tool=self.call_tool
        )

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if self.kind == "hang-list":
            await asyncio.sleep(600)
        start = int(params.cursor) if params is not None and params.cursor else 0
        end = start + 50
        return types.ListToolsResult(
            tools=self.tools[start:end], next_cursor=str(end) if end < len(self.tools) else None
        )

    async def call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        number = (params.arguments or {}).get("n")
        log(f"{params.name} {number}")
        match params.name:
            case "die" | "die_repeatable":
                if logged().count(f"{params.name} {number}") == 1:  # not again after the restart
                    os._exit(3)
                return text(f"survived {number}")
            case "hang":
                await asyncio.sleep(600)
            case "fail":
                result = text("the disk is full")
                return result.model_copy(update={"is_error": True})
            case "everything":
                return everything()
            case "structured":
                return types.CallToolResult(content=[], structured_content={"degrees": 21})
            case "environment":
                return text(json.dumps(dict(os.environ)))
            case "grow":
                self.tools.append(tool(f"grown{len(self.tools)}"))
                await ctx.session.send_tool_list_changed()
        return text(f"{params.name} {number}")

    async def over_stdio(self) -> None:
        async with stdio_server() as (read, write):
            options = self.server.create_initialization_options(NotificationOptions(tools_changed=True))
            await self.server.run(read, write, options)

    def over_http(self, port: int) -> None:
        import uvicorn

        app = self.server.streamable_http_app(json_response=self.kind == "plain-json")
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


def everything() -> types.CallToolResult:
    return types.CallToolResult(
        content=[
            types.TextContent(text="words"),
            types.ImageContent(data=PIXEL, mime_type="image/png"),
            types.AudioContent(data=base64.b64encode(b"RIFF").decode(), mime_type="audio/wav"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="memo://one", text="a memo")),
            types.EmbeddedResource(
                resource=types.BlobResourceContents(
                    uri="memo://two", blob=base64.b64encode(b"\0\1\2").decode(), mime_type="application/x-thing"
                )
            ),
            types.ResourceLink(name="three", uri="memo://three", description="another memo"),
            types.ImageContent(data="not base64!", mime_type="image/png"),
        ]
    )


def main() -> None:
    kind = sys.argv[1]
    if kind == "hang-initialize":
        time.sleep(600)
    if kind == "crash":
        sys.exit(f"cannot start without {os.environ.get('MCP_TEST_SECRET', 'a licence')}")
    server = TestServer("plain" if kind == "plain-json" else kind)
    server.kind = kind
    if len(sys.argv) > 2:
        server.over_http(int(sys.argv[2]))
    else:
        asyncio.run(server.over_stdio())


if __name__ == "__main__":
    main()
