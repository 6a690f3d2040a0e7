"""Pictures of a page: as it is, or with the references of a view drawn where its elements are."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from agentorchestra.core.errors import MissingExtraError
from agentorchestra.environments.browser.view.snapshot import Box, holds
from agentorchestra.environments.browser.view.view import ElementMark, PageView

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont
    from playwright.async_api import Page

# Dark enough for white letters on them, and to be told apart.
_COLOURS = ("#b00020", "#0b57d0", "#146c2e", "#7b1fa2", "#9a4600", "#00687a", "#5d4037", "#37474f")
_CONTRAST = 60
_FONT, _SMALL_FONT = 12, 9
_MOST_MARKS = 400
_MOST_FRAMES = 20
_JPEG_QUALITY = 80
_SECRET_FIELDS = (
    'input[type="password"], input[autocomplete*="cc-" i], input[autocomplete*="one-time-code" i], '
    'input[autocomplete*="-password" i]'
)


def wants_picture(setting: str, ctx: Any) -> bool:
    """Return True if an agent is shown a picture of its page, by the setting `browser.screenshots`."""
    if setting != "auto":
        return setting == "always"
    if (manifest := getattr(ctx, "manifest", None)) is None:
        return False
    role = manifest.roles.get(ctx.role)
    # A model that a delegation chose comes before the role's.
    model = ctx.model if ctx.model != manifest.model or role is None or not role.model else role.model
    return model in manifest.media_models.get("image", ())


def picture_options(page: Page) -> dict[str, Any]:
    """Return what all screenshots of a page are taken with: in CSS pixels, secret fields black, in frames too."""
    fields = [frame.locator(_SECRET_FIELDS) for frame in page.frames[:_MOST_FRAMES]]
    return {"scale": "css", "mask": fields, "mask_color": "#000000"}


async def clear_screenshot(page: Page, *, seconds: float = 5.0) -> bytes:
    """Return a PNG of what is seen of a page, in CSS pixels, which are places of the mouse. Secret fields are black."""
    options = picture_options(page)
    return await page.screenshot(type="png", animations="disabled", timeout=seconds * 1000, **options)


async def marked_screenshot(page: Page, view: PageView, *, seconds: float = 5.0) -> bytes:
    """Return a JPEG of what is seen of a page, with the references of a view taken just before; in CSS pixels."""
    picture = await clear_screenshot(page, seconds=seconds)
    return await asyncio.to_thread(draw_marks, picture, view.marks)


def draw_marks(picture: bytes, marks: Sequence[ElementMark]) -> bytes:
    """Return the picture as a JPEG, each element (the smallest 400) with a frame and its reference beside it.

    A label covers no other one, and no element where there is room: it stands around its own, else as near as that
    goes, small, with a line to it.
    """
    try:
        from PIL import ImageDraw
        from PIL.Image import open as open_image
    except ImportError:
        raise MissingExtraError(
            "references on pictures of pages need Pillow, which is not installed; run: "
            "pip install 'agentorchestra[browser]'"
        ) from None
    image = open_image(io.BytesIO(picture)).convert("RGB")
    labels = place_labels(marks, image.convert("L"))
    canvas = ImageDraw.Draw(image)
    for index, label in enumerate(labels):
        x, y, width, height = label.mark.box
        canvas.rectangle((x, y, x + width - 1, y + height - 1), outline=_COLOURS[index % len(_COLOURS)], width=1)
    for index, label in enumerate(labels):
        _draw(canvas, label, _COLOURS[index % len(_COLOURS)])
    out = io.BytesIO()
    image.save(out, "JPEG", quality=_JPEG_QUALITY)
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class Label:
    """The place of a marked element's reference on a picture, and its font."""

    mark: ElementMark
    box: Box
    font: FreeTypeFont


