"""Files to addressable text: lines of text, cells of tables, pages of PDFs.

The kind is decided by the bytes, the name's ending is a hint. Text is read here; a PDF is read by `_pdf_worker.py` in a
process that can be killed.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from agentorchestra.core.errors import FileInputError
from agentorchestra.tools.files.places import column_name

READABLE = ".txt, .md, .csv, .tsv and .pdf"

_TABLE_SUFFIXES = {".csv": "text/csv", ".tsv": "text/tab-separated-values"}
_MARKDOWN_SUFFIXES = {".md", ".markdown"}

# What a file is when its first bytes say so, and the way out.
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\x03\x04", "a zip archive or an office document", "export it as .pdf, .csv or .txt"),
    (b"\xd0\xcf\x11\xe0", "an old office document", "export it as .pdf, .csv or .txt"),
    (b"\x1f\x8b", "gzip data", "unpack it first"),
    (b"BZh", "bzip2 data", "unpack it first"),
    (b"\xfd7zXZ", "xz data", "unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (b"Rar!", "a rar archive", "unpack it first"),
    (b"\x7fELF", "a program", "give a document"),
    (b"MZ\x90\x00", "a program", "give a document"),
    (b"SQLite format 3", "an SQLite database", "export the table as .csv"),
    (b"RIFF", "a video file", "give its text"),
    (b"%!PS", "PostScript", "convert it to .pdf"),
)


# Pictures and recordings, by their first bytes: (at, bytes, media type).
_MEDIA: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/mp4"),
)


def media_type_of(data: bytes) -> str | None:
    """The type of a picture or a recording by its first bytes, None for everything else."""
    head = data[:16]
    if b"\x00" not in data[:4096]:  # text may begin with the same letters
        return None
    for at, magic, media_type in _MEDIA:
        riff = magic not in (b"WEBP", b"WAVE") or head.startswith(b"RIFF")
        if head[at:].startswith(magic) and riff:
            return media_type
    return None


@dataclass(frozen=True)
class Limits:
    """Bounds on what is read.

    Attributes:
        max_bytes: of any file.
        pdf_seconds: wall-clock and processor time for one PDF.
        pdf_memory_bytes: address space of the process that reads it.
        pdf_pages: pages of one PDF.
        pdf_chars: characters of text of one PDF.
    """

    max_bytes: int = 100_000_000
    pdf_seconds: float = 60.0
    pdf_memory_bytes: int = 1 << 30
    pdf_pages: int = 3_000
    pdf_chars: int = 30_000_000


LIMITS = Limits()


@dataclass(frozen=True)
class TextDocument:
    """Text, addressed by line. Line ends are read as a bare newline whatever they were."""

    text: str
    media_type: str = "text/plain"
    kind: Literal["text"] = "text"

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        starts.extend(match.end() for match in re.finditer("\n", self.text))
        if len(starts) > 1 and starts[-1] == len(self.text):
            starts.pop()  # the newline that ends the last line does not begin another
        return starts

    @property
    def line_count(self) -> int:
        """Lines, the last one counted with or without its newline."""
        return len(self._starts)

    def line_of(self, offset: int) -> int:
        """The number of the line that holds the character at `offset`."""
        return bisect_right(self._starts, offset)

    def lines(self, first: int, last: int) -> str:
        """The text of the lines first to last, without the final newline."""
        start, end = self.span(first, last)
        return self.text[start:end]

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Offsets of the lines first to last, without the final newline."""
        start = self._starts[first - 1]
        end = self._starts[last] - 1 if last < len(self._starts) else len(self.text)
        if last == len(self._starts) and self.text.endswith("\n") and end > start:
            end -= 1
        return start, end


@dataclass(frozen=True)
class TableDocument:
    """A table, addressed by row and cell (row 1 is the first record of the file).

    Attributes:
        header: the columns' names; letters where the file names none.
        rows: the records below the header.
        first_row: the row number of `rows[0]`: 2 below a header, else 1.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    first_row: int
    delimiter: str = ","
    media_type: str = "text/csv"
    kind: Literal["table"] = "table"

    @property
    def last_row(self) -> int:
        """The number of the last row."""
        return self.first_row + len(self.rows) - 1

    @property
    def width(self) -> int:
        """Columns of the widest record."""
        return max([len(self.header), *(len(row) for row in self.rows)])

    def record(self, row: int) -> tuple[str, ...]:
        """The cells of a row; the header's for row 1 of a table with a header."""
        return self.header if row < self.first_row else self.rows[row - self.first_row]

    def cell(self, row: int, column: int) -> str:
        """A cell's value, "" where the record is shorter."""
        record = self.record(row)
        return record[column - 1] if column <= len(record) else ""

    def name(self, column: int) -> str:
        """The name of a column."""
        title = self.header[column - 1].strip() if column <= len(self.header) else ""
        return title or column_name(column)


