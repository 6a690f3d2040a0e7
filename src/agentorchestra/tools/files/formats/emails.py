"""Mail: the message and its attachments, as files (.eml) and as Outlook writes them (.msg)."""

from __future__ import annotations

import email
import email.policy
import io
from email.message import EmailMessage
from typing import Any

from .base import MOST_DEPTH, Convert, PartList, ReadJob, Refused, need, one_line, reason_of, refusing, text_document
from .markup import html_text
from .text import Decoded, decoded, encoding_of, with_newlines

EML = "message/rfc822"
MSG = "application/vnd.ms-outlook"

_HEADERS = ("From", "To", "Cc", "Date", "Subject", "Reply-To", "Message-ID")
# Of Outlook's properties (MS-OXPROPS): types, code pages, and those that hold subject, body and sender
_STRING8, _STRING, _CODE_PAGE, _INTERNET_PAGE, _HTML = 0x1E, 0x1F, 0x3FFD, 0x3FDE, 0x1013
_TEXTS = (0x37, 0x1000, 0xC1A)
_BYTES = "iso8859-15"  # in which each byte is a character
MARK_OF_MSG = "__substg1.0_".encode("utf-16-le")


def convert_eml(job: ReadJob, data: bytes, depth: int, convert: Convert) -> dict[str, Any]:
    """Return the message with its main headers, then each attachment as what it is."""
    message = _parsed(data)
    parts = PartList(EML)
    body = message.get_body(("plain", "html"))
    payload = body.get_payload(decode=True) if body is not None else b""
    charset = str(body.get_content_charset("")) if body is not None else ""
    reading = decoded(payload if isinstance(payload, bytes) else b"", charset, job.encoding)
    text = with_newlines(reading.text)
    if body is not None and body.get_content_type() == "text/html":
        text = html_text(need("markitdown.converters"), text)
    headers = [(name, _header(message, name, reading, job.encoding)) for name in _HEADERS if message[name]]
    text = "\n".join(f"{name}: {one_line(value, 2_000)}" for name, value in headers) + f"\n\n{text.strip()}\n"
    parts.add("message", text_document(job, text, EML, doubt=encoding_of(reading, doubtful=True)))
    if not job.check:
        _attachments(job, parts, _files(message), depth, convert)
    return parts.document()


def _parsed(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=email.policy.default)


def _header(message: EmailMessage, name: str, body: Decoded, encoding: str) -> str:
    """Return a header's value; of one that is not encoded as mail has it, in the encoding of the body or its own."""
    value = next(str(value) for key, value in message.raw_items() if key.lower() == name.lower())
    if value.isascii():
        return str(message[name])
    reading = decoded(value.encode("ascii", "surrogateescape"), body.encoding, encoding)
    return str(email.policy.default.header_factory(name, reading.text))


def _files(message: EmailMessage) -> list[tuple[str, bytes]]:
    files = []
    for number, part in enumerate(message.iter_attachments(), 1):
        name = part.get_filename() or f"attachment {number}"
        if part.get_content_type() == EML:
            inner = part.get_content()
            data = inner.as_bytes() if hasattr(inner, "as_bytes") else b""
            name = part.get_filename() or f"attachment {number}.eml"
        else:
            payload = part.get_payload(decode=True)
            data = payload if isinstance(payload, bytes) else b""
        files.append((name, data))
    return files


def attachment_of(data: bytes, name: str) -> bytes:
    """Raises: Refused: if the message has no such attachment."""
    for file_name, content in _files(_parsed(data)):
        if one_line(file_name).strip() == name:
            return content
    raise Refused("no_member", name)


def _attachments(job: ReadJob, parts: PartList, files: list[tuple[str, bytes]], depth: int, convert: Convert) -> None:
    for name, data in files:
        job.spend("members")
        job.spend("unpacked_bytes", len(data))
        if depth >= MOST_DEPTH:
            parts.notes.append(f"{one_line(name)} is not read: it lies inside more than {MOST_DEPTH} others")
            continue
        try:
            parts.add(name, convert(job, data, name, depth + 1), len(data))
        except Refused as error:
            if error.code in ("unpacked", "members", "ratio", "chars"):
                raise
            parts.notes.append(f"{one_line(name)} ({len(data):,} bytes) is not read: {reason_of(error)}")


def check_compound(data: bytes) -> None:
    """Raises: Refused: if sectors that a compound file lists are beyond its end; its library reads on without them."""
    olefile = need("olefile")
    code = "mail" if MARK_OF_MSG in data else "office"
    with refusing(code), olefile.OleFileIO(io.BytesIO(data)) as file:
        last = max((number for number, next_ in enumerate(file.fat) if next_ != olefile.FREESECT), default=0)
        begins = (last + 1) * file.sector_size
    if len(data) <= begins:
        raise Refused(code, "it is cut off")


def _page_of(properties: Any, *tags: int) -> str:
    """Return the encoding of the first of these properties that names one, "" for none."""
    names = need("oxmsg.domain.encodings")._CODE_PAGE_ENCODINGS
    return next((name for tag in tags if (name := names.get(properties.int_prop_value(tag)))), "")


def convert_msg(job: ReadJob, data: bytes, depth: int, convert: Convert) -> dict[str, Any]:
    oxmsg = need("oxmsg")
    parts = PartList(MSG)
    with refusing("mail"):
        message = oxmsg.Message.load(io.BytesIO(data))
        # Its code pages may lie, and the library knows not all: it is to read each byte as a character
        vars(message.properties).update(_str_prop_encoding=_BYTES, body_encoding=_BYTES)
        date = message.sent_date
        texts = [
            f"From: {message.sender or message.message_headers.get('From', '')}",
            "To: " + ", ".join(f"{recipient.name} <{recipient.email_address}>" for recipient in message.recipients),
            *([f"Date: {date.isoformat(sep=' ')}"] if date is not None else []),
            f"Subject: {message.subject}",
            *(file.file_name or f"attachment {number}" for number, file in enumerate(message.attachments, 1)),
            message.body or "",
        ]
        doubt, kinds = "", {entry.pid: entry.ptyp for entry in message.properties}
        if _STRING8 in map(kinds.get, _TEXTS):
            raw = [text.encode(_BYTES, "replace") for text in texts]
            page = _page_of(message.properties, _CODE_PAGE, _INTERNET_PAGE)
            reading = decoded(b"\n".join(raw), page, job.encoding)
            texts = [line.decode(reading.encoding, "replace") for line in raw]
            doubt = encoding_of(reading, doubtful=True)
        names, body = texts[len(texts) - 1 - len(message.attachments) : -1], texts[-1]
        if not body.strip() and (page := message.html_body):
            if kinds.get(_HTML) != _STRING:
                charset = _page_of(message.properties, _INTERNET_PAGE, _CODE_PAGE)
                reading = decoded(page.encode(_BYTES), charset, job.encoding)
                page, doubt = reading.text, encoding_of(reading, doubtful=True) or doubt
            body = html_text(need("markitdown.converters"), with_newlines(page))
        files = [(name, file.file_bytes or b"") for name, file in zip(names, message.attachments, strict=True)]
    text = "\n".join(map(one_line, texts[: len(texts) - 1 - len(names)])) + "\n\n" + body.strip() + "\n"
    parts.add("message", text_document(job, text, MSG, doubt=doubt))
    if not job.check:
        _attachments(job, parts, files, depth, convert)
    return parts.document()
