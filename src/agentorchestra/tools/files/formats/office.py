"""Office documents and e-books: zip archives of XML."""

from __future__ import annotations

import contextlib
import io
import posixpath
import re
import zipfile
from collections.abc import Callable
from typing import Any

from .archives import check_zip, read_member
from .base import PartList, ReadJob, Refused, check_installed, clean, need, one_line, refusing, text_document
from .blocks import Blocks
from .markup import check_entities, html_document, html_text
from .opendocument import convert_open_document
from .sniff import DOCX, EPUB, ODP, ODS, ODT, PPTX, XLSB, XLSX
from .text import decoded, encoding_of, with_newlines
from .xls import convert_values
from .xlsx import convert_xlsx

_MAIN = {"word/document.xml": DOCX, "ppt/presentation.xml": PPTX, "xl/workbook.xml": XLSX, "xl/workbook.bin": XLSB}
_OPEN = {"spreadsheet": ODS, "text": ODT, "presentation": ODP}
_LIBRARIES = {
    DOCX: ("markitdown", "mammoth"),
    PPTX: ("markitdown", "pptx"),
    XLSX: ("openpyxl",),
    ODS: ("defusedxml", "openpyxl"),
    ODT: ("defusedxml",),
    ODP: ("defusedxml",),
    XLSB: ("python_calamine",),
}
_SLIDE = re.compile(r"^<!-- Slide number: (\d+) -->$", re.MULTILINE)
_ABOUT = {"title": "title", "creator": "author", "description": "description"}  # what is told of a book
_SHOW = re.compile(rb"(presentationml|ms-powerpoint)\.(?:slideshow|template)\.")  # python-pptx takes none of them
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."


def office_type(archive: zipfile.ZipFile) -> str | None:
    """Return the media type of an office document or a book, None for other archives."""
    names = set(archive.namelist())
    if "mimetype" in names:
        with archive.open("mimetype") as file:
            mimetype = file.read(200).decode("ascii", "replace").strip()
        if mimetype == EPUB:
            return EPUB
        kind = mimetype.removeprefix(_OPEN_DOCUMENT).removesuffix("-template")
        if mimetype.startswith(_OPEN_DOCUMENT) and kind in _OPEN:
            return _OPEN[kind]
        if mimetype.startswith(_OPEN_DOCUMENT):
            raise Refused("open_document", one_line(mimetype.removeprefix(_OPEN_DOCUMENT)))
    if "[Content_Types].xml" in names:
        for main, media_type in _MAIN.items():
            if main in names:
                return media_type
    return None


def convert_office(job: ReadJob, data: bytes, archive: zipfile.ZipFile, media_type: str) -> dict[str, Any]:
    with archive:  # every part is unpacked once, within bounds, before a library does so without any
        check_zip(job, archive)
        for info in archive.infolist():
            job.spend("members")
            part = read_member(job, archive, info)
            if info.filename.lower().endswith((".xml", ".rels", ".xhtml", ".opf", ".ncx", ".vml")):
                check_entities(part)
    for library in _LIBRARIES.get(media_type, ("markitdown", "defusedxml")):
        check_installed(library)
    if media_type in _OPEN.values():
        return convert_open_document(job, data, media_type)
    if job.check:
        return PartList(media_type).document()
    if media_type in (XLSX, XLSB):
        return convert_xlsx(job, data) if media_type == XLSX else convert_values(job, data, XLSB)
    if media_type == EPUB:
        return _book(job, data)
    converters = need("markitdown.converters")
    with refusing("office"):
        return _word(job, data, converters) if media_type == DOCX else _slides(job, data, converters)


def _markdown(converter: Any, data: bytes, media_type: str) -> str:
    from markitdown import StreamInfo

    return str(converter.convert(io.BytesIO(data), StreamInfo(mimetype=media_type)).markdown)


def _word(job: ReadJob, data: bytes, converters: Any) -> dict[str, Any]:
    blocks = Blocks("", DOCX)
    converter = converters.DocxConverter()
    to_markdown = converter._html_converter.convert_string  # what makes Markdown of the HTML that mammoth gives
    converter._html_converter.convert_string = lambda source, **_: to_markdown(blocks.with_marks(source, every=True))
    text, tables = blocks.back(_markdown(converter, _with_member(data, "word/document.xml", _with_gaps), DOCX))
    text = "\n\n".join(filter(None, (text.strip(), _margins(data))))
    if not text:
        raise Refused("no_text", "this document has no text")
    return text_document(job, text + "\n", DOCX, tables=tables)


