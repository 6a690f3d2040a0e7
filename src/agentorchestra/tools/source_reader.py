"""`read_source`: what a source is, and its content in chunks and tables. It stands behind `analyze_file`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool
from agentorchestra.tools.files.documents import (
    Document,
    Leaf,
    PartsDocument,
    PdfDocument,
    TableDocument,
    TextDocument,
    is_media,
    joined,
    leaves,
    locate,
)
from agentorchestra.tools.files.formats.sniff import MARKDOWN_SUFFIXES, TABLE_SUFFIXES, sniff
from agentorchestra.tools.files.places import Place
from agentorchestra.tools.files.readers import member_bytes, parse_table, read_document
from agentorchestra.tools.files.tables import row_text
from agentorchestra.tools.files.views import stretches
from agentorchestra.tools.media_formats import on_disk
from agentorchestra.tools.web.pages import is_address, read_in_run

KIND_KNOWN = "analysis:kind:"  # names of the run's state that hold what a model said a text is, by the file's name
HEAD = 65_536  # bytes that tell what a file is
MOST_CHUNKED = 3_000_000  # characters of one source that are cut into chunks; more are left out, and that is said
_NAMED_TEXT = (
    *(".txt", ".text", ".log", ".rst", ".tex", ".bib", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".srt", ".vtt"),
    *(".pdb", ".py", ".js", ".ts", ".c", ".h", ".cpp", ".java", ".go", ".rs", ".sh", ".sql", ".css", ".r"),
)
_WORKBOOKS = (
    "spreadsheetml.sheet",
    "opendocument.spreadsheet",
    "vnd.ms-excel",
    "vnd.ms-excel.sheet.binary.macroEnabled.12",
)
_ARCHIVES = ("application/zip", "application/x-tar", "application/gzip", "application/x-bzip2", "application/x-xz")


@dataclass(frozen=True)
class Excerpt:
    place: str
    text: str


@dataclass
class SourceContent:
    name: str  # of the source, as it is meant
    media_type: str = ""  # by its content
    kind: str = "text"  # `text`, `table`, `pdf`, `image`, `audio`, `video`, `archive`, `document`
    known_by: str = "content"  # `content`, `name`, or "" where both leave open what it is
    size: int = 0  # bytes, 0 where only its text is kept
    chunks: list[list[Excerpt]] = field(default_factory=list)  # of its text, each a list of pieces
    tables: dict[str, list[list[str]]] = field(default_factory=dict)  # by part, "" for the only one; row 1 is [0]
    table_chunks: list[list[Excerpt]] = field(default_factory=list)  # the same as pieces, for a model that reads them
    media: list[str] = field(default_factory=list)  # names of pictures, recordings, videos, PDFs of pictures in it
    pictured: list[int] = field(default_factory=list)  # pages of a PDF that can only be looked at
    sha256: str = ""  # of a PDF that is kept as it is, "" for none
    notes: list[str] = field(default_factory=list)  # what was left out

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "replace")

    @classmethod
    def from_json(cls, data: bytes) -> SourceContent:
        values = json.loads(data)
        for name in ("chunks", "table_chunks"):
            values[name] = [[Excerpt(**piece) for piece in chunk] for chunk in values[name]]
        return cls(**values)


@tool(effect="read")
async def read_source(ctx: RunContext[Any], name: str, chars: int = 12_000, read_as: str = "") -> ToolResult:
    """What a source is and what it holds; for analyze_file.

    Args:
        name: Of the source.
        chars: Characters of one chunk.
        read_as: "table" for text that is one although its name does not say so.
    """
    content = await _content(ctx, name, chars, read_as)
    ref = await ctx.artifact(f"read/{content.name}.json", content.to_json(), "application/json", made_for="run")
    summary = f"{content.name}: {content.kind} ({content.media_type}), {len(content.chunks)} chunks"
    return ToolResult(content=summary, artifacts=(ref,))


async def _content(ctx: RunContext[Any], name: str, chars: int, read_as: str) -> SourceContent:
    if is_address(name):
        page = await read_in_run(ctx, name)
        if page is None:
            raise ToolError(f"nothing was read at {name} in this run; read it with fetch first")
        if not (isinstance(page, TextDocument) and is_media(page.media_type)):
            content = SourceContent(name, page.media_type)
            if isinstance(page, PdfDocument) and _takes_documents(ctx):
                async with on_disk(ctx, name) as (path, _, _):
                    await _keep(ctx, content, await asyncio.to_thread(path.read_bytes))
            return await asyncio.to_thread(_read, content, page, chars)
    async with on_disk(ctx, name) as (path, member, whole):
        content = SourceContent(whole)
        data = await _bytes(path, member, whole)
        content.size = len(data)
        if not data.strip():
            raise ToolError(f"{whole} is empty; there is nothing in it")
        suffix = PurePosixPath(member[-1] if member else path.name).suffix.lower()
        content.media_type = sniff(data[:HEAD], f"x{suffix}")
        if is_media(content.media_type):
            content.kind = content.media_type.partition("/")[0]
            content.media = [whole]
            return content
        content.known_by = known_by(content.media_type, suffix)
        if not content.known_by and isinstance(kind := ctx.vars.get(f"{KIND_KNOWN}{whole}"), str):
            content.known_by, read_as = "model", kind
        if content.media_type == "application/pdf" and _takes_documents(ctx):
            await _keep(ctx, content, data)
        try:
            document = await read_document(path)
        except FileInputError as error:
            if content.media_type == "application/pdf":  # what cannot be read may still be drawn
                content.kind, content.media = "pdf", [whole]
                content.notes.append(str(error).replace(str(path), whole))
                return content
            raise ToolError(str(error).replace(str(path), whole)) from None
    if member:
        names, document, rest = locate(document, "!".join(member))
        if (not names or rest) and content.media_type == "application/pdf":
            content.kind, content.media = "pdf", [whole]  # it could not be read as a part: it may still be drawn
            content.notes += [note for note in document.notes if note.startswith(f"{member[-1]} is not read")]
            return content
        if not names or rest:
            raise ToolError(f"{whole} has no such part; give the name of a part as describe_files lists it")
    if read_as == "table" and isinstance(document, TextDocument):
        document = await asyncio.to_thread(parse_table, document.text) or document
    return await asyncio.to_thread(_read, content, document, chars)


def _takes_documents(ctx: RunContext[Any]) -> bool:
    """Return True if some model of the run takes PDFs as they are."""
    return bool(ctx.manifest.media_models.get("document"))


async def _keep(ctx: RunContext[Any], content: SourceContent, data: bytes) -> None:
    content.sha256, content.size = (await ctx.artifact(content.name, data, content.media_type)).sha256, len(data)


async def _bytes(path: Path, member: tuple[str, ...], whole: str) -> bytes:
    try:
        if member:
            return await member_bytes(path, member)
        return await asyncio.to_thread(path.read_bytes)
    except (OSError, FileInputError) as error:
        if member and isinstance(error, FileInputError):
            return b"a part"  # of a workbook, a mail: no member with bytes of its own
        raise ToolError(f"{whole} cannot be read: {str(error).replace(str(path), whole)}") from None


def known_by(media_type: str, name: str) -> str:
    """Return what tells the type of a file: its `content`, else its `name`; "" where both leave it open."""
    suffix = PurePosixPath(name).suffix.lower() or name
    if media_type in (*TABLE_SUFFIXES.values(), "text/markdown"):
        return "name"
    if media_type != "text/plain":
        return "content"
    return "name" if suffix in (*_NAMED_TEXT, *TABLE_SUFFIXES, *MARKDOWN_SUFFIXES) else ""


def kind_of(media_type: str) -> str:
    if is_media(media_type):
        return media_type.partition("/")[0]
    if media_type in TABLE_SUFFIXES.values() or media_type.endswith(_WORKBOOKS):
        return "table"
    return "pdf" if media_type == "application/pdf" else "archive" if media_type in _ARCHIVES else "text"


def _read(content: SourceContent, document: Document, chars: int) -> SourceContent:
    content.media_type = document.media_type
    content.kind = _kind(document)
    content.notes += document.notes
    pieces: list[Excerpt] = []
    rows: list[Excerpt] = []
    alone = {path for path, _ in leaves(document, tables=False)}  # the other tables stand in the text of theirs too
    for path, leaf in leaves(document):
        if isinstance(leaf, TableDocument):
            head = [[*leaf.header]] if leaf.first_row > 1 else []
            content.tables[path] = [*head, *([*row] for row in leaf.rows)]
            if path in alone:
                rows += _pieces(path, leaf)
        elif isinstance(leaf, TextDocument) and is_media(leaf.media_type):
            content.media.append(joined(content.name, path))
        else:
            pieces += _pieces(path, leaf)
            if isinstance(leaf, PdfDocument) and leaf.pictured:
                content.media += [joined(content.name, path)] if path else []
                content.pictured = [] if path else [*leaf.pictured]
    left = _cut(pieces) + _cut(rows)
    if left:
        content.notes.append(f"{left:,} pieces at its end were not read: it is longer than {MOST_CHUNKED:,} characters")
    content.chunks, content.table_chunks = list(_chunks(pieces, chars)), list(_chunks(rows, chars))
    return content


def _kind(document: Document) -> str:
    if isinstance(document, TableDocument):
        return "table"
    if isinstance(document, PdfDocument):
        return "pdf"
    if isinstance(document, PartsDocument):
        if document.media_type in _ARCHIVES:
            return "archive"
        tables = [isinstance(leaf, TableDocument) for _, leaf in leaves(document)]
        return "table" if tables and all(tables) else "document"
    return "text"


def _pieces(path: str, leaf: Leaf) -> Iterator[Excerpt]:
    if isinstance(leaf, TableDocument):
        for row in range(leaf.first_row, leaf.last_row + 1):
            if text := row_text(leaf, row):
                yield Excerpt(joined(path, f"row {row}"), text)
        return
    if isinstance(leaf, PdfDocument):
        for number, page in enumerate(leaf.pages, 1):
            if page.strip():
                yield Excerpt(joined(path, str(Place("page", number, number))), page)
        return
    for place, text in stretches(leaf):
        if text.strip():
            yield Excerpt(joined(path, str(place)), text)


def _cut(pieces: list[Excerpt]) -> int:
    """Cut pieces to what is read; return how many were left out."""
    count = sum(total <= MOST_CHUNKED for total in accumulate(len(piece.text) for piece in pieces))
    left = len(pieces) - count
    del pieces[count:]
    return left


def _chunks(pieces: Iterable[Excerpt], chars: int) -> Iterator[list[Excerpt]]:
    """Give chunks of whole pieces, in order; a piece that is longer is a chunk of its own."""
    chunk: list[Excerpt] = []
    size = 0
    for piece in pieces:
        if chunk and size + len(piece.text) > chars:
            yield chunk
            chunk, size = [], 0
        chunk.append(piece)
        size += len(piece.text)
    if chunk:
        yield chunk
