"""kill -9 in the middle of each environment's actions: the resumed run ends as if nothing had happened."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentorchestra.core.spec import RunStatus
from agentorchestra.log.folders import world_folder
from tests.chaos.environments_program import ACTIONS, FINAL, workspace
from tests.chaos.support import KILLED, python, start
from tests.support.patience import LONGEST_S

PROGRAM = Path(__file__).with_name("environments_program.py")
NUMBERS = range(1, len(ACTIONS) + 1)
AT = [f"after:/1.acts#{n}" for n in NUMBERS]
AT += ["in_record:/1.acts#2", "before:/1.acts#5", "in_record:/1.acts#8", "after_record:/1.acts#10"]
INSIDE = [
    # a file is half put in its place: made and not yet moved, moved and not yet recorded
    "agentorchestra.environments.files.disk:place_file:1",
    "agentorchestra.environments.files.disk:place_file:2:after",
    "agentorchestra.environments.files.disk:place_file:3",
    "agentorchestra.environments.files.disk:move:1:after",
    "agentorchestra.environments.files.trash:remove:1:after",
    # a snapshot is half taken
    "agentorchestra.environments.tree:entry_of:2",
    "agentorchestra.environments.tree:read_file:3:after",
]
RESTORING = [
    # a resume dies while it puts the folder back
    "agentorchestra.environments.tree:clear_for:1:after",
    "agentorchestra.environments.tree:place_file:1",
    "agentorchestra.environments.tree:finish:1",
]


def _killed(folder: Path, *words: str, **environ: str) -> None:
    process = start([PROGRAM, folder, *words], kill_at=environ.pop("KILL_AT", ""), environ=environ)
    out, err = process.communicate(timeout=LONGEST_S)
    assert process.returncode == KILLED, (environ, process.returncode, out, err)


def _found(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if ".git" not in path.parts and (path.is_symlink() or path.is_file())]
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in paths
    }


async def _ends_well(folder: Path) -> None:
    async with workspace(folder) as ws:
        (run,) = await ws.runs.list()
        result = await ws.resume(run.id)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, " ".join(["ok"] * len(ACTIONS))), result.error
        made = ws.files.folder(run.id)
        assert _found(made) == FINAL
        log = ["git", "-c", "safe.directory=*", "-C", str(made), "log", "--format=%s"]
        assert subprocess.run(log, capture_output=True, text=True, check=True).stdout == "All of it\n"  # noqa: ASYNC221
        worlds = world_folder(ws.files.root / run.id, "main").parent
        assert sorted(str(path.relative_to(worlds)) for path in worlds.glob("*/*")) == ["main/folder", "main/layer"]
        await ws.replay(run.id)


@pytest.mark.long
@pytest.mark.parametrize("kill_at", AT)
async def test_killed_around_an_action(tmp_path: Path, kill_at: str) -> None:
    _killed(tmp_path / "ws", KILL_AT=kill_at)
    await _ends_well(tmp_path / "ws")


@pytest.mark.long
@pytest.mark.parametrize("place", INSIDE)
async def test_killed_inside_an_action(tmp_path: Path, place: str) -> None:
    _killed(tmp_path / "ws", KILL_IN=place)
    await _ends_well(tmp_path / "ws")


@pytest.mark.long
@pytest.mark.parametrize("place", RESTORING)
async def test_killed_while_the_folder_is_put_back(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "ws"
    _killed(folder, KILL_AT="after:/1.acts#4")
    async with workspace(folder) as ws:
        (run,) = await ws.runs.list()
    (made,) = folder.glob("runs/*/environments/main/folder")
    for path in made.rglob("*.txt"):
        path.write_text("spoilt")
    (made / "more").mkdir()
    _killed(folder, run.id, KILL_IN=place)
    await _ends_well(folder)


@pytest.mark.long
async def test_killed_while_a_command_runs(tmp_path: Path) -> None:
    _killed(tmp_path / "ws", KILL_WHEN="b/started")
    await _ends_well(tmp_path / "ws")


@pytest.mark.long
def test_it_ends_without_being_killed(tmp_path: Path) -> None:
    python([PROGRAM, tmp_path / "ws"])
    (made,) = (tmp_path / "ws").glob("runs/*/environments/main/folder")
    assert _found(made) == FINAL
