"""`describe_files` and `check_quotes`."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, Field

from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tools.files.common import document_at, document_of, file_named, how_to_look, note, only_pictures
from agentorchestra.tools.files.documents import (
    Document,
    PartsDocument,
    PdfDocument,
    TextDocument,
    is_media,
    locate,
    only_part,
    pictures_of,
)
from agentorchestra.tools.files.folders import LISTED, by_folder
from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.places import parse_place
from agentorchestra.tools.files.quotes import place_of
from agentorchestra.tools.files.read import extent_of, listing
from agentorchestra.tools.files.readers import describe_media
from agentorchestra.tools.files.search import chosen_files

SECONDS = 60.0  # after this the files left are named but not looked into


class Quote(BaseModel):
    """A quote and where it is said to stand."""

    source: str = Field(description="Name of the file, or address of the page.")
    place: str = Field(description='Where in it: "line 12", "p. 3", "B7", "Sales!B7".')
    quote: str = Field(description="The words, verbatim.")


async def describe_matching(ctx: RunContext[Any], index: PassageIndex, files: str | None = None) -> ToolResult:
    chosen = chosen_files(ctx, files)
    if len(chosen) > LISTED:
        return ToolResult(content=[_many(chosen)])
    blocks: list[Block] = []
    began = asyncio.get_running_loop().time()
    for ref in chosen:
        try:
            if asyncio.get_running_loop().time() - began > SECONDS:
                raise ToolError("not looked into: the files before it took too long; ask for it alone")
            document = await document_of(ctx, ref, index)
        except ToolError as error:
            said = str(error)
            if is_media(ref.media_type):
                said += await _about(ctx, ref)
        else:
            if isinstance(document, PartsDocument):
                said = listing(document)
            else:
                said = "; ".join([extent_of(document), *document.notes])
            if pages := pictures_of(document):
                said += f"; {only_pictures(pages, how_to_look(ctx))}"
        text = f"{ref.name}: {ref.media_type}, {ref.size:,} bytes; {said}"
        blocks.append(TextBlock(text=text, source=Source(kind="file", ref=ref.name), trust=Trust.UNTRUSTED))
    return ToolResult(content=blocks or [note("This task has no files.")])


def _many(files: list[FileRef]) -> TextBlock:
    """Return names, types and sizes of the first files, the others by folder: too many to look into each."""
    lines = [f"{ref.name}: {ref.media_type}, {ref.size:,} bytes" for ref in files[:LISTED]]
    lines += [f"and {len(files) - LISTED:,} more of {len(files):,} files. By folder:", *by_folder(files)]
    lines.append(f"Pages, lines and columns are told of at most {LISTED} files: narrow them with `files`.")
    return note("\n".join(lines))


async def _about(ctx: RunContext[Any], ref: FileRef) -> str:
    """Return size, length and metadata of a picture or a recording, behind a semicolon."""
    try:
        lines = (await describe_media(ctx.file(ref.name))).split("\n")[1:]
    except FileInputError:
        return ""
    return "; " + ", ".join(lines) if lines else ""


async def check(ctx: RunContext[Any], index: PassageIndex, quotes: list[Quote]) -> list[bool | str | None]:
    from agentorchestra.tools.web.pages import is_address, read_in_run  # which is made of what this package has

    found: list[bool | str | None] = []
    for one in quotes:
        if is_address(one.source):
            page = await read_in_run(ctx, one.source)
            found.append(None if page is None else await asyncio.to_thread(_checked, page, one.place, one))
            continue
        try:
            ref = file_named(ctx, one.source)
            if is_media(ref.media_type):
                found.append(None)
                continue
            document, place = await document_at(ctx, ref, index, one.place)
        except ToolError:
            found.append(False)
        else:
            found.append(await asyncio.to_thread(_checked, document, place, one))
    return found


def _checked(document: Document, place: str, one: Quote) -> bool | str | None:
    """Return True if a quote stands at its place, or its right place; None where only a model can see the words."""
    stands = place_of(document, place, one.quote)
    if stands is not None:
        return stands == place or stands
    _, part, inside = locate(document, place)
    part = only_part(part)
    if isinstance(part, TextDocument) and is_media(part.media_type):
        return None
    page = parse_place(inside)
    pages = range(page.first, page.last + 1) if page is not None else ()
    if isinstance(part, PdfDocument) and part.pictured and (not pages or {*part.pictured} & {*pages}):
        return None
    return False