@dataclass(frozen=True)
class PdfDocument:
    """The text of a PDF's pages."""

    pages: tuple[str, ...]
    media_type: str = field(default="application/pdf")
    kind: Literal["pdf"] = "pdf"


Document = TextDocument | TableDocument | PdfDocument


# --- what a file is -------------------------------------------------------------------------------------------------


def check_input(path: Path, limits: Limits = LIMITS) -> tuple[str, int]:
    """Whether a file can be read, before a run starts.

    Blocks: the whole file is decoded, of a PDF the first pages are read by the worker.

    Returns:
        The media type and the size in bytes.

    Raises:
        FileInputError: one sentence that names the file, what is wrong and the way out.
    """
    data = _bytes(path, limits)
    media = media_type_of(data)
    if media is not None:
        return media, len(data)
    media_type = _media_type(path, data)
    if media_type == "application/pdf":
        _check_pdf_end(path, data)
        _pdf_result(path, _run_worker(path, "check", limits), limits)
    else:
        decode(data, path.name)
    return media_type, len(data)


async def read_document(path: Path, limits: Limits = LIMITS) -> Document:
    """Read a file; the caller's loop is not held up and a cancelled reader leaves no process behind.

    Raises:
        FileInputError: one sentence that names the file, what is wrong and the way out.
    """
    data = await asyncio.to_thread(_bytes, path, limits)
    media_type = _media_type(path, data)
    if media_type == "application/pdf":
        _check_pdf_end(path, data)
        del data
        result = _pdf_result(path, await _run_worker_async(path, "read", limits), limits)
        return _pdf_document(path, result)
    return await asyncio.to_thread(_text_document, path, data, media_type)


def read_document_sync(path: Path, limits: Limits = LIMITS) -> Document:
    """`read_document` for code without an event loop.

    Raises:
        FileInputError: one sentence that names the file, what is wrong and the way out.
    """
    data = _bytes(path, limits)
    media_type = _media_type(path, data)
    if media_type == "application/pdf":
        _check_pdf_end(path, data)
        return _pdf_document(path, _pdf_result(path, _run_worker(path, "read", limits), limits))
    return _text_document(path, data, media_type)


def _bytes(path: Path, limits: Limits) -> bytes:
    if path.is_dir():
        raise FileInputError(f"{path} is a folder; give its files, e.g. --file {path}/*.md")
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise FileInputError(f"{path} is not a regular file; save its content to a file and give that.")
        if size > limits.max_bytes:
            raise FileInputError(
                f"{path} has {size:,} bytes; at most {limits.max_bytes:,} can be read: give the part you need."
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileInputError(f"{path} does not exist; check the name and the folder it is in.") from None
    except PermissionError:
        raise FileInputError(
            f"{path} cannot be read: permission denied; make it readable (chmod u+r) or copy it."
        ) from None
    except OSError as error:
        raise FileInputError(f"{path} cannot be read: {error.strerror or error}; check the name.") from None
    except ValueError as error:  # a null byte in the name
        raise FileInputError(f"{str(path)!r} cannot be read: {error}; check the name.") from None
    if not data or not data.strip(b" \t\r\n\x0b\x0c\xef\xbb\xbf\xff\xfe\x00"):
        raise FileInputError(f"{path} is empty; give a file with content.")
    return data


def _media_type(path: Path, data: bytes) -> str:
    media = media_type_of(data)
    if media is not None:
        what = "a picture" if media.startswith("image/") else "a recording"
        raise FileInputError(f"{path} is {what} ({media}): it holds no text that could be searched or quoted")
    suffix = path.suffix.lower()
    head = data[:1024]
    if head.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"%PDF-") or (suffix == ".pdf" and b"%PDF-" in head):
        return "application/pdf"
    if suffix == ".pdf":
        raise FileInputError(
            f"{path} is corrupt: it is named .pdf but holds no PDF; give the original, or rename it if it is text."
        )
    for magic, what, way_out in _FOREIGN:
        # Text may begin with the same letters: then a zero byte decides.
        letters = magic.isascii() and magic.decode().isprintable() and not magic.startswith(b"%")
        if data.startswith(magic) and (not letters or b"\x00" in data[:4096]):
            raise FileInputError(f"{path} is {what}, which cannot be read; {way_out}. Readable are {READABLE}.")
    if suffix in _MARKDOWN_SUFFIXES:
        return "text/markdown"
    return _TABLE_SUFFIXES.get(suffix, "text/plain")


