"""What stands in the way of an agent and is for a person: captchas and logins."""

from __future__ import annotations

import re
from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser.actions.targets import Hands
from agentorchestra.environments.browser.scripts import of_page

_CAPTCHAS = re.compile(
    r"^https?://[^/]*(?:recaptcha|hcaptcha|captcha-delivery|arkoselabs|funcaptcha|geetest|perimeterx|px-cloud)[^/]*/|"
    r"/recaptcha/(?:api2|enterprise)/(?:anchor|bframe)|^https?://challenges\.cloudflare\.com/|/cdn-cgi/challenge-platform/"
)


class Walls(Hands):
    """What is for a person."""

    async def walls(self, ctx: Any) -> list[str]:
        """Return a sentence for each wall that the page of this agent's tab looks like, for the state."""
        page = await self.tab(ctx)
        said = []
        if any(_CAPTCHAS.search(frame.url) for frame in page.frames):
            said.append("The page has a captcha. It is for a person: you may ask with browser_ask_human.")
        try:
            asks = await self.within("looking for a login", lambda: page.evaluate(of_page("asksPassword")))
        except ToolError:
            return said
        if asks:
            said.append(
                "The page asks for a password. If the task needs it, use the one that the task gives; "
                "without one you may ask with browser_ask_human."
            )
        return said


__all__ = ["Walls"]
