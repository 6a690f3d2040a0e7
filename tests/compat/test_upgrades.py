"""Workspaces of older versions (`write_upgrade.py`) are opened, and their runs go on with today's components."""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import RunStatus, Workspace, open_workspace
from agentorchestra.cli import main
from agentorchestra.core.errors import DivergedError
from agentorchestra.workspace.catalog import Catalog

DATA = Path(__file__).resolve().parents[1] / "data" / "upgrades"
ARCHIVES = sorted(path.name for path in DATA.glob("*.tar.xz"))
BRICKED = "20261123-0509-95748e87.tar.xz"
"""Its terminal has the version of a later one and other content: no run began in it any more."""

ANSWERS = {
    "question": "The colour is known.",
    "approval": "The offer was sent.",
    "places": "Two files.",
    "team": "The counter says that A weighs 3 kg.",
    "crashed": "It went on.",
}
"""The answers of the runs that were not over, by case."""


@pytest.fixture
def unpacked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a workspace, beside its application."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "upgrade_app", raising=False)
    with tarfile.open(DATA / getattr(request, "param", BRICKED)) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path / "upgrade")
    yield tmp_path / "upgrade" / ".agentorchestra"
    sys.modules.pop("upgrade_app", None)


def _cases() -> dict[str, str]:
    cases: dict[str, str] = json.loads(Path("cases.json").read_text())
    return cases


async def _goes_on(ws: Workspace[Any], case: str, run: str, *, pin: bool = False) -> None:
    """Answer what a run asks, have it driven to its end, and replay it."""
    for question in await ws.runs.questions(run):
        if question.kind == "approval":
            await ws.approve(run, code=question.code)
        else:
            await ws.answer(run, "blue")
    result = await ws.resume(run, pin=pin)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, ANSWERS[case]), result
    report = await ws.replay(run, pin=pin)
    assert (report.status, report.answer) == (RunStatus.COMPLETED, ANSWERS[case])


def test_there_are_a_dozen_small_ones() -> None:
    assert len(ARCHIVES) >= 12
    assert all((DATA / name).stat().st_size <= 300_000 for name in ARCHIVES)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("unpacked", ARCHIVES, indirect=True)
async def test_an_older_workspace_is_worked_in(unpacked: Path) -> None:
    """A run begins in it, one that waits is answered, one whose process was killed goes on; all are replayed."""
    cases = _cases()
    async with open_workspace(unpacked) as ws:
        result = await ws.run("Count the parcels.", system="react", files=["parcels.csv"])
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "The parcels weigh 12 kg.")
        await _goes_on(ws, "question", cases["question"])
        await _goes_on(ws, "crashed", cases["crashed"])
        try:
            report = await ws.replay(cases["counted"])
        except DivergedError as exc:
            assert "tool schemas changed" in str(exc)  # a run that is over shows what is different by now
        else:
            assert report.answer == "The parcels weigh 12 kg."


@pytest.mark.long
@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("unpacked", ARCHIVES, indirect=True)
async def test_every_run_that_was_not_over_goes_on(unpacked: Path, pin: bool) -> None:
    async with open_workspace(unpacked) as ws:
        for case, run in _cases().items():
            if case in ANSWERS:
                await _goes_on(ws, case, run, pin=pin)


@pytest.mark.parametrize("unpacked", ["20261121-2341-999ffaa7.tar.xz"], indirect=True)
async def test_the_log_says_what_changed(unpacked: Path) -> None:
    run = _cases()["places"]
    async with open_workspace(unpacked) as ws:
        await _goes_on(ws, "places", run)
        notes = [str((event.body or {})["message"]) for event in await ws.log.events(run) if event.type == "noted"]
        assert any(note.startswith("environment terminal changed since the run was started: 1.0.0 ") for note in notes)
        (first,) = [note for note in notes if "on the run asks otherwise than it did before" in note]
        assert "tool schemas changed" in first
        # It says so once, and nobody else drives it otherwise.
        assert len(notes) == len({*notes})


async def test_what_changed_under_one_version_gets_the_next(unpacked: Path) -> None:
    async with open_workspace(unpacked) as ws:
        versions = await ws.ecp.versions("terminal")
        assert [one.version for one in versions] == ["1.1.0", "1.2.0"]
        assert {one.origin for one in versions} == {"package"} and not versions[-1].explicit


async def test_a_packaged_tool_that_is_gone_is_not_missed(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run read a file with it before it waited; nothing of today's package has it."""
    made = Catalog.__init__

    def without(self: Catalog, *args: Any, builtin: dict[str, Any], **others: Any) -> None:
        made(self, *args, builtin={name: one for name, one in builtin.items() if name != "read_file"}, **others)

    monkeypatch.setattr(Catalog, "__init__", without)
    run = _cases()["question"]
    async with open_workspace(unpacked) as ws:
        assert "read_file" not in ws.catalog.tools
        await _goes_on(ws, "question", run)
        notes = [str((event.body or {})["message"]) for event in await ws.log.events(run) if event.type == "noted"]
        assert "tool read_file is no part of the package any more: the run goes on without it" in notes


def test_doctor_composes_the_components(unpacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--workspace", str(unpacked)]) == 0
    assert "not composed: the log has an earlier format; the next command brings it" in capsys.readouterr().out
    assert main(["runs", "--workspace", str(unpacked)]) == 0
    before = (unpacked / "workspace.db").read_bytes()
    capsys.readouterr()
    assert main(["doctor", "--workspace", str(unpacked)]) == 0
    assert "are registered and can be used" in capsys.readouterr().out
    assert (unpacked / "workspace.db").read_bytes() == before
