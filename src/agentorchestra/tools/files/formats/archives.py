"""zip, tar and compressed files: members are read in memory, one at a time, and never written anywhere."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from .base import MOST_DEPTH, Convert, PartList, ReadJob, Refused, one_line, reason_of
from .sniff import sniff

_RATIO_FROM = 20_000_000  # bytes: small members may be packed as tightly as they like
_MOST_NOTES = 50
_DRIVE = re.compile(r"^[A-Za-z]:")
_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    lzma.LZMAError,
    tarfile.TarError,
    ValueError,
    NotImplementedError,
)
UNPACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    "application/gzip": lambda file: gzip.GzipFile(fileobj=file),
    "application/x-bzip2": lambda file: bz2.BZ2File(file),
    "application/x-xz": lambda file: lzma.LZMAFile(file),  # noqa: SIM115
}
_PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".tgz", ".tbz2", ".txz")


class Member(NamedTuple):
    """A member of an archive."""

    name: str
    refusal: str  # why it is never read ("a link"), "" for a file or a folder
    folder: bool
    executable: bool
    read: Callable[[], bytes]  # gives its bytes, within the bounds of the job


def open_zip(data: bytes) -> zipfile.ZipFile:
    """Raises: Refused: if the archive is broken."""
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except _ERRORS as error:
        raise Refused("archive", one_line(str(error))) from None


def read_member(job: ReadJob, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return a member's bytes, counted while they are unpacked: what the archive says of their number may be wrong."""
    if info.flag_bits & 1:
        raise Refused("encrypted_member", one_line(info.filename))
    if info.file_size > _RATIO_FROM and info.file_size > 500 * max(info.compress_size, 1):
        raise Refused("ratio", one_line(info.filename))
    try:
        with archive.open(info) as file:
            return _contents(job, file)
    except _ERRORS as error:
        raise Refused("member", f"{one_line(info.filename)}: {one_line(str(error)) or type(error).__name__}") from None


def _contents(job: ReadJob, file: IO[bytes]) -> bytes:
    buffer = io.BytesIO()
    while chunk := file.read(1 << 20):
        job.spend("unpacked_bytes", len(chunk))
        if buffer.tell() + len(chunk) > job.numbers["max_bytes"]:
            raise Refused("unpacked")
        buffer.write(chunk)
    return buffer.getvalue()


def check_zip(job: ReadJob, archive: zipfile.ZipFile) -> None:
    """Raises: Refused: if what the archive says of its members is too much; what it does not say is met on reading."""
    infos = archive.infolist()
    if len(infos) > job.numbers["members"]:
        raise Refused("members")
    if sum(info.file_size for info in infos) > job.numbers["unpacked_bytes"]:
        raise Refused("unpacked")
    if infos and all(info.flag_bits & 1 for info in infos if not info.is_dir()):
        raise Refused("encrypted_archive")


def _zip_members(job: ReadJob, archive: zipfile.ZipFile) -> Iterator[Member]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        special = any(test(mode) for test in (stat.S_ISCHR, stat.S_ISBLK, stat.S_ISFIFO, stat.S_ISSOCK))
        refusal = "a link" if stat.S_ISLNK(mode) else "a device" if special else ""
        read = lambda info=info: read_member(job, archive, info)  # noqa: E731
        yield Member(info.filename, refusal, info.is_dir(), bool(mode & 0o100), read)


def _tar_members(job: ReadJob, data: bytes) -> Iterator[Member]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for info in archive:
                usual = info.isreg() or info.isdir()
                refusal = "a link" if info.issym() or info.islnk() else "" if usual else "a device"
                read = lambda info=info: _read_tar(job, archive, info)  # noqa: E731
                yield Member(info.name, refusal, info.isdir(), bool(info.mode & 0o100), read)
    except _ERRORS as error:
        raise Refused("archive", one_line(str(error))) from None


