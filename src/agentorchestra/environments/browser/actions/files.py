"""Actions that bring files of the run's folder to a page, and files of a page into the folder."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.arguments import PagePoint, Ref, Site, same_site
from agentorchestra.environments.browser.actions.base import agent_of
from agentorchestra.environments.browser.actions.targets import TargetActions, address_of
from agentorchestra.environments.browser.session.chromium import playwright_api
from agentorchestra.environments.browser.session.downloads import Loaded
from agentorchestra.environments.files import disk
from agentorchestra.environments.files.disk import DiskPlace
from agentorchestra.tea.calling.environment import action

if TYPE_CHECKING:
    from playwright.async_api import FilePayload, Locator, Page

MOST_UPLOADED = 45_000_000  # bytes of one `upload`: what Playwright carries in one message is 50 MB
MOST_FILES = 20
_CHOOSER_S = 5.0
_LOOK_AGAIN_S = 0.05


class FileActions(TargetActions):
    @action(effect=("write", "read", "send"))
    async def upload(
        self, ctx: Any, ref: Ref, paths: Annotated[list[str], Field(min_length=1, max_length=MOST_FILES)], site: Site
    ) -> str:
        """Give files to a page.

        Args:
            ref: the file field, or the button that asks for files.
            paths: in the run's folder; the task's files are below files/.
            site: the host of the page or frame, as the state shows it.
        """
        await self.tab(ctx)
        locator = self.locator(ref)
        same_site(site, await self.address_of(ref))
        payloads = await self._payloads(paths)
        if await self.ask_at(f"looking at {ref}", ref, "isFileField"):
            await self.on(ref, lambda ms: locator.set_input_files(payloads, timeout=ms))
        else:
            await self._by_chooser(ctx, ref, locator, payloads, site)
        return f"{', '.join(paths)} given to {ref}; {await self.settle(ctx)}"

    async def _payloads(self, paths: list[str]) -> list[FilePayload]:
        payloads: list[FilePayload] = []
        left = MOST_UPLOADED
        for path in paths:
            place = self.place(path)
            if (data := await disk.in_thread(partial(disk.content_of, place, MOST_UPLOADED))) is None:
                raise ToolError(f"there is no file {place.path!r}; list the folder with the environment files")
            left -= len(data)
            if left < 0:
                raise ToolError(f"these files have more than {MOST_UPLOADED // 1_000_000} MB together; give fewer")
            kind = mimetypes.guess_type(place.path)[0] or "application/octet-stream"
            payloads.append({"name": place.parts[-1], "mimeType": kind, "buffer": data})
        return payloads

    async def _by_chooser(self, ctx: Any, ref: str, locator: Locator, payloads: list[FilePayload], site: str) -> None:
        page = await self.tab(ctx)

        async def choose() -> None:
            choice: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

            def listen(chooser: Any) -> None:
                if not choice.done():
                    choice.set_result(chooser)

            page.on("filechooser", listen)
            try:
                await locator.click()
                async with asyncio.timeout(_CHOOSER_S):
                    chooser = await choice
            finally:
                page.remove_listener("filechooser", listen)
            same_site(site, address_of(await chooser.element.owner_frame()))
            if len(payloads) > 1 and not chooser.is_multiple():
                raise ToolError(f"{ref} takes one file only; give one path")
            await chooser.set_files(payloads)

        try:
            await self.within(f"giving files to {ref}", choose)
        except TimeoutError:
            raise ToolError(f"{ref} is no file field and asks for no files; take the reference of what does") from None

    @action(effect=("write", "read", "network"))
    async def download(self, ctx: Any, ref: Ref = "", url: str = "") -> str:
        """Download what a link or button gives, or an address, into downloads/ of the run's folder.

        Args:
            ref: the link or button.
            url: the whole address, in place of it.
        """
        if bool(ref) == bool(url.strip()):
            raise ToolError("give the reference of a link or button, or an address, and not both")
        if url:
            download = await self.fetch(ctx, self.check_address(url.strip()))
        else:
            page = await self.tab(ctx)
            target = self.target(page, ref)
            if isinstance(target, PagePoint):
                download = await self._download(ctx, ref, lambda: page.mouse.click(*target))
            else:
                download = await self._download(ctx, ref, lambda: self.on(ref, lambda ms: target.click(timeout=ms)))
        return f"{await self._describe(download)}; {await self.settle(ctx)}"

    async def fetch(self, ctx: Any, address: str) -> Loaded:
        """Download what lies at an address by this agent's tab, which stays where it is."""
        page = await self.tab(ctx)
        api = playwright_api()

        async def go() -> None:
            with contextlib.suppress(api.Error):  # a download is no page: going there fails by design
                await page.goto(address, wait_until="commit", timeout=self.settings.load_s * 900)

        return await self._download(ctx, address, go)

    async def _download(self, ctx: Any, source: str, begin: Callable[[], Awaitable[Any]]) -> Loaded:
        """Return the download that an action begins; whatever document it leads to is one."""
        tab = await self.current(ctx)
        page = await self.tab(ctx)
        old_ids = {id(download) for download in self.session.downloads.all}
        async with saved_documents(page, limits.CALL_S) as answers:
            await self.within(f"downloading {source}", begin, seconds=self.settings.load_s + limits.CALL_S)
            new = await self._new_downloads(ctx, tab.number, old_ids, answers)
        now = await self.current(ctx)
        if not new and now.number != tab.number and now.page is not None:
            # It opened a window, in which it is shown: from there it is downloaded.
            return await self.fetch(ctx, self.check_address(now.page.url))
        if not new:
            reason = f"it answered with status {answers[-1]}" if answers and answers[-1] >= 400 else "no download began"
            raise ToolError(f"nothing was downloaded from {source}: {reason}; look at the state")
        loaded = new[-1]
        until = asyncio.get_running_loop().time() + limits.DOWNLOAD_S + limits.CALL_S
        while loaded.state == "under way" and asyncio.get_running_loop().time() < until:
            await self.session.downloads.settle(1.0)
        if loaded.state != "complete":
            loaded.is_told = True
            raise ToolError(
                f"the download of {loaded.name} {loaded.state}: {loaded.reason or 'it did not end'}; try it again later"
            )
        return loaded

    async def _new_downloads(self, ctx: Any, tab: int, old_ids: set[int], answers: list[int]) -> list[Loaded]:
        """Return the downloads that began since; the browser tells of one a moment after the action."""
        until = asyncio.get_running_loop().time() + limits.CALL_S
        while True:
            new = [download for download in self.session.downloads.all if id(download) not in old_ids]
            over = asyncio.get_running_loop().time() > until
            has_moved = self.session.current.get(agent_of(ctx)) != tab
            if new or over or has_moved or (answers and answers[-1] >= 400):
                return new
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _describe(self, loaded: Loaded) -> str:
        """Describe a download as it lies on disk, its type by its content."""
        from agentorchestra.tools.files.formats.sniff import sniff

        place = self.place(loaded.path)
        if (data := await disk.in_thread(lambda: disk.content_of(place))) is None:
            raise ToolError(f"{loaded.path} is not on disk any more; download it again")
        loaded.is_told = True
        kind = sniff(data[:65_536], loaded.name) if data else "nothing"
        guess = mimetypes.guess_type(loaded.name)[0]
        odd = (
            f"; it is named like {guess} and is none: look into it"
            if guess and guess != kind and (guess == "application/pdf" or kind == "text/html")
            else ""
        )
        return f"downloaded {loaded.path} ({len(data):,} bytes, {kind}{odd})"

    def place(self, path: str) -> DiskPlace:
        """Return where a path leads: in the run's folder, or among the task's files; a ToolError for other places."""
        return disk.place_of(path.strip(), self.folder, self.files)


