"""The tools that read and search the files of a run, and what they are made of."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.tea.tool import Tool, ToolResult, tool
from agentorchestra.tools.files.index import PassageIndex, query_words
from agentorchestra.tools.files.passages import Passage, paragraphs, quote_stands, row_text, verify_quote
from agentorchestra.tools.files.places import Place, parse_place
from agentorchestra.tools.files.readers import (
    LIMITS,
    Document,
    PdfDocument,
    TableDocument,
    TextDocument,
    check_input,
    read_document,
)

PART_CHARS = 8_000
"""About how much text one `read_file` gives."""

_T = TypeVar("_T")


class Quote(BaseModel):
    """A quote and where it is said to stand."""

    source: str = Field(description="Name of the file.")
    place: str = Field(description='Where in it: "line 12", "p. 3", "B7".')
    quote: str = Field(description="The words, verbatim.")


def file_tools(folder: Path | None = None) -> tuple[Tool[..., Any], ...]:
    """The tools `read_file`, `search_files`, `describe_files` and `check_quotes`.

    Args:
        folder: where the search index lies (index.db, keyed by the files' hashes); None for each run's own folder.
    """

    @tool(effect="read")
    async def read_file(ctx: RunContext[Any], name: str, part: str | None = None) -> ToolResult:
        """Read a file of this task from its beginning, or a part of it; every piece comes with its place.

        A picture or a recording is shown as it is.

        Args:
            name: The file's name as listed with the task.
            part: What to read: "line 12", "lines 200-400", "p. 3", "pp. 3-4", "row 7", "rows 7-20", "B7" or "B2:D9".
        """
        return await _with_index(folder or ctx.folder, lambda index: _read_file(ctx, index, name, part))

    @tool(effect="read")
    async def search_files(ctx: RunContext[Any], query: str, limit: int = 5) -> ToolResult:
        """Find the passages of this task's files that hold the words of a query, best first, each with its place.

        The search is by words, not by meaning: use the names, numbers and terms that the passage will contain.

        Args:
            query: A few words.
            limit: How many passages at most, 1 to 50.
        """
        return await _with_index(folder or ctx.folder, lambda index: _search_files(ctx, index, query, limit))

    @tool(effect="read")
    async def describe_files(ctx: RunContext[Any]) -> ToolResult:
        """What this task's files are: size, type, pages, lines, or rows and the names of the columns."""
        return await _with_index(folder or ctx.folder, lambda index: _describe(ctx, index))

    @tool(effect="read")
    async def check_quotes(ctx: RunContext[Any], quotes: list[Quote]) -> list[bool]:
        """Whether quotes stand word for word at their places in this task's files, in the order given.

        Args:
            quotes: The quotes with the file and the place each is said to stand at.
        """
        return await _with_index(folder or ctx.folder, lambda index: _check(ctx, index, quotes))

    return read_file, search_files, describe_files, check_quotes


async def _describe(ctx: RunContext[Any], index: PassageIndex) -> ToolResult:
    blocks: list[Block] = []
    for ref in ctx.manifest.files:
        try:
            document = await _document(ctx, ref, index)
        except ToolError as error:
            said = str(error)
        else:
            said = _described(document)
            if isinstance(document, TableDocument):
                said += f"; columns: {', '.join(document.header)}"
        text = f"{ref.name}: {ref.media_type}, {ref.size:,} bytes; {said}"
        blocks.append(TextBlock(text=text, source=Source(kind="file", ref=ref.name), trust=Trust.UNTRUSTED))
    return ToolResult(content=blocks or [_note("This task has no files.")])


async def _check(ctx: RunContext[Any], index: PassageIndex, quotes: list[Quote]) -> list[bool]:
    found = []
    for one in quotes:
        try:
            document = await _document(ctx, _file(ctx, one.source), index)
        except ToolError:
            found.append(False)
        else:
            found.append(await asyncio.to_thread(quote_stands, document, one.place, one.quote))
    return found


async def _read_file(ctx: RunContext[Any], index: PassageIndex, name: str, part: str | None) -> ToolResult:
    ref = _file(ctx, name)
    if ref.media_type.startswith(("image/", "audio/")):
        return await _shown(ctx, ref)
    document = await _document(ctx, ref, index)
    place = _part(ref.name, document, part)
    found = await asyncio.to_thread(_read, document, place)
    if not found:
        return ToolResult(content=[_note(f"{ref.name}: {place} holds no text.")])
    blocks: list[Block] = [_block(ref.name, passage) for passage in found]
    if note := _read_on(ref.name, document, place, found):
        blocks.append(_note(note))
    return ToolResult(content=blocks)


async def _shown(ctx: RunContext[Any], ref: FileRef) -> ToolResult:
    """A picture or a recording, for models that take them; for the others it is named."""
    data = await asyncio.to_thread(ctx.file(ref.name).read_bytes)
    kept = await ctx.artifact(ref.name, data, ref.media_type)
    medium = MediaBlock(
        sha256=kept.sha256,
        media_type=ref.media_type,
        name=ref.name,
        size=len(data),
        source=Source(kind="file", ref=ref.name),
    )
    return ToolResult(content=[medium])


async def _search_files(ctx: RunContext[Any], index: PassageIndex, query: str, limit: int) -> ToolResult:
    if not ctx.manifest.files:
        raise ToolError("This task has no files to search; answer without them.")
    if not query_words(query):
        raise ToolError(f"The query {query!r} holds no word to search for; give names, numbers or terms.")
    if not 1 <= limit <= 50:
        raise ToolError(f"limit is {limit}; give a number from 1 to 50.")
    names: dict[str, str] = {}
    problems: list[str] = []
    for ref in ctx.manifest.files:
        try:
            if not await asyncio.to_thread(index.has, ref.sha256):
                await _document(ctx, ref, index, add=True)
            names.setdefault(ref.sha256, ref.name)
        except ToolError as error:  # one bad file must not hide the others
            problems.append(str(error))
    if not names:
        raise ToolError(" ".join(problems))
    hits = await asyncio.to_thread(index.search, query, list(names), limit)
    blocks: list[Block] = [_block(names[hit.sha256], Passage(hit.place, hit.text)) for hit in hits]
    if not hits:
        blocks.append(_note(f"No passage of {', '.join(names.values())} holds a word of the query {query!r}."))
    blocks.extend(_note(f"Not searched: {problem}") for problem in problems)
    return ToolResult(content=blocks)


# --- the run's files ------------------------------------------------------------------------------------------------


def _file(ctx: RunContext[Any], name: str) -> FileRef:
    files = ctx.manifest.files
    for ref in files:
        if ref.name == name:
            return ref
    # Models often write a path or another case: one match is enough to know what is meant.
    wanted = name.strip().replace("\\", "/").rpartition("/")[2].lower()
    close = [ref for ref in files if ref.name.replace("\\", "/").rpartition("/")[2].lower() == wanted]
    if len(close) == 1:
        return close[0]
    listed = ", ".join(ref.name for ref in files) or "none"
    raise ToolError(f"This task has no file {name!r}; its files are: {listed}.")


async def _with_index(folder: Path, work: Callable[[PassageIndex], Awaitable[_T]]) -> _T:
    """Do work with the index of a folder; with one in memory where that one cannot be used.

    The index is only a cache: a read-only folder, a full disk or a damaged file make the work slower, not impossible.
    """
    try:
        with await asyncio.to_thread(_open_index, folder) as index:
            return await work(index)
    except (OSError, sqlite3.Error):
        with PassageIndex(None) as index:
            return await work(index)


def _open_index(folder: Path) -> PassageIndex:
    folder.mkdir(parents=True, exist_ok=True)
    return PassageIndex(folder)


async def _document(ctx: RunContext[Any], ref: FileRef, index: PassageIndex, *, add: bool = False) -> Document:
    """The document behind a file, PDFs from the index where they are; `add` puts it there."""
    kept = await asyncio.to_thread(index.pages, ref.sha256)
    if kept is not None:
        return kept
    path = ctx.file(ref.name)
    try:
        document = await read_document(path)
    except FileInputError as error:
        raise ToolError(str(error).replace(str(path), ref.name)) from None
    if add or isinstance(document, PdfDocument):
        stop = threading.Event()
        try:
            await asyncio.to_thread(index.add, ref.sha256, document, stop)
        finally:
            stop.set()  # nobody awaits a cancelled call's thread: it stops between two passages
    return document


# --- parts ----------------------------------------------------------------------------------------------------------


def _extent(document: Document) -> Place:
    """The whole document as a place."""
    if isinstance(document, TextDocument):
        return Place("line", 1, document.line_count)
    if isinstance(document, PdfDocument):
        return Place("page", 1, len(document.pages))
    return Place("row", 1, document.last_row)


def _part(name: str, document: Document, part: str | None) -> Place:
    """The place a `part` argument names, cut to what there is.

    Raises:
        ToolError: a sentence that lists what there is.
    """
    whole = _extent(document)
    if part is None or not part.strip():
        return whole
    place = parse_place(part)
    cells = isinstance(document, TableDocument) and place is not None and place.unit == "cell"
    if place is None or (place.unit != whole.unit and not cells):
        example = {"line": "lines 1-40", "page": "p. 1", "row": "rows 1-20 or B2:D9"}[whole.unit]
        raise ToolError(f"{name} has no part {part!r}; it has {_described(document)}: give e.g. {example!r}.")
    last_column = document.width if isinstance(document, TableDocument) else 0
    if place.first < 1 or place.first > whole.last or (cells and not 1 <= place.first_column <= last_column):
        raise ToolError(f"{name} has no part {part!r}; it has {_described(document)}.")
    return Place(
        place.unit,
        place.first,
        min(place.last, whole.last),
        place.first_column,
        min(place.last_column, last_column),
    )


def _described(document: Document) -> str:
    whole = _extent(document)
    if isinstance(document, TableDocument):
        last = Place("cell", whole.last, whole.last, document.width, document.width)
        return f"{whole} and the cells A1:{last}"
    return str(whole)


def _read(document: Document, place: Place) -> list[Passage]:
    if isinstance(document, TableDocument):
        if place.unit == "cell":
            return list(_cells(document, place))
        first = place.first
        names = []
        if first < document.first_row:  # the header says what the columns are; rows repeat it cell by cell
            names = [Passage("row 1", document.delimiter.join(document.header))]
            first = document.first_row
        return names + list(paragraphs(document, first, place.last, PART_CHARS))
    return list(paragraphs(document, place.first, place.last, PART_CHARS))


def _cells(table: TableDocument, place: Place) -> list[Passage]:
    if place.first == place.last and place.first_column == place.last_column:
        value = table.cell(place.first, place.first_column).strip()
        return [Passage(str(place), value[: 2 * PART_CHARS])] if value else []
    found = []
    spent = 0
    for row in range(place.first, place.last + 1):
        if text := row_text(table, row, place.first_column, place.last_column):
            found.append(Passage(str(Place("cell", row, row, place.first_column, place.last_column)), text))
            spent += len(text)
        if spent >= PART_CHARS:
            break
    return found


def _read_on(name: str, document: Document, place: Place, found: list[Passage]) -> str:
    """How to go on reading, "" when the part was read to its end."""
    last = parse_place(found[-1].place)
    if last is not None and isinstance(document, TextDocument) and _is_cut(document, last.last, found):
        rest = f" Read on with part='lines {last.last + 1}-{place.last}'." if last.last < place.last else ""
        return f"Line {last.last} is longer than one answer holds: find what its rest says by a search.{rest}"
    if last is None or last.last >= place.last:
        whole = _extent(document)
        complete = place.unit != "cell" and place.first == whole.first and place.last == whole.last
        return f"{name} ends here." if complete else ""
    following = Place(place.unit, last.last + 1, place.last, place.first_column, place.last_column)
    return f"{name} goes on; it has {_described(document)}. Read on with part={str(following)!r}."


def _is_cut(document: TextDocument, line: int, found: list[Passage]) -> bool:
    """Whether passages end inside their last line: they then hold fewer of its characters than it has."""
    start, end = document.span(line, line)
    if end - start <= PART_CHARS // 2:
        return False
    here = [passage.text for passage in found if passage.place == str(Place("line", line, line))]
    return sum(map(_ink, here)) < _ink(document.text[start:end])


def _ink(text: str) -> int:
    return sum(map(len, text.split()))


def _block(name: str, passage: Passage) -> TextBlock:
    source = Source(kind="file", ref=name, place=passage.place)
    return TextBlock(text=passage.text, source=source, trust=Trust.UNTRUSTED)


def _note(text: str) -> TextBlock:
    """A line of the tool's own among the content it gives back."""
    return TextBlock(text=text, trust=Trust.UNTRUSTED)


read_file, search_files, describe_files, check_quotes = file_tools()

__all__ = [
    "LIMITS",
    "PassageIndex",
    "check_input",
    "check_quotes",
    "describe_files",
    "file_tools",
    "read_document",
    "read_file",
    "search_files",
    "verify_quote",
]
