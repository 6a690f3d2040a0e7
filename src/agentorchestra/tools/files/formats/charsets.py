"""The charset a page of the web is really in: servers, and pages themselves, often say the wrong one."""

from __future__ import annotations

import codecs
import importlib
import re
from contextlib import suppress

from .text import decode

_META = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# As browsers read them (WHATWG Encoding): the names of small sets stand for the larger ones that are in use.
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "tis-620": "cp874",
}
_SEVEN_BITS = ("iso2022", "hz", "utf-7")
_SINGLE_BYTES = ("iso8859", "cp125", "latin", "ascii", "koi8", "mac")
_SAMPLE = 200_000
_FEW = 100  # bytes beyond ASCII: fewer look like any charset of single bytes
_OF_SEVERAL_BYTES = {"gb18030", "gbk", "gb2312", "big5", "big5hkscs", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949"}


def text_of(data: bytes, declared: str = "") -> tuple[str, str]:
    """Return a page's text, and the charset it was read in.

    In this order: a byte order mark; UTF-8, if it is that beyond doubt; what the server declares, then what the page
    declares, where the bytes are valid in it; what the letters look like; then as files are read.
    """
    if data.startswith(_MARKS) or b"\x00" in data[:4000]:
        name = _known(declared)
        wide = _strict(data, name) if name.startswith("utf-16") and not data.startswith(_MARKS) else None
        return (wide, name) if wide and "\x00" not in wide else (decode(data), "by its bytes")
    head = data[:4096]
    said = (match[1].decode() for pattern in (_META, _XML) if (match := pattern.search(head)) is not None)
    names = [_known(name) for name in (declared, *said)]
    if escaped := next((name for name in names if name.startswith(_SEVEN_BITS[:2])), ""):
        names = [escaped]
    elif (plain := _strict(data, "utf-8")) is not None:
        # Bytes of other charsets are next to never valid UTF-8; a declaration of something else is then a mistake.
        return plain, "utf-8"
    for name in names:
        if name and name not in ("utf-8", "utf-7") and (text := _strict(data, _MEANT.get(name, name))) is not None:
            if name.startswith(_SINGLE_BYTES) and _looks_wrong(text):
                continue
            return text, name
    if names and "utf-8" in names:
        lenient = data.decode("utf-8", "replace")
        if lenient.count("�") * 200 < len(lenient):
            return lenient, "utf-8"
    if found := _guessed(data):
        return data.decode(found, "replace"), found
    return decode(data), "by its bytes"


def _known(name: str) -> str:
    try:
        return codecs.lookup(name.strip()).name if name.strip() else ""
    except LookupError:
        return ""


def _strict(data: bytes, name: str) -> str | None:
    for one in filter(None, (data, data[:-3])):  # downloads are cut inside a character
        with suppress(UnicodeDecodeError, LookupError):
            return one.decode(name)
    return None


def _looks_wrong(text: str) -> bool:
    """Return True if a text, read in a charset of single bytes, is mostly signs that stand alone in none."""
    strange = [char for char in text[:_SAMPLE] if char > "\x7f"]
    if len(strange) < 8:
        return False
    signs = sum(1 for char in strange if not char.isalpha() and char not in "\u00a0«»–—“”‘’„…•°€£§©®")
    return signs * 4 > len(strange)


def _guessed(data: bytes) -> str:
    """Return what charset the letters look like, "" for no idea; the detector comes with the extra `reading`."""
    try:
        normalizer = importlib.import_module("charset_normalizer")
    except ImportError:
        return ""
    best = normalizer.from_bytes(data[:_SAMPLE]).best()
    name = _known(best.encoding) if best is not None else ""
    runs = [len(run[0]) for run in re.finditer(rb"[\x80-\xff]+", data[:_SAMPLE])]
    if name in _OF_SEVERAL_BYTES:
        # Letters of several bytes stand together; single ones between plain letters are accents.
        return _MEANT.get(name, name) if sum(run > 1 for run in runs) * 2 > len(runs) else ""
    return _MEANT.get(name, name) if sum(runs) >= _FEW else ""
