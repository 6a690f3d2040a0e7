"""Files to documents, by their bytes: plain text and CSV are read here, everything else by `_worker.py`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from agentorchestra.core.errors import FileInputError
from agentorchestra.tools.files.documents import Document, TableDocument, TextDocument, document_from_json, is_media
from agentorchestra.tools.files.formats import text as plain
from agentorchestra.tools.files.formats.base import Refused
from agentorchestra.tools.files.formats.sniff import TABLE_SUFFIXES, foreign, sniff
from agentorchestra.tools.files.worker import LIMITS, ReadLimits, Request, refusal, run, run_async

# Not .xls and .doc: tables and pages of the web are often named so on purpose, for Excel and Word to open
_NEVER_TEXT = {".pdf", ".docx", ".pptx", ".ppsx", ".xlsx", ".xlsm", ".xlsb", ".odt", ".ods", ".odp", ".epub"}
_READ_HERE = {"text/plain", "text/markdown", *TABLE_SUFFIXES.values()}


class Checked(NamedTuple):
    """The type and the size of a file."""

    media_type: str
    size: int
    textless: bool = False  # a PDF whose pages are all pictures, which can only be looked at


def look_into(path: Path, limits: ReadLimits = LIMITS) -> Checked:
    """Return the type of a file, before a run starts: text is decoded, the worker looks into all else. Blocks."""
    data = _bytes(path, limits)
    media_type = _media_type(path, data)
    if is_media(media_type):
        return Checked(media_type, len(data))
    if media_type in _READ_HERE:
        _decoded(path, data, limits)
        return Checked(media_type, len(data))
    size = len(data)
    del data
    result, _ = run(Request(path, "check"), limits)
    document = result["document"]
    return Checked(str(document["media_type"]), size, bool(document["textless"]))


def check_input(path: Path, limits: ReadLimits = LIMITS) -> tuple[str, int]:
    """Return the media type and the size of a file in bytes, before a run starts; see `look_into`."""
    facts = look_into(path, limits)
    return facts.media_type, facts.size


async def read_document(path: Path, limits: ReadLimits = LIMITS, encoding: str = "") -> Document:
    """Read a file; the caller's loop is not held up and a cancelled reader leaves no process behind.

    `encoding` is that of its text, where whoever reads it knows better than what was made of its bytes.

    Raises:
        FileInputError: one sentence that names the file, what is wrong and the way out.
    """
    document = await asyncio.to_thread(_read_here, path, limits, encoding)
    if document is not None:
        return document
    result, _ = await run_async(Request(path, "read", encoding=encoding), limits)
    return await asyncio.to_thread(document_from_json, result["document"])


def read_document_sync(path: Path, limits: ReadLimits = LIMITS) -> Document:
    """Do as `read_document`, for code without an event loop."""
    document = _read_here(path, limits)
    return document or document_from_json(run(Request(path, "read"), limits)[0]["document"])


def _read_here(path: Path, limits: ReadLimits, encoding: str = "") -> Document | None:
    """Return a file of plain text or a table, None for one that the worker reads."""
    data = _bytes(path, limits)
    media_type = _media_type(path, data)
    if is_media(media_type):
        kind = {"i": "a picture", "a": "a recording", "v": "a video"}[media_type[0]]
        raise FileInputError(f"{path} is {kind} ({media_type}): it holds no text that could be searched or quoted")
    if media_type not in _READ_HERE:
        return None
    reading = _decoded(path, data, limits, encoding)
    text = plain.with_newlines(reading.text)
    if media_type in TABLE_SUFFIXES.values():
        table = parse_table(text, "\t" if media_type == TABLE_SUFFIXES[".tsv"] else None, media_type)
        if table is not None:
            return replace(table, form=plain.encoding_of(reading))
        media_type = "text/plain"
    return TextDocument(text, media_type, form=plain.form_of(reading))


async def describe_media(path: Path, member: Sequence[str] = (), limits: ReadLimits = LIMITS) -> str:
    """Return the size, metadata and length of a picture or a recording, or of a member that is one, in words."""
    result, _ = await run_async(Request(path, "media", member), limits)
    return str(result["text"])


async def member_bytes(path: Path, member: Sequence[str], limits: ReadLimits = LIMITS) -> bytes:
    """Return the bytes of a member of an archive or an attachment of a mail, by the parts that lead to it."""
    _, data = await run_async(Request(path, "member", member), limits)
    return data


class Unpacked(NamedTuple):
    """A file or folder of an archive; its name is as the archive has it, which may be anything."""

    name: str
    data: bytes
    folder: bool = False
    executable: bool = False


async def archive_members(path: Path, limits: ReadLimits = LIMITS) -> tuple[list[Unpacked], list[str]]:
    """Return all that an archive holds, one level deep, and what was left out: links, devices, paths that lead out."""
    bounds = replace(limits, unpacked_bytes=min(limits.unpacked_bytes, limits.output_bytes // 2))
    result, data = await run_async(Request(path, "unpack"), bounds)
    members, at = [], 0
    for member in result["members"]:
        members.append(Unpacked(member["name"], data[at : at + member["size"]], member["folder"], member["executable"]))
        at += member["size"]
    return members, list(result["notes"])


async def video_frames(
    path: Path, member: Sequence[str] = (), *, at: Sequence[float] = (), count: int = 0, limits: ReadLimits = LIMITS
) -> list[dict[str, str]]:
    """Return frames of a video at some seconds, or evenly: {"at": "01:30", "media_type": ..., "data": base64} each."""
    result, _ = await run_async(Request(path, "frames", member, at, count), limits)
    return list(result["frames"])


def _bytes(path: Path, limits: ReadLimits) -> bytes:
    data = _data(path, limits)
    if not data or not data.strip(b" \t\r\n\x0b\x0c\xef\xbb\xbf\xff\xfe\x00"):
        raise FileInputError(f"{path} is empty; give a file with content.")
    return data


def _data(path: Path, limits: ReadLimits) -> bytes:
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
        return path.read_bytes()
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


def _media_type(path: Path, data: bytes) -> str:
    media_type = sniff(data, path.name)
    if (suffix := path.suffix.lower()) in _NEVER_TEXT and media_type in {*_READ_HERE, "text/html"}:
        # Most often the page of a server that did not find the file.
        problem = f"it is named {suffix} but holds no {suffix[1:].upper()}"
        raise FileInputError(f"{path} is corrupt: {problem}; give the original, or rename it if it is text.")
    if media_type in _READ_HERE and (other := foreign(data)) is not None:
        raise refusal(path, "foreign", "|".join(other), LIMITS)
    return media_type


def _decoded(path: Path, data: bytes, limits: ReadLimits, encoding: str = "") -> plain.Decoded:
    try:
        return plain.decoded(data, encoding=encoding)
    except Refused as error:
        raise refusal(path, error.code, error.detail, limits) from None


def source_sync(path: Path, limits: ReadLimits = LIMITS, encoding: str = "") -> TextDocument:
    """Return the characters of a file as they stand in it, whatever they could be converted to."""
    data = _data(path, limits)
    reading = _decoded(path, data, limits, encoding)
    return TextDocument(plain.with_newlines(reading.text), form=plain.form_of(reading))


def parse_table(text: str, delimiter: str | None = None, media_type: str = "text/csv") -> TableDocument | None:
    """Return a table from text, None when it cannot be read as one (it is then read as lines)."""
    table = plain.table_of(text, delimiter)
    if table is None:
        return None
    header, rows, delimiter = table
    return TableDocument(header, rows, 2 if header else 1, delimiter, media_type)


class Stopped(Exception):
    """Raised inside a thread whose awaiting task is gone."""


def check_stop(stop: threading.Event | None) -> None:
    """Leave a thread whose result nobody awaits any more."""
    if stop is not None and stop.is_set():
        raise Stopped
