"""One Chromium for all runs of a process (per event loop): found, launched, ended, launched again.

Its pages belong to the contexts that sessions open in it (session.py). Nothing of it outlives this process: a small
process beside it (guard.sh) ends it and removes its folders when this one is gone, also by SIGKILL.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import psutil

from agentorchestra.core.errors import MissingExtraError, ToolError
from agentorchestra.core.settings import BrowserSettings
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.session.boundary import FLAGS
from agentorchestra.environments.browser.session.guard import BrowserGuard
from agentorchestra.environments.browser.view.references import teach
from agentorchestra.environments.browser.view.text import without_password

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession, Playwright

T = TypeVar("T")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")  # names of a Chromium on the PATH
# Of this process's environment; keys and tokens in it are nothing for a browser.
_PASSED_ON = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")
MODULES = ("playwright", "PIL", "h11", "psutil")  # modules
_NO_SANDBOX = ("No usable sandbox", "without --no-sandbox is not supported")
# Characters of the folder for temporary files: below it Chromium makes a socket, whose path must be under 108.
_LONGEST = 40
# Bytes that a driver may hold besides what it begins with: what scripts of pages answer goes through it, and they can
# answer with anything. One that would need more ends, as if it had been killed.
MOST_DRIVER = 1 << 30
MOST_STARTS = 10  # times the seconds of a start that one gets which shows life
_SHARED: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedBrowser] = WeakKeyDictionary()


def playwright_api() -> Any:
    try:
        import playwright.async_api
    except ImportError as exc:
        raise MissingExtraError(
            f"the environment browser needs the extra browser ({exc}); install it with "
            "`pip install 'agentorchestra[browser]'`, and a Chromium"
        ) from None
    return playwright.async_api


def find_chromium(executable: str = "", own: str = "") -> str:
    """Return the Chromium of the settings (a path or name), the PATH, or playwright's `own`; a ToolError for none."""
    for name in (executable,) if executable else NAMES:
        if (path := shutil.which(name)) is not None:
            return path
    if executable:
        raise ToolError(f"browser.executable is {executable!r}, which is no program here; give the path of a Chromium")
    if own and Path(own).exists():
        return own
    raise ToolError(
        "no Chromium was found; install one (Debian: `apt install chromium`, else `playwright install chromium`), or "
        "set browser.executable to its path"
    )


def check_installed(executable: str = "") -> str:
    """Return the Chromium, or the folder of playwright's own; a MissingExtraError says what has to be installed."""
    if missing := [name for name in MODULES if importlib.util.find_spec(name) is None]:
        raise MissingExtraError(
            f"the environment browser needs the extra browser ({missing[0]} is not installed); install it with "
            "`pip install 'agentorchestra[browser]'`, and a Chromium"
        )
    folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    base = Path(folder) if folder not in ("", "0") else Path.home() / ".cache" / "ms-playwright"
    # Playwright itself says what is its own only when it runs.
    own = next((str(path) for path in sorted(base.glob("chromium-*")) if path.is_dir()), "")
    try:
        return find_chromium(executable, own)
    except ToolError as exc:
        raise MissingExtraError(f"the environment browser has no browser: {exc}") from None


def flags() -> list[str]:
    return ["--disable-dev-shm-usage", *FLAGS]


def has_sandbox(settings: BrowserSettings) -> bool:
    """Return True if Chromium keeps pages in its own sandbox: Playwright does not ask for it, root cannot have it."""
    return settings.sandbox and os.geteuid() != 0


def environ(home: Path, window: bool) -> dict[str, str | float | bool]:
    """Return the environment of the browser: what it writes to its home goes with it."""
    variables: dict[str, str | float | bool] = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    authority = Path(os.environ.get("XAUTHORITY") or Path.home() / ".Xauthority")
    if window and authority.exists():
        variables["XAUTHORITY"] = str(authority)
    return variables | {"HOME": str(home), "TMPDIR": str(home)}


def _drivers() -> set[int]:
    pids = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "run-driver" in child.cmdline():
                pids.add(child.pid)
    return pids


def _limit_memory(driver: int) -> None:
    """Limit the memory of a driver (Linux)."""
    with contextlib.suppress(OSError, ValueError, AttributeError, psutil.Error):
        most = psutil.Process(driver).memory_info().data + MOST_DRIVER
        resource.prlimit(driver, resource.RLIMIT_DATA, (most, most))


