"""Reading the log: without the application, and with runs whose process died."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from agentorchestra.cli import group
from agentorchestra.core.clock import SystemClock
from agentorchestra.core.errors import AppError
from agentorchestra.core.events import Noted, new_event
from agentorchestra.core.protocols import Owner
from agentorchestra.core.spec import RunStatus
from agentorchestra.runtime.engine import this_process
from agentorchestra.runtime.run import wait_for
from agentorchestra.workspace import Workspace, open_workspace

WS = ".agentorchestra"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, without the workspace of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTORCHESTRA_WORKSPACE", raising=False)
    return tmp_path


def invoke(*words: str) -> Result:
    return CliRunner().invoke(group.cli, list(words), prog_name="agentorchestra", catch_exceptions=False)


def make_run(owner: Owner | None = None) -> str:
    """A run in the log; with an owner, one that this process drives."""

    async def work() -> str:
        async with Workspace(WS) as workspace:
            run_id = await workspace.create("What is it?")
            if owner is not None:
                epoch = await workspace.store.claim(run_id, owner, lease_s=30.0)
                assert epoch is not None
                event = new_event(Noted(message="begun"), ts=SystemClock().now())
                await wait_for(workspace.store.append(run_id, epoch, [event], status=RunStatus.RUNNING))
            return run_id

    return asyncio.run(work())


def dead() -> Owner:
    """This process's number, as another process had it before."""
    alive = this_process()
    return Owner(host=alive.host, pid=alive.pid, started=psutil.Process(os.getpid()).create_time() - 1000)


@pytest.mark.parametrize("words", [["runs"], ["show", "last"], ["tell", "last", "more"], ["cancel", "last"]])
def test_a_broken_application_does_not_hide_the_log(here: Path, words: list[str]) -> None:
    run_id = make_run()
    (here / "agentorchestra.toml").write_text('app = "no_such_module_here:workspace"')
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    assert run_id in done.stdout
    with pytest.raises(AppError):
        open_workspace(WS)


def test_a_run_whose_process_died_is_said_to_be_so() -> None:
    run_id = make_run(dead())
    go_on = f"to go on: agentorchestra resume {run_id}"
    listed = invoke("runs")
    assert "running (gone)" in listed.stdout
    assert go_on in listed.stderr
    shown = invoke("show", run_id)
    assert "running (the process that drove it is gone)" in shown.stdout
    assert (go_on in shown.stdout, shown.stderr) == (True, "")
    assert [one["abandoned"] for one in json.loads(invoke("runs", "--json").stdout)] == [True]
    assert json.loads(invoke("show", run_id, "--json").stdout)["abandoned"] is True
    assert "when the run goes on" in invoke("tell", run_id, "more").stdout


def test_a_run_that_is_driven_is_running() -> None:
    run_id = make_run(this_process())
    assert "gone" not in invoke("runs").output
    assert "gone" not in invoke("show", run_id).output
    assert [one["abandoned"] for one in json.loads(invoke("runs", "--json").stdout)] == [False]


def test_a_label_given_twice_is_refused(here: Path) -> None:
    done = invoke("run", "What?", "--label", "a=b", "--label", "a=c")
    assert done.exit_code == 2
    assert "'a' is given more than once" in done.output
    assert not (here / WS).exists()
