"""Bytes to text, and text to tables."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .base import Refused

NUL = "␀"  # shows a NUL byte in text: models and databases refuse the character itself
_NAMES = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16 LE",
    "utf-16-be": "UTF-16 BE",
    "utf-32-le": "UTF-32 LE",
    "utf-32-be": "UTF-32 BE",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}
_LINE_END = re.compile("\r\n|\r|\n")


@dataclass(frozen=True)
class Decoded:
    """Bytes as text."""

    text: str  # with the line ends that it has; NUL characters are shown as `NUL`
    encoding: str  # Python's name of it
    mark: bytes = b""  # the byte order mark in front
    undecoded: int = 0  # stretches of bytes that mean nothing in this encoding; each shows as U+FFFD
    first_undecoded: int = 0  # where the first of them stands in the text
    nuls: int = 0  # how many NUL characters there were

    @property
    def name(self) -> str:
        """The encoding as people call it."""
        return _NAMES[self.encoding]

    @property
    def exact(self) -> bool:
        """True if the text, encoded again, is what was decoded."""
        return not self.undecoded and not self.nuls


def decode(data: bytes) -> str:
    """Return text with bare newlines: by the byte order mark, else UTF-8, UTF-16 by its zeros, else Windows-1252."""
    return with_newlines(decoded(data).text)


def decoded(data: bytes) -> Decoded:
    """Decode as `decode` does, and say how; Refused if the bytes are not text."""
    found = _decoded(data)
    sample = found.text[:200_000]
    strange = sum(1 for char in sample if (char < " " and char not in "\t\n\r\x0b\x0c\x1b\x1a\x08") or char == "\x7f")
    nuls = found.text.count("\x00")
    odd = max(strange / max(len(sample), 1), nuls / max(len(found.text), 1))
    if odd > 0.01 or sample.count("�") > max(2, len(sample) / 20):
        raise Refused("binary")
    return replace(found, text=found.text.replace("\x00", NUL), nuls=nuls) if nuls else found


def with_newlines(text: str) -> str:
    """Return text whose lines end with a bare newline."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def form_of(found: Decoded) -> str:
    """Return how a text stands in its file, in sentences; "" where that is as usual: UTF-8 with bare newlines."""
    said = []
    if found.encoding != "utf-8":
        marked = " with a byte order mark" if found.mark else ""
        not_utf8 = "; it is not valid UTF-8" if found.encoding in ("cp1252", "latin-1") else ""
        said.append(f"Read as {found.name}{marked}{not_utf8}.")
    elif found.mark:
        said.append("It begins with a byte order mark.")
    if found.undecoded:
        line = _lines_before(found.text, found.first_undecoded) + 1
        places = "1 place" if found.undecoded == 1 else f"{found.undecoded:,} places, the first"
        said.append(f"Bytes that are not {found.name} show as � (in {places} in line {line:,}).")
    if found.nuls:
        line = _lines_before(found.text, found.text.index(NUL)) + 1
        said.append(f"{found.nuls:,} NUL characters show as {NUL} (the first in line {line:,}).")
    if "\r" in found.text:
        both = found.text.count("\r\n")
        ends = {"CRLF": both, "LF": found.text.count("\n") - both, "CR": found.text.count("\r") - both}
        used = [f"{count:,} {name}" for name, count in ends.items() if count]
        kind = next(name for name, count in ends.items() if count)
        said.append(f"Line ends: mixed ({', '.join(used)})." if len(used) > 1 else f"Line ends: {kind}.")
    return " ".join(said)


def _lines_before(text: str, offset: int) -> int:
    return sum(1 for _ in _LINE_END.finditer(text, 0, offset))


def _decoded(data: bytes) -> Decoded:
    marks = (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    )
    for mark, encoding in marks:
        if data.startswith(mark):
            return _lenient(data[len(mark) :], encoding, mark)
    # Mostly Latin text in UTF-16 has a zero in every other byte, and would pass as UTF-8.
    even, odd = data[0:4000:2].count(0), data[1:4000:2].count(0)
    if max(even, odd) > min(len(data), 4000) // 8 and min(even, odd) == 0:
        return _lenient(data, "utf-16-be" if even > odd else "utf-16-le")
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        # A download that was cut inside a character, or a stray byte in a long text, is still UTF-8.
        lenient = _lenient(data, "utf-8")
        bad = lenient.undecoded
        beyond_ascii = len(lenient.text) - len(lenient.text.encode("ascii", "ignore"))
        few = bad * 1000 < len(lenient.text) and bad * 3 < beyond_ascii
        if error.start >= len(data) - 3 or few:
            return lenient
    try:
        return Decoded(data.decode("cp1252"), "cp1252")
    except UnicodeDecodeError:
        return Decoded(data.decode("latin-1"), "latin-1")


def _lenient(data: bytes, encoding: str, mark: bytes = b"") -> Decoded:
    """Return text with U+FFFD for what cannot be decoded; it may hold that character by itself too."""
    try:
        return Decoded(data.decode(encoding), encoding, mark)
    except UnicodeDecodeError as error:
        text = data.decode(encoding, "replace")
        own = data.count("�".encode(encoding)) if encoding == "utf-8" else 0
        before = len(data[: error.start].decode(encoding))
        return Decoded(text, encoding, mark, max(1, text.count("�") - own), before)


def table_of(
    text: str, delimiter: str | None = None
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], str] | None:
    """Return the header (empty for none), the records below it and the delimiter; None when it is no table."""
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
    """Return the delimiter that cuts the first records into the same number of cells, most cells first."""
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
    """Return True if the first record names the columns: it holds no number, except years (`country, 1990, 2000`)."""
    first = [cell.strip() for cell in records[0]]
    numbers = [cell for cell in first if _NUMBER.match(cell)]
    return any(first) and len(numbers) < len(first) and all(_YEAR.match(cell) for cell in numbers)