class _Launched:
    """A browser that was started, with the driver that was started for it."""

    def __init__(self) -> None:
        self.guard = BrowserGuard()
        short = len(tempfile.gettempdir()) <= _LONGEST or not os.access("/tmp", os.W_OK)
        self.folder = Path(tempfile.mkdtemp(prefix="agentorchestra-browser-", dir=None if short else "/tmp"))
        self.artifacts = self.folder / "artifacts"
        self.artifacts.mkdir()
        self.profile: Path | None = None
        self.playwright: Playwright | None = None
        self.browser: Browser | None = None
        self.cdp: CDPSession | None = None
        self.pid = self.driver = 0
        self._group = 0
        self._killed = False
        self.guard.tell(f"folder {self.folder}")

    @property
    def alive(self) -> bool:
        if self._killed or self.browser is None or not self.browser.is_connected():
            return False
        try:
            os.kill(self.driver or os.getpid(), 0)
        except ProcessLookupError:
            return False
        return True

    async def start(self, settings: BrowserSettings) -> None:
        api = playwright_api()
        try:
            async with asyncio.timeout(settings.launch_s) as limit:
                watching = asyncio.create_task(self._put_off(limit, settings.launch_s))
                before = _drivers()
                self.playwright = await api.async_playwright().start()
                self.driver = max(_drivers() - before, default=0)
                self.guard.tell(f"process {self.driver}" if self.driver else "")
                await teach(self.playwright)
                chromium = self.playwright.chromium
                self.browser = await chromium.launch(
                    executable_path=find_chromium(settings.executable, chromium.executable_path),
                    headless=not settings.window,
                    args=flags(),
                    chromium_sandbox=has_sandbox(settings),
                    env=environ(self.folder, settings.window),
                    artifacts_dir=self.artifacts,
                    # Who ends it is this process, or the guard.
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                    timeout=settings.launch_s * 1000 * MOST_STARTS,
                )
                _limit_memory(self.driver)  # not before: the browser, which it starts, would have the same limit
                self.cdp = await self.browser.new_browser_cdp_session()
                info = await self.cdp.send("SystemInfo.getProcessInfo")
        except TimeoutError:
            raise ToolError(
                f"Chromium did not start, and did nothing for {settings.launch_s:g} s (browser.launch_s)"
            ) from None
        except api.Error as exc:
            # What Chromium itself said of it is further down in the log.
            if has_sandbox(settings) and any(words in str(exc) for words in _NO_SANDBOX):
                raise ToolError(
                    "Chromium could not be started: its sandbox does not work here (most containers forbid it); allow "
                    "user namespaces, or set browser.sandbox = false, which leaves pages without it"
                ) from None
            raise ToolError(f"Chromium could not be started: {first_line(exc)}") from None
        finally:
            watching.cancel()
        self._learn(next(int(process["id"]) for process in info["processInfo"] if process["type"] == "browser"))

    async def _put_off(self, limit: asyncio.Timeout, seconds: float) -> None:
        """Put off the end of a start as long as what is started does something."""
        clock = asyncio.get_running_loop().time
        last, seen = clock() + seconds * MOST_STARTS, self._life()
        while True:
            await asyncio.sleep(min(seconds / 10, 1))
            if (now := self._life()) != seen and not limit.expired():
                seen = now
                limit.reschedule(min(clock() + seconds, last))

    def _life(self) -> set[tuple[int, float]]:
        """Return what the driver started (before that: it), by number and CPU seconds; nothing where one ends now."""
        with contextlib.suppress(psutil.Error):
            started = psutil.Process(self.driver or os.getpid()).children(recursive=True)
            return {(process.pid, sum(process.cpu_times()[:2])) for process in started}
        return set()

    def _learn(self, pid: int) -> None:
        """Tell the guard what has to be ended, and removed, if this process cannot."""
        process = psutil.Process(pid)
        self.pid = pid
        self._group = os.getpgid(pid) if os.getpgid(pid) != os.getpgrp() else 0
        lines = [f"process {pid}", *([f"group {self._group}"] if self._group else [])]
        for word in process.cmdline():
            if word.startswith("--user-data-dir="):
                self.profile = Path(word.partition("=")[2])
                lines.append(f"folder {self.profile}")
        self.guard.tell(*lines)
        assert self.browser is not None
        self.browser.on("disconnected", self._withdraw)

    def _withdraw(self, *_: Any) -> None:
        """Forget the processes of a browser that ended: their numbers may be those of others soon."""
        if not self._killed:
            self.guard.tell("gone", f"process {self.driver}" if self.driver else "")

    def kill(self) -> None:
        """End the browser with all its processes, also one that is stopped."""
        self._killed = True
        for end, target in ((os.killpg, self._group), (os.kill, self.pid)):
            if target:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    end(target, signal.SIGKILL)

    async def end(self, seconds: float) -> None:
        """End both, by force what does not end by itself in so many seconds each, and remove their folders."""
        if self.alive and self.browser is not None:
            with contextlib.suppress(Exception):
                await within(self.browser.close(), seconds)
        self.kill()
        try:
            if self.playwright is not None:
                await within(self.playwright.stop(), seconds)
        except Exception:
            if self.driver:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.driver, signal.SIGKILL)
        for folder in 3 * [self.folder, *([self.profile] if self.profile is not None else [])]:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)  # a process that ends may still write
        self.guard.end()


