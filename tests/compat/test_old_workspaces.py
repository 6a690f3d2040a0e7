"""Workspaces and bundles of earlier versions are opened, shown, replayed, resumed, forked and imported by this one.

They lie in `tests/data/old_workspace/`; `write_old.py` says how they were written. Texts of code that they hold (tools
that runs are pinned to, registered components) import modules of the package by the names that these had then.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from agentorchestra import RunResult, RunStatus, Workspace, open_workspace
from agentorchestra.cli import main
from agentorchestra.cli.commands.cost import _views
from agentorchestra.core.errors import DivergedError, PinError
from agentorchestra.core.events import Event
from agentorchestra.core.query import LogQuery
from agentorchestra.sandbox.bubblewrap import Bubblewrap
from agentorchestra.tea.programs.dynamic import load_module
from agentorchestra.tea.programs.namespaces import import_below
from agentorchestra.tea.programs.sources import pinned_tool
from tests.compat import old_app
from tests.compat.write_old import register

DATA = Path(__file__).resolve().parents[1] / "data" / "old_workspace"
CASES: dict[str, str] = json.loads((DATA / "cases.json").read_text(encoding="utf-8"))
"""Run ids by what they are cases of."""

OPEN = ("approval", "question", "timer", "killed")
"""Runs that are not over."""

CHANGED = ("pinned",)
"""Its tool and its prompt have later versions in the workspace."""

OTHER_ACTIONS = {
    "report": "tool schemas changed: terminal_",
    "team": "tool schemas changed: read_file",
    "fork": "tool schemas changed: files_read",
    "environments": "tool schemas changed: files_read",
    "code": r"message 0 \(system\) changed",
}
"""An agent was shown packaged actions, or tools made inside a function, that are others now; a replay names them."""

BUNDLED = tuple(sorted(path.stem for path in DATA.glob("*.zip")))
HERE = tuple(case for case in CASES if case != "research")
COMPLETED = tuple(case for case in HERE if case not in OPEN)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The old workspace, beside its application."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "old_app", raising=False)
    with tarfile.open(DATA / "workspace.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    yield tmp_path / "example" / "ws"
    sys.modules.pop("old_app", None)


async def _undisturbed(ws: Workspace, result: RunResult, answer: str) -> None:
    """It ended well, the log says what changed, and a replay gives the same."""
    assert (result.status, result.answer) == (RunStatus.COMPLETED, answer), result
    for note in _notes(await ws.log.events(result.run_id)):
        assert "changed since the run was started" in note or "asks otherwise than" in note, note
        assert "its arguments" not in note or note.endswith("(a minor change)"), note
    report = await ws.replay(result.run_id)
    assert (report.status, report.answer) == (RunStatus.COMPLETED, answer)


def _notes(events: list[Event]) -> list[str]:
    return [str((event.body or {})["message"]) for event in events if event.type == "noted"]


# -- shown and replayed ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_command_line_shows_and_replays_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--workspace", str(folder))
    assert main(["runs", *where]) == 0
    listed = capsys.readouterr().out
    for case in HERE:
        assert CASES[case] in listed
        assert main(["show", CASES[case], *where]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(CASES[case]) and "diverged" not in shown
    assert main(["replay", CASES["react"], *where]) == 0
    assert capsys.readouterr().out.startswith("identical: ")
    assert main(["replay", CASES["pinned"], *where]) == 1
    assert "diverged" in capsys.readouterr().err
    for case in HERE:
        # Environments are not kept: --pin says so where the actions of one have changed.
        changed = main(["replay", CASES[case], "--pin", *where]) != 0
        printed = capsys.readouterr()
        assert changed is (case in OTHER_ACTIONS and case not in ("team", "code")), case
        assert re.search(OTHER_ACTIONS[case], printed.err) if changed else printed.out.startswith("identical: ")


async def test_completed_runs_are_replayed(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        for case in COMPLETED:
            if case in CHANGED:
                continue
            result = await ws.runs.result(CASES[case])
            if case in OTHER_ACTIONS:
                with pytest.raises(DivergedError, match=OTHER_ACTIONS[case]):
                    await ws.replay(CASES[case])
                continue
            report = await ws.replay(CASES[case])
            assert (report.status, report.answer) == (RunStatus.COMPLETED, result.answer), case
            assert report.keys > 1 and report.answer, case


async def test_costs_are_counted_from_a_part_of_the_log_as_from_all_of_it(folder: Path) -> None:
    charges: dict[bool, dict[str, Any]] = {}
    counts = {}
    async with open_workspace(folder) as ws:
        for paid in (False, True):
            charges[paid] = {view.run_id: view.charges async for view in _views(ws, None, paid=paid) if view.charges}
            counts[paid] = len([event async for event in ws.log.select(LogQuery(first=2, paid=paid))])
    assert charges[True] == charges[False] and CASES["fork"] in charges[True] and CASES["team"] in charges[True]
    assert counts[True] < counts[False] / 2


async def test_open_runs_are_replayed_as_far_as_they_are(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        for case in OPEN:
            assert (await ws.replay(CASES[case])).keys > 1, case


# -- pinned ------------------------------------------------------------------------------------------------------------


async def test_pinned_runs_have_the_tools_and_prompts_they_were_started_with(folder: Path) -> None:
    """The tool, the prompt and the packaged tool `todo` of the run `pinned` have changed since."""
    async with open_workspace(folder) as ws:
        with pytest.raises(DivergedError):
            await ws.replay(CASES["pinned"])
        _only_kept_tools_changed(ws, await _tools(ws, "pinned"))
        report = await ws.replay(CASES["pinned"], pin=True)
        assert (report.status, report.answer) == (RunStatus.COMPLETED, "The box is 3 wide.")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", HERE)
async def test_every_tool_that_is_kept_may_have_changed(
    folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_workspace(folder) as ws:
        pins = await _tools(ws, case)
        _only_kept_tools_changed(ws, pins)
        changed = [name for name, pin in pins.items() if pin.source and name in ws.catalog.tools]
        assert case == "offline" or "todo" in changed
        for name in changed:
            monkeypatch.setattr(ws.catalog.tools[name], "content_hash", "changed")
        if case in OTHER_ACTIONS:
            with pytest.raises(DivergedError, match=OTHER_ACTIONS[case]):
                await ws.replay(CASES[case], pin=True)
            return
        assert (await ws.replay(CASES[case], pin=True)).keys > 1


async def test_the_text_of_every_pinned_tool_still_gives_it(folder: Path) -> None:
    found = set()
    async with open_workspace(folder) as ws:
        for case in HERE:
            for name, pin in (await _tools(ws, case)).items():
                if pin.source and (name, pin.source) not in found:
                    text = (await ws.store.get_blob(pin.source)).decode()
                    assert pinned_tool(name, pin, text).content_hash == pin.content_hash
                    found.add((name, pin.source))
    packaged = {"ask_media", "media_as", "read_artifact", "read_source", "todo", "wait_until"}
    assert {name for name, _ in found} >= packaged | {"weigh", "note", "send_offer", "consult", "measure"}


async def test_every_import_in_a_kept_text_still_works(folder: Path) -> None:
    """Also those inside functions, which loading the text does not execute."""
    texts: dict[str, str] = {}
    async with open_workspace(folder) as ws:
        for case in HERE:
            for name, pin in (await _tools(ws, case)).items():
                if pin.source:
                    texts[f"{name} {pin.version}"] = (await ws.store.get_blob(pin.source)).decode()
        servers: tuple[Any, ...] = (ws.tcp, ws.ecp, ws.components.memories)
        for server in servers:
            for name in await server.list():
                for one in await server.versions(name):
                    if one.source and one.maker is not None and one.maker.how in ("module", "source"):
                        texts[f"{one.config.kind} {name} {one.version}"] = await server.source(name, one.version)
    statements = sorted({line for text in texts.values() for line in _imports(text)})
    assert len(statements) > 60
    for line in statements:
        load_module(line, label=line)


def _imports(text: str) -> Iterator[str]:
    """The statements that import modules of the package, those for type checkers left out."""
    todo: list[ast.AST] = [ast.parse(text)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += node.orelse
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "agentorchestra":
            yield from (f"from {node.module} import {one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (f"import {one.name}" for one in node.names if one.name.startswith("agentorchestra"))
        todo += ast.iter_child_nodes(node)


async def _tools(ws: Workspace, case: str) -> dict[str, Any]:
    """What a run says of its tools."""
    record = await ws.store.get_run(CASES[case])
    assert record is not None
    return record.manifest.tools


def _only_kept_tools_changed(ws: Workspace, pins: dict[str, Any]) -> None:
    """See to it that `--pin` refuses nothing: packaged tools that are made inside a function are as they were."""
    for name, pin in pins.items():
        one = ws.catalog.tools.get(name)
        if one is not None and not pin.source:
            one.content_hash = pin.content_hash


# -- taken up again ----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pin", [False, True])
async def test_a_killed_run_is_resumed_to_its_end(folder: Path, pin: bool) -> None:
    async with open_workspace(folder) as ws:
        _only_kept_tools_changed(ws, await _tools(ws, "killed"))
        before = len(await ws.log.events(CASES["killed"]))
        result = await ws.resume(CASES["killed"], pin=pin)
        await _undisturbed(ws, result, "The parcels weigh 12 kg.")
        events = (await ws.log.events(result.run_id))[before:]
        # What was marked and not recorded is not done again; what a program had left in its variables is still there.
        assert not [event for event in events if event.type == "started" and "note@" in json.dumps(event.body)]
        assert "24" in json.dumps([event.body for event in events])
        assert len([event for event in events if event.type == "driving_started"]) == 1


@pytest.mark.long
async def test_an_approval_is_given(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        (question,) = await ws.runs.questions(CASES["approval"])
        assert question.kind == "approval" and question.details
        await ws.approve(CASES["approval"], code=question.code)
        await _undisturbed(ws, await ws.resume(CASES["approval"]), "The offer was sent.")
        assert "sent to ann@example.org" in json.dumps([one.body for one in await ws.log.events(CASES["approval"])])


async def test_a_question_is_answered(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        (question,) = await ws.runs.questions(CASES["question"])
        assert question.question == "Which colour?"
        await ws.answer(CASES["question"], "blue")
        await _undisturbed(ws, await ws.resume(CASES["question"]), "The colour is known.")


class _Later:
    """A clock that is far ahead."""

    def now(self) -> datetime:
        return datetime(2099, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return monotonic()


@pytest.mark.long
async def test_a_waiting_run_goes_on_when_its_time_has_come(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        application: Any = import_below("old_app", ws.namespace)
    async with application.workspace(folder, clock=_Later()) as ws:
        assert CASES["timer"] in await ws.runs.waiting_until() and CASES["timer"] in await ws.runs.due()
        await _undisturbed(ws, await ws.resume(CASES["timer"]), "An hour has passed.")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("undeclared", ["ask", "allow"])
async def test_a_run_is_forked(folder: Path, undeclared: str) -> None:
    settings = folder.parent / "agentorchestra.toml"
    if undeclared == "allow":
        settings.write_text(settings.read_text() + '\n[policy]\nundeclared = "allow"\n')
    async with open_workspace(folder) as ws:
        events = await ws.log.events(CASES["react"])
        weighed = next(event.span for event in events if event.span and "weigh@" in json.dumps(event.body))
        fork = await ws.fork(CASES["react"], at=weighed)
        result = await ws.resume(fork, pin=False)
        asked = []
        while result.status is RunStatus.WAITING:
            (question,) = await ws.runs.questions(fork)
            asked.append(question.question.partition("?")[0])
            await ws.approve(fork, code=question.code)
            result = await ws.resume(fork, pin=False)
        # The program was written when a tool did not have to say what it touches.
        assert asked == (["Allow note"] * 2 if undeclared == "ask" else [])
        await _undisturbed(ws, result, "The parcels weigh 12 kg.")
        asked = [json.dumps(one.body) for one in await ws.log.events(fork)]
        assert any('"printed": "24' in one for one in asked)


async def test_a_fork_stands_at_the_snapshots_of_its_environments(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        events = await ws.log.events(CASES["environments"])
        written = next(one for one in events if "env:folder" in (one.body or {}).get("outcome", {}).get("writes", {}))
        fork = await ws.fork(CASES["environments"], at=written.seq)
        await _undisturbed(ws, await ws.resume(fork), "Two files and two things.")
        made = ws.files.folder(fork)
        assert [path.read_text() for path in sorted(made.rglob("*.txt"))] == ["first\n", "second\n"]


async def test_a_run_of_a_pinned_version_is_forked(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        _only_kept_tools_changed(ws, await _tools(ws, "pinned"))
        events = await ws.log.events(CASES["pinned"])
        fork = await ws.fork(CASES["pinned"], at=next(one.seq for one in events if "measure@" in json.dumps(one.body)))
        result = await ws.resume(fork, pin=True)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "The box is 3 wide.")
        assert "jar: 3 cm" in json.dumps([one.body for one in await ws.log.events(fork)])
        assert (await ws.replay(fork, pin=True)).answer == result.answer_text


# -- the registry ------------------------------------------------------------------------------------------------------


async def test_the_histories_are_there(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        measure = {one.version: one for one in await ws.tcp.versions("measure")}
        assert [*measure] == ["1.0.0", "1.0.1"] and measure["1.0.0"].reason == "things have a width"
        assert "import ToolResult, tool" in await ws.tcp.source("measure", "1.0.0")
        todo = {one.reason: one for one in await ws.tcp.versions("todo")}
        assert "# changed" in await ws.tcp.source("todo", todo["a note"].version)
        await ws.tcp.restore("todo", todo["a note"].version)
        assert "# changed" in await ws.tcp.source("todo")
        assert [one.version for one in await ws.components.prompts.versions("brief")] == ["1.0.0", "1.0.1"]
        assert {"shelf", "files", "report"} <= {*await ws.ecp.list()}
        assert {"measurer", "counter", "worker"} <= {*await ws.acp.list()}
        assert {"diary", "window"} <= {*await ws.components.memories.list()}
        (roman,) = await ws.tcp.versions("roman")
        assert (roman.author, roman.foreign) == ("tool_generator", True)


async def test_what_was_registered_is_called(folder: Path) -> None:
    async with open_workspace(folder) as ws:
        widths = [await ws.tcp.invoke("measure", {"thing": "box"}, version=one) for one in ("1.0.0", "1.0.1")]
        assert [str(one.value).count("cm") for one in widths] == [1, 1], widths
        assert "box: 3 cm" in str(widths[0].value) and "box: 6 cm" in str(widths[1].value)
        said = await ws.tcp.invoke("todo", {"action": "create", "plan_id": "first", "steps": ["one"]})
        assert "one" in str(said.result())
        assert (await ws.ecp.invoke("shelf", "put", {"thing": "box"})).result() == "1 things"
        await ws.tcp.restore("todo", "1.0.0")
        said = await ws.tcp.invoke("todo", {"action": "create", "plan_id": "second", "steps": ["two"]})
        assert "two" in str(said.result())
        result = await ws.run("Remember the box.", system="react", memory="diary", session="boxes")
        assert result.answer == "Remembered."
        told = [json.dumps(one.body) for one in await ws.log.events(result.run_id) if "ReadMemory" in str(one.body)]
        assert "LINE" in str(told) and len(await ws.memory.recall(kinds=["insight"])) == 3


async def test_the_generated_tool_is_called(folder: Path) -> None:
    if problem := await Bubblewrap().problem():
        pytest.skip(problem)
    async with open_workspace(folder) as ws:
        assert (await ws.tcp.invoke("roman", {"number": 1994})).result() == "MCMXCIV"


async def test_a_saved_registry_is_loaded(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.load(DATA / "tools.json", trusted=True)
        assert [one.version for one in await ws.tcp.versions("measure")] == ["1.0.0", "1.0.1"]
        assert "box: 6 cm" in str((await ws.tcp.invoke("measure", {"thing": "box"})).value)


# -- bundles -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", BUNDLED)
async def test_a_bundle_is_imported_and_replayed(case: str, tmp_path: Path) -> None:
    async with old_app.workspace(tmp_path / "ws", environ={}) as ws:
        await register(ws)
        (imported,) = await ws.log.import_file(DATA / f"{case}.zip")
        assert imported.run_id == CASES[case]
        if case == "fork":  # the other bundles were written where agents were offered no tool that is another one now
            with pytest.raises(DivergedError, match=OTHER_ACTIONS[case]):
                await ws.replay(imported.run_id)
            return
        report = await ws.replay(imported.run_id)
        result = await ws.runs.result(imported.run_id)
        assert (report.status, report.answer) == (result.status, result.answer_text)
        assert report.keys > 1 and not [one for one in _notes(await ws.log.events(imported.run_id)) if "changed" in one]
        assert (await ws.replay(imported.run_id, pin=True)).answer == result.answer_text


async def test_texts_that_came_with_a_bundle_are_not_executed(tmp_path: Path) -> None:
    async with old_app.workspace(tmp_path / "ws", environ={}) as ws:
        await register(ws)
        (imported,) = await ws.log.import_file(DATA / "killed.zip")
        with pytest.raises(PinError, match="was imported"):
            await ws.resume(imported.run_id, pin=True)


@pytest.mark.long
async def test_a_bundle_of_a_run_that_is_here_is_the_same(folder: Path, tmp_path: Path) -> None:
    async with open_workspace(folder) as ws:
        for case in BUNDLED:
            await ws.log.import_file(shutil.copy(DATA / f"{case}.zip", tmp_path))
            if case in OTHER_ACTIONS:
                continue
            if case in CHANGED:
                _only_kept_tools_changed(ws, await _tools(ws, case))
            assert (await ws.replay(CASES[case], pin=case in CHANGED)).keys > 1
