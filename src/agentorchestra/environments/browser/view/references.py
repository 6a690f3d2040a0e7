"""References of elements: from those in a view to the elements they stand for.

`e12` and `f1e3` are Playwright's, and are resolved against its latest snapshot of the page. `x3` are our own, for what
snapshots miss: a number of the page's, which stays with its element as long as that is in its document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from agentorchestra.environments.browser.scripts import beginning, script

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Frame, Locator, Page, Playwright

_ENGINE = "agentref"
_SNAPSHOT_REF = re.compile(r"(?:f\d{1,9})?e\d{1,9}")
_MOST_GIVEN = 20_000
_numbers: WeakKeyDictionary[Page, ElementNumbers] = WeakKeyDictionary()


@dataclass(slots=True)
class ElementNumbers:
    """Our own references of one page."""

    views: int = 0  # how many views were taken of the page
    last: int = 0  # the number of the last reference; none is given twice
    refs: dict[tuple[str, int], str] = field(default_factory=dict)
    places: dict[str, tuple[Frame, str, int]] = field(default_factory=dict)

    def give(self, frame: Frame, token: str, number: int) -> str:
        """Return the reference of an element, by its document and its number there."""
        if (ref := self.refs.get((token, number))) is None:
            if self.last % _MOST_GIVEN == _MOST_GIVEN - 1:  # a page that makes new elements all the time
                self.refs.clear()
                self.places.clear()
            self.last += 1
            ref = self.refs[token, number] = f"x{self.last}"
            self.places[ref] = (frame, token, number)
        return ref


def numbers_of(page: Page) -> ElementNumbers:
    """Return a page's own references; they end with it."""
    return _numbers.setdefault(page, ElementNumbers())


async def teach(playwright: Playwright) -> None:
    """Teach a Playwright to find elements by our own references; once for each."""
    await playwright.selectors.register(_ENGINE, script("engine.js"))


async def listen(context: BrowserContext) -> None:
    """Let a context's pages note what listens to the pointer; before its first page is opened."""
    await context.add_init_script(beginning())


def in_some_frame(page: Page, ref: str) -> bool:
    """Return True where only the browser knows in which frame an element is: of ours it is known, of one frame too."""
    return len(page.frames) > 1 and bool(_SNAPSHOT_REF.fullmatch(ref.strip().strip("[]")))


def selected(page: Page, ref: str) -> tuple[Frame, str] | None:
    """Return the frame and the selector of a view's reference (`e12`, `f1e3`, `x3`); None for what was never given.

    Of `e12` and `f1e3` the frame is the page's own, out of which the selector leads.
    """
    ref = ref.strip().strip("[]")
    if _SNAPSHOT_REF.fullmatch(ref):
        return page.main_frame, f"aria-ref={ref}"
    place = numbers_of(page).places.get(ref)
    if place is None or place[0].is_detached():
        return None
    return place[0], f"{_ENGINE}={place[1]}:{place[2]}"


def locator_of(page: Page, ref: str) -> Locator | None:
    """Return what a view's reference stands for; None for what was never given.

    The element may be gone: `locate` asks the page.
    """
    spot = selected(page, ref)
    return spot[0].locator(spot[1]) if spot is not None else None


async def locate(page: Page, ref: str) -> Locator | None:
    """Return the element of a view's reference (`e12`, `f1e3`, `x3`); None if there is none any more."""
    from playwright.async_api import Error

    if (locator := locator_of(page, ref)) is None:
        return None
    try:
        return locator if await locator.count() == 1 else None
    except Error:
        if page.is_closed():
            raise
        return None  # the frame is gone, or was never looked at
