"""Pictures and recordings: what can be said of them in words, and frames of videos as pictures.

Nothing here goes online: ffmpeg and ffprobe are told the format and read one file.
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

from .base import Job, Refused, one_line

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


def describe_media(job: Job, data: bytes, media_type: str) -> str:
    """Return a picture's size and metadata, a recording's length and streams, in lines."""
    del job
    lines = _picture(data) if media_type.startswith("image/") else _recording(data, media_type)
    return "\n".join([f"{media_type}, {len(data):,} bytes", *lines])


# --- pictures -------------------------------------------------------------------------------------------------------


def _picture(data: bytes) -> list[str]:
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
            found = {str(key): value for key, value in picture.info.items() if isinstance(value, str)}
            exif = picture.getexif()
            named: list[tuple[dict[int, str], Any]] = [
                (ExifTags.TAGS, exif),
                (ExifTags.TAGS, exif.get_ifd(ExifTags.IFD.Exif)),
                (ExifTags.GPSTAGS, exif.get_ifd(ExifTags.IFD.GPSInfo)),
            ]
            for names, values in named:
                for tag, value in values.items():
                    if tag in names and (isinstance(value, str | int | float | tuple) or hasattr(value, "numerator")):
                        found[names[tag]] = value
            lines += [f"{key}: {one_line(str(value))}" for key, value in list(found.items())[:_MOST_METADATA]]
            return lines
    except MemoryError:
        raise
    except Exception as error:
        return [f"its size and metadata cannot be read ({type(error).__name__}: {one_line(str(error))})"]


# --- recordings -----------------------------------------------------------------------------------------------------


def _recording(data: bytes, media_type: str) -> list[str]:
    try:
        probed = _probe(data, media_type)
    except Refused as error:
        return [f"its length is not known: {error.detail}"]
    lines = []
    if duration := _seconds(probed.get("format", {}).get("duration")):
        lines.append(f"{clock(duration)} long ({duration:.2f} s)")
    for stream in probed.get("streams", ())[:_MOST_METADATA]:
        kind, codec = stream.get("codec_type", "data"), stream.get("codec_name", "unknown")
        more = ""
        if kind == "video":
            more = f", {stream.get('width')} x {stream.get('height')} pixels, {stream.get('avg_frame_rate')} frames/s"
        elif kind == "audio":
            more = f", {stream.get('sample_rate')} Hz, {stream.get('channels')} channel(s)"
        lines.append(f"stream: {kind}, {codec}{more}")
    tags = probed.get("format", {}).get("tags", {})
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


def frames(job: Job, data: bytes, media_type: str, at: list[float], count: int) -> list[dict[str, Any]]:
    """Return frames of a video: those at some seconds, or `count` of them evenly over its length."""
    if not media_type.startswith("video/"):
        raise Refused("no_frames", f"it is {media_type}")
    duration = _seconds(_probe(data, media_type).get("format", {}).get("duration"))
    if count:
        count = min(count, MOST_FRAMES)
        at = [duration * (number + 0.5) / count for number in range(count)]
    found: list[dict[str, Any]] = []
    for second in at[:MOST_FRAMES]:
        if duration and second > duration:
            raise Refused("no_frames", f"it ends at {clock(duration)}")
        if job.late() and found:
            break
        arguments = ["-ss", f"{second:.3f}", *_only(media_type), "-i", "{file}", "-frames:v", "1", "-an"]
        scale = ["-vf", f"scale='min({_FRAME_WIDTH},iw)':-2", "-f", "image2pipe", "-c:v", "mjpeg", "-q:v", "3", "-"]
        picture = _run("ffmpeg", ["-nostdin", "-threads", "1", *arguments, *scale], data)
        if picture:
            found.append({"at": clock(second), "data": base64.b64encode(picture).decode(), "media_type": "image/jpeg"})
    if not found:
        raise Refused("no_frames", "no frame could be decoded")
    return found


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
    with _in_memory(data) as (file, fd):
        done = subprocess.run(
            [path, "-v", "error", *(file if one == "{file}" else one for one in arguments)],
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
def _in_memory(data: bytes) -> Iterator[tuple[str, int]]:
    """Hold bytes in a file that has no name: members of archives have none, and these programs have to seek."""
    fd = os.memfd_create("recording")
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        yield f"/proc/self/fd/{fd}", fd
    finally:
        os.close(fd)
