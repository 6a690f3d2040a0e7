"""A run replays on another machine: another process, folder, settings, without its tools, model, prompts and files."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import RunContext, tool
from agentorchestra.agents.agent import Agent
from agentorchestra.core.errors import PinError, UnknownComponentError
from agentorchestra.core.settings import ModelProfile
from agentorchestra.core.spec import RunStatus
from agentorchestra.environments.folder import FolderEnvironment
from agentorchestra.tea.calling.environment import action
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.bundle.support import PROMPT, SECRET, TASK, drawing, elsewhere, here, other, recorded, rewritten, settings
from tests.bundle.tools import both, draw
from tests.runtime.counter import Counter
from tests.support.runs import whole_runs


async def exported(tmp_path: Path, **options: object) -> tuple[Path, str]:
    async with here(tmp_path) as ws:
        result = await recorded(ws, tmp_path, **options)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "three figures"), result.error
        done = await ws.log.export(result.run_id, tmp_path / "run.zip")
    return done.path, result.run_id


@pytest.mark.long
async def test_a_run_replays_elsewhere(tmp_path: Path) -> None:
    bundle, run = await exported(tmp_path)
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    shutil.rmtree(tmp_path / "ws")
    (tmp_path / "report.txt").unlink()
    shutil.rmtree(tmp_path / "more")
    there = tmp_path / "there"
    assert elsewhere(there, "import", str(bundle)).startswith(f"{run}  completed  ")
    bundle.unlink()
    # Prompts of that machine that have the same names.
    own = there / ".agentorchestra" / "prompts"
    own.mkdir()
    (own / "react.md").write_text(PROMPT.replace("figures", "flowers"), encoding="utf-8")
    said = json.loads(elsewhere(there, "replay", "last", "--json"))
    assert (said["identical"], said["answer"], said["status"]) == (True, "three figures", "completed")
    shown = json.loads(elsewhere(there, "show", run, "--json"))
    assert shown["result"]["answer"] == "three figures"
    assert {one["name"] for one in shown["result"]["artifacts"]} == {"cover.bin", "left.bin", "right.bin"}
    assert said["keys"] == len(
        {(one["branch"], one["n"]) for one in shown["events"] if one["type"] in ("started", "completed")}
    )
    kept = there / ".agentorchestra" / "runs" / run / "files"
    assert (kept / "report.txt").read_text() == "Figures wanted: cover, left, right.\n"
    assert (kept / "more" / "ä b.txt").read_text() == "further words\n"


@pytest.mark.long
async def test_equal_runs_give_equal_bytes_wherever_they_are(tmp_path: Path) -> None:
    async with here(tmp_path) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        first = await ws.log.export(run, tmp_path / "1.zip")
        second = await ws.log.export(run, tmp_path / "2.zip")
        assert first.sha256 == second.sha256
        assert first.path.read_bytes() == second.path.read_bytes()
    async with Workspace(tmp_path / "other", settings=settings(), environ={}) as other:
        await other.log.import_file(tmp_path / "1.zip")
        third = await other.log.export(run, tmp_path / "3.zip")
    with zipfile.ZipFile(first.path) as one, zipfile.ZipFile(third.path) as two:
        assert one.namelist() == two.namelist() == sorted(one.namelist())
        differ = {name for name in one.namelist() if one.read(name) != two.read(name)}
        assert {info.date_time for info in one.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert differ <= {"bundle.json", "sums.json"}  # the other folder is in no repository


async def test_what_is_in_a_bundle(tmp_path: Path) -> None:
    bundle, run = await exported(tmp_path)
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["bundle.json"])
    assert (header["run"], header["format"], header["status"]) == (run, 1, "completed")
    manifest = json.loads(members["manifest.json"])
    assert manifest["task"] == TASK
    texts = [
        members[f"blobs/{manifest[kind][name]['source']}"] for kind, name in (("prompts", "react"), ("tools", "draw"))
    ]
    assert texts[0].decode() == PROMPT
    assert b"async def draw(ctx" in texts[1]
    shown = json.loads(members["settings.json"])
    assert shown["max_steps"] == 11
    assert shown["models"]["drawer"]["base_url"] == "https://models.example.com/v1"
    assert "pydantic" in json.loads(members["packages.json"])
    assert len([name for name in members if name.startswith("files/")]) == 2
    assert b"x-figure" in members["bundle.json"]
    assert not [name for name, data in members.items() if SECRET.encode() in data or b"hunter" in data]


@pytest.mark.long
async def test_a_waiting_run_goes_on_where_its_tools_are(tmp_path: Path) -> None:
    steps = [decide(calls=[call("draw", what="cover"), call("publish", what="cover")])]

    @tool(effect=("send", "network"))
    def publish(what: str) -> str:
        """Publish a figure."""
        return f"published {what}"

    tools = [draw, both, publish]
    async with here(tmp_path, drawing(steps), tools=tools) as ws:
        result = await recorded(ws, tmp_path)
        assert result.status is RunStatus.WAITING, result
        await ws.log.export(result.run_id, tmp_path / "run.zip")
    run = result.run_id
    there = tmp_path / "there"
    async with other(there) as ws:
        await ws.log.import_file(tmp_path / "run.zip")
        assert (await ws.replay(run)).status is RunStatus.WAITING
    said = elsewhere(there, "approve", run, result.questions[0].code, code=2)
    assert "this process does not have both, draw, publish, which the run was started with" in said
    last = drawing([decide(calls=[call("done", answer="it is out")])])
    async with Workspace(
        tmp_path / "third", tools=tools, models={"drawer": last}, settings=settings(), environ={}
    ) as third:
        (done,) = await third.log.import_file(tmp_path / "run.zip")
        assert (done.status, done.identical) == (RunStatus.WAITING, False)
        await third.approve(run)
        result = await third.resume(run)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "it is out")
        assert (await third.replay(run)).answer == "it is out"
        shown = last.requests[0].messages
        assert shown[0].text.startswith("You draw figures")  # as it was started, though this machine has another
        assert "published cover" in "".join(message.text for message in shown)


async def test_a_run_under_way_is_exported_as_far_as_it_is_and_can_be_resumed(tmp_path: Path) -> None:
    ws = here(tmp_path)

    @tool(effect="write")
    async def draw(ctx: RunContext[None], what: str, size: int = 3) -> str:
        """Draw, and give the run away meanwhile."""
        if not (tmp_path / "run.zip").exists():
            await ws.log.export(ctx.run_id, tmp_path / "run.zip")
        return what

    ws.own = replace(ws.own, tools=(*ws.own.tools[1:], draw))
    async with ws:
        await recorded(ws, tmp_path)
    last = drawing()
    async with Workspace(
        tmp_path / "third", tools=ws.own.tools, models={"drawer": last}, settings=settings(), environ={}
    ) as third:
        (done,) = await third.log.import_file(tmp_path / "run.zip")
        assert done.status is RunStatus.RUNNING
        assert (await third.replay(done.run_id)).answer == ""
        epoch = (await third.store.job(done.run_id)).epoch  # type: ignore[union-attr]
        assert epoch == 1
        before = len(await third.log.events(done.run_id))
        result = await third.resume(done.run_id)
        assert result.status is not RunStatus.RUNNING
        events = await third.log.events(done.run_id)
        assert events[before].body["epoch"] == 2


@pytest.mark.parametrize("code", [False, True])
@pytest.mark.long
async def test_programs_of_models_are_not_run_by_a_replay_elsewhere(tmp_path: Path, code: bool) -> None:
    steps = [
        say("```python\nx = draw(what='cover')\nprint('drawn', x)\n```"),
        say("```python\ndone(answer='as programs')\n```"),
    ]
    calls = [decide(calls=[call("python", code="print(6 * 7)")]), decide(calls=[call("done", answer="as programs")])]
    async with here(tmp_path, drawing(steps if code else calls)) as ws:
        result = await recorded(ws, tmp_path, action="code" if code else "tools")
        assert result.answer == "as programs", result
        await ws.log.export(result.run_id, tmp_path / "run.zip")
    there = tmp_path / "there"
    async with other(there) as ws:
        await ws.log.import_file(tmp_path / "run.zip")
    program = """
