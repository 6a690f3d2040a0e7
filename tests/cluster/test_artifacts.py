"""Machines with folders of their own, one database, one bucket: a run goes from one to the other."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.cluster import Jobs
from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import LoopbackModelServer, call, decide
from agentorchestra.workspace import Workspace, open_workspace
from tests.chaos.support import KILLED, python, start, until
from tests.chaos.team_case import CLI
from tests.chaos.team_model import steps_of
from tests.cluster.artifacts_program import GIVEN, SEAL
from tests.postgres import Postgres
from tests.s3 import SECRET, Bucket, bucket

pytestmark = pytest.mark.timeout(240)  # several processes, on a machine that may be busy

LEDGER = b"day,amount\n" + b"".join(b"%d,%d\n" % (day, day * 7) for day in range(9_000))
WRITTEN = "tide table\n" * 4_000


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


class Model:
    """The model: it writes a file and has a seal made; then it looks at them, once it may; then it is done."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.go_on = asyncio.Event()
        self.seen: list[str] = []

    async def answer(self, body: dict[str, Any]) -> ModelResponse:
        steps = steps_of(body)
        self.asked.append(steps)
        if steps == 0:
            return decide(calls=[call("files_write", path="tides.txt", content=WRITTEN), call("stamp")])
        if steps == 1:
            await self.go_on.wait()
            return decide(calls=[call("files_read", path="tides.txt"), call("measure")])
        self.seen = [str(one["content"]) for one in body["messages"] if one["role"] == "tool"][-2:]
        return decide(calls=[call("done", answer="sealed")])


class Machines:
    """Folders without anything in common but a database and a bucket."""

    def __init__(self, base: Path, database: str, schema: str, s3: Bucket, model_url: str) -> None:
        base.mkdir(exist_ok=True)
        self.base, self.s3, self.schema = base, s3, schema
        self._given = (database, s3, model_url)
        self._lines = [
            'app = "app:workspace"',
            'model = "tide"',
            'system = "react"',
            f'database = "{database}"',
            f'database_schema = "{schema}"',
            "lease_s = 86400",
            "[models.tide]",
            'model = "tide"',
            f'base_url = "{model_url}"',
            'api_key_env = ""',
        ]
        self._processes = contextlib.ExitStack()

    def beside(self, name: str) -> Machines:
        """Machines with a database and an address of their own."""
        database, s3, model_url = self._given
        return Machines(self.base / name, database, f"{self.schema}_{name}", s3, model_url)

    def folder(self, name: str, **settings: str) -> Path:
        """The workspace's folder of a machine, made at the first call."""
        place = self.base / name
        if not place.exists():
            place.mkdir()
            shutil.copy(Path(__file__).with_name("artifacts_program.py"), place / "app.py")
            given = {"artifacts": f"s3://{self.s3.name}/{self.schema}", **settings}
            lines = [*(f'{key} = "{value}"' for key, value in given.items() if value), *self._lines]
            (place / "agentorchestra.toml").write_text("\n".join(lines))
        return place / "ws"

    async def worker(self, name: str) -> subprocess.Popen[str]:
        """A worker on a machine."""
        process = start([*CLI, "worker", "--workspace", self.folder(name)], environ=self.s3.environ)
        self._processes.callback(process.communicate)
        self._processes.callback(process.kill)
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        assert line.startswith("worker "), await asyncio.to_thread(process.communicate)
        return process

    async def command(self, name: str, *words: str | Path, code: int = 0) -> str:
        """What a command on a machine prints."""
        line = [*CLI, *words, "--workspace", self.folder(name)]
        return await asyncio.to_thread(python, line, environ=self.s3.environ, code=code)

    @contextlib.asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[Workspace[Any]]:
        """A machine's workspace in this process."""
        ws = open_workspace(self.folder(name))
        await ws.open()
        try:
            yield ws
        finally:
            await ws.close(verify=False)
            sys.modules.pop("app", None)
            sys.path[:] = [one for one in sys.path if one != str(self.base / name)]

    def close(self) -> None:
        self._processes.close()


@pytest.fixture(scope="module")
def s3() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


@pytest.fixture
async def model() -> Model:
    return Model()


@pytest.fixture
async def machines(
    tmp_path: Path, model: Model, database_server: Postgres, schema: str, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Machines]:
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    async with LoopbackModelServer(model.answer) as server:
        made = Machines(tmp_path, database_server.url, schema, s3, server.base_url)
        yield made
        await asyncio.to_thread(made.close)


async def submitted(ws: Workspace[Any], tmp_path: Path) -> str:
    given = tmp_path / GIVEN
    given.write_bytes(LEDGER)
    run_id = await ws.create("Seal the tide table.", files=[given], environments=["files"])
    jobs = Jobs(ws)
    await jobs.open()
    try:
        await jobs.submit(run_id)
    finally:
        await jobs.close()
    return run_id


async def ended(ws: Workspace[Any], run_id: str) -> RunStatus:
    while True:
        status = (await ws.runs.result(run_id)).status
        if status not in (RunStatus.CREATED, RunStatus.RUNNING):
            return status
        await asyncio.sleep(0.1)


