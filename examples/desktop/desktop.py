"""A program with a window is used by what is seen of it (001, sec. 3.3.2).

    python examples/desktop/desktop.py [FOLDER]

The agent starts `panel.py` on the desktop (`computer`), looks at the picture of the screen, and presses its fields in
the order of the task; where each one is is another matter every time. No key and no network: what a language model
would decide is decided by `Eyes` below, which knows the pixels of the picture and nothing else. The display, the window
and the mouse are real. It needs the extra `computer`, a sandbox, and the Debian packages xvfb, openbox and python3-tk.

FOLDER keeps the workspace; without it everything is gone at the end. The exit status is 1 if the panel was not pressed
in the right order.
"""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
from pathlib import Path

from agentorchestra import RunResult, Workspace
from agentorchestra.core.content import MediaBlock
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call

PANEL = Path(__file__).parent / "panel.py"
COLOURS = {"green": (0, 255, 0), "blue": (0, 0, 255), "red": (255, 0, 0)}
"""To be pressed, in this order; yellow is not."""


def place_of(colour: tuple[int, int, int], picture: bytes) -> tuple[int, int] | None:
    """The middle of what has a colour; the pixels of the picture are the places of the mouse."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    found = [
        (x, y) for x in range(0, image.width, 8) for y in range(0, image.height, 8) if image.getpixel((x, y)) == colour
    ]
    return (sum(x for x, _ in found) // len(found), sum(y for _, y in found) // len(found)) if found else None


class Eyes:
    """Decides what to do next from the picture of the screen, as a model that sees would.

    Args:
        ws: where the pictures are.
    """

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._todo = dict(COLOURS)

    async def __call__(self, request: ModelRequest) -> ToolCall:
        """The next call, which is shown."""
        made = await self._next(request)
        print(f"  {made.name}: {made.arguments}")
        return made

    async def _next(self, request: ModelRequest) -> ToolCall:
        blocks = [one for message in request.messages for one in message.content if isinstance(one, MediaBlock)]
        if not blocks:  # nothing is on the screen yet
            return call("computer_start_program", command="/usr/bin/python3 files/panel.py")
        if not self._todo:
            return call("done", answer=" ".join(COLOURS))
        name = next(iter(self._todo))
        place = place_of(self._todo.pop(name), await self._ws.store.get_blob(blocks[-1].sha256))
        if place is None:
            return call("done", answer=f"There is nothing {name} to be seen.")
        return call("computer_click", x=place[0], y=place[1])


async def press_all(folder: Path) -> tuple[RunResult, list[str]]:
    """Run the task; its result, and what the panel says was pressed."""
    task = f"Start files/panel.py on the desktop and press its fields {', '.join(COLOURS)} in this order."
    print(task)
    async with Workspace(folder / "workspace", settings=Settings(prompt_tool_chars=0)) as ws:
        model = ScriptedModel(Eyes(ws))
        result = await ws.run(task, files=[PANEL], model=model, system="react", environments=["computer"])
        print(f"  answer:  {result.answer_text}\n  run:     {result.run_id} ({result.status}, {result.steps} steps)")
    titles = [part.text for message in model.requests[-1].messages for part in message.content if part.type == "text"]
    said = [line for text in titles for line in text.splitlines() if '"Panel: ' in line]
    return result, said[-1].partition('"Panel: ')[2].partition('"')[0].split() if said else []


def main() -> int:
    """Press the fields; 0 when the panel says that they were pressed in order."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        _, pressed = asyncio.run(press_all(folder))
    right = pressed == list(COLOURS)
    print(f"  check:   {'right' if right else 'wrong'}: the panel was pressed at {', '.join(pressed) or 'nothing'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
