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
from typing import IO, Any

from .base import MOST_DEPTH, Job, Parts, Refused, one_line, reason_of
from .sniff import sniff

_CHUNK = 1 << 20
_RATIO = 500
_RATIO_FROM = 20_000_000  # bytes: small members may be packed as tightly as they like
_DRIVE = re.compile(r"^[A-Za-z]:")
_BROKEN = (
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

Inner = Callable[[Job, bytes, str, int], dict[str, Any]]  # converts a member: job, bytes, name, depth


def open_zip(data: bytes) -> zipfile.ZipFile:
    """Raises: Refused: if the archive is broken."""
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except _BROKEN as error:
        raise Refused("archive", one_line(str(error))) from None


def read_member(job: Job, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member's bytes, counted while they are unpacked: what the archive says of their number may be wrong.

    Raises:
        Refused: when a bound is met, or the member is broken or encrypted.
    """
    if info.flag_bits & 1:
        raise Refused("encrypted_member", one_line(info.filename))
    if info.file_size > _RATIO_FROM and info.file_size > _RATIO * max(info.compress_size, 1):
        raise Refused("ratio", one_line(info.filename))
    try:
        with archive.open(info) as file:
            return _bounded(job, file)
    except _BROKEN as error:
        raise Refused("member", f"{one_line(info.filename)}: {one_line(str(error)) or type(error).__name__}") from None


def _bounded(job: Job, file: IO[bytes]) -> bytes:
    kept = io.BytesIO()
    while chunk := file.read(_CHUNK):
        job.spend_unpacked(len(chunk))
        if kept.tell() + len(chunk) > job.numbers["bytes"]:
            raise Refused("unpacked")
        kept.write(chunk)
    return kept.getvalue()


def check_zip(job: Job, archive: zipfile.ZipFile) -> None:
    """Raises: Refused: if what the archive says of its members is too much; what it does not say is met on reading."""
    infos = archive.infolist()
    if len(infos) > job.numbers["members"]:
        raise Refused("members")
    if sum(info.file_size for info in infos) > job.numbers["unpacked_bytes"]:
        raise Refused("unpacked")
    if infos and all(info.flag_bits & 1 for info in infos if not info.is_dir()):
        raise Refused("encrypted_archive")


def convert_zip(job: Job, data: bytes, archive: zipfile.ZipFile, depth: int, inner: Inner) -> dict[str, Any]:
    """The members as parts."""
    with archive:
        check_zip(job, archive)
        if job.check:
            return Parts("application/zip").document()

        def members() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
            for info in archive.infolist():
                if info.is_dir():
                    continue
                mode = info.external_attr >> 16
                kind = "a link" if stat.S_ISLNK(mode) else "a device" if _is_special(mode) else ""
                yield info.filename, kind, lambda info=info: read_member(job, archive, info)  # type: ignore[misc]

        return _parts(job, "application/zip", members(), depth, inner)


def _is_special(mode: int) -> bool:
    return any(test(mode) for test in (stat.S_ISCHR, stat.S_ISBLK, stat.S_ISFIFO, stat.S_ISSOCK))


def convert_tar(job: Job, data: bytes, media_type: str, depth: int, inner: Inner) -> dict[str, Any]:
    """The members as parts; `data` is unpacked already."""
    try:
        archive = tarfile.open(fileobj=io.BytesIO(data), mode="r:")  # noqa: SIM115 - closed below
    except _BROKEN as error:
        raise Refused("archive", one_line(str(error))) from None
    with archive:

        def members() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
            for info in archive:
                if info.isdir():
                    continue
                kind = "a link" if info.issym() or info.islnk() else "" if info.isreg() else "a device"

                def read(info: tarfile.TarInfo = info) -> bytes:
                    file = archive.extractfile(info)
                    if file is None:
                        raise Refused("member", one_line(info.name))
                    with file:
                        data = _bounded(job, file)
                    if len(data) != info.size:
                        raise Refused("archive", "it is cut off")
                    return data

                yield info.name, kind, read

        try:
            return _parts(job, media_type, members(), depth, inner)
        except _BROKEN as error:
            raise Refused("archive", one_line(str(error))) from None


def _parts(
    job: Job,
    media_type: str,
    members: Iterator[tuple[str, str, Callable[[], bytes]]],
    depth: int,
    inner: Inner,
) -> dict[str, Any]:
    parts = Parts(media_type)
    if depth >= MOST_DEPTH:
        raise Refused("depth")
    for name, kind, read in members:
        job.spend_member()
        shown = one_line(name)
        reason = kind or ("a path out of the archive" if _leaves(name) else "")
        if reason:
            _note(parts, f"{shown} is {reason}: skipped")
            continue
        if job.check:
            continue
        if _is_clutter(name):
            continue
        data = b""
        try:
            data = read()
            parts.add(shown, inner(job, data, name, depth + 1), len(data))
        except Refused as error:
            own = error.code == "archive" and not data  # not that of an archive inside
            if own or error.code in ("unpacked", "members", "ratio", "chars", "extra"):
                raise
            _note(parts, f"{shown} is not read: {reason_of(error)}")
    if not len(parts) and not job.check:
        raise Refused("archive_empty", "; ".join(parts.notes[:3]))
    return parts.document()


_MOST_NOTES = 50


def _note(parts: Parts, text: str) -> None:
    if len(parts.notes) < _MOST_NOTES:
        parts.notes.append(text)
    elif len(parts.notes) == _MOST_NOTES:
        parts.notes.append("more members were skipped")


def _leaves(name: str) -> bool:
    path = name.replace("\\", "/")
    return path.startswith("/") or _DRIVE.match(path) is not None or ".." in path.split("/")


def _is_clutter(name: str) -> bool:
    """What file managers add."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2] in (".DS_Store", "Thumbs.db")


def unpack(job: Job, data: bytes, media_type: str) -> bytes:
    """What a compressed file holds.

    Raises:
        Refused: when it is too much or broken.
    """
    try:
        with UNPACKERS[media_type](io.BytesIO(data)) as file:
            return _bounded(job, file)
    except _BROKEN as error:
        raise Refused("archive", one_line(str(error)) or "it is cut off") from None


def convert_packed(job: Job, data: bytes, name: str, media_type: str, depth: int, inner: Inner) -> dict[str, Any]:
    """A compressed tar as its members, another compressed file as what it holds."""
    if depth >= MOST_DEPTH:
        raise Refused("depth")
    unpacked = unpack(job, data, media_type)
    stem = unpacked_name(name)
    if sniff(unpacked, stem) == "application/x-tar":
        return convert_tar(job, unpacked, media_type, depth, inner)
    return inner(job, unpacked, stem, depth + 1) | {"media_type": media_type}


def unpacked_name(name: str) -> str:
    """`data.csv` for `data.csv.gz`."""
    for suffix in _PACKED_SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def unpack_all(job: Job, data: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    """Every file of an archive, one level deep: their names and sizes, what was left out, and their bytes in order.

    Raises:
        Refused: for what is no archive, is broken or encrypted as a whole, or unpacks to more than may be.
    """
    media_type = sniff(data, name)
    if media_type in UNPACKERS:
        data = unpack(job, data, media_type)
        stem = unpacked_name(name)
        name = stem if stem != name else f"{name}.unpacked"
        if sniff(data, name) != "application/x-tar":
            member = {"name": name.rpartition("/")[2], "size": len(data), "folder": False, "executable": False}
            return {"members": [member], "notes": []}, data
        media_type = "application/x-tar"
    if media_type == "application/x-tar":
        return _unpacked(job, _tar_members(data))
    try:
        archive = open_zip(data)
    except Refused:
        raise Refused("no_archive") from None
    with archive:  # office documents are zip archives too
        check_zip(job, archive)
        return _unpacked(job, _zip_members(job, archive))


Member = tuple[str, str, bool, bool, Callable[[Job], bytes]]
"""Name, why it is left out ("" if it is not), whether it is a folder, whether it may be executed, its bytes."""


def _zip_members(job: Job, archive: zipfile.ZipFile) -> Iterator[Member]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        kind = "a link" if stat.S_ISLNK(mode) else "a device" if _is_special(mode) else ""
        read = lambda job, info=info: read_member(job, archive, info)  # noqa: E731
        yield info.filename, kind, info.is_dir(), bool(mode & 0o100), read


def _tar_members(data: bytes) -> Iterator[Member]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for info in archive:
                kind = "a link" if info.issym() or info.islnk() else ""
                kind = kind or ("" if info.isreg() or info.isdir() else "a device")

                def read(job: Job, info: tarfile.TarInfo = info) -> bytes:
                    file = archive.extractfile(info)
                    assert file is not None
                    with file:
                        found = _bounded(job, file)
                    if len(found) != info.size:
                        raise Refused("archive", "it is cut off")
                    return found

                yield info.name, kind, info.isdir(), bool(info.mode & 0o100), read
    except _BROKEN as error:
        raise Refused("archive", one_line(str(error))) from None


def _unpacked(job: Job, members: Iterator[Member]) -> tuple[dict[str, Any], bytes]:
    listed: list[dict[str, Any]] = []
    notes: list[str] = []
    held = io.BytesIO()
    for name, kind, folder, executable, read in members:
        job.spend_member()
        reason = kind or ("a path out of the archive" if _leaves(name) else "")
        if reason:
            if len(notes) < _MOST_NOTES:
                notes.append(f"{one_line(name)} is {reason} and was left out")
            continue
        data = b""
        if not folder:
            try:
                data = read(job)
            except Refused as error:
                if error.code in ("unpacked", "members", "ratio", "archive"):
                    raise
                if len(notes) < _MOST_NOTES:
                    notes.append(f"{one_line(name)} was left out: {reason_of(error)}")
                continue
        held.write(data)
        listed.append({"name": name, "size": len(data), "folder": folder, "executable": executable})
    if not listed:
        raise Refused("archive_empty", "; ".join(notes[:3]))
    return {"members": listed, "notes": notes}, held.getvalue()


def member_of(job: Job, data: bytes, name: str, path: list[str]) -> bytes:
    """The bytes of a member, by the names of the parts that lead to it.

    Raises:
        Refused: if there is none.
    """
    media_type = sniff(data, name)
    if media_type in UNPACKERS:
        data = unpack(job, data, media_type)
        name = unpacked_name(name)
        media_type = sniff(data, name)
    if not path:
        return data
    if media_type == "message/rfc822":
        from .mail import attachment_of

        return member_of(job, attachment_of(data, path[0]), path[0], path[1:])
    if media_type == "application/zip":
        with open_zip(data) as archive:
            for info in archive.infolist():
                if one_line(info.filename).strip() == path[0] and not info.is_dir():
                    return member_of(job, read_member(job, archive, info), info.filename, path[1:])
    elif media_type == "application/x-tar":
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for member in tar:
                if one_line(member.name).strip() == path[0] and member.isreg():
                    file = tar.extractfile(member)
                    assert file is not None
                    with file:
                        return member_of(job, _bounded(job, file), member.name, path[1:])
    raise Refused("no_member", path[0])
