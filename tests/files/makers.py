"""One file of every type, written with facts that the caller made up."""

from __future__ import annotations

import email.message
import gzip
import io
import json
import shutil
import struct
import subprocess
import tarfile
import wave
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NEEDS_FFMPEG = "ffmpeg is not installed (scripts/setup-system.sh)"


def has_ffmpeg() -> bool:
    return shutil.which("ffmpeg") is not None and shutil.which("ffprobe") is not None


def paged(pages: Sequence[tuple[str, bytes]]) -> bytes:
    """A PDF with a text and a picture on each page, "" and b"" for none."""
    from fpdf import FPDF

    document = FPDF()
    document.set_font("helvetica", size=12)
    for text, picture in pages:
        document.add_page()
        if picture:
            document.image(io.BytesIO(picture), w=160)
        if text:
            document.multi_cell(0, 8, text)
    return bytes(document.output())


def page_picture() -> bytes:
    """A picture as large as those of scanned pages."""
    from PIL import Image

    out = io.BytesIO()
    Image.linear_gradient("L").resize((800, 600)).save(out, "PNG")
    return out.getvalue()


_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx(lines: Sequence[str], table: Sequence[Sequence[str]] = (), header: str = "") -> bytes:
    """Paragraphs and a table, as little of Word's XML as Word reads."""
    body = "".join(f"<w:p><w:r><w:t>{line}</w:t></w:r></w:p>" for line in lines)
    if table:
        rows = "".join(
            "<w:tr>" + "".join(f"<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>" for cell in row) + "</w:tr>"
            for row in table
        )
        body += f"<w:tbl>{rows}</w:tbl>"
    return docx_of(body, header)


def docx_of(body: str, header: str = "") -> bytes:
    """The XML of a body as a file of Word."""
    types = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{types}.document.main+xml"/></Types>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
        'officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"<w:document {_WORD}><w:body>{body}</w:body></w:document>",
    }
    if header:
        parts["word/header1.xml"] = f"<w:hdr {_WORD}><w:p><w:r><w:t>{header}</w:t></w:r></w:p></w:hdr>"
    return zipped(parts)


def pptx(slides: Sequence[tuple[str, str]], notes: str = "", pictures: Mapping[str, bytes] | None = None) -> bytes:
    """Slides of a title and a text; the notes and the pictures, by their descriptions, go to the last one."""
    from pptx import Presentation

    deck = Presentation()
    for title, text in slides:
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
    for words, picture in (pictures or {}).items():
        slide.shapes.add_picture(io.BytesIO(picture), 0, 6_000_000)._element._nvXxPr.cNvPr.set("descr", words)
    return saved(deck)


def xlsx(sheets: dict[str, Sequence[Sequence[Any]]], *, saved: dict[str, Any] | None = None) -> bytes:
    """Sheets; XlsxWriter saves a value with each formula, `saved` says which (by formula)."""
    import xlsxwriter  # type: ignore[import-untyped]

    buffer = io.BytesIO()
    book = xlsxwriter.Workbook(buffer, {"in_memory": True})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                if isinstance(value, str) and value.startswith("="):
                    sheet.write_formula(y, x, value, None, (saved or {}).get(value, ""))
                elif value is not None:
                    sheet.write(y, x, value)
    book.close()
    return buffer.getvalue()


def coloured_xlsx(colours: Sequence[str]) -> bytes:
    """A sheet S with one row of cells without values: the style of the first fill is 1."""
    import openpyxl  # type: ignore[import-untyped]
    from openpyxl.styles import PatternFill  # type: ignore[import-untyped]

    book = openpyxl.Workbook()
    book.active.title = "S"
    for column, colour in enumerate(colours, 1):
        book.active.cell(1, column).fill = PatternFill("solid", fgColor=colour)
    return saved(book)


