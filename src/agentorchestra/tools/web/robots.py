"""robots.txt: what a site asks of programs that read it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from agentorchestra.core.errors import WebError
from agentorchestra.tools.web.addresses import Address, shown_address
from agentorchestra.tools.web.http import WebClient

KEPT_S = 3_600.0
MOST_BYTES = 500 * 1024  # as RFC 9309 asks for at least; what follows is not read
_TIMEOUT_S = 10.0
_MOST_SITES = 500


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

    async def check(self, address: Address) -> None:
        """Refuse a page by RFC 9309: a site without rules allows everything, one that fails nothing."""
        rules = self._known.get(address.origin)
        if rules is None or rules.until < time.monotonic():
            rules = await self._ask(address)
            if len(self._known) >= _MOST_SITES:
                self._known.clear()
            self._known[address.origin] = rules
        shown = shown_address(address.url)
        if rules.status >= 500:
            raise WebError(
                f"{shown} is not read: the site's robots.txt, which says what programs may read, answered "
                f"{rules.status}; try it later, or read another source",
                kind="refused",
                url=shown,
            )
        if rules.text and not _allowed(rules.text, address.url, self._client.settings.user_agent):
            raise WebError(
                f"{shown} is not read: the site's robots.txt asks programs not to; read another source (the user can "
                "set web.robots = false)",
                kind="refused",
                url=shown,
            )

    async def _ask(self, address: Address) -> _Rules:
        place = Address(address.scheme, address.host, address.port, "/robots.txt")
        try:
            answer = await self._client.get(
                place.url, max_bytes=MOST_BYTES, cut=True, timeout_s=_TIMEOUT_S, retry=False
            )
        except WebError:
            # What is wrong with the site is said of the page itself.
            return _Rules(time.monotonic() + 60.0, "", 0)
        text = answer.body.decode("utf-8-sig", "replace") if answer.ok else ""
        wait = KEPT_S if answer.status < 500 else 60.0
        return _Rules(time.monotonic() + wait, text, answer.status)


def _allowed(text: str, url: str, agent: str) -> bool:
    from protego import Protego

    return bool(Protego.parse(text).can_fetch(url, agent))


__all__ = ["Robots"]
