"""Pages that nobody here reads (`web.deny`), in whatever way their addresses are written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from agentorchestra.core.errors import SettingsError
from agentorchestra.tools.web.addresses import web_error


class DeniedPages:
    """Sites and parts of sites: `HOST` with its subdomains, `HOST/PATH` for what begins so.

    An archive's copy of a page has the page's address in its own (`archive.example/2024/https://HOST/PATH`), and so has
    what a reading service is asked for: those are denied too.

    Raises:
        SettingsError: an entry names no host.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._pages = {name: _pattern(name) for name in names}

    def holds(self, url: str) -> bool:
        return bool(self._entry(url))

    def refuse(self, url: str) -> None:
        """Raise a WebError of kind `refused` for the address of a denied page."""
        if entry := self._entry(url):
            reason = f"is not read: the setting web.deny names {entry!r}; use another source"
            raise web_error(url, reason, "refused")

    def _entry(self, url: str) -> str:
        plain = unquote(unquote(url)).lower()
        return next((entry for entry, pattern in self._pages.items() if pattern.search(plain)), "")


def _pattern(name: str) -> re.Pattern[str]:
    host, slash, path = name.strip().lower().partition("/")
    if not re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?", host):
        raise SettingsError(
            f"web.deny holds {name!r}, which names no page; write 'example.org' for a site with all below it, or "
            "'example.org/folder' for a part of it"
        )
    port = "" if ":" in host else r"(?::\d+)?"
    rest = re.escape(slash + path) if path else r"(?![\w-])(?!\.\w)"
    return re.compile(rf"(?<![\w-]){re.escape(host)}{port}{rest}")
