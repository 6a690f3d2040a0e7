"""PDF: the text of pages (pypdf), and the tables on pages that have ruled lines (pdfplumber)."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import re
from typing import Any

from .base import ReadJob, Refused, clean, table_document
from .text import has_header

_RULES = re.compile(rb"(?:\bre|\bl)\s")
# Operators that put something on a page
_PAINTS = re.compile(rb"(?<!\S)(?:Do|EI|sh|[fF]\*?|[sSbB]|[bB]\*|T[jJ]|'|\")(?!\S)")
_SHOWS = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+Do(?!\S)")
_MOST_TABLE_PAGES = 300

_STAMP = 80  # characters: what scanners and shops write over the picture of a page is shorter
_PAGE_PIXELS = 250_000  # a picture of a page has more; a logo on a page of few words has fewer


def correct_space_widths() -> None:
    """Separate words in fonts without a space: pypdf 7.1 takes an em for its width, and has no setting for it."""
    with contextlib.suppress(ImportError, AttributeError):
        from pypdf.generic._font import Font

        original = Font.from_font_resource

        def from_font_resource(*args: Any, **kwargs: Any) -> Any:
            font = original(*args, **kwargs)
            if font.space_width > 600:  # no font that is read has a space wider than a typewriter's
                font.space_width = 250
            return font

        Font.from_font_resource = staticmethod(from_font_resource)  # type: ignore[method-assign]


def convert_pdf(job: ReadJob, data: bytes) -> dict[str, Any]:
    """Return the pages' texts and tables, and which pages are pictures; to check, up to the first page with text."""
    if b"%%EOF" not in data[-8192:]:
        # Without its end a PDF has no table of objects: readers guess, and pages go missing silently.
        raise Refused("pdf_cut")
    import pypdf

    correct_space_widths()
    logging.disable(logging.CRITICAL)  # pypdf logs a line per oddity of the file
    reader = _reader(job, pypdf, data)
    count = len(reader.pages)
    if count == 0:
        raise Refused("pdf", "it has no pages")
    if count > job.numbers["pages"]:
        raise Refused("pages", str(count))
    pages: list[str] = []
    table_pages: list[int] = []
    picture_pages: list[int] = []
    failures = 0
    for number in range(count):
        if job.check and number >= 3 and (job.late() or any(map(str.strip, pages))):
            break
        page = reader.pages[number]
        try:
            text = clean(page.extract_text())
        except MemoryError:
            raise
        except Exception:
            # One damaged page must not hide the others; a document without any good page is corrupt.
            text, failures = "", failures + 1
        job.spend("chars", len(text), f"page {number + 1}")
        pages.append(text)
        if _is_picture(page, text.strip()):
            picture_pages.append(number + 1)
        if not job.check and text.strip() and _is_ruled(page):
            table_pages.append(number)
    if failures == len(pages):
        raise Refused("pdf", "none of its pages can be decoded")
    textless = len(pages) == count and not any(map(str.strip, pages))
    if textless and not picture_pages:
        raise Refused("pdf_blank", str(count))
    tables, notes = _tables(job, data, table_pages)
    return {
        "kind": "pdf",
        "media_type": "application/pdf",
        "pages": pages,
        "tables": tables,
        "pictured": picture_pages,
        "notes": notes,
        "textless": textless,
    }


def _reader(job: ReadJob, pypdf: Any, data: bytes) -> Any:
    try:
        reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
        readable = not reader.is_encrypted
        with contextlib.suppress(Exception):
            readable = readable or bool(reader.decrypt(""))
        if not readable:
            raise Refused("encrypted_pdf")
        count = reader.root_object["/Pages"].get("/Count", 0)  # counting pages takes seconds when there are many
        if isinstance(count, int) and count > job.numbers["pages"]:
            raise Refused("pages", str(int(count)))
        len(reader.pages)
    except (MemoryError, Refused):
        raise
    except Exception as error:
        raise Refused("pdf", f"{type(error).__name__}: {error}"[:200]) from None
    return reader


def _is_picture(page: Any, text: str) -> bool:
    """Return True if a page can be looked at only: no text, or a scanner's line over a picture of the page."""
    if len(text) > _STAMP:
        return False
    try:
        contents = page.get_contents()
        commands = b"" if contents is None else contents.get_data()
        if not text:  # notes and filled-in forms are drawn beside the contents
            return bool(page.get("/Annots")) or _PAINTS.search(commands) is not None
        objects = page["/Resources"].get("/XObject", {})
        names = {f"/{name.decode('latin-1')}" for name in _SHOWS.findall(commands)}
        sizes = [image for name in objects if name in names and (image := objects[name]).get("/Subtype") == "/Image"]
        return any(int(size.get("/Width", 0)) * int(size.get("/Height", 0)) >= _PAGE_PIXELS for size in sizes)
    except MemoryError:
        raise
    except Exception:
        return not text  # whatever it is, it is not read


def _is_ruled(page: Any) -> bool:
    """Return True if a page has enough lines for a table: looking for tables costs more than reading text."""
    try:
        contents = page.get_contents()
        return contents is not None and len(_RULES.findall(contents.get_data())) >= 4
    except MemoryError:
        raise
    except Exception:
        return False


def _tables(job: ReadJob, data: bytes, numbers: list[int]) -> tuple[list[list[Any]], list[str]]:
    """Return the tables of pages; what there was no time for is said."""
    if not numbers or importlib.util.find_spec("pdfplumber") is None:
        return [], []
    import pdfplumber

    results: list[list[Any]] = []
    notes: list[str] = []
    with pdfplumber.open(io.BytesIO(data)) as pdf:
        for count, number in enumerate(numbers):
            if count >= _MOST_TABLE_PAGES or job.late():
                notes.append(f"tables are told apart up to p. {number}; later pages have their text only")
                break
            page = pdf.pages[number]
            try:
                tables = page.extract_tables()
            except MemoryError:
                raise
            except Exception:
                notes.append(f"the tables of p. {number + 1} cannot be told apart from its text")
                tables = []
            page.close()  # it keeps every character
            results.extend([number + 1, table] for table in filter(None, (_table(job, rows) for rows in tables)))
    return results, notes


def _table(job: ReadJob, rows: list[list[str | None]]) -> dict[str, Any] | None:
    records = [[clean(cell or "").replace("\n", " ").strip() for cell in row] for row in rows]
    width = max((len(record) for record in records), default=0)
    if len(records) < 2 or width < 2 or not any(cell for record in records for cell in record):
        return None  # a frame around text
    if not job.take_cells(width * len(records)):
        return None
    header = records[0] if has_header(records) else []
    return table_document("text/csv", header, records[1:] if header else records)
