"""The type of a file, by its bytes; a name's ending only tells apart what looks alike (Markdown, CSV, plain text)."""

from __future__ import annotations

import re
from pathlib import PurePath

TABLE_SUFFIXES = {".csv": "text/csv", ".tsv": "text/tab-separated-values"}
MARKDOWN_SUFFIXES = {".md", ".markdown"}

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
EPUB = "application/epub+zip"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ODT = "application/vnd.oasis.opendocument.text"
ODP = "application/vnd.oasis.opendocument.presentation"
XLSB = "application/vnd.ms-excel.sheet.binary.macroEnabled.12"

# Pictures and recordings, by their first bytes: (at, bytes, media type).
_MEDIA: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypmif1", "image/heif"),
    (4, b"ftypavif", "image/avif"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"FORM", "audio/aiff"),
    (4, b"ftypM4A", "audio/mp4"),
    (8, b"AVI ", "video/x-msvideo"),
    (4, b"ftypqt", "video/quicktime"),
    (4, b"ftyp", "video/mp4"),
    (0, b"FLV\x01", "video/x-flv"),
    (0, b"\x00\x00\x01\xba", "video/mpeg"),
)
_RIFF = (b"WEBP", b"WAVE", b"AVI ")

# What cannot be read when its first bytes say so, and the way out.
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (b"Rar!", "a rar archive", "unpack it first"),
    (b"\x7fELF", "a program", "give a document"),
    (b"MZ\x90\x00", "a program", "give a document"),
    (b"SQLite format 3", "an SQLite database", "export the table as .csv"),
    (b"%!PS", "PostScript", "convert it to .pdf"),
)

_PACKERS = ((b"\x1f\x8b", "application/gzip"), (b"BZh", "application/x-bzip2"), (b"\xfd7zXZ\x00", "application/x-xz"))

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]{1,40}):[ \t]")
_MAIL_HEADERS = {
    *("from", "to", "subject", "date", "received", "message-id", "mime-version", "return-path", "delivered-to")
}
_JSON = re.compile(rb"[\[{]\s*(?:[\[{\"\]}\d-]|true|false|null)")
_XML = re.compile(rb"<(?:\?xml[\s?]|!--|!DOCTYPE\s|[A-Za-z_][\w.:-]*(?:\s[^<>]{0,2000})?/?>)")
_HTML = re.compile(rb"<!doctype\s+html|<html[\s>]", re.IGNORECASE)


def media_type_of(data: bytes) -> str | None:
    """Return the type of a picture or a recording by its first bytes, None for everything else."""
    head = data[:64]
    if b"\x00" not in data[:4096]:  # text may begin with the same letters
        return None
    if head.startswith(b"\x1aE\xdf\xa3"):
        return "video/webm" if b"webm" in head else "video/x-matroska"
    if head.startswith(b"BM") and head[6:10] == bytes(4):
        return "image/bmp"
    for at, magic, media_type in _MEDIA:
        if head[at:].startswith(magic) and (magic not in _RIFF or head.startswith(b"RIFF")):
            return media_type
    return None


def foreign(data: bytes) -> tuple[str, str] | None:
    """Return what a file of a format that is not read is, and the way out."""
    for magic, kind, way_out in _FOREIGN:
        # Text may begin with the same letters: then a zero byte decides.
        letters = magic.isascii() and magic.decode().isprintable() and not magic.startswith(b"%")
        if data.startswith(magic) and (not letters or b"\x00" in data[:4096]):
            return kind, way_out
    return None


def sniff(data: bytes, name: str) -> str:
    """Return the media type: the container's for zip and OLE files, which have to be opened to know more."""
    if (media := media_type_of(data)) is not None:
        return media
    suffix = PurePath(name).suffix.lower()
    head = data[:1024]
    start = head.lstrip(b" \t\r\n\xef\xbb\xbf")
    if start.startswith(b"%PDF-") or (suffix == ".pdf" and b"%PDF-" in head):
        return "application/pdf"
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "application/zip"
    if data.startswith(OLE):
        return "application/x-ole-storage"
    for magic, media_type in _PACKERS:
        if data.startswith(magic):
            return media_type
    if data[257:262] == b"ustar":
        return "application/x-tar"
    # UTF-16 has the signs of a format with a zero beside each.
    return _text_type(start.replace(b"\x00", b""), suffix)


def _text_type(start: bytes, suffix: str) -> str:
    if suffix in TABLE_SUFFIXES:
        return TABLE_SUFFIXES[suffix]
    if suffix in MARKDOWN_SUFFIXES:
        return "text/markdown"
    if start[:1] in (b"{", b"[") and _JSON.match(start):
        return "application/json"
    if start.startswith(b"<"):
        if _HTML.search(start) or (suffix in (".html", ".htm", ".xhtml") and not start.startswith(b"<?xml")):
            return "text/html"
        if _XML.match(start):
            return "application/xml"
    if _is_mail(start, suffix):
        return "message/rfc822"
    return "text/plain"


def _is_mail(start: bytes, suffix: str) -> bool:
    """Return True if text begins with the headers of a mail: nothing but headers, three of them a mail's."""
    names = set()
    for number, line in enumerate(start.decode("latin-1").splitlines()):
        if not line.strip():
            break
        match = _HEADER.match(line)
        if match is not None:
            names.add(match[1].lower())
        elif not (number and line[0] in " \t") and number + 1 < len(start.splitlines()):
            return False
    return len(names & _MAIL_HEADERS) >= (2 if suffix == ".eml" else 3)
