"""Reading a page: from the workspace's kept pages, else from the web, by the reader that the settings name."""

from __future__ import annotations

import asyncio
import http
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from agentorchestra.core.errors import SettingsError, WebError
from agentorchestra.core.settings import WebSettings
from agentorchestra.tools.web.addresses import WebAddress, parse_address, web_error
from agentorchestra.tools.web.http import Answer, WebClient
from agentorchestra.tools.web.page_cache import KeptPages
from agentorchestra.tools.web.pages import Page, page_of
from agentorchestra.tools.web.robots import Robots

Copies = Callable[[str], Awaitable[tuple[bytes, str] | None]]
_COPY = "read from the copy on this machine (fresh=true asks the site)"
CRAWLED_PAGES = 8  # that the crawler reads for one address, the first one included
_WORKERS = 4  # processes that read pages at the same time; each may take a gigabyte
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.8"


class WebPageReader:
    """Reads pages, and keeps them in the folder of the workspace; SettingsError for a reading service that is none.

    `copies` gives what this machine has of an address, and its media type; None where it has nothing.
    """

    def __init__(self, settings: WebSettings, folder: Path | None = None, copies: Copies | None = None) -> None:
        self.settings, self._copies = settings, copies
        self.client = WebClient(settings)
        self._kept = KeptPages(
            folder / "web" if folder is not None else None, int(settings.cache_mib * 1024 * 1024), settings.cache_s
        )
        self._robots = Robots(self.client)
        self._workers = asyncio.Semaphore(_WORKERS)
        if settings.reader == "service" and "{url}" not in settings.service_url:
            raise SettingsError(
                f"web.service_url is {settings.service_url!r}; with web.reader = 'service' it is the address of a "
                "reading service in which {url} stands for the page's, e.g. 'https://reader.example/{url}'"
            )

    async def page(
        self, url: str, *, fresh: bool = False, secret: Callable[[str], str] | None = None, encoding: str = ""
    ) -> tuple[Page, bytes, bool]:
        """Return a page, the bytes it was read from, and whether it was kept from an earlier time (not if `fresh`)."""
        address = parse_address(url)
        self.client.denied.refuse(address.url)  # before a service is asked for it, too
        reader = "text" if self.settings.reader == "crawler" else self.settings.reader
        copy = await self._copies(address.url) if self._copies is not None and not fresh else None
        if copy is not None:
            answer = Answer(address.url, 200, {"content-type": copy[1]}, copy[0])
            async with self._workers:
                page = await page_of(answer, address.url, "raw" if reader == "raw" else "text", encoding)
            return replace(page, notes=(*page.notes, _COPY)), answer.body, False
        if not fresh:
            cached = await asyncio.to_thread(self._kept.get, address.url, reader, encoding)
            if cached is not None:
                self.client.denied.refuse(cached[0].final_url)
                return (*cached, True)
        if reader == "service":
            answer = await self._by_service(address, secret)
        else:
            before = self._robots.check if self.settings.robots else None
            answer = await self.client.get(
                address.url, headers={"accept": _ACCEPT}, cut="text", before=before, refresh=True
            )
        if not answer.ok:
            raise _no_success(answer)
        async with self._workers:
            page = await page_of(answer, address.url, reader, encoding)
        if reader == "service":
            page = replace(page, final_url=address.url, redirects=())
        if not answer.truncation:
            await asyncio.to_thread(self._kept.put, page, answer.body, encoding)
        return page, answer.body, False

    async def linked_pages(self, first: Page, *, fresh: bool = False) -> AsyncIterator[Page | WebError]:
        """Give the pages of its site that a crawler reads besides the first, in order, or why not; else none."""
        if self.settings.reader != "crawler":
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.timeout_s
        own_urls = {first.url, first.final_url}
        urls = [url for url in _same_site(first) if url not in own_urls][: CRAWLED_PAGES - 1]
        for page in await asyncio.gather(*(self._by(until, url, fresh) for url in urls)):
            yield page

    async def _by(self, until: float, url: str, fresh: bool) -> Page | WebError:
        try:
            async with asyncio.timeout_at(until):
                return (await self.page(url, fresh=fresh))[0]
        except WebError as error:
            return error
        except TimeoutError:
            return WebError(f"{url} was not read in the time there was; fetch it by itself", kind="timeout", url=url)

    async def _by_service(self, address: WebAddress, secret: Callable[[str], str] | None) -> Answer:
        """Return what the service makes of a page: the page's address is sent to it."""
        # The service is asked for nothing that would not be read from here.
        await self.client.addresses(address, frozenset())
        if self.settings.robots:
            await self._robots.check(address)
        template = self.settings.service_url
        page_url = address.url if template.endswith("/{url}") else quote(address.url, safe="")
        headers = {"accept": "text/markdown, text/plain, text/html;q=0.5"}
        if self.settings.service_key_env and secret is not None:
            headers["authorization"] = f"Bearer {secret(self.settings.service_key_env)}"
        service = template.partition("{url}")[0]
        return await self.client.get(template.replace("{url}", page_url), headers=headers, allowed=(service,))


def _same_site(page: Page) -> list[str]:
    """Return the addresses of the same site that the text of a page links to, in its order, each once."""
    here = parse_address(page.final_url)
    urls: dict[str, None] = {}
    for match in re.finditer(r"\]\((https?://[^\s()]+(?:\([^\s()]*\)[^\s()]*)*)\)", str(page.document.get("text", ""))):
        try:
            address = parse_address(match[1])
        except WebError:
            continue
        if address.origin == here.origin:
            urls[address.url] = None
    return list(urls)


def _no_success(answer: Answer) -> WebError:
    try:
        phrase = http.HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "no known status"
    ways = {
        401: "it wants a login; read another source",
        403: "it does not let programs in; read another source",
        404: "there is no such page; check the address, or search for it",
        410: "the page is gone; look for it in an archive",
        429: "it asks to be left alone for a while; read another source, or try it later",
    }
    way_out = ways.get(answer.status, "try it later" if answer.status >= 500 else "read another source")
    return web_error(answer.url, f"answered {answer.status} ({phrase}): {way_out}", "bad_answer", answer.status)
