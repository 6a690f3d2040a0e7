"""A Chromium for tests of the view, without the environment around it; pages are given as text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from playwright.async_api import BrowserContext, Locator, Page, async_playwright

from agentorchestra.environments.browser.session.chromium import find_chromium, flags
from agentorchestra.environments.browser.view.references import listen, locate, teach
from agentorchestra.environments.browser.view.view import PageView, look


@dataclass
class Eyes:
    """Looks at one page after the other.

    Attributes:
        context: of the browser.
        page: the one that is open.
        view: what was seen last.
    """

    context: BrowserContext
    page: Page
    view: PageView | None = None

    async def show(self, html: str) -> str:
        """What is seen of a new page."""
        await self.page.goto("about:blank")
        await self.page.set_content(html, timeout=60_000)
        return await self.see()

    async def see(self, **how: object) -> str:
        """What is seen now."""
        self.view = await look(self.page, **how)  # type: ignore[arg-type]
        return self.view.text

    def ref(self, start: str) -> str:
        """The reference of the first line that goes on like this after it."""
        assert self.view is not None
        found = re.search(rf"\[(\w+)\] {start}", self.view.text)
        assert found is not None, f"{start} is not in\n{self.view.text}"
        return found[1]

    async def at(self, start: str) -> Locator:
        """The element of that line."""
        found = await locate(self.page, self.ref(start))
        assert found is not None
        return found


@asynccontextmanager
async def eyes() -> AsyncIterator[Eyes]:
    """A browser with one page."""
    async with async_playwright() as playwright:
        await teach(playwright)
        chromium = playwright.chromium
        browser = await chromium.launch(
            executable_path=find_chromium("", chromium.executable_path),
            args=[
                flag for flag in flags() if "proxy" not in flag and "resolver" not in flag
            ],  # there is no boundary here
            headless=True,
        )
        context = await browser.new_context(viewport={"width": 1000, "height": 700})
        context.set_default_timeout(60_000)
        await listen(context)
        yield Eyes(context, await context.new_page())
        await browser.close()


__all__ = ["Eyes", "eyes"]
