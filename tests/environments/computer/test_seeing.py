"""A run in which a model works on a desktop by what it is shown, and by nothing else."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.environments.computer.desks import PYTHON, why_not

from agentorchestra import Workspace
from agentorchestra.core.content import MediaBlock, text_of
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(why_not()), reason=why_not())]

HIDDEN = """
import random, tkinter as tk
random.seed(7)
root = tk.Tk()
root.title("Find the button")
root.geometry("700x500")
left = 3
def hit():
    global left
    left -= 1
    if not left:
        root.title("The code is %s" % code)
        print("found", flush=True)
        button.place_forget()
        return
    place()
def place():
    button.place(x=random.randrange(600), y=random.randrange(440), width=60, height=40)
code = random.randrange(10000, 99999)
button = tk.Button(root, background="#ff0000", activebackground="#ff0000", command=hit)
place()
open("code.txt", "w").write(str(code))
root.mainloop()
"""


def place_of_red(data: bytes) -> tuple[int, int] | None:
    """The middle of what is red in a picture; the picture's pixels are the mouse's places."""
    red, green, blue = Image.open(io.BytesIO(data)).convert("RGB").split()
    mask = Image.merge("RGB", (red.point(lambda v: 255 * (v > 250)), green, blue))
    found = [
        (x, y)
        for y in range(0, mask.height, 4)
        for x in range(0, mask.width, 4)
        if mask.getpixel((x, y)) == (255, 0, 0)
    ]
    if not found:
        return None
    return sum(x for x, _ in found) // len(found), sum(y for _, y in found) // len(found)


@pytest.mark.parametrize("sees", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_model_finds_what_it_sees(tmp_path: Path, sees: bool) -> None:
    """The button jumps to a place by chance after each hit; a model that is shown no picture cannot find it."""
    program = tmp_path / "hidden.py"
    program.write_text(HIDDEN)

    async def decides(request: ModelRequest) -> Any:
        blocks = [block for message in request.messages for block in message.content]
        shown = text_of(tuple(blocks))
        code = re.findall(r'"The code is (\d+)"', shown)
        pictures = [one for one in blocks if isinstance(one, MediaBlock) and one.name == "screen.png"]
        if code:
            return decide(calls=[call("done", answer=code[-1])])
        if "nothing runs" in shown and "Find the button" not in shown:
            return decide(calls=[call("computer_start_program", command=f"{PYTHON} files/hidden.py")])
        place = place_of_red(await ws.store.get_blob(pictures[-1].sha256)) if pictures else None
        if place is None:
            return decide(calls=[call("done", answer="nothing to be seen")])
        return decide(calls=[call("computer_click", x=place[0], y=place[1])])

    model = ScriptedModel(decides, profile=ModelProfile(model="scripted", vision=sees))
    async with Workspace(tmp_path / "ws", settings=Settings(system="react", in_view_chars=0)) as ws:
        result = await ws.run("Which code?", files=[program], model=model, environments=["computer"])
        assert result.status == RunStatus.COMPLETED, result.error
        folder = ws.files.folder(result.run_id).parent
    assert result.answer == ((folder / "computer" / "code.txt").read_text() if sees else "nothing to be seen")
    assert [one.name for one in folder.iterdir()] == ["computer"], "the display's folder is gone"
