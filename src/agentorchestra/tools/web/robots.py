"""robots.txt: what a site asks of programs that read it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from agentorchestra.core.errors import WebError
from agentorchestra.tools.web.addresses import WebAddress, web_error
from agentorchestra.tools.web.http import WebClient

KEPT_S = 3_600.0
MOST_BYTES = 500 * 1024  # as RFC 9309 asks for at least; what follows is not read


@dataclass
class _Rules:
    until: float
    text: str
    status: int


class Robots:
    """The rules of sites, each asked for once an hour."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._known: dict[tuple[str, str, int], _Rules] = {}

    async def check(self, address: WebAddress) -> None:
        """Refuse a page by RFC 9309: a site without rules allows everything, one that fails nothing."""
        rules = self._known.get(address.origin)
        if rules is None or rules.until < time.monotonic():
            rules = await self._ask(address)
            if len(self._known) >= 500:
                self._known.clear()
            self._known[address.origin] = rules
        reason = ""
        if rules.status >= 500:
            text = f"which says what programs may read, answered {rules.status}; try it later, or read another source"
            reason = f"is not read: the site's robots.txt, {text}"
        elif rules.text:
            from protego import Protego

            if not Protego.parse(rules.text).can_fetch(address.url, self._client.settings.user_agent):
                way_out = "read another source (the user can set web.robots = false)"
                reason = f"is not read: the site's robots.txt asks programs not to; {way_out}"
        if reason:
            raise web_error(address.url, reason, "refused")

    async def _ask(self, address: WebAddress) -> _Rules:
        place = WebAddress(address.scheme, address.host, address.port, "/robots.txt")
        try:
            answer = await self._client.get(place.url, max_bytes=MOST_BYTES, cut=True, timeout_s=10.0, retry=False)
        except WebError:
            # What is wrong with the site is said of the page itself.
            return _Rules(time.monotonic() + 60.0, "", 0)
        text = answer.body.decode("utf-8-sig", "replace") if answer.ok else ""
        wait = KEPT_S if answer.status < 500 else 60.0
        return _Rules(time.monotonic() + wait, text, answer.status)