def decode(data: bytes, name: str) -> str:
    """Bytes to text: by the byte order mark, else UTF-8, UTF-16 by its zero bytes, else Windows' Latin-1.

    Raises:
        FileInputError: if the bytes are not text.
    """
    text = _decode(data)
    sample = text[:200_000]
    strange = sum(1 for char in sample if (char < " " and char not in "\t\n\r\x0b\x0c\x1b\x1a\x08") or char == "\x7f")
    if "\x00" in text or strange > len(sample) / 100 or sample.count("�") > max(2, len(sample) / 20):
        raise FileInputError(
            f"{name} is corrupt or not a document: it holds binary data; give a readable file ({READABLE})."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes) -> str:
    marks = (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    )
    for mark, encoding in marks:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    # Mostly Latin text in UTF-16 has a zero in every other byte, and would pass as UTF-8.
    even, odd = data[0:4000:2].count(0), data[1:4000:2].count(0)
    if max(even, odd) > min(len(data), 4000) // 8 and min(even, odd) == 0:
        return data.decode("utf-16-be" if even > odd else "utf-16-le", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A download that was cut inside a character, or a stray byte in a long text, is still UTF-8.
        lenient = data.decode("utf-8", "replace")
        bad = lenient.count("�")
        if error.start >= len(data) - 3 or (bad * 1000 < len(lenient) and bad * 3 < _non_ascii(lenient)):
            return lenient
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _non_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


# --- text and tables ------------------------------------------------------------------------------------------------


def _text_document(path: Path, data: bytes, media_type: str) -> Document:
    text = decode(data, str(path))
    if media_type in _TABLE_SUFFIXES.values():
        table = parse_table(text, "\t" if media_type == "text/tab-separated-values" else None, media_type)
        if table is not None:
            return table
        media_type = "text/plain"
    return TextDocument(text, media_type)


def parse_table(text: str, delimiter: str | None = None, media_type: str = "text/csv") -> TableDocument | None:
    """A table from text, None when it cannot be read as one (it is then read as lines)."""
    delimiter = delimiter or sniff_delimiter(text)
    try:
        records = [tuple(record) for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)]
    except csv.Error:  # a quote that never closes, a cell beyond the module's limit
        return None
    # Blank lines keep their number: a row's number is what a spreadsheet shows.
    while records and not any(cell.strip() for cell in records[-1]):
        records.pop()
    if not records:
        return None
    if has_header(records):
        return TableDocument(records[0], tuple(records[1:]), 2, delimiter, media_type)
    return TableDocument((), tuple(records), 1, delimiter, media_type)


def sniff_delimiter(text: str) -> str:
    """The delimiter that cuts the first records into the same number of cells, most cells first."""
    sample = "\n".join(text[:65_536].split("\n")[:50])
    best, best_score = ",", 0.0
    for delimiter in ",;\t|":
        try:
            widths = [len(row) for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row]
        except csv.Error:
            continue
        if not widths or max(widths) < 2:
            continue
        common = max(set(widths), key=lambda width: (widths.count(width), width))
        if common < 2:
            continue
        score = widths.count(common) / len(widths) + common / 1000
        if score > best_score:
            best, best_score = delimiter, score
    return best


_NUMBER = re.compile(r"^[+-]?[\d.,\s]*\d%?$")
_YEAR = re.compile(r"^[12]\d{3}$")


