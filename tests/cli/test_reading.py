"""Reading the log: without the application, and with runs whose process died."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentorchestra.core.errors import AppError
from agentorchestra.runtime.engine import this_process
from agentorchestra.workspace import open_workspace
from tests.support.cli_reading import WS, dead, here, invoke, make_run

__all__ = ["here"]


@pytest.mark.sampled(2)
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
    assert "  abandoned  " in listed.stdout
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
