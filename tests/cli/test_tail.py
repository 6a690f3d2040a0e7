"""`tail`: a run is followed from its log. What drives it is another thread here, with a workspace of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentorchestra.cli import group
from tests.cli.team import TASK, Gate, team
from tests.support.cli_reading import dead, here, invoke, make_run
from tests.support.patience import LONGEST_S

__all__ = ["here"]

WS = Path(".agentorchestra")


def follow(*words: str) -> tuple[int, Result]:
    """`tail` with its exit code, which click drops by itself."""
    done = CliRunner().invoke(group.cli, ["tail", *words], standalone_mode=False, catch_exceptions=False)
    return int(done.return_value), done


class Driver:
    """Drives a run of the team in a thread until its prices are asked for; `go_on` lets it end."""

    def __init__(self, *, asks: bool = False) -> None:
        self.run_id = ""
        self._asks = asks
        self._gate: Gate | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._drive()))

    def __enter__(self) -> Driver:
        self._thread.start()
        assert self._ready.wait(LONGEST_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def go_on(self) -> None:
        """Open the gate."""
        assert self._loop is not None
        assert self._gate is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._gate.opened.set)

    async def _drive(self) -> None:
        self._loop, self._gate = asyncio.get_running_loop(), Gate()
        async with team(WS, in_memory=False, tools=self._gate, asks=self._asks) as ws:
            self.run_id = await ws.create(TASK, model="scripted", system="react")
            self._ready.set()
            await ws.resume(self.run_id)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_is_followed_to_its_end(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    tail = import_module("agentorchestra.cli.commands.tail")
    printed: list[str] = []
    real = tail.emit_json if as_json else tail.emit
    with Driver() as driver:

        def spy(value: Any, **options: Any) -> bool:
            printed.append(json.dumps(value))
            if "agent reader-B" in printed[-1] or '"reader-B"' in printed[-1]:
                assert not any('"run_ended"' in one or one.startswith('"completed, ') for one in printed), (
                    "it is not over yet"
                )
                driver.go_on()
            return bool(real(value, **options))

        monkeypatch.setattr(tail, "emit_json" if as_json else "emit", spy)
        code, done = follow(driver.run_id, *(["--json"] if as_json else []))
    assert code == 0
    lines = done.stdout.splitlines()
    if as_json:
        events = [json.loads(line) for line in lines]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["type"] == "run_ended"
        assert events == json.loads(invoke("show", driver.run_id, "--json").stdout)["events"]
    else:
        assert lines[0] == "step 1 (react)"
        assert "  agent reader-A: Read offer A." in lines
        assert '  price_of(offer="B")  (reader-B)' in lines, "agents that work at the same time are told apart"
        assert lines[-1].startswith(f"completed, {driver.run_id}, 8 steps, ")


def test_it_ends_where_the_run_waits() -> None:
    with Driver(asks=True) as driver:
        driver.go_on()
        code, done = follow("last")
    assert code == 3
    assert "  question: In euros?" in done.stdout.splitlines()
    assert f"to answer it: agentorchestra answer {driver.run_id} TEXT" in done.stderr


@pytest.mark.long
def test_what_other_processes_do_is_in_it() -> None:
    with Driver(asks=True) as driver:
        driver.go_on()
        assert follow("last")[0] == 3
    assert invoke("tell", "last", "in cents \x1b[31mplease").exit_code == 0
    assert invoke("answer", "last", "yes", "--no-resume").exit_code == 0
    assert invoke("cancel", "last", "--reason", "enough").exit_code == 0
    code, done = follow("last")
    assert code == 130
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith(("  told", "  answered", "  asked"))] == [
        "  told: in cents [31mplease",
        "  answered: yes",
        "  asked to stop: enough",
    ]


def test_a_run_whose_process_died_has_nothing_to_follow() -> None:
    run_id = make_run(dead())
    code, done = follow(run_id)
    assert code == 3
    assert f"the process that drove {run_id} is gone; to go on: agentorchestra resume {run_id}" in done.stderr


def test_nobody_reads_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tail last | head -1`: the end of the reader is the end of the following, whatever the run does."""
    tail = import_module("agentorchestra.cli.commands.tail")
    with Driver() as driver:
        monkeypatch.setattr(tail, "emit", lambda text: False)
        assert follow(driver.run_id)[0] == 0
        driver.go_on()
