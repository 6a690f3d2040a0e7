"""Packaged environments in whole runs: three agents on one folder, forks, bundles, collections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.environments.gits import git
from tests.support.runs import whole_runs
from tests.systems.support import seen, workspace

from agentorchestra.agents.agent import Agent
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.environments.folder import FolderEnvironment
from agentorchestra.log.store import MemoryStore
from agentorchestra.tea.calling.environment import action
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace


def acts(*calls: Any) -> Any:
    return decide(calls=list(calls))


def done(answer: str) -> Any:
    return decide(calls=[call("done", answer=answer)])


async def _team(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
    """Three agents, one after the other, each with one environment."""
    answers = []
    for name in ("terminal", "files", "git"):
        work = AgentSpec(name=f"with_{name}", instruction=f"do your part with {name}", tools=(name,), system="react")
        answers.append((await session.call_agent(work)).answer)
    return AgentResult(answer=", ".join(answers))


async def test_one_file_through_three_agents_and_another_run_sees_nothing(tmp_path: Path) -> None:
    def read(request: Any) -> Any:
        assert "made by the shell" in seen(request)
        return done("read")

    def empty(request: Any) -> Any:
        assert "(the folder is empty)" in seen(request)
        return done("nothing")

    model = ScriptedModel(
        [
            acts(call("terminal_run", command="echo 'made by the shell' > poem.txt")),
            done("written"),
            acts(call("files_read", path="poem.txt")),
            read,
            acts(call("git_init"), call("git_commit", message="A poem", all_changes=True)),
            done("committed"),
            empty,
        ]
    )
    async with workspace(tmp_path, model, systems={"team": _team}) as ws:
        result = await ws.run("a poem", system="team", environments=["terminal", "files", "git"], model=model.name)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "written, read, committed"), result.error
        folder = ws.files.folder(result.run_id)
        assert git(folder, "show", "HEAD:poem.txt") == "made by the shell"
        second = await ws.run("look", system="react", environments=["files"], model=model.name)
        assert second.answer == "nothing" and not [*ws.files.folder(second.run_id).iterdir()]
        assert (await ws.replay(result.run_id)).answer == result.answer_text


@pytest.mark.long
async def test_forks_bundles_and_collections_take_the_folder_along(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            acts(call("files_write", path="a/one.txt", content="one " * 10_000)),
            acts(call("files_write", path="two.txt", content="two"), call("files_delete", path="a")),
            done("first"),
            # the fork goes on after the first action
            acts(call("files_write", path="a/other.txt", content="other")),
            done("fork"),
        ]
    )
    async with workspace(tmp_path, model) as ws:
        result = await ws.run("x", system="react", environments=["files"], model=model.name)
        assert sorted(path.name for path in ws.files.folder(result.run_id).iterdir()) == ["two.txt"]
        events = await ws.log.events(result.run_id)
        first = next(e for e in events if e.body and "env:folder" in e.body.get("outcome", {}).get("writes", {}))
        left = ws.files.folder(result.run_id).parents[1] / "main_5.0-left"  # by a process that was killed
        (left / "folder").mkdir(parents=True)
        collected = await ws.log.gc(grace_s=0)  # the contents are named by the snapshots: nothing of them goes
        assert collected.folders == 1 and not left.exists() and ws.files.folder(result.run_id).is_dir()
        forked = await ws.fork(result.run_id, at=first.seq)
        again = await ws.resume(forked, model=model)
        assert (again.status, again.answer) == (RunStatus.COMPLETED, "fork"), again.error
        made = ws.files.folder(forked)
        assert sorted(str(path.relative_to(made)) for path in made.rglob("*.txt")) == ["a/one.txt", "a/other.txt"]
        assert (made / "a/one.txt").read_text() == "one " * 10_000
        exported = await ws.log.export(result.run_id, tmp_path / "run.zip")
        assert exported is not None
    async with Workspace(tmp_path / "other", settings=Settings(model="offline")) as elsewhere:
        (came,) = await elsewhere.log.import_file(tmp_path / "run.zip")
        assert (await elsewhere.replay(result.run_id)).answer == "first"
        snapshot = str(first.body["outcome"]["writes"]["env:folder"])
        contents = (await elsewhere.store.get_blob(snapshot)).decode()
        assert "a/one.txt" in contents and came is not None


async def test_an_agent_names_an_environment_that_the_top_agent_does_not_have(tmp_path: Path) -> None:
    clerk = Agent(name="clerk", description="Keeps files.", prompt="worker", tools=(), environments=("files",))

    async def desk(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
        assert "files" not in spec.tools and "files" not in kit.given
        (delegate,) = [one for one in kit.delegates(session) if one.agent.name == "clerk"]
        outcome = await session.perform(delegate.effect({"task": "write"}, session, ()))
        return AgentResult(answer=str(outcome.value["answer"]))

    model = ScriptedModel([acts(call("files_write", path="kept.txt", content="k")), done("kept")])
    async with workspace(tmp_path, model, systems={"desk": desk}, agents=[clerk]) as ws:
        result = await ws.run("x", system="desk", model=model.name)
        assert result.answer == "kept", result.error
        assert (ws.files.folder(result.run_id) / "kept.txt").read_text() == "k"
        (record,) = await whole_runs(ws)
        assert "files" in record.manifest.tools and "terminal" not in record.manifest.tools
        known = "no environment 'nope'; there are: browser, computer, files, git"
        with pytest.raises(UnknownComponentError, match=known):
            await ws.run("x", environments=["nope"])


class _Notes(FolderEnvironment):
    """Notes that nobody writes down."""

    name = "notes"

    @action
    def think(self) -> str:
        """Change nothing."""
        return "thought"

    @action
    def write(self) -> str:
        """Write a note."""
        self.kept["notes"] = "one"
        return "written"


class _Counted(MemoryStore):
    """Counts what is put into it."""

    put = 0

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        self.put += 1
        return await super().put_blob(data, media_type)


async def test_a_snapshot_that_is_the_last_one_is_not_put_again(tmp_path: Path) -> None:
    store = _Counted()
    async with Workspace(tmp_path, settings=Settings(), store=store, environments={"notes": _Notes}) as ws:
        assert (await ws.ecp.invoke("notes", "think")).ok
        before = store.put
        first = await ws.ecp.invoke("notes", "think")
        assert first.ok and store.put == before
        second = await ws.ecp.invoke("notes", "write")
        assert second.ok and store.put == before + 1
        assert first.writes["env:folder"] != second.writes["env:folder"], "where it stands is recorded with each"
        await ws.ecp.invoke("notes", "think")
        assert store.put == before + 1