def _read_tar(job: ReadJob, archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    try:
        file = archive.extractfile(info)
        assert file is not None  # it is a regular file
        with file:
            data = _contents(job, file)
    except _ERRORS as error:
        raise Refused("archive", one_line(str(error))) from None
    if len(data) != info.size:
        raise Refused("archive", "it is cut off")
    return data


def convert_zip(job: ReadJob, archive: zipfile.ZipFile, depth: int, convert: Convert) -> dict[str, Any]:
    with archive:
        check_zip(job, archive)
        if job.check:
            return PartList("application/zip").document()
        return _parts(job, "application/zip", _zip_members(job, archive), depth, convert)


def convert_tar(job: ReadJob, data: bytes, media_type: str, depth: int, convert: Convert) -> dict[str, Any]:
    """Return the members as parts; `data` is unpacked already."""
    return _parts(job, media_type, _tar_members(job, data), depth, convert)


def _parts(job: ReadJob, media_type: str, members: Iterator[Member], depth: int, convert: Convert) -> dict[str, Any]:
    parts = PartList(media_type)
    if depth >= MOST_DEPTH:
        raise Refused("depth")
    for member in members:
        if member.folder:
            continue
        job.spend("members")
        name = one_line(member.name)
        if reason := _refusal(member):
            _note(parts, f"{name} is {reason}: skipped")
            continue
        of_file_managers = member.name.rpartition("/")[2] in (".DS_Store", "Thumbs.db")
        if job.check or of_file_managers or member.name.startswith("__MACOSX/"):
            continue
        data = b""
        try:
            data = member.read()
            parts.add(name, convert(job, data, member.name, depth + 1), len(data))
        except Refused as error:
            own = error.code == "archive" and not data  # not that of an archive inside
            if own or error.code in ("unpacked", "members", "ratio", "chars", "extra"):
                raise
            _note(parts, f"{name} is not read: {reason_of(error)}")
    if not len(parts) and not job.check:
        raise Refused("archive_empty", "; ".join(parts.notes[:3]))
    return parts.document()


def _note(parts: PartList, text: str) -> None:
    if len(parts.notes) < _MOST_NOTES:
        parts.notes.append(text)
    elif len(parts.notes) == _MOST_NOTES:
        parts.notes.append("more members were skipped")


def _refusal(member: Member) -> str:
    path = member.name.replace("\\", "/")
    leaves = path.startswith("/") or _DRIVE.match(path) is not None or ".." in path.split("/")
    return member.refusal or ("a path out of the archive" if leaves else "")


def unpack(job: ReadJob, data: bytes, media_type: str) -> bytes:
    """Return what a compressed file holds, within the bounds."""
    try:
        with UNPACKERS[media_type](io.BytesIO(data)) as file:
            return _contents(job, file)
    except _ERRORS as error:
        raise Refused("archive", one_line(str(error)) or "it is cut off") from None


def convert_packed(
    job: ReadJob, data: bytes, name: str, media_type: str, depth: int, convert: Convert
) -> dict[str, Any]:
    """Return a compressed tar as its members, another compressed file as what it holds."""
    if depth >= MOST_DEPTH:
        raise Refused("depth")
    content = unpack(job, data, media_type)
    stem = unpacked_name(name)
    if sniff(content, stem) == "application/x-tar":
        return convert_tar(job, content, media_type, depth, convert)
    return convert(job, content, stem, depth + 1) | {"media_type": media_type}


def unpacked_name(name: str) -> str:
    """Return `data.csv` for `data.csv.gz`."""
    return next((name[: -len(suffix)] for suffix in _PACKED_SUFFIXES if name.lower().endswith(suffix)), name)


def unpack_all(job: ReadJob, data: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    """Return the files of an archive, one level deep: names and sizes, what was left out, and their bytes in order."""
    media_type = sniff(data, name)
    if media_type in UNPACKERS:
        data = unpack(job, data, media_type)
        stem = unpacked_name(name)
        name = stem if stem != name else f"{name}.unpacked"
        media_type = sniff(data, name)
        if media_type != "application/x-tar":
            member = {"name": name.rpartition("/")[2], "size": len(data), "folder": False, "executable": False}
            return {"members": [member], "notes": []}, data
    if media_type == "application/x-tar":
        return _extract(job, _tar_members(job, data))
    try:
        archive = open_zip(data)
    except Refused:
        raise Refused("no_archive") from None
    with archive:  # office documents are zip archives too
        check_zip(job, archive)
        return _extract(job, _zip_members(job, archive))


def _extract(job: ReadJob, members: Iterator[Member]) -> tuple[dict[str, Any], bytes]:
    entries: list[dict[str, Any]] = []
    notes: list[str] = []
    buffer = io.BytesIO()
    for member in members:
        job.spend("members")
        note = f"{one_line(member.name)} is {reason} and was left out" if (reason := _refusal(member)) else ""
        data = b""
        try:
            data = b"" if note or member.folder else member.read()
        except Refused as error:
            if error.code in ("unpacked", "members", "ratio", "archive"):
                raise
            note = f"{one_line(member.name)} was left out: {reason_of(error)}"
        if not note:
            buffer.write(data)
            entry = {"name": member.name, "size": len(data)}
            entries.append(entry | {"folder": member.folder, "executable": member.executable})
        elif len(notes) < _MOST_NOTES:
            notes.append(note)
    if not entries:
        raise Refused("archive_empty", "; ".join(notes[:3]))
    return {"members": entries, "notes": notes}, buffer.getvalue()


def member_named(job: ReadJob, data: bytes, media_type: str, name: str) -> tuple[str, bytes]:
    """Return the full name and the bytes of a member, by the name of its part."""
    members: Iterator[Member] = iter(())
    if media_type == "application/zip":
        members = _zip_members(job, open_zip(data))
    elif media_type == "application/x-tar":
        members = _tar_members(job, data)
    for member in members:
        if not member.folder and not member.refusal and one_line(member.name).strip() == name:
            return member.name, member.read()
    raise Refused("no_member", name)
