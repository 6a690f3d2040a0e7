"""The environment `browser`: pages in a real Chromium, one context for each run and world (000, app. D.5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.arguments import Inside, host_of
from agentorchestra.environments.browser.actions.base import agent_of, dialog_sentence
from agentorchestra.environments.browser.actions.logins import LoginActions
from agentorchestra.environments.browser.actions.navigation import NavigationActions
from agentorchestra.environments.browser.actions.pdfs import PdfActions
from agentorchestra.environments.browser.actions.pointer import PointerActions
from agentorchestra.environments.browser.actions.steps import StepActions
from agentorchestra.environments.browser.actions.video import VideoActions
from agentorchestra.environments.browser.session.boundary import Boundary, block_reason
from agentorchestra.environments.browser.session.chromium import check_installed
from agentorchestra.environments.browser.session.session import DialogOpened
from agentorchestra.environments.browser.session.tabs import BLANK, Tab
from agentorchestra.environments.browser.view.lines import lines_with
from agentorchestra.environments.browser.view.screenshots import marked_screenshot, wants_picture
from agentorchestra.environments.browser.view.text import without_password
from agentorchestra.environments.browser.view.view import difference, look
from agentorchestra.environments.folder import rules_text
from agentorchestra.environments.registry import EnvironmentParts
from agentorchestra.tea.calling.environment import action

if TYPE_CHECKING:
    from playwright.async_api import Page

    from agentorchestra.environments.browser.view.view import PageView

_MOST_DOWNLOADS = 10
_MOST_ADDRESS = 300
_SHOWN_CHARS, _LOOKED_AT_CHARS = 12_000, 400_000  # of what `find_elements` shows, and of what it looks through
_FRESH_S = 0.1  # how long what the probe saw at the end of an action is as good as a new look
_LOOKS = 2.5  # times `CALL_S` that a look at a page takes at most: of a large page a second, plainer one is taken


_AGAIN = frozenset(
    {
        *("go_to_url", "go_back", "go_forward", "reload", "open_tab", "switch_tab", "close_tab", "wait", "scroll"),
        *("scroll_to_text", "hover", "read_page", "screenshot", "find_elements", "pdf_viewer"),
        "video_viewer",
    }
)
"""Navigation by GET, looks and waits. A click, a key, a text or a file may have had an effect that is had once."""

_NEWS = 3  # how many times shorter than the page what changed must be to be told besides


class Browser(VideoActions, PdfActions, LoginActions, PointerActions, NavigationActions, StepActions):
    """Pages of the web in a real browser."""

    name = "browser"
    begins_with = frozenset({"act", "look"})

    @classmethod
    def from_parts(cls, parts: EnvironmentParts) -> Browser:
        return cls(parts.settings.browser, parts.settings.web)

    def repeatable(self, action: str) -> bool:
        """Return True if it may be done again after a crash: pages are got again, nothing was given to them."""
        return action in _AGAIN

    def check(self) -> None:
        """Refuse what cannot work here, before anything is spent.

        Raises:
            MissingExtraError: what has to be installed.
            SettingsError: lists of hosts that hold something else.
        """
        check_installed(self.settings.executable)
        settings = self.settings
        Boundary(self.web, private=settings.private, allow=settings.allow, deny=settings.deny)

    def rules(self) -> str:
        """Return state, vision and interaction, see 000, app. H."""
        return rules_text(self.name)

    def rules_before(self) -> str:
        """Return the rules of runs that were recorded before `begins_with`."""
        return rules_text("browser_before")

    async def state(self) -> tuple[Block, ...]:
        """List the tabs, for whoever looks from outside; an agent sees the page of its own tab as well."""
        lines = self._tab_lines("") or ["no page is open"]
        return (TextBlock(text="\n".join(lines), source=Source(kind="environment", ref=self.name)),)

    async def state_for(self, ctx: Any) -> tuple[Block, ...]:
        """Return address, tabs, dialog, downloads, last error, and the page of this agent's current tab."""
        if agent_of(ctx) not in self.session.current:  # nothing is opened for one who only looks
            return await self.state()
        page: list[str] = []
        picture: tuple[Block, ...] = ()
        for _ in range(2):
            generation = self.session.shared.generation
            try:
                page, picture = await self._page_view(ctx, await self.current(ctx))
            except DialogOpened:
                pass
            except (ToolError, TimeoutError) as exc:
                page = [f"the page cannot be shown: {exc}"]
                if self._tab is not None and 0 < generation < self.session.shared.generation:
                    continue  # the browser was lost: the page is opened again
            break
        if self._tab is None:  # there is no browser
            source = Source(kind="environment", ref=self.name)
            return (TextBlock(text="\n".join([*self._tab_lines(agent_of(ctx)), *page]), source=source),)
        tab = self._tab
        lines = [*self._tab_lines(agent_of(ctx)), *(f"note: {note}" for note in self.news(tab))]
        if tab.dialog is not None:
            lines.append(dialog_sentence(tab))
        loading = [file for file in self.session.downloads.all if file.state == "under way"]
        lines += [f"download: {file.sentence}" for file in loading[-_MOST_DOWNLOADS:]]
        if tab.error:
            lines.append(f"last error of a script: {tab.error}")
        for neighbour in self.session.tabs.values():  # their addresses stand in the lines
            tab.note_site(neighbour.address)
        url, *rest = tab.sources()
        source = Source(kind="web", ref=url)
        also = (
            TextBlock(text=f"shown there too: {other}", source=Source(kind="web", ref=other), trust=Trust.UNTRUSTED)
            for other in rest
        )
        return (TextBlock(text="\n".join([*lines, *page]), source=source, trust=Trust.UNTRUSTED), *picture, *also)

    def _tab_lines(self, agent: str) -> list[str]:
        current = self.session.current.get(agent, 0)
        foreign = {number for number in self.session.current.values() if number != current}
        foreign |= {tab.number for tab in self.session.tabs.values() if tab.agent not in ("", agent)}
        lines = []
        for tab in self.session.tabs.values():
            owner = " (current)" if tab.number == current else " (of another agent)" if tab.number in foreign else ""
            lines.append(f"tab {tab.number}{owner}: {tab.address[:_MOST_ADDRESS]}")
        return lines

    async def _page_view(self, ctx: Any, tab: Tab) -> tuple[list[str], tuple[Block, ...]]:
        """Return title and elements of a tab's page, what changed since this agent saw it last, and a picture of it."""
        page = tab.page
        assert page is not None
        if reason := block_reason(page.url):
            return [reason], ()
        if page.url == BLANK:
            return ["the tab is empty"], ()
        if await self.is_pdf(tab):
            return ["it is a PDF document, which pdf_viewer reads"], ()
        async with self.session.shared.look():
            limit = limits.CALL_S
            answer = self._fresh_probe(tab)
            view = await self.within(
                "looking at the page", lambda: look(page, seconds=limit, answer=answer), seconds=_LOOKS * limit
            )
            picture = await self._picture(ctx, page, view) if wants_picture(self.settings.screenshots, ctx) else ()
        changed = difference(self._views.get(agent_of(ctx)), view)
        self._views[agent_of(ctx)] = view
        text = view.text
        news = [changed] if changed is not None and len(changed) * _NEWS < len(text) else []
        site = [f"site: {host}"] if (host := host_of(page.url)) else []
        walls = self.walls(page, asks_password=view.asks_password)
        return [f"title: {view.title}", *site, *walls, text, *news], picture

    def _fresh_probe(self, tab: Tab) -> Any:
        """Return what the probe saw when the last action had settled, once; None if that is a while ago."""
        (when, document, answer), tab.probe = tab.probe or (0.0, 0, None), None
        fresh = asyncio.get_running_loop().time() - when < _FRESH_S and document == tab.documents
        return answer if fresh and not tab.loading else None

    async def _picture(self, ctx: Any, page: Page, view: PageView) -> tuple[Block, ...]:
        """Return a picture of the page with references; nothing if it cannot be taken: the text says what there is."""
        try:
            data = await self.within("taking a picture of the page", lambda: marked_screenshot(page, view))
        except ToolError:
            return ()
        image = await ctx.artifact("browser/page.jpg", data, "image/jpeg")
        source = Source(kind="web", ref=without_password(page.url))
        return (
            MediaBlock(media_type="image/jpeg", sha256=image.sha256, size=image.size, name="the page", source=source),
        )

    @action(effect="read")
    async def find_elements(self, ctx: Any, text: Inside = "") -> str:
        """Elements of the whole page with references, also out of view; actions scroll to them.

        Args:
            text: words that they hold, capitals or not; empty for all of them, shortened.
        """
        page = await self.tab(ctx)
        limit, words = limits.CALL_S, text.strip()
        async with self.session.shared.look():
            view = await self.within(
                "looking at the page",
                lambda: look(page, whole=True, budget=_LOOKED_AT_CHARS if words else _SHOWN_CHARS, seconds=limit),
                seconds=_LOOKS * limit,
            )
        lines = lines_with(view.lines, words, _SHOWN_CHARS) if words else view.lines
        if not lines:
            large = "; the page is large, and not all of it was looked at: try scroll_to_text" if view.sketch else ""
            raise ToolError(f"no element of the page holds {words!r}{large}")
        return "\n".join((*view.remarks, *lines))

    async def leave(self) -> None:
        """Close the pages; what is kept is put back."""
        session, self._session, self._tab = self._session, None, None
        if session is not None:
            await session.close()

    async def restored(self) -> None:
        """Close the pages; they are opened again when they are needed, with what is kept."""
        await self.leave()

    async def close(self) -> None:
        await self.leave()
        await super().close()
