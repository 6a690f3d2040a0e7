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
from agentorchestra.tools.files.folders import LIST_SIZE, by_folder, matching
from agentorchestra.tools.files.index import PassageIndex, query_words
from agentorchestra.tools.files.indexer import IndexingState, bring_up
from agentorchestra.tools.files.passages import TextPassage
from agentorchestra.tools.files.places import parse_place
from agentorchestra.tools.files.quotes import place_of
from agentorchestra.tools.files.read import extent_of, listing
from agentorchestra.tools.files.readers import describe_media

SECONDS = 60.0  # after this the files left are named but not looked into
MOST_NAMES = 5  # files that could not be searched and are named; the others are counted
FEW_FILES = 10  # up to this many files are named where nothing was found, and no figures are given


class Quote(BaseModel):
    """A quote and where it is said to stand."""

    source: str = Field(description="Name of the file, or address of the page.")
    place: str = Field(description='Where in it: "line 12", "p. 3", "B7", "Sales!B7".')
    quote: str = Field(description="The words, verbatim.")


async def describe_matching(ctx: RunContext[Any], index: PassageIndex, files: str | None = None) -> ToolResult:
    refs = chosen_files(ctx, files)
    if len(refs) > LIST_SIZE:
        return ToolResult(content=[_overview(refs)])
    blocks: list[Block] = []
    began = asyncio.get_running_loop().time()
    for ref in refs:
        try:
            if asyncio.get_running_loop().time() - began > SECONDS:
                raise ToolError("not looked into: the files before it took too long; ask for it alone")
            document = await document_of(ctx, ref, index)
        except ToolError as error:
            summary = str(error)
            if is_media(ref.media_type):
                with suppress(FileInputError):
                    lines = (await describe_media(ctx.file(ref.name))).split("\n")[1:]
                    summary = "; ".join([summary, *([", ".join(lines)] if lines else [])])
        else:
            if isinstance(document, PartsDocument):
                summary = listing(document)
            else:
                summary = "; ".join([extent_of(document), *document.notes])
            if pages := pictures_of(document):
                summary += f"; {only_pictures(pages, how_to_look(ctx))}"
        text = f"{ref.name}: {ref.media_type}, {ref.size:,} bytes; {summary}"
        blocks.append(TextBlock(text=text, source=Source(kind="file", ref=ref.name), trust=Trust.UNTRUSTED))
    return ToolResult(content=blocks or [note("This task has no files.")])


def _overview(files: list[FileRef]) -> TextBlock:
    """Return names, types and sizes of the first files, the others by folder: too many to look into each."""
    lines = [f"{ref.name}: {ref.media_type}, {ref.size:,} bytes" for ref in files[:LIST_SIZE]]
    lines += [f"and {len(files) - LIST_SIZE:,} more of {len(files):,} files. By folder:", *by_folder(files)]
    lines.append(f"Pages, lines and columns are told of at most {LIST_SIZE} files: narrow them with `files`.")
    return note("\n".join(lines))


async def check(ctx: RunContext[Any], index: PassageIndex, quotes: list[Quote]) -> list[bool | str | None]:
    from agentorchestra.tools.web.pages import is_address, read_in_run  # which is made of what this package has

    results: list[bool | str | None] = []
    for quote in quotes:
        if is_address(quote.source):
            page = await read_in_run(ctx, quote.source)
            results.append(None if page is None else await asyncio.to_thread(_verdict, page, quote.place, quote))
            continue
        try:
            ref = file_named(ctx, quote.source)
            if is_media(ref.media_type):
                results.append(None)
                continue
            document, place = await document_at(ctx, ref, index, quote.place)
        except ToolError:
            results.append(False)
        else:
            results.append(await asyncio.to_thread(_verdict, document, place, quote))
    return results


def _verdict(document: Document, place: str, quote: Quote) -> bool | str | None:
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
    refs = chosen_files(ctx, files)
    standing = await bring_up(ctx, index, refs)
    problems = _problems(refs, standing)
    readable = [ref for ref in refs if ref.sha256 in standing.readable]
    if not readable:
        raise ToolError(" ".join(problems) or "None of the files could be read in time; search again to go on.")
    names: dict[str, str] = {}
    for ref in readable:
        names.setdefault(ref.sha256, ref.name)
    slow = f"The query {query!r} takes too long: its words are in too many passages; give rarer words or fewer files."
    hits = await best_passages(index, query, list(names), limit, ToolError(slow))
    blocks: list[Block] = [block(names[hit.sha256], TextPassage(hit.place, hit.text)) for hit in hits]
    if not hits:
        scope = ", ".join(ref.name for ref in readable) if len(readable) <= FEW_FILES else f"{len(readable):,} files"
        blocks.append(note(f"No passage of {scope} holds a word of the query {query!r}."))
    blocks.extend(note(f"Not searched: {problem}") for problem in problems)
    blocks.extend(await _picture_notes(ctx, index, names))
    if standing.left:
        blocks.append(
            note(
                f"{len(readable):,} of {len(refs):,} files are read so far; search again to go on with the others, "
                "or narrow the search with `files`."
            )
        )
    elif len(refs) > FEW_FILES:
        pattern = f" matching {files!r}" if files else ""
        blocks.append(note(f"Searched {len(readable):,} of {len(refs):,} files{pattern}."))
    return ToolResult(content=blocks)


async def _picture_notes(ctx: RunContext[Any], index: PassageIndex, names: dict[str, str]) -> list[Block]:
    """Return the pages of the searched files that no search finds, those of the first files by name."""
    pages = await asyncio.to_thread(index.pictures, names)
    places = [joined(name, pages[sha256]) for sha256, name in names.items() if sha256 in pages][:MOST_NAMES]
    if len(pages) > MOST_NAMES:
        places.append(f"pages of {len(pages) - MOST_NAMES:,} more files")
    return [note(f"Not searched: {only_pictures(', '.join(places), how_to_look(ctx))}.")] if places else []


def chosen_files(ctx: RunContext[Any], pattern: str | None) -> list[FileRef]:
    """Return the task's files that a pattern names; a ToolError lists the folders where it names none."""
    refs = matching(ctx.manifest.files, pattern)
    if not refs and ctx.manifest.files:
        folders = "; ".join(by_folder(ctx.manifest.files))
        raise ToolError(f"No file of this task matches {pattern!r}; give e.g. 'docs/*.md'. There are: {folders}.")
    return refs


def _problems(files: Sequence[FileRef], standing: IndexingState) -> list[str]:
    """Return a sentence for each of the first files that cannot be searched, and one that counts the others."""
    failed = [file for file in files if file.sha256 in standing.problems]
    sentences = [standing.problems[file.sha256].replace("{name}", file.name) for file in failed[:MOST_NAMES]]
    if len(failed) > MOST_NAMES:
        sentences.append(f"{len(failed) - MOST_NAMES:,} more files that hold no text or cannot be read.")
    return sentences
