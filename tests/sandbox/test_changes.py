"""Which folders changed, as the kernel tells it: held against a look at everything, whatever is done to the tree."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

from agentorchestra.sandbox.changes import FolderWatch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells of changes this way")


def listed(folder: Path) -> dict[str, object]:
    """Each folder below one, with what a look at it alone sees."""
    return {
        str(one.relative_to(folder)).removeprefix("."): sorted(
            (path.name, path.lstat().st_ino, path.lstat().st_mtime_ns, path.lstat().st_mode, path.lstat().st_size)
            for path in one.iterdir()
            if not path.is_dir()
        )
        for one in (folder, *(path for path in folder.rglob("*") if path.is_dir()))
    }


def act(folder: Path, chance: random.Random, number: int) -> None:
    """Do something to the tree."""
    folders = [folder, *(one for one in folder.rglob("*") if one.is_dir())]
    files = [one for one in folder.rglob("*") if one.is_file()]
    place = chance.choice(folders)
    what = chance.randrange(7)
    if what == 0:
        (place / f"d{number}" / "inner").mkdir(parents=True)
        (place / f"d{number}" / "inner" / "f").write_text("new")
    elif what == 1:
        (place / f"f{number}").write_text("x")
    elif what == 2 and files:
        chance.choice(files).write_text(f"changed {number}")
    elif what == 3 and files:
        chance.choice(files).unlink()
    elif what == 4 and len(folders) > 3:
        moved = chance.choice(folders[1:])
        target = chance.choice([one for one in folders if moved not in (one, *one.parents)])
        moved.rename(target / f"m{number}")
    elif what == 5 and len(folders) > 8:
        shutil.rmtree(chance.choice(folders[1:]))
    elif what == 6 and files:
        chance.choice(files).chmod(0o600 + number % 64)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_done_to_a_tree_is_told(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    changes = FolderWatch(tmp_path)
    try:
        assert changes.take() is None  # nothing is known before the first question
        seen = listed(tmp_path)
        for number in range(60):
            for step in range(chance.randrange(1, 5)):
                act(tmp_path, chance, 10 * number + step)
            told, now = changes.take(), listed(tmp_path)
            assert told is not None
            assert {path for path in now if now[path] != seen.get(path)} <= told
            assert changes.take() == set()
            seen = now
    finally:
        changes.close()


@pytest.mark.long
def test_each_reader_hears_everything_and_lost_news_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = FolderWatch(tmp_path)
    try:
        assert changes.take("a") is None and changes.take("b") is None
        (tmp_path / "f").write_text("x")
        assert changes.take("a") == {""} and changes.take("a") == set() and changes.take("b") == {""}
        most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for number in range(most // 2 + 10):
            (tmp_path / f"f{number % 2}").write_text(str(number))
        assert changes.take("a") is None and changes.take("b") is None
        (tmp_path / "f").write_text("y")
        assert changes.take("a") == {""}

        def full(*_: object) -> int:
            raise OSError(28, "no room for more watches")

        (tmp_path / "d").mkdir()
        monkeypatch.setattr("agentorchestra.sandbox.changes._call", full)
        assert changes.take("a") is None and changes.take("a") is None
    finally:
        changes.close()
