"""Shared by the file tools: the run's files, their documents, blocks with places."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agentorchestra.core.content import Source, SourceKind, TextBlock, Trust
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef, first_names
from agentorchestra.tools.files.documents import Document, DocumentPart, PartsDocument, TextDocument, locate
from agentorchestra.tools.files.index import PassageHit, PassageIndex, SlowQueryError, is_costly
from agentorchestra.tools.files.passages import TextPassage
from agentorchestra.tools.files.readers import read_document, source_sync

_T = TypeVar("_T")

SOURCE = "source"  # the part of a file that is text and is read as something else: its own characters
# Types that are text, and are not read as their lines
WRITTEN_AS_TEXT = frozenset(
    {"text/html", "text/csv", "text/tab-separated-values", "message/rfc822", "application/json"}
)
# What to do where nobody sees
WAY_TO_SEE = (
    'name a model that sees with [roles.vision] model = "..." in agentorchestra.toml, or say vision = true in its '
    "profile"
)
# What to do where nobody hears
WAY_TO_HEAR = (
    "name a model that writes down what is said with transcription_model in agentorchestra.toml "
    '("local:FOLDER" for one on this machine), or one that hears with [roles.hearing] model = "..."'
)


def file_named(ctx: RunContext[Any], name: str) -> FileRef:
    files = ctx.manifest.files
    for ref in files:
        if ref.name == name:
            return ref
    # Models often write a path or another case: one match is enough to know what is meant.
    path = name.strip().replace("\\", "/").lower().strip("/")
    ends = [ref for ref in files if f"/{ref.name.lower()}".endswith(f"/{path}")]
    close = ends or [ref for ref in files if ref.name.lower().rpartition("/")[2] == path.rpartition("/")[2]]
    if len(close) == 1:
        return close[0]
    if close:
        raise ToolError(
            f"Several files could be {name!r}: {first_names(ref.name for ref in close)}; give the whole name."
        )
    raise ToolError(f"This task has no file {name!r}; its files are: {first_names(ref.name for ref in files)}.")


async def with_index(folder: Path, work: Callable[[PassageIndex], Awaitable[_T]]) -> _T:
    """Do work with the index of a folder; where that cannot be used with one in memory, which is slower."""
    try:
        with await asyncio.to_thread(PassageIndex, folder) as index:
            return await work(index)
    except (OSError, sqlite3.Error):
        with PassageIndex(None) as index:
            return await work(index)


async def best_passages(
    index: PassageIndex, query: str, sha256s: Sequence[str], limit: int, too_slow: ToolError
) -> list[PassageHit]:
    """Search an index in a thread that ends when nobody waits any more."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(index.search, query, sha256s, limit, stop)
    except SlowQueryError:
        raise too_slow from None
    finally:
        stop.set()


async def document_of(ctx: RunContext[Any], ref: FileRef, index: PassageIndex, encoding: str = "") -> Document:
    """Return the document of a file, from the index where it was costly to read and no `encoding` is named."""
    cached = None if encoding else await asyncio.to_thread(index.document, ref.sha256)
    if cached is not None:
        return cached
    path = ctx.file(ref.name)
    try:
        document = await read_document(path, encoding=encoding)
    except FileInputError as error:
        raise ToolError(str(error).replace(str(path), ref.name)) from None
    if is_costly(document.media_type) and not encoding:
        stop = threading.Event()
        try:
            await asyncio.to_thread(index.add, ref.sha256, document, stop)
        finally:
            stop.set()  # nobody awaits a cancelled call's thread: it stops between two passages
    return document


async def document_at(
    ctx: RunContext[Any], ref: FileRef, index: PassageIndex, place: str, encoding: str = ""
) -> tuple[Document, str]:
    """Return the document a place of a file lies in, and the place; text read as something else has `source`."""
    document = await document_of(ctx, ref, index, encoding)
    if not names_source(place, ref.media_type) or locate(document, place)[0]:
        return document, place
    path = ctx.file(ref.name)
    try:
        return as_source(await asyncio.to_thread(source_sync, path, encoding=encoding)), place
    except FileInputError as error:
        raise ToolError(str(error).replace(str(path), ref.name)) from None


def names_source(place: str, media_type: str) -> bool:
    """Return True if a place lies in the text itself of a file that is read as something else."""
    return place.strip().partition("!")[0].strip().lower() == SOURCE and media_type in WRITTEN_AS_TEXT


def as_source(text: TextDocument) -> Document:
    """Return the text of a file as a part of it, by the name `source`."""
    return PartsDocument((DocumentPart(SOURCE, text),))


def block(name: str, passage: TextPassage, kind: SourceKind = "file") -> TextBlock:
    source = Source(kind=kind, ref=name, place=passage.place)
    return TextBlock(text=passage.text, source=source, trust=Trust.UNTRUSTED)


def how_to_look(ctx: RunContext[Any]) -> str:
    """Return how the pages of a PDF without text are looked at in this run."""
    able = ctx.manifest.media_models
    if able.get("image"):
        return "ask_media shows up to 8 of its pages to a model that sees, analyze_file all of them"
    if able.get("document"):
        return "analyze_file gives the whole of it to a model that takes PDFs"
    return f"no model of this run sees: {WAY_TO_SEE}"


def only_pictures(pages: str, way: str) -> str:
    """Return which pages were not read, and what can be done."""
    return f"{pages}: pictures without text, which were not read" + (f"; {way}" if way else "")


def note(text: str, *, outside: bool = True) -> TextBlock:
    """Return a line of the tool's own; `outside` if it may hold words from outside: names, columns, a page's words."""
    return TextBlock(text=text, trust=Trust.UNTRUSTED if outside else Trust.SYSTEM)
