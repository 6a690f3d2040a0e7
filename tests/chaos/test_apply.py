"""`apply` is killed before each thing that it does to the disk: all or nothing, and no file of the user's is lost."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ApplyConflictError
from agentorchestra.workspace.changes import Changes, apply
from tests.support.projects import changes, files_below, write

ACTS = {"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink"}
BEFORE = {"a": "old a", "b/c": "old c", "b/gone": "old gone", "place": "old place", "kept": "mine"}
AFTER = {"a": "new a", "b/c": "new c", "place/now/folder": "new", "new/deep": "new", "kept": "mine"}


def changes_in(folder: Path) -> Changes:
    """Changes that replace, delete, make, and put a folder in a file's place."""
    paths = sorted({*BEFORE, *AFTER} - {"kept"})
    made = changes(folder, *((path, BEFORE.get(path), AFTER.get(path)) for path in paths))
    return made._replace(folders=frozenset({"b"}))


def killed(folder: Path, run_folder: Path, number: int) -> bool:
    """Apply in a process that is killed before the n-th thing that it does to the disk; False where it was faster."""
    made = changes_in(folder)
    child = os.fork()
    if child == 0:
        left = number

        def act(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if event in ACTS or writes:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            sys.addaudithook(act)
            apply(made, run_folder)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return status != 0


def texts(folder: Path) -> dict[str, str]:
    return {name: data.decode() for name, data in files_below(folder).items()}


def go_through(folder: Path, number: int, *, edits: bool) -> bool:
    """Kill one `apply`, call it again, and check what there is; False where it was not killed any more."""
    user, run_folder = folder / f"user{number}", folder / f"run{number}"
    write(user, BEFORE)
    if not killed(user, run_folder, number):
        assert texts(user) == AFTER
        return False
    meanwhile = texts(user)
    done = AFTER.items() <= meanwhile.items() and "b/gone" not in meanwhile
    assert done or {*BEFORE.values()} <= {*meanwhile.values()}  # what is replaced or deleted by now has a second name
    assert all(meanwhile.get(path) in (BEFORE.get(path), AFTER.get(path)) for path in {*BEFORE, *AFTER})
    if not edits:
        apply(changes_in(user), run_folder)
        assert texts(user) == AFTER
    else:
        (user / "a").write_text("mine")
        with pytest.raises(ApplyConflictError):
            apply(changes_in(user), run_folder)
        assert texts(user) in (BEFORE | {"a": "mine"}, *([AFTER | {"a": "mine"}] if done else []))
    assert not (run_folder / "apply.json").exists()
    return True


def test_a_kill_in_the_middle_is_made_good(tmp_path: Path) -> None:
    assert go_through(tmp_path, 15, edits=False)


@pytest.mark.long
@pytest.mark.parametrize("edits", [False, True])
def test_a_kill_before_each_act(tmp_path: Path, edits: bool) -> None:
    number = 1
    while go_through(tmp_path, number, edits=edits):
        number += 1
    assert number > 20
