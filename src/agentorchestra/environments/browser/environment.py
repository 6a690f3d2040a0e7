"""The environment `browser`: pages in a real Chromium, one context for each run and world (000, app. D.5)."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.protocols import RunContext
from agentorchestra.environments.browser.base import Acting, agent_of
from agentorchestra.environments.folder import rules_text
from agentorchestra.environments.registry import EnvironmentParts
from agentorchestra.tea.environment import action


class Browser(Acting):
    """Pages of the web in a real browser."""

    name = "browser"
    version = "1.0.0"

    @classmethod
    def packaged(cls, parts: EnvironmentParts) -> Browser:
        """As a workspace has it."""
        return cls(parts.settings.browser, parts.settings.web)

    def rules(self) -> str:
        """State, vision and interaction, see 000, app. H."""
        return rules_text(self.name)

    async def state(self) -> tuple[Block, ...]:
        """The page of whoever acted last."""
        return (TextBlock(text="no page is open", source=Source(kind="environment", ref=self.name)),)

    async def state_for(self, ctx: Any) -> tuple[Block, ...]:
        """The page of this agent's current tab."""
        if agent_of(ctx) not in self.session.current and not self.kept.get("tabs"):
            return await self.state()
        page = await self.tab(ctx)
        async with self.session.shared.look():
            text = await self.within("looking at the page", lambda: page.aria_snapshot(mode="ai"))
        title = await self.within("reading the title", page.title)
        source = Source(kind="web", ref=page.url)
        return (TextBlock(text=f"address: {page.url}\ntitle: {title}\n{text}", source=source, trust=Trust.UNTRUSTED),)

    async def leave(self) -> None:
        """Close the pages: what is kept is put back."""
        session, self._session, self._tab = self._session, None, None
        if session is not None:
            await session.close()

    async def restored(self) -> None:
        """Pages are opened again when they are needed, with what is kept."""
        await self.leave()

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.leave()
        await super().close()

    @action(tags=("read", "network"))
    async def go_to_url(self, ctx: RunContext[Any], url: str) -> str:
        """Open an address.

        Args:
            url: the address.
        """
        page = await self.tab(ctx)
        address = self.check_address(url)
        await self.within(
            f"opening {address}", lambda: page.goto(address, wait_until="commit"), seconds=self.settings.load_s
        )
        return await self.settled(ctx)

    @action(tags=("read", "network"))
    async def click(self, ctx: RunContext[Any], ref: str) -> str:
        """Click an element.

        Args:
            ref: its reference.
        """
        found = await self.element(ctx, ref)
        await self.within(f"clicking {ref}", found.click)
        return await self.settled(ctx)

    @action(tags=("send",))
    async def input_text(self, ctx: RunContext[Any], ref: str, text: str, site: str) -> str:
        """Type into a field, in place of what is in it.

        Args:
            ref: the field's reference.
            text: what is typed.
            site: the host of the page.
        """
        found = await self.element(ctx, ref)
        await self.within(f"typing into {ref}", lambda: found.fill(text))
        return await self.settled(ctx)


__all__ = ["Browser"]
