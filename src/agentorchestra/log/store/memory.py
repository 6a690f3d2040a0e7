"""The store over dictionaries: for tests and for runs that need not outlive the process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import StoreError
from agentorchestra.core.events import Event, NewEvent
from agentorchestra.core.ids import PART
from agentorchestra.core.protocols import (
    Acceptance,
    BlobInfo,
    Owner,
    RunHead,
    RunJob,
    RunRecord,
    RunState,
    Store,
    Swept,
    UnfinishedRun,
)
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import ManifestHead, RunManifest, RunStatus
from agentorchestra.log.store import histories, rows
from agentorchestra.log.store.blobs import no_blob
from agentorchestra.log.store.followers import Followers
from agentorchestra.log.store.references import is_json, references
from agentorchestra.log.store.rows import PENDING, Row

_TS = 7  # the place of the time in a row


class _Run:
    def __init__(self, run: str, manifest: RunManifest) -> None:
        self.id = run
        self.created = rows.stamp(manifest.created)
        # As text, so that what is read is as new as what a database gives.
        self.manifest = manifest.model_dump_json()
        self.status = RunStatus.CREATED
        # Flat rows of plain values: the garbage collector does not have to look into a log that only grows.
        self.events: list[tuple[Any, ...]] = []
        self.keys: set[tuple[str, int, int, str]] = set()
        self.owner: Owner | None = None
        self.epoch = 0
        self.lease_until: datetime | None = None
        self.imported: datetime | None = None
        self.accepted: Acceptance | None = None

    def add(self, new: Sequence[Row]) -> tuple[int, ...]:
        first = len(self.events) + 1
        keys: set[tuple[str, int, int, str]] = set()
        for seq, row in enumerate(new, first):
            key = row.key(seq)
            if key in self.keys or key in keys:
                raise rows.duplicate(self.id, key)
            keys.add(key)
        self.keys |= keys
        self.events.extend(row.values(self.id, seq) for seq, row in enumerate(new, first))
        return tuple(range(first, first + len(new)))

    def place(self) -> tuple[bool, bool, str, str]:
        """Return its place among unfinished runs."""
        stamp = "" if self.accepted is None else rows.stamp(self.accepted.at)
        return (self.status is not RunStatus.RUNNING, self.accepted is None, stamp, self.id)

    def state(self) -> RunState:
        manifest = RunManifest.model_validate_json(self.manifest)
        created = datetime.fromisoformat(self.created)
        end = datetime.fromisoformat(self.events[-1][_TS]) if self.events else created
        is_held = self.owner is not None and self.lease_until is not None and self.lease_until > datetime.now(UTC)
        is_queued = self.accepted is not None and self.status in (RunStatus.CREATED, RunStatus.RUNNING)
        is_driven = is_held or is_queued
        return RunState(self.id, self.status, created, end, manifest.parent_run, is_driven)

    def head(self) -> RunHead:
        head = ManifestHead.model_validate_json(self.manifest)
        return RunHead(**{**self.record().__dict__, "manifest": head})

    def record(self) -> RunRecord:
        manifest = RunManifest.model_validate_json(self.manifest)
        return RunRecord(
            id=self.id,
            status=self.status,
            manifest=manifest,
            next_seq=len(self.events) + 1,
            created=datetime.fromisoformat(self.created),
            parent_run=manifest.parent_run,
            fork_seq=manifest.fork_seq,
            imported=self.imported,
            accepted=None if self.accepted is None else self.accepted.at,
        )


class MemoryStore(Store):
    """`core.protocols.Store` in this process's memory. Usable from any thread and any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = "new"
        self._runs: dict[str, _Run] = {}
        self._blobs: dict[str, bytes] = {}
        self._media_types: dict[str, str] = {}
        self._touched: dict[str, float] = {}
        self._components: dict[histories.Component, list[tuple[Any, ...]]] = {}
        self._entries = 0
        self._external = 0
        self._seen = 0
        self._followers = Followers()

    async def open(self) -> None:
        with self._lock:
            if self._state == "closed":
                raise StoreError("this store was closed; open a new one")
            self._state = "open"

    async def close(self) -> None:
        with self._lock:
            self._state = "closed"
        self._followers.tell(self._followers.runs)

    async def create_run(
        self,
        run: str,
        manifest: RunManifest,
        events: Sequence[NewEvent],
        *,
        acceptance: Acceptance | None = None,
        maker: Owner | None = None,
    ) -> None:
        with self._use():
            key = None if acceptance is None else acceptance.key
            if key is not None and self._under(key) is not None:
                raise rows.taken_key(key)
            if run in self._runs:
                raise rows.existing_run(run)
            if manifest.fork_seq is not None and manifest.parent_run not in self._runs:
                raise rows.unknown_run(str(manifest.parent_run))
            if manifest.session is not None:
                turns = [turn for turn in self._runs.values() if turn.record().manifest.session == manifest.session]
                last = max(turns, key=lambda turn: (turn.created, turn.id), default=None)
                rows.check_turn(manifest, None if last is None else (last.id, last.status))
            new = _Run(run, manifest)
            new.add(rows.encode_append(0, events, None))
            new.accepted, new.owner = acceptance, maker
            self._runs[run] = new

    def _under(self, key: str) -> _Run | None:
        return next((run for run in self._runs.values() if run.accepted is not None and run.accepted.key == key), None)

    async def accept(self, run: str, at: datetime) -> None:
        with self._use():
            target = self._run(run)
            target.accepted = target.accepted or Acceptance(at)

    async def request(self, key: str) -> tuple[str, str] | None:
        with self._use():
            run = self._under(key)
            return None if run is None or run.accepted is None else (run.id, run.accepted.digest)

    async def unfinished_runs(
        self,
        *,
        runs: Sequence[str] | None = None,
        status: RunStatus | None = None,
        is_accepted: bool | None = None,
        limit: int | None = None,
        parts: bool = False,
    ) -> list[UnfinishedRun]:
        with self._use():
            now = datetime.now(UTC)
            entries = [
                UnfinishedRun(
                    run.id,
                    run.status,
                    run.accepted is not None,
                    run.owner,
                    run.owner is not None and run.lease_until is not None and run.lease_until > now,
                    run.lease_until,
                )
                for run in sorted(self._runs.values(), key=_Run.place)
                if run.status in ((RunStatus.CREATED, RunStatus.RUNNING) if status is None else (status,))
                and run.imported is None
                and run.id.startswith(PART) is parts
                and (runs is None or run.id in runs)
            ]
        return [entry for entry in entries if is_accepted in (None, entry.is_accepted)][:limit]

    async def count_created(self) -> int:
        return sum(entry.status is RunStatus.CREATED for entry in await self.unfinished_runs(is_accepted=True))

    async def import_run(self, record: RunRecord, events: Sequence[Event], *, epoch: int) -> None:
        with self._use():
            if record.id in self._runs:
                raise rows.existing_run(record.id)
            new = _Run(record.id, record.manifest)
            new.add(rows.encode_import(record, events))
            new.created = rows.stamp(record.created)
            new.status, new.epoch, new.imported = record.status, epoch, record.imported
            self._runs[record.id] = new

    def append(
        self, run: str, epoch: int | None, events: Sequence[NewEvent], *, status: RunStatus | None = None
    ) -> Future[tuple[int, ...]]:
        done: Future[tuple[int, ...]] = Future()
        with self._lock:
            self._check_open()
            try:
                new = rows.encode_append(epoch, events, status)
                target = self._run(run)
                if epoch is not None and epoch != target.epoch:
                    raise rows.fence_error(run, epoch, target.epoch, target.owner)
                seqs = target.add(new)
                if status is not None:
                    target.status = status
                if epoch is None:
                    self._external += 1
            except Exception as exc:
                done.set_exception(exc)
            else:
                done.set_result(seqs)
        self._followers.tell([run])
        return done

    def follow(self, run: str) -> AbstractContextManager[asyncio.Event]:
        with self._lock:
            self._check_open()
        return self._followers.following(run)

    async def load(self, run: str, *, after: int = 0, upto: int | None = None, verify: bool = False) -> list[Event]:
        with self._use():
            part = self._run(run).events[max(after, 0) : None if upto is None else max(upto, 0)]
        return [_event(row) for row in part]

    async def query(
        self,
        query: LogQuery,
        *,
        after: tuple[str, int] | None = None,
        limit: int = 1000,
        newest: bool = False,
        verify: bool = False,
    ) -> list[Event]:
        with self._use():
            logs = [(run, list(self._runs[run].events)) for run in sorted(self._runs) if self._fits(run, query)]
        page = [
            event
            for run, log in logs
            for event in map(_event, log)
            if (after is None or (run, event.seq) > after) and query.matches(event)
        ]
        return page[-limit:] if newest else page[:limit]

    def _fits(self, run: str, query: LogQuery) -> bool:
        if run.startswith(PART) if query.runs is None else run not in query.runs:
            return False
        return query.session is None or self._runs[run].record().manifest.session == query.session

    async def get_run(self, run: str) -> RunRecord | None:
        with self._use():
            entry = self._runs.get(run)
            return None if entry is None else entry.record()

    async def list_runs(self, *, limit: int | None = None, session: str | None = None) -> list[RunHead]:
        with self._use():
            newest = sorted(self._runs.values(), key=lambda run: (run.created, run.id), reverse=True)
            heads = [run.head() for run in newest if not run.id.startswith(PART)]
            return [head for head in heads if session in (None, head.manifest.session)][:limit]

    async def run_ids(self, beginning: str = "") -> list[str]:
        return [head.id for head in await self.list_runs() if head.id.startswith(beginning)]

    async def waiting(self, only: Sequence[str] | None = None) -> list[tuple[Event, bool]]:
        with self._use():
            waiting = [run for _, run in sorted(self._runs.items()) if run.status is RunStatus.WAITING]
            logs = [list(run.events) for run in waiting if only is None or run.id in only]
        waits = []
        for log in logs:
            ends = [seq for seq, row in enumerate(log, 1) if row[5] == "run_ended"]
            if ends:
                waits.append((_event(log[ends[-1] - 1]), ends[-1] < len(log)))
        return waits

    async def job(self, run: str) -> RunJob | None:
        with self._use():
            entry = self._runs.get(run)
            if entry is None:
                return None
            return RunJob(run=run, owner=entry.owner, epoch=entry.epoch, lease_until=entry.lease_until)

    async def claim(self, run: str, owner: Owner, *, lease_s: float, expect_epoch: int | None = None) -> int | None:
        with self._use():
            target = self._run(run)
            now = datetime.now(UTC)
            if expect_epoch is None:
                if target.lease_until is not None and target.lease_until > now:
                    return None
            elif target.epoch != expect_epoch:
                return None
            target.epoch += 1
            target.owner = owner
            target.lease_until = now + timedelta(seconds=lease_s)
            return target.epoch

    async def heartbeat(self, epochs: Mapping[str, int], *, lease_s: float) -> set[str]:
        with self._use():
            losses: set[str] = set()
            for run, epoch in epochs.items():
                target = self._runs.get(run)
                if target is None or target.epoch != epoch:
                    losses.add(run)
                elif target.owner is not None:
                    target.lease_until = datetime.now(UTC) + timedelta(seconds=lease_s)
            return losses

    async def release(self, run: str, epoch: int) -> None:
        with self._use():
            target = self._runs.get(run)
            if target is not None and target.epoch == epoch:
                target.owner = None
                target.lease_until = None

    async def run_states(self, *, parts: bool = False) -> list[RunState]:
        with self._use():
            newest = sorted(self._runs.values(), key=lambda run: (run.created, run.id), reverse=True)
            return [run.state() for run in newest if run.id.startswith(PART) or not parts]

    async def delete_runs(self, runs: Sequence[str]) -> list[str]:
        order = [state.id for state in await self.run_states() if state.id in set(runs)]
        deleted = []
        with self._use():
            for run in order:
                states = [entry.state() for entry in self._runs.values()]
                has_fork = any(state.parent_run == run for state in states)
                is_busy = any(state.is_driven or state.status in PENDING for state in states if state.id == run)
                if not has_fork and not is_busy:
                    del self._runs[run]
                    deleted.append(run)
        return deleted

    async def sweep_blobs(self, *, grace_s: float, dry_run: bool = False) -> Swept:
        with self._use():
            texts = [run.manifest for run in self._runs.values()]
            texts += [str(row[-1]) for run in self._runs.values() for row in run.events]
            texts += [row[-1] for history in self._components.values() for row in history]

            def lookup(names: list[str]) -> list[tuple[str, bytes | None]]:
                kinds = self._media_types
                present = [name for name in names if name in self._blobs]
                return [(name, self._blobs[name] if is_json(kinds[name]) else None) for name in present]

            used = references(texts, lookup)
            before = time.monotonic() - grace_s
            orphans = [name for name in self._blobs if name not in used and self._touched[name] <= before]
            size = sum(len(self._blobs[name]) for name in orphans)
            for name in [] if dry_run else orphans:
                del self._blobs[name], self._media_types[name], self._touched[name]
            return Swept(len(orphans), size)

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        with self._use():
            self._blobs.setdefault(sha256, bytes(data))
            self._media_types.setdefault(sha256, media_type)
            self._touched[sha256] = time.monotonic()
        return sha256

    async def put_texts(self, texts: Iterable[str], media_type: str) -> list[str]:
        return [await self.put_blob(text.encode(), media_type) for text in texts]

    async def get_blob(self, sha256: str) -> bytes:
        with self._use():
            try:
                return self._blobs[sha256]
            except KeyError:
                raise no_blob(sha256) from None

    async def find_blobs(self, names: Sequence[str]) -> dict[str, BlobInfo]:
        with self._use():
            return {
                name: BlobInfo(len(self._blobs[name]), self._media_types[name]) for name in names if name in self._blobs
            }

    async def record_components(self, changes: Sequence[ComponentChange]) -> None:
        new = histories.encode(changes)
        with self._use():
            keys = histories.components_of(new)
            histories.check_places(new, {key: len(self._components.get(key, [])) for key in keys})
            for row in new:
                self._components.setdefault((row[0], row[1]), []).append(row)
                self._entries += 1

    async def component_changes(
        self, components: Sequence[tuple[str, str]] | None = None, *, kind: str | None = None
    ) -> list[ComponentChange]:
        with self._use():
            keys = self._components if components is None else set(components)
            logs = [self._components.get(key, []) for key in sorted(keys) if kind in (None, key[0])]
            rows = [row for history in logs for row in history]
        return [histories.decode(row) for row in rows]

    async def component_count(self) -> int:
        self._check_open()
        return self._entries

    async def component_heads(self) -> dict[tuple[str, str], int]:
        with self._use():
            return {key: len(history) for key, history in self._components.items()}

    async def changed(self) -> bool:
        with self._use():
            changed, self._seen = self._external != self._seen, self._external
            return changed

    @contextmanager
    def _use(self) -> Iterator[None]:
        with self._lock:
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._state != "open":
            raise StoreError(
                "the store is closed" if self._state == "closed" else "the store is not open; call `open` first"
            )

    def _run(self, run: str) -> _Run:
        try:
            return self._runs[run]
        except KeyError:
            raise rows.unknown_run(run) from None


def _event(row: tuple[Any, ...]) -> Event:
    return rows.event_of(row, json.loads(row[-1]) if isinstance(row[-1], str) else rows.body_of(row[-1]))
