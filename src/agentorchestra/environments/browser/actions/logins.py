"""Passwords that agents use and never see, and what on a page is for a person: captchas and logins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agentorchestra.core.errors import MissingKeyError, ToolError
from agentorchestra.environments.browser.actions.arguments import Ref, Site, host_of, same_site
from agentorchestra.environments.browser.actions.keyboard import KeyboardActions, refuse
from agentorchestra.environments.browser.view.script_results import Field, as_told
from agentorchestra.tea.calling.environment import action

if TYPE_CHECKING:
    from playwright.async_api import Page

_CAPTCHAS = re.compile(
    r"^https?://[^/]*(?:recaptcha|hcaptcha|captcha-delivery|arkoselabs|funcaptcha|geetest|perimeterx|px-cloud)[^/]*/|"
    r"/recaptcha/(?:api2|enterprise)/(?:anchor|bframe)|^https?://challenges\.cloudflare\.com/|/cdn-cgi/challenge-platform/"
)


class LoginActions(KeyboardActions):
    @action(effect=("write", "send"))
    async def fill_secret(self, ctx: Any, ref: Ref, name: Ref, site: Site) -> str:
        """Fill a field with a user name or password that you know by its name only.

        Args:
            ref: the field's reference.
            name: of the secret, as the task or the state gives it.
            site: the host of the page or frame, as the state shows it.
        """
        now = await self.field(ctx, ref)
        address = await self.address_of(now)
        same_site(site, address)
        value = self._secret(ctx, name.strip(), host_of(address))
        refuse(ref, as_told(Field, await self.ask_at(f"looking at {ref}", now, "field")))
        locator = self.locator(now)
        await self.on(ref, lambda ms: locator.fill(value, timeout=ms))
        return f"{ref} is filled in with {name}; {await self.settle(ctx)}"

    def _secret(self, ctx: Any, name: str, host: str) -> str:
        names = self.settings.logins.get(host, ())
        if name not in names:
            hint = f"the secrets of {host}: {', '.join(names)}" if names else f"{host} has none"
            raise ToolError(
                f"{name!r} is no secret for {host}; {hint} (settings: browser.logins names the environment variables)"
            )
        try:
            return str(ctx.secret(name))
        except MissingKeyError:
            raise ToolError(f"the secret {name} is not set in the environment; set it and run again") from None

    def walls(self, page: Page, *, asks_password: bool) -> list[str]:
        """Return a sentence for each wall that a page looks like, and names of its secrets."""
        sentences = []
        if any(_CAPTCHAS.search(frame.url) for frame in page.frames):
            sentences.append("The page has a captcha. It is for a person: you may ask with browser_ask_human.")
        if asks_password:
            sentences.append(
                "The page asks for a password. If the task needs it, use the one that the task gives; "
                "without one you may ask with browser_ask_human."
            )
        if names := self.settings.logins.get(host_of(page.url), ()):
            sentences.append(f"Secrets for this site, by name with fill_secret: {', '.join(names)}.")
        return sentences
