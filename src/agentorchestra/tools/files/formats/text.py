"""Bytes to text, and text to tables."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence

from .base import Refused


def decode(data: bytes) -> str:
    """Bytes to text: by the byte order mark, else UTF-8, UTF-16 by its zero bytes, else Windows' Latin-1.

    Raises:
        Refused: if the bytes are not text.
    """
    text = _decode(data)
    sample = text[:200_000]
    strange = sum(1 for char in sample if (char < " " and char not in "\t\n\r\x0b\x0c\x1b\x1a\x08") or char == "\x7f")
    if "\x00" in text or strange > len(sample) / 100 or sample.count("�") > max(2, len(sample) / 20):
        raise Refused("binary")
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


def table_of(
    text: str, delimiter: str | None = None
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], str] | None:
    """Header (empty where there is none), the records below it and the delimiter; None when it is no table."""
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
        return records[0], tuple(records[1:]), delimiter
    return (), tuple(records), delimiter


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
