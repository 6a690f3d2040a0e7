"""A look at a page: what an agent sees of it.

The accessibility snapshot that Playwright makes for models, with what it leaves out (frames.py), cut to what is in view
and to a budget (lines.py). A page that is too large for a snapshot is shown all the same, by a plainer view that the
page draws itself in bounded time.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentorchestra.environments.browser.scripts import script
from agentorchestra.environments.browser.view.frames import HIDDEN_VALUE, FramePart, join, join_drawn, unmatched_fields
from agentorchestra.environments.browser.view.lines import keep_seen, lines_of, tidy
from agentorchestra.environments.browser.view.probe import MOST_ELEMENTS, PageProbe, Scroll, probe, read
from agentorchestra.environments.browser.view.references import locate, numbers_of
from agentorchestra.environments.browser.view.snapshot import Box, PageNode, parse
from agentorchestra.environments.browser.view.text import address, plain

if TYPE_CHECKING:
    from playwright.async_api import Frame, Page

logger = logging.getLogger(__name__)
_MOST_WEIGHT = 3_000_000
_MOST_DEPTH = 300
_MOST_FRAMES = 20
_SILENT = PageProbe(stopped=True)
_MOST_COMPARED = 1500  # lines of a view that is compared with the one before


@dataclass(frozen=True, slots=True)
class ElementMark:
    """The place of an element with a reference, in CSS pixels of what is seen of the page."""

    ref: str
    box: Box
    role: str
    name: str


@dataclass(frozen=True, slots=True)
class PageView:
    number: int  # counts the views of a page; references are those of the latest
    url: str  # shortened
    title: str
    document: str  # names the document: another one after a navigation
    lines: tuple[str, ...]  # the elements that are shown
    scroll: Scroll  # where the page stood
    tree: PageNode  # what the lines were made of
    whole: bool = False  # what is not in view was asked for too
    asks_password: bool = False  # a field for one can be seen, in the page itself
    sketch: bool = False  # the plain view of a page that is too large for a snapshot
    remarks: tuple[str, ...] = ()  # on what was left out

    @property
    def marks(self) -> tuple[ElementMark, ...]:
        """Return the places of elements with references that can be used and are in view."""
        return _marks(self.tree, self.scroll)

    @property
    def place(self) -> str:
        """Return which part of the page it is, in a few words."""
        above, below = self.scroll.above, self.scroll.below
        if not self.scroll.height:
            return "how far the page is scrolled is not known"
        left = max(self.scroll.x, 0) / max(self.scroll.seen_width, 1)
        right = max(self.scroll.width - self.scroll.x, 0) / max(self.scroll.seen_width, 1) - 1
        if max(above, below, left, right) < 0.05:
            return "the whole page is in view"
        aside = f", {left:.1f} to the left, {right:.1f} to the right" if max(left, right) >= 0.05 else ""
        return f"{above:.1f} pages above what is in view, {below:.1f} below{aside}"

    @property
    def text(self) -> str:
        return "\n".join((f"scroll: {self.place}", *self.remarks, *(self.lines or ("(the page shows nothing)",))))


async def look(
    page: Page, *, budget: int = 12_000, whole: bool = False, seconds: float = 10.0, answer: Any = None
) -> PageView:
    """Look at a page (with `whole` beyond the view); a TimeoutError of Playwright if it does not answer.

    Its lines have at most `budget` characters. A snapshot has so many `seconds`; the plain view then gets a few more.
    `answer` is what probe.js said of the page a moment ago, where somebody asked it.
    """
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    numbers = numbers_of(page)
    main = await _part(page.main_frame, whole=whole, sketch=False, answer=None if whole else answer)
    text, tree = None, PageNode("page")
    if not any(_too_large(part.probe) for part in main.parts()):
        try:
            async with asyncio.timeout(seconds + 1):
                text = await page.aria_snapshot(mode="ai", boxes=True, timeout=seconds * 1000)
        except (TimeoutError, PlaywrightTimeout):
            logger.info("no snapshot of a page in %g s, it is drawn", seconds)

    def give(part: FramePart, number: int) -> str:
        return numbers.give(part.key, part.probe.token, number)

    if text is not None:
        tree = parse(text)
        for node in unmatched_fields(tree, main)[:50]:
            await _mask_exactly(page, node)
        join(tree, main, give)
    else:
        main = await _part(page.main_frame, whole=whole, sketch=True)
        join_drawn(tree, main, give)
    seen = main.probe.scroll
    if not whole:
        floating = [trait.box for trait in main.probe.traits if trait.kind == "floats"]  # menus and dialogs
        keep_seen(tree, seen.seen_width, seen.seen_height, floating)
    tidy(tree)
    numbers.views += 1
    return PageView(
        number=numbers.views,
        url=address(main.probe.url or page.url, 300),
        title=plain(main.probe.title, 200),
        document=main.probe.token,
        lines=lines_of(tree, budget),
        scroll=seen,
        tree=tree,
        whole=whole,
        asks_password=main.probe.asks_password,
        sketch=text is None,
        remarks=_remarks(main, sketch=text is None),
    )


async def _part(frame: Frame, *, whole: bool, sketch: bool, answer: Any = None) -> FramePart:
    """Return what the page says of itself, with its frames in view."""
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    result = read(answer) if isinstance(answer, dict) else await probe(frame, whole=whole, sketch=sketch)
    if result is None:
        raise PlaywrightTimeout("the page does not answer")
    main = FramePart(frame, result)
    left = _MOST_FRAMES
    level = [main]
    while level and left > 0:
        places = [(part, child) for part in level for child in part.key.child_frames][:left]
        left -= len(places)
        parts = await asyncio.gather(*(_inner(part, child, whole=whole, sketch=sketch) for part, child in places))
        level = [part for part in parts if part is not None]
    return main


async def _inner(parent: FramePart, frame: Frame, *, whole: bool, sketch: bool) -> FramePart | None:
    """Return a frame in another one; None if it is not in view, or gone."""
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(3):
            element = await frame.frame_element()
            number = await element.evaluate(
                '(element) => window[Symbol.for("agentorchestra.view")]?.numbers.get(element) ?? 0'
            )
    except (TimeoutError, Error):
        return None
    if number not in {trait.number for trait in parent.probe.traits if trait.kind == "frame"}:
        return None
    result = await probe(frame, whole=whole, sketch=sketch)
    part = FramePart(frame, result if result is not None else _SILENT)
    parent.inner[number] = part
    return part if result is not None else None


def _too_large(page: PageProbe) -> bool:
    """Return True if a snapshot could take more than a few seconds, or gigabytes; also if a frame does not answer."""
    return page.elements > MOST_ELEMENTS or page.weight > _MOST_WEIGHT or page.depth > _MOST_DEPTH or page is _SILENT


def _remarks(main: FramePart, *, sketch: bool) -> tuple[str, ...]:
    remarks = []
    if any(part.probe is _SILENT for part in main.parts()):
        remarks.append("(a frame of the page does not answer and is left out)")
    elif main.probe.opaque:
        remarks.append("(the page lets no script look into it: this is only what screen readers are told)")
    elif sketch:
        remarks.append(f"(a large page, {main.probe.elements:,} elements: this is a plain view of it)")
    if main.probe.stopped and sketch:
        remarks.append("(not everything could be looked at)")
    return tuple(remarks)


async def _mask_exactly(page: Page, node: PageNode) -> None:
    """Ask the field itself whether its value is secret; what cannot be asked is taken to be."""
    from playwright.async_api import Error

    try:
        field = await locate(page, node.ref)
        secret = field is None or await field.evaluate(script("secret.js"), timeout=1000)
    except Error:
        secret = True
    if secret:
        node.children = [HIDDEN_VALUE]


def _marks(tree: PageNode, seen: Scroll) -> tuple[ElementMark, ...]:
    marks = []
    for node in tree.elements():
        if not node.ref or not node.interactive or node.box is None or node.role == "page":
            continue
        x, y, width, height = node.box
        if x < seen.seen_width and y < seen.seen_height and x + width > 0 and y + height > 0 and width and height:
            marks.append(ElementMark(node.ref, node.box, node.role, plain(node.name, 80)))
    return tuple(marks)


def _alike(lines: Sequence[str], other: Sequence[str]) -> int:
    """Return with how many of the same lines both begin."""
    differs = (at for at, (line, counterpart) in enumerate(zip(lines, other, strict=False)) if line != counterpart)
    return next(differs, min(len(lines), len(other)))


def difference(previous: PageView | None, now: PageView) -> str | None:
    """Return what is different now, in lines that begin with `-` (gone) and `+` (new); None if the page itself says it.

    That is after a navigation, for another part or form of the page, or for changes that are as long as the page.
    """
    if previous is None or previous.document != now.document or previous.number >= now.number:
        return None
    if (previous.whole, previous.sketch) != (now.whole, now.sketch):
        return None
    if max(len(previous.lines), len(now.lines)) > _MOST_COMPARED:
        return None
    # Most of a page stays: what is the same before and behind the changes is left out, but for a line of each.
    before, after = previous.lines, now.lines
    start = max(_alike(before, after) - 1, 0)
    end = max(_alike(before[:start:-1], after[:start:-1]) - 1, 0)
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    changes = [
        line
        for line in difflib.unified_diff(before, after, lineterm="", n=1)
        if not line.startswith(("---", "+++", "@@"))
    ]
    if not any(line[0] in "+-" for line in changes):
        position = "" if previous.scroll == now.scroll else f"; {now.place}"
        return f"nothing changed since view {previous.number} of the page{position}"
    text = "\n".join((f"changed since view {previous.number} of the page (- gone, + new; {now.place}):", *changes))
    return text if len(text) < sum(map(len, now.lines)) + len(now.lines) else None
