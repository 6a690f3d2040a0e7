"""A run's pages: one context of the shared browser, its tabs, what went wrong in them and how they are made well."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import BrowserSettings, WebSettings
from agentorchestra.environments.browser.boundary import Boundary
from agentorchestra.environments.browser.chromium import SharedBrowser, playwright_api, shared_browser
from agentorchestra.environments.browser.proxy import BoundaryProxy

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Page

T = TypeVar("T")

STORAGE, TABS, CURRENT = "storage", "tabs", "current"
"""What is kept: cookies and what sites stored, the tabs' addresses, each agent's tab."""

_MOST_DIALOGS = 10
_LOOK_S = 2.0


class DialogOpened(Exception):
    """A dialog opened while an action was done: the page waits for an answer, and so would the action."""


@dataclass
class Tab:
    """A tab of the run.

    Attributes:
        number: by which it is named; never used for another one.
        page: None where it was not opened again yet, after a restore.
        url: its address, as last seen.
        dialog: that waits for an answer.
        notes: what happened in it that no agent was told yet.
        error: the last one of its scripts or of its loading.
    """

    number: int
    page: Page | None = None
    url: str = "about:blank"
    dialog: Dialog | None = None
    dialogs: int = 0
    crashed: bool = False
    error: str = ""
    notes: list[str] = field(default_factory=list)
    stirred: asyncio.Event = field(default_factory=asyncio.Event)


class BrowserSession:
    """The context of one run and world.

    Args:
        settings: limits.
        kept: what the environment remembers; read when the context is opened, written by `save`.
        web: settings of the web: name servers, private services.
    """

    def __init__(self, settings: BrowserSettings, kept: dict[str, JsonValue], web: WebSettings | None = None) -> None:
        self.settings = settings
        self.kept = kept
        self.boundary = Boundary(web, private=settings.private, allow=settings.allow, deny=settings.deny)
        self._proxy: BoundaryProxy | None = None
        self.tabs: dict[int, Tab] = {}
        self.current: dict[str, int] = {}
        self._shared: SharedBrowser | None = None
        self._context: BrowserContext | None = None
        self._next = 1

    @property
    def shared(self) -> SharedBrowser:
        """The browser of this event loop."""
        if self._shared is None:
            self._shared = shared_browser(self.settings)
        return self._shared

    async def context(self) -> BrowserContext:
        """The run's context, opened with what is kept if there is none."""
        if self._context is not None and self.shared.alive:
            return self._context
        self._take_up()
        browser = await self.shared.browser(self)
        if self._proxy is None:
            self._proxy = BoundaryProxy(self.boundary)
            await self._proxy.start()
        storage = self.kept.get(STORAGE)
        made = await browser.new_context(
            viewport={"width": self.settings.width, "height": self.settings.height},
            accept_downloads=True,
            proxy=self._proxy.for_context,
            storage_state=storage if isinstance(storage, dict) else None,  # type: ignore[arg-type]
        )
        made.set_default_timeout(self.settings.call_s * 1000 * 0.8)
        made.set_default_navigation_timeout(self.settings.load_s * 1000)
        made.on("page", self._opened)
        self._context = made
        return made

    def _take_up(self) -> None:
        """The tabs as they are kept, none of them open."""
        tabs, current = self.kept.get(TABS), self.kept.get(CURRENT)
        for one in tabs if isinstance(tabs, list) else []:
            if isinstance(one, list) and len(one) == 2:
                number = int(str(one[0]))
                self.tabs[number] = Tab(number, url=str(one[1]))
        for tab in self.tabs.values():
            tab.page = None
        self.current = {name: int(str(n)) for name, n in current.items()} if isinstance(current, dict) else {}
        self._next = max([self._next, *(number + 1 for number in self.tabs)])

    # -- tabs --------------------------------------------------------------------------------------------------------

    async def tab(self, agent: str) -> Tab:
        """An agent's current tab with its page, opened if it has none."""
        context = await self.context()
        tab = self.tabs.get(self.current.get(agent, 0))
        if tab is None:
            tab = self._new_tab()
            self.current[agent] = tab.number
        if tab.page is None:
            page = await self.bounded(context.new_page())
            self._adopt(tab, page)
            if tab.url != "about:blank":
                with contextlib.suppress(playwright_api().Error, TimeoutError):
                    await self.bounded(page.goto(tab.url, wait_until="commit"), self.settings.load_s)
        return tab

    async def bounded(self, call: Awaitable[T], seconds: float | None = None) -> T:
        """The result of a call, which has so many seconds.

        Raises:
            TimeoutError: if it takes longer.
        """
        async with asyncio.timeout(seconds if seconds is not None else self.settings.call_s):
            return await call

    def _new_tab(self) -> Tab:
        tab = Tab(self._next)
        self._next += 1
        self.tabs[tab.number] = tab
        return tab

    def _adopt(self, tab: Tab, page: Page) -> None:
        tab.page, tab.crashed = page, False
        page.on("dialog", lambda dialog: self._asked(tab, dialog))

    def _opened(self, page: Page) -> None:
        """A page of the context that appeared by itself."""

    def _asked(self, tab: Tab, dialog: Any) -> None:
        tab.dialog = dialog
        tab.dialogs += 1
        tab.stirred.set()

    # -- saving ------------------------------------------------------------------------------------------------------

    async def save(self) -> None:
        """Note in `kept` what has to be there after a crash."""
        if self._context is None or not self.shared.alive:
            return
        for tab in self.tabs.values():
            if tab.page is not None:
                tab.url = tab.page.url
        self.kept[TABS] = [[tab.number, tab.url] for tab in self.tabs.values()]
        self.kept[CURRENT] = dict(self.current)
        with contextlib.suppress(playwright_api().Error, TimeoutError):
            state: Any = await self.bounded(self._context.storage_state(indexed_db=True))
            self.kept[STORAGE] = state

    async def run(self, tab: Tab, what: str, make: Callable[[], Awaitable[T]], seconds: float | None) -> T:
        """A call on a tab, bounded; one that takes too long makes the tab well again and is told in one sentence."""
        api = playwright_api()
        limit = seconds if seconds is not None else self.settings.call_s
        tab.stirred.clear()
        call = asyncio.ensure_future(make())
        stir = asyncio.ensure_future(tab.stirred.wait())
        try:
            await asyncio.wait({call, stir}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                return call.result()
            if tab.dialog is not None:
                raise DialogOpened
            raise ToolError(f"{what} took longer than {limit:g} s")
        except api.TimeoutError as exc:
            raise ToolError(f"{what} was not possible in time: {str(exc).splitlines()[0]}") from None
        except api.Error as exc:
            raise ToolError(f"{what} failed: {str(exc).splitlines()[0]}") from None
        finally:
            stir.cancel()
            if not call.done():
                call.cancel()

    async def close(self) -> None:
        """Leave nothing open."""
        context, self._context = self._context, None
        if context is not None:
            with contextlib.suppress(playwright_api().Error, TimeoutError):
                await self.bounded(context.close())
        if self._shared is not None:
            await self._shared.release(self)
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.close()


__all__ = ["BrowserSession", "DialogOpened", "Tab"]
