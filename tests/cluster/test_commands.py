"""What `submit`, `worker` and `status` refuse, and what they print."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from agentorchestra.cluster import Worker
from agentorchestra.core.spec import RunStatus
from tests import warm
from tests.cluster.support import Site

pytestmark = pytest.mark.timeout(240)  # several processes, on a machine that may be busy


def ended(*words: str | Path, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
    """A command of a process: exit code, output, errors."""
    done = warm.run(["-m", "agentorchestra.cli", *words], environ=environ or os.environ)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", [("worker",), ("status",), ("submit", "Count.")])
def test_without_a_database_it_says_what_to_set(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, out, err = ended(*words, "--workspace", tmp_path / "ws")
    assert (code, out) == (2, "")
    assert "a queue needs a database that all machines reach" in err and "--database" in err


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    nowhere = "postgresql://somebody@127.0.0.1:1/nothing"
    environ = {**os.environ, "AGENTORCHESTRA_DATABASE_RETRY_S": "0"}
    code, _, err = ended("worker", "--database", nowhere, "--workspace", tmp_path / "ws", environ=environ)
    assert code == 1
    assert "cannot connect to the database postgresql://somebody@127.0.0.1:1/nothing" in err


@pytest.mark.long
async def test_what_is_submitted_is_shown(site: Site) -> None:
    there = ("--workspace", site.folder / "ws")
    for words, sentence in (
        (("submit", *there), "give a TASK or --again RUN, one of the two"),
        (("submit", "Count.", "--tag", "g u", *there), "the tag 'g u' is no word"),
        (("submit", "Count.", "--label", "queue.priority=0", *there), "the priority is '0'; it is from 1 (first)"),
        (("submit", "--again", "run_01", *there), "no run 'run_01' in the workspace"),
        (("worker", "--tags", "a,b,c,d,e,f,g", *there), "7 tags are given"),
    ):
        code, out, err = ended(*words)
        assert (code, out) == (2, ""), err
        assert sentence in err
    assert await site.ws.runs.list() == []
    code, out, err = ended("submit", "Describe tide 1.", "--priority", "2", "--tag", "gpu", *there)
    assert code == 0, err
    run_id = out.strip()
    _, printed, _ = ended("status", "--json", *there)
    standing = json.loads(printed)
    assert [(one["run_id"], one["queue"], one["priority"]) for one in standing["queued"]] == [(run_id, "runs+gpu", 2)]
    await site.worker("--tags", "gpu,browser")
    await site.reached(RunStatus.COMPLETED, [run_id])
    code, out, _ = ended("status", *there)
    assert code == 0 and out.startswith("1 worker\n") and "tags browser, gpu" in out
    assert "0 runs queued\n" in out and "runs: 1 completed\n" in out


@pytest.mark.parametrize("present", [True, False])
async def test_what_the_queue_says_is_a_sentence_while_the_database_is_there(
    site: Site, caplog: pytest.LogCaptureFixture, present: bool
) -> None:
    worker = Worker(site.ws)
    if present:
        worker._present.set()
    said = logging.getLogger("tests.said")
    said.addFilter(worker._worth_saying)
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    g()\nValueError: no schedule\n'
    said.warning(f"Exception polling schedules: {trace}")
    said.warning("The queue %s is full", "runs")
    expected = ["Exception polling schedules: ValueError: no schedule", "The queue runs is full"]
    assert [one.getMessage() for one in caplog.records] == (expected if present else [])
