"""Mail: the message and its attachments, as files (.eml) and as Outlook writes them (.msg)."""

from __future__ import annotations

import codecs
import email
import email.policy
import io
from email.message import EmailMessage
from typing import Any

from .base import MOST_DEPTH, Convert, Job, Parts, Refused, need, one_line, reason_of, refusing, text_document
from .charsets import known
from .markup import html_text
from .text import Decoded, decoded, encoding_of, with_newlines

EML = "message/rfc822"
MSG = "application/vnd.ms-outlook"

_HEADERS = ("From", "To", "Cc", "Date", "Subject", "Reply-To", "Message-ID")
_STRING8, _CODE_PAGE = 0x1E, 0x3FFD  # of Outlook's properties (MS-OXPROPS)
MARK_OF_MSG = "__substg1.0_".encode("utf-16-le")


def convert_eml(job: Job, data: bytes, depth: int, convert: Convert) -> dict[str, Any]:
    """Return the message with its main headers, then each attachment as what it is."""
    message = _parsed(data)
    parts = Parts(EML)
    body = message.get_body(("plain", "html"))
    payload = body.get_payload(decode=True) if body is not None else b""
    charset = str(body.get_content_charset("")) if body is not None else ""
    found = decoded(payload if isinstance(payload, bytes) else b"", charset, job.encoding)
    text = with_newlines(found.text)
    if body is not None and body.get_content_type() == "text/html":
        text = html_text(need("markitdown.converters"), text)
    headers = [(name, _header(message, name, found, job.encoding)) for name in _HEADERS if message[name]]
    text = "\n".join(f"{name}: {one_line(value, 2_000)}" for name, value in headers) + f"\n\n{text.strip()}\n"
    parts.add("message", text_document(job, text, EML, doubt=encoding_of(found, doubtful=True)))
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
    found = decoded(value.encode("ascii", "surrogateescape"), body.encoding, encoding)
    return str(email.policy.default.header_factory(name, found.text))


def _files(message: EmailMessage) -> list[tuple[str, bytes]]:
    found = []
    for number, part in enumerate(message.iter_attachments(), 1):
        name = part.get_filename() or f"attachment {number}"
        if part.get_content_type() == EML:
            inner = part.get_content()
            data = inner.as_bytes() if hasattr(inner, "as_bytes") else b""
            name = part.get_filename() or f"attachment {number}.eml"
        else:
            payload = part.get_payload(decode=True)
            data = payload if isinstance(payload, bytes) else b""
        found.append((name, data))
    return found


def attachment_of(data: bytes, name: str) -> bytes:
    """Raises: Refused: if the message has no such attachment."""
    for one, content in _files(_parsed(data)):
        if one_line(one).strip() == name:
            return content
    raise Refused("no_member", name)


def _attachments(job: Job, parts: Parts, files: list[tuple[str, bytes]], depth: int, convert: Convert) -> None:
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


def _code_page(name: str) -> codecs.CodecInfo | None:
    """Find Windows' code pages by Microsoft's names for them (`windows-950`), which Python does not know."""
    return codecs.lookup(known(name.replace("_", "-"))) if name.startswith("windows_") else None


def convert_msg(job: Job, data: bytes, depth: int, convert: Convert) -> dict[str, Any]:
    oxmsg = need("oxmsg")
    parts = Parts(MSG)
    codecs.register(_code_page)
    with refusing("mail"):
        message = oxmsg.Message.load(io.BytesIO(data))
        sent = message.sent_date
        lines = [
            f"From: {message.sender or message.message_headers.get('From', '')}",
            "To: " + ", ".join(f"{recipient.name} <{recipient.email_address}>" for recipient in message.recipients),
            *([f"Date: {sent.isoformat(sep=' ')}"] if sent is not None else []),
            f"Subject: {message.subject}",
        ]
        body, doubt = message.body or "", ""
        if not body.strip() and message.html_body:
            body = html_text(need("markitdown.converters"), message.html_body)
        elif message.properties.int_prop_value(_CODE_PAGE) is None and any(
            one.ptyp == _STRING8 for one in message.properties
        ):  # the library reads bytes without a code page as Latin-9, in which each byte is a character
            found = decoded(body.encode("iso8859-15"), "", job.encoding)
            body, doubt = found.text, encoding_of(found, doubtful=True)
            lines = [decoded(line.encode("iso8859-15", "replace"), found.encoding).text for line in lines]
        files = [
            (attachment.file_name or f"attachment {number}", attachment.file_bytes or b"")
            for number, attachment in enumerate(message.attachments, 1)
        ]
    text = "\n".join(map(one_line, lines)) + "\n\n" + body.strip() + "\n"
    parts.add("message", text_document(job, text, MSG, doubt=doubt))
    if not job.check:
        _attachments(job, parts, files, depth, convert)
    return parts.document()
