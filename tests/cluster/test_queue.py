"""What is queued: its order, its limits, and what other processes tell its runs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentorchestra import Workspace
from agentorchestra.cluster import Jobs
from agentorchestra.cluster.jobs import check_priority, check_tags, queue_of, queues_of
from agentorchestra.core.errors import UsageError
from agentorchestra.core.protocols import Acceptance
from agentorchestra.core.settings import ClusterSettings, ModelLimit, Settings
from agentorchestra.core.spec import RunStatus
from tests.chaos.support import until
from tests.cluster.support import ASKING, Model, Site

pytestmark = pytest.mark.timeout(240)  # several processes, on a machine that may be busy

LIMITED = Settings(cluster=ClusterSettings(limits={"dear": ModelLimit(concurrency=2, per_minute=60)}))


def test_a_run_belongs_to_the_queue_of_its_tags_or_of_its_limited_model() -> None:
    assert queue_of({}, "cheap", LIMITED) == ("runs", 5)
    assert queue_of({"queue.tags": "gpu, browser", "queue.priority": "1"}, "cheap", LIMITED) == ("runs+browser+gpu", 1)
    assert queue_of({}, "dear", LIMITED) == ("runs@dear", 5)
    with pytest.raises(UsageError, match=r"limited over all workers .* cannot ask for workers with tags \(gpu\)"):
        queue_of({"queue.tags": "gpu"}, "dear", LIMITED)


def test_a_worker_listens_to_what_it_can_drive() -> None:
    names = queues_of(("browser", "gpu"), LIMITED)
    assert list(names) == ["runs", "runs+browser", "runs+gpu", "runs+browser+gpu", "runs@dear"]
    assert names["runs@dear"] == ModelLimit(concurrency=2, per_minute=60)


@pytest.mark.parametrize("text", ["0", "10", "-1", "high", "", "٣"])
def test_a_priority_is_a_number_from_1_to_9(text: str) -> None:
    with pytest.raises(UsageError, match=r"it is from 1 \(first\) to 9 \(last\), and 5 if none is given"):
        check_priority(text)


def test_tags_are_words() -> None:
    assert check_tags(["gpu", " browser", "gpu", ""]) == ("browser", "gpu")
    with pytest.raises(UsageError, match=r"the tag 'g\+u' is no word"):
        check_tags(["g+u"])
    with pytest.raises(UsageError, match="7 tags are given"):
        check_tags("abcdefg")


async def test_a_workspace_in_its_folder_has_no_queue(tmp_path: object) -> None:
    async with Workspace(f"{tmp_path}/ws", settings=Settings(model="offline")) as ws:
        with pytest.raises(UsageError, match="a queue needs a database that all machines reach"):
            Jobs(ws)


async def test_the_order_and_the_tags(site: Site) -> None:
    low, middle, high = [
        (await site.submit([number], **({"queue.priority": priority} if priority else {})))[0]
        for number, priority in ((1, "9"), (2, ""), (3, "1"))
    ]
    (tagged,) = await site.submit([4], **{"queue.tags": "gpu"})
    late = await site.ws.create("Describe tide 5.")
    await site.jobs.submit(late)
    await site.jobs.submit(late)  # the same job
    standing = await site.standing()
    assert standing.queues == {"runs": 4, "runs+gpu": 1}
    assert [one.run_id for one in standing.queued] == [high, middle, tagged, late, low]
    assert (standing.workers, standing.statuses) == ((), {"created": 5})
    await site.worker("--concurrency", "1")
    await site.reached(RunStatus.COMPLETED, [high, middle, late, low])
    began = {}
    for run_id in (high, middle, late, low):
        began[run_id] = next(one.ts for one in await site.ws.log.events(run_id) if one.type == "driving_started")
    assert sorted(began, key=lambda run_id: began[run_id]) == [high, middle, late, low]
    assert await site.status(tagged) is RunStatus.CREATED
    standing = await site.standing()
    assert (standing.queues, standing.statuses) == ({"runs+gpu": 1}, {"completed": 4, "created": 1})
    assert [(one.concurrency, one.alive, one.runs) for one in standing.workers] == [(1, True, ())]


@pytest.mark.long
async def test_runs_are_told_and_stopped_from_other_processes(site: Site, model: Model) -> None:
    model.hold = {1}
    (asking,) = await site.submit([ASKING])
    lost = await site.ws.create("Describe tide 2.", accepted=Acceptance(datetime.now(UTC)))
    cancelled = await site.ws.create("Describe tide 3.")
    await site.jobs.submit(cancelled)
    await site.ws.cancel(cancelled, reason="not wanted")
    (held,) = await site.submit([1])
    worker = await site.worker()
    await until(lambda: model.held[1] == 2, worker)
    await site.ws.cancel(held, reason="enough")
    await site.reached(RunStatus.CANCELLED, [held, cancelled])
    assert await site.begun(cancelled) == 0
    await site.reached(RunStatus.WAITING, [asking])
    await site.ws.answer(asking, "Yes.")
    await site.reached(RunStatus.COMPLETED, [asking])
    # A server in front took this one on, and leaves it to the workers.
    await site.reached(RunStatus.COMPLETED, [lost])
    model.hold = set()
    model.release.set()
    await site.ws.runs.enqueue(held)
    await site.jobs.submit(held)
    await site.reached(RunStatus.COMPLETED, [held])


@pytest.mark.long
async def test_a_worker_with_other_settings_is_refused(site: Site, model: Model) -> None:
    await site.worker()
    other = site.folder / "agentorchestra.toml"
    other.write_text("max_steps = 7\n" + other.read_text())
    refused = site.process("worker")
    said = refused.communicate(timeout=100)[1]
    assert refused.returncode == 2
    assert "they differ in max_steps" in said and "Traceback" not in said


def test_a_limit_of_requests_alone_needs_no_queue_of_its_own() -> None:
    settings = Settings(cluster=ClusterSettings(limits={"dear": ModelLimit(requests=2, requests_per_minute=60)}))
    assert queue_of({"queue.tags": "gpu"}, "dear", settings) == ("runs+gpu", 5)
    assert list(queues_of((), settings)) == ["runs"]
    with pytest.raises(ValueError, match="name at least one of concurrency, per_minute, requests, requests_per_minute"):
        ModelLimit()
