"""The live view on real terminals: what is on it, questions in place, Ctrl-C, a window that is closed."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from agentorchestra.cli.driver import Stop, drive
from agentorchestra.cli.entry import Unfinished
from agentorchestra.cli.view.model import RunView
from agentorchestra.cli.view.picture import picture
from agentorchestra.core.errors import FencedError
from agentorchestra.core.events import Event
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.runtime.engine import owner_of
from agentorchestra.workspace import Workspace
from tests.cli.screen import HereScreen, ProcessScreen
from tests.cli.support import QUESTION, Folder, clean_environment, wait_until
from tests.cli.team import ANSWER, TASK, Gate, team
from tests.support.patience import LONGEST_S

SIZES = [(100, 40), (40, 12)]


async def driven(ws: Workspace[Any], run_id: str, folder: Path) -> RunResult:
    task = asyncio.current_task()
    assert task is not None
    return await drive(ws, run_id, Stop(task), folder=folder, as_json=False, ask=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("columns", "lines"), SIZES)
async def test_the_team_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, lines: int) -> None:
    screen = HereScreen(monkeypatch, columns=columns, lines=lines)
    gate = Gate()
    try:
        async with team(tmp_path, tools=gate, asks=True) as ws:
            run_id = await ws.create(TASK, model="scripted", system="react")
            work = asyncio.create_task(driven(ws, run_id, tmp_path))
            await screen.shows("reader-A (analyzer) running", "reader-B (analyzer) running", '> price_of(offer="A")')
            if lines > 20:
                await screen.shows("[ ] read both offers", '> study(offers=["A","B"])', "| looking B up")
            assert screen.hides_cursor()
            gate.opened.set()
            await screen.shows("In euros?", "Answer (Ctrl-D leaves it open):")
            assert "reader-A" not in screen.text, "the picture is taken away for the question"
            await screen.shows_cursor()
            screen.type("yes\n")
            async with asyncio.timeout(LONGEST_S):
                result = await work
            assert result.answer == ANSWER
            await screen.shows("completed", "reader-A (analyzer) completed", "[x] read both offers", "9 steps")
            await screen.shows_cursor()
            assert screen.longest < columns
            assert screen.coloured
    finally:
        screen.close()


async def test_text_is_seen_as_it_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUTF8", "1")
    screen = HereScreen(monkeypatch)
    gate = Gate()
    try:
        async with team(tmp_path, stream=gate) as ws:
            run_id = await ws.create(TASK, model="scripted", system="react")
            work = asyncio.create_task(driven(ws, run_id, tmp_path))
            await screen.shows("> model scripted (decision)", "| First I look", "| at the prices of", "0 steps")
            gate.opened.set()
            async with asyncio.timeout(LONGEST_S):
                await work
            await screen.shows("completed")
            assert "First I look" not in screen.text
    finally:
        screen.close()


async def test_what_is_told_is_seen_and_a_cancellation_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process tells and cancels: here a second workspace on the same folder, as the commands open one."""
    screen = HereScreen(monkeypatch)
    gate = Gate()
    try:
        async with team(tmp_path, in_memory=False, tools=gate) as ws, Workspace(tmp_path) as other:
            run_id = await ws.create(TASK, model="scripted", system="react")
            work = asyncio.create_task(driven(ws, run_id, tmp_path))
            await screen.shows("reader-B (analyzer) running")
            await other.tell(run_id, "only \x1b[31mthe cheaper\u202e one", by="cli")
            await screen.shows("told: only [31mthe cheaper one", "running")
            await other.cancel(run_id, reason="enough", by="cli")
            async with asyncio.timeout(LONGEST_S):
                result = await work
            assert result.status is RunStatus.CANCELLED
            await screen.shows("asked to stop: enough", "react interrupted", "reader-B (analyzer) interrupted")
    finally:
        screen.close()


