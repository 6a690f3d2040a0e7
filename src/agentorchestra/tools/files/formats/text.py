"""Bytes to text, and text to tables."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from unicodedata import category

from .base import Refused
from .charsets import DECLARATION, FAR, NEAR, WIDE, codec_name, declared_codec, ranking

NUL = "␀"  # shows a NUL byte in text: models and databases refuse the character itself
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Encodings of seven bits, by the escapes that they begin with
_ESCAPES = ((b"\x1b$)C", "iso2022_kr"), (b"\x1b$@", "iso2022_jp"), (b"\x1b$B", "iso2022_jp"))
_SEVEN_BITS = ("iso2022", "hz")
_HZ = re.compile(rb"~\{(?:[!-w][!-~])+~\}")  # Chinese in ASCII (RFC 1843), which other text holds next to never
_CONTROLS = re.compile(r"[\x00-\x07\x0e-\x19\x7f]")  # all but those that stand in texts, HL7 and MARC among them
_META = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_LINE_END = re.compile("\r\n|\r|\n")


@dataclass(frozen=True)
class Decoded:
    text: str  # with the line ends that it has; NUL characters are shown as `NUL`
    encoding: str  # Python's name of it
    mark: bytes = b""  # the byte order mark in front
    misfits: int = 0  # stretches of bytes that mean nothing in this encoding; each shows as U+FFFD
    first_misfit: int = 0  # where the first of them stands in the text
    nuls: int = 0  # how many NUL characters there were
    doubt: str = ""  # why the encoding could be another, "" where its bytes or a declaration that fits tell it

    @property
    def name(self) -> str:
        return name_of(self.encoding)

    @property
    def exact(self) -> bool:
        """True if the text, encoded again, is what was decoded."""
        return not self.misfits and not self.nuls


def decoded(data: bytes, charset: str = "", encoding: str = "") -> Decoded:
    """Decode text, and say how; Refused if the bytes are not text.

    In this order: a byte order mark; UTF-8, if it is that beyond doubt; what is declared (by `charset`, a server's
    word, or by the text itself as HTML and XML do), unless the bytes are far likelier in another encoding; the
    encoding in which they are likeliest. `encoding` is taken without a look, whatever was declared.
    """
    reading = _decoded(data, charset, encoding)
    sample = reading.text[: 8_192 if reading.doubt else 200_000]
    strange = _CONTROLS.findall(sample)
    # Binary data has many kinds of them; texts that use some as separators have few.
    odd = len(strange) * 100 > len(sample) and len({*strange}) > 3
    unknown = sum(category(char) in ("Cn", "Co") for char in sample) if reading.doubt else 0
    if odd or len(strange) * 2 > len(sample) or sample.count("�") + unknown > max(2, len(sample) / 20):
        raise Refused("binary")
    nuls = reading.text.count("\x00")
    return replace(reading, text=reading.text.replace("\x00", NUL), nuls=nuls) if nuls else reading


def name_of(encoding: str) -> str:
    """Return an encoding as people call it; `codec_name` takes that name too."""
    name = re.sub(r"^cp(?=125\d$)", "Windows-", encoding).replace("iso8859", "ISO-8859").replace("_", "-")
    name = {"cp932": "Shift_JIS", "cp949": "EUC-KR", "big5hkscs": "Big5", "cp874": "Windows-874"}.get(encoding, name)
    name = re.sub(r"^(utf-(?:16|32))-", r"\1 ", name)
    return name if name[:1].isupper() else name.upper()


def with_newlines(text: str) -> str:
    """Return text whose lines end with a bare newline."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def form_of(decoded: Decoded) -> str:
    """Return how a text stands in its file, in sentences; "" where that is as usual: UTF-8 with bare newlines."""
    sentences = [sentence] if (sentence := encoding_of(decoded)) else []
    if decoded.encoding == "utf-8" and decoded.mark:
        sentences.append("It begins with a byte order mark.")
    if decoded.misfits:
        line = _lines_before(decoded.text, decoded.first_misfit) + 1
        places = "1 place" if decoded.misfits == 1 else f"{decoded.misfits:,} places, the first"
        sentences.append(f"Bytes that are not {decoded.name} show as � (in {places} in line {line:,}).")
    if decoded.nuls:
        line = _lines_before(decoded.text, decoded.text.index(NUL)) + 1
        sentences.append(f"{decoded.nuls:,} NUL characters show as {NUL} (the first in line {line:,}).")
    if "\r" in decoded.text:
        crlf = decoded.text.count("\r\n")
        ends = {"CRLF": crlf, "LF": decoded.text.count("\n") - crlf, "CR": decoded.text.count("\r") - crlf}
        used = [f"{count:,} {name}" for name, count in ends.items() if count]
        kind = next(name for name, count in ends.items() if count)
        sentences.append(f"Line ends: mixed ({', '.join(used)})." if len(used) > 1 else f"Line ends: {kind}.")
    return " ".join(sentences)


