"""A record of what an agent did in the browser: a picture after each action that changes something (000, app. D.5).

The agent asks for it by a name in its own state; pictures then gather in a folder of that name beside what the run
keeps, and become one moving picture at the end. It costs one JPEG an action, and whatever fails in it is left out: an
action never fails because it could not be recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.environments.browser.actions.arguments import PagePoint, point_of
from agentorchestra.environments.browser.view.references import locate
from agentorchestra.environments.browser.view.screenshots import picture_options
from agentorchestra.environments.browser.view.text import without_password

if TYPE_CHECKING:
    from playwright.async_api import Page

# Name in an agent's own state that holds the name of its record; without it nothing is recorded.
RECORD = "agent:browser:record"
PLACE = "browser"  # where records lie below a run's folder, a folder for each
FRAMES, STEPS = "frames", "frames.jsonl"
MOST_FRAMES = 50
WIDTH, COLOURS = 640, 64
FRAME_MS, LAST_FRAME_MS = 1_000, 3_000
_SHOT_S, _POINT_S = 3.0, 0.3
_JPEG_QUALITY = 50
_MARK_RADIUS = 12


@dataclass(frozen=True)
class Frame:
    """One picture of a record."""

    file: str  # its name
    action: str  # after which it was taken
    address: str  # of the page
    x: float | None = None  # x, y: where was clicked, in CSS pixels of the view; None for nowhere
    y: float | None = None


def record_folder(run_folder: Path, name: str) -> Path:
    return run_folder / PLACE / name


def recorded_as(ctx: Any) -> str:
    """Return the name of the record that an action belongs to, "" for none."""
    state = getattr(ctx, "vars", None)
    return str(state.get(RECORD) or "") if state is not None else ""


async def pointed_at(page: Page | None, ctx: Any, arguments: Mapping[str, JsonValue]) -> PagePoint | None:
    """Return where an action that is about to be recorded points: its position, or the middle of its element."""
    if page is None or not recorded_as(ctx):
        return None
    ref = str(arguments.get("ref") or arguments.get("start") or "")
    if (place := point_of(ref)) is not None:
        return place
    with contextlib.suppress(Exception):  # gone, covered, never there: what the action says of it is enough
        async with asyncio.timeout(_POINT_S):
            locator = await locate(page, ref) if ref else None
            box = await locator.bounding_box(timeout=_POINT_S * 1000) if locator is not None else None
        if box is not None:
            return PagePoint(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    return None


async def take_frame(
    page: Page | None, ctx: Any, action: str, looking: AbstractAsyncContextManager[None], point: PagePoint | None = None
) -> None:
    """Add a picture of a page (None if it does not answer) to the record that an action belongs to, if there is one."""
    name = recorded_as(ctx)
    if not name or page is None:
        return
    with contextlib.suppress(Exception):  # a page in trouble, a full disk: the action counts, not its picture
        async with asyncio.timeout(_SHOT_S), looking:
            options = picture_options(page) | {"quality": _JPEG_QUALITY, "timeout": _SHOT_S * 1000}
            jpg = await page.screenshot(type="jpeg", animations="allow", **options)
        await asyncio.to_thread(
            add_frame, record_folder(ctx.folder, name), jpg, action, without_password(page.url), point
        )


def add_frame(folder: Path, jpg: bytes, action: str, address: str, point: tuple[float, float] | None) -> None:
    """Add a JPEG to a record, after an action at a point; of a long record every second one goes. Blocks."""
    frames = folder / FRAMES
    frames.mkdir(parents=True, exist_ok=True)
    paths = sorted(frames.glob("*.jpg"))
    number = int(paths[-1].stem) + 1 if paths else 1
    if len(paths) >= 2 * MOST_FRAMES:
        for path in paths[1::2]:  # every second one: the whole of a long work, not its beginning
            path.unlink(missing_ok=True)
    frame = Frame(f"{number:06d}.jpg", action, address, *(point or (None, None)))
    (frames / frame.file).write_bytes(jpg)
    with (folder / STEPS).open("a", encoding="utf-8") as steps:
        steps.write("\n" + json.dumps(asdict(frame)))  # a line that a dead process left half written ends here


def frames_of(folder: Path) -> list[Frame]:
    """Return the pictures of a record in order, at most MOST_FRAMES over the whole, the first and last included."""
    try:
        lines = (folder / STEPS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    frames: list[Frame] = []
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):  # a process that died while it wrote
            values: dict[str, JsonValue] = json.loads(line)
            frame = Frame(**values)  # type: ignore[arg-type]
            if (folder / FRAMES / frame.file).is_file():
                frames.append(frame)
    if len(frames) <= MOST_FRAMES:
        return frames
    last = len(frames) - 1
    return [frames[round(index * last / (MOST_FRAMES - 1))] for index in range(MOST_FRAMES)]


def moving_picture(folder: Path) -> bytes | None:
    """Return the record as a GIF with marks where was clicked; None without pictures. Blocks."""
    from PIL import Image, ImageDraw

    images = []
    frames = frames_of(folder)
    for frame, following in zip(frames, (*frames[1:], None), strict=True):
        try:
            with Image.open(folder / FRAMES / frame.file) as image:
                image.load()
                picture = image.convert("RGB")
        except OSError:
            continue
        # What is clicked on a page is seen on the picture before: the one after shows what came of it.
        if following is not None and following.x is not None and following.y is not None:
            x, y, r = following.x, following.y, _MARK_RADIUS
            draw = ImageDraw.Draw(picture)
            draw.ellipse([x - r, y - r, x + r, y + r], outline=(255, 255, 255), width=6)
            draw.ellipse([x - r, y - r, x + r, y + r], outline=(220, 0, 60), width=3)
        scale = min(1.0, WIDTH / picture.width)
        if scale < 1:
            picture = picture.resize((WIDTH, max(1, round(picture.height * scale))), Image.Resampling.BILINEAR)
        images.append(picture)
    if not images:
        return None
    # All of one size: a page may have changed the size of its view.
    size = images[0].size
    pictures = [(image if image.size == size else image.resize(size)).quantize(COLOURS) for image in images]
    durations = [FRAME_MS] * (len(pictures) - 1) + [LAST_FRAME_MS]
    gif = io.BytesIO()
    pictures[0].save(gif, "GIF", save_all=True, append_images=pictures[1:], duration=durations, loop=0, optimize=False)
    return gif.getvalue()
