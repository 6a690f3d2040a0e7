"""A bundle, or a file of events, into a store: everything is checked first, and the run's row is written last."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from agentorchestra.core.errors import BundleError
from agentorchestra.core.protocols import Store
from agentorchestra.log.bundle.checks import Bundle, open_bundle
from agentorchestra.log.bundle.format import Imported, KeptFiles
from agentorchestra.log.bundle.log_checks import Log, logs_of_lines, regular

_TOGETHER_BYTES = 8 * 1024**2  # blobs that are written by one transaction


async def import_file(store: Store, path: Path, *, files: KeptFiles, folder: Path, now: datetime) -> list[Imported]:
    """Take the run of a bundle, or the runs of a file of events (`log --jsonl`), into a workspace's store and files.

    Raises:
        BundleError: for anything that does not fit, in a sentence; then nothing was imported.
        StoreError: if the store refused.
    """
    with ExitStack() as stack:
        bundle: Bundle | None = None
        with regular(path) as file:
            is_bundle = file.read(2) == b"PK"  # else it is taken for a file of events
        if is_bundle:
            bundle = await asyncio.to_thread(stack.enter_context, open_bundle(path, shutil.disk_usage(folder).free))
            logs = [bundle.log]
        else:
            logs = await asyncio.to_thread(logs_of_lines, path)
        present = [await _is_there(store, log) for log in logs]
        for place, log in enumerate(logs):
            if not present[place]:
                present[place] = await _take(store, log, bundle, files, now)
        left_out = bundle is None or not bundle.header.files
        return [
            Imported(log.record.id, log.record.status, len(log.events), identical, log.record.parent_run, left_out)
            for log, identical in zip(logs, present, strict=True)
        ]


async def _take(store: Store, log: Log, bundle: Bundle | None, files: KeptFiles, now: datetime) -> bool:
    """Take one run in, its row last; return True if another process did so meanwhile."""
    record = log.record.model_copy(update={"imported": now})
    try:
        if bundle is not None:
            await _take_parts(store, bundle, files)
        await store.import_run(record, log.events, epoch=log.epoch)
    except BaseException:
        if await store.get_run(record.id) is not None:  # the files are that one's now
            return await _is_there(store, log)
        with contextlib.suppress(OSError):
            files.remove(record.id)
        raise
    return False


async def _is_there(store: Store, log: Log) -> bool:
    """Return True if the run is there already, event for event; BundleError if another run of that name is."""
    record = await store.get_run(log.record.id)
    if record is None:
        return False
    own = await store.load(record.id)
    if own == log.events and record.manifest == log.record.manifest:
        return True
    same = next((i for i, (a, b) in enumerate(zip(own, log.events, strict=False)) if a != b), None)
    alike = min(len(own), len(log.events)) if same is None else same
    raise BundleError(
        f"the workspace holds {record.id} already, with {len(own)} events, of which the first {alike} are those "
        f"of the {len(log.events)} to be imported; import it into another --workspace, nothing was imported"
    )


async def _take_parts(store: Store, bundle: Bundle, files: KeptFiles) -> None:
    together: list[tuple[str, bytes, str]] = []
    total = 0
    for sha256, size, media_type in bundle.blobs:
        if together and total + size > _TOGETHER_BYTES:
            await _put(store, together)
            together, total = [], 0
        together.append((sha256, await asyncio.to_thread(bundle.blob, sha256), media_type))
        total += size
    await _put(store, together)
    if bundle.header.files:
        record = bundle.log.record
        await asyncio.to_thread(files.put, record.id, record.manifest.files, bundle.file)


async def _put(store: Store, blobs: list[tuple[str, bytes, str]]) -> None:
    names = await asyncio.gather(*(store.put_blob(data, media_type) for _, data, media_type in blobs))
    for name, (sha256, _, _) in zip(names, blobs, strict=True):
        if name != sha256:
            raise BundleError(f"the bundle was changed while it was read (blob {sha256[:12]}); import it again")
