"""Media as models take them: pictures of a size they read, sound as MP3, short videos; no metadata goes along.

What is asked for may be a part: a region of a picture, pages of a PDF, a time range of a recording.
"""

from __future__ import annotations

import base64
import io
from typing import Any

from .base import Job, Refused, need, one_line
from .media import MOST_FRAMES, _only, _probe, _run, _seconds, clock, frames

LONGEST = 1_568  # pixels of a picture's longer side: what models read without scaling it themselves
SMALLEST = 640  # a region is enlarged to this: models see little in very small pictures
MOST_PIXELS = 120_000_000
MOST_PAGES = 8
MOST_SOUND_S = 1_200.0
MOST_CLIP_S = 180.0
MOST_BYTES = 15_000_000  # of one recording or video; about what providers take in one request
_SENT_AS_IT_IS = 5_000_000
_PNG_BYTES = 1_000_000
# Pillow's names of the formats it may try: never those that start other programs.
_READ_BY = {
    "image/png": ("PNG",),
    "image/jpeg": ("JPEG", "MPO"),
    "image/gif": ("GIF",),
    "image/webp": ("WEBP",),
    "image/tiff": ("TIFF",),
    "image/bmp": ("BMP",),
    "image/avif": ("AVIF",),
}
_PAGED = ("application/pdf", "image/tiff", "image/gif")


