"""A job: a run is driven to an end or to where it waits, or replayed; what a caller gets of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import (
    AgentOrchestraError,
    ArtifactsUnavailableError,
    BudgetExhaustedError,
    ReplayError,
    ScriptError,
    StoreError,
    SuspendedError,
)
from agentorchestra.core.events import BudgetExhausted, DrivingStarted, RunEnded
from agentorchestra.core.protocols import Owner
from agentorchestra.core.spec import FINAL, AgentResult, RunManifest, RunResult, RunStatus
from agentorchestra.log.folders import MAIN, WORKED_ON, clear_up, world_folder
from agentorchestra.runtime.bus import Notice
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.files import FolderFiles, made_files
from agentorchestra.runtime.parallel import ReplayEnd
from agentorchestra.runtime.run import PAUSE_HINT, Run, observe, open_questions, wait_for
from agentorchestra.runtime.worlds import bring_to_disk
from agentorchestra.trust.plan import is_of_plan

HANDED_ON = "the process that drove it stopped, and handed it on"
"""Says so of a run that stays `running` without a driver."""

Main = Callable[[BranchContext[Any]], Awaitable[AgentResult]]  # performs the top agent on the root branch


@dataclass
class _End:
    status: RunStatus = RunStatus.FAILED
    error: str | None = None
    error_type: str | None = None
    result: AgentResult | None = None  # what the top agent handed back, None where it did not come so far
    waiting: list[str] = field(default_factory=list)  # keys of what is waited for
    until: datetime | None = None  # when the first timer is due
    cancelled: asyncio.CancelledError | None = None  # the cancellation of the caller's task
    script: ScriptError | None = None  # a test's script is wrong
    away: ArtifactsUnavailableError | None = None  # what is kept apart from the log cannot be had now

    def fail(self, exc: Exception, sentence: str) -> None:
        self.status, self.error, self.error_type = RunStatus.FAILED, sentence, type(exc).__name__


async def drive(
    run: Run, main: Main, *, owner: Owner | None = None, code: str = "", changed: Mapping[str, str] | None = None
) -> RunResult:
    """Drive a run to an end or to where it waits; every way out leaves its status in the log.

    Args:
        main: performs the top agent on the root branch.
        owner: this process.
        code, changed: see DrivingStarted.

    Raises:
        asyncio.CancelledError: if the caller's task was cancelled (after the status was written).
        StoreError: if the log itself fails, or the artifacts are away (after the status was written).
    """
    root: BranchContext[Any] = BranchContext.root(run)
    run.driving_since = run.clock.monotonic()
    try:
        started = DrivingStarted(owner=str(owner or ""), epoch=run.epoch or 0, code=code, changed={**(changed or {})})
        end = await _end_of(run, root, main, started)
    except StoreError:
        # The log refused: what was recorded stays, nothing more can be said in it.
        await root.spawns.end()
        await _put_away(run)
        raise
    result = end.result or AgentResult(status=end.status if root.partial else RunStatus.FAILED, **_partial(root))
    active_s, folder_files, tests = run.active_s(), FolderFiles(), None
    try:
        await root.spawns.end()
        if end.result is not None:
            await bring_to_disk(run, root.world, root)
        if end.status is not RunStatus.RUNNING:  # another process goes on; the store may be away
            folder_files = await _folder_files(run)
        active_s = run.active_s()
        try:
            if run.services.ended is not None:
                tests = await run.services.ended(run, end.status)
        finally:
            await _put_away(run)
    finally:
        end_body = RunEnded(
            status=end.status,
            active_s=round(active_s, 3),
            result=run.redactor.json(result.model_dump(mode="json", exclude_defaults=True)),
            error=None if end.error is None else run.redactor.text(end.error),
            error_type=end.error_type,
            waiting_for=end.waiting,
            until=end.until,
            files=run.redactor.json([file.model_dump(mode="json") for file in folder_files.files]),
            more_files=folder_files.more,
            tests=None if tests is None else run.redactor.json(tests.model_dump(mode="json")),
        )
        # Queued synchronously: a further cancellation must not leave the run without its status.
        append = run.append(run.body(end_body), status=end.status)
        observe(append)
    await asyncio.shield(wait_for(append))
    run.driving_since = None
    final = make_result(run.id, run.manifest, end_body, run)
    run.answer.settle(final.answer_text if final.has_answer else "")
    run.bus.publish(Notice(kind="end", run=run.id, result=final))
    if end.cancelled is not None and not run.ledger.cancel_requested:
        raise end.cancelled
    if end.script is not None:
        raise end.script  # louder than a status
    if end.away is not None:
        raise end.away
    return final


async def _end_of(run: Run, root: BranchContext[Any], main: Main, driving: DrivingStarted) -> _End:
    """Do the work of a job; return how it ended. StoreError where the log refused."""
    end = _End()
    started = run.body(driving)
    run.begin(started.ts)
    limit = run.budget.limits.active_s
    try:
        remaining = None if limit is None else max(0.0, limit - run.active_s())
        async with asyncio.timeout(remaining) as deadline:
            (seq,) = await wait_for(run.append(started, status=RunStatus.RUNNING))
            run.drive(seq, driving.code, driving.changed)
            await asyncio.sleep(0)  # a cancellation that came before this is heard here
            if (
                run.epoch is not None and run.epoch > 1 and run.manifest.part_of is None
            ):  # a part is in its run's folder
                await asyncio.to_thread(clear_up, run.folder)
            end.result = await main(root)
        end.status = end.result.status
    except TimeoutError as exc:
        if deadline.expired():
            end.status = RunStatus.TIMED_OUT
            end.error = f"the time limit of {limit:g} active seconds is over; resume with a larger --timeout-s to go on"
        else:  # not the run's own limit: something in an agent or system took too long
            end.fail(exc, f"the system failed: {type(exc).__name__}: {exc}")
    except SuspendedError as exc:
        halt = run.division.halt_status()
        if run.leaving and not run.ledger.pause_requested and halt is not RunStatus.COMPLETED:
            end.status, end.error = RunStatus.RUNNING, HANDED_ON
        elif halt is not None:
            end.status, end.error = halt, str(exc)
        else:
            end.status, end.error = (RunStatus.PAUSED, PAUSE_HINT) if run.pausing else (RunStatus.WAITING, str(exc))
            end.waiting, end.until = list(exc.waiting_for), exc.until
    except BudgetExhaustedError as exc:
        end.status = RunStatus.TIMED_OUT if exc.resource == "active_s" else RunStatus.BUDGET_EXHAUSTED
        end.error = str(exc)
        observe(run.append(run.body(BudgetExhausted(resource=exc.resource, message=str(exc)))))
    except asyncio.CancelledError as exc:
        reason = "cancelled on request" if run.ledger.cancel_requested else "cancelled"
        end.status, end.cancelled = RunStatus.CANCELLED, exc
        end.error = f"{reason}; `agentorchestra resume` goes on from here"
        if run.leaving and not run.ledger.cancel_requested:
            end.status, end.error = RunStatus.RUNNING, HANDED_ON
    except ArtifactsUnavailableError as exc:  # the log can be written: it says that no driver died
        end.status, end.error, end.away = RunStatus.RUNNING, str(exc), exc
    except StoreError:
        raise
    except AgentOrchestraError as exc:
        end.fail(exc, str(exc))
        end.script = exc if isinstance(exc, ScriptError) else None
    except Exception as exc:  # a bug in an agent or system: the log says so, and the run can be resumed
        end.fail(exc, f"the system failed: {type(exc).__name__}: {exc}")
    return end


async def replay(run: Run, main: Main) -> AgentResult | None:
    """Run the same code with no handlers, against the recording; None when that ends before the answer.

    Raises:
        DivergedError: at the first effect that differs.
        ReplayError: if the keys visited are not the keys recorded.
    """
    root: BranchContext[Any] = BranchContext.root(run)
    result: AgentResult | None = None
    with contextlib.suppress(ReplayEnd, SuspendedError, BudgetExhaustedError):
        result = await main(root)
    # No code asks for a plan but the door, where it judges what is not recorded.
    missing = sorted(key for key in set(run.ledger.records) - run.visited if not is_of_plan(key))
    if missing:
        raise ReplayError(
            f"the replay of {run.id} never asked for {len(missing)} recorded effects, first {missing[0]}; "
            "the code or a prompt changed: `agentorchestra show` lists the recorded effects"
        )
    return result


async def _folder_files(run: Run) -> FolderFiles:
    """Return what the run made or changed in its folder, by its log; nothing, with a note, where it cannot be read."""
    if run.services.folder_files is None:
        return FolderFiles()
    try:
        return await run.services.folder_files(run)
    except (AgentOrchestraError, OSError) as exc:  # how the run ended is written whatever becomes of this list
        run.note(
            f"the files of its folder could not be listed ({exc}); `agentorchestra files` tries again", level="warning"
        )
        return FolderFiles()


async def _put_away(run: Run) -> None:
    """Close the environments; nothing of the run stays behind in this process."""
    for live in run.environments.values():
        await live.close()
    run.environments.clear()


def _partial(root: BranchContext[Any]) -> dict[str, Any]:
    """Return how far the top agent came, as fields of a result."""
    fields = root.partial if isinstance(root.partial, dict) else {}
    return {name: fields[name] for name in ("memory", "steps", "report", "answer", "sources") if name in fields}


def make_result(run_id: str, manifest: RunManifest, end: RunEnded, run: Run) -> RunResult:
    agent = AgentResult.model_validate(end.result)
    total = Usage()
    for usage in run.usage_by_model.values():
        total = total + usage
    artifacts = [a for record in run.ledger.records.values() if record.outcome for a in record.outcome.artifacts]
    worked_on = world_folder(run.folder, MAIN) / WORKED_ON
    return RunResult(
        status=RunStatus(end.status),
        answer_text=agent.answer,
        output_value=agent.output if agent.output is not None else (agent.answer or None),
        report=agent.report or (agent.memory if end.status not in FINAL else ""),
        sources=agent.sources,
        usage=total,
        usage_by_model=dict(sorted((k, v) for k, v in run.usage_by_model.items() if k)),
        cost_usd=total.cost_usd,
        run_id=run_id,
        session=manifest.session,
        system=manifest.system,
        model=manifest.model,
        duration_s=end.active_s,
        artifacts=tuple(dict.fromkeys(artifacts)),  # an effect made of others hands on what is theirs
        files=made_files(run.ledger, end.files),
        more_files=end.more_files,
        tests=end.tests,
        folder=str(worked_on) if worked_on.is_dir() and any(worked_on.iterdir()) else None,
        questions=open_questions(run.ledger) if end.status in (RunStatus.WAITING, RunStatus.PAUSED) else (),
        until=end.until,
        error=end.error,
        error_type=end.error_type,
        steps=run.steps,
    )