@pytest.mark.long
async def test_a_run_goes_on_at_a_machine_that_shares_no_folder(
    machines: Machines, model: Model, tmp_path: Path
) -> None:
    async with machines.opened("front") as front:
        run_id = await submitted(front, tmp_path)
        first = await machines.worker("one")
        await until(lambda: 1 in model.asked, first)
        second = await machines.worker("two")
        first.kill()
        assert await asyncio.to_thread(first.wait) == KILLED
        model.go_on.set()
        assert await ended(front, run_id) is RunStatus.COMPLETED, (await front.runs.result(run_id)).error
        assert second.poll() is None
        assert "tide table" in model.seen[0], model.seen
        assert f"seal {short(SEAL)}, given {short(LEDGER)}" in model.seen[1]
        assert model.asked.count(0) == 1, "what is recorded is not asked again"
        left = machines.folder("two") / "runs" / run_id
        assert (left / "files" / GIVEN).read_bytes() == LEDGER
        assert (left / "environments" / "main" / "folder" / "tides.txt").read_text() == WRITTEN
        assert await front.files.artifact(run_id, "seal.bin") == SEAL
    # A machine that had no part in it.
    assert "sealed" in await machines.command("third", "show", run_id)
    await machines.command("third", "replay", run_id)
    tree = tmp_path / "results"
    await machines.command("third", "export", run_id, "--folder", tree)
    assert {one.name: one.read_text() for one in tree.iterdir()} == {"tides.txt": WRITTEN}
    out = tmp_path / "run.zip"
    await machines.command("third", "export", run_id, "--out", out)
    with zipfile.ZipFile(out) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    sha256 = hashlib.sha256(LEDGER).hexdigest()
    assert held[f"files/{sha256}"] == LEDGER and f"blobs/{sha256}" not in held
    assert SEAL in held.values() and WRITTEN.encode() in held.values()
    assert not [name for name, data in held.items() if SECRET.encode() in data]
    # The bundle's run is one of any workspace, also of one with an address of its own.
    plain = tmp_path / "elsewhere" / "ws"
    python([*CLI, "import", out, "--workspace", plain])
    assert (plain / "runs" / run_id / "files" / GIVEN).read_bytes() == LEDGER


@pytest.mark.long
async def test_files_stay_out_of_a_bundle_without_files(machines: Machines, model: Model, tmp_path: Path) -> None:
    model.go_on.set()
    async with machines.opened("front") as front:
        run_id = await submitted(front, tmp_path)
        await machines.worker("one")
        assert await ended(front, run_id) is RunStatus.COMPLETED
    out = tmp_path / "run.zip"
    await machines.command("third", "export", run_id, "--no-files", "--out", out)
    with zipfile.ZipFile(out) as archive:
        assert LEDGER not in {archive.read(name) for name in archive.namelist()}
    assert not (machines.folder("third") / "runs" / run_id / "files").exists(), "nor were they fetched"
    # An imported run is shared by the machines of the database that it came to.
    await machines.command("front", "export", run_id, "--out", tmp_path / "whole.zip")
    others = machines.beside("others")
    await others.command("one", "import", tmp_path / "whole.zip")
    await others.command("two", "export", run_id, "--out", tmp_path / "again.zip")
    with zipfile.ZipFile(tmp_path / "whole.zip") as one, zipfile.ZipFile(tmp_path / "again.zip") as two:
        names = [name for name in one.namelist() if name.startswith(("blobs/", "files/"))]
        assert LEDGER in {one.read(name) for name in names}
        assert {name: one.read(name) for name in names} == {name: two.read(name) for name in names}


@pytest.mark.long
async def test_a_run_waits_for_a_bucket_that_is_away(machines: Machines, model: Model, tmp_path: Path) -> None:
    model.go_on.set()
    settings = {"database_retry_s": "0.2"}
    machines.folder("front", **settings)
    machines.folder("one", **settings)
    async with machines.opened("front") as front:
        run_id = await submitted(front, tmp_path)
        machines.s3.answer = 503
        try:
            worker = await machines.worker("one")
            assert worker.stderr is not None
            said = ""
            for _ in range(8):  # more often than a run may end its driver
                while "waits for its database" not in said and "have been away for" not in said:
                    said = await asyncio.to_thread(worker.stderr.readline)
                said = ""
        finally:
            machines.s3.answer = None
        assert await ended(front, run_id) is RunStatus.COMPLETED, (await front.runs.result(run_id)).error
        assert f"seal {short(SEAL)}, given {short(LEDGER)}" in model.seen[1]


@pytest.mark.long
async def test_an_outage_in_the_middle_of_a_run_loses_nothing(machines: Machines, model: Model, tmp_path: Path) -> None:
    settings = {"database_retry_s": "0.2"}
    machines.folder("front", **settings)
    machines.folder("one", **settings)
    async with machines.opened("front") as front:
        run_id = await submitted(front, tmp_path)
        worker = await machines.worker("one")
        assert worker.stderr is not None
        await until(lambda: 1 in model.asked, worker)
        shutil.rmtree(machines.folder("one") / "artifacts")  # or the copies would do
        machines.s3.answer = 503
        model.go_on.set()
        try:
            for _ in range(5):
                line = ""
                while "have been away for" not in line:
                    line = await asyncio.to_thread(worker.stderr.readline)
            assert (await front.runs.result(run_id)).status is RunStatus.RUNNING
        finally:
            machines.s3.answer = None
        assert await ended(front, run_id) is RunStatus.COMPLETED, (await front.runs.result(run_id)).error
        assert model.asked == [0, 1, 2], "nothing was asked twice"


@pytest.mark.long
async def test_machines_name_one_place(machines: Machines) -> None:
    await machines.worker("one")
    place = machines.folder("two", artifacts=f"s3://{machines.s3.name}/other")
    process = start([*CLI, "worker", "--workspace", place], environ=machines.s3.environ)
    _, said = await asyncio.to_thread(process.communicate)
    assert process.returncode == 2 and "Traceback" not in said
    assert f"lie at s3://artifacts/{machines.schema}, and the settings name s3://artifacts/other; set" in said
