"""Each thing that goes wrong in a browser: it ends by the environment's own limits, in one sentence, and it goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest
from tests.browser import find_chromium
from tests.environments.browser.troubles import Hand, Troubles, hand, settings, troubles
from tests.support.again import real

from agentorchestra.core.content import text_of
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.session.chromium import MOST_DRIVER

pytestmark = pytest.mark.long

CALL_S, LOAD_S = 3.0, 4.0
TABS = 3

BOUND_S = LOAD_S + 6 * CALL_S + 30
"""The most that one action may take: loading, each rung of the ladder, and the start of another browser."""


@pytest.fixture
async def site() -> AsyncIterator[Troubles]:
    find_chromium()
    async with troubles() as site:
        yield site


@pytest.fixture
@real
async def browser(site: Troubles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hand]:
    for name, value in {"CALL_S": CALL_S, "MOST_TABS": TABS, "DOWNLOAD_S": 3}.items():
        monkeypatch.setattr(limits, name, value)
    given = settings(site.host, load_s=LOAD_S, download_mib=1)
    async with hand(tmp_path, given) as browser:
        yield browser


async def bounded(browser: Hand, action: str, **arguments: object) -> str:
    """What an action says that must not take longer than its limits."""
    began = time.monotonic()
    said = await browser.do(action, **arguments)
    assert time.monotonic() - began < BOUND_S
    assert "\n" not in said and "Traceback" not in said
    return said


async def works(browser: Hand, site: Troubles) -> None:
    """Pages are opened and used as if nothing had been."""
    assert f"is at {site.address}/" in await browser.do("go_to_url", url=f"{site.address}/")
    assert "/second" in await browser.click("Second page")
    assert "The second page" in await browser.see()


async def test_a_server_that_never_answers(browser: Hand, site: Troubles) -> None:
    await browser.do("go_to_url", url=f"{site.address}/second")
    said = await bounded(browser, "go_to_url", url=f"{site.address}/hang")
    assert "was not possible in time" in said or "took longer than" in said
    assert site.waiting.is_set()
    assert "The second page" in await browser.see()  # what was there is there
    ref = await browser.ref("To one that never answers")
    said = await bounded(browser, "click", ref=ref)  # the click ends at once, what it set off does not
    assert "loading was stopped" in said or "still loading" in said
    await works(browser, site)


async def test_a_page_that_spins(browser: Hand, site: Troubles) -> None:
    await browser.do("go_to_url", url=f"{site.address}/spin")
    said = await bounded(browser, "click", ref=await browser.ref("Spin"))
    assert f"open {site.address}/spin again" in said
    assert "empty" in await browser.see()
    await works(browser, site)


async def test_alerts_without_an_end(browser: Hand, site: Troubles) -> None:
    await browser.do("go_to_url", url=f"{site.address}/alerts")
    said = await bounded(browser, "click", ref=await browser.ref("Ask"))
    assert "a dialog is open" in said and "again 1" in said
    for _ in range(15):
        said = await bounded(browser, "answer_dialog", accept=True)
        if "dialogs one after the other" in said:
            break
    else:
        raise AssertionError(said)
    await works(browser, site)


@pytest.mark.parametrize(("accept", "shown"), [(True, "You said yes"), (False, "You said no")])
async def test_a_dialog_that_is_left_open(browser: Hand, site: Troubles, accept: bool, shown: str) -> None:
    await browser.do("go_to_url", url=f"{site.address}/confirm")
    assert "Sure?" in await browser.click("Decide")
    state = await browser.see()
    assert "a dialog is open" in state and "Sure?" in state
    said = await bounded(browser, "go_to_url", url=f"{site.address}/")
    assert "until it is answered" in said
    await bounded(browser, "answer_dialog", accept=accept)
    assert shown in await browser.see()
    await works(browser, site)


async def test_a_renderer_that_crashes(browser: Hand, site: Troubles) -> None:
    await browser.do("go_to_url", url=f"{site.address}/login")
    tab = browser.session.tabs[1]
    assert tab.cdp is not None
    crash = asyncio.ensure_future(tab.cdp.send("Page.crash"))
    await tab.interruption.wait()
    crash.cancel()
    said = await bounded(browser, "scroll", direction="down")
    state = await browser.see()
    assert "crashed" in said + state
    await browser.do("go_to_url", url=f"{site.address}/tab")
    assert "cookie: who=ada" in await browser.see()  # the context is the same
    await works(browser, site)


async def test_a_browser_that_is_killed(browser: Hand, site: Troubles) -> None:
    await browser.do("go_to_url", url=f"{site.address}/login")
    await browser.click("Store")
    pid = browser.session.shared.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    state = await browser.see()  # opened again where it was, with what the site had stored
    assert "started again" in state and "what was typed into forms is gone" in state
    assert "tab: kept for this tab, site: kept for the site, cookie: who=ada" in state
    assert browser.session.shared.pid not in (None, pid)
    await works(browser, site)


@pytest.mark.parametrize(
    ("which", "how"), [("pid", signal.SIGSTOP), ("driver", signal.SIGSTOP), ("driver", signal.SIGKILL)]
)
async def test_browser_or_driver_stopped_or_killed_in_the_middle_of_a_call(
    browser: Hand, site: Troubles, which: str, how: signal.Signals
) -> None:
    await browser.do("go_to_url", url=f"{site.address}/login")
    ref = await browser.ref("Store")
    now = browser.session.shared._now
    assert now is not None
    os.kill(getattr(now, which), how)
    said = await bounded(browser, "click", ref=ref)
    state = await browser.see()
    assert "started" in said + state
    assert "cookie: who=ada" in state
    assert browser.session.shared.pid != now.pid
    await works(browser, site)


async def test_a_page_that_answers_with_half_a_gigabyte(browser: Hand, site: Troubles) -> None:
    """The driver, through which it comes, has a bound that its browser does not have."""
    await browser.do("go_to_url", url=f"{site.address}/flood")
    launched = browser.session.shared._now
    assert launched is not None
    driver = psutil.Process(launched.driver)
    most = driver.memory_info().data + MOST_DRIVER
    assert 0 < driver.rlimit(psutil.RLIMIT_DATA)[0] <= most
    assert psutil.Process(launched.pid).rlimit(psutil.RLIMIT_DATA)[0] == psutil.RLIM_INFINITY
    await browser.click("Flood")
    await bounded(browser, "read_page")
    await works(browser, site)
    after = browser.session.shared._now
    assert after is not None and psutil.Process(after.driver).memory_info().data <= most


async def test_downloads(browser: Hand, site: Troubles, tmp_path: Path) -> None:
    await browser.do("go_to_url", url=f"{site.address}/")
    said = await browser.click("File")
    assert "downloads/_.._.data file.csv (8 bytes, complete)" in said
    again = await bounded(browser, "go_to_url", url=f"{site.address}/file")
    assert "downloads/_.._.data file (2).csv (8 bytes, complete)" in again
    (folder,) = tmp_path.glob("runs/*/environments/main/folder")
    names = {one.name for one in (folder / "downloads").iterdir()}
    assert names == {"_.._.data file (2).csv", "_.._.data file.csv"}
    path = "downloads/_.._.data file.csv"
    assert (folder / path).read_bytes() == b"a,b\n1,2\n"
    assert "a,b" in text_of((await browser.ws.ecp.invoke("files", "read", {"path": path})).blocks())
    said = await bounded(browser, "go_to_url", url=f"{site.address}/endless")
    await browser.session.downloads.settle(30)
    state = await browser.see()
    assert (said + state).count("endless.bin: refused: it is larger than 1 MiB") == 1
    assert {one.name for one in (folder / "downloads").iterdir()} == names
    artifacts = browser.session.shared.artifacts
    assert artifacts is not None and not [*artifacts.iterdir()]
    await works(browser, site)


async def test_a_pdf(browser: Hand, site: Troubles) -> None:
    said = await bounded(browser, "go_to_url", url=f"{site.address}/paper")
    state = await browser.see()
    assert "PDF" in state and f"{site.address}/paper" in said + state
    assert "7.2 kilowatts" in await browser.do("pdf_viewer", pages="2")
    await works(browser, site)


async def test_waiting_for_a_turn_to_look_counts_towards_no_time(browser: Hand, site: Troubles) -> None:
    await browser.do("go_to_url", url=f"{site.address}/")
    shared = browser.session.shared
    async with AsyncExitStack() as turns:
        for _ in range(limits.LOOKS):
            await turns.enter_async_context(shared.look())
        looking = asyncio.ensure_future(browser.see())
        await asyncio.sleep(3 * CALL_S)  # longer than a look may take
        assert not looking.done()
    state = await looking
    assert "cannot be shown" not in state and 'heading "Home"' in state


async def test_popups_are_tabs_and_not_without_end(browser: Hand, site: Troubles) -> None:
    await browser.do("go_to_url", url=f"{site.address}/")
    said = await browser.click("Popup")
    assert "tab 2 is at" in said and "/popup" in said
    said = await browser.click("Close me")
    assert "tab 1 is at" in said + await browser.see()
    await browser.do("go_to_url", url=f"{site.address}/many")
    said = await browser.click("Open")
    assert len(browser.session.tabs) == TABS
    assert "tab 1 opened this tab, 3, which is the current one now" in said
    assert f"{TABS} are open" in await browser.do("switch_tab", tab=1)
