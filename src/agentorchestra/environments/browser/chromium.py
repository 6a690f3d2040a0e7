"""One Chromium for all runs of a process (per event loop): found, launched, ended, launched again.

Its pages belong to the contexts that sessions open in it (session.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agentorchestra.core.errors import MissingExtraError, ToolError
from agentorchestra.core.settings import BrowserSettings
from agentorchestra.environments.browser.boundary import FLAGS

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""What a Chromium is called on the PATH."""


def playwright_api() -> Any:
    """The module `playwright.async_api`.

    Raises:
        MissingExtraError: if it is not installed.
    """
    try:
        import playwright.async_api
    except ImportError as exc:
        raise MissingExtraError(
            f"the environment browser needs the extra browser ({exc}); install it with "
            "`pip install 'agentorchestra[browser]'`, and a Chromium"
        ) from None
    return playwright.async_api


def find_chromium(executable: str = "", own: str = "") -> str:
    """The path of the Chromium that is used.

    Args:
        executable: of the settings: a path, or a name on the PATH; "" for any that is there.
        own: where playwright keeps its own.

    Raises:
        ToolError: if there is none.
    """
    if executable:
        found = shutil.which(executable)
        if found is None:
            raise ToolError(
                f"browser.executable is {executable!r}, which is no program here; give the path of a Chromium"
            )
        return found
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    if own and Path(own).exists():
        return own
    raise ToolError(
        "no Chromium was found; install one (Debian: `apt install chromium`, else `playwright install chromium`), or "
        "set browser.executable to its path"
    )


def flags(settings: BrowserSettings) -> list[str]:
    """What the browser is started with."""
    given = ["--disable-dev-shm-usage", *FLAGS]
    if os.geteuid() == 0:  # its own sandbox does not work for root
        given.append("--no-sandbox")
    return given


class SharedBrowser:
    """The Chromium of one event loop, launched when it is first needed and again when it is gone.

    Args:
        settings: of the session that made it; executable and window hold for all.
    """

    def __init__(self, settings: BrowserSettings) -> None:
        self._settings = settings
        self._lock = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._users: set[object] = set()
        self._looks = asyncio.Semaphore(settings.looks_at_once)
        self.pid: int | None = None

    @property
    def alive(self) -> bool:
        """Whether there is a browser that is connected."""
        return self._browser is not None and self._browser.is_connected()

    async def browser(self, user: object) -> Browser:
        """The browser, launched if there is none.

        Args:
            user: who needs it until `release`.

        Raises:
            ToolError: if none can be started.
        """
        async with self._lock:
            self._users.add(user)
            if self._browser is None or not self._browser.is_connected():
                await self._launch()
            assert self._browser is not None
            return self._browser

    async def _launch(self) -> None:
        api = playwright_api()
        if self._playwright is None:
            self._playwright = await api.async_playwright().start()
        chromium = self._playwright.chromium
        try:
            self._browser = await chromium.launch(
                executable_path=find_chromium(self._settings.executable, chromium.executable_path),
                headless=not self._settings.window,
                args=flags(self._settings),
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=self._settings.launch_s * 1000,
            )
            cdp = await self._browser.new_browser_cdp_session()
            found = await cdp.send("SystemInfo.getProcessInfo")
            self.pid = next((int(one["id"]) for one in found["processInfo"] if one["type"] == "browser"), None)
        except api.Error as exc:
            raise ToolError(f"Chromium could not be started: {str(exc).splitlines()[0]}") from None

    @contextlib.asynccontextmanager
    async def look(self) -> AsyncIterator[None]:
        """A turn to look at a page; few do at the same time, and the time in the queue is nobody's."""
        async with self._looks:
            yield

    def kill(self) -> None:
        """End a browser that does not answer."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.pid = None

    async def release(self, user: object) -> None:
        """Whoever used it does not any more; the last one closes it."""
        async with self._lock:
            self._users.discard(user)
            if not self._users:
                await self._close()

    async def _close(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            try:
                async with asyncio.timeout(self._settings.call_s):
                    await browser.close()
            except Exception:
                self.kill()
        playwright, self._playwright = self._playwright, None
        if playwright is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self._settings.call_s):
                    await playwright.stop()


_SHARED: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedBrowser] = WeakKeyDictionary()


def shared_browser(settings: BrowserSettings) -> SharedBrowser:
    """The browser of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _SHARED:
        _SHARED[loop] = SharedBrowser(settings)
    return _SHARED[loop]


__all__ = ["SharedBrowser", "find_chromium", "flags", "playwright_api", "shared_browser"]