def replaced(archive: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """An archive in which one member is different."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as before, zipfile.ZipFile(out, "w") as after:
        for info in before.infolist():
            data = before.read(info)
            assert info.filename != name or old in data
            after.writestr(info.filename, data.replace(old, new) if info.filename == name else data)
    return out.getvalue()


def unsaved_xlsx(sheets: dict[str, Sequence[Sequence[Any]]]) -> bytes:
    """The same by openpyxl, which saves no values with formulas."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    return saved(book)


def xlsb(name: str, rows: Sequence[Sequence[str | float]]) -> bytes:
    """One sheet as Excel keeps it in binary (MS-XLSB), as little of it as there can be."""

    def record(kind: int, data: bytes = b"") -> bytes:
        head = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
        assert len(data) < 128
        return head + bytes([len(data)]) + data

    def text(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode("utf-16-le")

    sheet = record(129) + record(148, struct.pack("<4I", 0, len(rows) - 1, 0, max(map(len, rows)) - 1)) + record(145)
    for y, row in enumerate(rows):
        sheet += record(0, struct.pack("<IIHHBI", y, 0, 300, 0, 0, 0))
        for x, value in enumerate(row):
            where = struct.pack("<II", x, 0)
            if value != "":
                kind, data = (6, text(value)) if isinstance(value, str) else (5, struct.pack("<d", value))
                sheet += record(kind, where + data)
    sheet += record(146) + record(130)
    about = record(156, struct.pack("<II", 0, 1) + text("r1") + text(name))
    package = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
            "xl/workbook.bin": record(131) + record(143) + about + record(144) + record(132),
            "xl/_rels/workbook.bin.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
            f'Type="{office}/worksheet" Target="worksheets/sheet1.bin"/></Relationships>',
            "xl/worksheets/sheet1.bin": sheet,
        }
    )


def doc(text: str) -> bytes:
    """A text as Word 6 wrote it: a stream with a header of numbers, and the characters behind it."""
    from xlwt.CompoundDoc import XlsDoc  # type: ignore[import-untyped]

    body = text.replace("\n", "\r").encode("cp1252")
    head = bytearray(0x300)
    struct.pack_into("<HHHH", head, 0, 0xA5DC, 104, 0, 0x409)
    struct.pack_into("<II", head, 0x18, len(head), len(head) + len(body))
    struct.pack_into("<I", head, 0x34, len(body))
    buffer = io.BytesIO()
    XlsDoc().save(buffer, (bytes(head) + body).ljust(8192, b"\0"))
    data = bytearray(buffer.getvalue())
    name = "WordDocument\0".encode("utf-16-le")
    at = data.index("Workbook\0".encode("utf-16-le"))  # the name by which xlwt keeps the stream
    data[at : at + 66] = name.ljust(64, b"\0") + struct.pack("<H", len(name))
    return bytes(data)


def odp(slides: Sequence[Sequence[str]], table: Sequence[Sequence[Any]] = ()) -> bytes:
    """Slides of OpenDocument, a box for each text; a table on the last."""
    from odf.draw import Frame, Page, TextBox  # type: ignore[import-untyped]
    from odf.opendocument import OpenDocumentPresentation  # type: ignore[import-untyped]
    from odf.style import MasterPage, PageLayout  # type: ignore[import-untyped]
    from odf.text import P  # type: ignore[import-untyped]

    deck = OpenDocumentPresentation()
    layout = PageLayout(name="layout")
    deck.automaticstyles.addElement(layout)
    master = MasterPage(name="master", pagelayoutname=layout)
    deck.masterstyles.addElement(master)
    for texts in slides:
        page = Page(masterpagename=master)
        for text in texts:
            frame, box = Frame(), TextBox()
            box.addElement(P(text=text))
            frame.addElement(box)
            page.addElement(frame)
        deck.presentation.addElement(page)
    if table:
        frame = Frame()
        frame.addElement(_table("T", table))
        page.addElement(frame)
    return saved(deck)


