"""Deletion of what a workspace no longer needs: runs by age and status, their folders, unused files and blobs."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from agentorchestra.core.protocols import RunState, Store
from agentorchestra.core.spec import FINAL, RunStatus
from agentorchestra.log.folders import left_behind
from agentorchestra.log.store.rows import PENDING

END_STATUSES = FINAL | {RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.TIMED_OUT, RunStatus.BUDGET_EXHAUSTED}
"""Runs that are deleted when no status is named: those that came to an end, whatever it was."""

GRACE_S = 86_400.0
"""Blobs, files and folders this young stay: a run that is about to refer to them may not yet be in the log."""


@dataclass(frozen=True)
class Collected:
    runs: tuple[str, ...] = ()  # their ids, newest first
    kept: tuple[str, ...] = ()  # old enough, but driven, waiting, or what a run that stays was forked from
    folders: int = 0  # of runs, and what killed processes left in those of others
    files: int = 0  # contents of files that no run has any more
    blobs: int = 0  # artifacts, large results and the like
    bytes: int = 0  # of the files and blobs
    images: int = 0  # unpacked for terminals, which no run has any more
    dry_run: bool = False


@dataclass(frozen=True)
class Retention:
    """Which runs go. Without an age and a number none does."""

    older_than: timedelta | None = None  # whose last event is older
    keep: int | None = None  # the newest so many stay, whatever their age
    statuses: frozenset[RunStatus] = END_STATUSES  # only these
    runs: frozenset[str] | None = None  # these, and nothing else decides

    def select(self, states: Sequence[RunState], now: datetime) -> list[str]:
        """Return the runs that go, were nobody to need them; newest first, as given."""
        if self.runs is not None:
            return [state.id for state in states if state.id in self.runs]
        if self.older_than is None and self.keep is None:
            return []
        rest = states[self.keep or 0 :]
        limit = None if self.older_than is None else now - self.older_than
        return [state.id for state in rest if state.status in self.statuses and (limit is None or state.end < limit)]


def _survivors(states: Sequence[RunState], candidates: Sequence[str]) -> set[str]:
    """Return those of the chosen that have to stay."""
    going = set(candidates)
    survivors = {state.id for state in states if state.id in going and (state.is_driven or state.status in PENDING)}
    while True:
        staying = [state for state in states if state.id not in going or state.id in survivors]
        parents = {state.parent_run for state in staying if state.parent_run is not None}
        if not (parents & going) - survivors:
            return survivors
        survivors |= parents & going


async def collect(
    store: Store, base: Path, retention: Retention, *, now: datetime, grace_s: float = GRACE_S, dry_run: bool = False
) -> Collected:
    """Delete what is not needed from a store and its workspace's folder (`runs/`, `files/` and `images/`).

    Args:
        grace_s: what is younger stays, in seconds.
        dry_run: only say what would go. What only the deleted runs refer to is not counted then.
    """
    states = await store.run_states()
    candidates = retention.select(states, now)
    survivors = _survivors(states, candidates)
    going = [run for run in candidates if run not in survivors]
    # Before the folders go: a file that loses its last link counts as changed at that moment.
    old_files = await asyncio.to_thread(lambda: dict(_old_contents(base / "files", grace_s)))
    old_images = await asyncio.to_thread(_old_images, base / "images", grace_s)
    deleted = going if dry_run else await store.delete_runs(going)
    folders = await asyncio.to_thread(_folders, base / "runs", {state.id for state in states}, set(deleted), grace_s)
    undriven = [state.id for state in states if not state.is_driven and state.id not in going]
    folders += await asyncio.to_thread(lambda: [left for run in undriven for left in left_behind(base / "runs" / run)])
    # Runs created since are in this list too.
    staying = [head.manifest for head in await store.list_runs() if not dry_run or head.id not in going]
    used = {file.sha256 for manifest in staying for file in manifest.files}
    on_images = {manifest.image for manifest in staying}
    images = [path for path in old_images if path.name.partition("-")[0] not in on_images]
    if not dry_run:
        folders = await asyncio.to_thread(_removed, folders)
        images = await asyncio.to_thread(_images_removed, images, grace_s)
    orphans = {path: size for path, size in old_files.items() if path.name not in used}
    names = {path.name for path in folders} if dry_run else None
    removed = await asyncio.to_thread(_unlink, orphans, names, base / "runs")
    swept = await store.sweep_blobs(grace_s=grace_s, dry_run=dry_run)
    return Collected(
        runs=tuple(deleted),
        kept=tuple(run for run in candidates if run not in set(deleted)),
        folders=len(folders),
        files=len(removed),
        blobs=swept.blobs,
        bytes=swept.size + sum(removed.values()),
        images=len(images),
        dry_run=dry_run,
    )


def _old_contents(folder: Path, grace_s: float) -> Iterator[tuple[Path, int]]:
    """Yield kept files that nobody linked or unlinked for a while, with their sizes in bytes."""
    limit = time.time() - grace_s
    for place in folder.iterdir() if folder.is_dir() else ():
        if len(place.name) != 2 or not place.is_dir():
            continue
        for path in place.iterdir():
            status = path.lstat()
            if status.st_ctime <= limit:
                yield path, status.st_size


def _old_images(folder: Path, grace_s: float) -> list[Path]:
    """Return unpacked images that nobody used for a while, and what killed processes left of some."""
    limit = time.time() - grace_s
    return [path for path in sorted(folder.iterdir()) if path.stat().st_mtime <= limit] if folder.is_dir() else []


def _images_removed(images: Sequence[Path], grace_s: float) -> list[Path]:
    """Remove unpacked images that nobody has begun to use meanwhile; return those that are gone."""
    removed = []
    old = _old_images(images[0].parent, grace_s) if images else []
    for path in [image for image in images if image in old]:
        going = path.with_name(f".removing-{path.name}")  # nobody finds half an image
        try:
            path.rename(going)
        except FileNotFoundError:  # another collection
            continue
        for place, names, _ in os.walk(going):  # an image may close its folders to their owner
            for entry in (Path(place) / name for name in names):
                if not entry.is_symlink():
                    entry.chmod(0o700)
        shutil.rmtree(going, ignore_errors=True)
        removed.append(path)
    return removed


def _folders(folder: Path, run_ids: set[str], deleted: set[str], grace_s: float) -> list[Path]:
    """Return the folders of deleted runs, and old ones of runs that are not in the log at all."""
    limit = time.time() - grace_s
    paths = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_symlink() or not path.is_dir() or not path.name.startswith("run_"):
            continue
        if path.name in deleted or (path.name not in run_ids and path.stat().st_ctime <= limit):
            paths.append(path)
    return paths


def _removed(folders: Sequence[Path]) -> list[Path]:
    """Remove folders; return those that are gone (the others are tried again next time)."""
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    return [path for path in folders if not path.exists()]


def _unlink(contents: dict[Path, int], going: set[str] | None, runs: Path) -> dict[Path, int]:
    """Remove and return contents (size in bytes by path) that no folder of a run links to any more.

    With `going`, names of folders in `runs` that would be gone, only return them.
    """
    left: Counter[int] = Counter()
    for name in going or ():
        for place, _, names in os.walk(runs / name):
            left.update(os.lstat(Path(place) / file).st_ino for file in names)
    removed = {}
    for path, size in contents.items():
        try:
            status = path.lstat()
            if status.st_nlink - left[status.st_ino] > 1:
                continue
            if going is None:
                path.unlink()
        except FileNotFoundError:  # another collection
            continue
        removed[path] = size
    return removed