@asynccontextmanager
async def saved_documents(page: Page, seconds: float) -> AsyncIterator[list[int]]:
    """Save documents that the page is led to, instead of showing them; yields the statuses of those that came."""
    statuses: list[int] = []
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.timeout(seconds):
        cdp = await page.context.new_cdp_session(page)
        main = (await cdp.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]

    async def answer(request: dict[str, Any]) -> None:
        status = int(request.get("responseStatusCode") or 0)
        way, params = "Fetch.continueRequest", {"requestId": request["requestId"]}
        if request.get("frameId") == main:  # not of a frame in the page
            statuses.append(status)
            if 200 <= status < 300:
                headers = {h["name"].lower(): h for h in reversed(request.get("responseHeaders") or ())}
                name = str(headers.get("content-disposition", {}).get("value", "")).partition(";")[2]
                rest = [h for h in request.get("responseHeaders") or () if h["name"].lower() != "content-disposition"]
                rest.append({"name": "Content-Disposition", "value": f"attachment;{name}" if name else "attachment"})
                way, params = "Fetch.continueResponse", params | {"responseCode": status, "responseHeaders": rest}
        with contextlib.suppress(playwright_api().Error):  # the page went on without it
            await cdp.send(way, params)

    cdp.on("Fetch.requestPaused", lambda event: tasks.append(asyncio.ensure_future(answer(event))))
    patterns = [{"resourceType": "Document", "requestStage": "Response"}]
    try:
        async with asyncio.timeout(seconds):
            await cdp.send("Fetch.enable", {"patterns": patterns})
        yield statuses
    finally:
        with contextlib.suppress(playwright_api().Error, TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*tasks, return_exceptions=True)
                await cdp.detach()