def xls(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    """Sheets as Excel wrote them until 2003."""
    import xlwt  # type: ignore[import-untyped]

    book = xlwt.Workbook()
    for name, rows in sheets.items():
        sheet = book.add_sheet(name)
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                if value is not None:
                    sheet.write(y, x, value)
    return saved(book)


def ods(sheets: Mapping[str, Sequence[Sequence[Any]]], hidden: str = "") -> bytes:
    """Sheets of OpenDocument; a cell is a value or a cell of odfpy's."""
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.style import Style, TableProperties

    book = OpenDocumentSpreadsheet()
    style = Style(name="hidden", family="table")
    style.addElement(TableProperties(display="false"))
    book.automaticstyles.addElement(style)
    for name, rows in sheets.items():
        book.spreadsheet.addElement(_table(name, rows, **({"stylename": style} if name == hidden else {})))
    return saved(book)


def _table(name: str, rows: Sequence[Sequence[Any]], **more: Any) -> Any:
    from odf.table import Table, TableCell, TableRow  # type: ignore[import-untyped]
    from odf.text import P

    table = Table(name=name, **more)
    for row in rows:
        line = TableRow()
        for value in row:
            if isinstance(value, int | float):
                cell = TableCell(valuetype="float", value=value)
            elif value is None or isinstance(value, str):
                cell = TableCell(**({"valuetype": "string"} if value else {}))
            else:
                cell = value
            if isinstance(value, str | int | float):
                cell.addElement(P(text=str(value)))
            line.addElement(cell)
        table.addElement(line)
    return table


def odt(lines: Sequence[str], table: Sequence[Sequence[Any]] = ()) -> bytes:
    """A heading, paragraphs and a table of OpenDocument."""
    from odf.opendocument import OpenDocumentText
    from odf.text import H, P

    text = OpenDocumentText()
    text.text.addElement(H(outlinelevel=1, text=lines[0]))
    for line in lines[1:]:
        text.text.addElement(P(text=line))
    if table:
        text.text.addElement(_table("T", table))
    return saved(text)


def saved(document: Any) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def epub(chapters: Sequence[str], title: str = "A book") -> bytes:
    items = "".join(
        f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(len(chapters))
    )
    order = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    files = {
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">'
        '<rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles>'
        "</container>",
        "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></metadata>'
        f"<manifest>{items}</manifest><spine>{order}</spine></package>",
    }
    for number, text in enumerate(chapters):
        files[f"OEBPS/c{number}.xhtml"] = f"<html><body><h1>Chapter</h1><p>{text}</p></body></html>"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def notebook(source: str, output: str) -> bytes:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "Words."]},
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": 1,
            "source": [source],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": [output]},
                {
                    "output_type": "display_data",
                    "metadata": {},
                    "data": {"image/png": "aGk=", "text/plain": "<Figure>"},
                },
            ],
        },
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def eml(body: str, attachments: dict[str, bytes], subject: str = "News") -> bytes:
    message = email.message.EmailMessage()
    message["From"], message["To"], message["Subject"] = "ann@example.org", "ben@example.org", subject
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0000"
    message.set_content(body)
    for name, data in attachments.items():
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


def zipped(files: Mapping[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data)


def png(width: int, height: int, comment: str = "") -> bytes:
    from PIL import Image, PngImagePlugin

    about = PngImagePlugin.PngInfo()
    if comment:
        about.add_text("Comment", comment)
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "navy").save(buffer, "PNG", pnginfo=about)
    return buffer.getvalue()


def jpeg(width: int, height: int, maker: str) -> bytes:
    from PIL import Image

    exif = Image.Exif()
    exif[0x010F] = maker
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "navy").save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


def wav(seconds: float) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(bytes(int(16000 * seconds)))
    return buffer.getvalue()


def mp4(folder: Path, seconds: int, *, title: str = "") -> bytes:
    """A red second, then blue ones."""
    path = folder / "made.mp4"
    colours = f"color=c=red:s=64x48:r=5:d=1[a];color=c=blue:s=64x48:r=5:d={seconds - 1}[b];[a][b]concat"
    command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", colours, "-metadata", f"title={title}", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path.read_bytes()


# --- Outlook's messages ---------------------------------------------------------------------------------------------

_END, _FREE, _NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF


