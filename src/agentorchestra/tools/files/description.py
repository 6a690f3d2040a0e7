"""What is said of many files at once: `describe_files`, `search_files` (passages by their words), `check_quotes`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, Field

from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tools.files.common import (
    best_passages,
    block,
    document_at,
    document_of,
    file_named,
    how_to_look,
    note,
    only_pictures,
)
from agentorchestra.tools.files.documents import (
    Document,
    PartsDocument,
    PdfDocument,
    TextDocument,
    is_media,
    joined,
    locate,
    only_part,
    pictures_of,
)
from agentorchestra.tools.files.folders import LISTED, by_folder, matching
from agentorchestra.tools.files.index import PassageIndex, query_words
from agentorchestra.tools.files.indexer import Standing, bring_up
from agentorchestra.tools.files.passages import Passage
from agentorchestra.tools.files.places import parse_place
from agentorchestra.tools.files.quotes import place_of
from agentorchestra.tools.files.read import extent_of, listing
from agentorchestra.tools.files.readers import describe_media

SECONDS = 60.0  # after this the files left are named but not looked into
NAMED = 5  # files that could not be searched and are named; the others are counted
FEW = 10  # up to this many files are named where nothing was found, and no figures are given


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
                with suppress(FileInputError):
                    lines = (await describe_media(ctx.file(ref.name))).split("\n")[1:]
                    said = "; ".join([said, *([", ".join(lines)] if lines else [])])
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


async def check(ctx: RunContext[Any], index: PassageIndex, quotes: list[Quote]) -> list[bool | str | None]:
    from agentorchestra.tools.web.pages import is_address, read_in_run  # which is made of what this package has

    found: list[bool | str | None] = []
    for quote in quotes:
        if is_address(quote.source):
            page = await read_in_run(ctx, quote.source)
            found.append(None if page is None else await asyncio.to_thread(_checked, page, quote.place, quote))
            continue
        try:
            ref = file_named(ctx, quote.source)
            if is_media(ref.media_type):
                found.append(None)
                continue
            document, place = await document_at(ctx, ref, index, quote.place)
        except ToolError:
            found.append(False)
        else:
            found.append(await asyncio.to_thread(_checked, document, place, quote))
    return found


def _checked(document: Document, place: str, quote: Quote) -> bool | str | None:
    """Return True if a quote stands at its place, or its right place; None where only a model can see the words."""
    stands = place_of(document, place, quote.quote)
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


async def search_passages(
    ctx: RunContext[Any], index: PassageIndex, query: str, limit: int, files: str | None = None
) -> ToolResult:
    if not ctx.manifest.files:
        raise ToolError("This task has no files to search; answer without them.")
    if not query_words(query):
        raise ToolError(f"The query {query!r} holds no word to search for; give names, numbers or terms.")
    if not 1 <= limit <= 50:
        raise ToolError(f"limit is {limit}; give a number from 1 to 50.")
    chosen = chosen_files(ctx, files)
    standing = await bring_up(ctx, index, chosen)
    problems = _problems(chosen, standing)
    searched = [one for one in chosen if one.sha256 in standing.readable]
    if not searched:
        raise ToolError(" ".join(problems) or "None of the files could be read in time; search again to go on.")
    names: dict[str, str] = {}
    for one in searched:
        names.setdefault(one.sha256, one.name)
    slow = f"The query {query!r} takes too long: its words are in too many passages; give rarer words or fewer files."
    hits = await best_passages(index, query, list(names), limit, ToolError(slow))
    blocks: list[Block] = [block(names[hit.sha256], Passage(hit.place, hit.text)) for hit in hits]
    if not hits:
        where = ", ".join(one.name for one in searched) if len(searched) <= FEW else f"{len(searched):,} files"
        blocks.append(note(f"No passage of {where} holds a word of the query {query!r}."))
    blocks.extend(note(f"Not searched: {problem}") for problem in problems)
    blocks.extend(await _pictured(ctx, index, names))
    if standing.left:
        blocks.append(
            note(
                f"{len(searched):,} of {len(chosen):,} files are read so far; search again to go on with the others, "
                "or narrow the search with `files`."
            )
        )
    elif len(chosen) > FEW:
        narrowed = f" matching {files!r}" if files else ""
        blocks.append(note(f"Searched {len(searched):,} of {len(chosen):,} files{narrowed}."))
    return ToolResult(content=blocks)


async def _pictured(ctx: RunContext[Any], index: PassageIndex, names: dict[str, str]) -> list[Block]:
    """Return the pages of the searched files that no search finds, those of the first files by name."""
    found = await asyncio.to_thread(index.pictures, names)
    said = [joined(name, found[sha256]) for sha256, name in names.items() if sha256 in found][:NAMED]
    if len(found) > NAMED:
        said.append(f"pages of {len(found) - NAMED:,} more files")
    return [note(f"Not searched: {only_pictures(', '.join(said), how_to_look(ctx))}.")] if said else []


def chosen_files(ctx: RunContext[Any], pattern: str | None) -> list[FileRef]:
    """Return the task's files that a pattern names; a ToolError lists the folders where it names none."""
    found = matching(ctx.manifest.files, pattern)
    if not found and ctx.manifest.files:
        listed = "; ".join(by_folder(ctx.manifest.files))
        raise ToolError(f"No file of this task matches {pattern!r}; give e.g. 'docs/*.md'. There are: {listed}.")
    return found


def _problems(files: Sequence[FileRef], standing: Standing) -> list[str]:
    """Return a sentence for each of the first files that cannot be searched, and one that counts the others."""
    failed = [file for file in files if file.sha256 in standing.problems]
    said = [standing.problems[one.sha256].replace("{name}", one.name) for one in failed[:NAMED]]
    if len(failed) > NAMED:
        said.append(f"{len(failed) - NAMED:,} more files that hold no text or cannot be read.")
    return said
