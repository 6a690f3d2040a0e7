"""Reads the files of a run into the index: only new ones, several at a time, with an end, going on where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.core.errors import FileInputError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import FileRef
from agentorchestra.tools.files.index import PassageIndex, Prepared, prepare
from agentorchestra.tools.files.readers import read_document

AT_ONCE = max(2, min(4, os.cpu_count() or 2))  # files that are converted at the same time
# What one search gives to reading new files; the next one goes on. Less than a tool's default time limit.
SECONDS = 90.0
LARGE = 8_000_000  # files with more bytes are read one at a time: their texts would fill the memory
_BATCH = 200
_BATCH_CHARS = 4_000_000
_REPORT_STEP = 100


@dataclass
class IndexingState:
    """The files of a search as far as they are read; `problems` has `{name}` for the file's name."""

    readable: set[str] = field(default_factory=set)  # the hashes of those that can be searched
    problems: dict[str, str] = field(default_factory=dict)
    left: int = 0  # how many were not read in time


async def bring_up(
    ctx: RunContext[Any], index: PassageIndex, files: Sequence[FileRef], *, seconds: float | None = None
) -> IndexingState:
    """Read into the index what is not there yet, for `seconds` at most; what was read stays, whatever ends it."""
    by_hash = {file.sha256: file for file in reversed(files)}
    standing = IndexingState()
    problems = await asyncio.to_thread(index.problems, by_hash)
    for sha256, problem in problems.items():
        if problem:
            standing.problems[sha256] = problem
        else:
            standing.readable.add(sha256)
    # In the order of the files, so that the next search goes on behind this one.
    missing = deque(dict.fromkeys(file.sha256 for file in files if file.sha256 not in problems))
    if missing:
        work = _Indexing(ctx, index, by_hash, missing, standing)
        await work.run(SECONDS if seconds is None else seconds)
    standing.left = len(by_hash) - len(standing.readable) - len(standing.problems)
    return standing


@dataclass
class _Indexing:
    ctx: RunContext[Any]
    index: PassageIndex
    files: dict[str, FileRef]
    missing: deque[str]
    standing: IndexingState
    stop: threading.Event = field(default_factory=threading.Event)
    ready: list[tuple[str, Prepared]] = field(default_factory=list)
    chars: int = 0
    done: int = 0
    large: asyncio.Lock = field(default_factory=asyncio.Lock)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.total = len(self.missing)

    async def run(self, seconds: float) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(min(AT_ONCE, self.total))]
        try:
            done, _ = await asyncio.wait(workers, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                worker.result()
        finally:
            self.missing.clear()
            for worker in workers:
                worker.cancel()
            self.stop.set()  # threads that nobody awaits stop between two passages
            await asyncio.gather(*workers, return_exceptions=True)
            # Also when cancelled: what was read need not be read again.
            with contextlib.suppress(sqlite3.Error, OSError):
                self._keep(self._take())

    async def _work(self) -> None:
        while self.missing:
            sha256 = self.missing.popleft()
            ref = self.files[sha256]
            if await asyncio.to_thread(self.index.has, sha256):  # by another process, meanwhile
                self.standing.readable.add(sha256)
            elif ref.size > LARGE:
                async with self.large:
                    await self._read(ref)
            else:
                await self._read(ref)
            self.done += 1
            if self.done % _REPORT_STEP == 0 or (self.done == self.total and self.total >= _REPORT_STEP):
                self.ctx.progress(f"read {self.done:,} of {self.total:,} new files")

    async def _read(self, ref: FileRef) -> None:
        path = self.ctx.file(ref.name)
        try:
            document = await read_document(path)
        except FileInputError as error:
            entry = Prepared(problem=str(error).replace(str(path), "{name}"))
        else:
            entry = await asyncio.to_thread(prepare, document, self.stop)
        self.ready.append((ref.sha256, entry))
        self.chars += entry.chars
        if len(self.ready) >= _BATCH or self.chars >= _BATCH_CHARS:
            async with self.writing:  # one at a time: the others go on reading
                await asyncio.to_thread(self._keep, self._take())

    def _take(self) -> list[tuple[str, Prepared]]:
        batch, self.ready, self.chars = self.ready, [], 0
        return batch

    def _keep(self, ready: list[tuple[str, Prepared]]) -> None:
        if not ready:
            return
        self.index.put(ready)
        for sha256, entry in ready:
            if entry.problem is not None:
                self.standing.problems[sha256] = entry.problem
            else:
                self.standing.readable.add(sha256)
