"""Where pages lead, only what is allowed is reached: a real Chromium, and a target that notes whatever arrives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Error, Page, async_playwright
from tests.browser import find_chromium
from tests.environments.browser.leading import NAME, WAYS, Leading, Target, leading, target, to_this_machine
from tests.support.again import real
from tests.support.names import names_from
from tests.support.patience import LONGEST_S
from tests.tools.web.names import name_server

from agentorchestra.core.settings import WebSettings
from agentorchestra.environments.browser.session.boundary import FLAGS, Boundary, block_reason
from agentorchestra.environments.browser.session.proxy import BoundaryProxy
from agentorchestra.tools.web.resolver import Resolver

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class World:
    """What the tests share."""

    browser: Browser
    site: Leading
    target: Target

    @asynccontextmanager
    async def context(
        self,
        *,
        private: tuple[str, ...] = (),
        allow: tuple[str, ...] = (),
        deny: tuple[str, ...] = (),
        resolver: Resolver = to_this_machine,
    ) -> AsyncIterator[tuple[BrowserContext, Boundary]]:
        """A run's context; the site is allowed."""
        settings = WebSettings(private=(f"127.0.0.1:{self.site.port}", *private))
        boundary = Boundary(settings, allow=allow, deny=deny, resolver=resolver)
        async with BoundaryProxy(boundary) as proxy:
            context = await self.browser.new_context(proxy=proxy.for_context)
            try:
                yield context, boundary
            finally:
                await context.close()


@asynccontextmanager
async def launched(*flags: str) -> AsyncIterator[Browser]:
    """Chromium, as the environment starts it."""
    async with async_playwright() as playwright:
        path = find_chromium(playwright.chromium.executable_path)
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", *flags])
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
@real
async def world() -> AsyncIterator[World]:
    async with target() as to, leading(to) as site, launched(*FLAGS) as browser:
        yield World(browser, site, to)


async def until(condition: Callable[[], bool], said: Callable[[], object]) -> None:
    """Wait for something that will happen."""
    try:
        async with asyncio.timeout(LONGEST_S):
            while not condition():  # noqa: ASYNC110 - nothing tells when a browser has asked
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"it did not happen: {said()}")


async def goto(page: Page, url: str) -> str:
    """What is on the page after an address was asked for, whatever came of it."""
    try:
        await page.goto(url)
    except Error as error:
        return str(error)
    return await page.content()


async def test_no_way_of_a_page_leads_to_what_is_not_allowed(world: World) -> None:
    async with world.context() as (context, boundary):
        page = await context.new_page()
        await page.goto(world.site.page("all"))
        missing: set[str] = set()

        def all_refused() -> bool:
            refused = {one.host for one in boundary.log if one.verdict == "refused"}
            missing.clear()
            missing.update(way for way in WAYS if f"{way}.{NAME}" not in refused)
            return not missing

        await until(all_refused, lambda: f"never asked for: {missing}")
        assert world.target.untouched
        assert {one.host for one in boundary.log if one.verdict == "allowed"} == {"127.0.0.1"}
        assert "The allowed page" in await goto(await context.new_page(), world.site.page())
        # Nor does Chromium itself ask anybody, e.g. what the form is.
        assert {one.host for one in boundary.log if not one.host.endswith(NAME)} == {"127.0.0.1"}


@pytest.mark.long
async def test_each_of_these_ways_leads_to_what_is_allowed(world: World) -> None:
    """The counterpart, without which the other test would show nothing."""
    async with target() as to, leading(to) as site:
        places = (f"127.0.0.1:{site.port}", *(f"{way}.{NAME}:{to.port}" for way in WAYS))
        async with world.context(private=places) as (context, _):
            page = await context.new_page()
            await page.goto(site.page("all"))
            hosts = {f"{way}.{NAME}:{to.port}" for way in WAYS}
            await until(lambda: hosts <= set(to.asked), lambda: f"not led to: {hosts - set(to.asked)}")


