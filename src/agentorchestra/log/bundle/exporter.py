"""A run into a bundle: streamed, checked for secrets on the way, there whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import platform
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import IO, Any

from agentorchestra.core.errors import BundleError
from agentorchestra.core.protocols import RunRecord, Store
from agentorchestra.log.bundle import format as form
from agentorchestra.log.bundle.format import Exported, Header, KeptFiles, Sum
from agentorchestra.log.bundle.lines import to_line
from agentorchestra.log.bundle.origin import Origin
from agentorchestra.log.bundle.secrets import SecretScanner
from agentorchestra.log.store.blobs import sync_folder
from agentorchestra.log.store.references import BATCH, PRIVATE, TASK_FILE, is_json, names_in

_PAGE = 500
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time a ZIP file can hold


async def export_run(
    store: Store, record: RunRecord, out: Path, *, files: KeptFiles | None, secrets: Mapping[str, str], origin: Origin
) -> Exported:
    """Write the bundle of a run; of one that is being driven, the events up to those of `record`.

    Args:
        store, record, out: the log, the run's row, and the file to be made.
        files: those of the workspace; None leaves out those given with the task.
        secrets: name -> value; a bundle that would hold one is not written.
        origin: what is said of this machine.

    Raises:
        BundleError: the file is there already or cannot be written, or something secret would be in it.
        StoreError: a blob is missing or was changed, or an event was.
    """
    if os.path.lexists(out):
        raise BundleError(f"{out} is there already; name another file with --out, or remove it")
    folder = out.absolute().parent
    try:
        handle, name = tempfile.mkstemp(prefix=".export-", suffix=".part", dir=folder)  # its mode is 0600
    except OSError as exc:
        raise BundleError(f"{folder} cannot be written: {exc.strerror}; name a file elsewhere with --out") from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w+b") as file, tempfile.TemporaryFile(dir=folder) as log:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=6) as archive:
                done = await _Writer(store, record, archive, SecretScanner(secrets)).write(log, files, origin)
            digest = await asyncio.to_thread(_digest, file)
            size = file.tell()
        await asyncio.to_thread(_place, temporary, out)
    except OSError as exc:
        raise BundleError(f"{out} cannot be written: {exc.strerror or exc}; nothing was left there") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    return Exported(out, digest, size, record.id, *done)


def _digest(file: IO[bytes]) -> str:
    file.flush()
    os.fsync(file.fileno())
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(form.CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _place(temporary: Path, out: Path) -> None:
    try:
        os.link(temporary, out)  # unlike a rename, this never replaces what came there meanwhile
    except FileExistsError:
        raise BundleError(f"{out} is there already; name another file with --out, or remove it") from None
    except OSError:
        temporary.replace(out)  # a file system without links
    sync_folder(out.absolute().parent)


class _Writer:
    def __init__(self, store: Store, record: RunRecord, archive: zipfile.ZipFile, watch: SecretScanner) -> None:
        self._store = store
        self._record = record
        self._watch = watch
        self._archive = archive
        self._sums: dict[str, Sum] = {}

    async def write(self, log: IO[bytes], storage: KeptFiles | None, origin: Origin) -> tuple[int, int, int]:
        """Write everything, in the order of the names; return how many events, blobs and files."""
        record = self._record
        manifest = record.manifest.model_dump_json().encode()
        names = await self._write_log(log) | names_in(manifest)
        media_types = await self._closure(names)
        files = {ref.sha256: ref for ref in record.manifest.files} if storage is not None else {}
        header = Header(
            run=record.id,
            status=record.status,
            events=record.next_seq - 1,
            media_types=dict(sorted(media_types.items())),
            files=storage is not None,
            distribution=origin.distribution,
            python=platform.python_version(),
            git=origin.git,
        )
        texts = {pin.source: f"the text of the prompt {name!r}" for name, pin in record.manifest.prompts.items()}
        for name, pin in {**record.manifest.tools, **record.manifest.agents}.items():
            texts.setdefault(pin.source, f"the text of the module of {name!r}")
        for name in sorted(media_types):
            text = texts.get(name, f"the blob {name} ({media_types[name]})")
            await self._add(form.BLOBS + name, await self._store.get_blob(name), text)
        await self._add(form.HEADER, _json(header.model_dump(mode="json")))
        size = log.tell()
        log.seek(0)
        await asyncio.to_thread(self._stream, form.EVENTS, lambda: contextlib.nullcontext(log), size, "its log")
        for sha256, ref in sorted(files.items()):
            assert storage is not None
            text = f"the file {ref.name!r} of the task"
            source = partial(storage.reader, record.id, ref)
            await asyncio.to_thread(self._stream, form.FILES + sha256, source, ref.size, text)
            if self._sums[form.FILES + sha256] != Sum(sha256=sha256, size=ref.size):
                raise BundleError(
                    f"{text} is not what it was when the run was made; restore it, or export with --no-files"
                )
        await self._add(form.MANIFEST, manifest)
        await self._add(form.PACKAGES, _json(origin.packages))
        await self._add(form.SETTINGS, _json(origin.settings))
        await self._add(form.SUMS, _json({name: entry.model_dump() for name, entry in sorted(self._sums.items())}))
        await asyncio.to_thread(self._archive.close)
        return header.events, len(media_types), len(files)

    async def _write_log(self, log: IO[bytes]) -> set[str]:
        """Write the log into a file of its own; return the hashes that stand in it."""
        names: set[str] = set()
        last = self._record.next_seq - 1
        after = 0
        while after < last:
            page = await self._store.load(self._record.id, after=after, upto=min(after + _PAGE, last), verify=True)
            for event in page:
                line = to_line(event)
                self._watch.check(line, f"event {event.seq} ({event.type})")
                names |= names_in(line)
                log.write(line)
            after += _PAGE
        return names

    async def _closure(self, names: set[str]) -> dict[str, str]:
        """Return media types of the blobs with these names and of those that JSON among them names; no private ones."""
        types: dict[str, str] = {}
        lookups: set[str] = set()
        open_ = sorted(names)
        while open_:
            part, open_ = open_[:BATCH], open_[BATCH:]
            lookups.update(part)
            for name, info in (await self._store.find_blobs(part)).items():
                if info.media_type in (PRIVATE, TASK_FILE):
                    continue
                types[name] = info.media_type
                if is_json(info.media_type):
                    more = names_in(await self._store.get_blob(name)) - lookups - set(open_)
                    open_ += sorted(more)
        return types

    async def _add(self, name: str, data: bytes, text: str = "") -> None:
        self._watch.check(data, text or f"its {name}")

        await asyncio.to_thread(self._archive.writestr, _info(name, len(data)), data)
        if name != form.SUMS:
            self._sums[name] = Sum(sha256=hashlib.sha256(data).hexdigest(), size=len(data))

    def _stream(self, name: str, source: Callable[[], AbstractContextManager[IO[bytes]]], size: int, text: str) -> None:
        digest, total, tail = hashlib.sha256(), 0, b""
        with source() as read, self._archive.open(_info(name, size), "w") as member:
            while chunk := read.read(form.CHUNK):
                self._watch.check(tail + chunk, text)
                tail = (tail + chunk)[-self._watch.overlap :] if self._watch.overlap else b""
                digest.update(chunk)
                total += len(chunk)
                member.write(chunk)
        self._sums[name] = Sum(sha256=digest.hexdigest(), size=total)


def _info(name: str, size: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3
    info.external_attr = 0o600 << 16
    info.file_size = size
    return info


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
