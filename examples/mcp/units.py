"""A small MCP server, as anybody may have one: it converts temperatures (docs/mcp.md)."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("units", version="1.0.0")


@server.tool()
def to_fahrenheit(celsius: float) -> float:
    """Degrees Celsius in degrees Fahrenheit."""
    return celsius * 9 / 5 + 32


if __name__ == "__main__":
    server.run("stdio")
