"""The action that looks at all of a page, with references for what is not in view too."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser.actions.arguments import Inside
from agentorchestra.environments.browser.actions.targets import Hands
from agentorchestra.environments.browser.view.lines import lines_with
from agentorchestra.environments.browser.view.view import look
from agentorchestra.tea.calling.environment import action

_SHOWN_CHARS = 12_000
_LOOKED_AT_CHARS = 400_000
_TIMES = 2.5  # times `call_s` that it takes at most, see `Browser.state_for`


class Looking(Hands):
    """The eyes for what lies out of view."""

    @action(mutates=False)
    async def find_elements(self, ctx: Any, text: Inside = "") -> str:
        """Elements of the whole page with references, also those that are not in view; actions scroll to them.

        Args:
            text: words that they hold, capitals or not; empty for all of them, shortened.
        """
        page = await self.tab(ctx)
        limit, words = self.settings.call_s, text.strip()
        async with self.session.shared.look():
            view = await self.within(
                "looking at the page",
                lambda: look(page, whole=True, budget=_LOOKED_AT_CHARS if words else _SHOWN_CHARS, seconds=limit),
                seconds=_TIMES * limit,
            )
        lines = lines_with(view.lines, words, _SHOWN_CHARS) if words else view.lines
        if not lines:
            large = "; the page is large, and not all of it was looked at: try scroll_to_text" if view.drawn else ""
            raise ToolError(f"no element of the page holds {words!r}{large}")
        return "\n".join((*view.remarks, *lines))


__all__ = ["Looking"]
