"""Many writers, several processes: every registration is whole, and histories have no gaps."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from agentorchestra import Workspace

WRITER = """
import asyncio, json, sys
from agentorchestra import Workspace

async def main(folder, process, writers):
    async with Workspace(folder) as ws:
        async def one(number):
            same = "def same(n: int) -> int:\\n    return n\\n"
            other = f"def other(n: int) -> int:\\n    return n + {process} * 1000 + {number}\\n"
            (a,) = await ws.tcp.register(source=same, author=f"{process}-{number}")
            (b,) = await ws.tcp.register(source=other, author=f"{process}-{number}")
            return a.version, b.version
        print(json.dumps(await asyncio.gather(*(one(number) for number in range(writers)))))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.mark.parametrize(("count", "each"), [(2, 3), pytest.param(4, 13, marks=pytest.mark.long)])
@pytest.mark.long
async def test_many_writers_in_several_processes(tmp_path: Path, count: int, each: int) -> None:
    folder = tmp_path / "ws"
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            WRITER,
            str(folder),
            str(process),
            str(each),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for process in range(count)
    ]
    said = [await process.communicate() for process in processes]
    assert all(process.returncode == 0 for process in processes), [err.decode()[-500:] for _, err in said]
    versions = [tuple(pair) for out, _ in said for pair in json.loads(out)]
    assert {same for same, _ in versions} == {"1.0.0"}  # the same content is one version, whoever was first
    others = [other for _, other in versions]
    assert len(set(others)) == len(others) == count * each  # each other content has its own
    async with Workspace(folder) as ws:
        (same,) = await ws.tcp.versions("same")
        assert same.author
        history = await ws.tcp.versions("other")
        assert sorted(one.version for one in history) == sorted(others)
        changes = await ws.store.component_changes([("tool", "other")])
        assert [one.seq for one in changes] == list(range(1, len(changes) + 1))
        for one in history[:3]:
            process, number = one.author.split("-")
            value = (await ws.tcp.invoke("other", {"n": 0}, version=one.version)).value
            assert value == int(process) * 1000 + int(number)
