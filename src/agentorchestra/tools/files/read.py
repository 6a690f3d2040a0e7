"""`read_file`: a file from its beginning, or a part of it; `files_in_view`: short files whole, for first prompts."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentorchestra.core.content import Block, MediaBlock, Source, SourceKind, TextBlock, Trust
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.runtime.results import ToolResult, room_of_caller
from agentorchestra.tools.files.common import (
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
    Leaf,
    PartsDocument,
    PdfDocument,
    TableDocument,
    TextDocument,
    is_media,
    leaves,
    locate,
    only_part,
    pictures_of,
    place_in,
)
from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.passages import TextPassage
from agentorchestra.tools.files.places import Place, parse_place
from agentorchestra.tools.files.readers import describe_media, member_bytes, video_frames
from agentorchestra.tools.files.tables import table_view
from agentorchestra.tools.files.views import View, length, page_view, text_view
from agentorchestra.tools.files.worker import LIMITS, Request, run_async

# About how much text one `read_file` gives; less than what is cut from the middle of a long result
PART_CHARS = 16_000

_CUT_NAMED = 3  # lines that are cut for which it is said how to read on
TABLE_CHARS = 12_000  # about how much of a table; what its cells have besides values comes on top
_LEAST_TABLE = 1_000  # so much of a table is given in any case, when a file with parts is read from its beginning
NO_NEWLINE = "The last line does not end with a newline."  # told of a text that is read; whoever edits it has to know
_LIST_LENGTH = 40  # parts of a file, or columns of a table, that are listed; all of them can be read
_FRAMES = re.compile(r"^\s*frames\s+(\d{1,3})\s*$", re.IGNORECASE)
_FRAME = re.compile(r"^\s*frame\s+(?:(?:(\d{1,3}):)?(\d{1,3}):)?(\d{1,6}(?:\.\d{1,3})?)\s*s?\s*$", re.IGNORECASE)
MOST_FILES = 20  # files of a task that `files_in_view` looks at; of more, none is shown
MOST_BYTES = 5_000_000  # of a file that is converted only to see how long it is
_KINDS = {
    "vnd.openxmlformats-officedocument.spreadsheetml.sheet": "sheet",
    "vnd.ms-excel": "sheet",
    "vnd.oasis.opendocument.spreadsheet": "sheet",
    "vnd.ms-excel.sheet.binary.macroEnabled.12": "sheet",
    "vnd.openxmlformats-officedocument.presentationml.presentation": "slide",
    "vnd.oasis.opendocument.presentation": "slide",
    "x-ipynb+json": "cell",
    "epub+zip": "chapter",
    **dict.fromkeys(("zip", "x-tar", "gzip", "x-bzip2", "x-xz"), "member"),
}


async def read_part(
    ctx: RunContext[Any], index: PassageIndex, name: str, part: str = "", span: Sequence[int] = (), encoding: str = ""
) -> ToolResult:
    ref = file_named(ctx, name)
    if is_media(ref.media_type):
        return await show(ctx, ref, (), ref.media_type, part)
    document, part = await document_at(ctx, ref, index, part, encoding)
    names, target, inside = locate(document, part)
    if names and isinstance(target, TextDocument) and is_media(target.media_type):
        return await show(ctx, ref, names, target.media_type, inside)
    if part.startswith("ppt/media/") and is_media(kind := mimetypes.guess_type(part)[0] or ""):  # as slides name them
        return await show(ctx, ref, (part,), kind, "")
    request = Asked(part, span_of(span), way=how_to_look(ctx), ranged=True, limit=room_for(ctx))
    return ToolResult(content=await asyncio.to_thread(read_blocks, document, ref.name, request))


def room_for(ctx: RunContext[Any]) -> int:
    """Return characters that one reading may give an agent: fewer where its window is small."""
    room = room_of_caller(ctx)
    return PART_CHARS if room is None else max(1_000, min(PART_CHARS, room * 4 // 5))


def span_of(view_range: Sequence[int]) -> tuple[int, int] | None:
    """Return the first and last line of a `view_range`, None for none; -1 stands for the last line there is."""
    if not view_range:
        return None
    if len(view_range) != 2 or view_range[0] < 1 or not (view_range[1] == -1 or view_range[1] >= view_range[0]):
        raise ToolError(f"view_range is {[*view_range]}; give the first and the last line, e.g. [1, 400]")
    return view_range[0], view_range[1]


@dataclass(frozen=True)
class Asked:
    """The part of a document that is read, and how it is told."""

    part: str = ""  # a place, "" for all
    span: tuple[int, int] | None = None  # the first and last line, page or row, in place of those of `part`
    kind: SourceKind = "file"  # of the source that blocks name
    way: str = ""  # how pages that are pictures can be looked at, for whoever reads (`how_to_look`)
    ranged: bool = False  # whether the tool takes `view_range`, to say how to read on
    limit: int = PART_CHARS  # characters


def document_blocks(
    document: Document, name: str, part: str, kind: SourceKind = "file", *, way: str = "", limit: int = PART_CHARS
) -> list[Block]:
    """Do as `read_blocks`, for tools that take a `part` only."""
    return read_blocks(document, name, Asked(part, kind=kind, way=way, limit=limit))


def read_blocks(document: Document, name: str, request: Asked) -> list[Block]:
    """Return a document or a part of it with places, then what is not shown; a ToolError lists what parts there are."""
    names, target, inside = locate(document, request.part)
    if (inside or request.span) and not names:
        target = only_part(target)  # a place may leave out the name of the only part
    path = "!".join(names)
    if isinstance(target, PartsDocument):
        if inside:
            raise ToolError(f"{name} has no part {request.part!r}; it has {contents(target, path)}.")
        if request.span:
            raise ToolError(f"{name} has parts: give one with view_range, as `part`; it has {contents(target, path)}.")
        return _read_parts(name, target, path, request)
    if request.span and inside:
        raise ToolError(f"part {request.part!r} names a place already; leave view_range out")
    place = _span_place(name, target, request.span) if request.span else _part(name, target, inside, request.part)
    leaf = _leaf(name, target, place, path, request)
    if leaf.blocks:
        return _with_form(target, place, leaf)
    sentence = f"{name}: {place_in(path, str(place))} holds no text."
    return [note(" ".join([sentence, *(_text_of(note) for note in leaf.notes)]))]


def _text_of(block: Block) -> str:
    return block.text if isinstance(block, TextBlock) else ""


@dataclass(frozen=True)
class _Read:
    """A part of a document as it was read."""

    blocks: list[Block]  # its content
    notes: list[Block]  # what was left out, and how to read on
    ends: bool = True  # whether it was read to its end


def _with_form(document: Leaf, place: Place, read: _Read) -> list[Block]:
    """Put content below a line on how its file is written, where that is unusual, and above what was left out."""
    form = document.form if isinstance(document, TextDocument | TableDocument) and document.form else ""
    notes = [*read.notes]
    if place == _extent(document):
        notes.extend(note(f"Note: {text}.") for text in document.notes)
    return [*([note(form, outside=False)] if form else []), *read.blocks, *notes]


def _leaf(name: str, document: Leaf, place: Place, path: str, request: Asked) -> _Read:
    """Return the content at a place, lines in one block, and what is said of it."""
    if isinstance(document, TableDocument):
        return _table(name, document, place, path, request)
    notes: list[Block] = []
    if isinstance(document, PdfDocument):
        view = page_view(document, place, request.limit)
        if pages := pictures_of(document, place.first, view.last):
            sentence = only_pictures(place_in(path, pages), request.way)
            notes.append(note(f"Note: {sentence}.", outside=bool(path)))
    else:
        view = text_view(document, place, request.limit)
    # A place in a part has the part's name in it, which is a word from outside.
    notes.extend(note(text, outside=bool(path)) for text in _rest(document, place, view, path, request))
    blocks: list[Block] = [
        block(name, TextPassage(place_in(path, str(span)), text), request.kind)
        for span, text in view.pieces
        if span.unit == "line" or text.strip()
    ]
    return _Read(blocks, notes, ends=not view.cut and view.last == place.last)


def _rest(document: TextDocument | PdfDocument, place: Place, view: View, path: str, request: Asked) -> list[str]:
    """Return what is not shown of a place, and how to read on."""
    sentences = []
    for piece in view.cut[:_CUT_NAMED]:
        size = length(document, piece.first)
        if _goes_on(document, piece):
            rest = replace(piece, first_char=piece.last_char + 1, last_char=min(piece.last_char + request.limit, size))
            unit = str(Place(piece.unit, piece.first, piece.first)).capitalize()
            sentences.append(
                f"{unit} has {size:,} characters; {piece.first_char:,}-{piece.last_char:,} are shown. "
                f"Read on with part={place_in(path, str(rest))!r}."
            )
    if len(view.cut) > _CUT_NAMED:
        sentences.append(f"{len(view.cut) - _CUT_NAMED:,} more are cut; the numbers of their lines say where.")
    last, whole = view.last, _extent(document)
    if last < place.last:
        following = Place(place.unit, last + 1, place.last)
        noun = "Line" if place.unit == "line" else "Page"
        tail = f"{noun} {place.last:,} is" if last + 1 == place.last else f"{noun}s {last + 1:,}-{place.last:,} are"
        span = f"[{following.first}, {following.last}]"
        on = f"view_range={span}" if request.ranged and not path else f"part={place_in(path, str(following))!r}"
        sentences.append(f"{tail} not shown. Read on with {on}.")
    elif place.last < whole.last and not place.first_char:
        sentences.append(f"It has {whole.last:,} {'lines' if whole.unit == 'line' else 'pages'}.")
    cut = any(piece.first == last and _goes_on(document, piece) for piece in view.cut)
    if last == whole.last and not cut and isinstance(document, TextDocument) and document.form is not None:
        sentences += [] if document.text.endswith("\n") else [NO_NEWLINE]
    return sentences


def _goes_on(document: TextDocument | PdfDocument, stretch: Place) -> bool:
    """Return True if a stretch of a line or page ends before that does."""
    return stretch.last_char < length(document, stretch.first)


def _read_parts(file: str, document: PartsDocument, path: str, request: Asked) -> list[Block]:
    source = Source(kind=request.kind, ref=file)
    overview = f"{place_in(file, path) if path else file} has {listing(document, path)}"
    blocks: list[Block] = [TextBlock(text=overview, source=source, trust=Trust.UNTRUSTED)]
    left = request.limit
    for name, leaf in leaves(document, path, tables=False):
        if left <= 0:
            blocks.append(note("The other parts are not shown; read them by their names as `part`.", outside=False))
            return blocks
        read = _leaf(file, leaf, _extent(leaf), name, replace(request, limit=left))
        blocks += _with_form(leaf, _extent(leaf), read)
        left -= sum(len(_text_of(block)) for block in read.blocks)
        left = left if read.ends else 0
    return blocks


def listing(document: PartsDocument, path: str = "") -> str:
    """Return the parts, a line each, and what was left out."""
    lines = []
    for part in document.parts[:_LIST_LENGTH]:
        size = f"{part.size:,} bytes; " if part.size is not None else ""
        lines.append(f"{place_in(path, part.name)}: {size}{extent_of(part.document)}")
    if len(document.parts) > _LIST_LENGTH:
        lines.append(f"and {len(document.parts) - _LIST_LENGTH} more")
    lines += [f"Note: {note}." for note in document.notes]
    return "\n".join([f"{_part_count(document)}:", *lines])


def _part_count(document: PartsDocument) -> str:
    kind = _KINDS.get(document.media_type.partition("/")[2], "part")
    return f"{len(document.parts)} {kind}{'s' if len(document.parts) != 1 else ''}"


def extent_of(document: Document) -> str:
    """Return what a document has, in words: for a part of another."""
    if isinstance(document, PartsDocument):
        return _part_count(document)
    if isinstance(document, TextDocument) and is_media(document.media_type):
        return ", ".join(document.text.split("\n"))
    if not isinstance(document, TableDocument):
        return contents(document)
    names = [name for name in document.header if name.strip()]
    more = f" and {len(names) - _LIST_LENGTH} more" if len(names) > _LIST_LENGTH else ""
    kinds = dict.fromkeys(trait.kind for trait in document.traits)
    columns = [f"columns: {', '.join(names[:_LIST_LENGTH])}{more}"] if names else []
    extras = [f"with {', '.join(kinds)}"] if kinds else []
    return "; ".join([contents(document), *columns, *extras])


def _extent(document: Leaf) -> Place:
    if isinstance(document, TextDocument):
        return Place("line", 1, document.line_count)
    if isinstance(document, PdfDocument):
        return Place("page", 1, len(document.pages))
    return Place("row", 1, document.last_row)


def _part(name: str, document: Leaf, inside: str, part: str) -> Place:
    """Return the place a `part` argument names, cut to what there is."""
    whole = _extent(document)
    if not inside:
        return whole
    place = parse_place(inside)
    cells = isinstance(document, TableDocument) and place is not None and place.unit == "cell"
    if place is None or place.part or (place.unit != whole.unit and not cells):
        example = {"line": "lines 1-40", "page": "p. 1", "row": "rows 1-20 or B2:D9"}[whole.unit]
        raise ToolError(f"{name} has no part {part!r}; it has {contents(document)}: give e.g. {example!r}.")
    last_column = document.width if isinstance(document, TableDocument) else 0
    if place.first_char and isinstance(document, TextDocument | PdfDocument) and 1 <= place.first <= whole.last:
        size = length(document, place.first)
        if place.first_char > size:
            unit = Place(place.unit, place.first, place.first)
            raise ToolError(f"{name} has no part {part!r}; {unit} has {size:,} characters.")
        return replace(place, last_char=min(place.last_char, size))
    if place.first < 1 or place.first > whole.last or (cells and not 1 <= place.first_column <= last_column):
        raise ToolError(f"{name} has no part {part!r}; it has {contents(document)}.")
    return replace(place, last=min(place.last, whole.last), last_column=min(place.last_column, last_column))


def _span_place(name: str, document: Leaf, span: tuple[int, int]) -> Place:
    """Return the lines, pages or rows of a `view_range`, cut to what there is."""
    whole = _extent(document)
    first, last = span[0], whole.last if span[1] == -1 else min(span[1], whole.last)
    if first > whole.last:
        raise ToolError(f"{name} has nothing in view_range {[*span]}; it has {contents(document)}.")
    return Place(whole.unit, first, last)


def contents(document: Document, path: str = "") -> str:
    if isinstance(document, PartsDocument):
        names = [place_in(path, part.name) for part in document.parts[:12]]
        more = f" and {len(document.parts) - 12} more" if len(document.parts) > 12 else ""
        return f"{_part_count(document)}: {', '.join(names)}{more}"
    whole = _extent(document)
    if isinstance(document, TableDocument):
        last = Place("cell", whole.last, whole.last, document.width, document.width)
        return f"{whole} and the cells A1:{last}"
    if document.parts:
        names = [part.name for part in document.parts]
        return f"{whole} and {', '.join(names[:12])}" + (" ..." if len(names) > 12 else "")
    return str(whole)


def _table(name: str, table: TableDocument, place: Place, path: str, request: Asked) -> _Read:
    """Return rows or cells of a table in one block, what else is to be known of them, and how to read on."""
    view = table_view(table, place, max(min(request.limit, TABLE_CHARS), _LEAST_TABLE))
    if not (view.text or view.traits or view.rest):
        return _Read([], [])
    source = Source(kind=request.kind, ref=name, place=place_in(path, str(view.place)))
    texts = filter(None, (view.text, view.traits))
    blocks: list[Block] = [TextBlock(text=text, source=source, trust=Trust.UNTRUSTED) for text in texts]
    notes: list[Block] = [note(f"Note: {text}.", outside=False) for text in view.notes]
    if view.trait_rest:
        line = f"Colours, formulas and the like are told down to row {view.trait_rest.first - 1}."
        notes.append(note(f"{line} Those below: part={place_in(path, str(view.trait_rest))!r}.", outside=bool(path)))
    if view.rest:
        ways = " and ".join(repr(place_in(path, str(area))) for area in view.rest)
        notes.append(note(f"The table has {contents(table)}. Read on with part={ways}.", outside=bool(path)))
    return _Read(blocks, notes, ends=not view.rest)


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
    if not media_type.startswith("image/"):
        frames = "part='frames 5' or part='frame 00:12' shows its frames; " if video else ""
        blocks.append(note(f"If you do not take it: {frames}ask_media asks a model that does."))
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
    artifact = await ctx.artifact(name, data, media_type)
    return MediaBlock(sha256=artifact.sha256, media_type=media_type, name=name, size=len(data), source=source)


async def shown_whole(ctx: RunContext[Any], index: PassageIndex, chars: int, pictures: int, *, new: bool) -> ToolResult:
    """Return the files that are short enough, in the order of the task, as `read_file` gives them, and first pictures.

    `new` are those alone that came with this turn of the session.
    """
    files = [file for file in ctx.manifest.files if not new or file.name in ctx.manifest.given]
    left = min(chars, room_for(ctx))  # what one reading gives is the whole of a file that is no longer
    blocks: list[Block] = []
    for ref in files if len(files) <= MOST_FILES else ():
        if pictures > 0 and ref.media_type.startswith("image/"):
            blocks += (picture := await _picture(ctx, ref))
            pictures -= bool(picture)
        most = left * 4 if ref.media_type.startswith("text/") else MOST_BYTES
        if is_media(ref.media_type) or ref.size > most:
            continue
        try:
            document = await document_of(ctx, ref, index)
            length = length_of(document)
            if not 0 < length <= left:
                continue
            read = await read_part(ctx, index, ref.name)
        except ToolError:
            continue  # whoever reads it is told what is wrong with it
        content = read.content if isinstance(read.content, list) else []
        blocks += [block for block in content if not (isinstance(block, TextBlock) and block.text == NO_NEWLINE)]
        left -= length
    return ToolResult(content=blocks)


async def _picture(ctx: RunContext[Any], ref: FileRef) -> list[Block]:
    """Return a picture in the size that models read, below what can be said of it; [] for one that cannot be drawn."""
    path, source = ctx.file(ref.name), Source(kind="file", ref=ref.name, place="picture")
    request = Request(path, "shape", options={"form": "pictures", "region": None, "pages": ()})
    try:
        about, picture = await describe_media(path), (await run_async(request, LIMITS))[0]["pieces"][0]
    except FileInputError:
        return []  # whoever reads it is told what is wrong with it
    medium = await _medium(ctx, ref.name, base64.b64decode(picture["data"]), picture["media_type"], source)
    return [TextBlock(text=about, source=source, trust=Trust.UNTRUSTED), medium]


def length_of(document: Document, *, tables: bool = False) -> int:
    """Return characters of a document's text (`tables` once more); 0 where a part can only be looked at."""
    chars = 0
    for _, leaf in leaves(document, tables=tables):
        if isinstance(leaf, TextDocument):
            if is_media(leaf.media_type):
                return 0
            chars += len(leaf.text)
        elif isinstance(leaf, PdfDocument):
            if leaf.pictures:
                return 0
            chars += sum(map(len, leaf.pages))
        elif isinstance(leaf, TableDocument):
            chars += sum(len(cell) + 1 for row in (leaf.header, *leaf.rows) for cell in row)
    return chars
