"""Pictures and recordings: what can be said of them in words, and the forms in which models take them, or parts.

Those are pictures of a size that they read, sound as MP3 and short videos; no metadata goes along. Nothing here goes
online: ffmpeg and ffprobe are told the format and read one file.
"""

from __future__ import annotations

import base64
import ctypes
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .base import ReadJob, Refused, need, one_line

_FORMATS = {
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "audio/aiff": "aiff",
    "audio/mp4": "mov",
    "video/mp4": "mov",
    "video/quicktime": "mov",
    "video/webm": "matroska",
    "video/x-matroska": "matroska",
    "video/x-msvideo": "avi",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
}
_MOST_METADATA = 40
_FRAME_WIDTH = 1_024
MOST_FRAMES = 12
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
_PAGED_TYPES = ("application/pdf", "image/tiff", "image/gif")


def describe_media(data: bytes, media_type: str) -> str:
    """Return a picture's size and metadata, a recording's length and streams, in lines."""
    lines = _about_picture(data) if media_type.startswith("image/") else _about_recording(data, media_type)
    return "\n".join([f"{media_type}, {len(data):,} bytes", *lines])


def _about_picture(data: bytes) -> list[str]:
    try:
        from PIL import ExifTags, Image
    except ModuleNotFoundError:
        return ["size and metadata are not read: pip install 'agentorchestra[files]'"]
    Image.MAX_IMAGE_PIXELS = None  # pixels are never decoded here
    try:
        with Image.open(io.BytesIO(data)) as picture:
            lines = [f"{picture.width} x {picture.height} pixels, {picture.mode}"]
            frames = getattr(picture, "n_frames", 1)
            if frames > 1:
                lines.append(f"{frames} frames")
            metadata = {str(key): value for key, value in picture.info.items() if isinstance(value, str)}
            exif = picture.getexif()
            groups: list[tuple[dict[int, str], Any]] = [
                (ExifTags.TAGS, exif),
                (ExifTags.TAGS, exif.get_ifd(ExifTags.IFD.Exif)),
                (ExifTags.GPSTAGS, exif.get_ifd(ExifTags.IFD.GPSInfo)),
            ]
            for names, values in groups:
                for tag, value in values.items():
                    if tag in names and (isinstance(value, str | int | float | tuple) or hasattr(value, "numerator")):
                        metadata[names[tag]] = value
            lines += [f"{key}: {one_line(str(value))}" for key, value in list(metadata.items())[:_MOST_METADATA]]
            return lines
    except MemoryError:
        raise
    except Exception as error:
        return [f"its size and metadata cannot be read ({type(error).__name__}: {one_line(str(error))})"]


def _about_recording(data: bytes, media_type: str) -> list[str]:
    try:
        probe = _probe(data, media_type)
    except Refused as error:
        return [f"its length is not known: {error.detail}"]
    lines = []
    if duration := _seconds(probe.get("format", {}).get("duration")):
        lines.append(f"{clock(duration)} long ({duration:.2f} s)")
    for stream in probe.get("streams", ())[:_MOST_METADATA]:
        kind, codec = stream.get("codec_type", "data"), stream.get("codec_name", "unknown")
        more = ""
        if kind == "video":
            more = f", {stream.get('width')} x {stream.get('height')} pixels, {stream.get('avg_frame_rate')} frames/s"
        elif kind == "audio":
            more = f", {stream.get('sample_rate')} Hz, {stream.get('channels')} channel(s)"
        lines.append(f"stream: {kind}, {codec}{more}")
    tags = probe.get("format", {}).get("tags", {})
    lines += [f"{one_line(key)}: {one_line(str(value))}" for key, value in list(tags.items())[:_MOST_METADATA]]
    return lines


def _seconds(value: Any) -> float:
    with suppress(TypeError, ValueError):
        return float(value)
    return 0.0