def place_labels(marks: Sequence[ElementMark], grey: Image) -> list[Label]:
    from PIL.Image import new as new_image
    from PIL.ImageFont import FreeTypeFont, load_default

    fonts = [font for size in (_FONT, _SMALL_FONT) if isinstance(font := load_default(size), FreeTypeFont)]
    # Small elements first: they have the least room.
    candidates = sorted(marks, key=lambda mark: mark.box[2] * mark.box[3])[:_MOST_MARKS]
    boxes = [mark.box for mark in candidates]
    boxs: list[Box] = []
    labels = []
    cover = new_image("L", grey.size)  # with elements, but for large ones around others, and labels
    for box in boxes:
        if not any(holds(box, inner) and box[2] * box[3] > inner[2] * inner[3] * 4 for inner in boxes):
            cover.paste(255, _corners(box))
    for mark in candidates:
        place, font = _place(mark, fonts, boxs, boxes, grey, cover)
        boxs.append(place)
        cover.paste(255, _corners(place))
        labels.append(Label(mark, place, font))
    return labels


def _place(
    mark: ElementMark, fonts: list[FreeTypeFont], boxs: list[Box], boxes: list[Box], grey: Image, image: Image
) -> tuple[Box, FreeTypeFont]:
    x, y, width, height = mark.box
    least: list[tuple[int, Box, FreeTypeFont]] = []  # beside the element, by how much it hides
    beside = (x - 100, y - 50, width + 200, height + 100)
    near, labels = ([box for box in all_ if _common(box, beside)] for all_ in (boxes, boxs))
    for font in fonts:
        wide, high = (int(length) + more for length, more in zip(font.getbbox(mark.ref)[2:], (4, 3), strict=True))
        right, lower = x + width - wide, y + height - high
        around = [
            *((x - wide, y), (x + width, y), (x, y - high), (right, y - high), (x, y + height), (right, y + height)),
            *((x, y), (right, y), (x, lower), (right, lower)),
        ]
        fits = [spot for left, upper in around if _fits(spot := (left, upper, wide, high), grey.size, labels)]
        least += [(_hidden(fit, mark, near) + _ink(fit, grey), fit, font) for fit in fits]
        least = sorted(least, key=lambda entry: entry[0])[:1]
        if least and not least[0][0]:
            return least[0][1:]
    for away in range(1, 6 if least else 30):
        steps = range(-away, away + 1)
        for dx, dy in product(steps, steps):
            spot = (x + dx * wide, y + dy * high, wide, high)
            if max(abs(dx), abs(dy)) < away or not _fits(spot, grey.size, [] if least else boxs):
                continue
            if not least or (image.crop(_corners(spot)).getbbox() is None and not _ink(spot, grey)):
                return spot, fonts[-1]
    return least[0][1:] if least else ((x, y, wide, high), fonts[-1])


def _corners(box: Box) -> Box:
    return box[0], box[1], box[0] + box[2], box[1] + box[3]


def _fits(box: Box, size: tuple[int, int], boxs: list[Box]) -> bool:
    x, y, width, height = box
    if x < 0 or y < 0 or x + width > size[0] or y + height > size[1]:
        return False
    return not any(_common(box, other) for other in boxs)


def _hidden(box: Box, mark: ElementMark, boxes: list[Box]) -> int:
    """Return how much of elements a label would hide; those that lie around the marked one do not count."""
    own = mark.box[2] * mark.box[3]
    return sum(_common(box, other) for other in boxes if other == mark.box or other[2] * other[3] <= own * 4)


def _ink(box: Box, grey: Image) -> int:
    """Return what of a picture, words for one, a label would hide: nothing where there is one colour."""
    low, high = grey.crop(_corners(box)).getextrema()
    return box[2] * box[3] // 2 if float(high) - float(low) > _CONTRAST else 0  # type: ignore[arg-type]


def _common(box: Box, other: Box) -> int:
    width = min(box[0] + box[2], other[0] + other[2]) - max(box[0], other[0])
    height = min(box[1] + box[3], other[1] + other[3]) - max(box[1], other[1])
    return width * height if width > 0 and height > 0 else 0


def _draw(canvas: ImageDraw, label: Label, colour: str) -> None:
    x, y, width, height = label.box
    left, upper, wide, high = label.mark.box
    if not _common(label.box, (left - 1, upper - 1, wide + 2, high + 2)):
        canvas.line((x + width // 2, y + height // 2, left + wide // 2, upper + high // 2), fill=colour, width=1)
    canvas.rectangle((x, y, x + width - 1, y + height - 1), fill=colour)
    canvas.text((x + 2, y + 1), label.mark.ref, fill="white", font=label.font)
