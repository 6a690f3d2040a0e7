"""Writing in pictures, and eyes that read it: letter by letter, by comparing each place with how letters look.

It stands in for a model that sees: it knows nothing of a picture but its pixels.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache

from PIL import Image, ImageChops, ImageDraw, ImageFont, ImageStat

SIZE = (640, 360)
CELL = (16, 30)
"""Pixels of one letter's place: pictures are 40 letters wide and 12 lines high."""

_LETTERS = "".join(chr(code) for code in range(33, 127))


def written(lines: Sequence[str], ink: str = "black", paper: str = "white") -> Image.Image:
    """A picture with lines of text."""
    picture = Image.new("RGB", SIZE, paper)
    pen = ImageDraw.Draw(picture)
    for row, line in enumerate(lines):
        for column, letter in enumerate(line):
            pen.text((column * CELL[0] + 1, row * CELL[1] + 2), letter, fill=ink, font=_font())
    return picture


def png(picture: Image.Image) -> bytes:
    """The picture as a file."""
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def read(data: bytes) -> list[str]:
    """The lines that are written in a picture, whatever its colours and its size."""
    with Image.open(io.BytesIO(data)) as opened:
        grey = opened.convert("L").resize(SIZE)
    paper = max(range(256), key=grey.histogram().__getitem__)
    marks = ImageChops.difference(grey, Image.new("L", SIZE, paper))
    strongest = _strongest(marks)
    if strongest < 40:
        return []
    marks = marks.point(lambda value: min(255, value * 255 // strongest))  # pyright: ignore[reportOperatorIssue]
    rows = []
    for top in range(0, SIZE[1], CELL[1]):
        places = [marks.crop((x, top, x + CELL[0], top + CELL[1])) for x in range(0, SIZE[0], CELL[0])]
        rows.append("".join(_letter(place) for place in places).rstrip())
    return [row for row in rows if row]


def _strongest(marks: Image.Image) -> int:
    return ImageStat.Stat(marks).extrema[0][1]


def _letter(place: Image.Image) -> str:
    if _strongest(place) < 90:
        return " "
    return min(_shapes(), key=lambda letter: ImageStat.Stat(ImageChops.difference(place, _shapes()[letter])).sum2[0])


@cache
def _shapes() -> dict[str, Image.Image]:
    """How each letter looks in its place."""
    return {letter: written([letter], "white", "black").convert("L").crop((0, 0, *CELL)) for letter in _LETTERS}


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(22)