async def within(call: Awaitable[T], seconds: float) -> T:
    """Return the result of a call; a TimeoutError if it takes longer than so many seconds."""
    async with asyncio.timeout(seconds):
        return await call


def first_line(exc: BaseException) -> str:
    """Return what an error of Playwright says, without the log of the call."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return without_password(lines[0][:300]) if lines else type(exc).__name__


class SharedBrowser:
    """The Chromium of one event loop, launched when it is first needed and again when it is gone.

    The settings are those of its first session, until nobody uses it any more.
    """

    def __init__(self, settings: BrowserSettings) -> None:
        self.settings = settings
        self._lock = asyncio.Lock()
        self._now: _Launched | None = None
        self._users: set[object] = set()
        self._looks = asyncio.Semaphore(limits.LOOKS)
        self.generation = 0  # counts launches; pages and contexts of an earlier one are gone

    @property
    def alive(self) -> bool:
        return self._now is not None and self._now.alive

    @property
    def pid(self) -> int | None:
        return self._now.pid or None if self._now is not None else None

    @property
    def artifacts(self) -> Path | None:
        """Return the folder in which downloads lie while they come."""
        return self._now.artifacts if self._now is not None else None

    @property
    def idle(self) -> bool:
        """Return True if nobody uses it, and none is started."""
        return not self._users and self._now is None and not self._lock.locked()

    async def browser(self, user: object) -> Browser:
        """Return the browser for a user until its `release`, launched if there is none; a ToolError if none can be."""
        async with self._lock:
            if not self.alive:
                playwright_api()
                await self._end()
                self.generation += 1
                self._now = _Launched()
                try:
                    await self._now.start(self.settings)
                except BaseException:
                    await self._end()
                    raise
            self._users.add(user)
            assert self._now is not None and self._now.browser is not None
            return self._now.browser

    def look(self) -> asyncio.Semaphore:
        """Return the queue for looks at pages; few look at the same time, and the time in it is nobody's."""
        return self._looks

    async def answers(self, seconds: float) -> bool:
        if self._now is None or self._now.cdp is None or not self._now.alive:
            return False
        try:
            await within(self._now.cdp.send("Browser.getVersion"), seconds)
        except Exception:  # whatever is wrong with it
            return False
        return True

    def kill(self, generation: int) -> None:
        """End a browser of this generation, which does not answer; not one that was started since."""
        if self._now is not None and generation == self.generation:
            self._now.kill()

    def serves_others(self, user: object) -> bool:
        return self.alive and bool(self._users - {user})

    async def release(self, user: object) -> None:
        async with self._lock:
            self._users.discard(user)
            if not self._users:
                await self._end()

    async def _end(self) -> None:
        now, self._now = self._now, None
        if now is not None:
            await now.end(limits.CALL_S)


def shared_browser(settings: BrowserSettings) -> SharedBrowser:
    """Return the browser of the running event loop; the settings are used if there is none yet, or nobody uses it."""
    loop = asyncio.get_running_loop()
    browser = _SHARED.get(loop)
    if browser is None or (browser.idle and browser.settings != settings):
        browser = _SHARED[loop] = SharedBrowser(settings)
    return browser