async def test_a_redirect_ends_at_the_refusal(world: World) -> None:
    async with world.context() as (context, boundary):
        page = await context.new_page()
        shown = await goto(page, world.site.page(f"leave?http://127.0.0.1:{world.target.port}/"))
        assert "not on the public network (loopback)" in shown
        refused = boundary.failures()[0]
        assert (refused.host, refused.port, refused.verdict) == ("127.0.0.1", world.target.port, "refused")
        assert "ERR_TUNNEL_CONNECTION_FAILED" in await goto(page, f"https://localhost:{world.target.port}/")
        assert world.target.untouched


async def test_a_name_that_leads_elsewhere_a_second_later_is_judged_each_time(world: World) -> None:
    """DNS rebinding: the page comes from an allowed service, its name then points to another machine."""
    async with name_server({"rebound.test": [["127.0.0.1"]], "mixed.test": [["93.184.216.34", "127.0.0.1"]]}) as names:
        async with world.context(resolver=names_from(names.port)) as (context, _):
            page = await context.new_page()
            shown = await goto(page, f"http://rebound.test:{world.target.port}/")
            assert "the host rebound.test is at 127.0.0.1" in shown
            # One bad address among good ones is enough: nobody chooses which of them the browser would take.
            assert "the host mixed.test is at 127.0.0.1" in await goto(page, f"http://mixed.test:{world.target.port}/")
            # Asked anew for each connection, by the proxy only: what the browser remembers of a name is not used.
            asked = names.asked["rebound.test", "A"]
            await goto(page, f"http://rebound.test:{world.target.port}/again")
            assert names.asked["rebound.test", "A"] > asked
        assert world.target.untouched


@pytest.mark.long
async def test_a_service_that_is_allowed_by_its_name_is_not_left_by_rebinding(world: World) -> None:
    """Only this name at this port is allowed; the page that it serves reaches no neighbour at the same address."""
    async with world.context(private=(f"own.{NAME}:{world.site.port}",)) as (context, boundary):
        page = await context.new_page()
        assert "The allowed page" in await goto(page, f"http://own.{NAME}:{world.site.port}/")
        script = f"fetch('http://own.{NAME}:{world.target.port}/', {{mode: 'no-cors'}}).catch(() => 'refused')"
        await page.evaluate(script)
        assert [one.port for one in boundary.failures()] == [world.target.port]
        assert world.target.untouched


async def test_requests_beside_the_pages_go_the_same_way(world: World) -> None:
    """`context.request`, which sends with the context's cookies and is no browser at all."""
    async with world.context() as (context, boundary):
        assert (await context.request.get(world.site.page())).ok
        for host in ("127.0.0.1", f"a.{NAME}", f"b.{NAME}"):
            answer = await context.request.post(f"http://{host}:{world.target.port}/", data="secret")
            assert answer.status == 403
        assert len(boundary.failures()) == 3
        assert world.target.untouched


async def test_webrtc_and_webtransport_send_nothing_past_the_proxy(world: World) -> None:
    async with world.context() as (context, boundary):
        page = await context.new_page()
        await page.goto(world.site.page("webrtc"))
        await page.wait_for_function("document.title.startsWith('gathered')")
        assert await page.title() == "gathered"  # not even an address of this machine
        turn = {one.host for one in boundary.log if one.port == world.target.port}
        assert turn == {"127.0.0.1", f"turn.{NAME}"}  # TCP comes through the proxy, and is refused there
        assert world.target.untouched


@pytest.mark.long
async def test_without_the_flags_webrtc_reaches_the_target(world: World) -> None:
    """The counterpart: the page does send packets, past any proxy."""
    async with target() as to, leading(to) as site, launched() as browser:
        boundary = Boundary(WebSettings(private=(f"127.0.0.1:{site.port}",)), resolver=to_this_machine)
        async with BoundaryProxy(boundary) as proxy:
            page = await browser.new_page(proxy=proxy.for_context)
            await page.goto(site.page("webrtc"))
            await until(lambda: to.packets > 0, lambda: to)


@pytest.mark.long
async def test_lists_of_a_run_open_and_close_hosts(world: World) -> None:
    port = world.site.port
    private = tuple(f"{name}.{NAME}:{port}" for name in ("a", "b", "deep.a"))
    async with world.context(private=private, allow=(f"*.{NAME}",), deny=(f"b.{NAME}",)) as (context, _):
        page = await context.new_page()
        assert "The allowed page" in await goto(page, f"http://a.{NAME}:{port}/")
        assert "The allowed page" in await goto(page, f"http://deep.a.{NAME}:{port}/")
        assert "browser.deny names it" in await goto(page, f"http://b.{NAME}:{port}/")
        assert "browser.allow does not name it" in await goto(page, world.site.page())
        assert "browser.allow does not name it" in await goto(page, "http://example.org/")


