"""Bytes to a document: what they are decides, whatever their name."""

from __future__ import annotations

from typing import Any

from .archives import UNPACKERS, convert_packed, convert_tar, convert_zip, member_named, open_zip, unpack, unpacked_name
from .base import ReadJob, Refused, clean, table_document, text_document
from .emails import MARK_OF_MSG, attachment_of, check_compound, convert_eml, convert_msg
from .markup import convert_html, convert_json, convert_xml
from .media import describe_media
from .msdoc import convert_doc
from .office import convert_office, office_type
from .pdf import convert_pdf
from .sniff import TABLE_SUFFIXES, foreign, sniff
from .text import decoded, encoding_of, form_of, table_of
from .xls import XLS, convert_values

_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
# Names of streams as a compound file lists them
_OLD_WORKBOOK = tuple(f"{name}\0".encode("utf-16-le") for name in ("Workbook", "Book"))
_OLD_TEXT = "WordDocument\0".encode("utf-16-le")


def convert(job: ReadJob, data: bytes, name: str, depth: int = 0) -> dict[str, Any]:
    """Return a document as JSON has it; to check, its media type only. `depth` counts the archives around it."""
    if not data.strip(b" \t\r\n\x0b\x0c\xef\xbb\xbf\xff\xfe\x00"):
        raise Refused("empty")
    media_type = sniff(data, name)
    if media_type.startswith(("image/", "audio/", "video/")):
        return text_document(job, describe_media(data, media_type), media_type)
    if media_type == "application/pdf":
        return convert_pdf(job, data)
    if media_type == "application/zip":
        archive = open_zip(data)
        office = office_type(archive)
        if office is not None:
            return convert_office(job, data, archive, office)
        return convert_zip(job, archive, depth, convert)
    if media_type in UNPACKERS:
        return convert_packed(job, data, name, media_type, depth, convert)
    if media_type == "application/x-tar":
        return convert_tar(job, data, media_type, depth, convert)
    if media_type == "application/x-ole-storage":
        return _compound(job, data, depth)
    if media_type == "application/json":
        return convert_json(job, data)
    if media_type == "application/xml":
        return convert_xml(job, data)
    if media_type == "text/html":
        return convert_html(job, data)
    if media_type == "message/rfc822":
        return convert_eml(job, data, depth, convert)
    return _plain(job, data, media_type)


def _compound(job: ReadJob, data: bytes, depth: int) -> dict[str, Any]:
    check_compound(data)
    if MARK_OF_MSG in data:
        return convert_msg(job, data, depth, convert)
    if any(mark in data for mark in _OLD_WORKBOOK):
        return convert_values(job, data, XLS)
    if _OLD_TEXT in data:
        return convert_doc(job, data)
    raise Refused("encrypted_office" if _ENCRYPTED_OFFICE in data else "ole")


def _plain(job: ReadJob, data: bytes, media_type: str) -> dict[str, Any]:
    if (other := foreign(data)) is not None:
        raise Refused("foreign", "|".join(other))
    found_text = decoded(data, encoding=job.encoding)
    text = clean(found_text.text)
    if media_type in TABLE_SUFFIXES.values():
        table = table_of(text, "\t" if media_type == TABLE_SUFFIXES[".tsv"] else None)
        if table is not None and job.take_cells(sum(map(len, table[1]))):
            header, rows, delimiter = table
            job.spend("chars", len(text), "the table")
            return table_document(media_type, header, rows, delimiter, encoding_of(found_text))
        media_type = "text/plain"
    return text_document(job, text, media_type, form_of(found_text))


def member_of(job: ReadJob, data: bytes, name: str, path: list[str]) -> bytes:
    """Return the bytes of a member, by the names of the parts that lead to it."""
    media_type = sniff(data, name)
    if media_type in UNPACKERS:
        data = unpack(job, data, media_type)
        name = unpacked_name(name)
        media_type = sniff(data, name)
    if not path:
        return data
    if media_type == "message/rfc822":
        return member_of(job, attachment_of(data, path[0]), path[0], path[1:])
    inside, data = member_named(job, data, media_type, path[0])
    return member_of(job, data, inside, path[1:])
