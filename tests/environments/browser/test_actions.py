"""The actions of the browser in a real Chromium; what they bring about is looked for at the server."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from PIL import Image
from tests.environments.browser.hand import Hand, at_work
from tests.site.browser import OYSTER_FILE, PASSWORD, STATEMENT, TABLE, USER
from tests.support.again import real

from agentorchestra.core.content import MediaBlock

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
@real
async def hand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hand]:
    async with at_work(tmp_path_factory.mktemp("browser")) as one:
        yield one


# -- addresses and tabs ------------------------------------------------------------------------------------------------


async def test_addresses_back_forward_and_again(hand: Hand) -> None:
    await hand.open("form")
    assert "/hover" in await hand.open("hover")
    assert "/form" in await hand.do("go_back")
    assert "/hover" in await hand.do("go_forward")
    before = len(hand.site.asked("/hover"))
    await hand.do("reload")
    assert len(hand.site.asked("/hover")) == before + 1
    assert "no page to go forward" in await hand.fail("go_forward")
    for address in ("file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "chrome://version"):
        assert "address" in await hand.fail("go_to_url", url=address)


async def test_an_error_page_is_a_page(hand: Hand) -> None:
    assert "no address" in await hand.do("go_to_url", url="http://nowhere.invalid/")
    await hand.open("status/503")
    assert "Error 503" in await hand.state()
    await hand.open("form")


async def test_tabs(hand: Hand) -> None:
    await hand.open("form")
    assert "/hover" in await hand.do("open_tab", url=f"{hand.site.address}/hover")
    state = await hand.state()
    first, second = (int(re.search(rf"tab (\d+)[^\n]*/{page}", state)[1]) for page in ("form", "hover"))  # type: ignore[index]
    assert "/form" in await hand.do("switch_tab", tab=first)
    assert "Send order" in await hand.state()
    assert f"there is no tab {second + 50}" in await hand.fail("switch_tab", tab=second + 50)
    await hand.do("close_tab", tab=second)
    assert "/hover" not in await hand.state()


async def test_what_opens_in_a_new_window_is_a_tab(hand: Hand) -> None:
    await hand.open("popup")
    await hand.click("Order in a new window")
    assert "Send order" in await hand.state()
    await hand.do("close_tab")
    assert "Open the menu" in await hand.state()
    await hand.click("Open the menu")
    assert "Boats" in await hand.state()
    await hand.do("close_tab")


# -- forms -------------------------------------------------------------------------------------------------------------

FIELDS = {
    "Name": "Ines Calder",
    "Mail": "ines@skerrow.example",
    "Secret word": "kittiwake",
    "Dozens": "3",
    "Day": "2024-05-31",
    "Time": "14:30",
    "Month": "2024-05",
    "Colour": "#ff8800",
    "Ice": "80",
    "Phone": "+44 1",
    "Site": "https://skerrow.example/",
    "Search": "oysters",
    "Remarks": "no ice\nand lemon",
    "Card": "Dear Ines",
}


async def test_a_form_with_every_kind_of_field(hand: Hand) -> None:
    await hand.open("form")
    for name, text in FIELDS.items():
        await hand.fill(name, text)
        assert len(text) < 4 or text not in hand.said  # what was typed may be a secret
    await hand.click("It is a gift")
    await hand.click("Large")
    assert "kittiwake" not in await hand.state()
    await hand.click("Send order")
    sent = hand.site.forms[-1]
    assert sent["remarks"].split() == ["no", "ice", "and", "lemon"]
    wanted = {
        "name": "Ines Calder", "mail": "ines@skerrow.example", "secret": "kittiwake", "dozens": "3",
        "day": "2024-05-31", "time": "14:30", "month": "2024-05", "colour": "#ff8800", "ice": "80",
        "phone": "+44 1", "site": "https://skerrow.example/", "search": "oysters", "gift": "yes",
        "size": "large", "card": "Dear Ines", "fixed": "as it is",
    }  # fmt: skip
    assert {name: sent[name] for name in wanted} == wanted


async def test_letters_of_any_alphabet_key_by_key(hand: Hand) -> None:
    await hand.open("form")
    await hand.fill("Name", "Zoë 🐚 灯塔", keys=True, enter=True)
    assert hand.site.forms[-1]["name"] == "Zoë 🐚 灯塔"


async def test_append_and_enter(hand: Hand) -> None:
    await hand.open("form")
    await hand.fill("Remarks", " and thanks", append=True)
    await hand.fill("Card", " sir", append=True)
    await hand.fill("Name", "Ada", enter=True)
    assert hand.site.forms[-1]["remarks"] == "please and thanks"
    assert hand.site.forms[-1]["card"] == "Dear sir"


async def test_what_cannot_be_typed_into(hand: Hand) -> None:
    await hand.open("form")
    site = hand.site.host

    async def refused(name: str, text: str = "x", **more: str) -> str:
        return await hand.fail("input_text", **{"ref": await hand.ref(name), "text": text, "site": site} | more)

    assert "is read only" in await refused("Read only")
    assert "is disabled" in await refused("Not now")
    assert "is a checkbox; use click" in await refused("It is a gift")
    assert "no field" in await refused("Order oysters")
    assert "takes a number only" in await refused("Dozens", "many")
    assert "dates are 2024-05-31" in await refused("Day", "tomorrow")
    assert "there is no element 'e9999'" in await hand.fail("input_text", ref="e9999", text="x", site=site)
    assert f"this is at {site}" in await refused("Name", site="elsewhere.example")
    assert f"site={site!r}" in hand.said
    assert "is disabled" in await hand.fail("click", ref=await hand.ref("Send twice"))


async def test_autocomplete_needs_keys(hand: Hand) -> None:
    await hand.open("autocomplete")
    await hand.fill("Harbour", "ald")
    await hand.do("wait", text="Port Aldin")
    await hand.click("Port Aldin", "option")
    assert (await hand.site.heard("chosen"))["word"] == "Port Aldin"


async def test_lists_native_multiple_and_of_ones_own(hand: Hand) -> None:
    await hand.open("selects")
    await hand.do("select", ref=await hand.ref("Ferry", "combobox"), options=["evening"])
    assert (await hand.site.heard("one"))["value"] == "e"
    islands = await hand.ref("Islands", "listbox")
    await hand.do("select", ref=islands, options=["Skerrow", "Holm"])
    assert (await hand.site.heard("many"))["values"] == ["Skerrow", "Holm"]
    await hand.do("select", ref=await hand.ref("Cabin", "combobox"), options=["Sea view"])
    assert (await hand.site.heard("cabin"))["value"] == "Sea view"
    ferry = await hand.ref("Ferry", "combobox")
    assert "it has: 'none', 'Morning', 'Evening'" in await hand.fail("select", ref=ferry, options=["Noon"])
    assert "is disabled" in await hand.fail("select", ref=ferry, options=["Night"])
    assert "takes one option" in await hand.fail("select", ref=ferry, options=["Morning", "Evening"])
    cabin = await hand.ref("Cabin", "combobox")
    assert "'Deck', 'Inside', 'Sea view'" in await hand.fail("select", ref=cabin, options=["Roof"])
    button = await hand.ref("Not a list")
    assert "no list with options" in await hand.fail("select", ref=button, options=["x"])


async def test_fields_that_change_after_they_were_shown(hand: Hand) -> None:
    await hand.open("changes")
    berth, pilot = await hand.ref("Berth"), await hand.ref("Pilot")
    await hand.do("input_text", ref=berth, text="7", site=hand.site.host)
    assert "berth 7" in await hand.state()  # what the page made of it, although nobody looked anew
    berth, pilot, tide = await hand.ref("Berth"), await hand.ref("Pilot"), await hand.ref("Tide", "combobox")
    await hand.do("select", ref=tide, options=["High"])
    assert (await hand.site.heard("tide"))["value"] == "High"
    assert re.search(r'combobox "Tide".*High', await hand.state())
    berth, pilot, close = await hand.ref("Berth"), await hand.ref("Pilot"), await hand.ref("Close", "button")
    await hand.do("click", ref=close)
    await asyncio.sleep(0.6)
    given = {"text": "9", "site": hand.site.host}
    assert "is read only" in await hand.fail("input_text", ref=berth, **given)
    assert f"there is no element {pilot!r}" in await hand.fail("input_text", ref=pilot, **given)


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_keys_chords_and_buttons(hand: Hand) -> None:
    await hand.open("keys")
    line = await hand.ref("Line")
    await hand.fill("Line", "sandpiper")
    await hand.do("press", keys="Control+A")
    assert (await hand.site.heard("keydown", 2))["ctrl"]
    await hand.do("press", keys="Delete")
    assert (await hand.site.heard("input", 2))["value"] == ""
    await hand.do("type_text", text="ab", site=hand.site.host)
    assert (await hand.site.heard("input", 4))["value"] == "ab"
    await hand.do("press", keys="shift + tab")
    await hand.do("press", keys="Backspace", times=2)
    other = await hand.ref("Other")
    await hand.do("click", ref=other, count=2)
    assert (await hand.site.heard("dblclick"))["target"] == "other"
    await hand.do("click", ref=other, button="right")
    assert (await hand.site.heard("contextmenu"))["target"] == "other"
    await hand.do("click", ref=other, modifiers=["Control", "Shift"])
    last = await hand.site.heard("click", 3)
    assert last["ctrl"] and last["shift"]
    await hand.do("click", ref=line, button="middle")
    assert (await hand.site.heard("auxclick", 2))["button"] == 1
    assert "is no key" in await hand.fail("press", keys="hello")
    assert "input_text" in await hand.fail("press", keys="a")
    assert "the clipboard is shared" in await hand.fail("press", keys="Control+V")
    assert "no key to hold" in await hand.fail("press", keys="Hyper+A")
    assert f"this is at {hand.site.host}" in await hand.fail("type_text", text="x", site="elsewhere.example")


# -- the mouse ---------------------------------------------------------------------------------------------------------


async def test_a_game_on_a_canvas_by_pixels(hand: Hand) -> None:
    await hand.open("canvas")
    await hand.do("click", ref="100,80")
    assert (await hand.site.heard("canvas"))["hit"]
    await hand.do("click", ref="(290, 210)", modifiers=["Shift"])
    second = await hand.site.heard("canvas", 2)
    assert second["hit"] and second["shift"]
    assert "2 hits" in await hand.state()
    await hand.do("click", ref="500,50", count=2)
    await hand.site.heard("double")
    await hand.do("click", ref="500,50", button="right")
    await hand.site.heard("right")
    await hand.do("hover", ref="333,222")
    await hand.site.heard("moved")
    await hand.do("mouse_wheel", ref="300,200", dy=120)
    assert (await hand.site.heard("wheel"))["y"] == 120
    await hand.do("mouse_path", points=[[10, 10], [60, 40], [200, 120]])
    drawn = await hand.site.heard("drawn")
    assert (drawn["from"], drawn["to"]) == ([10, 10], [200, 120])
    await hand.do("drag", start="30,30", end="90,60")
    assert (await hand.site.heard("drawn", 2))["to"] == [90, 60]
    assert "outside of the view, which is 1280 x 800" in await hand.fail("click", ref="2000,10")


async def test_drag_and_drop_and_a_slider(hand: Hand) -> None:
    await hand.open("drag")
    await hand.do("drag", start=await hand.ref("Crate"), end=await hand.ref("Boat"))
    assert (await hand.site.heard("dropped"))["what"] == "crate"
    knob = await hand.ref("Level", "slider")
    picture = (await hand.did("screenshot")).blocks()[1]
    assert isinstance(picture, MediaBlock)
    await hand.do("hover", ref=knob)
    await hand.do("drag", start=knob, end="250,241")
    assert 150 < (await hand.site.heard("level"))["at"] < 250
    await hand.open("article")
    await hand.do("scroll", direction="bottom")
    end = await hand.ref("miller's daughter")
    await hand.do("scroll", direction="top")
    start = await hand.ref("The tide mill of Skerrow", "heading")
    # References hold for the latest view only; both are Playwright's, of the same document.
    assert "not in view at the same time" in await hand.fail("drag", start=start, end=end)


async def test_a_menu_that_opens_under_the_mouse(hand: Hand) -> None:
    await hand.open("hover")
    assert "Dinghy" not in await hand.state()
    await hand.do("hover", ref=await hand.ref("Boats"))
    await hand.click("Dinghy")
    await hand.site.heard("dinghy")


async def test_what_is_covered_and_what_is_gone(hand: Hand) -> None:
    await hand.open("covered")
    subscribe = await hand.ref("Subscribe")
    assert "is covered by <div" in await hand.fail("click", ref=subscribe)
    await hand.click("Accept")
    await hand.do("click", ref=subscribe)
    await hand.site.heard("subscribed")
    gone = await hand.ref("Goes away")
    await hand.click("Remove")
    assert "look at the state again" in await hand.fail("click", ref=gone)


async def test_scrolling_the_page_a_part_of_it_and_to_a_text(hand: Hand) -> None:
    await hand.open("endless")
    await hand.do("wait", text="Tide 30")
    await hand.do("scroll", direction="bottom")
    await hand.do("wait", text="Tide 60")
    assert len(hand.site.asked("/endless/items")) == 2
    assert "px above" in await hand.do("scroll", direction="up", pages=0.5)
    await hand.do("scroll", direction="top")
    assert "does not go further up" in await hand.fail("scroll", direction="up")
    part = await hand.ref("Small list", "region")
    assert "3200 px below" in await hand.do("scroll", ref=part, pages=1)
    assert "0 px below" in await hand.do("scroll", ref=part, direction="bottom")
    await hand.do("scroll_to_text", text="tide 45")
    assert "Tide 45" in await hand.state()
    assert "does not stand on the page" in await hand.fail("scroll_to_text", text="Tide 9000")
    assert "1 times" in await hand.fail("scroll_to_text", text="Tides without end", nth=2)


# -- frames, shadows, dialogs, waiting ---------------------------------------------------------------------------------


async def test_frames_in_frames(hand: Hand) -> None:
    await hand.open("frames")
    await hand.click("Middle button")
    await hand.site.heard("middle")
    await hand.fill("Inner field", "tern")
    await hand.click("Inner button")
    assert (await hand.site.heard("inner"))["value"] == "tern"
    assert "kittiwake" in await hand.do("read_page")


async def test_shadows_in_shadows(hand: Hand) -> None:
    await hand.open("shadow")
    await hand.fill("Shadow field", "auk")
    await hand.click("Shadow button")
    assert (await hand.site.heard("shadow"))["value"] == "auk"
    assert "guillemot" in await hand.do("read_page")


async def test_dialogs(hand: Hand) -> None:
    await hand.open("dialogs")
    assert "no dialog is open" in await hand.fail("answer_dialog", accept=True)
    assert "The tide is in" in await hand.click("Alert")
    assert "The tide is in" in await hand.state()
    await hand.do("answer_dialog", accept=True)
    await hand.site.heard("alerted")
    await hand.click("Confirm")
    assert "takes no text" in await hand.fail("answer_prompt", text="x", site=hand.site.host)
    await hand.do("answer_dialog", accept=False)
    assert (await hand.site.heard("confirmed"))["yes"] is False
    await hand.click("Prompt")
    assert "this is at" in await hand.fail("answer_prompt", text="Fulmar", site="elsewhere.example")
    await hand.do("answer_prompt", text="Fulmar", site=hand.site.host)
    assert (await hand.site.heard("prompted"))["text"] == "Fulmar"
    await hand.click("Guard")
    await hand.click("Leave")
    assert "Send order" in await hand.state()


async def test_waiting(hand: Hand) -> None:
    await hand.open("late")
    await hand.do("wait", gone="Loading the table")
    assert TABLE in await hand.state()
    await hand.do("wait", text=TABLE)
    await hand.do("wait", seconds=0.1)
    assert "did not appear in 0.3 s" in await hand.fail("wait", text="Nobody", seconds=0.3)
    assert "did not go away" in await hand.fail("wait", gone=TABLE, seconds=0.3)


# -- reading -----------------------------------------------------------------------------------------------------------


async def test_the_text_of_a_page_as_its_scripts_made_it(hand: Hand) -> None:
    await hand.open("article")
    outcome = await hand.did("read_page")
    assert "built in 1782 by Ines Calder" in hand.said and "the sluice has nine gates" in hand.said
    assert "311" in hand.said
    block = outcome.blocks()[0]
    assert block.source is not None and block.source.ref == f"{hand.site.address}/article"
    assert block.source.place is not None and block.source.place.startswith("line")
    assert outcome.artifacts[0].media_type == "text/markdown"
    part = await hand.do("read_page", part="line 1")
    assert "tide mill" in part.lower() and "sluice" not in part


async def test_pictures(hand: Hand) -> None:
    await hand.open("canvas")
    outcome = await hand.did("screenshot")
    shown = outcome.blocks()[1]
    assert isinstance(shown, MediaBlock) and shown.media_type == "image/png"
    image = Image.open(io.BytesIO(await hand.ws.store.get_blob(shown.sha256))).convert("RGB")
    assert image.size == (1280, 800) and image.getpixel((100, 80)) == (255, 0, 0)
    await hand.open("article")
    whole = (await hand.did("screenshot", whole=True)).blocks()[1]
    assert isinstance(whole, MediaBlock)
    assert Image.open(io.BytesIO(await hand.ws.store.get_blob(whole.sha256))).height > 3_000
    await hand.open("form")
    part = (await hand.did("screenshot", ref=await hand.ref("Send order"))).blocks()[1]
    assert isinstance(part, MediaBlock)
    assert Image.open(io.BytesIO(await hand.ws.store.get_blob(part.sha256))).height < 100


async def test_walls_are_named(hand: Hand) -> None:
    await hand.open("robot")
    assert "captcha" in await hand.state() and "ask_human" in await hand.state()
    await hand.open("account")
    assert "asks for a password" in await hand.state()
    await hand.fill("User", USER)
    await hand.fill("Password", PASSWORD)
    await hand.click("Sign in", "button")
    state = await hand.state()
    assert "1,204 shells" in state and "password" not in state


async def test_a_page_that_meddles_with_scripts(hand: Hand) -> None:
    """What a page says of itself has the types it should have, or the action is one sentence."""
    await hand.open("meddle")
    meddles = "the page meddles with the scripts"
    field, site = await hand.ref("Field"), hand.site.host
    assert "is filled in" in await hand.do("input_text", ref=field, text="x", site=site)  # that needs none of them
    assert meddles in await hand.fail("input_text", ref=await hand.ref("Field"), text="y", site=site, append=True)
    assert meddles in await hand.fail("scroll")
    assert "1782" not in await hand.do("read_page")  # a page may say what it likes
    await hand.fail("video_viewer")
    await hand.do("screenshot")
    await hand.open("form")


# -- files, PDFs, films ------------------------------------------------------------------------------------------------


async def test_files_are_given_to_a_page(hand: Hand) -> None:
    await hand.open("upload")
    (hand.folder / "report.txt").write_text("all is well")
    (hand.folder / "second.txt").write_text("too")
    site = hand.site.host
    await hand.do("upload", ref=await hand.ref("Choose papers"), paths=["report.txt", "second.txt"], site=site)
    one = await hand.ref("One paper")
    await hand.do("upload", ref=one, paths=["second.txt"], site=site)
    assert "takes one file" in await hand.fail("upload", ref=one, paths=["report.txt", "second.txt"], site=site)
    assert "there is no file 'nope.txt'" in await hand.fail("upload", ref=one, paths=["nope.txt"], site=site)
    for path in ("/etc/passwd", "../../agentorchestra.toml"):
        assert (await hand.did("upload", ref=one, paths=[path], site=site)).ok is False
    (hand.folder / "out").symlink_to("/etc")
    assert (await hand.did("upload", ref=one, paths=["out/passwd"], site=site)).ok is False
    assert f"this is at {site}" in await hand.fail("upload", ref=one, paths=["report.txt"], site="elsewhere.example")
    send = await hand.ref("Send files")
    assert "asks for no files" in await hand.fail(
        "upload", ref=await hand.ref("Upload"), paths=["report.txt"], site=site
    )
    await hand.do("click", ref=send)
    assert [(name, data) for _, name, data in hand.site.uploads] == [
        ("report.txt", b"all is well"),
        ("second.txt", b"too"),
        ("second.txt", b"too"),
    ]


async def test_downloads_are_on_disk(hand: Hand) -> None:
    await hand.open("downloads")
    said = await hand.do("download", ref=await hand.ref("Oyster count"))
    assert "downloads/oysters.csv (35 bytes, text/csv)" in said
    assert (hand.folder / "downloads/oysters.csv").read_text() == OYSTER_FILE
    said = await hand.do("download", ref=await hand.ref("Paper"))
    assert "application/pdf" in said and "/downloads" in said
    assert "named like application/pdf and is none" in await hand.do("download", ref=await hand.ref("Wrong paper"))
    await hand.do("download", ref=await hand.ref("Made here"))
    assert (hand.folder / "downloads/made.txt").read_text() == "made in the page"
    assert "nothing was downloaded" in await hand.fail("download", url=f"{hand.site.address}/status/404")
    assert "status 404" in hand.said
    assert "not both" in await hand.fail("download")
    await hand.open("downloads")
    said = await hand.do("download", ref=await hand.ref("Paper in a window"))
    assert "paper (2).pdf (1,579 bytes, application/pdf)" in said
    assert "pdf_viewer" in await hand.state()
    await hand.do("close_tab")
    await hand.open("downloads")
    assert "try it again later" in await hand.fail("download", ref=await hand.ref("Broken off"))


async def test_a_download_behind_the_login_has_its_cookies(hand: Hand) -> None:
    await hand.open("login")
    await hand.fill("User", USER)
    await hand.fill("Password", PASSWORD)
    await hand.click("Sign in", "button")
    await hand.do("download", url=f"{hand.site.address}/account/statement.csv")
    assert (hand.folder / "downloads/statement.csv").read_text() == STATEMENT
    said = await hand.do("pdf_viewer", url=f"{hand.site.address}/account/statement.pdf", pages="1")
    assert "We measured the wheel" in said and "11.5 kilowatts" not in said


async def test_a_pdf_page_by_page(hand: Hand) -> None:
    await hand.open("downloads")
    await hand.click("Paper")
    assert "pdf_viewer" in await hand.state()
    outcome = await hand.did("pdf_viewer")
    assert outcome.ok and "2 pages" in hand.said and "11.5 kilowatts" in hand.said
    places = {block.source.place for block in outcome.blocks() if block.source is not None}
    assert {"p. 1", "p. 2"} <= places
    asked = len(hand.site.asked("/files/paper.pdf"))
    found = await hand.do("pdf_viewer", search="11.5 kilowatts")
    assert "two hours after high tide" in found
    assert len(hand.site.asked("/files/paper.pdf")) == asked  # it was kept
    file = re.search(r"downloads/.+?\.pdf", outcome.blocks()[0].text)  # type: ignore[union-attr]
    assert file is not None and "forty tides" in await hand.do("pdf_viewer", path=file[0], pages="1")
    assert "no page 7; the PDF has 2 pages" in await hand.fail("pdf_viewer", path=file[0], pages="7")
    assert 'write "3" or "2-4"' in await hand.fail("pdf_viewer", path=file[0], pages="all")
    assert "does not stand in the 2 pages" in await hand.fail("pdf_viewer", path=file[0], search="walrus")
    assert "not both" in await hand.fail("pdf_viewer", path=file[0], url=f"{hand.site.address}/files/paper.pdf")


async def test_a_film_to_a_second(hand: Hand) -> None:
    await hand.open("video")
    said = await hand.do("video_viewer")
    assert "paused at 0 s of 4 s, 160 x 90" in said and "subtitles en English" in said

    async def colour(at: float) -> tuple[int, ...]:
        outcome = await hand.did("video_viewer", do="frame", at=at)
        assert outcome.ok, hand.said
        shown = outcome.blocks()[1]
        assert isinstance(shown, MediaBlock)
        image = Image.open(io.BytesIO(await hand.ws.store.get_blob(shown.sha256))).convert("RGB")
        found = image.getpixel((image.width // 2, image.height // 3))
        assert isinstance(found, tuple)
        return found

    red, blue = await colour(1.0), await colour(3.0)
    assert red[0] > 200 > 60 > red[2] and blue[2] > 200 > 60 > blue[0]
    assert "The sea is blue." in hand.said
    await hand.do("video_viewer", do="play")
    await hand.site.heard("play")
    await hand.do("video_viewer", do="pause")
    await hand.site.heard("pause")
    assert "has 4 s and no second 60" in await hand.fail("video_viewer", do="seek", at=60)
    assert "say where to go" in await hand.fail("video_viewer", do="seek")
    await hand.open("form")
    assert "no video on the page" in await hand.fail("video_viewer")
