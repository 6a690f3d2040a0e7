"""Pictures, recordings, frames of videos as `read_file` shows them: bytes for models that take them, and words."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.tea.calling.tool import ToolResult
from agentorchestra.tools.files.common import note
from agentorchestra.tools.files.readers import describe_media, member_bytes, video_frames

_FRAMES = re.compile(r"^\s*frames\s+(\d{1,3})\s*$", re.IGNORECASE)
_FRAME = re.compile(r"^\s*frame\s+(?:(?:(\d{1,3}):)?(\d{1,3}):)?(\d{1,6}(?:\.\d{1,3})?)\s*s?\s*$", re.IGNORECASE)


def is_media(media_type: str) -> bool:
    return media_type.startswith(("image/", "audio/", "video/"))


async def show(ctx: RunContext[Any], ref: FileRef, member: tuple[str, ...], media_type: str, part: str) -> ToolResult:
    """Return a picture or a recording with what can be said of it; of a video, the frames that `part` names."""
    name = "!".join([ref.name, *member])
    video = media_type.startswith("video/")
    if part and not video:
        raise ToolError(f"{name} is {media_type} and has no part {part!r}; leave part out to have it shown.")
    path = ctx.file(ref.name)
    try:
        if part:
            return await _frames(ctx, ref, member, part)
        data = await member_bytes(path, member) if member else await asyncio.to_thread(path.read_bytes)
        about = await describe_media(path, member)
    except FileInputError as error:
        raise ToolError(str(error).replace(str(path), name)) from None
    source = Source(kind="file", ref=ref.name, place="!".join(member) or None)
    blocks: list[Block] = [
        await _medium(ctx, name, data, media_type, source),
        TextBlock(text=about, source=source, trust=Trust.UNTRUSTED),
    ]
    if video:
        blocks.append(note("Its frames are shown as pictures with part='frames 5' or part='frame 00:12'."))
    return ToolResult(content=blocks)


async def _frames(ctx: RunContext[Any], ref: FileRef, member: tuple[str, ...], part: str) -> ToolResult:
    name = "!".join([ref.name, *member])
    at: tuple[float, ...] = ()
    count = 0
    if match := _FRAMES.match(part):
        count = int(match[1])
    elif match := _FRAME.match(part):
        at = (int(match[1] or 0) * 3600 + int(match[2] or 0) * 60 + float(match[3]),)
    if not (count or at):
        raise ToolError(f"{name} has no part {part!r}; give 'frames 5' (evenly over its length) or 'frame 00:12'.")
    blocks: list[Block] = []
    for frame in await video_frames(ctx.file(ref.name), member, at=at, count=count):
        place = "!".join([*member, f"frame {frame['at']}"])
        source = Source(kind="file", ref=ref.name, place=place)
        data = base64.b64decode(frame["data"])
        blocks.append(await _medium(ctx, f"{name} {place}.jpg", data, frame["media_type"], source))
    return ToolResult(content=blocks)


async def _medium(ctx: RunContext[Any], name: str, data: bytes, media_type: str, source: Source) -> MediaBlock:
    kept = await ctx.artifact(name, data, media_type)
    return MediaBlock(sha256=kept.sha256, media_type=media_type, name=name, size=len(data), source=source)
