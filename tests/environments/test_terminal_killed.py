"""A process is killed (SIGKILL) in the middle of a shell command: nothing lives on, and a resume stands right."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import psutil
import pytest
from tests.chaos.support import only_run, python, read_log, start, until
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


@pytest.mark.parametrize("network", ["closed", "open"])
async def test_killed_at_each_point_of_a_command_it_has_its_effect_once(tmp_path: Path, network: str) -> None:
    whole = tmp_path / "whole"
    undisturbed = await asyncio.to_thread(python, [*PROGRAM, whole, network, "short"])
    assert "changed\none\nkept two\nfile" in undisturbed
    runs = [
        e for e in await read_log(whole, await only_run(whole)) if e.type == "started" and "two >>file" in str(e.body)
    ]
    (key,) = {str(one.span) for one in runs if one.body["effect"]["kind"] == "InvokeAction"}
    for point in ("after", "in_record", "after_record") if network == "closed" else ("after", "after_record"):
        place = tmp_path / point
        await asyncio.to_thread(python, [*PROGRAM, place, network, "short"], kill_at=f"{point}:{key}")
        out = await asyncio.to_thread(python, [*PROGRAM, place, network, "short"])
        if network == "closed" or point == "after_record":
            assert out == undisturbed, point
        else:
            assert "kept\none\nfile" in out and "two" not in out.partition("--")[2], point
