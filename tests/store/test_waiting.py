"""Finding the runs that wait: one query, whatever the number of runs and the length of their logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from tests.store.support import done, manifest

from agentorchestra.core.events import RunEnded, Told, new_event
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import SqliteStore
from agentorchestra.log.store.rows import INLINE_BYTES
from agentorchestra.runtime.engine import this_process

NOW = datetime(2026, 10, 25, 0, 59, 59, tzinfo=UTC)


async def _ended(store: Store, run: str, status: RunStatus, until: datetime | None = None, report: str = "") -> None:
    await store.create_run(run, manifest(), [])
    epoch = await store.claim(run, this_process(), lease_s=60)
    body = RunEnded(status=status, active_s=1.0, until=until, result={"report": report})
    for _ in range(2):  # a run that waited before
        await done(store.append(run, epoch, [new_event(body, ts=NOW)], status=status))


async def test_only_waiting_runs_with_their_last_end(store: Store) -> None:
    soon = NOW + timedelta(days=3)
    await _ended(store, "run_b", RunStatus.WAITING, soon, report="x" * INLINE_BYTES)
    await _ended(store, "run_a", RunStatus.WAITING)
    await _ended(store, "run_c", RunStatus.PAUSED, soon)
    await _ended(store, "run_d", RunStatus.COMPLETED)
    await store.create_run("run_e", manifest(), [])
    await done(store.append("run_a", None, [new_event(Told(text="hello"), ts=NOW)]))
    found = [(one.run, one.seq, one.data.until, heard) for one, heard in await store.waiting()]  # type: ignore[attr-defined]
    assert found == [("run_a", 2, None, True), ("run_b", 2, soon, False)]
    assert [one.run for one, _ in await store.waiting(["run_b", "run_c"])] == ["run_b"]


@pytest.mark.long
async def test_hundreds_of_them_are_one_query(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    try:
        for number in range(300):
            await _ended(store, f"run_{number:03}", RunStatus.WAITING, NOW)
        statements: list[tuple[str, Any]] = []

        def note(connection: Any, cursor: Any, statement: str, parameters: Any, *more: Any) -> None:
            statements.append((statement, parameters))

        event.listen(store._read_engine, "before_cursor_execute", note)
        assert len(await store.waiting()) == 300
        ((statement, parameters),) = statements
        with store._read_engine.connect() as connection:  # type: ignore[union-attr]
            plan = str(connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statement, parameters).all())
    finally:
        await store.close()
    assert "SCAN" not in plan, plan
    assert "ix_runs_status" in plan
