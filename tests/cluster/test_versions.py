"""Two versions of the package at work on one database: each drives what it can, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

import agentorchestra
from agentorchestra.cluster.jobs import Jobs, version_of
from agentorchestra.core.spec import RunStatus
from agentorchestra.workspace.catalog import code_digest
from tests.chaos.support import SOURCE, until
from tests.cluster.support import ASKING, Model, Site, stopped

pytestmark = pytest.mark.timeout(240)  # many processes, on a machine that may be busy

OWN = version_of(code_digest())


async def _versions(jobs: Jobs) -> dict[str, int]:
    """The queued jobs by the version whose workers take them."""
    found: dict[str, int] = {}
    for job in await jobs.under_way():
        found[str(job.app_version)] = found.get(str(job.app_version), 0) + 1
    return found


def _register(jobs: Jobs, versions: Sequence[str]) -> None:
    """As workers of these versions do when they start, one after the other."""
    for version in versions:
        jobs._open_client._sys_db.create_application_version(version)


async def test_jobs_are_handed_to_later_code_and_never_to_earlier(site: Site) -> None:
    _register(site.jobs, ["2.earlier", OWN, "2.later"])
    await site.submit([1, 2])
    assert await _versions(site.jobs) == {OWN: 2}
    assert await site.jobs.hand_over([OWN, "2.later"]) == {}  # they have their workers
    assert await site.jobs.hand_over(["2.earlier"]) == {}  # it may not understand them
    assert await site.jobs.hand_over([]) == {}
    assert await _versions(site.jobs) == {OWN: 2}
    assert (await site.standing()).no_worker == {OWN: 2}
    assert await site.jobs.hand_over(["2.earlier", "2.later"]) == {OWN: 2}
    assert await _versions(site.jobs) == {"2.later": 2}


async def test_a_run_that_nobody_drove_is_for_any_worker_where_none_has_its_code(site: Site) -> None:
    """Whoever queued it has code that no worker ever had."""
    _register(site.jobs, ["2.earlier"])
    await site.submit([1])
    assert await site.jobs.hand_over(["2.earlier"]) == {OWN: 1}


def _later(folder: Path) -> str:
    """Make a later version of the package, with another text of a tool that every run has; return its PYTHONPATH."""
    package, place = Path(agentorchestra.__file__).parent, folder / "later" / "agentorchestra"
    (place / "tools").mkdir(parents=True)
    for entry in package.iterdir():
        if entry.name not in ("tools", "__pycache__"):
            (place / entry.name).symlink_to(entry)
    for entry in (package / "tools").iterdir():
        if entry.name not in ("todo.py", "__pycache__"):
            (place / "tools" / entry.name).symlink_to(entry)
    text = (package / "tools" / "todo.py").read_text()
    changed = text.replace('    """', '    """Later: ', 1)
    assert changed != text
    (place / "tools" / "todo.py").write_text(changed)
    return os.pathsep.join([str(place.parent), str(SOURCE)])


@pytest.mark.long
async def test_what_waited_through_an_upgrade_goes_on(site: Site, model: Model, tmp_path: Path) -> None:
    later = {"PYTHONPATH": _later(tmp_path)}
    old = await site.worker()
    (asking,) = await site.submit([ASKING])
    await site.reached(RunStatus.WAITING, [asking])
    model.hold = {1}
    runs = {1: (await site.submit([1]))[0]}
    await until(lambda: model.held[1] == 2, old)
    new = await site.worker(environ=later)
    assert {one.alive for one in (await site.standing()).workers} == {True}
    # What the old one has stays with it while it is there; then the new one goes on with it, and with what waited.
    stopping = asyncio.create_task(stopped(old, signal.SIGTERM))
    model.release.set()
    assert (await stopping)[0] == 0
    await site.reached(RunStatus.COMPLETED, [runs[1]])
    await site.whole(runs)
    (question,) = await site.ws.runs.questions(asking)
    await site.ws.answer(asking, "yes", question=question.key)
    await site.reached(RunStatus.COMPLETED, [asking])
    notes = [str((event.body or {})["message"]) for event in await site.ws.log.events(asking) if event.type == "noted"]
    assert any(note.startswith("tool todo changed since the run was started") for note in notes), notes
    # The other way round: what the new one drove waits for its code, and the old one takes what is its own.
    (later_asking,) = await site.submit([ASKING])
    await site.reached(RunStatus.WAITING, [later_asking])
    assert (await stopped(new, signal.SIGTERM))[0] == 0
    again = await site.worker()
    (question,) = await site.ws.runs.questions(later_asking)
    await site.ws.answer(later_asking, "yes", question=question.key)
    (own,) = await site.submit([2])
    await site.reached(RunStatus.COMPLETED, [own])
    while not (await site.standing()).no_worker:  # noqa: ASYNC110  # other processes change it
        await asyncio.sleep(0.1)
    assert await site.status(later_asking) is RunStatus.WAITING and again.poll() is None
    await site.worker(environ=later)
    await site.reached(RunStatus.COMPLETED, [later_asking])
