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
from agentorchestra.environments.browser import limits
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
_OLD_NAMES: set[str] = set()  # what the browser calls downloads that are taken care of
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


@dataclass
class Loaded:
    name: str  # as it was suggested, made harmless
    url: str  # it came from
    state: Literal["under way", "complete", "failed", "refused", "cut off"] = "under way"  # how it stands
    path: str = ""  # in the run's folder, when it is complete
    size: int = 0  # in bytes, so far or in all
    reason: str = ""  # it is not complete, in a few words
    is_told: bool = False  # whether an agent was told how it ended

    @property
    def sentence(self) -> str:
        if self.state == "complete":
            return f"{self.path} ({self.size:,} bytes, complete)"
        progress = f", {self.size:,} bytes so far" if self.state == "under way" and self.size else ""
        return f"{self.name}: {self.state}{progress}{f': {self.reason}' if self.reason else ''}"


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
        file = Loaded(harmless(download.suggested_filename), str(download.url)[:300])
        self.all = [*self.all[-MOST + 1 :], file]
        if len(self._tasks) >= MOST_AT_ONCE:
            file.state, file.reason = "refused", f"{MOST_AT_ONCE} others are under way"
        task = asyncio.ensure_future(self._take(tab, download, file, artifacts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, tab: Tab, download: Any, file: Loaded, artifacts: Path | None) -> None:
        try:
            if file.state == "refused":
                await self._cancel(download)
                return
            async with asyncio.timeout(limits.DOWNLOAD_S):
                await self._wait(tab, download, file, artifacts)
            if file.state == "under way":
                await self._save(download, file)
        except TimeoutError:
            file.state, file.reason = "failed", f"it took longer than {limits.DOWNLOAD_S:g} s and was cancelled"
            await self._cancel(download)
        except asyncio.CancelledError:
            file.state = "cut off"
            raise
        except Exception as exc:  # of Playwright, or of the disk
            file.state, file.reason = "failed", first_line(exc)
        finally:
            with contextlib.suppress(Exception):
                await within(download.delete(), limits.CALL_S)

    async def _cancel(self, download: Any) -> None:
        with contextlib.suppress(Exception):
            await within(download.cancel(), limits.CALL_S)

    async def _wait(self, tab: Tab, download: Any, file: Loaded, artifacts: Path | None) -> None:
        """Wait until it has ended; one that grows too large is cancelled."""
        failure = asyncio.ensure_future(download.failure())
        name = _taken_from(tab.download_ids, download.url)
        try:
            while not failure.done():
                await asyncio.wait({failure}, timeout=_LOOK_S)
                name = name or await asyncio.to_thread(_newest, artifacts)
                file.size = await asyncio.to_thread(_size, artifacts, name)
                if self._too_large(file):
                    await self._cancel(download)
                    return
            problem = failure.result()
        finally:
            failure.cancel()
        if problem:
            file.state, file.reason = "failed", str(problem)[:200]

    def _too_large(self, file: Loaded) -> bool:
        if file.size > int(self._settings.download_mib * (1 << 20)):
            file.state, file.reason = "refused", f"it is larger than {self._settings.download_mib:g} MiB"
        return file.state == "refused"

    async def _save(self, download: Any, file: Loaded) -> None:
        """Put it on disk and look whether it is there."""
        path = await asyncio.to_thread(self._ground.temporary)
        try:
            await within(download.save_as(path), limits.CALL_S + limits.DOWNLOAD_S)
            file.size = (await asyncio.to_thread(path.stat)).st_size
            if self._too_large(file):
                return
            file.path = await asyncio.to_thread(self._place, path, file.name)
            file.state = "complete"
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    def _place(self, path: Path, name: str) -> str:
        """Put it into the run's folder and return where; nothing that is there is replaced. Blocks."""
        path.chmod(0o644)
        size = path.stat().st_size
        stem, dot, suffix = name.rpartition(".")
        for number in range(1, _NAMES):
            mark = f" ({number})" if number > 1 else ""
            free = f"{stem}{mark}.{suffix}" if dot and stem else f"{name}{mark}"
            try:
                place_file(self._ground.folder, (FOLDER, free), path, new=True, make=True)
            except FileExistsError:
                continue
            placed_size = (self._ground.folder / FOLDER / free).lstat().st_size
            if placed_size != size:
                raise ToolError(f"{FOLDER}/{free} has {placed_size:,} bytes on disk in place of {size:,}")
            return f"{FOLDER}/{free}"
        raise ToolError(f"there are {_NAMES:,} files called {name} in {FOLDER}/; move some elsewhere")

    async def settle(self, seconds: float) -> None:
        """Wait for what is under way, so long at most."""
        if self._tasks:
            await asyncio.wait({*self._tasks}, timeout=seconds)

    def news(self) -> list[str]:
        news = [file for file in self.all if not file.is_told and file.state != "under way"]
        for file in news:
            file.is_told = True
        return [f"download: {file.sentence}" for file in news]

    def to_json(self) -> JsonValue:
        return [[file.name, file.url, file.state, file.path, file.size, file.reason, file.is_told] for file in self.all]

    def take_up(self, rows: JsonValue) -> None:
        """Load them as they stood; what was under way did not come."""
        self.all = []
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, list) and len(row) == 7:
                loaded = Loaded(*row)  # type: ignore[arg-type]
                if loaded.state == "under way":
                    loaded.state, loaded.reason, loaded.is_told = "cut off", "the browser ended; begin it again", False
                self.all.append(loaded)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _taken_from(download_ids: list[tuple[str, str]], url: str) -> str:
    """Return what the browser calls the download from this address, "" where it did not say."""
    for pair in download_ids:
        if pair[0] == url:
            download_ids.remove(pair)
            _OLD_NAMES.add(pair[1])
            return pair[1]
    return ""


def _newest(artifacts: Path | None) -> str:
    """Return a download that the browser told nothing of: its page came for it alone. Blocks."""
    paths = artifacts.glob("*.crdownload") if artifacts is not None else ()
    if (newest := max((path for path in paths if path.stem not in _OLD_NAMES), key=_changed, default=None)) is None:
        return ""
    _OLD_NAMES.add(newest.stem)
    return newest.stem


def _changed(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _size(artifacts: Path | None, name: str) -> int:
    """Return the bytes on disk of a download that the browser calls so. Blocks."""
    if artifacts is None:
        return 0
    for place in (artifacts / name, artifacts / f"{name}.crdownload") if name else ():
        with contextlib.suppress(OSError):
            return place.stat().st_size
    return 0
