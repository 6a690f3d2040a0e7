"""An MCP server that stands in for one that drives a phone (docs/mobile.md): `python phone.py [SEED] [LOG]`.

Its screen has 320 x 480 pixels and shows a red button, which jumps to a place by chance when it is tapped. After three
taps the screen is of one colour by chance, which stands nowhere else but in the log.
"""

from __future__ import annotations

import base64
import io
import random
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from PIL import Image, ImageDraw

from mcp import types

WIDTH, HEIGHT, SIDE = 320, 480, 48
draw = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
server = MCPServer("phone", version="1.0.0")
colour = f"#{draw.randrange(0x10, 0xC0):02x}{draw.randrange(0x10, 0xFF):02x}{draw.randrange(0x10, 0xFF):02x}"
taps = 0


def _placed() -> tuple[int, int]:
    return draw.randrange(WIDTH - SIDE), draw.randrange(HEIGHT - SIDE)


place = _placed()


def log(line: str) -> None:
    if len(sys.argv) > 2:
        with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


@server.tool(annotations=types.ToolAnnotations.model_validate({"readOnlyHint": True}))
def screenshot() -> list[types.ImageContent]:
    """What the screen shows."""
    log("screenshot")
    picture = Image.new("RGB", (WIDTH, HEIGHT), "#ffffff" if taps < 3 else colour)
    if taps < 3:
        x, y = place
        ImageDraw.Draw(picture).rectangle((x, y, x + SIDE - 1, y + SIDE - 1), fill="#ff0000")
    data = io.BytesIO()
    picture.save(data, "PNG")
    return [types.ImageContent(type="image", data=base64.b64encode(data.getvalue()).decode(), mime_type="image/png")]


@server.tool()
def tap(x: int, y: int) -> str:
    """Tap the screen at a place, in pixels from its upper left corner."""
    global place, taps
    if not (0 <= x < WIDTH and 0 <= y < HEIGHT):
        raise ToolError(f"{x}, {y} is not on the screen, which is {WIDTH} x {HEIGHT} pixels")  # its words arrive
    hit = taps < 3 and all(0 <= at - edge < SIDE for at, edge in zip((x, y), place, strict=True))
    log("hit" if hit else "missed")
    if hit:
        taps, place = taps + 1, _placed()
        if taps == 3:
            log(colour)
    return f"tapped {x}, {y}"


if __name__ == "__main__":
    server.run("stdio")
