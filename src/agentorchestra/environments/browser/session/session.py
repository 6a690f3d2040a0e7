"""What is done with a run's pages: calls with limits, and what helps when a page or the browser does not end them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser.session.chromium import first_line, playwright_api, within
from agentorchestra.environments.browser.session.pages import AGAIN, Pages, explained
from agentorchestra.environments.browser.session.tabs import BLANK, MOST_DIALOGS, Tab

T = TypeVar("T")


class DialogOpened(Exception):
    """A dialog opened while an action was done: the page waits for an answer, and so would the action."""


class BrowserSession(Pages):
    """The pages of one run and world, as actions use them."""

    async def tab(self, agent: str) -> Tab:
        """Return an agent's current tab with a page that answers; opened if it has none."""
        await self._tidy()
        context = await self.context()
        tab = self.tabs.get(self.current.get(agent, 0))
        if tab is None:
            tab = self._new_tab()
            self.current[agent] = tab.number
        self._uses += 1
        tab.used = self._uses
        if tab.page is not None and tab.dialog is None and not await self._answers(tab):
            tab.note(await self.heal(tab))
            context = await self.context()
        if tab.page is None:
            try:
                await self._open_page(context, tab)
            except Exception:
                await self._begin_again()
                with explained("the browser opens no pages on this machine now"):
                    await self._open_page(await self.context(), tab)
        return tab

    def release(self, agents: Iterable[str]) -> None:
        """Take the tabs from agents that have ended; whoever wants one may take or close it."""
        for agent in agents:
            self.current.pop(agent, None)

    async def answer(self, tab: Tab, accept: bool, text: str | None = None) -> None:
        """Answer the dialog that a tab waits with; `text` is for a prompt."""
        dialog, tab.dialog = tab.dialog, None
        if dialog is None:
            return
        if tab.dialogs >= MOST_DIALOGS:
            tab.note(await self._replace(tab, f"opened {tab.dialogs} dialogs one after the other"))
            return
        tab.stirred.clear()
        with contextlib.suppress(Exception):
            given = () if text is None or not accept else (text,)
            await within(dialog.accept(*given) if accept else dialog.dismiss(), self.settings.call_s)
        # The next one, of a page that asks without an end, comes at once.
        with contextlib.suppress(TimeoutError):
            await within(tab.stirred.wait(), 0.1)

    async def run(self, tab: Tab, what: str, make: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """Return the result of a call on a tab, which has so many seconds (None for `call_s` of the settings).

        Raises:
            DialogOpened: the call goes on when the dialog was answered.
            ToolError: one sentence with `what`; the page answers again, or was replaced.
        """
        if tab.dialog is not None:
            raise DialogOpened
        api = playwright_api()
        limit = seconds if seconds is not None else self.settings.call_s
        if not tab.crashed:
            tab.stirred.clear()
        call = asyncio.ensure_future(make())
        stir = asyncio.ensure_future(tab.stirred.wait())
        try:
            await asyncio.wait({call, stir}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not call.done() and stir.done() and tab.dialog is None:
                # Of a page that is gone the call knows, too.
                await asyncio.wait({call}, timeout=1)
            if call.done():
                return call.result()
            if tab.dialog is not None:
                raise DialogOpened
            why = f"{what} took longer than {limit:g} s"
        except api.TimeoutError as exc:
            why = f"{what} was not possible in time ({first_line(exc)})"
        except api.Error as exc:
            if tab.dialog is not None:
                raise DialogOpened from None
            if self._open and not tab.crashed and not (tab.page is None or tab.page.is_closed()):
                raise ToolError(f"{what} failed: {first_line(exc)}") from None
            why = f"{what} was not possible"
        except Exception:
            if self._open:
                raise  # what the call itself found wrong
            why = f"{what} was not possible"
        finally:
            stir.cancel()
            if not call.done():
                call.cancel()
                call.add_done_callback(lambda done: done.cancelled() or done.exception())
        told = await self.heal(tab)
        raise ToolError(f"{why}{f'; {told}' if told else ''}")

    async def heal(self, tab: Tab) -> str:
        """Help a page that does not do what it should, as mildly as possible; return what was done, "" for nothing."""
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
            with contextlib.suppress(Exception):
                await within(tab.cdp.send("Page.stopLoading"), self.settings.call_s / 2)
            if await self._answers(tab):
                tab.loading = False
                return "its loading was stopped; what is there can be used"
        return await self._replace(tab, "did not answer any more")

    async def _answers(self, tab: Tab) -> bool:
        """Return True if a page does what it is asked to."""
        if tab.page is None or tab.crashed or tab.page.is_closed():
            return False
        try:
            await within(tab.page.evaluate("1"), self.settings.call_s / 2)
        except Exception:  # whatever is wrong with it
            return tab.dialog is not None
        return True

    async def _replace(self, tab: Tab, what: str) -> str:
        """Close a tab's page, which `what` (`crashed`) is wrong with, and give it an empty one."""
        page, was = tab.page, tab.address
        tab.lose()
        tab.url = BLANK
        told = f"the page {what} and was closed, its tab is empty now; open {was[:200]} again, or go another way"
        try:
            if page is not None:
                await within(page.close(), self.settings.call_s)
            await self._open_page(await self.context(), tab)
        except Exception:
            if await self._reopen():
                return f"{told}; {AGAIN}"
            await self._begin_again()
            return f"the page {what}, and the browser with it; another one was started; {AGAIN}"
        return told

    async def _reopen(self) -> bool:
        """Close the whole context and open another one; return whether that was possible."""
        context = self._context
        if context is None or not await self.shared.answers(self.settings.call_s):
            return False
        try:
            await within(context.close(), self.settings.call_s)
            self._lose("the run's pages were closed, because one of them could not be")
            await self.context()
        except Exception:
            return False
        return True

    async def _begin_again(self) -> None:
        """Start another browser, in place of one that ended or does not answer; the other runs have it too."""
        self.shared.kill(self._generation)
        self._lose("the browser was started again")
        await self.context()


__all__ = ["AGAIN", "BrowserSession", "DialogOpened", "Tab"]
