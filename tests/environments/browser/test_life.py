"""Contexts, tabs and logins: whose they are, what is kept of them, and what that costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import pytest_asyncio
from tests.browser import find_chromium
from tests.environments.browser.troubles import Hand, Troubles, hand, settings, troubles
from tests.support.again import real

from agentorchestra.core.content import TextBlock
from agentorchestra.core.errors import MissingExtraError, ToolError
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.settings import BrowserSettings
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.base import has_ended
from agentorchestra.environments.browser.environment import Browser
from agentorchestra.environments.browser.session import chromium
from agentorchestra.environments.browser.session.downloads import Downloads, harmless
from agentorchestra.environments.browser.session.session import BrowserSession
from agentorchestra.environments.browser.session.tabs import Tab
from agentorchestra.environments.folder import FolderGround

on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Troubles]:
    find_chromium()
    async with troubles() as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
@real
async def browser(site: Troubles, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hand]:
    """One workspace, and one Chromium, for all tests here."""
    async with hand(tmp_path_factory.mktemp("ws"), settings(site.host)) as browser:
        await browser.do("go_to_url", url=f"{site.address}/login")
        yield browser


async def shown(session: BrowserSession, agent: str, address: str = "") -> str:
    """What the page of an agent's tab says."""
    page = (await session.tab(agent)).page
    assert page is not None
    if address:
        await page.goto(address)
    return await page.locator("h1").inner_text()


@on_one_loop
async def test_each_agent_has_a_tab_and_all_share_the_logins(browser: Hand, site: Troubles) -> None:
    session = browser.session
    assert "cookie: who=ada" in await shown(session, "/1.first", f"{site.address}/tab")
    assert "cookie: who=ada" in await shown(session, "/2.second", f"{site.address}/tab")
    first, second = await session.tab("/1.first"), await session.tab("/2.second")
    assert first.number != second.number and first.page is not second.page
    assert "The second page" in await shown(session, "/2.second", f"{site.address}/second")
    assert "cookie" in await shown(session, "/1.first")  # it is where it was
    for tab in (first, second):
        await session.close_tab(tab)


@pytest.mark.long
@on_one_loop
async def test_what_sites_stored_is_kept_once_and_not_in_the_snapshot(browser: Hand, site: Troubles) -> None:
    await browser.do("go_to_url", url=f"{site.address}/tab")
    page = (await browser.session.tab("/")).page
    assert page is not None
    await page.evaluate("localStorage.setItem('much', 'x'.repeat(300000))")
    first = await browser.outcome("go_to_url", url=f"{site.address}/second")
    kept = browser.session.kept
    stored = kept["stored"]
    again = await browser.outcome("go_to_url", url=f"{site.address}/second")
    page_key = "agent:browser:page"  # counts pages that came, also the same again
    assert {**again.writes, page_key: 0} == {**first.writes, page_key: 0}  # nothing changed: it is the same snapshot
    other = await browser.outcome("go_to_url", url=f"{site.address}/")
    assert {**other.writes, page_key: 0} != {**first.writes, page_key: 0} and kept["stored"] == stored
    ground = ground_of(browser)
    snapshot = await ground.snapshot()
    assert len(snapshot) < 2000 and str(stored).encode() in snapshot and b"who" not in snapshot
    data = await ground.hidden(str(stored))
    assert data is not None and len(data) > 300_000
    assert any(one["value"] == "ada" for one in json.loads(data)["state"]["cookies"])


_PUT = """() => new Promise((done) => {
  const open = indexedDB.open("db", 1);
  open.onupgradeneeded = () => open.result.createObjectStore("s");
  open.onsuccess = () => {
    const change = open.result.transaction("s", "readwrite");
    change.objectStore("s").put("deep", "k");
    change.oncomplete = () => { open.result.close(); done(); };
  };
})"""
_GET = """() => new Promise((done) => {
  const open = indexedDB.open("db", 1);
  open.onsuccess = () => {
    const found = open.result.transaction("s").objectStore("s").get("k");
    found.onsuccess = () => done(found.result);
  };
})"""


