"""A tab of a run: its page, and what happened in it that the agent has to know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentorchestra.environments.browser.view.text import without_password
from agentorchestra.trust.addresses import site_of

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Dialog, Page

BLANK = "about:blank"
MOST_DIALOGS = 10  # one after the other, without anything else done: a page that opens more of them is closed
_MOST_NOTES = 20
_MOST_VISITED = 100
_NOTE_CHARS = 300
_UNDER_WAY: set[asyncio.Task[Any]] = set()


@dataclass
class Tab:
    number: int  # by which it is named; no other tab of the run is ever given it
    agent: str = ""  # who opened it, or worked in the page that did, until that agent ends
    page: Page | None = None  # None where it was not opened yet, or not again after the browser was lost
    url: str = BLANK  # its address, as it was last kept; what is opened again
    dialog: Dialog | None = None  # that waits for an answer; until then the page does nothing else
    dialogs: int = 0  # that opened since anything else was done
    used: int = 0  # when it was used last, by counting uses
    dead: bool = False  # whether its renderer died
    error: str = ""  # the last error of its scripts
    media_type: str = ""  # of the document, as its server calls it
    coming: str | None = None  # of a document that was answered and is not shown yet
    loading: bool = False  # whether a new document was asked for and is not there yet
    notes: list[str] = field(default_factory=list)  # what happened and nobody was told yet, one sentence each
    opening: int = 0  # windows that it is about to open, which are not there yet
    documents: int = 0  # how many came, of the page itself
    leads: tuple[float, str] | None = None  # where its document leads by itself (meta refresh), and at which loop time
    read: bool = False  # whether `stored` and `mark` are of now
    mark: str = ""  # another one when its sites keep something else for all tabs; empty where that is not known
    probe: tuple[float, int, Any] | None = None  # what the probe saw, at which loop time, of which document by number
    answers: int = 0  # how many came from servers: each can have brought cookies
    storage: dict[str, dict[str, str]] = field(default_factory=dict)  # `sessionStorage` of its sites, by their origins
    cdp: CDPSession | None = None
    sites: set[str] = field(default_factory=set)  # sites whose documents came since anybody was told, in frames too
    interruption: asyncio.Event = field(default_factory=asyncio.Event)  # set by `interrupt`
    waiting: list[Callable[[], None]] = field(default_factory=list)  # called by `interrupt`
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # also by a document: asked for, come, or not come
    download_ids: list[tuple[str, str]] = field(default_factory=list)  # downloads, by address and the browser's id

    @property
    def address(self) -> str:
        """Return the address of its page, or that at which it is opened again; without a password."""
        return without_password(self.page.url if self.page is not None else self.url)

    def note(self, sentence: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(without_password(sentence)[:_NOTE_CHARS])

    def take_notes(self) -> list[str]:
        notes, self.notes = self.notes, []
        return notes

    def lose(self) -> None:
        """Forget the page, which is gone; its address is what can be opened again."""
        self.page, self.cdp, self.dialog = None, None, None
        self.dead = self.loading = False
        self.opening = 0
        self.media_type = self.error = ""
        self.leads = None
        self.download_ids.clear()

    def interrupt(self) -> None:
        """Wake whoever waits: no action waits beyond a dialog, a crash, the end of the page."""
        self.interruption.set()
        self.changed.set()
        for wake in self.waiting:
            wake()

    def watch(self, page: Page, *, on_popup: Callable[[Page], None], loads: Callable[[Any], None]) -> None:
        """Take an open page and note what happens in it; callbacks get pages that it opens, downloads it begins."""
        self.page = page

        def guard(then: Callable[..., None]) -> Callable[..., None]:
            # A page that was given up may still speak.
            return lambda *args: then(*args) if self.page is page else None

        page.on("dialog", guard(self._on_dialog))
        page.on("crash", guard(self._on_crash))
        page.on("close", guard(lambda *_: self.interrupt()))
        page.on("popup", guard(lambda popup: self._takes(popup, on_popup)))
        page.on("download", lambda download: self._takes(download, loads) if self.page is page else refuse(download))
        page.on("pageerror", guard(lambda error: setattr(self, "error", str(error)[:_NOTE_CHARS])))
        page.on("request", guard(lambda request: self._load(request, True)))
        page.on("requestfailed", guard(lambda request: self._load(request, False)))
        page.on("response", guard(self._on_response))
        page.on("websocket", guard(lambda *_: setattr(self, "answers", self.answers + 1)))
        page.on("framenavigated", guard(self._on_navigation))

    def opens(self, *_: Any) -> None:
        """Note that the page is about to open a window; what it shows has to be answered before it is there."""
        self.opening += 1

    def _takes(self, came: Any, then: Callable[[Any], None]) -> None:
        """Take a window that is there, or a download: one that a window was opened for leaves none."""
        self.opening = max(self.opening - 1, 0)
        then(came)
        self.changed.set()

    def _on_dialog(self, dialog: Any) -> None:
        self.dialog = dialog
        self.dialogs += 1
        self.interrupt()

    def _on_crash(self, *_: Any) -> None:
        self.dead, self.loading = True, False
        self.interrupt()

    def _of_the_document(self, request: Any) -> bool:
        """Return True if a request is for the page itself, not for something in it."""
        if self.page is None or not request.is_navigation_request():
            return False
        try:
            return bool(request.frame == self.page.main_frame)
        except Exception:  # Playwright does not know the frame of a page that is just beginning
            return False

    def _load(self, request: Any, loading: bool) -> None:
        if self._of_the_document(request):
            self.loading = loading
            self.changed.set()

    def sources(self) -> list[str]:
        """Return the page's address, and the other sites whose words this tab may have shown since the last call."""
        for frame in self.page.frames if self.page is not None else ():
            self.note_site(frame.url)
        sites, self.sites = self.sites, set()
        return [self.address, *sorted(sites - {site_of(self.address)})]

    def note_site(self, url: str) -> None:
        """Note that words of a document are told with this tab's; one without a site is of the one that shows it."""
        site = site_of(url) if url.startswith(("http://", "https://")) else None
        if site is not None:
            self.sites.add(site if len(self.sites) < _MOST_VISITED else "(many sites)")

    def _on_navigation(self, frame: Any) -> None:
        self.note_site(frame.url)
        if self.page is not None and frame == self.page.main_frame:
            self.loading = False
            self.leads = None
            self.dialogs = 0
            self.documents += 1
            if self.coming is not None:
                self.media_type, self.coming = self.coming, None
            self.changed.set()

    def leads_on(self, event: Any) -> None:
        """Note that a document leads to another address by itself after some seconds (meta refresh)."""
        if self.page is not None and str(event.get("reason")).endswith("Refresh") and event["url"] != self.page.url:
            self.leads = asyncio.get_running_loop().time() + float(event["delay"]), str(event["url"])

    def _on_response(self, response: Any) -> None:
        self.answers += 1
        if self._of_the_document(response.request):
            # Of the page only once it is shown: what is downloaded leaves the page as it is.
            self.coming = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
            self.error = ""


def refuse(download: Any) -> None:
    """Cancel a download of a page that nobody looks at any more."""
    _apart(download.cancel())


def _apart(call: Any) -> None:
    """Let a call end by itself; that it fails because its page is gone means nothing."""
    task = asyncio.ensure_future(call)
    _UNDER_WAY.add(task)
    task.add_done_callback(_UNDER_WAY.discard)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