def msg(
    subject: str,
    body: str,
    sender: str = "Ann",
    *,
    encoding: str = "utf-16-le",
    code_page: int = 0,
    html: bytes = b"",
    internet_page: int = 0,
) -> bytes:
    """A message as Outlook keeps it: streams of properties in a compound file, of bytes in another encoding."""
    streams = {
        "__substg1.0_001A001F": "IPM.Note",
        "__substg1.0_0037001F": subject,
        "__substg1.0_1000001F": body,
        "__substg1.0_0C1A001F": sender,
        "__substg1.0_007D001F": f"From: {sender} <ann@example.org>\r\n\r\n",
    }
    kind = "001F" if encoding == "utf-16-le" else "001E"
    entries = {name[:-4] + kind: text.encode(encoding) for name, text in streams.items()}
    if html:
        entries["__substg1.0_10130102"] = html
    rows = b""
    for name, data in entries.items():
        tag = int(name[-8:], 16)
        rows += struct.pack("<IIII", tag, 6, len(data) + 2, 0)
    for tag, page in ((0x3FFD0003, code_page), (0x3FDE0003, internet_page)):
        rows += struct.pack("<IIII", tag, 6, page, 0) if page else b""
    entries["__properties_version1.0"] = bytes(8) + struct.pack("<IIII", 0, 0, 0, 0) + bytes(8) + rows
    return _compound(entries)


def _compound(entries: dict[str, bytes]) -> bytes:
    """A compound file (MS-CFB) whose streams lie in the root; all of them small enough for the mini stream."""
    mini, starts = b"", {}
    mini_fat: list[int] = []
    for name, data in entries.items():
        assert len(data) < 4096, "larger streams would need sectors of their own"
        starts[name] = len(mini) // 64
        count = max(1, -(-len(data) // 64))
        mini_fat += [*range(len(mini_fat) + 1, len(mini_fat) + count), _END]
        mini += data.ljust(count * 64, b"\0")
    # The tree of names is a list here: each entry has the next one, in the order of the format, to its right.
    ordered = sorted(entries, key=lambda name: (len(name), name.upper()))
    mini_sectors = -(-len(mini) // 512)
    directory_sectors = -(-(len(entries) + 1) // 4)
    mini_fat_sectors = -(-len(mini_fat) * 4 // 512)
    first_directory = 1
    first_mini_fat = first_directory + directory_sectors
    first_mini = first_mini_fat + mini_fat_sectors
    fat = [0xFFFFFFFD]
    for first, count in (
        (first_directory, directory_sectors),
        (first_mini_fat, mini_fat_sectors),
        (first_mini, mini_sectors),
    ):
        fat += [*range(first + 1, first + count), _END]
    assert len(fat) <= 128
    directory = _entry("Root Entry", 5, 1, first_mini, len(mini), right=_NONE)
    for number, name in enumerate(ordered, 1):
        right = number + 1 if number < len(ordered) else _NONE
        directory += _entry(name, 2, _NONE, starts[name], len(entries[name]), right=right)
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIIIIIII", 0, 1, first_directory, 0, 4096, first_mini_fat, mini_fat_sectors, _END, 0)
    header += struct.pack("<I", 0) + struct.pack("<I", _FREE) * 108
    tables = struct.pack(f"<{len(fat)}I", *fat).ljust(512, b"\xff")
    directory = directory.ljust(directory_sectors * 512, b"\0")
    minis = struct.pack(f"<{len(mini_fat)}I", *mini_fat).ljust(mini_fat_sectors * 512, b"\xff")
    return header + tables + directory + minis + mini.ljust(mini_sectors * 512, b"\0")


def _entry(name: str, kind: int, child: int, start: int, size: int, *, right: int) -> bytes:
    text = (name + "\0").encode("utf-16-le")
    entry = text.ljust(64, b"\0") + struct.pack("<HBB", len(text), kind, 1)
    entry += struct.pack("<III", _NONE, right, child) + bytes(36)
    return entry + struct.pack("<IQ", start, size)