def clock(seconds: float) -> str:
    """Return seconds as `01:02:03` or `02:03`."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours:02}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def frames(job: ReadJob, data: bytes, media_type: str, at: list[float], count: int) -> list[dict[str, Any]]:
    """Return frames of a video: those at some seconds, or `count` of them evenly over its length."""
    if not media_type.startswith("video/"):
        raise Refused("no_frames", f"it is {media_type}")
    duration = _seconds(_probe(data, media_type).get("format", {}).get("duration"))
    if count:
        count = min(count, MOST_FRAMES)
        at = [duration * (number + 0.5) / count for number in range(count)]
    pictures: list[dict[str, Any]] = []
    for second in at[:MOST_FRAMES]:
        if duration and second > duration:
            raise Refused("no_frames", f"it ends at {clock(duration)}")
        if job.late() and pictures:
            break
        arguments = ["-ss", f"{second:.3f}", *_only(media_type), "-i", "{file}", "-frames:v", "1", "-an"]
        scale = ["-vf", f"scale='min({_FRAME_WIDTH},iw)':-2", "-f", "image2pipe", "-c:v", "mjpeg", "-q:v", "3", "-"]
        picture = _run("ffmpeg", ["-nostdin", "-threads", "1", *arguments, *scale], data)
        if picture:
            tenth = int(second * 10) % 10  # of a short video several frames are of one second
            at_time = f"{clock(second)}.{tenth}" if tenth else clock(second)
            pictures.append({"at": at_time, "data": base64.b64encode(picture).decode(), "media_type": "image/jpeg"})
    if not pictures:
        raise Refused("no_frames", "no frame could be decoded")
    return pictures


def _probe(data: bytes, media_type: str) -> dict[str, Any]:
    if media_type not in _FORMATS:
        raise Refused("no_frames", f"{media_type} is not looked into")
    arguments = ["-show_format", "-show_streams", "-of", "json", *_only(media_type), "{file}"]
    try:
        result = json.loads(_run("ffprobe", arguments, data) or b"{}")
    except ValueError:
        result = {}
    if not result.get("streams"):
        raise Refused("no_frames", "it is cut off or damaged")
    return result if isinstance(result, dict) else {}


def _only(media_type: str) -> list[str]:
    """Return input options: this format, from this file; a recording may name others, on the network too."""
    return ["-protocol_whitelist", "file", "-f", _FORMATS[media_type]]


def _run(program: str, arguments: list[str], data: bytes) -> bytes:
    """Return what ffmpeg or ffprobe write, nothing where they fail. They have this process' limits and end with it."""
    path = shutil.which(program)
    if path is None:
        raise Refused("no_frames", f"{program} is not installed (Debian: apt install ffmpeg)")
    with in_memory(data) as (file, fd):
        done = subprocess.run(
            [path, "-v", "error", *(file if argument == "{file}" else argument for argument in arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(fd,),
            preexec_fn=_die_with_parent,
            check=False,
        )
    return done.stdout if done.returncode == 0 else b""


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


@contextmanager
def in_memory(data: bytes) -> Iterator[tuple[str, int]]:
    """Hold bytes in a file that has no name: members of archives have none, and these programs have to seek."""
    fd = os.memfd_create("file")
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        yield f"/proc/self/fd/{fd}", fd
    finally:
        os.close(fd)


# --- in the forms of models -----------------------------------------------------------------------------------------


def shape(job: ReadJob, data: bytes, media_type: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return a file in the form `options["form"]`: "pictures", "sound", "frames", "clip", or "facts" on what it is.

    `options` has `region` (fractions: left, top, right, bottom), `pages`, `from_s`, `to_s`, `count`. Of
    forms there are `pieces` (each with `place`, `media_type` and `data` in base64) and `notes`.
    """
    form = options["form"]
    if form == "facts":
        return _facts(data, media_type)
    if form == "pictures":
        result = _pages(data, options) if media_type == "application/pdf" else _pictures(data, media_type, options)
    else:
        first, last, notes = _range(data, media_type, options)
        if form == "frames":
            count = max(1, min(options["count"], MOST_FRAMES))
            at = [first + (last - first) * (number + 0.5) / count for number in range(count)]
            stills = frames(job, data, media_type, at, 0)
            result = [{**still, "place": f"frame {still['at']}"} for still in stills], notes
        else:
            whole = not (options["from_s"] or options["to_s"])
            result = [_recording(data, media_type, first, last, form, whole=whole)], notes
    pieces, notes = result
    return {"pieces": pieces, "notes": notes}


def _facts(data: bytes, media_type: str) -> dict[str, Any]:
    kind = media_type.partition("/")[0]
    if media_type == "application/pdf":
        kind = "image"
    if kind not in ("image", "audio", "video"):
        raise Refused("medium", f"it is {media_type}; read_file reads it")
    facts: dict[str, Any] = {"kind": kind, "media_type": media_type, "paged": media_type in _PAGED_TYPES}
    facts |= {"sound": kind == "audio", "pages": 0, "seconds": 0.0}
    if media_type == "application/pdf":
        pypdfium2 = need("pypdfium2")
        with suppress(pypdfium2.PdfiumError):  # who wants to see a page is told why
            facts["pages"] = len(pypdfium2.PdfDocument(data))
    if kind != "image":
        probe = _probe_medium(data, media_type)
        facts["seconds"] = _seconds(probe.get("format", {}).get("duration"))
        kinds = {stream.get("codec_type") for stream in probe.get("streams", ())}
        facts["sound"] = "audio" in kinds
        if not kinds & {"audio", "video"}:
            raise Refused("medium", "it holds neither sound nor pictures")
    return facts


def _piece(place: str, media_type: str, data: bytes) -> dict[str, Any]:
    return {"place": place, "media_type": media_type, "data": base64.b64encode(data).decode()}


# --- pictures in those forms ----------------------------------------------------------------------------------------


def _pictures(data: bytes, media_type: str, options: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the picture, or the pages of one that has several (TIFF, GIF)."""
    image = _pillow()
    if media_type not in _READ_BY:
        raise Refused("medium", f"{media_type} is not read here; save it as PNG or JPEG")
    pieces, notes = [], []
    try:
        with image.open(io.BytesIO(data), formats=_READ_BY[media_type]) as picture:
            numbers = options["pages"] or [1]
            for number in numbers[:MOST_PAGES]:
                try:
                    picture.seek(number - 1)
                except EOFError:
                    raise Refused("medium", f"it has no page {number}") from None
                _check_size(picture, options["region"])
                place = f"p. {number}" if options["pages"] else ""
                pieces.append(_piece(_place(place, options), *_drawing(picture, options["region"])))
            if not options["pages"] and getattr(picture, "is_animated", False):
                notes.append("it has several pages or frames, of which the first is shown: name others by pages")
    except (MemoryError, Refused):
        raise
    except Exception as error:
        raise Refused("medium", f"it is cut off or damaged ({type(error).__name__}: {one_line(str(error))})") from None
    return pieces, notes


def _pages(data: bytes, options: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
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
    numbers = options["pages"] or list(range(1, min(count, MOST_PAGES // 2) + 1))
    for number in numbers[:MOST_PAGES]:
        if number > count:
            raise Refused("medium", f"it has no page {number}; it has {count}")
        page = document[number - 1]
        width, height = page.get_size()
        longer = max(width, height, 1.0)
        region = options["region"]
        # A region is drawn as large as a whole page would be; four times is where small print is read.
        zoom = min(4.0, 1 / max(region[2] - region[0], region[3] - region[1])) if region else 1.0
        picture = page.render(scale=LONGEST * zoom / longer).to_pil()
        pieces.append(_piece(_place(f"p. {number}", options), *_drawing(picture, region)))
        page.close()
    if not options["pages"] and count > len(pieces):
        notes.append(f"the first {len(pieces)} of {count} pages are shown: name others by pages")
    return pieces, notes


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise Refused("extra", "PIL") from None
    Image.MAX_IMAGE_PIXELS = None  # counted here, where a JPEG may still be read smaller than it is
    return Image


def _check_size(picture: Any, region: list[float] | None) -> None:
    """Refuse a picture of more pixels than there is room for, before any of them is decoded."""
    if picture.format in ("JPEG", "MPO"):
        part = min(region[2] - region[0], region[3] - region[1]) if region else 1.0
        side = int(LONGEST / part)
        picture.draft("RGB", (min(side, picture.width), min(side, picture.height)))
    if picture.width * picture.height > MOST_PIXELS:
        raise Refused("medium", f"it has {picture.width:,} x {picture.height:,} pixels; scale it down first")


def _place(place: str, options: dict[str, Any]) -> str:
    region = options["region"]
    return " ".join(filter(None, (place, "region " + ",".join(f"{edge:g}" for edge in region) if region else "")))


def _drawing(picture: Any, region: list[float] | None) -> tuple[str, bytes]:
    """Return it upright, cut to the region, on white, within `LONGEST`: as PNG where that is small, else as JPEG."""
    from PIL import Image, ImageOps

    ImageOps.exif_transpose(picture, in_place=True)
    drawing = picture
    if region:
        left, top, right, bottom = region
        box = (int(left * drawing.width), int(top * drawing.height), right * drawing.width, bottom * drawing.height)
        drawing = drawing.crop((box[0], box[1], max(box[0] + 1, round(box[2])), max(box[1] + 1, round(box[3]))))
    drawing = _in_colour(drawing)
    longer = max(drawing.size)
    if longer > LONGEST or (region and longer < SMALLEST):
        ratio = (LONGEST if longer > LONGEST else SMALLEST) / longer
        size = (max(1, round(drawing.width * ratio)), max(1, round(drawing.height * ratio)))
        drawing = drawing.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0 if ratio < 1 else None)
    if picture.format not in ("JPEG", "MPO"):
        out = io.BytesIO()
        drawing.save(out, "PNG")
        if out.tell() <= _PNG_BYTES:
            return "image/png", out.getvalue()
    out = io.BytesIO()
    drawing.save(out, "JPEG", quality=90)
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


# --- recordings in those forms --------------------------------------------------------------------------------------


def _probe_medium(data: bytes, media_type: str) -> dict[str, Any]:
    try:
        return _probe(data, media_type)
    except Refused as error:
        raise Refused("medium", error.detail) from None


def _range(data: bytes, media_type: str, options: dict[str, Any]) -> tuple[float, float, list[str]]:
    """Return the seconds that are asked for, within the recording, and what is left out of them."""
    duration = _seconds(_probe_medium(data, media_type).get("format", {}).get("duration"))
    first, last = options["from_s"] or 0.0, options["to_s"] or duration or MOST_SOUND_S
    if duration and first >= duration:
        raise Refused("medium", f"it ends at {clock(duration)} ({duration:.1f} s)")
    if duration:
        last = min(last, duration)
    most = {"sound": MOST_SOUND_S, "clip": MOST_CLIP_S}.get(options["form"])
    if most is None or last - first <= most:
        return first, last, []
    end = first + most
    more = f"it is given from {clock(first)} to {clock(end)} only: ask for what follows with from_s={end:g}"
    return first, end, [more]


def _recording(data: bytes, media_type: str, first: float, last: float, form: str, *, whole: bool) -> dict[str, Any]:
    """Return its sound, or a short video; as it is where that is what models take."""
    kind, container, plain, most_bytes, most_s, noun = _RECORDINGS[form]
    place = f"{clock(first)}-{clock(last)}"
    if whole and media_type in plain and len(data) <= most_bytes and last <= most_s:
        return _piece(place, media_type, data)
    cut = ["-ss", f"{first:.3f}", "-t", f"{last - first:.3f}", *_only(media_type), "-i", "{file}"]
    output = ["-fs", str(MOST_BYTES), "-f", container, "-"]
    recording = _run("ffmpeg", ["-nostdin", "-threads", "1", *cut, *_CODECS[form], *output], data)
    if not recording:
        raise Refused("medium", f"no {noun} of it can be decoded")
    return _piece(place, kind, recording)


_CODECS = {
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
