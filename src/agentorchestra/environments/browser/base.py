"""`Acting`: what the actions of the environment `browser` are written with (navigating.py, pointing.py, ...)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue

from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import BrowserSettings, WebSettings
from agentorchestra.environments.browser.recording import pointed_at, take_frame
from agentorchestra.environments.browser.session import BrowserSession, DialogOpened, Tab
from agentorchestra.environments.folder import FolderEnvironment

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

T = TypeVar("T")

_SCHEMES = ("http://", "https://")


def agent_of(ctx: Any) -> str:
    """What names the agent that acts: the branch of its session, the same after a resume and in rival worlds of it.

    Args:
        ctx: the context of the effect, or of one that came out of it.
    """
    one = ctx
    # An agent has a part of the budget of its own; programs, composite actions and rivals have its agent's.
    while getattr(one, "parent", None) is not None and one.node is one.parent.node:
        one = one.parent
    return str(getattr(one, "branch", "/"))


class Acting(FolderEnvironment):
    """The tabs of a run, for the classes that hold the actions.

    Args:
        settings: of the section `browser`.
        web: of the section `web`: name servers, private services.
    """

    name = "browser"

    def __init__(self, settings: BrowserSettings | None = None, web: WebSettings | None = None) -> None:
        self.settings = settings or BrowserSettings()
        self.web = web or WebSettings()
        self._session: BrowserSession | None = None
        self._tab: Tab | None = None

    @property
    def confined(self) -> bool:
        """Downloads land in the run's folder, addresses are judged as the network's."""
        return True

    @property
    def session(self) -> BrowserSession:
        """The run's context and tabs."""
        if self._session is None:
            self._session = BrowserSession(self.settings, self.kept, self.web)
        return self._session

    async def current(self, ctx: Any) -> Tab:
        """This agent's current tab with all that is known of it; its page is open."""
        self._tab = await self.session.tab(agent_of(ctx))
        return self._tab

    async def tab(self, ctx: Any) -> Page:
        """The page of this agent's current tab."""
        page = (await self.current(ctx)).page
        assert page is not None
        return page

    async def element(self, ctx: Any, ref: str) -> Locator:
        """The element that has a reference in the state.

        Raises:
            ToolError: if there is none any more.
        """
        page = await self.tab(ctx)
        found = page.get_by_ref(ref)
        if not await self.within(f"finding {ref}", found.count):
            raise ToolError(
                f"there is no element {ref!r} on the page now; look at the state again and take a reference from it"
            )
        return found

    async def within(self, what: str, make: Callable[[], Awaitable[T]], *, seconds: float | None = None) -> T:
        """The result of a call on this agent's page (`tab`, `element`), which may take so long.

        Args:
            what: of the call, for the sentence: `clicking e12`.
            make: makes the call.
            seconds: None for `call_s` of the settings.

        Raises:
            ToolError: one sentence; the page answers again, or was replaced.
        """
        assert self._tab is not None, "ask for the tab first"
        return await self.session.run(self._tab, what, make, seconds)

    async def settled(self, ctx: Any) -> str:
        """Wait a moment for what an action set off; one line that says what changed."""
        page = await self.tab(ctx)
        return f"the page is {page.url}"

    def check_address(self, url: str) -> str:
        """An address that may be opened.

        Raises:
            ToolError: for any that is not of the web.
        """
        if not url.lower().startswith(_SCHEMES):
            raise ToolError(f"{url!r} is no address of the web; give one that begins with https:// or http://")
        return url

    async def act(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Any:
        """Do it, and keep what has to be there after a crash, and a picture of it for whoever records."""
        records = self.settings.record and self.mutates(action)
        point = await pointed_at(self._at_hand(ctx), ctx, arguments) if records else None
        try:
            value = await super().act(action, arguments, ctx)
            return value if self.composes(action) else self._sourced(value)
        except DialogOpened:
            return self._sourced("a dialog opened; answer it")
        finally:
            if self.mutates(action) and self._session is not None:
                await self._session.save()
            if records and self._session is not None:
                await take_frame(self._at_hand(ctx), ctx, action, self._session.shared.look(), point)

    def _at_hand(self, ctx: Any) -> Page | None:
        """The page of this agent's tab if it is open and waits for nobody; nothing is opened for this."""
        session = self._session
        tab = session.tabs.get(session.current.get(agent_of(ctx), 0)) if session is not None else None
        return tab.page if tab is not None and tab.dialog is None and not tab.crashed else None

    def _sourced(self, value: Any) -> Any:
        """What an action says, with the page as its source: policy asks where everything in view came from."""
        if not isinstance(value, str):
            return value
        url = self._tab.page.url if self._tab is not None and self._tab.page is not None else ""
        return TextBlock(text=value, source=Source(kind="web", ref=url), trust=Trust.UNTRUSTED)


__all__ = ["Acting", "agent_of"]