def _with_gaps(source: bytes) -> bytes:
    """Put empty cells where a row of a table in Word leaves out its first columns: mammoth does not read that."""
    if b"gridBefore" not in source:
        return source
    root = need("lxml.etree").fromstring(source)
    for gap in root.iter("{*}gridBefore"):
        space = gap.tag.removesuffix("gridBefore")
        cell = gap.makeelement(f"{space}tc")
        cell.append(cell.makeelement(f"{space}tcPr"))
        cell[0].append(cell.makeelement(f"{space}gridSpan", dict(gap.attrib)))
        gap.getparent().addnext(cell)
    return bytes(need("lxml.etree").tostring(root))


def _with_member(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(out, "w") as after:
        content = before.read(name)
        if (changed := change(content)) == content:
            return data
        for info in before.infolist():
            after.writestr(info.filename, changed if info.filename == name else before.read(info))
    return out.getvalue()


def _margins(data: bytes) -> str:
    tree = need("defusedxml.ElementTree")
    lines: list[str] = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in sorted(archive.namelist()):
            match = re.fullmatch(r"word/(header|footer)\d*\.xml", name)
            if match is None:
                continue
            root = tree.fromstring(archive.read(name))
            text = " ".join(node.text or "" for node in root.iter() if node.tag.endswith("}t")).strip()
            line = f"{match[1].capitalize()}: {text}"
            if text and line not in lines:
                lines.append(line)
    return "\n\n".join(lines)


def _slides(job: ReadJob, data: bytes, converters: Any) -> dict[str, Any]:
    parts = PartList(PPTX)
    blocks = Blocks("", PPTX)

    class Converter(converters.PptxConverter):  # type: ignore[misc]
        def _convert_picture_to_markdown(self, shape: Any, **_: Any) -> str:
            """Name a picture as the file has it; the library names files that are nowhere."""
            name, size = shape.name, ""
            with contextlib.suppress(Exception):  # it may be linked, or of a kind that python-pptx does not know
                name = shape.part.related_part(shape._element.blip_rId).partname.lstrip("/")
                parts.notes[:] = [f"pictures are shown by their names as part, such as {name!r}"]
                size = "{}x{}".format(*shape.image.size)
            words = one_line(" ".join(clean(shape._element._nvXxPr.cNvPr.get("descr") or "").split()), 300)
            return f"\n[picture: {', '.join(filter(None, (name, size, words)))}]\n"

        def _convert_table_to_markdown(self, table: Any, **_: Any) -> str:
            def cell(of: Any) -> tuple[str, int, int]:
                reach = (of.span_height, of.span_width) if of.is_merge_origin else (1, 1)
                return " ".join(of.text.split()), *reach

            rows = [[cell(entry) for entry in row.cells if not entry.is_spanned] for row in table.rows]
            return f"\n{blocks.table(rows) or ''}\n"

    data = _with_member(data, "[Content_Types].xml", lambda types: _SHOW.sub(rb"\1.presentation.", types))
    pieces = _SLIDE.split(_markdown(Converter(), data, PPTX))
    for number, content in zip(pieces[1::2], pieces[2::2], strict=True):
        text, tables = blocks.back(content)
        if text.strip():
            parts.add(f"slide {number}", text_document(job, text.strip() + "\n", "text/markdown", tables=tables))
    if not len(parts):
        raise Refused("no_text", "this presentation has no text")
    return parts.document()


def _book(job: ReadJob, data: bytes) -> dict[str, Any]:
    """Return the chapters in the order of reading."""
    tree = need("defusedxml.ElementTree")
    converters = need("markitdown.converters")
    parts = PartList(EPUB)
    with refusing("office"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        container = tree.fromstring(archive.read("META-INF/container.xml"))
        package = next(node.get("full-path") for node in container.iter() if node.tag.endswith("}rootfile"))
        root = tree.fromstring(archive.read(package))
        items = {node.get("id"): node.get("href") for node in root.iter() if node.tag.endswith("}item")}
        order = [items.get(node.get("idref")) for node in root.iter() if node.tag.endswith("}itemref")]
        folder = posixpath.dirname(package)
        names = set(archive.namelist())
        for number, href in enumerate(order, 1):
            name = posixpath.normpath(posixpath.join(folder, href or ""))
            if name not in names:
                parts.notes.append(f"chapter {number} is missing from the file")
                continue
            text = decoded(archive.read(name), encoding=job.encoding)
            doubt = encoding_of(text, doubtful=True)
            chapter = html_document(job, with_newlines(text.text), "text/markdown", doubt=doubt)
            if chapter["text"].strip():
                parts.add(f"chapter {number}", chapter)
        about = [
            f"{_ABOUT[name]}: {' '.join(html_text(converters, node.text).split())}"
            for node in root.iter()
            if (name := node.tag.rpartition("}")[2]) in _ABOUT and (node.text or "").strip()
        ]
    if not len(parts):
        raise Refused("no_text", "this book has no chapter with text")
    parts.notes[:0] = [one_line(line, 2_000) for line in about]
    return parts.document()
