"""`media_as`: a picture, a recording or a video of the run in a form that models take. It stands behind `ask_media`."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field

from agentorchestra.core.content import Block, MediaBlock, Source
from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import FileInputError, ToolError, UnknownComponentError, WebError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import first_names
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool
from agentorchestra.tools.files.common import file_named, note
from agentorchestra.tools.files.worker import LIMITS, Request, run_async
from agentorchestra.tools.web.addresses import parse_address
from agentorchestra.tools.web.pages import artifact_name, file_name, is_address

Form = Literal["facts", "pictures", "sound", "frames", "clip"]

# In the run's state: the snapshot at which the folder of the environments stands (environments/manifest.py).
_FOLDER = "env:folder"
_TASK_FILES = "files/"  # where the task's files are seen in that folder
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "audio/mpeg": ".mp3", "audio/wav": ".wav", "video/mp4": ".mp4"}


@tool(effect="read")
async def media_as(
    ctx: RunContext[Any],
    name: str,
    form: Form,
    region: Annotated[list[float], Field(min_length=4, max_length=4)] | None = None,
    pages: list[int] | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
    count: int = 8,
) -> ToolResult:
    """A picture, a recording or a video in a form that models take; for ask_media.

    Args:
        name: The file's name.
        form: What it is ("facts"), or the form: pictures, sound, frames of a video, a short video.
        region: Part of a picture, as fractions: left, top, right, bottom.
        pages: Pages of a PDF.
        from_s: First second of a recording.
        to_s: Its last second.
        count: How many frames.
    """
    options = {"form": form, "region": region, "pages": pages or [], "from_s": from_s, "to_s": to_s, "count": count}
    async with on_disk(ctx, name) as (path, member, whole):
        if path.stat().st_size == 0:
            raise ToolError(f"{whole} is empty; there is nothing to be seen or heard.")
        try:
            result, _ = await run_async(Request(path, "shape", member, asked=options), LIMITS)
        except FileInputError as error:
            raise ToolError(str(error).replace(str(path), whole)) from None
    if form == "facts":
        return ToolResult(content={"name": whole, **result})
    blocks: list[Block] = []
    for piece in result["pieces"]:
        data, media_type, place = base64.b64decode(piece["data"]), piece["media_type"], piece["place"]
        label = f"{whole} {place}{_ENDINGS.get(media_type, '')}" if place else whole
        ref = await ctx.artifact(label, data, media_type)
        source = Source(kind="file", ref=whole, place=place or None)
        blocks.append(MediaBlock(sha256=ref.sha256, media_type=media_type, name=label, size=ref.size, source=source))
    return ToolResult(content=[*blocks, *map(note, result["notes"])])


@asynccontextmanager
async def on_disk(ctx: RunContext[Any], name: str) -> AsyncIterator[tuple[Path, tuple[str, ...], str]]:
    """Return where the bytes of a name lie, the way to a member of an archive, and the name as it is meant."""
    first, *member = name.split("!")
    names = {ref.name for ref in ctx.manifest.files}
    if first not in names:
        data = await (_of_the_web(ctx, name) if is_address(name) else _of_the_run(ctx, name))
        if data is not None:
            with tempfile.TemporaryDirectory(prefix="agentorchestra-media-") as folder:
                path = Path(folder) / f"medium{PurePosixPath(name).suffix[:8]}"
                await asyncio.to_thread(path.write_bytes, data)
                yield path, (), name
            return
        try:
            first = file_named(ctx, first.removeprefix(_TASK_FILES)).name
        except ToolError as exc:
            files = first_names(await folder_names(ctx))
            raise ToolError(f"{exc} An artifact of that name is not there either; the folder holds: {files}.") from None
    yield ctx.file(first), tuple(member), "!".join([first, *member])


async def _of_the_web(ctx: RunContext[Any], address: str) -> bytes:
    """Return what this run read at an address, as it came."""
    try:
        plain = parse_address(address).url
        return await ctx.read_artifact(artifact_name(plain, f"-{file_name(plain)}"))
    except (WebError, UnknownComponentError):
        raise ToolError(
            f"no picture, recording or PDF was read at {address} in this run; read it with fetch first, and give the "
            "address that answered, or the name of the artifact"
        ) from None


async def _of_the_run(ctx: RunContext[Any], name: str) -> bytes | None:
    """Return the bytes of a file in the folder of the environments, or of an artifact; None where there is none."""
    digest = (await folder_names(ctx)).get(name.removeprefix("./"))
    try:
        if digest is not None:
            return await ctx.read_artifact(ArtifactRef(name=name, sha256=digest, size=0))
        return await ctx.read_artifact(name)
    except UnknownComponentError:
        return None


async def folder_names(ctx: RunContext[Any]) -> dict[str, str]:
    """Return files and hashes as the last action left them; not from the disk, where a replay finds what came later."""
    snapshot = ctx.vars.get(_FOLDER)
    if not isinstance(snapshot, str):
        return {}
    listing = json.loads(await ctx.read_artifact(ArtifactRef(name=_FOLDER, sha256=snapshot, size=0)))
    return {path: content for path, kind, *_, content in listing["entries"] if kind == "file"}