SCRIPTS = {
    "file": "location = 'file:///etc/passwd'",
    "frame": "document.body.append(Object.assign(document.createElement('iframe'), {src: 'file:///etc/passwd'}))",
    "popup": "window.open('file:///etc/passwd')",
    "chrome": "location = 'chrome://version'",
    "source": "location = 'view-source:file:///etc/passwd'",
    "data": "location = 'data:text/html,<h1>root:x:0:0</h1>'",
    "fetch": "fetch('file:///etc/passwd').then(r => r.text()).then(t => document.body.append(t))",
    "anchor": "Object.assign(document.createElement('a'), {href: 'file:///etc/passwd', target: '_blank'}).click()",
}


_ELSEWHERE = ("file:", "chrome:", "view-source:", "data:")


@pytest.mark.long
async def test_pages_cannot_lead_to_files_and_pages_of_the_browser(world: World) -> None:
    assert "root:x:0:0" in Path("/etc/passwd").read_text(encoding="utf-8")
    async with world.context() as (context, _):
        page = await context.new_page()
        refusals: list[str] = []
        page.on("console", lambda said: refusals.append(said.text))
        for name, script in SCRIPTS.items():
            await goto(page, world.site.page(f"script?run={script}"))
            await until(lambda: len(refusals) > 0, lambda name=name: name)  # type: ignore[misc]
            refusals.clear()
            for one in context.pages:
                assert not any(frame.url.startswith(_ELSEWHERE) for frame in one.frames), name
            assert "still here" in await page.inner_text("body")
            assert "root:x:0:0" not in await page.inner_text("body"), name


@pytest.mark.long
async def test_a_page_that_was_asked_for_by_hand_is_not_shown(world: World) -> None:
    """Playwright itself opens anything: whoever looks at a page asks `why_not_shown` first."""
    async with world.context() as (context, _):
        page = await context.new_page()
        assert "root:x:0:0" in await goto(page, "file:///etc/passwd")
        assert block_reason(page.url) == "'file:///etc/passwd' has the scheme 'file'; only http and https are shown"


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/", True),
        ("http://example.org/", True),
        ("about:blank", True),
        ("about:srcdoc", True),
        ("chrome-error://chromewebdata/", True),
        ("blob:https://example.org/1", True),
        ("blob:null/1", False),
        ("blob:file:///1", False),
        ("file:///etc/passwd", False),
        ("FILE:///etc/passwd", False),
        ("chrome://version", False),
        ("chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai/index.html", False),
        ("devtools://devtools/bundled/inspector.html", False),
        ("about:version", False),
        ("data:text/html,x", False),
        ("javascript:alert(1)", False),
        ("view-source:https://example.org/", False),
        ("ftp://example.org/", False),
    ],
)
async def test_which_pages_are_shown(url: str, shown: bool) -> None:
    assert (block_reason(url) == "") is shown


@pytest.mark.long
async def test_what_belongs_to_no_run_reaches_nothing(world: World) -> None:
    """A context without a proxy of its own, as the browser itself has one."""
    page = await world.browser.new_page()
    try:
        assert "ERR_PROXY_CONNECTION_FAILED" in await goto(page, world.site.page("never"))
        assert "/never" not in world.site.asked
    finally:
        await page.close()


@pytest.mark.long
async def test_features_that_playwright_turns_off_stay_off(world: World) -> None:
    """Chromium reads the last of several lists."""
    cdp = await world.browser.new_browser_cdp_session()
    found = await cdp.send("SystemInfo.getProcessInfo")
    pid = next(int(one["id"]) for one in found["processInfo"] if one["type"] == "browser")
    lists = [
        set(one.removeprefix("--disable-features=").split(","))
        for one in psutil.Process(pid).cmdline()
        if one.startswith("--disable-features=")
    ]
    assert len(lists) >= 2
    assert set().union(*lists) == lists[-1], json.dumps(sorted(set().union(*lists) - lists[-1]))
