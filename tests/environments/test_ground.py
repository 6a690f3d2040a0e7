"""Environments on one ground: what one does is there for the next, worlds and runs are apart, resumes stand right."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.support import Bench, agent, best_by

from agentorchestra.core.content import TextBlock, without_numbers
from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import Message, ToolCall
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.environments.files.environment import FilesEnvironment
from agentorchestra.environments.folder import FolderEnvironment
from agentorchestra.environments.manifest import FolderLimits
from agentorchestra.log.folders import clear_up, world_folder
from agentorchestra.log.store import MemoryStore
from agentorchestra.loop import Decision, Parts, Seen, State, beam
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.tea.calling.environment import action


class Notes(FolderEnvironment):
    """A second environment on the folder: lines of one file, and how many it wrote."""

    name = "notes"

    @action
    def add(self, text: str, fail: bool = False) -> int:
        """Add a line."""
        with (self.folder / "notes.txt").open("a") as file:
            file.write(f"{text}\n")
        self.kept["written"] = int(str(self.kept.get("written", 0))) + 1
        if fail:
            raise ToolError("it failed half way")
        return int(str(self.kept["written"]))


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    made = MemoryStore()
    await made.open()
    yield made
    await made.close()


def bench(store: MemoryStore, folder: Path, functions: dict[str, Any] | None = None) -> Bench:
    return Bench(store, functions or {}, environments={"notes": Notes, "files": FilesEnvironment}, folder=folder)


def add(text: str, **more: Any) -> Any:
    return action_effect(Notes(), "add", {"text": text, **more})


def files(action_name: str, **arguments: Any) -> Any:
    return action_effect(FilesEnvironment(), action_name, arguments)


async def shown(ctx: BranchContext[Any], path: str = "notes.txt") -> str:
    outcome = await ctx.perform(files("read", path=path))
    if not outcome.ok:
        return str(outcome.error)
    return next(without_numbers(block) for block in outcome.blocks() if block.source is not None and block.source.place)


def main_folder(tmp_path: Path, run: str = "run_test") -> Path:
    return world_folder(tmp_path / run, "main") / "folder"


async def test_what_one_environment_does_is_there_for_the_next(store: MemoryStore, tmp_path: Path) -> None:
    one = bench(store, tmp_path)
    await one.create()

    async def main(root: BranchContext[Any]) -> str:
        outcomes = await root.perform_all(
            [add("a"), files("read", path="notes.txt"), add("b"), files("write", path="x/y.txt", content="z")]
        )
        assert [o.status for o in outcomes] == ["ok"] * 4, [o.error for o in outcomes]
        assert {name for o in outcomes for name in o.writes if name.startswith("env:")} == {"env:folder"}
        assert outcomes[1].blocks()[0].text == "1\ta"  # type: ignore[union-attr]
        snapshot = json.loads(await store.get_blob(str(root.vars["env:folder"])))
        assert [line[0] for line in snapshot["entries"]] == ["notes.txt", "x", "x/y.txt"]
        assert snapshot["kept"]["notes"] == {"written": 2}
        return await shown(root)

    assert (await one.drive(main)).answer == "a\nb"
    assert (await one.replay(main)) is not None
    folder = main_folder(tmp_path)
    assert (folder / "x/y.txt").read_text() == "z" and (folder / "notes.txt").read_text() == "a\nb\n"
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]


async def test_a_resume_stands_at_the_last_recorded_action(store: MemoryStore, tmp_path: Path) -> None:
    one = bench(store, tmp_path)
    await one.create()
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(add("a"))
        failed = await root.perform(add("b", fail=True))
        assert failed.error == "it failed half way"
        if crash:
            raise RuntimeError("the process ends here")
        count = (await root.perform(add("c"))).value
        return f"{count}: {await shown(root)}"

    assert (await one.drive(main)).status is RunStatus.FAILED
    folder = main_folder(tmp_path)
    (folder / "notes.txt").write_text("half written by an action that nobody recorded\n")
    (folder / "more").mkdir()
    (folder / "more/left.txt").write_text("x")
    crash = False
    assert (await one.drive(main)).answer == "3: a\nb\nc"
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt"]


async def test_a_first_action_that_was_never_recorded_leaves_nothing(store: MemoryStore, tmp_path: Path) -> None:
    one = bench(store, tmp_path)
    await one.create()
    main_folder(tmp_path).mkdir(parents=True)
    (main_folder(tmp_path) / "notes.txt").write_text("left by a killed process")

    async def main(root: BranchContext[Any]) -> str:
        return await shown(root)

    assert "does not exist" in (await one.drive(main)).answer


async def test_runs_see_nothing_of_each_other(store: MemoryStore, tmp_path: Path) -> None:
    one = bench(store, tmp_path)

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(add(root.run_id))
        return await shown(root)

    for run in ("run_a", "run_b"):
        await one.create(run)
        assert (await one.drive(main, run)).answer == run
    assert (main_folder(tmp_path, "run_a") / "notes.txt").read_text() == "run_a\n"


@pytest.mark.parametrize("crash", [False, True])
async def test_candidates_have_folders_of_their_own_and_the_winners_goes_on(
    store: MemoryStore, tmp_path: Path, crash: bool
) -> None:
    one = bench(store, tmp_path)
    await one.create()
    worlds = tmp_path / "run_test/environments"
    ended = False

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(add("before"))
        left, right = root.candidates(2)

        async def go(ctx: BranchContext[Any], text: str) -> str:
            await ctx.perform(add(text))
            return await shown(ctx)

        seen = await root.rivals([lambda: go(left, "left"), lambda: go(right, "right")])
        assert seen == ["before\nleft", "before\nright"]
        if crash:
            raise RuntimeError("the process ends here")
        assert ended or len([*worlds.iterdir()]) == 3
        await root.adopt(right)
        assert [path.name for path in worlds.iterdir()] == ["main"]
        if not ended:  # the user finds the winner's folder, though nothing was done in it since
            assert (main_folder(tmp_path) / "notes.txt").read_text() == "before\nright\n"
        return await shown(root)

    if crash:
        await one.drive(main)
        crash, ended = False, True  # the candidates are recorded by now: nothing of theirs is opened again
    assert (await one.drive(main)).answer == "before\nright"
    assert (main_folder(tmp_path) / "notes.txt").read_text() == "before\nright\n"
    ended = True
    assert (await one.replay(main)) is not None


async def test_the_winners_folder_is_found_though_all_was_recorded_before(store: MemoryStore, tmp_path: Path) -> None:
    one = bench(store, tmp_path)
    await one.create()
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        (rival,) = root.candidates(1)
        await rival.perform(add("winner"))
        if crash:
            raise RuntimeError("the process ends here")
        await root.adopt(rival)
        return "done"

    await one.drive(main)
    crash = False
    assert (await one.drive(main)).answer == "done"
    assert (main_folder(tmp_path) / "notes.txt").read_text() == "winner\n"


async def test_agents_at_work_at_the_same_time_share_the_folder(store: MemoryStore, tmp_path: Path) -> None:
    crash = True

    async def worker(effect: Any, ctx: BranchContext[Any]) -> Any:
        name = str(effect.arguments["name"])
        for step in range(3):
            await ctx.perform(add(f"{name}{step}"))
        if name == "b" and crash:
            raise RuntimeError("this agent's process ends here")
        return name

    one = bench(store, tmp_path, {"a": worker, "b": worker})
    await one.create()

    async def main(root: BranchContext[Any]) -> str:
        await root.perform_all([agent(name, tools=["notes", "files"]) for name in ("a", "b")])
        if crash:
            raise RuntimeError("the process ends here")
        return await shown(root)

    await one.drive(main)
    crash = False
    lines = (await one.drive(main)).answer.split("\n")
    assert sorted(lines) == ["a0", "a1", "a2", "b0", "b1", "b2"]


async def test_of_two_who_write_one_file_the_later_one_is_told(store: MemoryStore, tmp_path: Path) -> None:
    told: list[str] = []

    async def first(effect: Any, ctx: BranchContext[Any]) -> Any:
        await ctx.perform(files("read", path="plan.md"))
        await ctx.perform(agent("second", tools=["files"]))  # writes it meanwhile
        late = await ctx.perform(files("write", path="plan.md", content="mine\n"))
        told.append(str(late.error))
        edit = await ctx.perform(files("edit", path="plan.md", old="three", new="drei"))
        told.append(str(edit.value))
        await ctx.perform(files("read", path="plan.md"))
        return (await ctx.perform(files("write", path="plan.md", content="one\nmine\n"))).value

    async def second(effect: Any, ctx: BranchContext[Any]) -> Any:
        blind = await ctx.perform(files("write", path="plan.md", content="x"))
        told.append(str(blind.error))
        await ctx.perform(files("read", path="plan.md"))
        return (await ctx.perform(files("write", path="plan.md", content="one\n2\nthree\n"))).value

    one = bench(store, tmp_path, {"first": first, "second": second})
    await one.create()

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(files("write", path="plan.md", content="one\ntwo\nthree\n"))
        return str((await root.perform(agent("first", tools=["files"]))).value)

    assert (await one.drive(main)).answer == "replaced plan.md (9 bytes)"
    blind, late, edit = told
    assert "plan.md is there (14 bytes) and you have not read it" in blind
    assert "changed by another since you last saw it, and was not written" in late
    assert "-two\n+2\n" in late
    assert edit.startswith("replaced 1 place in plan.md\nSince you last saw it") and "+2" in edit
    assert (main_folder(tmp_path) / "plan.md").read_text() == "one\nmine\n"


async def test_more_than_can_be_kept_is_an_observation_and_the_run_goes_on(store: MemoryStore, tmp_path: Path) -> None:
    class Small(Notes):
        """Keeps little."""

        name = "small"
        limits = FolderLimits(bytes=10)

    one = Bench(store, {}, environments={"small": Small}, folder=tmp_path)
    await one.create()
    crash = True

    def put(text: str) -> Any:
        return action_effect(Small(), "add", {"text": text})

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(put("12"))
        much = await root.perform(put("1234567890"))
        if crash:
            raise RuntimeError("the process ends here")
        (rival,) = root.candidates(1)
        nowhere = await rival.perform(put("y"))
        lost = await root.perform(put("x"))
        return f"{much.value} / {nowhere.error} / {lost.status}: {lost.error}"

    await one.drive(main)
    crash = False
    answer = (await one.drive(main)).answer
    assert answer.startswith(
        "2\n[add was done on folder, but how it stands now could not be kept: the folder holds more than 10 bytes"
    )
    assert "/ folder could not be opened: how it stood where this rival world begins could not be kept /" in answer
    assert "/ environment_lost: the state of folder was lost" in answer
    assert (main_folder(tmp_path) / "notes.txt").read_text() == "12\n1234567890\n"  # it lies there still


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    for world in ("main", "main/3.a/1.0"):
        place = world_folder(tmp_path, world)
        (place / "folder").mkdir(parents=True)
        (place / "temporary").mkdir()
    clear_up(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in sorted((tmp_path / "environments").rglob("*"))] == [
        "environments/main",
        "environments/main/folder",
    ]


async def test_an_instance_is_not_taken_for_another_environments(store: MemoryStore, tmp_path: Path) -> None:
    from tests.runtime.counter import Counter

    one = Bench(store, {}, environments={"notes": Notes, "counter": Counter}, folder=tmp_path)
    await one.create()

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(add("a"))
        wrong = await root.perform(action_effect(Counter(), "look", {}, instance="folder"))
        return str(wrong.error)

    assert "'folder' is the instance of notes, not of 'counter'" in (await one.drive(main)).answer


async def test_a_large_folder_is_stored_again_only_where_it_changed(store: MemoryStore, tmp_path: Path) -> None:
    one = bench(store, tmp_path)
    await one.create()
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        await root.perform(add("a"))
        if crash:
            for folder in ("x", "y"):
                (main_folder(tmp_path) / folder).mkdir()
                for number in range(130):
                    (main_folder(tmp_path) / folder / f"{number}.txt").write_text(f"{folder}{number}")
        await root.perform(add("b"))
        before = str(root.vars["env:folder"])
        await root.perform(files("write", path="y/more.txt", content="more"))
        after = str(root.vars["env:folder"])
        if crash:
            raise RuntimeError("the process ends here")
        kept = [json.loads(await store.get_blob(name)) for name in (before, after)]
        assert [len(one["entries"]) for one in kept] == [3, 3]  # notes.txt, x, y
        first, second = (one["parts"] for one in kept)
        assert len(first) == len(second) == 2 and len({*first} & {*second}) == 1
        assert (await root.perform(files("delete", path="x/0.txt"))).ok
        return await shown(root, "y/more.txt")

    await one.drive(main)
    crash = False
    await store.sweep_blobs(grace_s=0)  # a manifest names its parts, which name the contents
    for path in main_folder(tmp_path).rglob("*.txt"):
        path.unlink()
    assert (await one.drive(main)).answer == "more"
    found = sorted(path.name for path in (main_folder(tmp_path) / "x").iterdir())
    assert found == sorted(f"{number}.txt" for number in range(1, 130))
    assert (main_folder(tmp_path) / "x/7.txt").read_text() == "x7"


async def test_the_candidates_of_a_beam_each_see_their_own_folder(store: MemoryStore, tmp_path: Path) -> None:
    one = bench(store, tmp_path)
    await one.create()
    seen: list[str] = []

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        mine = state.candidate.partition("/")[0]
        before = await ctx.perform(files("search", names="*.txt"))
        seen.append(f"{state.step}.{mine}: {before.value}")
        effect = files("write", path=f"{state.step}-{mine}.txt", content=mine)
        message = Message(role="assistant", content=(TextBlock(text=f"write {mine}"),))
        call = ToolCall(id=f"c{state.step}", name="files_write", arguments={})
        return Decision(message=message, tool_calls=(call,), calls=(effect,), memory="")

    async def stop(state: State, ctx: BranchContext[Any]) -> State:
        return state if state.step < 2 else state.model_copy(update={"result": AgentResult(answer="done")})

    async def score(state: State, ctx: BranchContext[Any]) -> float:
        return 1.0 if state.candidate.startswith("2") else 0.0

    async def main(root: BranchContext[Any]) -> str:
        parts = Parts(decide=decide, observe=(stop,), environments=("files",))
        await beam(State(messages=()), root, parts, choose=best_by(score), candidates=2)
        return str((await root.perform(files("list"))).value)

    assert (await one.drive(main)).answer == "0-2.txt (1 bytes)\n1-2.txt (1 bytes)"
    nothing = "nothing in the folder fits"
    kept = "0-2.txt (1 bytes)"
    assert sorted(seen) == [f"0.1: {nothing}", f"0.2: {nothing}", f"1.1: {kept}", f"1.2: {kept}"]
    assert sorted(path.name for path in main_folder(tmp_path).iterdir()) == ["0-2.txt", "1-2.txt"]
    assert [path.name for path in (tmp_path / "run_test/environments").iterdir()] == ["main"]
    assert (await one.replay(main)) is not None
