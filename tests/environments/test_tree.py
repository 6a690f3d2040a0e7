"""Snapshots by change: after whatever is done to a large tree, the same as a look at everything gives."""

from __future__ import annotations

import hashlib
import os
import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sandbox.test_changes import act

from agentorchestra.environments.manifest import FolderLimits
from agentorchestra.environments.tree import Tree
from agentorchestra.sandbox.changes import WORTH


class Contents:
    """Contents by their hashes, as a run's context keeps them."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.taken = 0

    async def artifact(self, name: str, data: bytes, media_type: str = "") -> Any:
        sha256 = hashlib.sha256(data).hexdigest()
        self.kept[sha256] = data
        self.taken += 1
        return SimpleNamespace(sha256=sha256)


def lines(tree: Tree) -> list[bytes]:
    inside, parts = tree.lines()
    return sorted([*inside, *parts])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
async def test_what_changed_is_enough(seed: int, tmp_path: Path) -> None:
    for number in range(WORTH // 20 + 1):
        (tmp_path / f"d{number}").mkdir()
        for file in range(20):
            (tmp_path / f"d{number}" / f"f{file}").write_text(f"{number} {file}")
    contents, chance = Contents(), random.Random(seed)
    tree = Tree(tmp_path, contents, FolderLimits())
    try:
        assert await tree.look(full=False) and len(lines(tree)) > 2
        assert not await tree.look(full=False)  # from here on it is watched
        for number in range(25 if seed else 5):  # the long tier has the others
            for step in range(chance.randrange(1, 4)):
                act(tmp_path, chance, 10 * number + step)
            before = contents.taken
            parts = {*lines(tree)}
            await tree.look(full=False)
            assert contents.taken - before < 50
            if number == 0:
                assert len({*lines(tree)} - parts) < len(parts) / 2  # most parts are stored already
            whole = Tree(tmp_path, contents, FolderLimits())
            await whole.look(full=True)
            assert lines(tree) == lines(whole)
            assert not await tree.look(full=False)
    finally:
        tree.close()


async def test_a_file_with_two_names_changes_under_both(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    for number in range(WORTH):
        (tmp_path / "a" / f"f{number}").write_text("x")
    (tmp_path / "b" / "other").write_text("before")
    os.link(tmp_path / "b" / "other", tmp_path / "a" / "one")
    contents = Contents()
    tree = Tree(tmp_path, contents, FolderLimits())
    try:
        await tree.look(full=False)
        await tree.look(full=False)
        (tmp_path / "a" / "one").write_text("afterwards")
        await tree.look(full=False)
        assert b"".join(lines(tree)).count(hashlib.sha256(b"afterwards").hexdigest().encode()) == 2
    finally:
        tree.close()


async def test_an_empty_folder_is_listed_again_when_something_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    listing = Tree._listing

    def counted(tree: Tree, at: int, path: str) -> Any:
        listed.append(path)
        return listing(tree, at, path)

    monkeypatch.setattr(Tree, "_listing", counted)
    clock = time.time_ns() + 10**9  # the folder was made a while ago
    monkeypatch.setattr(time, "time_ns", lambda: clock)
    root = tmp_path / "folder"
    tree = Tree(root, Contents(), FolderLimits())
    assert not await tree.look(full=False) and not listed, "there is no folder"
    root.mkdir()
    for full in (False, True, False):
        await tree.look(full=full)
        assert listed == [""], "listed once"
    (root / "new").write_text("new")
    for count in (2, 3):
        await tree.look(full=False)
        assert len(listed) == count and lines(tree), "what is in it may change"
    (root / "new").unlink()
    for _ in range(2):
        await tree.look(full=False)
        assert len(listed) == 4 and not lines(tree)
    tree.forget()
    clock = root.stat().st_ctime_ns
    for count in (5, 6):
        await tree.look(full=False)
        assert len(listed) == count, "what comes at the same time as the last change would not be seen"
