"""The store over SQLAlchemy Core: one writer thread with group commit (writer.py), a few readers (reader.py), one
watcher for those who follow runs (watcher.py).

What differs between databases is in the methods at the end of `Database` (database.py), which sqlite.py and postgres.py
fill in.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Text, bindparam, func, insert, literal, or_, select, update

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.events import Event, NewEvent
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.protocols import Acceptance, Owner, RunRecord, Store, Swept, UnfinishedRun
from agentorchestra.core.spec import RunManifest, RunStatus
from agentorchestra.log.store import deletion, histories, rows, shared, writer
from agentorchestra.log.store.blobs import BlobFiles
from agentorchestra.log.store.database import AT_ONCE, Call, Put
from agentorchestra.log.store.reader import HEADS, Reader, one_of, parts_of
from agentorchestra.log.store.rows import Row
from agentorchestra.log.store.schema import blobs, components, is_part, jobs, runs
from agentorchestra.log.store.watcher import Watcher
from agentorchestra.log.store.writer import Writer

if TYPE_CHECKING:
    from agentorchestra.log.store.artifacts import Artifacts

_RUNS = runs.c
_REQUEST = select(_RUNS.id, _RUNS.request_digest)
_OPEN_RUNS = (
    select(_RUNS.id, _RUNS.status, _RUNS.accepted, jobs.c.owner, jobs.c.lease_until)
    .select_from(runs.join(jobs, jobs.c.run == _RUNS.id))
    .where(_RUNS.imported.is_(None))
    .order_by(_RUNS.accepted, _RUNS.id)
)


def _open_run(row: Any) -> UnfinishedRun:
    return UnfinishedRun(
        row.id,
        RunStatus(row.status),
        row.accepted is not None,
        None if row.owner is None else Owner.model_validate_json(row.owner),
        row.owner is not None and bool(row.held),
        None if row.lease_until is None else datetime.fromtimestamp(row.lease_until, UTC),
    )


class SqlStore(Writer, Reader, Watcher, Store):
    """`core.protocols.Store` over a database, usable from any thread and from several event loops at once.

    Reads never see an append before it is durable.
    """

    async def create_run(
        self,
        run: str,
        manifest: RunManifest,
        events: Sequence[NewEvent],
        *,
        acceptance: Acceptance | None = None,
        maker: Owner | None = None,
    ) -> None:
        text, events, blobs = shared.run_row(manifest, events)
        new = rows.encode_append(0, events, None)
        record = RunRecord(
            id=run,
            status=RunStatus.CREATED,
            manifest=manifest,
            next_seq=1 + len(new),
            created=manifest.created,
            parent_run=manifest.parent_run,
            fork_seq=manifest.fork_seq,
        )
        await self._add_run(record, text, new, blobs, epoch=0, acceptance=acceptance, maker=maker)

    async def import_run(self, record: RunRecord, events: Sequence[Event], *, epoch: int) -> None:
        text, events, blobs = shared.run_row(record.manifest, events)
        await self._add_run(record, text, rows.encode_import(record, events), blobs, epoch=epoch)

    async def _add_run(
        self,
        record: RunRecord,
        text: str,
        new: tuple[Row, ...],
        blobs: dict[str, bytes],
        *,
        epoch: int,
        acceptance: Acceptance | None = None,
        maker: Owner | None = None,
    ) -> None:
        run, owner = record.id, None if maker is None else maker.model_dump_json()
        values = {
            "id": run,
            "parent_run": record.parent_run,
            "fork_seq": record.fork_seq,
            "manifest": text,
            "status": record.status.value,
            "next_seq": record.next_seq,
            "created": rows.stamp(record.created),
            "session": record.manifest.session,
            "imported": None if record.imported is None else rows.stamp(record.imported),
            "accepted": None if acceptance is None else rows.stamp(acceptance.at),
            "request_key": None if acceptance is None else acceptance.key,
            "request_digest": None if acceptance is None else acceptance.digest,
        }

        def create(connection: Connection) -> None:
            if record.fork_seq is not None and record.imported is None:
                # Its log refers to what the other one's does: it must not be deleted at this moment.
                parent = select(runs.c.id).where(runs.c.id == record.parent_run)
                if connection.execute(parent.with_for_update(key_share=True, read=True)).first() is None:
                    raise rows.unknown_run(str(record.parent_run))
            if record.manifest.session is not None and record.imported is None:
                self._one_turn(connection, record.manifest)
            statement = self._insert(runs).on_conflict_do_nothing().returning(runs.c.id)
            if connection.execute(statement, values).first() is None:
                key = None if acceptance is None else acceptance.key
                if key is not None and connection.execute(_REQUEST.where(runs.c.request_key == key)).first():
                    raise rows.taken_key(key)
                raise rows.existing_run(run)
            connection.execute(insert(jobs), {"run": run, "owner": owner, "epoch": epoch, "lease_until": None})
            self._insert_shared(connection, blobs)
            self._insert_large(connection, new)
            if new:
                self._insert_events(connection, [row.checked_values(run, seq) for seq, row in enumerate(new, 1)])

        await self._do(Call(run, create, new))

    def _one_turn(self, connection: Connection, manifest: RunManifest) -> None:
        """Refuse a turn that does not follow the last one of its session; nobody else makes one meanwhile."""
        self._one_at_a_time(connection, f"session {manifest.session}")
        turns = select(runs.c.id, runs.c.status).where(runs.c.session == manifest.session, ~is_part(runs.c.id))
        last = connection.execute(turns.order_by(runs.c.created.desc(), runs.c.id.desc()).limit(1)).first()
        rows.check_turn(manifest, None if last is None else (last.id, RunStatus(last.status)))

    async def accept(self, run: str, at: datetime) -> None:
        statement = update(runs).where(runs.c.id == run, runs.c.accepted.is_(None)).values(accepted=rows.stamp(at))

        def note(connection: Connection) -> None:
            connection.execute(statement)

        await self._do(Call(run, note))

    async def request(self, key: str) -> tuple[str, str] | None:
        def read(connection: Connection) -> tuple[str, str] | None:
            row = connection.execute(_REQUEST.where(runs.c.request_key == key)).first()
            return None if row is None else (row.id, row.request_digest)

        return await self._read(read)

    async def unfinished_runs(
        self,
        *,
        runs: Sequence[str] | None = None,
        status: RunStatus | None = None,
        is_accepted: bool | None = None,
        limit: int | None = None,
        parts: bool = False,
    ) -> list[UnfinishedRun]:
        statement = _OPEN_RUNS.add_columns((jobs.c.lease_until > self._lease_now(jobs.c.owner)).label("held"))
        statement = statement.where(is_part(_RUNS.id) if parts else ~is_part(_RUNS.id))
        if runs is not None:
            statement = statement.where(_RUNS.id.in_(runs))
        taken_on = _RUNS.accepted.is_not(None)
        # An index has each of these in order: a long queue, or a long history, costs nothing.
        selects = [
            statement.where(_RUNS.status == state.value, taken_on if in_queue else ~taken_on)
            for state in (RunStatus.RUNNING, RunStatus.CREATED)
            for in_queue in (True, False)
            if status in (None, state) and is_accepted in (None, in_queue)
        ]

        def read(connection: Connection) -> list[UnfinishedRun]:
            entries: list[UnfinishedRun] = []
            for query in selects:
                left = None if limit is None else limit - len(entries)
                entries += [_open_run(row) for row in connection.execute(query.limit(left))]
            return entries

        return await self._read(read)

    async def count_created(self) -> int:
        statement = (
            select(func.count())
            .select_from(runs)
            .where(runs.c.status == RunStatus.CREATED.value, runs.c.accepted.is_not(None))
        )
        return await self._read(lambda connection: int(connection.execute(statement).scalar_one()))

    async def claim(self, run: str, owner: Owner, *, lease_s: float, expect_epoch: int | None = None) -> int | None:
        is_free = jobs.c.run == run
        over = jobs.c.lease_until <= self._lease_now(jobs.c.owner)
        new = owner.model_dump_json()
        if expect_epoch is None:
            # A run without an owner is free whatever the clock says: it may have gone back since the release.
            is_free &= or_(jobs.c.owner.is_(None), jobs.c.lease_until.is_(None), over)
        else:
            is_free &= jobs.c.epoch == expect_epoch
        statement = (
            update(jobs)
            .where(is_free)
            .values(epoch=jobs.c.epoch + 1, owner=new, lease_until=self._lease_now(literal(new, Text)) + lease_s)
            .returning(jobs.c.epoch)
        )

        def take(connection: Connection) -> int | None:
            epoch: int | None = connection.execute(statement).scalar()
            if epoch is None and self._job(connection, run) is None:
                raise rows.unknown_run(run)
            return epoch

        return await self._do(Call(run, take))

    async def heartbeat(self, epochs: Mapping[str, int], *, lease_s: float) -> set[str]:
        # A run released under its epoch is neither prolonged nor lost.
        leases = dict(epochs)
        statement = (
            update(jobs)
            .where(jobs.c.run == bindparam("held"), jobs.c.epoch == bindparam("under"), jobs.c.owner.is_not(None))
            .values(lease_until=self._lease_now(jobs.c.owner) + lease_s)
        )

        def prolong(connection: Connection) -> set[str]:
            page = connection.execute(select(jobs.c.run, jobs.c.epoch).where(jobs.c.run.in_(leases)))
            own = {run for run, epoch in page if leases[run] == epoch}
            if own:
                connection.execute(statement, [{"held": run, "under": leases[run]} for run in own])
            return set(leases) - own

        return await self._do(Call(None, prolong)) if leases else set()

    async def release(self, run: str, epoch: int) -> None:
        statement = update(jobs).where(jobs.c.run == run, jobs.c.epoch == epoch).values(owner=None, lease_until=None)

        def give_back(connection: Connection) -> None:
            connection.execute(statement)

        await self._do(Call(run, give_back))

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        large = len(data) > rows.INLINE_BYTES
        if large and self._artifacts is not None:
            return await self._put_artifact(self._artifacts, data, media_type)
        files = self._files if large else None

        def stage() -> str:
            sha256 = hashlib.sha256(data).hexdigest()
            if files is not None:
                files.write(sha256, data)
            return sha256

        sha256 = stage() if len(data) <= rows.INLINE_BYTES else await self._in_pool(stage)
        await self._put_rows([_blob_row(sha256, data, media_type, inline=files is None)])
        return sha256

    async def put_texts(self, texts: Iterable[str], media_type: str) -> list[str]:
        contents = {sha256_text(text): text.encode() for text in texts}
        small = {sha256: data for sha256, data in contents.items() if len(data) <= rows.INLINE_BYTES}
        large = [self.put_blob(data, media_type) for sha256, data in contents.items() if sha256 not in small]
        if small:
            await self._put_rows([_blob_row(sha256, data, media_type) for sha256, data in small.items()])
        await asyncio.gather(*large)
        return [*contents]

    async def _put_artifact(self, artifacts: Artifacts, data: bytes, media_type: str) -> str:
        sha256 = await self._in_pool(lambda: hashlib.sha256(data).hexdigest())
        # First the row, so that no collection takes what is there; it says whether anything is.
        statement = update(blobs).where(blobs.c.sha256 == sha256).values(touched=self._now())
        touched_row = statement.returning(blobs.c.data.is_(None))
        apart = await self._do(Call(None, lambda connection: connection.execute(touched_row).scalar()))
        if apart is not False:
            await self._carry(lambda: artifacts.write(sha256, data, exists=bool(apart)))
        await self._put_rows([_blob_row(sha256, data, media_type, inline=False)])
        return sha256

    async def _put_rows(self, values: list[dict[str, Any]]) -> None:
        put = Put(values)
        self._put(put)
        await put.future.waiter()

    async def record_components(self, changes: Sequence[ComponentChange]) -> None:
        new = histories.encode(changes)
        if not new:
            return
        keys = histories.components_of(new)
        values = [dict(zip(components.c.keys(), row, strict=True)) for row in new]

        def record(connection: Connection) -> None:
            self._one_at_a_time(connection, "components")
            histories.check_places(new, self._heads(connection, keys))
            # Should another process be first all the same, the key refuses the rows, and the second look (in
            # `_apply_each`) says so.
            connection.execute(insert(components), values)

        await self._do(Call(None, record))

    @staticmethod
    def _heads(connection: Connection, keys: Sequence[histories.Component]) -> dict[histories.Component, int]:
        heads: dict[histories.Component, int] = {}
        for part in parts_of(keys):
            page = connection.execute(HEADS.where(one_of(part)))
            heads |= {(kind, name): seq for kind, name, seq in page}
        return heads

    async def delete_runs(self, runs: Sequence[str]) -> list[str]:
        # Newest first: forks before what they were forked from, which may stand in another transaction.
        order = [*runs]
        if len(order) > 1:
            order = [state.id for state in await self.run_states() if state.id in set(runs)]
        return await self._in_parts(
            lambda connection, part: deletion.delete_runs(connection, part, self._lease_now(jobs.c.owner)),
            order,
            deletion.AT_ONCE,
        )

    async def _in_parts(
        self, remove: Callable[[Connection, list[str]], list[str]], names: list[str], size: int
    ) -> list[str]:
        """Remove a few at a time, a transaction each; return those that were removed."""
        removed: list[str] = []
        for start in range(0, len(names), size):

            def remove_part(connection: Connection, part: list[str] = names[start : start + size]) -> list[str]:
                return remove(connection, part)

            removed += await self._do(Call(None, remove_part))
        return removed

    async def sweep_blobs(self, *, grace_s: float, dry_run: bool = False) -> Swept:
        grace_s = max(grace_s, 2 * writer.TOUCHED_S)
        before = self._now() - grace_s
        sizes = await self._read(lambda connection: deletion.garbage(connection, before, self._bytes_of))

        def remove(connection: Connection, part: list[str]) -> list[str]:
            deleted = deletion.delete_blobs(connection, part, before)
            # Inside the transaction: nobody puts one of them at the same time.
            if self._files is not None:
                self._files.remove(deleted, before=time.time() - grace_s)
            return deleted

        removed = list(sizes) if dry_run else await self._in_parts(remove, list(sizes), AT_ONCE)
        extra = Swept(0, 0)
        if self._files is not None:
            extra = await self._sweep_files(self._files, time.time() - grace_s, dry_run)
        elif self._artifacts is not None:
            extra = await self._sweep_artifacts(self._artifacts, time.time() - grace_s, set(removed), dry_run)
        return Swept(len(removed) + extra.blobs, sum(sizes[sha256] for sha256 in removed) + extra.size)

    async def _sweep_files(self, files: BlobFiles, before: float, dry_run: bool) -> Swept:
        """Remove files that no row names: a process died before it wrote one."""
        old = await self._in_pool(lambda: {name: size for name, at, size in files.names() if at <= before})
        infos = await self.find_blobs(list(old))
        names = [name for name in old if name not in infos]

        def remove(connection: Connection) -> list[str]:
            row = select(blobs.c.sha256)
            orphans = [name for name in names if connection.execute(row.where(blobs.c.sha256 == name)).first() is None]
            return files.remove(orphans, before=before)

        if not dry_run:
            names = await self._do(Call(None, remove))
        return Swept(len(names), sum(old[name] for name in names))

    async def _sweep_artifacts(self, artifacts: Artifacts, before: float, row_names: set[str], dry_run: bool) -> Swept:
        """Remove objects without a row; return those that are not of the rows that are gone."""
        # Whoever puts one of them meanwhile finds no row, writes it anew, and it is no longer old.
        old = await self._carry(lambda: {name: size for name, at, size in artifacts.names() if at <= before})
        infos = await self.find_blobs(list(old))
        names = [name for name in old if name not in infos]
        if not dry_run:
            removed = [self._carry(partial(artifacts.remove, name, before=before)) for name in names]
            names = [name for name, done in zip(names, await asyncio.gather(*removed), strict=True) if done]
        orphans = [name for name in names if name not in row_names]
        return Swept(len(orphans), sum(old[name] for name in orphans))

    async def changed(self) -> bool:
        # Asked on the writer's own connection: a database tells a connection of the commits of all others only, so
        # that a busy writer does not wake its own watcher with every commit.
        external, self._external = self._external, False
        return await self._do(Call(None, self._changed)) or external


def _blob_row(sha256: str, data: bytes, media_type: str, *, inline: bool = True) -> dict[str, Any]:
    return {"sha256": sha256, "size": len(data), "media_type": media_type, "data": data if inline else None}
