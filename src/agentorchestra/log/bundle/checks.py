"""The checks of a bundle before anything is written. Blocks; executes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from agentorchestra.core.errors import BundleError
from agentorchestra.core.spec import FileRef, RunManifest
from agentorchestra.log.bundle import format as form
from agentorchestra.log.bundle.format import Header, Sum
from agentorchestra.log.bundle.lines import TAIL, first_problem, from_line
from agentorchestra.log.bundle.log_checks import checked_log, lines_of, regular, unpacking

M = TypeVar("M", bound=BaseModel)

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")

_ZIP_ERRORS = (
    zipfile.BadZipFile,
    NotImplementedError,  # a version or a method that nobody writes
    RuntimeError,  # encrypted
    EOFError,
    OverflowError,
    ValueError,  # names that are no text, places before the beginning
    struct.error,
    zlib.error,
)
"""Errors of zipfile for archives that are none."""


class Bundle:
    """An open bundle in which everything fits together. Made by `open_bundle`."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, size: int, room: int) -> None:
        self._archive = archive
        self._path = path
        self._members = {info.filename: info for info in archive.infolist()}
        if len(self._members) != len(archive.infolist()):
            raise BundleError(f"{path} holds a member twice; it was changed, {TAIL}")
        self.header = self._read_header()
        self._check_members(size, room)
        self._sums = self._read_sums()
        for name in sorted(self._sums):
            self._check_sum(name)
        manifest = self._model(form.MANIFEST, RunManifest)
        with archive.open(form.EVENTS) as lines:
            self.log = checked_log(
                [from_line(line, f"event {number} of {path}") for number, line in lines_of(lines, path)],
                self.header.run,
                status=self.header.status,
                manifest=manifest,
                place=str(path),
            )
        if len(self.log.events) != self.header.events:
            raise BundleError(f"{path} says it has {self.header.events} events and has {len(self.log.events)}, {TAIL}")
        self._check_parts(manifest)

    @property
    def blobs(self) -> list[tuple[str, int, str]]:
        """Hash, size in bytes and media type of every blob."""
        types = self.header.media_types
        names = [name for name in sorted(self._sums) if name.startswith(form.BLOBS)]
        hashes = [name.removeprefix(form.BLOBS) for name in names]
        return [
            (sha256, self._sums[name].size, types.get(sha256, "application/octet-stream"))
            for name, sha256 in zip(names, hashes, strict=True)
        ]

    def blob(self, sha256: str) -> bytes:
        return self._read(form.BLOBS + sha256, self._sums[form.BLOBS + sha256].size)

    def file(self, ref: FileRef) -> AbstractContextManager[IO[bytes]]:
        return self._archive.open(form.FILES + ref.sha256)

    def _read_header(self) -> Header:
        path = self._path
        if form.HEADER not in self._members:
            raise BundleError(f"{path} is a ZIP file without {form.HEADER}; it is no bundle, {TAIL}")
        fields = self._json(form.HEADER)
        if not isinstance(fields, dict) or fields.get("kind") != form.KIND:
            raise BundleError(f"{path} is no bundle: its {form.HEADER} is not one's, {TAIL}")
        version = fields.get("format")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise BundleError(f"{path} has the format {version!r}, which there never was; {TAIL}")
        if version > form.FORMAT:
            raise BundleError(
                f"{path} has the format {version}, made by a later version of agentorchestra "
                f"({str(fields.get('distribution'))[:40]}); this one reads up to {form.FORMAT}: upgrade, {TAIL}"
            )
        header = self._model(form.HEADER, Header)
        if not form.RUN_ID.fullmatch(header.run):
            raise BundleError(f"{path} holds a run named {header.run[:60]!r}, which is no run's id; {TAIL}")
        return header

    def _check_members(self, size: int, room: int) -> None:
        path, members = self._path, self._members.values()
        if len(members) > form.MAX_MEMBERS:
            raise BundleError(f"{path} has more than {form.MAX_MEMBERS:,} members; it is no bundle, {TAIL}")
        for info in members:
            if info.filename not in form.SINGLE and not form.MEMBER.fullmatch(info.filename):
                raise BundleError(f"{path} holds {info.filename[:100]!r}, which no bundle has; {TAIL}")
            if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise BundleError(f"{path}: {info.filename} is packed in a way no bundle is; {TAIL}")
            if info.file_size > form.RATIO_FROM and info.file_size > form.MAX_RATIO * max(info.compress_size, 1):
                raise BundleError(
                    f"{path}: {info.filename} would unpack from {info.compress_size:,} to {info.file_size:,} bytes; "
                    f"that is a bomb, {TAIL}"
                )
            most = form.MAX_LOG_BYTES if info.filename == form.EVENTS else form.MAX_JSON_BYTES
            if info.filename in form.SINGLE and info.file_size > most:
                raise BundleError(f"{path}: {info.filename} has {info.file_size:,} bytes, too many; {TAIL}")
        if sum(info.compress_size for info in members) > size:
            raise BundleError(f"{path} holds members that lie over each other; it is no bundle, {TAIL}")
        total = sum(info.file_size for info in members)
        if total > form.MAX_BYTES:
            raise BundleError(f"{path} would unpack to {total:,} bytes; at most {form.MAX_BYTES:,} are taken, {TAIL}")
        if total > room:
            raise BundleError(f"{path} unpacks to {total:,} bytes and {room:,} are free; make room, {TAIL}")

    def _read_sums(self) -> dict[str, Sum]:
        path, members = self._path, self._members
        for name in form.SINGLE:
            if name not in members:
                raise BundleError(f"{path} lacks {name}; get the bundle again, {TAIL}")
        content = self._json(form.SUMS)
        try:
            sums = TypeAdapter(dict[str, Sum]).validate_python(content)
        except ValidationError as exc:
            raise BundleError(f"{path}: {form.SUMS} cannot be read ({first_problem(exc)}); {TAIL}") from None
        names = set(members) - {form.SUMS}
        missing, more = sorted(set(sums) - names), sorted(names - set(sums))
        if missing:
            raise BundleError(f"{path} lacks {missing[0]}, which its sums name; get the bundle again, {TAIL}")
        if more:
            raise BundleError(f"{path} holds {more[0]}, which its sums do not name; it was changed, {TAIL}")
        return sums

    def _check_sum(self, name: str) -> None:
        path, entry = self._path, self._sums[name]
        digest, size = hashlib.sha256(), 0
        with unpacking(name, path), self._archive.open(name) as member:
            while chunk := member.read(form.CHUNK):
                digest.update(chunk)
                size += len(chunk)
        sha256 = digest.hexdigest()
        if (sha256, size) != (entry.sha256, entry.size):
            raise BundleError(f"{path}: {name} is not what its sum says; it was damaged or changed, {TAIL}")
        own = name.rpartition("/")[2] if form.MEMBER.fullmatch(name) else sha256
        if own != sha256:
            raise BundleError(f"{path}: {name} holds bytes with another hash ({sha256[:12]}); it was changed, {TAIL}")

    def _check_parts(self, manifest: RunManifest) -> None:
        header, sums, path = self.header, self._sums, self._path
        pins = {**manifest.tools, **manifest.agents, **manifest.prompts}
        for name, pin in pins.items():
            if pin.source and form.BLOBS + pin.source not in sums:
                raise BundleError(
                    f"{path} lacks the text of {name!r} (blob {pin.source[:12]}); export it again, {TAIL}"
                )
        if manifest.schemas and form.BLOBS + manifest.schemas not in sums:
            raise BundleError(f"{path} lacks the schemas of its tools ({manifest.schemas[:12]}); get it again, {TAIL}")
        for sha256 in header.media_types:
            if form.BLOBS + sha256 not in sums:
                raise BundleError(f"{path} lacks the blob {sha256[:12]}, which it lists; get it again, {TAIL}")
        form.check_names(manifest.files)
        refs = {ref.sha256: ref for ref in manifest.files}
        hashes = {name.removeprefix(form.FILES) for name in sums if name.startswith(form.FILES)}
        for sha256, ref in refs.items():
            if header.files and (sha256 not in hashes or sums[form.FILES + sha256].size != ref.size):
                raise BundleError(f"{path} lacks the file {ref.name[:100]!r} of the task; get it again, {TAIL}")
        for sha256 in sorted(hashes - set(refs)):
            raise BundleError(f"{path} holds a file {sha256[:12]} that its task was not given; it was changed, {TAIL}")

    def _read(self, name: str, most: int) -> bytes:
        with self._archive.open(name) as member:
            return member.read(most)

    def _json(self, name: str) -> Any:
        path = self._path
        info = self._members[name]
        if info.file_size > form.MAX_JSON_BYTES:
            raise BundleError(f"{path}: {name} has {info.file_size:,} bytes, too many; {TAIL}")
        with unpacking(name, path):
            data = self._read(name, form.MAX_JSON_BYTES)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise BundleError(f"{path}: {name} is not JSON ({first_problem(exc)}); {TAIL}") from None

    def _model(self, name: str, model: type[M]) -> M:
        path = self._path
        try:
            return model.model_validate(self._json(name))
        except (ValidationError, RecursionError) as exc:
            raise BundleError(f"{path}: {name} does not fit ({first_problem(exc)}); {TAIL}") from None


