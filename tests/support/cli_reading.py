"""What `tests/cli/test_reading.py` and other tests share."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentorchestra.cli import group
from agentorchestra.core.clock import SystemClock
from agentorchestra.core.events import Noted, new_event
from agentorchestra.core.protocols import Owner
from agentorchestra.core.spec import RunStatus
from agentorchestra.runtime.engine import this_process
from agentorchestra.runtime.run import wait_for
from agentorchestra.workspace import Workspace

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
    assert alive.ticks is not None
    return alive.model_copy(update={"ticks": alive.ticks - 1000})