@pytest.mark.long
@on_one_loop
async def test_a_rival_world_begins_with_the_logins_and_has_its_own(
    browser: Hand, site: Troubles, tmp_path: Path
) -> None:
    await browser.do("go_to_url", url=f"{site.address}/tab")
    page = (await browser.session.tab("/")).page
    assert page is not None
    await page.evaluate(_PUT)
    await browser.click("Store")
    ground = ground_of(browser)
    world = FolderGround(tmp_path / "world", ground._ctx, keep=False)
    await world.open()
    await world.restore(await ground.snapshot())
    rival = Browser(browser.made[-1].settings, browser.made[-1].web)
    rival.stand_on(world)
    try:
        # The tab of the same agent, at its address, with what belongs to the tab alone.
        assert "tab: kept for this tab, site: kept for the site, cookie: who=ada" in await shown(rival.session, "/")
        page = (await rival.session.tab("/")).page
        assert page is not None
        assert await page.evaluate(_GET) == "deep"
        await page.evaluate("document.cookie = 'who=eve'; localStorage.setItem('note', 'changed')")
        assert "site: changed, cookie: who=eve" in await shown(rival.session, "/", f"{site.address}/tab")
        await browser.do("reload")
        assert "site: kept for the site, cookie: who=ada" in await shown(browser.session, "/")
        assert rival.session.shared is browser.session.shared  # one Chromium for both
    finally:
        await rival.close()
        await world.close()
    assert browser.session.shared.alive


@pytest.mark.long
@on_one_loop
async def test_of_too_many_tabs_the_oldest_goes_those_of_ended_agents_first(
    browser: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_TABS", 2)
    ground = FolderGround(tmp_path / "world", ground_of(browser)._ctx, keep=False)
    await ground.open()
    session = BrowserSession(BrowserSettings(), ground, {}, browser.made[-1].web)
    try:
        first, second = await session.tab("/1.a"), await session.tab("/2.b")
        await session.tab("/1.a")
        third = await session.tab("/3.c")
        assert [*session.tabs] == [first.number, third.number] and "/2.b" not in session.current
        assert second.page is None
        session.release(["/1.a"])
        await session.tab("/3.c")
        fourth = await session.tab("/4.d")
        assert [*session.tabs] == [third.number, fourth.number] == [3, 4]
        # What a page opens is closed instead.
        assert fourth.page is not None
        await fourth.page.evaluate("window.open('about:blank')")
        assert "2 are open, the most there are" in " ".join(fourth.notes) and len(session.tabs) == 2
    finally:
        await session.close()
        await ground.close()


@on_one_loop
async def test_all_tabs_that_an_agent_opened_are_its_own_until_it_ends(browser: Hand, site: Troubles) -> None:
    env = next(one for one in reversed(browser.made) if one._ground is not None)
    one, other = SimpleNamespace(branch="/1.one"), SimpleNamespace(branch="/2.other")
    await env.open_tab(one, f"{site.address}/second")  # in its first tab, which is empty
    mine = env.session.current["/1.one"]
    assert [tab.number for tab in env.session.tabs.values() if tab.agent == "/1.one"] == [mine]
    await env.open_tab(one, f"{site.address}/tab")
    for action in (env.switch_tab, env.close_tab):
        with pytest.raises(ToolError, match=f"tab {mine} is of another agent"):
            await action(other, mine)
    env.session.release(["/1.one"])
    await env.switch_tab(other, mine)
    assert env.session.tabs[mine].agent == "/2.other"
    for tab in [*env.session.tabs.values()]:
        await env.session.close_tab(tab)
    env.session.release(["/2.other"])


def test_an_agent_has_ended_when_its_outcome_is_recorded() -> None:
    records = {
        EffectKey("/", 3): SimpleNamespace(outcome=object()),
        EffectKey("/3.planner", 2): SimpleNamespace(outcome=None),
    }
    ctx = SimpleNamespace(run=SimpleNamespace(ledger=SimpleNamespace(records=records)))
    assert has_ended(ctx, "/3.planner")
    assert not has_ended(ctx, "/3.planner/2.browser_use")
    assert not has_ended(ctx, "/") and not has_ended(ctx, "/4.other") and not has_ended(object(), "/3.planner")


def ground_of(browser: Hand) -> FolderGround:
    return next(one._stands_on for one in reversed(browser.made) if one._ground is not None)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("suggested", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\system.ini", "system.ini"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("a\nb\x1b[31m.txt", "a_b_[31m.txt"),
        ("$(reboot).sh", "_(reboot).sh"),
        ("photo\u202egpj.exe", "photo_gpj.exe"),
        ("nul.txt", "_nul.txt"),
        ("", "download"),
        ("...", "download"),
        ("ä" * 300 + ".pdf", "ä" * 58 + ".pdf"),
    ],
)
def test_names_of_downloads_are_harmless(suggested: str, name: str) -> None:
    assert harmless(suggested) == name


def test_a_download_that_a_crash_cut_off_is_told(tmp_path: Path) -> None:
    downloads = Downloads(BrowserSettings(), FolderGround(tmp_path, None, keep=True))
    kept: list[Any] = [["big.zip", "http://a.example/big.zip", "under way", "", 5, "", False]]
    kept += [["old.csv", "http://a.example/old.csv", "complete", "downloads/old.csv", 8, "", True]]
    downloads.take_up(kept)
    assert downloads.news() == ["download: big.zip: cut off: the browser ended; begin it again"]
    assert [one.sentence for one in downloads.all][1] == "downloads/old.csv (8 bytes, complete)"
    assert downloads.news() == [] and all(one.state != "under way" for one in downloads.all)


def test_a_chromium_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"browser.executable is '/no/such', .* give the path of a Chromium"):
        chromium.find_chromium("/no/such")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"no Chromium was found; install one \(Debian: `apt install chromium`"):
        chromium.find_chromium()
    own = tmp_path / "chrome"
    own.touch()
    assert chromium.find_chromium("", str(own)) == str(own)


