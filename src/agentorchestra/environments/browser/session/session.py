from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue

from agentorchestra.core.errors import AgentOrchestraError, ToolError
from agentorchestra.core.settings import BrowserSettings, WebSettings
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.arguments import host_of
from agentorchestra.environments.browser.scripts import script
from agentorchestra.environments.browser.session.boundary import Boundary
from agentorchestra.environments.browser.session.chromium import first_line, playwright_api, shared_browser, within
from agentorchestra.environments.browser.session.downloads import Downloads
from agentorchestra.environments.browser.session.persistence import StorageKeeper, addresses, tabs_of
from agentorchestra.environments.browser.session.proxy import BoundaryProxy
from agentorchestra.environments.browser.session.tabs import BLANK, MOST_DIALOGS, Tab, refuse
from agentorchestra.environments.browser.view.references import listen

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

    from agentorchestra.environments.browser.session.chromium import SharedBrowser
    from agentorchestra.environments.folder import FolderGround

T = TypeVar("T")

_AGAIN = (
    "tabs are opened again at their addresses, with cookies and stored data as they were last kept; what was typed "
    "into forms is gone"
)


async def _go_on(cdp: CDPSession, event: Any) -> None:
    await cdp.send("Fetch.continueRequest", {"requestId": event["requestId"]})


class DialogOpened(Exception):
    """A dialog opened while an action was done: the page waits for an answer, and so would the action."""


@contextlib.contextmanager
def _explain(sentence: str) -> Iterator[None]:
    """Turn Playwright's errors into one sentence."""
    try:
        yield
    except AgentOrchestraError:
        raise
    except Exception as exc:
        raise ToolError(f"{sentence}: {first_line(exc)}") from None


