"""What a run's pages keep over a crash: cookies, stored data, addresses of tabs (000, app. D.5)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.environments.browser.scripts import ask
from agentorchestra.environments.browser.session.chromium import within
from agentorchestra.environments.browser.session.tabs import BLANK, Tab

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

    from agentorchestra.environments.folder import FolderGround

# In `kept`: the SHA-256 of what sites stored. It holds logins, so it stays in this store (`FolderGround.hide`).
STORAGE_KEY = "stored"
MOST_BYTES = 16 << 20  # of what sites stored. Of more, only the cookies are kept.
MOST_FRAMES = 20  # of a page that are asked what is stored
_MOST_ADDRESS = 2_000
_STORED_S = 2.0


class StorageKeeper:
    """Keeps what sites stored, and gives it back; each call on a page has so many seconds."""

    def __init__(self, ground: FolderGround, record: dict[str, JsonValue], seconds: float) -> None:
        self._ground = ground
        self._kept = record
        self._seconds = seconds
        self._state: dict[str, Any] = {}
        self._stands: object = None  # by which it is seen that nothing has changed since `_state`; None for nothing

    async def storage_state(self, tabs: Iterable[Tab]) -> dict[str, Any]:
        """Return what the context of a browser begins with; each tab is given what belongs to it alone."""
        name = self._kept.get(STORAGE_KEY)
        data = await self._ground.hidden(name) if isinstance(name, str) else None
        record = json.loads(data) if data is not None else {}
        self._state = record.get("state", {})
        for tab in tabs:
            tab.storage = record.get("tabs", {}).get(str(tab.number), {})
        return self._state

    async def keep(self, context: BrowserContext, tabs: Iterable[Tab]) -> None:
        """Keep what sites stored, if it changed; what cannot be read, as a page does not answer, is kept as it was."""
        tabs = [*tabs]
        await asyncio.gather(*(_read(tab) for tab in tabs if tab.dialog is None and not (tab.dead or tab.read)))
        stands = _stands(context, tabs)
        for tab in tabs:
            tab.read = False
        if stands is not None and stands == self._stands:
            return
        try:
            if any(tab.dialog is not None for tab in tabs):
                raise TimeoutError
            self._state = dict(await within(context.storage_state(indexed_db=True), self._seconds))
            self._stands = stands
        except Exception:  # a page that does not answer, or a browser that is gone
            self._stands = None
            with contextlib.suppress(Exception):
                self._state = {**self._state, "cookies": await within(context.cookies(), self._seconds)}
        record = {"state": self._state, "tabs": {str(tab.number): tab.storage for tab in tabs if tab.storage}}
        data = json.dumps(record, sort_keys=True).encode()
        if len(data) > MOST_BYTES:
            data = json.dumps({"state": {"cookies": self._state.get("cookies", []), "origins": []}}).encode()
        self._kept[STORAGE_KEY] = await self._ground.hide(data)


def _stands(context: BrowserContext, tabs: list[Tab]) -> object:
    """Return what stays the same as long as sites keep the same; None where that cannot be told."""
    if context.service_workers or any(tab.page is not None and tab.page.workers for tab in tabs):
        return None  # they write too, and nobody hears of it
    open_ = [tab for tab in tabs if tab.page is not None]
    if not all(tab.read and tab.mark for tab in open_) or len(context.pages) != len(open_):
        return None
    return [(tab.number, tab.mark, tab.answers, tab.storage) for tab in open_], [tab.number for tab in tabs]


async def _read(tab: Tab) -> None:
    if tab.page is None:
        return
    with contextlib.suppress(Exception):
        answers = (ask(frame.evaluate, "stored") for frame in tab.page.frames[:MOST_FRAMES])
        note_stored(tab, await within(asyncio.gather(*answers), _STORED_S))
        tab.read = True


def note_stored(tab: Tab, entries: Sequence[Any]) -> None:
    """Note what the sites of a tab's frames keep, as `stored` of page.js says it."""
    by_origin: dict[str, dict[str, str]] = {}
    marks: list[str] = []
    for entry in entries:
        if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[1], dict):  # scripts of the page had a say
            by_origin.setdefault(str(entry[0]), {}).update({str(name): str(value) for name, value in entry[1].items()})
            marks.append(str(entry[2]))
    whole = tab.page is not None and len(tab.page.frames) == len(marks)
    tab.mark = "\n".join(marks) if whole and all(marks) else ""
    tab.storage = {origin: values for origin, values in by_origin.items() if values}


def addresses(tabs: Iterable[Tab]) -> list[JsonValue]:
    pairs: list[JsonValue] = []
    for tab in tabs:
        tab.url = tab.url if tab.dead else tab.address
        # What is longer is data, not an address that leads to the same page again.
        pairs.append([tab.number, tab.url if len(tab.url) <= _MOST_ADDRESS else BLANK])
    return pairs


def tabs_of(rows: JsonValue) -> dict[int, Tab]:
    """Return the tabs as they were kept, without pages."""
    pairs = [row for row in rows if isinstance(row, list) and len(row) == 2] if isinstance(rows, list) else []
    return {int(str(number)): Tab(int(str(number)), url=str(url)) for number, url in pairs}
