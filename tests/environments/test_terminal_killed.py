"""A process is killed (SIGKILL) in the middle of a shell command: nothing lives on, and a resume stands right."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import psutil
import pytest
from tests.chaos.support import start, until
from tests.environments.gits import SANDBOX

pytestmark = [pytest.mark.long, pytest.mark.skipif(SANDBOX is None, reason="no sandbox here: install bubblewrap")]
PROGRAM = ("-m", "tests.environments.terminal_program")


@pytest.mark.parametrize("network", ["closed", "open"])
async def test_killed_in_the_middle_of_a_command(tmp_path: Path, network: str) -> None:
    process = start([*PROGRAM, tmp_path, network])

    def begun() -> list[Path]:
        return [*tmp_path.glob("runs/*/environments/main/folder/d/begun")]

    await until(lambda: bool(begun()), process)
    (mark,) = begun()
    before, folder = mark.stat().st_mtime_ns, mark.parent
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) >= 3
    process.kill()
    process.communicate()
    await until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in below))
    assert (folder / "file").read_text() == "one\nkept two\n"  # what nobody recorded

    again = start([*PROGRAM, tmp_path, network])
    if network == "closed":  # it touches nothing but the folder: it is run again on the folder as it was
        await until(lambda: mark.exists() and mark.stat().st_mtime_ns != before, again)
        assert (folder / "file").read_text() == "one\nkept two\n"
        (folder / "go").touch()
    out, err = await asyncio.to_thread(again.communicate)
    assert again.returncode == 0, err
    answer = re.sub(r"</?content[^>]*>\n?", "", out)
    if network == "closed":
        assert "changed\none\nkept two\nthree\nbegun\nfile\ngo" in answer
    else:  # it could have reached out: nobody knows, and the folder is as it was before
        told, _, seen = answer.partition("\n--\n")
        assert "interrupted" in told or "uncertain" in told
        assert "kept\none\nfile" in seen
        assert sorted(one.name for one in folder.iterdir()) == ["file"]
