"""`TargetActions`: elements and places on the page, as the actions that point and type use them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from agentorchestra.core.content import Source
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.arguments import PagePoint, point_of
from agentorchestra.environments.browser.actions.base import TabActions, gone_sentence
from agentorchestra.environments.browser.scripts import ask
from agentorchestra.environments.browser.session.chromium import playwright_api
from agentorchestra.environments.browser.session.tabs import Tab
from agentorchestra.environments.browser.view.references import in_some_frame
from agentorchestra.environments.browser.view.text import plain, without_password

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame, Locator, Page

# The first try of an action on an element: enough for one that can be used, and the browser's log then says why it
# cannot be. Without a reason it has all the time that calls have.
_FIRST_MS = 1_500
_CALL = re.compile(r"^(?:Locator|Page|Mouse|Keyboard|ElementHandle|Frame)\.\w+: ")
_COVER = re.compile(r"- (<.+>) intercepts pointer events")
_REASONS = (
    ("element is not enabled", "is disabled; do first what it waits for, or use another element"),
    ("element is not visible", "cannot be seen; open what hides it first (a menu, a tab), or look at the state again"),
    ("element is not editable", "is read only; use another field"),
    ("element is not stable", "keeps moving; wait a second and try again"),
    ("Element is outside of the viewport", "cannot be scrolled into view; look at the state again"),
    ("Element is not an <input>", "is no field to type into; take the reference of a field"),
    ("Cannot type text into input[type=number]", "takes a number only"),
    ("Malformed value", "does not take this value: dates are 2024-05-31, times 14:30, months 2024-05, colours #ff8800"),
    ("Node is not an HTMLInputElement", "takes no files; take the reference of a file field or of its button"),
    ("Non-multiple file input", "takes one file only"),
    ("not attached", "is gone from the page; look at the state again"),
    ("Invalid frame in aria-ref", "is gone from the page; look at the state again"),
    ("strict mode violation", "means several elements now; look at the state again"),
    ("has been closed", "cannot be used: its tab was closed; look at the state again"),
)
_GONE_WORDS = ("ailed to find element", "Invalid frame in aria-ref", "Frame was detached")
# Words in the log of a call that has done something: such a call is not made again.
DONE = ("performing click action", "performing hover action", "click action done")


class TargetActions(TabActions):
    def here(self) -> Source:
        page = self._tab.page if self._tab is not None else None
        return Source(kind="web", ref=without_password(page.url) if page is not None else "")

    async def is_pdf(self, tab: Tab) -> bool:
        """Return True if a tab's page is a PDF, of which Chromium shows a picture and no text."""
        if not tab.media_type and tab.page is not None:  # a window whose answer came before anybody listened
            answer = await self.within("looking at the page", partial(tab.page.evaluate, "document.contentType"))
            tab.media_type = str(answer)[:100]
        return tab.media_type == "application/pdf"

    def target(self, page: Page, ref: str) -> Locator | PagePoint:
        """Return the element with a reference, or a place in the view; a ToolError if there is none.

        That an element is gone is found out by `on`.
        """
        if (point := point_of(ref)) is None:
            return self.locator(ref)
        if (size := page.viewport_size) is not None and not in_view(page, point):
            raise ToolError(
                f"the place {point.x:g},{point.y:g} is outside of the view, which is {size['width']} x "
                f"{size['height']}; scroll, and give a place in the view"
            )
        return point

    async def place_of(self, ctx: Any, ref: str, *, scroll: bool = True) -> PagePoint:
        """Return the middle of a reference, scrolled into the view if wanted; a ToolError if it has no place."""
        target = self.target(await self.tab(ctx), ref)
        if isinstance(target, PagePoint):
            return target
        if scroll:
            await self.on(ref, lambda ms: target.scroll_into_view_if_needed(timeout=ms))
        if (box := await self.within(f"finding the place of {ref}", target.bounding_box)) is None:
            raise ToolError(f"{ref} cannot be seen; open what hides it first, or look at the state again")
        return PagePoint(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    async def on(self, ref: str, act: Callable[[float], Awaitable[Any]]) -> Any:
        """Act on an element within some milliseconds; what is wrong with it is one sentence."""
        api = playwright_api()

        async def work() -> Any:
            for ms in (_FIRST_MS, limits.CALL_S * 800):
                try:
                    return await act(ms)
                except api.TimeoutError as error:
                    _, marker, since = str(error).rpartition("was detached from the DOM")
                    if "resolved to" not in since and (marker or "waiting for locator(" in since):
                        raise ToolError(gone_sentence(ref)) from None
                    if problem := reason(error, ref):
                        raise problem from None
                    if ms != _FIRST_MS:
                        raise
                    if any(words in str(error) for words in DONE):
                        break  # what it set off is under way: `settle` waits, and helps a page that hangs
                except api.Error as error:
                    raise mistake(error, ref) from None

        return await self.within(f"using {ref}", work, seconds=limits.CALL_S + _FIRST_MS / 1000)

    async def ask(
        self, stage: str, target: Page | Frame | ElementHandle, function: str, *args: Any, seconds: float | None = None
    ) -> Any:
        """Return what a function of page.js says of a page, frame or element."""
        return await self.within(stage, lambda: ask(target.evaluate, function, *args), seconds=seconds)

    async def ask_at(self, stage: str, ref: str, function: str, *args: Any) -> Any:
        """Return what a function of page.js says of the element with a reference; a ToolError if it is gone."""
        frame, selector = self.spot(ref)

        async def work() -> Any:
            try:
                return await ask(partial(frame.eval_on_selector, selector), function, *args)
            except playwright_api().Error as error:
                if any(words in str(error) for words in _GONE_WORDS):
                    raise ToolError(gone_sentence(ref)) from None
                raise

        return await self.within(stage, work)

    async def handle(self, ref: str, locator: Locator) -> ElementHandle:
        api = playwright_api()

        async def find() -> ElementHandle:
            try:
                return await locator.element_handle(timeout=_FIRST_MS)
            except api.TimeoutError:
                raise ToolError(gone_sentence(ref)) from None
            except api.Error as error:
                raise mistake(error, ref) from None

        return await self.within(f"finding {ref}", find)

    async def address_of(self, ref: str) -> str:
        """Return the address of the frame in which the element with a reference is."""
        frame, selector = self.spot(ref)
        if in_some_frame(frame.page, ref):
            element = await self.handle(ref, frame.locator(selector))
            return address_of(await self.within("finding its frame", element.owner_frame))
        return address_of(frame)


def in_view(page: Page, place: PagePoint) -> bool:
    size = page.viewport_size
    return size is None or (0 <= place.x < size["width"] and 0 <= place.y < size["height"])


def address_of(frame: Frame | None) -> str:
    """Return a frame's address; of one that the page around it wrote (about:blank, srcdoc) that of the page."""
    while frame is not None and not frame.url.startswith(("http://", "https://")) and frame.parent_frame is not None:
        frame = frame.parent_frame
    return without_password(frame.url) if frame is not None else ""


def reason(error: Exception, ref: str) -> ToolError | None:
    """Return the sentence for a failure that is known; None for any other."""
    text = str(error)
    if covers := _COVER.findall(text):
        cover = plain(covers[-1], 120)
        return ToolError(f"{ref} is covered by {cover}; close that first, scroll, or click the place of what is on top")
    for words, sentence in _REASONS:
        if words in text:
            return ToolError(f"{ref} {sentence}")
    return None


def mistake(error: Exception, ref: str) -> ToolError:
    if problem := reason(error, ref):
        return problem
    first = plain(_CALL.sub("", str(error).strip().split("\n")[0]), 200)
    return ToolError(f"{ref} could not be used ({first}); look at the state again and try another way")
