"""Somebody who works the browser by its actions, and knows of pages only what the state shows."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.site.browser import BrowserSite, browser_site

from agentorchestra import Workspace
from agentorchestra.core.content import text_of
from agentorchestra.core.effects import Outcome
from agentorchestra.core.settings import BrowserSettings, Settings, WebSettings
from agentorchestra.trust.policy import AllowAll


@dataclass
class Hand:
    """Works the browser of a workspace, outside of runs.

    Attributes:
        said: what the last action said.
    """

    ws: Workspace
    site: BrowserSite
    said: str = ""

    async def did(self, action: str, **arguments: Any) -> Outcome:
        """An action, however it ends."""
        outcome = await self.ws.ecp.invoke("browser", action, arguments)
        self.said = outcome.error or text_of(outcome.blocks())
        return outcome

    async def do(self, action: str, **arguments: Any) -> str:
        """An action that is to succeed; what it said."""
        outcome = await self.did(action, **arguments)
        assert outcome.ok, f"{action} {arguments}: {outcome.status} {outcome.error}"
        return self.said

    async def fail(self, action: str, **arguments: Any) -> str:
        """An action that is to fail; the sentence."""
        outcome = await self.did(action, **arguments)
        assert not outcome.ok, self.said
        assert outcome.status in ("error", "mistake"), outcome
        assert "\n" not in self.said and "Traceback" not in self.said, self.said
        return self.said

    async def open(self, page: str) -> str:
        """A page of the site."""
        return await self.do("go_to_url", url=f"{self.site.address}/{page}")

    async def state(self) -> str:
        """What an agent sees."""
        return text_of(await self.ws.ecp.state("browser"))

    async def ref(self, name: str, role: str = "") -> str:
        """The reference of what has a name, taken from the state."""
        state = await self.state()
        found = re.search(rf'\[([\w]+)\] {role or "[a-z]+"} "{re.escape(name)}"', state)
        assert found is not None, f"{role} {name!r} is not in the state:\n{state}"
        return found[1]

    async def click(self, name: str, role: str = "", **more: Any) -> str:
        """What has a name."""
        return await self.do("click", ref=await self.ref(name, role), **more)

    async def fill(self, name: str, text: str, **more: Any) -> str:
        """The field that has a name."""
        return await self.do("input_text", ref=await self.ref(name), text=text, site=self.site.host, **more)

    @property
    def folder(self) -> Path:
        """The folder of the run that these calls are in."""
        run = self.ws.runs.calls
        assert run is not None
        return self.ws.files.folder(run)


@asynccontextmanager
async def at_work(folder: Path, *, private: tuple[str, ...] = (), **given: Any) -> AsyncIterator[Hand]:
    """A workspace with a browser, and the site that it may reach.

    Args:
        folder: of the workspace.
        private: further services of this machine that may be reached.
        given: to the workspace.
    """
    async with browser_site() as site:
        settings = Settings(
            browser=BrowserSettings(private=(site.host, *private)), web=WebSettings(private=(site.host, *private))
        )
        async with Workspace(folder, settings=settings, policy=AllowAll(), **given) as ws:
            yield Hand(ws, site)


__all__ = ["Hand", "at_work"]
