"""Downloads: into `downloads/` of the run's folder, under harmless names, with limits of size and time."""

from __future__ import annotations

import asyncio
import contextlib
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import BrowserSettings
from agentorchestra.environments.browser.session.chromium import first_line, within
from agentorchestra.environments.manifest import place_file

if TYPE_CHECKING:
    from agentorchestra.environments.browser.session.tabs import Tab
    from agentorchestra.environments.folder import FolderGround

FOLDER = "downloads"  # where they land in the run's folder
MOST = 50  # downloads of a run that are remembered; as many as may be under way are MOST_AT_ONCE
MOST_AT_ONCE = 10
_LOOK_S = 0.1
_NAMES = 1000
_NAME_BYTES = 120
_KNOWN: set[str] = set()  # what the browser calls downloads that are taken care of
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


@dataclass
class Loaded:
    name: str  # as it was suggested, made harmless
    url: str  # it came from
    state: Literal["under way", "complete", "failed", "refused", "cut off"] = "under way"  # how it stands
    path: str = ""  # in the run's folder, when it is complete
    size: int = 0  # in bytes, so far or in all
    why: str = ""  # it is not complete, in a few words
    told: bool = False  # whether an agent was told how it ended

    @property
    def sentence(self) -> str:
        if self.state == "complete":
            return f"{self.path} ({self.size:,} bytes, complete)"
        received = f", {self.size:,} bytes so far" if self.state == "under way" and self.size else ""
        return f"{self.name}: {self.state}{received}{f': {self.why}' if self.why else ''}"


def harmless(name: str) -> str:
    """Make a file's name of what a page suggests: no path, not hidden, nothing that a shell or a screen takes amiss."""
    plain = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    plain = "".join(char if char.isprintable() and char not in "/:*?\"<>|`$;&!'" else "_" for char in plain)
    # What turns the direction of writing makes `gpj.exe` look like `exe.jpg`.
    plain = "".join(char for char in plain if unicodedata.category(char) != "Cf").strip(". -")
    while len(plain.encode()) > _NAME_BYTES:
        stem, dot, suffix = plain.rpartition(".")
        plain = f"{stem[:-1]}{dot}{suffix}" if dot and stem and len(suffix) <= 10 else plain[:-1]
    return "download" if not plain else f"_{plain}" if _DEVICES.fullmatch(plain) else plain


