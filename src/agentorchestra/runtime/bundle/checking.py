"""Everything that is checked of a bundle or a file of events before anything is written. Blocks; executes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from agentorchestra.core.errors import AgentOrchestraError, BundleError
from agentorchestra.core.events import Event
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import FINAL, FileRef, RunManifest, RunStatus
from agentorchestra.runtime.bundle import format as form
from agentorchestra.runtime.bundle.format import Header, Sum
from agentorchestra.runtime.bundle.lines import from_line
from agentorchestra.runtime.ledger import Ledger

M = TypeVar("M", bound=BaseModel)

_MISFITS = (AgentOrchestraError, LookupError, TypeError, ValueError, AttributeError, RecursionError, AssertionError)
"""What reading a log with parts of the wrong shape raises (pydantic's errors are ValueErrors)."""

_NOTHING = "nothing was imported"
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")


@dataclass
class Log:
    """A whole log, checked.

    Attributes:
        epoch: the last one it was driven under.
    """

    record: RunRecord
    events: list[Event]
    epoch: int


class Bundle:
    """An open bundle in which everything fits together. Made by `opened`.

    Attributes:
        header: what it says of itself.
        log: the run's row and events.
    """

    def __init__(self, archive: zipfile.ZipFile, header: Header, log: Log, sums: dict[str, Sum]) -> None:
        self._archive = archive
        self._sums = sums
        self.header = header
        self.log = log

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
        """The bytes of a blob."""
        return _read(self._archive, form.BLOBS + sha256, self._sums[form.BLOBS + sha256].size)

    def file(self, ref: FileRef) -> AbstractContextManager[IO[bytes]]:
        """The bytes of a file given with the task."""
        return self._archive.open(form.FILES + ref.sha256)


@contextmanager
def opened(path: Path, room: int) -> Iterator[Bundle]:
    """A bundle, once everything in it was checked.

    Args:
        path: the file.
        room: bytes that may be unpacked (what is free on the disk).

    Raises:
        BundleError: in a sentence.
    """
    with regular(path) as file:
        _check_directory(file, path)
        try:
            with zipfile.ZipFile(file) as archive:
                yield _checked(archive, path, os.fstat(file.fileno()).st_size, room)
        except zipfile.BadZipFile as exc:
            raise BundleError(f"{path} is damaged ({exc}); get the bundle again, {_NOTHING}") from None


@contextmanager
def regular(path: Path) -> Iterator[IO[bytes]]:
    """A file for reading; no pipe, device or folder.

    Raises:
        BundleError: if it cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        raise BundleError(f"{path} cannot be read: {exc.strerror}; name a bundle or a file of events") from None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BundleError(f"{path} is no file; name a bundle or a file of events")
        yield file


def is_bundle(file: IO[bytes]) -> bool:
    """Whether it begins like a bundle; else it is taken for a file of events."""
    head = file.read(4)
    file.seek(0)
    return head[:2] == b"PK"


# --- the archive ----------------------------------------------------------------------------------


def _check_directory(file: IO[bytes], path: Path) -> None:
    """Refuse a list of members that would fill the memory before a single one can be looked at."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 66_000))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise BundleError(f"{path} is no bundle, or its end is missing; get it again, {_NOTHING}")
    length = _END.unpack_from(tail, at)[5]
    at = tail.rfind(b"PK\x06\x06")
    if at >= 0 and len(tail) - at >= _END_64.size:
        large = _END_64.unpack_from(tail, at)[8]
        length = large if length == 0xFFFFFFFF else max(length, large)
    if length > form.MAX_MEMBERS * 400:
        raise BundleError(f"{path} lists more than {form.MAX_MEMBERS:,} members; it is no bundle, {_NOTHING}")


def _checked(archive: zipfile.ZipFile, path: Path, packed: int, room: int) -> Bundle:
    members = {one.filename: one for one in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise BundleError(f"{path} holds a member twice; it was changed, {_NOTHING}")
    header = _header(archive, members, path)
    _check_members(archive.infolist(), path, packed, room)
    sums = _sums(archive, members, path)
    for name, one in sorted(sums.items()):
        _check_sum(archive, name, one, path)
    manifest = _model(archive, form.MANIFEST, RunManifest, path)
    with archive.open(form.EVENTS) as lines:
        log = checked_log(
            [from_line(line, f"event {number} of {path}") for number, line in _lines(lines, path)],
            header.run,
            status=header.status,
            manifest=manifest,
            where=str(path),
        )
    if len(log.events) != header.events:
        raise BundleError(f"{path} says it has {header.events} events and has {len(log.events)}, {_NOTHING}")
    _check_parts(header, manifest, sums, path)
    return Bundle(archive, header, log, sums)


def _header(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: Path) -> Header:
    if form.HEADER not in members:
        raise BundleError(f"{path} is a ZIP file without {form.HEADER}; it is no bundle, {_NOTHING}")
    said = _json(archive, form.HEADER, path)
    if not isinstance(said, dict) or said.get("kind") != form.KIND:
        raise BundleError(f"{path} is no bundle: its {form.HEADER} is not one's, {_NOTHING}")
    version = said.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BundleError(f"{path} has the format {version!r}, which there never was; {_NOTHING}")
    if version > form.FORMAT:
        raise BundleError(
            f"{path} has the format {version}, made by a later version of agentorchestra "
            f"({str(said.get('distribution'))[:40]}); this one reads up to {form.FORMAT}: upgrade, {_NOTHING}"
        )
    header = _model(archive, form.HEADER, Header, path)
    if not form.RUN_ID.fullmatch(header.run):
        raise BundleError(f"{path} holds a run named {header.run[:60]!r}, which is no run's id; {_NOTHING}")
    return header


def _check_members(members: list[zipfile.ZipInfo], path: Path, packed: int, room: int) -> None:
    if len(members) > form.MAX_MEMBERS:
        raise BundleError(f"{path} has more than {form.MAX_MEMBERS:,} members; it is no bundle, {_NOTHING}")
    for one in members:
        if one.filename not in form.SINGLE and not form.MEMBER.fullmatch(one.filename):
            raise BundleError(f"{path} holds {one.filename[:100]!r}, which no bundle has; {_NOTHING}")
        if one.flag_bits & 1 or one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BundleError(f"{path}: {one.filename} is packed in a way no bundle is; {_NOTHING}")
        if one.file_size > form.RATIO_FROM and one.file_size > form.MAX_RATIO * max(one.compress_size, 1):
            raise BundleError(
                f"{path}: {one.filename} would unpack from {one.compress_size:,} to {one.file_size:,} bytes; that is a "
                f"bomb, {_NOTHING}"
            )
        if one.filename in form.SINGLE and one.filename != form.EVENTS and one.file_size > form.MAX_JSON_BYTES:
            raise BundleError(f"{path}: {one.filename} has {one.file_size:,} bytes, too many; {_NOTHING}")
    if sum(one.compress_size for one in members) > packed:
        raise BundleError(f"{path} holds members that lie over each other; it is no bundle, {_NOTHING}")
    total = sum(one.file_size for one in members)
    if total > form.MAX_BYTES:
        raise BundleError(f"{path} would unpack to {total:,} bytes; at most {form.MAX_BYTES:,} are taken, {_NOTHING}")
    if total > room:
        raise BundleError(f"{path} unpacks to {total:,} bytes and {room:,} are free; make room, {_NOTHING}")


def _sums(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: Path) -> dict[str, Sum]:
    for name in form.SINGLE:
        if name not in members:
            raise BundleError(f"{path} lacks {name}; get the bundle again, {_NOTHING}")
    said = _json(archive, form.SUMS, path)
    try:
        sums = TypeAdapter(dict[str, Sum]).validate_python(said)
    except ValidationError as exc:
        raise BundleError(f"{path}: {form.SUMS} cannot be read ({_first(exc)}); {_NOTHING}") from None
    there = set(members) - {form.SUMS}
    missing, more = sorted(set(sums) - there), sorted(there - set(sums))
    if missing:
        raise BundleError(f"{path} lacks {missing[0]}, which its sums name; get the bundle again, {_NOTHING}")
    if more:
        raise BundleError(f"{path} holds {more[0]}, which its sums do not name; it was changed, {_NOTHING}")
    return sums


def _check_sum(archive: zipfile.ZipFile, name: str, said: Sum, path: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with _unpacking(name, path), archive.open(name) as member:
        while chunk := member.read(form.CHUNK):
            digest.update(chunk)
            size += len(chunk)
    found = digest.hexdigest()
    if (found, size) != (said.sha256, said.size):
        raise BundleError(f"{path}: {name} is not what its sum says; it was damaged or changed, {_NOTHING}")
    own = name.rpartition("/")[2] if form.MEMBER.fullmatch(name) else found
    if own != found:
        raise BundleError(f"{path}: {name} holds bytes with another hash ({found[:12]}); it was changed, {_NOTHING}")


def _check_parts(header: Header, manifest: RunManifest, sums: dict[str, Sum], path: Path) -> None:
    """What the manifest names must be there, and nothing that it does not name."""
    pins = {**manifest.tools, **manifest.agents, **manifest.prompts}
    for name, pin in pins.items():
        if pin.source and form.BLOBS + pin.source not in sums:
            raise BundleError(
                f"{path} lacks the text of {name!r} (blob {pin.source[:12]}); export it again, {_NOTHING}"
            )
    if manifest.schemas and form.BLOBS + manifest.schemas not in sums:
        raise BundleError(f"{path} lacks the schemas of its tools ({manifest.schemas[:12]}); get it again, {_NOTHING}")
    for sha256 in header.media_types:
        if form.BLOBS + sha256 not in sums:
            raise BundleError(f"{path} lacks the blob {sha256[:12]}, which it lists; get it again, {_NOTHING}")
    refs = {ref.sha256: ref for ref in manifest.files}
    held = {name.removeprefix(form.FILES) for name in sums if name.startswith(form.FILES)}
    for sha256, ref in refs.items():
        if header.files and (sha256 not in held or sums[form.FILES + sha256].size != ref.size):
            raise BundleError(f"{path} lacks the file {ref.name[:100]!r} of the task; get it again, {_NOTHING}")
    for sha256 in sorted(held - set(refs)):
        raise BundleError(f"{path} holds a file {sha256[:12]} that its task was not given; it was changed, {_NOTHING}")


# --- the log --------------------------------------------------------------------------------------


def checked_log(
    events: list[Event],
    run: str,
    *,
    where: str,
    status: RunStatus | None = None,
    manifest: RunManifest | None = None,
) -> Log:
    """A log that a store takes and a replay can read.

    Args:
        events: in the order of the file.
        run: whose it is.
        where: for messages.
        status: what is said of the run; None to find it in the log.
        manifest: what is said beside the log; None: the log's own.

    Raises:
        BundleError: in a sentence.
    """
    keys: set[tuple[str, int, int, str]] = set()
    for seq, event in enumerate(events, 1):
        if event.run != run:
            raise BundleError(f"{where}: event {seq} is of the run {event.run[:60]!r}, not {run}; {_NOTHING}")
        if event.seq != seq:
            raise BundleError(f"{where}: event {event.seq} stands where event {seq} belongs; {_NOTHING}")
        assert event.n is not None
        key = (event.branch, event.n, event.attempt, event.type)
        if key in keys:
            raise BundleError(
                f"{where}: event {seq} records {event.type} of {event.branch}#{event.n} again; {_NOTHING}"
            )
        keys.add(key)
    if not events or events[0].type != "run_created":
        raise BundleError(f"{where}: the log of {run} does not begin with run_created; {_NOTHING}")
    own: RunManifest = events[0].data.manifest  # type: ignore[attr-defined]
    if manifest is not None and own != manifest:
        raise BundleError(f"{where}: the manifest is not the one that the log of {run} begins with; {_NOTHING}")
    if own.created.utcoffset() is None:
        raise BundleError(f"{where}: the manifest's time {own.created} has no zone; {_NOTHING}")
    found = _status(events)
    if status is None:
        status = found
    elif status != found and FINAL & {status, found}:
        raise BundleError(f"{where}: {run} is said to be {status.value} and is {found.value} in its log; {_NOTHING}")
    try:
        Ledger.of(events)
    except (
        AgentOrchestraError,
        ValidationError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as exc:
        raise BundleError(f"{where}: the log of {run} does not fit together ({_first(exc)}); {_NOTHING}") from None
    record = RunRecord(
        id=run,
        status=status,
        manifest=own,
        next_seq=len(events) + 1,
        created=own.created.astimezone(UTC),
        parent_run=own.parent_run,
        fork_seq=own.fork_seq,
    )
    epochs = (event.data.epoch for event in events if event.type == "driving_started")  # type: ignore[attr-defined]
    return Log(record, events, max(epochs, default=0))


def _status(events: Iterable[Event]) -> RunStatus:
    status = RunStatus.CREATED
    for event in events:
        if event.type == "driving_started":
            status = RunStatus.RUNNING
        elif event.type == "run_ended":
            status = RunStatus(event.data.status)  # type: ignore[attr-defined]
        elif event.type == "forked":
            status = RunStatus.CREATED
    return status


def logs_of_lines(path: Path) -> list[Log]:
    """The logs in a file of events, each whole and in order; those of several runs may stand in any order.

    Raises:
        BundleError: naming the line.
    """
    logs: dict[str, list[Event]] = {}
    with regular(path) as file:
        for number, line in _lines(file, path):
            where = f"line {number} of {path}"
            event = from_line(line, where)
            if not form.RUN_ID.fullmatch(event.run):
                raise BundleError(f"{where} is of a run named {event.run[:60]!r}, which is no run's id; {_NOTHING}")
            log = logs.setdefault(event.run, [])
            if event.seq != len(log) + 1:
                raise BundleError(
                    f"{where} is event {event.seq} of {event.run} where event {len(log) + 1} belongs: only whole logs "
                    f"are imported; {_NOTHING}"
                )
            log.append(event)
    if not logs:
        raise BundleError(f"{path} holds no events; {_NOTHING}")
    return [checked_log(events, run, where=str(path)) for run, events in logs.items()]


# --- reading --------------------------------------------------------------------------------------


def _lines(file: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    with _unpacking(form.EVENTS, path):
        while line := file.readline(form.MAX_JSON_BYTES + 1):
            number += 1
            if len(line) > form.MAX_JSON_BYTES:
                raise BundleError(f"line {number} of {path} is longer than {form.MAX_JSON_BYTES:,} bytes; {_NOTHING}")
            if line.strip():
                yield number, line


@contextmanager
def _unpacking(name: str, path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError) as exc:
        raise BundleError(f"{path}: {name} cannot be unpacked ({exc}); get it again, {_NOTHING}") from None


def _read(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as member:
        return member.read(most)


def _json(archive: zipfile.ZipFile, name: str, path: Path) -> Any:
    info = archive.getinfo(name)
    if info.file_size > form.MAX_JSON_BYTES:
        raise BundleError(f"{path}: {name} has {info.file_size:,} bytes, too many; {_NOTHING}")
    try:
        with _unpacking(name, path):
            return json.loads(_read(archive, name, form.MAX_JSON_BYTES))
    except (ValueError, RecursionError) as exc:
        raise BundleError(f"{path}: {name} is not JSON ({_first(exc)}); {_NOTHING}") from None


def _model(archive: zipfile.ZipFile, name: str, model: type[M], path: Path) -> M:
    try:
        return model.model_validate(_json(archive, name, path))
    except (ValidationError, RecursionError) as exc:
        raise BundleError(f"{path}: {name} does not fit ({_first(exc)}); {_NOTHING}") from None


def _first(exc: BaseException) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (str(exc).splitlines() or [""])[0][:200] or type(exc).__name__


__all__ = ["Bundle", "Log", "checked_log", "is_bundle", "logs_of_lines", "opened", "regular"]