import asyncio, sys
from agentorchestra.workspace import open_workspace
import agentorchestra.tea.programs.monty as monty, agentorchestra.tools.workbench as workbench, inspect
for module in (monty, workbench):
    for name, one in inspect.getmembers(module, inspect.isclass):
        if one.__module__ == module.__name__ and hasattr(one, "run"):
            def run(self, *a, **k): raise SystemExit("a program was run")
            one.run = run
async def main():
    async with open_workspace(".agentorchestra") as ws:
        print((await ws.replay(sys.argv[1])).answer)
asyncio.run(main())
"""
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", program, result.run_id], cwd=there, capture_output=True, text=True, check=False
    )
    assert done.stdout == "as programs\n", done.stderr


@pytest.mark.long
async def test_a_run_of_a_model_without_native_calls_replays_elsewhere(tmp_path: Path) -> None:
    """Its tools are described in its prompt only: the schemas that were kept with the run give the same words."""
    steps = [decide(calls=[call("draw", what="cover")]), decide(calls=[call("done", answer="in words")])]
    model = ScriptedModel(steps, name="drawer", native_tools=False)
    async with here(tmp_path, model) as ws:
        run = (await recorded(ws, tmp_path, budget=None)).run_id
        await ws.log.export(run, tmp_path / "run.zip")
    async with other(tmp_path / "there") as ws:
        await ws.log.import_file(tmp_path / "run.zip")
        assert (await ws.replay(run)).answer == "in words"


@pytest.mark.long
async def test_a_team_replays_where_there_are_other_agents_models_and_tools(tmp_path: Path) -> None:
    steps = [
        decide(calls=[call("worker", task="draw the cover")]),
        decide(calls=[call("draw", what="cover")]),
        decide(calls=[call("done", answer="drawn")]),
        decide(calls=[call("done", answer="by a team")]),
    ]
    async with here(tmp_path, drawing(steps)) as ws:
        result = await recorded(ws, tmp_path, system="agentorchestra")
        assert result.answer.startswith("by a team"), result
        home = await ws.replay(result.run_id)
        await ws.log.export(result.run_id, tmp_path / "run.zip")

    @tool(effect="pure")
    def sing(song: str) -> str:
        """Sing a song."""
        return song

    singer = Agent(name="singer", description="Sings.", prompt="worker")
    extra = settings(models={"loud": ModelProfile(model="offline")}, max_result_chars=300)
    async with Workspace(tmp_path / "there", tools=[sing], agents=[singer], settings=extra, environ={}) as there:
        await there.log.import_file(tmp_path / "run.zip")
        assert await there.replay(result.run_id) == home


async def test_an_environment_comes_with_its_snapshots(tmp_path: Path) -> None:
    steps = [decide(calls=[call("counter_add", by=4)]), decide(calls=[call("publish", what="cover")])]

    @tool(effect=("send", "network"))
    def publish(what: str) -> str:
        """Publish a figure."""
        return f"published {what}"

    given: dict[str, Any] = {"tools": [publish], "environments": {"counter": Counter}}
    async with here(tmp_path, drawing(steps), **given) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        done = await ws.log.export(run, tmp_path / "run.zip")
        home = await ws.replay(run)
        written = [one.body.get("outcome", {}).get("writes", {}) for one in await ws.log.events(run)]
        snapshots = [str(one["env:counter"]) for one in written if "env:counter" in one]
    with zipfile.ZipFile(done.path) as archive:
        assert snapshots and {f"blobs/{one}" for one in snapshots} <= set(archive.namelist())
    async with other(tmp_path / "there") as ws2:
        await ws2.log.import_file(done.path)
        with pytest.raises(UnknownComponentError, match="this process does not have counter, which"):
            await ws2.replay(run)
    last = drawing([decide(calls=[call("counter_add", by=1)]), decide(calls=[call("done", answer="counted")])])
    third = Workspace(tmp_path / "third", models={"drawer": last}, settings=settings(), environ={}, **given)
    async with third:
        await third.log.import_file(done.path)
        assert await third.replay(run) == home
        await third.approve(run)
        result = await third.resume(run)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "counted")
        shown = "".join(message.text for message in last.requests[-1].messages)
        assert "value 5" in shown  # four of them from the snapshot


class Safe(FolderEnvironment):
    """A safe."""

    name = "safe"

    @action
    async def put(self, word: str) -> str:
        """Put a word in."""
        self.kept["word"] = await self.hide(word.encode())
        return "it is in"

    @action(effect="read")
    async def look(self) -> str:
        """What is in it."""
        data = await self.hidden(str(self.kept["word"]))
        return "nothing that is kept here" if data is None else data.decode()


@pytest.mark.long
async def test_what_an_environment_hides_stays_where_it_is(tmp_path: Path) -> None:
    steps = [decide(calls=[call("safe_put", word="the cookie"), call("safe_look")]), decide(calls=[call("publish")])]

    @tool(effect=("send", "network"))
    def publish() -> str:
        """Publish it."""
        return "published"

    given: dict[str, Any] = {"tools": [publish], "environments": {"safe": Safe}}
    async with here(tmp_path, drawing(steps), **given) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        done = await ws.log.export(run, tmp_path / "run.zip")
        home = await ws.replay(run)
        assert (await ws.log.gc(grace_s=0)).blobs == 0
    hidden = hashlib.sha256(b"the cookie").hexdigest()
    with zipfile.ZipFile(done.path) as archive:
        assert f"blobs/{hidden}" not in archive.namelist()
        assert any(hidden.encode() in archive.read(name) for name in archive.namelist())  # the snapshot names it
    last = drawing([decide(calls=[call("safe_look")]), decide(calls=[call("done", answer="looked")])])
    third = Workspace(tmp_path / "third", models={"drawer": last}, settings=settings(), environ={}, **given)
    async with third:
        await third.log.import_file(done.path)
        assert await third.replay(run) == home
        await third.approve(run)
        assert (await third.resume(run)).answer == "looked"
        assert "nothing that is kept here" in "".join(message.text for message in last.requests[-1].messages)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.long
async def test_an_imported_runs_application_and_modules_are_never_executed(tmp_path: Path) -> None:
    """Neither the app that its manifest names, nor the kept text of a tool's module, nor those of its forks."""
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "evil.py").write_text(f"open({str(trap / 'sprung')!r}, 'w')\nraise SystemExit\n")
    async with here(tmp_path) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        await ws.log.export(run, tmp_path / "run.zip")

    def change(members: dict[str, bytes]) -> None:
        digest = digest_of(trap / "evil.py")
        members[f"blobs/{digest}"] = (trap / "evil.py").read_bytes()
        manifest = json.loads(members["manifest.json"])
        manifest |= {"app": "evil:ws", "app_folder": str(trap), "overrides": {"prompt:react": digest}}
        manifest["tools"]["draw"]["source"] = digest
        members["manifest.json"] = json.dumps(manifest).encode()
        first, *rest = members["events.jsonl"].splitlines()
        created = json.loads(first)
        created["body"]["manifest"] = manifest
        members["events.jsonl"] = b"\n".join([json.dumps(created).encode(), *rest]) + b"\n"

    bundle = rewritten(tmp_path / "run.zip", tmp_path / "evil.zip", change)
    there = tmp_path / "there"
    async with other(there) as ws:
        await ws.log.import_file(bundle)
        assert (await ws.replay(run)).answer == "three figures"
        await ws.log.export(run, tmp_path / "again.zip")
    assert "identical" in elsewhere(there, "replay", run, "--pin")
    # A completed run is not driven on; one that is would need the tools, which its app may not bring.
    assert "this process does not have both, draw" in elsewhere(there, "fork", run, "--at", "5", code=2)
    tools = [draw, both]
    async with Workspace(there / ".agentorchestra", tools=tools, models={"drawer": drawing()}, environ={}) as ws2:
        fork = await ws2.fork(run, at=5)
        (made,) = [one.manifest for one in await whole_runs(ws2) if one.id == fork]
        assert (made.app, made.app_folder, made.overrides) == (None, None, {})
        assert made.prompts == ws2.catalog.prompts.pins()
        assert digest_of(trap / "evil.py") not in made.model_dump_json()
        with pytest.raises(PinError, match="imported: the texts of its tools came with it and are not executed"):
            equipper = ws2.assembly().equipper
            await equipper.as_started((await ws2.store.get_run(run)), equipper.base(), pin=True)  # type: ignore[arg-type]
        assert (await ws2.resume(fork, pin=True)).status is not RunStatus.CREATED
    assert not (trap / "sprung").exists()