def encoding_of(decoded: Decoded, *, doubtful: bool = False) -> str:
    """Return what a text was read as, with the doubt, "" for UTF-8; `doubtful`: only where there is doubt."""
    if decoded.doubt:
        return f"Read as {decoded.name}, {decoded.doubt}; if words look wrong, read it again with another `encoding`."
    mark = " with a byte order mark" if decoded.mark else ""
    return "" if doubtful or decoded.encoding == "utf-8" else f"Read as {decoded.name}{mark}."


def _lines_before(text: str, offset: int) -> int:
    return sum(1 for _ in _LINE_END.finditer(text, 0, offset))


def _decoded(data: bytes, charset: str, encoding: str) -> Decoded:
    own = declared_codec(encoding) or codec_name(encoding)
    if encoding and not own:
        raise Refused("encoding", f"the encoding {encoding!r} is unknown")
    for mark, codec in _MARKS:
        if data.startswith(mark) and own in ("", codec, codec[:6], "utf-8-sig"):
            return _lenient(data[len(mark) :], codec, mark)
    if own:
        return _lenient(data, own)
    head = data[:4096]
    own_words = (match[1].decode() for pattern in (_META, _XML) if (match := pattern.search(head)) is not None)
    names = [name for word in (charset, *own_words) if (name := declared_codec(word))]
    seven_bit = next((name for name in names if name.startswith(_SEVEN_BITS)), "")
    seven_bit = seven_bit or next((name for escape, name in _ESCAPES if escape in data[:200_000]), "")
    guess = "" if seven_bit or not _HZ.search(data[:200_000]) else "hz"
    valid = ""
    for name in filter(None, (seven_bit or guess, "utf-8")):
        with suppress(UnicodeDecodeError):
            reading = Decoded(data.decode(name), name)
            # Bytes of other encodings are next to never valid UTF-8, but for UTF-16 of some scripts.
            if name == seven_bit or not _CONTROLS.search(reading.text[:200_000]):
                return replace(reading, doubt="a guess by its letters") if name == guess else reading
            valid = "utf"
    costs = [pair for pair in ranking(data, names) if pair[1].startswith(valid)]
    # A text may mix scripts; bytes of other encodings are seldom valid in one of two bytes.
    fits = [name for name in names if name in WIDE and "\ufffd" not in data.decode(name, "replace")]
    (best, name), *rest = sorted(costs, key=lambda pair: pair[0] - FAR * (pair[1] in fits))
    reading = _lenient(data, name)
    is_declared = name in names and name != "utf-8"
    most = DECLARATION - NEAR if is_declared else NEAR
    near = [name for cost, name in rest[:6] if cost - best < most and data.decode(name, "replace") != reading.text][:2]
    likely = f"{' and '.join(map(name_of, near))} {'is' if len(near) == 1 else 'are'}" if near else ""
    if is_declared or (name == "utf-8" and not near):
        return replace(reading, doubt=f"as it says, though {likely} likelier by its letters") if near else reading
    reasons = [f"it says {name_of(names[0])}, which does not fit"] if names else []
    reasons += [f"{likely} nearly as likely"] if near else []
    return replace(reading, doubt="a guess by its letters" + (f" ({'; '.join(reasons)})" if reasons else ""))


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
