"""The changes of a run on their way into its project: shown as a diff, applied or committed, or left for later."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from agentorchestra.cli.delivery import Out, hand_over
from agentorchestra.cli.options import option, together
from agentorchestra.cli.output import command, one_line, plural, print_result, say
from agentorchestra.cli.workspaces import verdict_on
from agentorchestra.core.spec import FINAL, RunStatus, first_names

if TYPE_CHECKING:
    from agentorchestra.core.spec import RunResult
    from agentorchestra.workspace import Workspace
    from agentorchestra.workspace.changes import Applied

F = TypeVar("F", bound=Callable[..., Any])

ON_A_COPY = "commands run in a sandbox, in a copy of {}: without a question; its diff follows"
"""The line with which work on a folder of the user's begins."""

MOST_LINES = 1000
"""Lines of a diff that are shown after a run."""

_OUT_OF_BUDGET = (RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT)


class ApplyOptions(NamedTuple):
    """What is to become of the changes: `apply` without a question, or a commit as `branch`."""

    apply: bool = False
    branch: str | None = None

    async def check(self, project: Path | None) -> None:
        """Refuse (ProjectError) a branch that cannot be made, before anything is spent."""
        from agentorchestra.workspace.changes import check_branch

        if project is None and (self.apply or self.branch is not None):
            raise click.UsageError("--apply and --branch are for a run on a folder of yours; give --in DIR")
        if project is not None and self.branch is not None:
            await asyncio.to_thread(check_branch, project, self.branch)


def landing_options(function: F) -> F:
    """Add `--apply` and `--branch NAME`, as `landing`."""

    @wraps(function)
    def with_landing(*args: Any, apply: bool, branch: str | None, **values: Any) -> Any:
        if apply and branch is not None:
            raise click.UsageError("--apply and --branch exclude each other; give one of them")
        return function(*args, landing=ApplyOptions(apply, branch), **values)

    apply_option = click.option(
        "--apply", is_flag=True, help="Bring the changes into DIR without a question, if all went well."
    )
    return cast("F", together(apply_option, branch_option)(with_landing))


branch_option = option(
    "--branch",
    metavar="NAME",
    help="Commit the changes as a new branch; no file of DIR, and nothing that is staged there, changes.",
)


def is_solved(result: RunResult) -> bool:
    """Return True if a run did what it was to do, as far as that can be told: by its tests, or by its end."""
    return result.tests.passed if result.tests is not None else result.status is RunStatus.COMPLETED


def exit_code_of_code(result: RunResult) -> int:
    if result.status is RunStatus.CANCELLED:
        return 130
    if result.status in (RunStatus.WAITING, RunStatus.PAUSED):
        return 5
    if is_solved(result):
        return 0
    if result.status in _OUT_OF_BUDGET:
        return 4
    return 1 if result.tests is not None or result.status is RunStatus.FAILED else 3


async def finish(
    workspace: Workspace[Any],
    result: RunResult,
    landing: ApplyOptions,
    folder: Path,
    out: Out,
    *,
    as_json: bool,
    quiet: bool = False,
    code_of: Callable[[RunResult], int] | None = None,
) -> int:
    """Print the result of a run, and bring what it made and changed to where its user wants it; return the exit code.

    Args:
        folder: the workspace as it was named, for the commands in messages.
        quiet: print the answer, and what goes wrong.
        code_of: the exit code by the result, None for that of `agentorchestra run`.
    """
    verdict = await verdict_on(workspace, result)
    delivery = await hand_over(workspace, result, out, folder)
    record = await workspace.store.get_run(result.run_id)
    project = record.manifest.project if record is not None else None
    if project is None or not project.path:
        code = print_result(delivery.result, folder, as_json=as_json, verdict=verdict, delivery=delivery, quiet=quiet)
        return code if code_of is None else code_of(result)
    place = Path(project.path)
    if as_json:
        outcome = await _land(workspace, result, landing, folder, place, ask=False)
        delivery = delivery._replace(applied=_plain(outcome.applied))
        code = print_result(delivery.result, folder, as_json=True, delivery=delivery)
    else:
        code = print_result(delivery.result, folder, as_json=False, delivery=delivery, quiet=quiet)
        if result.diff and not quiet:
            show_diff(result.diff)
        outcome = await _land(workspace, result, landing, folder, place, ask=sys.stdin.isatty())
    for line in outcome.lines:
        say(line)
    code = code if code_of is None else code_of(result)
    return code or int(outcome.failed)


class _Landed(NamedTuple):
    lines: tuple[str, ...] = ()
    applied: Applied | None = None
    failed: bool = False


async def _land(
    workspace: Workspace[Any], result: RunResult, landing: ApplyOptions, folder: Path, place: Path, *, ask: bool
) -> _Landed:
    from agentorchestra.core.errors import ProjectError

    later = command("apply", result.run_id, folder)
    if result.status not in FINAL and result.status not in (*_OUT_OF_BUDGET, RunStatus.FAILED):
        return _Landed()  # it goes on
    try:
        changes = await workspace.files.changes(result.run_id)
    except ProjectError as exc:
        return _Landed((f"error: {one_line(str(exc), 2000)}",), failed=True)
    reasons = {"too large for the diff": changes.left_out, "ignored by Git": changes.ignored}
    notes = (f"{first_names(files, 5)}: {key}, in {result.folder} only" for key, files in reasons.items() if files)
    lines = tuple(one_line(line, 1000) for line in notes)
    if not changes.files:
        return _Landed((*lines, f"nothing was changed in the copy of {place}"))
    applies = landing.apply or landing.branch is not None
    if applies and not is_solved(result):
        reason = result.tests.why if result.tests is not None else f"the run ended as {result.status.value}"
        return _Landed((*lines, f"nothing was applied, because {reason}; {later} applies it all the same"))
    if not applies and not (ask and _confirm(len(changes.files), place)):
        return _Landed((*lines, f"to apply it to {place}: {later}"))
    try:
        outcome = await workspace.files.apply(result.run_id, branch=landing.branch)
    except ProjectError as exc:
        return _Landed((*lines, f"error: {one_line(str(exc), 2000)}", f"to try again: {later}"), failed=True)
    return _Landed((*lines, applied_line(outcome)), outcome)


def _confirm(count: int, place: Path) -> bool:
    try:
        return click.confirm(f"Apply the changes of {plural(count, 'file')} to {place}?", default=False, err=True)
    except click.Abort:
        say("")
        return False


def applied_line(outcome: Applied) -> str:
    names = first_names(map(one_line, outcome.changed), 10)
    if outcome.branch:
        line = f"committed as {outcome.branch} ({outcome.commit[:12]}): {names}"
        return f"{line}; to look at it: git -C {outcome.folder} show {outcome.branch}"
    if not outcome.written:
        return f"{outcome.folder} has all of it already: {names}" if outcome.changed else "there is nothing to apply"
    return f"applied to {outcome.folder}: {names}"


def _plain(outcome: Applied | None) -> dict[str, Any] | None:
    return None if outcome is None else outcome._asdict() | {"folder": str(outcome.folder)}


def show_diff(diff: str) -> None:
    lines = diff.splitlines()
    for line in lines[:MOST_LINES]:
        say(line, diff=True)
    if len(lines) > MOST_LINES:
        say(f"[{len(lines) - MOST_LINES:,} further lines of the diff; --json has all of it]")