class BrowserSession:
    """The context of one run and world, its tabs, and calls on them that end: after them, what helps a page that hangs.

    `kept` is what the environment remembers: read when the context is opened, written by `save`.
    """

    def __init__(
        self, settings: BrowserSettings, ground: FolderGround, record: dict[str, JsonValue], web: WebSettings | None
    ) -> None:
        self.settings = settings
        self.kept = record
        self.credentials: dict[str, tuple[str, str]] = {}  # user and password of hosts that ask by HTTP
        self.boundary = Boundary(web, private=settings.private, allow=settings.allow, deny=settings.deny)
        self.downloads = Downloads(settings, ground)
        self._keeper = StorageKeeper(ground, record, limits.CALL_S)
        self._proxy: BoundaryProxy | None = None
        self._shared: SharedBrowser | None = None
        self._context: BrowserContext | None = None
        self._generation = 0
        self._uses = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._answered: set[str] = set()  # requests that were given user and password
        self.tabs = tabs_of(record.get("tabs"))  # by their numbers; no page is open
        current, after = record.get("current"), record.get("next")
        tabs = current if isinstance(current, dict) else {}
        self.current = {agent: int(str(number)) for agent, number in tabs.items()}
        self._next = after if isinstance(after, int) else 1
        self.downloads.take_up(record.get("downloads"))

    @property
    def shared(self) -> SharedBrowser:
        if self._shared is None:
            self._shared = shared_browser(self.settings)
        return self._shared

    @property
    def _open(self) -> bool:
        return self._context is not None and self.shared.alive and self.shared.generation == self._generation

    async def context(self) -> BrowserContext:
        """Return the run's context, opened with what is kept if there is none."""
        if self._context is not None and self._open:
            return self._context
        if self._context is not None:
            self._lose("the browser ended unexpectedly and was started again")
        try:
            self._context = await self._open_context()
        except AgentOrchestraError:
            raise
        except Exception:
            # Started, and not of use: it is ended, and another one started.
            self.shared.kill(self._generation)
            with _explain("the browser does not work on this machine now"):
                self._context = await self._open_context()
        return self._context

    async def _open_context(self) -> BrowserContext:
        browser = await self.shared.browser(self)
        self._generation = self.shared.generation
        if self._proxy is None:
            self._proxy = BoundaryProxy(self.boundary)
            await self._proxy.start()
        state: Any = await self._keeper.storage_state(self.tabs.values())
        context = await within(
            browser.new_context(
                viewport={"width": self.settings.width, "height": self.settings.height},
                accept_downloads=True,
                proxy=self._proxy.for_context,
                storage_state=state or None,
            ),
            limits.CALL_S,
        )
        await within(listen(context), limits.CALL_S)
        # Playwright's own limits come first: they say what was waited for.
        context.set_default_timeout(limits.CALL_S * 800)
        context.set_default_navigation_timeout(self.settings.load_s * 950)
        return context

    def _lose(self, reason: str) -> None:
        """Forget context and pages, which are gone; the next use opens them again."""
        self._context = None
        for tab in self.tabs.values():
            if tab.page is not None:
                tab.note(f"{reason}; {_AGAIN}")
            tab.lose()

    def _new_tab(self, agent: str) -> Tab:
        """Add an agent's tab. If there are too many, close the one used longest ago: of nobody, else of this agent."""
        if len(self.tabs) >= limits.MOST_TABS:
            numbers = self.current.values()
            ranks = {"": 0, agent: 1}
            oldest = min(self.tabs.values(), key=lambda tab: (tab.number in numbers, ranks.get(tab.agent, 2), tab.used))
            page = oldest.page
            self._forget(oldest, f"tab {oldest.number} was closed: {limits.MOST_TABS} are open, the most there are")
            if page is not None:
                self._later(page.close())
        tab = self.tabs[self._next] = Tab(self._next, agent)
        self._next += 1
        return tab

    async def _open_page(self, context: BrowserContext, tab: Tab) -> None:
        address = tab.url
        page = await within(context.new_page(), limits.CALL_S)
        self._watch(tab, page)
        with contextlib.suppress(Exception):
            await self._attach(tab, page)
        if address == BLANK:
            return
        try:
            source = f"({script('store.js')})({json.dumps(tab.storage)})"
            async with await within(page.add_init_script(source), limits.CALL_S):
                await within(page.goto(address, wait_until="commit"), self.settings.load_s)
        except Exception as exc:
            tab.note(f"{address[:200]} could not be opened again: {first_line(exc)}")

    def _watch(self, tab: Tab, page: Page) -> None:
        tab.watch(
            page,
            on_popup=lambda popup: self._add_popup(tab, popup),
            loads=lambda download: self.downloads.begin(tab, download, self.shared.artifacts),
        )

    async def _attach(self, tab: Tab, page: Page) -> None:
        """Listen to what the browser itself says of a page, also when the page does not answer any more."""
        cdp = await within(page.context.new_cdp_session(page), limits.CALL_S)
        cdp.on("Page.downloadWillBegin", lambda event: tab.download_ids.append((event["url"], event["guid"])))
        cdp.on("Page.frameScheduledNavigation", tab.leads_on)
        cdp.on("Page.windowOpen", tab.opens)
        await within(cdp.send("Page.enable"), limits.CALL_S)
        if asking := [host for host, names in self.settings.logins.items() if len(names) == 2]:
            cdp.on("Fetch.requestPaused", lambda event: self._later(_go_on(cdp, event)))
            params = {"handleAuthRequests": True, "patterns": [{"urlPattern": f"*://{host}/*"} for host in asking]}
            cdp.on("Fetch.authRequired", lambda event: self._later(self._log_in(cdp, event)))
            await within(cdp.send("Fetch.enable", params), limits.CALL_S)
        tab.cdp = cdp

    async def _log_in(self, cdp: CDPSession, event: Any) -> None:
        """Answer a site that asks for user and password by HTTP, once for each request."""
        login = self.credentials.get(host_of(str(event["authChallenge"]["origin"])))
        answer = {"response": "CancelAuth"}  # the page with status 401 is shown
        if login is not None and event["requestId"] not in self._answered:
            self._answered.add(event["requestId"])
            answer = {"response": "ProvideCredentials", "username": login[0], "password": login[1]}
        await cdp.send("Fetch.continueWithAuth", {"requestId": event["requestId"], "authChallengeResponse": answer})

    def _add_popup(self, opener: Tab, page: Page) -> None:
        """Add a tab for a page that a page opened, the current one of whoever worked in the other."""
        if len(self.tabs) >= limits.MOST_TABS:
            opener.note(
                f"the page opened another tab, which was closed: {limits.MOST_TABS} are open, the most there are"
            )
            page.on("download", refuse)
            self._later(page.close())
            return
        tab = self._new_tab(opener.agent)
        self._watch(tab, page)
        self._later(self._attach(tab, page))
        users = [agent for agent, number in self.current.items() if number == opener.number]
        for agent in users:
            self.current[agent] = tab.number
        if users:
            tab.note(f"tab {opener.number} opened this tab, {tab.number}, which is the current one now")

    async def _tidy(self) -> None:
        """Forget tabs whose pages closed themselves, not those of a browser that is gone; close pages of no tab."""
        if not self._open or self._context is None:
            return
        pages = [tab.page for tab in self.tabs.values()]
        for page in self._context.pages:
            if page not in pages:  # of a worker that opened a window, or given up and not closed yet
                self._later(page.close())
        closed = [tab for tab in self.tabs.values() if tab.page is not None and tab.page.is_closed()]
        if closed and not await self.shared.answers(limits.CALL_S):
            self.shared.kill(self._generation)
            return
        for tab in closed:
            self._forget(tab, f"tab {tab.number} was closed by its page")

    def _forget(self, tab: Tab, reason: str) -> None:
        """Drop a tab; whoever worked in it goes on in the newest one that nobody else works in."""
        tab.lose()
        self.tabs.pop(tab.number, None)
        for agent in [name for name, number in self.current.items() if number == tab.number]:
            del self.current[agent]
            free = [
                tab.number
                for tab in self.tabs.values()
                if tab.number not in self.current.values() and tab.agent in ("", agent)
            ]
            if free:
                self.current[agent] = max(free)
                self.tabs[max(free)].note(reason)

    async def close_tab(self, tab: Tab) -> None:
        page = tab.page
        self._forget(tab, f"tab {tab.number} was closed")
        if page is not None:
            await self._try(page.close())

    async def _try(self, call: Awaitable[Any]) -> None:
        with contextlib.suppress(Exception):
            await within(call, limits.CALL_S)

    def _later(self, call: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(self._try(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def tab(self, agent: str, *, responsive: bool = False) -> Tab:
        """Return an agent's current tab; its page is open, and with `responsive` it answers.

        A page that does not answer is otherwise found out by the first call on it (`run`).
        """
        await self._tidy()
        context = await self.context()
        if (tab := self.tabs.get(self.current.get(agent, 0))) is None:
            tab = self._new_tab(agent)
            self.current[agent] = tab.number
        self._uses += 1
        tab.used = self._uses
        tab.agent = tab.agent or agent
        is_dead = tab.dead or (tab.page is not None and tab.page.is_closed())
        if tab.page is not None and tab.dialog is None and (is_dead or (responsive and not await self._answers(tab))):
            tab.note(await self.heal(tab))
            context = await self.context()
        if tab.page is None:
            try:
                await self._open_page(context, tab)
            except Exception:
                await self._begin_again()
                with _explain("the browser opens no pages on this machine now"):
                    await self._open_page(await self.context(), tab)
        return tab

    def release(self, agents: Iterable[str]) -> None:
        """Take the tabs from agents that have ended; whoever wants one may take or close it."""
        for agent in agents:
            self.current.pop(agent, None)
            for tab in self.tabs.values():
                tab.agent = "" if tab.agent == agent else tab.agent

    async def answer(self, tab: Tab, accept: bool, text: str | None = None) -> None:
        """Answer the dialog that a tab waits with; `text` is for a prompt."""
        dialog, tab.dialog = tab.dialog, None
        if dialog is None:
            return
        if tab.dialogs >= MOST_DIALOGS:
            tab.note(await self._replace(tab, f"opened {tab.dialogs} dialogs one after the other"))
            return
        tab.interruption.clear()
        await self._try(dialog.accept(text) if accept else dialog.dismiss())
        # The next one, of a page that asks without an end, comes at once.
        with contextlib.suppress(TimeoutError):
            await within(tab.interruption.wait(), 0.1)

    async def run(self, tab: Tab, stage: str, make: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """Return the result of a call on a tab, which has so many seconds (None for `CALL_S`).

        Raises DialogOpened, or a ToolError that begins with `stage`: then the page answers again, or was replaced.
        """
        if tab.dialog is not None:
            raise DialogOpened
        api = playwright_api()
        limit = seconds if seconds is not None else limits.CALL_S
        if not tab.dead:
            tab.interruption.clear()
        loop = asyncio.get_running_loop()
        over = loop.create_future()

        def end(*_: Any) -> None:
            if not over.done():
                over.set_result(None)

        call = asyncio.ensure_future(make())
        call.add_done_callback(end)
        timer = loop.call_later(limit, end)
        tab.waiting.append(end)
        try:
            if not tab.interruption.is_set():
                await over
            if not call.done() and tab.interruption.is_set() and tab.dialog is None:
                # Of a page that is gone the call knows, too.
                await asyncio.wait({call}, timeout=1)
            if call.done():
                return call.result()
            if tab.dialog is not None:
                raise DialogOpened
            problem = f"{stage} took longer than {limit:g} s"
        except api.TimeoutError as exc:
            problem = f"{stage} was not possible in time ({first_line(exc)})"
        except api.Error as exc:
            if tab.dialog is not None:
                raise DialogOpened from None
            if self._open and not tab.dead and not (tab.page is None or tab.page.is_closed()):
                raise ToolError(f"{stage} failed: {first_line(exc)}") from None
            problem = f"{stage} was not possible"
        except Exception:
            if self._open:
                raise  # what the call itself found wrong
            problem = f"{stage} was not possible"
        finally:
            timer.cancel()
            tab.waiting.remove(end)
            if not call.done():
                call.cancel()
                call.add_done_callback(lambda done: done.cancelled() or done.exception())
        note = await self.heal(tab)
        raise ToolError(f"{problem}{f'; {note}' if note else ''}")

    async def heal(self, tab: Tab) -> str:
        """Help a page that does not do what it should, as mildly as possible; return what was done, "" for nothing."""
        await self._tidy()
        if not self._open:
            await self._begin_again()
            return f"the browser ended unexpectedly and was started again; {_AGAIN}"
        if tab.number not in self.tabs:
            return "its tab is closed"
        if tab.dead:
            return await self._replace(tab, "crashed")
        if tab.page is None or await self._answers(tab):
            return ""
        if not await self.shared.answers(limits.CALL_S):
            await self._begin_again()
            return f"the browser did not answer any more, and another one was started; {_AGAIN}"
        if tab.cdp is not None:
            with contextlib.suppress(Exception):
                await within(tab.cdp.send("Page.stopLoading"), limits.CALL_S / 2)
            if await self._answers(tab):
                tab.loading = False
                return "its loading was stopped; what is there can be used"
        return await self._replace(tab, "did not answer any more")

    async def _answers(self, tab: Tab) -> bool:
        if tab.page is None or tab.dead or tab.page.is_closed():
            return False
        try:
            await within(tab.page.evaluate("1"), limits.CALL_S / 2)
        except Exception:  # whatever is wrong with it
            return tab.dialog is not None
        return True

    async def _replace(self, tab: Tab, problem: str) -> str:
        """Close a tab's page, which `problem` (`crashed`) is wrong with, and give it an empty one."""
        page, was = tab.page, tab.address
        tab.lose()
        tab.url = BLANK
        note = f"the page {problem} and was closed, its tab is empty now; open {was[:200]} again, or go another way"
        try:
            if page is not None:
                await within(page.close(), limits.CALL_S)
            await self._open_page(await self.context(), tab)
        except Exception:
            if await self._reopen():
                return f"{note}; {_AGAIN}"
            await self._begin_again()
            return f"the page {problem}, and the browser with it; another one was started; {_AGAIN}"
        return note

    async def _reopen(self) -> bool:
        """Close the whole context and open another one; return whether that was possible."""
        context = self._context
        if context is None or not await self.shared.answers(limits.CALL_S):
            return False
        try:
            await within(context.close(), limits.CALL_S)
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

    async def save(self) -> None:
        """Note in `kept` what has to be there after a crash."""
        self.kept |= {"tabs": addresses(self.tabs.values()), "current": dict(self.current), "next": self._next}
        self.kept["downloads"] = self.downloads.to_json()
        if self._open and self._context is not None:
            await self._keeper.keep(self._context, self.tabs.values())

    async def close(self) -> None:
        context, self._context = self._context, None
        await self.downloads.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._shared is not None:
            if context is not None and self._shared.serves_others(self):  # else it ends with the browser
                await self._try(context.close())
            await self._shared.release(self)
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.close()
