"""A run's pages: one context of the shared browser, its tabs, what went wrong in them and how they are made well."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import BrowserSettings, WebSettings
from agentorchestra.environments.browser.boundary import Boundary
from agentorchestra.environments.browser.chromium import (
    SharedBrowser,
    first_line,
    playwright_api,
    shared_browser,
    within,
)
from agentorchestra.environments.browser.downloads import Downloads
from agentorchestra.environments.browser.keeping import CURRENT, DOWNLOADS, NEXT, TABS, Keeper, addresses, tabs_of
from agentorchestra.environments.browser.proxy import BoundaryProxy
from agentorchestra.environments.browser.references import listen
from agentorchestra.environments.browser.scripts import script
from agentorchestra.environments.browser.tabs import BLANK, MOST_DIALOGS, Tab

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from agentorchestra.environments.folder import FolderGround

T = TypeVar("T")

AGAIN = (
    "tabs are opened again at their addresses, with cookies and stored data as they were last kept; what was typed "
    "into forms is gone"
)


class DialogOpened(Exception):
    """A dialog opened while an action was done: the page waits for an answer, and so would the action."""


class BrowserSession:
    """The context of one run and world.

    Args:
        settings: limits.
        ground: the folder that downloads land in, and the store.
        kept: what the environment remembers; read when the context is opened, written by `save`.
        web: settings of the web: name servers, private services.

    Attributes:
        tabs: of the run, by their numbers.
        current: each agent's tab.
        boundary: judges where pages connect to.
        downloads: what pages gave.
    """

    def __init__(
        self,
        settings: BrowserSettings,
        ground: FolderGround,
        kept: dict[str, JsonValue],
        web: WebSettings | None = None,
    ) -> None:
        self.settings = settings
        self.kept = kept
        self.boundary = Boundary(web, private=settings.private, allow=settings.allow, deny=settings.deny)
        self.downloads = Downloads(settings, ground)
        self.tabs: dict[int, Tab] = {}
        self.current: dict[str, int] = {}
        self._keeper = Keeper(ground, kept, settings.call_s)
        self._proxy: BoundaryProxy | None = None
        self._shared: SharedBrowser | None = None
        self._context: BrowserContext | None = None
        self._generation = 0
        self._next = 1
        self._tasks: set[asyncio.Task[Any]] = set()
        self._take_up()

    def _take_up(self) -> None:
        """Tabs and downloads as they are kept; no page is open."""
        self.tabs = tabs_of(self.kept.get(TABS))
        current, after = self.kept.get(CURRENT), self.kept.get(NEXT)
        self.current = {name: int(str(n)) for name, n in current.items()} if isinstance(current, dict) else {}
        self._next = after if isinstance(after, int) else 1
        self.downloads.take_up(self.kept.get(DOWNLOADS))

    @property
    def shared(self) -> SharedBrowser:
        """The browser of this event loop."""
        if self._shared is None:
            self._shared = shared_browser(self.settings)
        return self._shared

    @property
    def _open(self) -> bool:
        """Whether the context is there, in the browser that runs now."""
        return self._context is not None and self.shared.alive and self.shared.generation == self._generation

    # -- the context -------------------------------------------------------------------------------------------------

    async def context(self) -> BrowserContext:
        """The run's context, opened with what is kept if there is none."""
        if self._open and self._context is not None:
            return self._context
        if self._context is not None:
            self._lose("the browser ended unexpectedly and was started again")
        try:
            self._context = await self._opened()
        except (playwright_api().Error, TimeoutError):
            # Started, and not of use: it is ended, and another one started.
            self.shared.kill(self._generation)
            try:
                self._context = await self._opened()
            except (playwright_api().Error, TimeoutError) as exc:
                raise ToolError(f"the browser does not work on this machine now: {first_line(exc)}") from None
        return self._context

    async def _opened(self) -> BrowserContext:
        browser = await self.shared.browser(self)
        self._generation = self.shared.generation
        if self._proxy is None:
            self._proxy = BoundaryProxy(self.boundary)
            await self._proxy.start()
        state: Any = await self._keeper.stored(self.tabs.values())
        made = await within(
            browser.new_context(
                viewport={"width": self.settings.width, "height": self.settings.height},
                accept_downloads=True,
                proxy=self._proxy.for_context,
                storage_state=state or None,
            ),
            self.settings.call_s,
        )
        await within(listen(made), self.settings.call_s)
        # Playwright's own limits come first: they say what was waited for.
        made.set_default_timeout(self.settings.call_s * 800)
        made.set_default_navigation_timeout(self.settings.load_s * 950)
        return made

    def _lose(self, why: str) -> None:
        """Context and pages are gone; the next use opens them again."""
        self._context = None
        for tab in self.tabs.values():
            if tab.page is not None:
                tab.note(f"{why}; {AGAIN}")
            tab.lose()

    # -- tabs --------------------------------------------------------------------------------------------------------

    async def tab(self, agent: str) -> Tab:
        """An agent's current tab with a page that answers; opened if it has none.

        Args:
            agent: what names it.
        """
        await self._tidy()
        context = await self.context()
        tab = self.tabs.get(self.current.get(agent, 0))
        if tab is None:
            tab = Tab(self._next)
            self._next += 1
            self.tabs[tab.number] = tab
            self.current[agent] = tab.number
        if tab.page is not None and tab.dialog is None and not await self._answers(tab):
            tab.note(await self.heal(tab))
            context = await self.context()
        if tab.page is None:
            await self._open_page(context, tab)
        return tab

    async def _open_page(self, context: BrowserContext, tab: Tab) -> None:
        """Open a tab's page at its address."""
        address = tab.url
        try:
            page = await within(context.new_page(), self.settings.call_s)
        except (playwright_api().Error, TimeoutError):
            await self._begin_again()
            page = await within((await self.context()).new_page(), self.settings.call_s)
        await self._adopt(tab, page)
        if address == BLANK:
            return
        try:
            given = f"({script('store.js')})({json.dumps(tab.stored)})"
            async with await within(page.add_init_script(given), self.settings.call_s):
                await within(page.goto(address, wait_until="commit"), self.settings.load_s)
        except (playwright_api().Error, TimeoutError) as exc:
            tab.note(f"{address[:200]} could not be opened again: {first_line(exc)}")

    async def _adopt(self, tab: Tab, page: Page) -> None:
        self._watch(tab, page)
        with contextlib.suppress(playwright_api().Error, TimeoutError):
            await self._attach(tab, page)

    def _watch(self, tab: Tab, page: Page) -> None:
        tab.watch(
            page,
            closed=tab.stir,
            popped=lambda popup: self._popped(tab, popup),
            loads=lambda download: self.downloads.begin(tab, download, self.shared.artifacts),
        )

    async def _attach(self, tab: Tab, page: Page) -> None:
        """What the browser itself can be told about a page, also when the page does not listen any more."""
        cdp = await within(page.context.new_cdp_session(page), self.settings.call_s)
        cdp.on("Page.downloadWillBegin", lambda told: tab.begun.append((told["url"], told["guid"])))
        await within(cdp.send("Page.enable"), self.settings.call_s)
        tab.cdp = cdp

    def _popped(self, opener: Tab, page: Page) -> None:
        """A page that a page opened: a tab more, and the current one of whoever worked in the other."""
        if len(self.tabs) >= self.settings.tabs:
            opener.note(
                f"the page opened another tab, which was closed: {self.settings.tabs} are open, the most there are"
            )
            self._later(page.close())
            return
        tab = Tab(self._next)
        self._next += 1
        self.tabs[tab.number] = tab
        self._watch(tab, page)
        self._later(self._attach(tab, page))
        users = [agent for agent, number in self.current.items() if number == opener.number]
        for agent in users:
            self.current[agent] = tab.number
        if users:
            tab.note(f"tab {opener.number} opened this tab, {tab.number}, which is the current one now")

    async def _tidy(self) -> None:
        """Forget tabs whose pages closed themselves; not those of a browser that is gone."""
        gone = [tab for tab in self.tabs.values() if tab.page is not None and tab.page.is_closed()]
        if not gone or not self._open:
            return
        if not await self.shared.answers(self.settings.call_s):
            self.shared.kill(self._generation)
            return
        for tab in gone:
            self._forget(tab, f"tab {tab.number} was closed by its page")

    def _forget(self, tab: Tab, why: str) -> None:
        """A tab is no more; whoever worked in it goes on in the newest one that nobody else works in."""
        tab.lose()
        self.tabs.pop(tab.number, None)
        for agent in [name for name, number in self.current.items() if number == tab.number]:
            del self.current[agent]
            free = [number for number in self.tabs if number not in self.current.values()]
            if free:
                self.current[agent] = max(free)
                self.tabs[max(free)].note(why)

    async def close_tab(self, tab: Tab) -> None:
        """Close a tab."""
        page = tab.page
        self._forget(tab, f"tab {tab.number} was closed")
        if page is not None:
            with contextlib.suppress(playwright_api().Error, TimeoutError):
                await within(page.close(), self.settings.call_s)

    async def answer(self, tab: Tab, accept: bool, text: str | None = None) -> None:
        """Answer the dialog that a tab waits with.

        Args:
            tab: one that has a dialog.
            accept: whether to accept or to dismiss it.
            text: for a prompt.
        """
        dialog, tab.dialog = tab.dialog, None
        if dialog is None:
            return
        if tab.dialogs >= MOST_DIALOGS:
            tab.note(await self._replace(tab, f"opened {tab.dialogs} dialogs one after the other"))
            return
        tab.stirred.clear()
        with contextlib.suppress(playwright_api().Error, TimeoutError):
            given = () if text is None or not accept else (text,)
            await within(dialog.accept(*given) if accept else dialog.dismiss(), self.settings.call_s)
        # The next one, of a page that asks without an end, comes at once.
        with contextlib.suppress(TimeoutError):
            await within(tab.stirred.wait(), 0.1)

    def _later(self, call: Awaitable[Any]) -> None:
        """Let a call end by itself."""

        async def end() -> None:
            with contextlib.suppress(Exception):
                await within(call, self.settings.call_s)

        task = asyncio.ensure_future(end())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- calls, and what helps when they do not end ------------------------------------------------------------------

    async def run(self, tab: Tab, what: str, make: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """The result of a call on a tab, which has so many seconds.

        Args:
            tab: whose page is used.
            what: of the call, for the sentence.
            make: makes it.
            seconds: None for `call_s` of the settings.

        Raises:
            DialogOpened: the call goes on when the dialog was answered.
            ToolError: one sentence; the page answers again, or was replaced.
        """
        if tab.asks:
            raise DialogOpened
        api = playwright_api()
        limit = seconds if seconds is not None else self.settings.call_s
        if not tab.crashed:
            tab.stirred.clear()
        call = asyncio.ensure_future(make())
        stir = asyncio.ensure_future(tab.stirred.wait())
        try:
            await asyncio.wait({call, stir}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not call.done() and stir.done() and not tab.asks:
                # Of a page that is gone the call knows, too.
                await asyncio.wait({call}, timeout=1)
            if call.done():
                return call.result()
            if tab.asks:
                raise DialogOpened
            why = f"{what} took longer than {limit:g} s"
        except api.TimeoutError as exc:
            why = f"{what} was not possible in time ({first_line(exc)})"
        except api.Error as exc:
            if tab.asks:
                raise DialogOpened from None
            if self._open and not tab.crashed and not (tab.page is None or tab.page.is_closed()):
                raise ToolError(f"{what} failed: {first_line(exc)}") from None
            why = f"{what} was not possible"
        finally:
            stir.cancel()
            if not call.done():
                call.cancel()
                call.add_done_callback(lambda done: done.cancelled() or done.exception())
        told = await self.heal(tab)
        raise ToolError(f"{why}{f'; {told}' if told else ''}")

    async def heal(self, tab: Tab) -> str:
        """Make a tab well whose page does not do what it should: one measure after the other, the mildest first.

        Returns:
            What was done about it, "" if nothing was wrong.
        """
        await self._tidy()
        if not self._open:
            await self._begin_again()
            return f"the browser ended unexpectedly and was started again; {AGAIN}"
        if tab.number not in self.tabs:
            return "its tab is closed"
        if tab.crashed:
            return await self._replace(tab, "crashed")
        if tab.page is None or await self._answers(tab):
            return ""
        if not await self.shared.answers(self.settings.call_s):
            await self._begin_again()
            return f"the browser did not answer any more, and another one was started; {AGAIN}"
        if tab.cdp is not None:
            with contextlib.suppress(playwright_api().Error, TimeoutError):
                await within(tab.cdp.send("Page.stopLoading"), self._ping_s)
            if await self._answers(tab):
                tab.loading = False
                return "its loading was stopped; what is there can be used"
        return await self._replace(tab, "did not answer any more")

    @property
    def _ping_s(self) -> float:
        return self.settings.call_s / 2

    async def _answers(self, tab: Tab) -> bool:
        """Whether a page does what it is asked to."""
        if tab.page is None or tab.crashed or tab.page.is_closed():
            return False
        try:
            await within(tab.page.evaluate("1"), self._ping_s)
        except Exception:  # whatever is wrong with it
            return tab.dialog is not None
        return True

    async def _replace(self, tab: Tab, what: str) -> str:
        """Close a tab's page and give it an empty one.

        Args:
            tab: that is not well.
            what: is wrong, as in "the page crashed".
        """
        page, was = tab.page, (tab.page.url if tab.page is not None else tab.url)
        tab.lose()
        tab.url = BLANK
        told = f"the page {what} and was closed, its tab is empty now; open {was[:200]} again, or go another way"
        try:
            if page is not None:
                await within(page.close(), self.settings.call_s)
            await self._open_page(await self.context(), tab)
        except (playwright_api().Error, TimeoutError):
            if await self._reopen():
                return f"{told}; {AGAIN}"
            await self._begin_again()
            return f"the page {what}, and the browser with it; another one was started; {AGAIN}"
        return told

    async def _reopen(self) -> bool:
        """Close the whole context and open another one; whether that was possible."""
        context = self._context
        if context is None or not await self.shared.answers(self.settings.call_s):
            return False
        try:
            await within(context.close(), self.settings.call_s)
            self._lose("the run's pages were closed, because one of them could not be")
            await self.context()
        except (playwright_api().Error, TimeoutError):
            return False
        return True

    async def _begin_again(self) -> None:
        """Another browser, in place of one that ended or that does not answer; the other runs have it too."""
        self.shared.kill(self._generation)
        self._lose("the browser was started again")
        await self.context()

    # -- saving ------------------------------------------------------------------------------------------------------

    async def save(self) -> None:
        """Note in `kept` what has to be there after a crash."""
        self.kept[TABS] = addresses(self.tabs.values())
        self.kept[CURRENT] = dict(self.current)
        self.kept[NEXT] = self._next
        self.kept[DOWNLOADS] = self.downloads.to_json()
        if self._open and self._context is not None:
            await self._keeper.keep(self._context, self.tabs.values())

    async def close(self) -> None:
        """Leave nothing open."""
        context, self._context = self._context, None
        await self.downloads.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._shared is not None:
            if context is not None and self._shared.alive and self._shared.generation == self._generation:
                with contextlib.suppress(Exception):
                    await within(context.close(), self.settings.call_s)
            await self._shared.release(self)
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.close()


__all__ = ["AGAIN", "BrowserSession", "DialogOpened", "Tab"]