@contextmanager
def open_bundle(path: Path, room: int) -> Iterator[Bundle]:
    """Open a bundle, once everything in it was checked; BundleError, in a sentence, where it does not fit.

    `room` is how many bytes may be unpacked (what is free on the disk).
    """
    with regular(path) as file:
        _check_directory(file, path)
        with ExitStack() as stack:
            try:
                archive = stack.enter_context(zipfile.ZipFile(file))
                bundle = Bundle(archive, path, os.fstat(file.fileno()).st_size, room)
            except _ZIP_ERRORS as exc:
                raise BundleError(f"{path} is damaged ({exc}); get the bundle again, {TAIL}") from None
            yield bundle


def _check_directory(file: IO[bytes], path: Path) -> None:
    """Refuse a list of members that would fill the memory before a single one can be looked at."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 66_000))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise BundleError(f"{path} is no bundle, or its end is missing; get it again, {TAIL}")
    length = _END.unpack_from(tail, at)[5]
    at = tail.rfind(b"PK\x06\x06")
    if at >= 0 and len(tail) - at >= _END_64.size:
        large = _END_64.unpack_from(tail, at)[8]
        length = large if length == 0xFFFFFFFF else max(length, large)
    if length > form.MAX_MEMBERS * 400:
        raise BundleError(f"{path} lists more than {form.MAX_MEMBERS:,} members; it is no bundle, {TAIL}")
