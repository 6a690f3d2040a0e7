"""What policy is told of the desktop, and what is said where something is missing."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from tests.environments.computer.desks import FORM, Desk, program, why_not

from agentorchestra import Workspace
from agentorchestra.core.effects import Tag
from agentorchestra.core.settings import ComputerSettings, SandboxSettings, Settings
from agentorchestra.environments.computer.environment import Computer
from agentorchestra.environments.computer.keyboard import chord, named_key
from agentorchestra.sandbox.bubblewrap import Bubblewrap
from agentorchestra.sandbox.local import UnsafeLocal
from agentorchestra.tea.calling.actions import action_tags

needs_desktop = pytest.mark.skipif(bool(why_not()), reason=why_not())


def test_what_reaches_out_is_tagged() -> None:
    inside = Computer(sandbox=Bubblewrap())
    assert inside.confined
    assert action_tags(inside, "start_program") == {Tag.WRITE, Tag.EXECUTE}
    assert action_tags(inside, "type_text") == {Tag.WRITE}
    for outside in (Computer(sandbox=Bubblewrap(), network=True), Computer(sandbox=UnsafeLocal())):
        assert not outside.confined
        assert action_tags(outside, "start_program") == {Tag.WRITE, Tag.EXECUTE, Tag.NETWORK}
        for action in ("click", "drag", "scroll", "type_text", "press", "clipboard_write", "close_window"):
            assert action_tags(outside, action) == {Tag.WRITE, Tag.NETWORK}, action
        assert action_tags(outside, "screenshot") == {Tag.READ}
    reads = {one.name for one in inside.actions() if not inside.mutates(one.name)}
    assert reads == {"screenshot", "windows", "wait", "programs", "output", "clipboard_read", "zoom"}


def test_chords() -> None:
    control, shift = named_key("ctrl"), named_key("shift")
    assert chord("ctrl+shift+t") == ((control, shift), ord("t"))
    assert chord("+") == ((), ord("+")) and chord("ctrl++") == ((control,), ord("+"))
    assert chord("Page_Down") == chord("pagedown") and chord("Enter") == chord("Return")
    assert chord("F12")[1] == named_key("f12") and chord(" ") == ((), 0x20) and chord("ж") == ((), 0x1000436)


async def refused(ws: Workspace) -> str:
    return await Desk(ws).refused("start_program", command="true")


async def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Workspace(tmp_path / "a") as ws:
        monkeypatch.setitem(sys.modules, "xcffib", None)
        assert await refused(ws) == "the desktop needs xcffib and Pillow: pip install 'agentorchestra[computer]'"
        monkeypatch.undo()
        monkeypatch.setenv("PATH", str(tmp_path))
        assert (
            await refused(ws) == "the desktop needs Xvfb and openbox (Debian and Ubuntu: apt-get install xvfb openbox)"
        )


async def test_without_a_sandbox_for_programs_none_is_started(tmp_path: Path) -> None:
    settings = Settings(sandbox=SandboxSettings(backend="none"), computer=ComputerSettings(width=640, height=480))
    async with Workspace(tmp_path, settings=settings) as ws:
        desk = Desk(ws)
        said = await refused(ws)
        assert said.startswith("programs run in a sandbox, and the settings want none")
        assert "640, 0 is not on the screen, which is 640 x 480" in await desk.refused("click", x=640, y=0)
        assert not [*tmp_path.glob("runs/*/environments/main/computer")]


@pytest.mark.real
@needs_desktop
@pytest.mark.long
async def test_unsafe_local_programs_find_the_display_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", "localhost:77")
    settings = Settings(sandbox=SandboxSettings(backend="unsafe-local"))
    async with Workspace(tmp_path / "w", settings=settings) as ws:
        desk = Desk(ws)
        said = await desk.do("start_program", command=program(FORM, "Here"))
        assert said.startswith("[run without a sandbox]\n") and re.search(r'new window 1: "Here"', said)
        assert "there is no sandbox: programs may do what the user may" in await desk.state()
    assert os.environ["DISPLAY"] == "localhost:77"
