"""The folder of a run, written from its log: wherever the run was driven, whatever lies on the disk."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentorchestra.cli.group import cli
from agentorchestra.core.errors import BundleError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import FolderSettings, PartSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace

SETTINGS = Settings(model="writer", system="react")


def workspace(folder: Path, model: Any, settings: Settings = SETTINGS) -> Workspace[None]:
    models = {"writer": ScriptedModel(model, name="writer")}
    return Workspace(folder / "ws", models=models, settings=settings, environ={})


def command(folder: Path, *words: str | Path) -> Result:
    line = [*map(str, words), "--workspace", str(folder / "ws")]
    return CliRunner().invoke(cli, line, standalone_mode=False)


async def test_it_is_as_the_log_says(tmp_path: Path) -> None:
    steps = [
        decide(
            calls=[
                call("files_write", path="notes/a.txt", content="a\n"),
                call("files_write", path="gone.txt", content="x"),
                call("files_delete", path="gone.txt"),
            ]
        ),
        decide(calls=[call("done", answer="written")]),
    ]
    async with workspace(tmp_path, steps) as ws:
        run = (await ws.run("Write notes.", environments=["files"])).run_id
        shutil.rmtree(ws.files.folder(run))  # it was driven on another machine
        written = await ws.files.export(run, tmp_path / "out")
        assert written == (tmp_path / "out", 1, ())
        assert [one.relative_to(tmp_path) for one in (tmp_path / "out").rglob("*.txt")] == [Path("out/notes/a.txt")]
        assert (tmp_path / "out/notes/a.txt").read_text() == "a\n"
        assert not ws.files.folder(run).exists()
        with pytest.raises(BundleError, match=r"out is there already; name a folder that is not"):
            await ws.files.export(run, tmp_path / "out")
        with pytest.raises(BundleError, match=r"nowhere/out cannot be written: No such file or directory"):
            await ws.files.export(run, tmp_path / "nowhere/out")
    assert {one.name for one in tmp_path.iterdir()} == {"ws", "out"}, "nothing half-written is left"


def test_the_command(tmp_path: Path) -> None:
    steps = [decide(calls=[call("files_write", path="a.txt", content="a")]), decide(calls=[call("done", answer="a")])]
    run = workspace(tmp_path, steps).run_sync("Write.", environments=["files"]).run_id
    done = command(tmp_path, "export", run, "--folder", tmp_path / "out", "--json")
    assert json.loads(done.stdout) == {"path": str(tmp_path / "out"), "files": 1, "left_out": []}, done.exception
    assert (tmp_path / "out/a.txt").read_text() == "a"
    refused = command(tmp_path, "export", run, "--folder", tmp_path / "third", "--out", "x.zip")
    assert str(refused.exception) == "--folder writes the run's folder and no file: leave out --out and --no-files"


async def test_of_rivals_it_is_the_winners(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        text = "\n".join(message.text for message in request.messages)
        if request.settings.output_schema is not None:
            return say(json.dumps({"score": 9 if "second" in text.rpartition("The step:")[2] else 1}))
        number = int(re.findall(r"This is proposal (\d)/2", text)[-1])
        name = ("first", "second")[number - 1]
        if "wrote " not in text:
            return decide(calls=[call("files_write", path=f"{name}.txt", content=name)])
        return decide(calls=[call("done", answer=name)])

    settings = SETTINGS.model_copy(update={"parts": PartSettings(candidates=2)})
    async with workspace(tmp_path, answer, settings) as ws:
        result = await ws.run("Write a name.", environments=["files"])
        assert result.status is RunStatus.COMPLETED, result.error
        left = {one.name for one in ws.files.folder(result.run_id).iterdir()}
        await ws.files.export(result.run_id, tmp_path / "out")
        assert {one.name for one in (tmp_path / "out").iterdir()} == left == {"second.txt"}


async def test_what_the_log_does_not_have_is_named(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"folder": FolderSettings(max_file_mib=1)})
    steps = [
        decide(calls=[call("files_write", path="small.txt", content="s")]),
        decide(calls=[call("files_write", path="large.txt", content="x" * (2 << 20))]),
        *[decide(calls=[call("done", answer="written")])] * 2,  # what it wrote is shown to it once more
        decide(calls=[call("done", answer="nothing to write")]),
    ]
    async with workspace(tmp_path, steps, settings) as ws:
        run = (await ws.run("Write.", environments=["files"])).run_id
        assert await ws.files.export(run, tmp_path / "out") == (tmp_path / "out", 1, ("large.txt",))
        assert [one.name for one in (tmp_path / "out").iterdir()] == ["small.txt"]
        other = (await ws.run("Write nothing.")).run_id
        with pytest.raises(BundleError, match=f"the log of run {other} has no folder of it: none of its environments"):
            await ws.files.export(other, tmp_path / "none")
        assert not (tmp_path / "none").exists()