@on_one_loop
@pytest.mark.long
async def test_a_chromium_that_does_not_start(site: Troubles, tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 1000\n")
    program.chmod(0o755)
    shared = chromium.SharedBrowser(BrowserSettings(executable=str(program), launch_s=3))
    with pytest.raises(ToolError, match=r"did not start, and did nothing for 3 s \(browser.launch_s\)"):
        await shared.browser(object())
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert not shared.alive and shared.pid is None


@pytest.mark.long
@pytest.mark.real
async def test_a_chromium_that_starts_slowly_is_waited_for(tmp_path: Path) -> None:
    """It does something all the time, for longer than `launch_s`, and then starts."""
    program, begun, go = tmp_path / "chromium", tmp_path / "begun", tmp_path / "go"
    program.write_text(
        f'#!/bin/sh\necho $$ >>{begun}\nwhile [ ! -e {go} ]; do sleep 0.1; done\nexec {find_chromium()} "$@"\n'
    )
    program.chmod(0o755)
    launch_s = 3.0
    shared = chromium.SharedBrowser(BrowserSettings(executable=str(program), launch_s=launch_s))
    user = object()
    start = asyncio.create_task(shared.browser(user))
    done, _ = await asyncio.wait({start}, timeout=2 * launch_s)
    assert not done, "it was given up"
    go.touch()
    assert (await start).is_connected()
    assert len(begun.read_text().split()) == 1, "it was started once"
    await shared.release(user)


async def test_a_start_is_put_off_by_life_only() -> None:
    """The limit is moved with each sign of life, and not beyond ten times as long."""
    launched, seconds, clock = chromium._Launched(), 0.01, asyncio.get_running_loop().time
    signs = iter([1, 2, 2, 2, 3])  # at the beginning, then at each look
    over = asyncio.Event()

    def life() -> Any:
        if (sign := next(signs, None)) is None:
            over.set()
        return sign or 3

    launched._life = life  # type: ignore[method-assign]
    moved: list[float] = []
    limit: Any = SimpleNamespace(expired=lambda: False, reschedule=moved.append)
    begun = clock()
    watching = asyncio.create_task(launched._put_off(limit, seconds))
    await over.wait()
    watching.cancel()
    await launched.end(1)
    assert len(moved) == 2 and all(begun < when <= clock() + seconds * chromium.MOST_STARTS for when in moved)


async def test_the_state_says_why_there_is_no_browser(tmp_path: Path) -> None:
    """An agent has a tab, and what should open it again cannot be started. Its loop is its own: so is the browser."""
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    one = Browser(BrowserSettings(executable=str(program), launch_s=3))
    ground = FolderGround(tmp_path / "ground", None, keep=False)
    await ground.open()
    one.stand_on(ground)
    ctx = SimpleNamespace(branch="/1.agent", parent=None, world="main")
    one.session.current["/1.agent"] = 1
    one.session.tabs[1] = Tab(1, url="http://127.0.0.1:9/")
    (said,) = await one.state_for(ctx)
    await one.close()
    assert isinstance(said, TextBlock)
    assert said.text.startswith("tab 1 (current): http://127.0.0.1:9/\nthe page cannot be shown: ")


@on_one_loop
async def test_settings_hold_while_the_browser_is_used(browser: Hand) -> None:
    other = BrowserSettings(width=640)
    assert chromium.shared_browser(other) is browser.session.shared


async def test_settings_of_a_browser_that_nobody_uses_do_not_hold() -> None:
    first, other = BrowserSettings(), BrowserSettings(width=640)
    unused = chromium.shared_browser(first)
    assert chromium.shared_browser(first) is unused
    assert chromium.shared_browser(other).settings is other


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "playwright.async_api", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'agentorchestra\[browser\]'"):
        chromium.playwright_api()