def has_header(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first record names the columns: it holds no number, except years (`country, 1990, 2000`)."""
    first = [cell.strip() for cell in records[0]]
    numbers = [cell for cell in first if _NUMBER.match(cell)]
    return any(first) and len(numbers) < len(first) and all(_YEAR.match(cell) for cell in numbers)


# --- PDF ------------------------------------------------------------------------------------------------------------


def _check_pdf_end(path: Path, data: bytes) -> None:
    if b"%%EOF" not in data[-8192:]:
        # Without its end a PDF has no table of objects: readers guess, and pages go missing silently.
        raise FileInputError(f"{path} is corrupt: this PDF is cut off (its end is missing); download or copy it again.")


def _pdf_document(path: Path, result: dict[str, Any]) -> PdfDocument:
    pages = tuple(str(page) for page in result["pages"])
    if not any(page.strip() for page in pages):
        raise FileInputError(
            f"{path} has {len(pages)} page(s) without text, only images; recognise the text first, e.g. with ocrmypdf."
        )
    return PdfDocument(pages)


def _pdf_result(path: Path, result: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """The worker's result, its error code as a sentence.

    Raises:
        FileInputError: for every code.
    """
    code, detail = result.get("error"), result.get("detail", "")
    if not code:
        return result
    sentences = {
        "encrypted": f"{path} is an encrypted PDF; remove its password first, e.g. with qpdf --decrypt.",
        "corrupt": f"{path} is corrupt: this PDF cannot be read ({detail}); give an intact copy.",
        "pages": f"{path} has {detail} pages; at most {limits.pdf_pages} can be read: give the part you need.",
        "chars": f"{path} holds more than {limits.pdf_chars:,} characters by page {detail}; give the part you need.",
        "memory": f"{path} needs more than {limits.pdf_memory_bytes >> 20} MiB to be read; give a smaller part of it.",
        "time": f"{path} could not be read within {limits.pdf_seconds:g} s; give a smaller part of it.",
    }
    raise FileInputError(sentences.get(code, f"{path} cannot be read ({code} {detail}); give an intact copy."))


def _worker_command(path: Path, mode: str, limits: Limits, fd: int) -> list[str]:
    numbers = (
        limits.pdf_pages,
        limits.pdf_chars,
        limits.pdf_memory_bytes,
        max(1, int(limits.pdf_seconds + 0.999)),
        os.getpid(),
        fd,
    )
    script = Path(__file__).with_name("_pdf_worker.py")
    return [sys.executable, "-P", str(script), str(path.absolute()), mode, *(str(number) for number in numbers)]


def _worker_environment() -> dict[str, str]:
    """Only what Python needs to start: a parser of hostile input gets no keys."""
    kept = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONUTF8": "1"}


def _parse_worker(stdout: bytes, returncode: int | None) -> dict[str, Any]:
    try:
        result = json.loads(stdout)
    except ValueError:
        # SIGXCPU or SIGKILL at the processor limit; 1 when even reporting took more memory than there is.
        code = {-24: "time", -9: "time", 1: "memory"}.get(returncode or 0, "corrupt")
        return {"error": code, "detail": f"its reader ended with status {returncode}"}
    return result if isinstance(result, dict) else {"error": "corrupt", "detail": "no result"}


@contextlib.contextmanager
def _lifeline() -> Iterator[tuple[int, int]]:
    """A pipe whose write end only this process holds: the child sees it close when this process is gone."""
    read_end, write_end = os.pipe()
    try:
        yield read_end, write_end
    finally:
        os.close(read_end)
        os.close(write_end)


def _run_worker(path: Path, mode: str, limits: Limits) -> dict[str, Any]:
    with _lifeline() as (child_end, _):
        process = subprocess.Popen(
            _worker_command(path, mode, limits, child_end),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_worker_environment(),
            pass_fds=(child_end,),
        )
        with process:
            try:
                stdout, _ = process.communicate(timeout=limits.pdf_seconds)
            except subprocess.TimeoutExpired:
                return {"error": "time", "detail": ""}
            finally:
                process.kill()  # a no-op after a normal end; `with` reaps it
    return _parse_worker(stdout, process.returncode)


async def _run_worker_async(path: Path, mode: str, limits: Limits) -> dict[str, Any]:
    with _lifeline() as (child_end, _):
        process = await asyncio.create_subprocess_exec(
            *_worker_command(path, mode, limits, child_end),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_worker_environment(),
            pass_fds=(child_end,),
        )
        try:
            async with asyncio.timeout(limits.pdf_seconds):
                stdout, _ = await process.communicate()
        except TimeoutError:
            return {"error": "time", "detail": ""}
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                # Reap it even while being cancelled: a killed process ends at once.
                await process.wait()
        return _parse_worker(stdout, process.returncode)


# --- work in threads ------------------------------------------------------------------------------------------------


class Stopped(Exception):
    """Raised inside a thread whose awaiting task is gone."""


def check_stop(stop: threading.Event | None) -> None:
    """Leave a thread whose result nobody awaits any more.

    Raises:
        Stopped: if so.
    """
    if stop is not None and stop.is_set():
        raise Stopped