class Downloads:
    """The downloads of one run and world, which land in the folder of its ground."""

    def __init__(self, settings: BrowserSettings, ground: FolderGround) -> None:
        self._settings = settings
        self._ground = ground
        self._tasks: set[asyncio.Task[None]] = set()
        self.all: list[Loaded] = []

    def begin(self, tab: Tab, download: Any, artifacts: Path | None) -> None:
        one = Loaded(harmless(download.suggested_filename), str(download.url)[:300])
        self.all = [*self.all[-MOST + 1 :], one]
        if len(self._tasks) >= MOST_AT_ONCE:
            one.state, one.why = "refused", f"{MOST_AT_ONCE} others are under way"
        task = asyncio.ensure_future(self._take(tab, download, one, artifacts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, tab: Tab, download: Any, one: Loaded, artifacts: Path | None) -> None:
        try:
            if one.state == "refused":
                await self._cancel(download)
                return
            async with asyncio.timeout(self._settings.download_s):
                await self._wait(tab, download, one, artifacts)
            if one.state == "under way":
                await self._save(download, one)
        except TimeoutError:
            one.state, one.why = "failed", f"it took longer than {self._settings.download_s:g} s and was cancelled"
            await self._cancel(download)
        except asyncio.CancelledError:
            one.state = "cut off"
            raise
        except Exception as exc:  # of Playwright, or of the disk
            one.state, one.why = "failed", first_line(exc)
        finally:
            with contextlib.suppress(Exception):
                await within(download.delete(), self._settings.call_s)

    async def _cancel(self, download: Any) -> None:
        with contextlib.suppress(Exception):
            await within(download.cancel(), self._settings.call_s)

    async def _wait(self, tab: Tab, download: Any, one: Loaded, artifacts: Path | None) -> None:
        """Wait until it has ended; one that grows too large is cancelled."""
        ended = asyncio.ensure_future(download.failure())
        name = _taken_from(tab.announced, download.url)
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=_LOOK_S)
                name = name or await asyncio.to_thread(_newest, artifacts)
                one.size = await asyncio.to_thread(_received, artifacts, name)
                if self._too_large(one):
                    await self._cancel(download)
                    return
            problem = ended.result()
        finally:
            ended.cancel()
        if problem:
            one.state, one.why = "failed", str(problem)[:200]

    def _too_large(self, one: Loaded) -> bool:
        if one.size > int(self._settings.download_mib * (1 << 20)):
            one.state, one.why = "refused", f"it is larger than {self._settings.download_mib:g} MiB"
        return one.state == "refused"

    async def _save(self, download: Any, one: Loaded) -> None:
        """Put it on disk and look whether it is there."""
        made = await asyncio.to_thread(self._ground.temporary)
        try:
            await within(download.save_as(made), self._settings.call_s + self._settings.download_s)
            one.size = (await asyncio.to_thread(made.stat)).st_size
            if self._too_large(one):
                return
            one.path = await asyncio.to_thread(self._placed, made, one.name)
            one.state = "complete"
        finally:
            await asyncio.to_thread(made.unlink, missing_ok=True)

    def _placed(self, made: Path, name: str) -> str:
        """Put it into the run's folder and return where; nothing that is there is replaced. Blocks."""
        made.chmod(0o644)
        size = made.stat().st_size
        stem, dot, suffix = name.rpartition(".")
        for number in range(1, _NAMES):
            mark = f" ({number})" if number > 1 else ""
            free = f"{stem}{mark}.{suffix}" if dot and stem else f"{name}{mark}"
            try:
                place_file(self._ground.folder, (FOLDER, free), made, new=True, make=True)
            except FileExistsError:
                continue
            there = (self._ground.folder / FOLDER / free).lstat().st_size
            if there != size:
                raise ToolError(f"{FOLDER}/{free} has {there:,} bytes on disk in place of {size:,}")
            return f"{FOLDER}/{free}"
        raise ToolError(f"there are {_NAMES:,} files called {name} in {FOLDER}/; move some elsewhere")

    async def settle(self, seconds: float) -> None:
        """Wait for what is under way, so long at most."""
        if self._tasks:
            await asyncio.wait({*self._tasks}, timeout=seconds)

    def news(self) -> list[str]:
        found = [one for one in self.all if not one.told and one.state != "under way"]
        for one in found:
            one.told = True
        return [f"download: {one.sentence}" for one in found]

    def to_json(self) -> JsonValue:
        return [[one.name, one.url, one.state, one.path, one.size, one.why, one.told] for one in self.all]

    def take_up(self, kept: JsonValue) -> None:
        """Load them as they stood; what was under way did not come."""
        self.all = []
        for one in kept if isinstance(kept, list) else []:
            if isinstance(one, list) and len(one) == 7:
                loaded = Loaded(*one)  # type: ignore[arg-type]
                if loaded.state == "under way":
                    loaded.state, loaded.why, loaded.told = "cut off", "the browser ended; begin it again", False
                self.all.append(loaded)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _taken_from(begun: list[tuple[str, str]], url: str) -> str:
    """Return what the browser calls the download from this address, "" where it did not say."""
    for one in begun:
        if one[0] == url:
            begun.remove(one)
            _KNOWN.add(one[1])
            return one[1]
    return ""


def _newest(artifacts: Path | None) -> str:
    """Return a download that the browser told nothing of: its page came for it alone. Blocks."""
    found = artifacts.glob("*.crdownload") if artifacts is not None else ()
    if (newest := max((one for one in found if one.stem not in _KNOWN), key=_changed, default=None)) is None:
        return ""
    _KNOWN.add(newest.stem)
    return newest.stem


def _changed(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _received(artifacts: Path | None, name: str) -> int:
    """Return the bytes on disk of a download that the browser calls so. Blocks."""
    if artifacts is None:
        return 0
    for place in (artifacts / name, artifacts / f"{name}.crdownload") if name else ():
        with contextlib.suppress(OSError):
            return place.stat().st_size
    return 0