def shaped(job: Job, data: bytes, media_type: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return one file in one form.

    Args:
        asked: `form` ("facts", "pictures", "sound", "frames", "clip"), and what it needs: `region` (fractions of width
            and height: left, top, right, bottom), `pages`, `from_s`, `to_s`, `count`.

    Returns:
        `pieces` (each with `place`, `media_type` and `data` in base64), `notes`; of "facts" what it is.
    """
    form = asked["form"]
    if form == "facts":
        return _facts(data, media_type)
    if form == "pictures":
        found = _pages(data, asked) if media_type == "application/pdf" else _pictures(data, media_type, asked)
    else:
        first, last, notes = _range(data, media_type, asked)
        if form == "frames":
            count = max(1, min(asked["count"], MOST_FRAMES))
            at = [first + (last - first) * (number + 0.5) / count for number in range(count)]
            shown = frames(job, data, media_type, at, 0)
            found = [{**one, "place": f"frame {one['at']}"} for one in shown], notes
        else:
            whole = not (asked["from_s"] or asked["to_s"])
            found = [_recording(data, media_type, first, last, form, whole=whole)], notes
    pieces, notes = found
    return {"pieces": pieces, "notes": notes}


def _facts(data: bytes, media_type: str) -> dict[str, Any]:
    kind = media_type.partition("/")[0]
    if media_type == "application/pdf":
        kind = "image"
    if kind not in ("image", "audio", "video"):
        raise Refused("medium", f"it is {media_type}; read_file reads it")
    facts: dict[str, Any] = {"kind": kind, "media_type": media_type, "sound": kind == "audio"}
    facts["paged"] = media_type in _PAGED
    facts["pages"] = _page_count(data) if media_type == "application/pdf" else 0
    facts["seconds"] = 0.0
    if kind != "image":
        probed = _probed(data, media_type)
        facts["seconds"] = _seconds(probed.get("format", {}).get("duration"))
        facts["sound"] = any(one.get("codec_type") == "audio" for one in probed.get("streams", ()))
        if not any(one.get("codec_type") in ("audio", "video") for one in probed.get("streams", ())):
            raise Refused("medium", "it holds neither sound nor pictures")
    return facts


def _page_count(data: bytes) -> int:
    """Return pages of a PDF, 0 where they cannot be counted; who wants to see one is told why."""
    pypdfium2 = need("pypdfium2")
    try:
        return len(pypdfium2.PdfDocument(data))
    except pypdfium2.PdfiumError:
        return 0


def _piece(place: str, media_type: str, data: bytes) -> dict[str, Any]:
    return {"place": place, "media_type": media_type, "data": base64.b64encode(data).decode()}


# --- pictures -------------------------------------------------------------------------------------------------------


def _pictures(data: bytes, media_type: str, asked: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the picture, or the pages of one that has several (TIFF, GIF)."""
    image = _pillow()
    if media_type not in _READ_BY:
        raise Refused("medium", f"{media_type} is not read here; save it as PNG or JPEG")
    pieces, notes = [], []
    try:
        with image.open(io.BytesIO(data), formats=_READ_BY[media_type]) as picture:
            wanted = asked["pages"] or [1]
            for number in wanted[:MOST_PAGES]:
                try:
                    picture.seek(number - 1)
                except EOFError:
                    raise Refused("medium", f"it has no page {number}") from None
                _bounded(picture, asked["region"])
                place = f"p. {number}" if asked["pages"] else ""
                pieces.append(_piece(_placed(place, asked), *_drawn(picture, asked["region"])))
            if not asked["pages"] and getattr(picture, "is_animated", False):
                notes.append("it has several pages or frames, of which the first is shown: name others by pages")
    except (MemoryError, Refused):
        raise
    except Exception as error:
        raise Refused("medium", f"it is cut off or damaged ({type(error).__name__}: {one_line(str(error))})") from None
    return pieces, notes


def _pages(data: bytes, asked: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    _pillow()
    pypdfium2 = need("pypdfium2")
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Refused("encrypted_pdf") from None
        raise Refused("pdf", one_line(str(error))) from None
    pieces, notes = [], []
    count = len(document)
    wanted = asked["pages"] or list(range(1, min(count, MOST_PAGES // 2) + 1))
    for number in wanted[:MOST_PAGES]:
        if number > count:
            raise Refused("medium", f"it has no page {number}; it has {count}")
        page = document[number - 1]
        width, height = page.get_size()
        longer = max(width, height, 1.0)
        region = asked["region"]
        # A region is drawn as large as a whole page would be; four times is where small print is read.
        zoom = min(4.0, 1 / max(region[2] - region[0], region[3] - region[1])) if region else 1.0
        picture = page.render(scale=LONGEST * zoom / longer).to_pil()
        pieces.append(_piece(_placed(f"p. {number}", asked), *_drawn(picture, region)))
        page.close()
    if not asked["pages"] and count > len(pieces):
        notes.append(f"the first {len(pieces)} of {count} pages are shown: name others by pages")
    return pieces, notes


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise Refused("extra", "PIL") from None
    Image.MAX_IMAGE_PIXELS = None  # counted here, where a JPEG may still be read smaller than it is
    return Image


def _bounded(picture: Any, region: list[float] | None) -> None:
    """Refuse a picture of more pixels than there is room for, before any of them is decoded."""
    if picture.format in ("JPEG", "MPO"):
        part = min(region[2] - region[0], region[3] - region[1]) if region else 1.0
        side = int(LONGEST / part)
        picture.draft("RGB", (min(side, picture.width), min(side, picture.height)))
    if picture.width * picture.height > MOST_PIXELS:
        raise Refused("medium", f"it has {picture.width:,} x {picture.height:,} pixels; scale it down first")


def _placed(place: str, asked: dict[str, Any]) -> str:
    region = asked["region"]
    return " ".join(filter(None, (place, "region " + ",".join(f"{one:g}" for one in region) if region else "")))


def _drawn(picture: Any, region: list[float] | None) -> tuple[str, bytes]:
    """Return it upright, cut to the region, on white, within `LONGEST`: as PNG where that is small, else as JPEG."""
    from PIL import Image, ImageOps

    ImageOps.exif_transpose(picture, in_place=True)
    drawn = picture
    if region:
        left, top, right, bottom = region
        box = (int(left * drawn.width), int(top * drawn.height), right * drawn.width, bottom * drawn.height)
        drawn = drawn.crop((box[0], box[1], max(box[0] + 1, round(box[2])), max(box[1] + 1, round(box[3]))))
    drawn = _in_colour(drawn)
    longer = max(drawn.size)
    if longer > LONGEST or (region and longer < SMALLEST):
        ratio = (LONGEST if longer > LONGEST else SMALLEST) / longer
        size = (max(1, round(drawn.width * ratio)), max(1, round(drawn.height * ratio)))
        drawn = drawn.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0 if ratio < 1 else None)
    if picture.format not in ("JPEG", "MPO"):
        out = io.BytesIO()
        drawn.save(out, "PNG")
        if out.tell() <= _PNG_BYTES:
            return "image/png", out.getvalue()
    out = io.BytesIO()
    drawn.save(out, "JPEG", quality=90)
    return "image/jpeg", out.getvalue()


def _in_colour(picture: Any) -> Any:
    from PIL import Image

    if picture.mode.startswith(("I", "F")):  # sixteen bits and more: their whole range becomes black to white
        exact = picture.convert("F")
        low, high = exact.getextrema()
        scale = 255.0 / (high - low) if high > low else 1.0
        return exact.point(lambda value: value * scale - low * scale).convert("L").convert("RGB")
    if picture.has_transparency_data:
        clear = picture.convert("RGBA")
        white = Image.new("RGBA", clear.size, "white")
        white.alpha_composite(clear)
        return white.convert("RGB")
    return picture.convert("RGB")


# --- recordings -----------------------------------------------------------------------------------------------------


def _probed(data: bytes, media_type: str) -> dict[str, Any]:
    try:
        return _probe(data, media_type)
    except Refused as error:
        raise Refused("medium", error.detail) from None


def _range(data: bytes, media_type: str, asked: dict[str, Any]) -> tuple[float, float, list[str]]:
    """Return the seconds that are asked for, within the recording, and what is left out of them."""
    duration = _seconds(_probed(data, media_type).get("format", {}).get("duration"))
    first, last = asked["from_s"] or 0.0, asked["to_s"] or duration or MOST_SOUND_S
    if duration and first >= duration:
        raise Refused("medium", f"it ends at {clock(duration)} ({duration:.1f} s)")
    if duration:
        last = min(last, duration)
    most = {"sound": MOST_SOUND_S, "clip": MOST_CLIP_S}.get(asked["form"])
    if most is None or last - first <= most:
        return first, last, []
    end = first + most
    more = f"it is given from {clock(first)} to {clock(end)} only: ask for what follows with from_s={end:g}"
    return first, end, [more]


def _recording(data: bytes, media_type: str, first: float, last: float, form: str, *, whole: bool) -> dict[str, Any]:
    """Return its sound, or a short video; as it is where that is what models take."""
    kind, container, plain, bound, most_s, what = _RECORDINGS[form]
    place = f"{clock(first)}-{clock(last)}"
    if whole and media_type in plain and len(data) <= bound and last <= most_s:
        return _piece(place, media_type, data)
    taken = ["-ss", f"{first:.3f}", "-t", f"{last - first:.3f}", *_only(media_type), "-i", "{file}"]
    written = ["-fs", str(MOST_BYTES), "-f", container, "-"]
    made = _run("ffmpeg", ["-nostdin", "-threads", "1", *taken, *_CODED[form], *written], data)
    if not made:
        raise Refused("medium", f"no {what} of it can be decoded")
    return _piece(place, kind, made)


_CODED = {
    "sound": [
        *("-vn", "-map", "0:a:0", "-map_metadata", "-1", "-ac", "1", "-ar", "24000", "-c:a", "libmp3lame"),
        *("-b:a", "64k"),
    ],
    "clip": [
        *("-vf", "scale='trunc(min(640,iw)/2)*2':-2,fps=8", "-c:v", "libx264", "-preset", "veryfast", "-crf", "28"),
        *("-map_metadata", "-1", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "1", "-b:a", "48k"),
        # In fragments: a pipe cannot be gone back in to write the usual index.
        *("-movflags", "frag_keyframe+empty_moov"),
    ],
}
_RECORDINGS: dict[str, tuple[str, str, tuple[str, ...], int, float, str]] = {
    "sound": ("audio/mpeg", "mp3", ("audio/wav", "audio/mpeg"), _SENT_AS_IT_IS, MOST_SOUND_S, "sound"),
    "clip": ("video/mp4", "mp4", ("video/mp4", "video/webm", "video/quicktime"), MOST_BYTES, MOST_CLIP_S, "video"),
}
