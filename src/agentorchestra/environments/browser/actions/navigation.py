"""Actions on addresses, tabs and dialogs, and waiting."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.arguments import Count, Inside, Site, host_of, same_site
from agentorchestra.environments.browser.actions.base import TabActions, agent_of
from agentorchestra.environments.browser.session.chromium import playwright_api
from agentorchestra.environments.browser.session.tabs import BLANK, Tab
from agentorchestra.environments.browser.view.text import without_password
from agentorchestra.tea.calling.environment import action

MOST_WAITED = 60.0  # seconds of one `wait`
_LOOK_AGAIN_S = 0.2


class NavigationActions(TabActions):
    @action(effect=("write", "read", "network"))
    async def go_to_url(self, ctx: Any, url: str) -> str:
        """Open an address in the current tab.

        Args:
            url: the whole address.
        """
        return await self._open(ctx, self.check_address(url.strip()))

    async def _open(self, ctx: Any, address: str) -> str:
        page = await self.tab(ctx, responsive=True)
        api = playwright_api()

        async def go() -> None:
            try:
                await page.goto(address, wait_until="commit")
            except api.Error as error:
                if "Download is starting" not in str(error):
                    raise

        before = self.session.boundary.count
        try:
            await self.within(f"opening {without_password(address)}", go, seconds=self.settings.load_s)
        except ToolError as error:
            if "ERR_INVALID_AUTH_CREDENTIALS" in str(error):
                problem = f"{host_of(address)} asks for user and password by HTTP"
                raise ToolError(f"{problem}; the setting browser.logins names none for it") from None
            # Of https the browser knows only that its proxy did not connect; the boundary knows why.
            host = (urlsplit(address).hostname or "").rstrip(".")
            if reasons := [visit.reason for visit in self.session.boundary.failures(before) if visit.host == host]:
                raise ToolError(reasons[0]) from None
            raise
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def go_back(self, ctx: Any) -> str:
        """Go back to the page before this one."""
        return await self._go(ctx, "back")

    @action(effect=("write", "read", "network"))
    async def go_forward(self, ctx: Any) -> str:
        """Go forward again."""
        return await self._go(ctx, "forward")

    async def _go(self, ctx: Any, way: str) -> str:
        page = await self.tab(ctx, responsive=True)
        before = page.url
        move = page.go_back if way == "back" else page.go_forward
        await self.within(f"going {way}", lambda: move(wait_until="commit"), seconds=self.settings.load_s)
        if page.url == before and not await self.within("looking where it is", lambda: _moves(page, before)):
            raise ToolError(f"there is no page to go {way} to in this tab; open an address with go_to_url")
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def reload(self, ctx: Any) -> str:
        """Load the page again."""
        page = await self.tab(ctx, responsive=True)
        await self.within("loading it again", lambda: page.reload(wait_until="commit"), seconds=self.settings.load_s)
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def open_tab(self, ctx: Any, url: str = "") -> str:
        """Open a new tab and make it the current one.

        Args:
            url: its address; empty for an empty tab.
        """
        address = self.check_address(url.strip()) if url.strip() else ""
        tab = await self.current(ctx)  # the run's tabs are there
        if address and tab.address == BLANK and tab.dialog is None:  # it has an empty one
            return await self._open(ctx, address)
        if len(self.session.tabs) >= limits.MOST_TABS:
            raise ToolError(f"{limits.MOST_TABS} tabs are open, as many as there may be; close one with close_tab")
        self.session.current.pop(agent_of(ctx), None)
        tab = await self.current(ctx)
        if not address:
            return f"tab {tab.number} is open and current; it is empty"
        return await self._open(ctx, address)

    @action
    async def switch_tab(self, ctx: Any, tab: Count) -> str:
        """Make another tab the current one.

        Args:
            tab: its number in the state.
        """
        await self._tab_numbered(ctx, tab)
        if self._users(ctx, tab):
            raise ToolError(f"tab {tab} is of another agent; open its address in a tab of your own")
        self.session.current[agent_of(ctx)] = tab
        return await self.settle(ctx)

    @action
    async def close_tab(self, ctx: Any, tab: Count = 0) -> str:
        """Close a tab.

        Args:
            tab: its number; 0 for the current one.
        """
        current = (await self.current(ctx)).number
        number = tab or current
        closed = await self._tab_numbered(ctx, number)
        if self._users(ctx, number):
            raise ToolError(f"tab {number} is of another agent; leave it open")
        await self.session.close_tab(closed)
        return f"tab {number} is closed; {await self.settle(ctx)}"

    def _users(self, ctx: Any, tab: int) -> list[str]:
        """Return the other agents that work in a tab, or opened it."""
        users = [name for name, number in self.session.current.items() if number == tab]
        return [name for name in (*users, self.session.tabs[tab].agent) if name not in ("", agent_of(ctx))]

    async def _tab_numbered(self, ctx: Any, number: int) -> Tab:
        await self.current(ctx)
        if (tab := self.session.tabs.get(number)) is None:
            numbers = ", ".join(map(str, sorted(self.session.tabs)))
            raise ToolError(f"there is no tab {number}; the tabs are {numbers}")
        return tab

    @action
    async def answer_dialog(self, ctx: Any, accept: bool) -> str:
        """Answer the dialog that is open: alert, confirm, prompt, or whether to leave the page.

        Args:
            accept: OK, or Cancel.
        """
        return await self._answer(ctx, accept, None)

    @action(effect=("write", "send"))
    async def answer_prompt(self, ctx: Any, text: str, site: Site) -> str:
        """Answer the prompt dialog that is open with a text.

        Args:
            text: the answer.
            site: the host of the page, as the state shows it.
        """
        tab = await self.current(ctx)
        if tab.dialog is not None and tab.dialog.type != "prompt":
            raise ToolError(f"the dialog is a {tab.dialog.type} and takes no text; answer it with answer_dialog")
        same_site(site, tab.address)
        return await self._answer(ctx, True, text)

    async def _answer(self, ctx: Any, accept: bool, text: str | None) -> str:
        tab = await self.current(ctx)
        if (dialog := tab.dialog) is None:
            raise ToolError("no dialog is open; look at the state")
        await self.session.answer(tab, accept, text)
        return f"the {dialog.type} was {'accepted' if accept else 'dismissed'}; {await self.settle(ctx)}"

    @action
    async def wait(
        self,
        ctx: Any,
        text: Inside = "",
        gone: Inside = "",
        seconds: Annotated[float, Field(gt=0, le=MOST_WAITED)] = 10.0,
    ) -> str:
        """Wait until a text is on the page, or is gone; without either just wait.

        Args:
            text: that is to appear.
            gone: that is to go.
            seconds: at most 60.
        """
        page = await self.tab(ctx)
        if not text and not gone:
            await asyncio.sleep(seconds)
            return await self.settle(ctx)

        async def look() -> None:
            async with asyncio.timeout(seconds):
                while True:
                    if (not text or await _shows(page, text)) and (not gone or not await _shows(page, gone)):
                        return
                    await asyncio.sleep(_LOOK_AGAIN_S)

        try:
            await self.within("waiting", look, seconds=seconds + 2)
        except TimeoutError:
            event = f"{text!r} did not appear" if text else f"{gone!r} did not go away"
            raise ToolError(f"{event} in {seconds:g} s; look at the state, and wait again or go another way") from None
        return await self.settle(ctx)


async def _moves(page: Any, before: str) -> bool:
    """Return True if a page that goes back or forward has another address a moment later."""
    for _ in range(5):
        if page.url != before:
            return True
        await asyncio.sleep(0.1)
    return bool(page.url != before)


async def _shows(page: Any, text: str) -> bool:
    for frame in page.frames:
        with contextlib.suppress(playwright_api().Error):  # frames come and go
            if await frame.get_by_text(text).filter(visible=True).count():
                return True
    return False
