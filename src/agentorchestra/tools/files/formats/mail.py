"""Mail: the message and its attachments, as files (.eml) and as Outlook writes them (.msg)."""

from __future__ import annotations

import email
import email.policy
import io
from email.message import EmailMessage
from typing import Any

from .base import MOST_DEPTH, Convert, Job, Parts, Refused, need, one_line, reason_of, refusing, text_document
from .markup import html_text
from .text import decode

EML = "message/rfc822"
MSG = "application/vnd.ms-outlook"

_HEADERS = ("From", "To", "Cc", "Date", "Subject", "Reply-To", "Message-ID")
MARK_OF_MSG = "__substg1.0_".encode("utf-16-le")


def convert_eml(job: Job, data: bytes, depth: int, convert: Convert) -> dict[str, Any]:
    """Return the message with its main headers, then each attachment as what it is."""
    message = _parsed(data)
    parts = Parts(EML)
    lines = [f"{name}: {one_line(str(message[name]), 2_000)}" for name in _HEADERS if message[name]]
    body = message.get_body(("plain", "html"))
    text = _body(body) if body is not None else ""
    parts.add("message", text_document(job, "\n".join(lines) + "\n\n" + text.strip() + "\n", EML))
    if not job.check:
        _attachments(job, parts, _files(message), depth, convert)
    return parts.document()


def _parsed(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=email.policy.default)


def _body(body: Any) -> str:
    try:
        text = str(body.get_content())
    except (LookupError, ValueError):  # an unknown or a wrong character set
        text = decode(body.get_payload(decode=True) or b"")
    return html_text(need("markitdown.converters"), text) if body.get_content_type() == "text/html" else text


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


def convert_msg(job: Job, data: bytes, depth: int, convert: Convert) -> dict[str, Any]:
    oxmsg = need("oxmsg")
    parts = Parts(MSG)
    with refusing("mail"):
        message = oxmsg.Message.load(io.BytesIO(data))
        headers = dict(message.message_headers)
        sent = message.sent_date
        lines = [
            f"From: {message.sender or headers.get('From', '')}",
            "To: " + ", ".join(f"{one.name} <{one.email_address}>" for one in message.recipients),
            *([f"Date: {sent.isoformat(sep=' ')}"] if sent is not None else []),
            f"Subject: {message.subject}",
        ]
        body = message.body or ""
        if not body.strip() and message.html_body:
            body = html_text(need("markitdown.converters"), message.html_body)
        files = [
            (one.file_name or f"attachment {number}", one.file_bytes or b"")
            for number, one in enumerate(message.attachments, 1)
        ]
    parts.add("message", text_document(job, "\n".join(map(one_line, lines)) + "\n\n" + body.strip() + "\n", MSG))
    if not job.check:
        _attachments(job, parts, files, depth, convert)
    return parts.document()
