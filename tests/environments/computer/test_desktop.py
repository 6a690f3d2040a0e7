"""A desktop on a real Xvfb: a program with a window is driven by mouse and keyboard, and tells what reached it."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from PIL import Image
from tests.environments.computer.desks import FORM, Desk, program, why_not
from tests.support.again import real

from agentorchestra import Workspace
from agentorchestra.core.content import MediaBlock
from agentorchestra.core.settings import Settings

pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.asyncio(loop_scope="module")]

SCRIPTS = "Grüße, Ωμέγα, Привет, עברית, العربية, हिन्दी, 漢字かな交じり文, 한국어, 😀🎉, ~^\\|{}[]@#€"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
@real
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    """A desktop with the form on it, at 100, 100."""
    folder = tmp_path_factory.mktemp("ws")
    async with Workspace(folder, settings=Settings()) as ws:
        desk = Desk(ws)
        said = await desk.do("start_program", command=program(FORM, "A form"))
        assert 'new window 1: "A form"' in said
        # A program places its window itself for a moment after that.
        while "at 100, 100, size 600 x 400" not in await desk.do("windows"):
            await desk.do("place_window", window=1, x=100, y=100, width=600, height=400)
        yield desk
    assert not [one for one in psutil.Process().children(recursive=True) if "Xvfb" in one.name()]


@pytest.fixture(autouse=True)
def nothing_told_before(desk: Desk) -> None:
    desk.seen()


@pytest.mark.long
async def test_state_names_screen_windows_and_what_programs_print(desk: Desk) -> None:
    await desk.do("mouse_move", x=700, y=600)
    await desk.do("click", x=160, y=195)
    await desk.told("saved")
    state = await desk.state()
    assert "screen: 1280 x 800 pixels; the mouse is at 160, 195" in state
    assert '1: "A form" at 100, 100, size 600 x 400, has the keyboard' in state
    assert re.search(r"1: running: .*\n( +printed: .*\n)* +printed: .*saved", state)


async def test_mouse(desk: Desk) -> None:
    await desk.do("mouse_move", x=550, y=300)
    assert await desk.told("hovered") == [{"what": "hovered"}]
    await desk.do("click", x=130, y=260, modifiers=["ctrl"])
    assert (await desk.told("let go"))[0] == {"what": "pressed", "x": 10, "y": 10, "ctrl": True}
    await desk.do("click", x=140, y=300, count=2)
    assert await desk.told("double")
    desk.seen()
    await desk.do("click", x=140, y=300, button="right")
    assert await desk.told("right")
    await desk.do("drag", x=130, y=260, to_x=220, to_y=330)
    first, *_, last = await desk.told("let go")
    assert (first["x"], first["y"], first["ctrl"]) == (10, 10, False)
    assert last == {"what": "let go", "x": 100, "y": 80}
    await desk.do("scroll", x=140, y=300, direction="up", steps=2)
    await desk.do("scroll", x=140, y=300, steps=1)
    assert [one["up"] for one in await desk.told("wheel", 3)] == [True, True, False]


async def test_a_button_is_held_until_it_is_let_go(desk: Desk) -> None:
    said = await desk.do("mouse_down", x=130, y=260)
    assert "the left button is held at 130, 260; mouse_up lets it go" in said
    assert "the mouse is at 130, 260 and holds the left button" in await desk.state()
    assert await desk.refused("mouse_down", x=130, y=260) == "the left button is held already; let it go by mouse_up"
    await desk.do("mouse_move", x=180, y=300)
    assert [one["what"] for one in await desk.told("pressed")] == ["pressed"]
    await desk.do("mouse_up", x=220, y=330)
    assert (await desk.told("let go"))[-1] == {"what": "let go", "x": 100, "y": 80}
    assert "holds" not in (await desk.state()).splitlines()[0]
    assert await desk.refused("mouse_up", x=1, y=1) == "the left button is not held; press it by mouse_down"
    assert "is not on the screen" in await desk.refused("mouse_down", x=5000, y=1)


@pytest.mark.long
async def test_a_key_is_held_for_a_time(desk: Desk) -> None:
    await desk.do("click", x=300, y=135)
    assert "held F6 for 1.5 s" in await desk.do("hold_key", keys="F6", seconds=1.5)
    seen = [one["what"] for one in await desk.told("F6 up")]
    assert seen[0] == "F6 down" and seen.count("F6 down") > 1, "it repeats"
    await desk.do("press", keys="ctrl+a")
    await desk.do("hold_key", keys="A", seconds=0.01)
    await desk.do("click", x=160, y=195)
    (saved,) = [one for one in await desk.told("saved") if one["what"] == "saved"]
    assert saved["text"] == "A"
    assert "there is no key 'Nokey'" in await desk.refused("hold_key", keys="Nokey")
    assert "seconds" in await desk.refused("hold_key", keys="a", seconds=31)


async def test_text_of_all_scripts_arrives_as_it_is(desk: Desk) -> None:
    await desk.do("click", x=300, y=135)
    await desk.do("press", keys="ctrl+a")
    await desk.do("type_text", text=SCRIPTS)
    await desk.do("click", x=160, y=195)
    assert await desk.told("saved") == [{"what": "saved", "text": SCRIPTS}]


@pytest.mark.long
async def test_more_characters_than_the_keyboard_has_keys(desk: Desk) -> None:
    text = "".join(chr(0x0400 + number) for number in range(160)) + "the end"
    await desk.do("click", x=300, y=135)
    await desk.do("press", keys="ctrl+a")
    await desk.do("type_text", text=text)
    await desk.do("click", x=160, y=195)
    assert await desk.told("saved") == [{"what": "saved", "text": text}]


@pytest.mark.long
async def test_caps_lock_and_another_layout_change_no_text(desk: Desk) -> None:
    await desk.do("start_program", command="setxkbmap de", wait_s=5)
    await desk.do("click", x=300, y=135)
    await desk.do("press", keys="ctrl+a")
    await desk.do("press", keys="capslock")
    await desk.do("type_text", text="yYzZ-ß?/Ö@")
    await desk.do("click", x=160, y=195)
    assert await desk.told("saved") == [{"what": "saved", "text": "yYzZ-ß?/Ö@"}]
    await desk.do("start_program", command="setxkbmap us", wait_s=5)


async def test_keys_and_chords(desk: Desk) -> None:
    await desk.do("click", x=300, y=135)
    await desk.do("press", keys="ctrl+shift+t")
    await desk.do("press", keys="F5", count=2)
    await desk.do("press", keys="Page_Down")
    assert [one["what"] for one in await desk.told("page down")] == ["chord", "F5", "F5", "page down"]


async def test_clipboard_both_ways(desk: Desk) -> None:
    await desk.do("click", x=300, y=135)
    await desk.do("press", keys="ctrl+a")
    await desk.do("press", keys="BackSpace")
    await desk.do("clipboard_write", text="pasted — 漢字")
    assert await desk.do("clipboard_read") == "pasted — 漢字"
    await desk.do("press", keys="ctrl+v")
    await desk.do("type_text", text=" and typed")
    await desk.do("press", keys="ctrl+a")
    await desk.do("press", keys="ctrl+c")
    assert await desk.do("clipboard_read") == "pasted — 漢字 and typed"


async def test_pixels_of_a_picture_are_places_of_the_mouse(desk: Desk) -> None:
    async def picture(action: str = "screenshot", **part: int) -> Image.Image:
        outcome = await desk.tried(action, **part)
        (block,) = [one for one in outcome.blocks() if isinstance(one, MediaBlock)]
        assert [one.name for one in outcome.artifacts] == [f"{action}.png"]
        return Image.open(io.BytesIO(await desk.ws.store.get_blob(block.sha256)))

    await desk.do("mouse_move", x=900, y=700)
    whole = await picture()
    assert whole.size == (1280, 800)
    assert whole.getpixel((125, 175)) == (255, 0, 0)
    assert whole.getpixel((125, 255)) == (0, 0, 255)
    part = await picture(x=120, y=250, width=10, height=20)
    assert part.size == (10, 20)
    assert part.getpixel((5, 5)) == (0, 0, 255)
    assert (await picture(x=1270, y=790, width=400, height=400)).size == (10, 10)
    # The edge of the red button, at 120, 170, is seen eight times as large.
    large = await picture("zoom", x=110, y=160, width=20, height=40)
    assert large.size == (160, 320)
    assert (large.getpixel((150, 300)), large.getpixel((20, 20))) == ((255, 0, 0), (128, 128, 128))
    assert (await picture("zoom", x=1270, y=0, width=400, height=700)).size == (10, 700)
    said = await desk.do("zoom", x=110, y=160, width=20, height=40)
    assert "8 times as large; to point, divide a place in the picture by 8 and add 110, 160" in said
    await desk.do("mouse_move", x=200, y=400)
    assert len((await picture(x=190, y=390, width=30, height=30)).getcolors() or []) > 1, "the mouse is seen"


async def test_windows_are_moved_raised_and_closed(desk: Desk) -> None:
    said = await desk.do("start_program", command=program(FORM, "Another"))
    found = re.search(r'new window (\d+): "Another"', said)
    assert found is not None
    number = int(found[1])
    said = await desk.do("place_window", window=number, x=400, y=300, width=300, height=200)
    assert f'window {number}: "Another" at 400, 300, size 300 x 200, has the keyboard' in said
    assert "window 1 has the keyboard now" in await desk.do("raise_window", window=1)
    first, second = (await desk.do("windows")).splitlines()[1:]
    assert first.startswith('  1: "A form"') and second.startswith(f'  {number}: "Another"')
    said = await desk.do("close_window", window=number)
    assert f'window {number}, "Another", is closed' in said
    assert "ended with exit code 0" in said
    assert await desk.refused("close_window", window=99) == "there is no window 99; look at the state again"


async def test_programs_are_waited_for_read_and_stopped(desk: Desk) -> None:
    said = await desk.do("start_program", command="echo one; echo two >&2; exit 3")
    found = re.search(r"program (\d+) was started\nprogram \d+: ended with exit code 3", said)
    assert found is not None, said
    assert (await desk.do("output", program=int(found[1]))).startswith("one\ntwo\n")
    said = await desk.do("start_program", command="sleep 1000", wait_s=0)
    found = re.search(r"program (\d+) was started", said)
    assert found is not None
    assert f"{found[1]}: running: sleep 1000" in await desk.do("programs")
    assert f"program {found[1]}: ended by signal" in await desk.do("stop", program=int(found[1]))
    assert (await desk.refused("stop", program=777)).startswith("there is no program 777; the programs: 1, ")


@pytest.mark.long
async def test_waiting_for_a_window(desk: Desk) -> None:
    await desk.do("start_program", command="sleep 0.5; " + program(FORM, "Later"), wait_s=0)
    said = await desk.do("wait", seconds=30, title="later")
    found = re.search(r'new window (\d+): "Later"', said)
    assert found is not None, said
    await desk.do("close_window", window=int(found[1]))
    assert 'no window has "nowhere" in its title' in await desk.do("wait", seconds=0.2, title="nowhere")


async def test_what_cannot_be_done_is_said_in_a_sentence(desk: Desk) -> None:
    off = await desk.refused("click", x=5000, y=1)
    assert off == "5000, 1 is not on the screen, which is 1280 x 800 pixels"
    assert (await desk.refused("press", keys="ctrl+Nokey")).startswith("there is no key 'Nokey'; keys are")
    assert "is not held with other keys" in await desk.refused("press", keys="x+y")
    assert "is on no keyboard" in await desk.refused("type_text", text="a\x1bb")
    assert (await desk.refused("type_text", text="x" * 10_001)).startswith("the text has 10,001 characters")
    assert (await desk.refused("start_program", command=" ")).startswith("the command is empty")


async def test_programs_see_their_folder_and_nothing_of_the_host(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    said = await desk.do(
        "start_program",
        command=f"pwd; echo $DISPLAY; ls -d {tmp_path} /tmp/.X11-unix/*; echo x >/tmp/.X11-unix/new; ip link; env",
    )
    number = re.search(r"program (\d+) was", said)
    assert number is not None
    printed = await desk.do("output", program=int(number[1]))
    assert printed.startswith("/work\n:0\n")
    assert f"cannot access '{tmp_path}'" in printed
    assert "/tmp/.X11-unix/X0\n/tmp/.X11-unix/authority\n" in printed
    assert "Read-only file system" in printed
    assert "eth0" not in printed