async def test_a_run_that_another_process_drives_leaves_no_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`answer` tries a few times to go on with such a run; each try would leave one."""
    screen = HereScreen(monkeypatch)
    try:
        async with Workspace(tmp_path) as ws:
            run_id = await ws.create("What?", system="react")
            other = owner_of(1)
            assert await ws.store.claim(run_id, other, lease_s=30.0)
            with pytest.raises(Unfinished) as failed:
                await driven(ws, run_id, tmp_path)
            assert isinstance(failed.value.__cause__, FencedError)
        while select.select([screen.ours], [], [], 0)[0]:
            screen.feed()
        assert screen.text == ""
    finally:
        screen.close()


async def test_without_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = HereScreen(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    try:
        async with team(tmp_path) as ws:
            run_id = await ws.create(TASK, model="scripted", system="react")
            await driven(ws, run_id, tmp_path)
        await screen.shows("completed", "reader-A")
        assert not screen.coloured
    finally:
        screen.close()


async def test_a_dumb_terminal_gets_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = HereScreen(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    try:
        async with team(tmp_path) as ws:
            run_id = await ws.create(TASK, model="scripted", system="react")
            await driven(ws, run_id, tmp_path)
        await screen.shows("step 1 (react)", "  agent reader-A: Read offer A.")
        assert b"\x1b" not in screen.written
    finally:
        screen.close()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """The events of a run with wide characters, and with some that steer a terminal."""

    async def work() -> list[Event]:
        async with team(tmp_path_factory.mktemp("wide"), fail_first=True, asks=True) as ws:
            task = f"比較する {TASK} \x1b[2J\u202e" + "very long " * 50
            result = await ws.run(task, model="scripted", system="react")
            await ws.tell(result.run_id, "見積もりは二つ\nあります" * 20)
            return await ws.log.events(result.run_id)

    return asyncio.run(work())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("width", [1, 2, 7, 20, 40, 200])
@pytest.mark.parametrize("height", [None, 1, 3, 10])
def test_every_line_fits(wide: list[Event], width: int, height: int | None) -> None:
    """At every moment of a run, with wide characters and in a terminal that has none."""
    view = RunView()
    for event in wide:
        view.apply(event)
        said = {str(key): "長い文章 and words\n" * 5 for key in view.spans}
        for encoding in ("utf-8", "latin-1"):
            lines = picture(
                view, now=event.ts + timedelta(seconds=5), width=width, height=height, texts=said, encoding=encoding
            )
            assert height is None or len(lines) <= height
            for line in lines:
                assert cell_len(line.plain) <= width, line.plain
                assert "\x1b" not in line.plain
                assert "\u202e" not in line.plain
                line.plain.encode(encoding)


async def test_a_low_terminal_keeps_what_runs(tmp_path: Path) -> None:
    async with team(tmp_path, asks=True) as ws:
        result = await ws.run(TASK, model="scripted", system="react")
        view = RunView.of(await ws.log.events(result.run_id))
    whole = [line.plain for line in picture(view, now=datetime.now(UTC), width=80)]
    low = [line.plain for line in picture(view, now=datetime.now(UTC), width=80, height=5)]
    assert len(whole) > 5
    assert low[0].startswith("waiting, ")
    assert low[-1] == f"... {len(whole) - 4} lines more"
    assert any("? In euros?" in line for line in low)
    assert not any("reader-A" in line for line in low), "agents that have ended go first"


# -- signals, and a terminal that goes away ----------------------------------------------------------------------------


@pytest.fixture
def window() -> Iterator[ProcessScreen]:
    screen = ProcessScreen(columns=60, lines=20)
    yield screen
    screen.close()


def start(
    app: Folder, window: ProcessScreen, *words: str, prepare: Callable[[], object] | None = None
) -> subprocess.Popen[Any]:
    env = {**clean_environment(), "TERM": "xterm"}
    if prepare is None:
        return window.start_warm(["-m", "agentorchestra", *words], environ=env, cwd=app.path)
    return window.start([sys.executable, "-m", "agentorchestra", *words], prepare=prepare, cwd=app.path, env=env)


@pytest.mark.long
def test_what_is_typed_does_not_disturb_the_picture(app: Folder, window: ProcessScreen) -> None:
    with start(app, window, "run", "PLAN busy") as process:
        # The question is asked while the other call of the same decision is at work.
        window.wait(lambda: "Answer" in window.text)
        window.type("blue\n")
        window.wait(lambda: "> slow(seconds=6)" in window.text)
        assert "Answer (Ctrl-D leaves it open): blue" in window.text
        window.type("impatient\n\n\n")
        window.wait(lambda: "completed, " in window.text)
        assert process.wait(LONGEST_S) == 0
    window.end()
    assert "impatient" not in window.text
    assert window.text.count("react ") == 1
    assert "The tools said: blue | slept" in window.text


def test_a_terminal_has_the_answer_the_sources_and_the_figures_once(folder: Folder) -> None:
    window = ProcessScreen(columns=120, lines=40)
    try:
        with start(folder, window, "run", QUESTION, "-f", "lease.txt") as process:
            assert process.wait(LONGEST_S) == 0
        window.end()
        lines = window.text.splitlines()
        answer = folder.run("show", "last", "--json").json["result"]["answer"]
        place = lines.index(answer)
        assert lines[place - 1] == "" and lines[place - 2].startswith("  deep_analyzer (analyzer) completed")
        assert lines[place + 1 : place + 4] == [
            "",
            "Sources:",
            '  "The notice period is three months." (lease.txt, line 2)',
        ]
        for once in ("offline model: rules", "Sources:", "completed, "):
            assert window.text.count(once) == 1
    finally:
        window.close()


def test_ctrl_c_once_cancels_and_says_how_to_go_on(app: Folder, window: ProcessScreen) -> None:
    with start(app, window, "run", "PLAN sleep") as process:
        window.wait(lambda: "> slow(seconds=60)" in window.text and "running" in window.text)
        window.type("\x03")
        assert process.wait(LONGEST_S) == 130
    window.end()
    (run_id,) = app.ids()
    assert "stopping (once more ends it at once)" in window.text
    assert f"cancelled, {run_id}" in window.text
    # Typed into one line; the terminal of 60 columns breaks it.
    assert f"agentorchestra resume {run_id}" in window.text
    assert not window.hides_cursor()
    assert b"Traceback" not in window.written
    assert app.assert_readable()["run"]["status"] == "cancelled"


@pytest.mark.long
def test_ctrl_c_twice_ends_it_at_once(app: Folder, window: ProcessScreen) -> None:
    source = (app.path / "app.py").read_text()
    app.write(
        "app.py",
        source.replace("await asyncio.sleep(seconds)", "import time\n    time.sleep(1000)").replace(
            "async def slow", "def slow"
        ),
    )
    with start(app, window, "run", "PLAN nap") as process:
        window.wait(lambda: "> slow(seconds=3)" in window.text)
        window.type("\x03")
        window.wait(lambda: "stopping" in window.text)
        window.type("\x03")
        assert process.wait(LONGEST_S) == 130
    window.end()
    assert not window.hides_cursor()
    assert b"Traceback" not in window.written
    assert app.assert_readable()["abandoned"] is True


@pytest.mark.long
def test_a_window_that_is_closed_cancels_the_run(app: Folder, window: ProcessScreen) -> None:
    app.hold()

    def hear() -> None:
        """Also where the tests themselves were started under nohup."""
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    with start(app, window, "run", "PLAN nap", prepare=hear) as process:
        window.wait(lambda: "> slow(seconds=3)" in window.text)
        window.hang_up()
        assert process.wait(LONGEST_S) == 130
    found = app.assert_readable()
    assert found["run"]["status"] == "cancelled"
    assert found["events"][-1]["type"] == "run_ended"
    app.let_go()
    assert app.run("resume", "last", "--json").json["answer"] == "The tools said: slept"


@pytest.mark.long
def test_a_process_that_ignores_its_window_goes_on(app: Folder, window: ProcessScreen) -> None:
    """As under nohup: nobody sees the picture any more, and that is no error."""

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    app.hold()
    with start(app, window, "run", "PLAN nap", prepare=ignore) as process:
        window.wait(lambda: "> slow(seconds=3)" in window.text)
        window.hang_up()
        app.let_go()
        assert process.wait(LONGEST_S) == 0
    assert app.assert_readable()["run"]["status"] == "completed"


@pytest.mark.long
def test_ctrl_c_at_a_question(app: Folder, window: ProcessScreen) -> None:
    with start(app, window, "run", "PLAN ask") as process:
        window.wait(lambda: "Which colour?" in window.text and "Answer" in window.text)
        window.type("half an ans\x03")
        assert process.wait(LONGEST_S) == 130
    window.end()
    assert b"Traceback" not in window.written
    assert not window.hides_cursor()
    assert app.assert_readable()["run"]["status"] == "cancelled"
    assert app.run("resume", "last", "--json").json["status"] == "waiting"


@pytest.mark.long
def test_closed_streams_do_not_stop_the_run(app: Folder) -> None:
    def close() -> None:
        os.close(1)
        os.close(2)

    with app.start("run", "PLAN escape", preexec_fn=close) as started:
        wait_until(lambda: started.process.poll() is not None)
        assert started.process.returncode == 0
    assert app.assert_readable()["run"]["status"] == "completed"
