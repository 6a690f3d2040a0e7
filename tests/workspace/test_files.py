"""The files of a run: which they are, and how they get into a folder of the user's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.effects import ArtifactRef, EffectKind, Outcome
from agentorchestra.core.errors import OutFolderError
from agentorchestra.core.events import RunEnded
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import Settings, TerminalCopy, TerminalSettings
from agentorchestra.core.spec import AgentResult, RunFile
from agentorchestra.log.ledger import Ledger, Record
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.files import clean_name, made_files
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.delivery import check_out, save


@tool(effect="read")
async def draw(ctx: RunContext[Any], name: str, text: str) -> ToolResult:
    """Draw.

    Args:
        name: of the picture.
        text: what is in it.
    """
    return ToolResult(content="drawn", artifacts=(await ctx.artifact(name, text.encode(), "image/png"),))


@tool(effect="read")
async def chatter() -> str:
    """Say more than a result has room for."""
    return "x" * 50_000


def workspace(folder: Path, *steps: Any) -> Workspace[Any]:
    model = ScriptedModel([*steps, call("done", answer="ready")])
    return Workspace(folder / "ws", tools=[draw, chatter], models={"scripted": model}, store=MemoryStore(), environ={})


def listed(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text() for one in sorted(folder.rglob("*")) if one.is_file()}


OPTIONS: Any = {"model": "scripted", "system": "react"}


async def test_a_stream_writes_them_before_its_end(tmp_path: Path) -> None:
    async with workspace(tmp_path, call("draw", name="chart.png", text="first")) as ws:
        notices = [one async for one in ws.stream("Draw", out=tmp_path / "out", **OPTIONS)]
        assert listed(tmp_path / "out") == {"chart.png": "first"}
        assert [one.path for one in notices[-1].result.files] == [str(tmp_path / "out/chart.png")]
        (tmp_path / "taken").write_text("a file")
        with pytest.raises(OutFolderError):
            await anext(aiter(ws.stream("Draw", out=tmp_path / "taken", **OPTIONS)))


async def test_files_of_tools_and_of_the_folder_are_written_by_their_names(tmp_path: Path) -> None:
    steps = (
        call("draw", name="chart.png", text="first"),
        call("chatter"),
        call("files_write", path="notes/a.txt", content="hello"),
        call("draw", name="chart.png", text="second"),
    )
    out = tmp_path / "out"
    async with workspace(tmp_path, *steps) as ws:
        result = await ws.run("draw", environments=("files",), out=out, **OPTIONS)
        assert listed(out) == {"chart-2.png": "first", "chart.png": "second", "notes/a.txt": "hello"}
        assert [(one.name, one.path, one.media_type, one.size, one.made_by) for one in result.files] == [
            ("chart-2.png", str(out / "chart-2.png"), "image/png", 5, "draw"),
            ("chart.png", str(out / "chart.png"), "image/png", 6, "draw"),
            ("notes/a.txt", str(out / "notes/a.txt"), "text/plain", 5, "files"),
        ]
        assert result.folder == str(ws.files.folder(result.run_id))
        assert any(one.name.endswith("chatter.txt") for one in result.artifacts)  # it is kept, and is no file of his
        again = await ws.files.save(result.run_id, out)
        assert (again.written, len(again.files)) == (0, 3)
        recorded = (await ws.runs.result(result.run_id)).files
        assert recorded == await ws.files.of(result.run_id)
        assert [one.path for one in recorded] == [None, None, None]
        report = await ws.replay(result.run_id)
        assert report.answer == "ready"


async def test_nothing_is_written_unasked_and_for_a_run_without_files_no_folder_is_made(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        result = await ws.run("draw", out=tmp_path / "out", **OPTIONS)
    assert (result.files, result.folder) == ((), None)
    assert not (tmp_path / "out").exists()
    async with workspace(tmp_path, call("draw", name="a.png", text="a")) as ws:
        result = await ws.run("draw", **OPTIONS)
    assert [one.path for one in result.files] == [None]
    assert not [one for one in tmp_path.iterdir() if one.name != "ws"]


async def test_a_chart_has_the_name_that_the_program_gave_it(tmp_path: Path) -> None:
    steps = (
        call("python", code="open('chart.png', 'wb').write(b'draft'); open('gone.txt', 'w').write('x')"),
        call("python", code="import os; os.remove('gone.txt'); open('chart.png', 'wb').write(b'final')"),
    )
    async with workspace(tmp_path, *steps) as ws:
        result = await ws.run("draw", out=tmp_path / "out", **OPTIONS)
    assert listed(tmp_path / "out") == {"chart.png": "final"}
    assert [(one.name, one.made_by) for one in result.files] == [("chart.png", "python")]


async def test_what_the_folder_began_with_is_a_file_only_where_it_was_changed(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for name in ("kept.txt", "changed.txt"):
        (given / name).write_text("as it was")
    terminal = TerminalSettings(copies=(TerminalCopy(source=str(given), to="work"),))
    steps = (
        call("files_write", path="work/changed.txt", content="changed", overwrite=True),
        call("files_write", path="work/.git/config", content="git's own"),
        call("files_write", path="new.txt", content="new"),
    )
    model = ScriptedModel([*steps, call("done", answer="ready")])
    options: Any = {"models": {"scripted": model}, "store": MemoryStore(), "environ": {}}
    async with Workspace(tmp_path / "ws", settings=Settings(terminal=terminal), **options) as ws:
        result = await ws.run("change", environments=("files",), out=tmp_path / "out", **OPTIONS)
    assert result.status == "completed", result.error
    assert listed(tmp_path / "out") == {"new.txt": "new", "work/changed.txt": "changed"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spoilt", ["a file", "below a file", "a link that leads nowhere"])
async def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_spent(tmp_path: Path, spoilt: str) -> None:
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    out = tmp_path / {"a file": "taken", "below a file": "taken/x", "a link that leads nowhere": "link"}[spoilt]
    async with workspace(tmp_path) as ws:
        with pytest.raises(OutFolderError, match=r"cannot be the folder for the files: .* is no folder; name another"):
            await ws.run("draw", out=out, **OPTIONS)
        assert await ws.runs.list() == []
        run_id = await ws.create("draw", **OPTIONS)
        with pytest.raises(OutFolderError):
            await ws.resume(run_id, out=out)
        assert [one.type for one in await ws.log.events(run_id)] == ["run_created"]
        await ws.resume(run_id)
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(("name", "why"), [("x" * 300, "File name too long"), ("a\0b", "embedded null")])
def test_a_place_that_no_folder_can_have_is_refused(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(OutFolderError, match=f"cannot be written: .*{why}.*; name another folder, or make room there"):
        check_out(tmp_path / name / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(OutFolderError, match="may not be written; name another"):
        check_out(tmp_path / "closed" / "out")


async def test_nothing_that_is_there_is_written_over_and_no_link_is_followed(tmp_path: Path) -> None:
    store, out, outside = MemoryStore(), tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    out.mkdir()
    (out / "a.txt").write_text("mine")
    (out / "a-2.txt").write_text("new")
    (out / "b.txt").symlink_to(outside / "b.txt")
    (out / "linked").symlink_to(outside)
    (out / "file").write_text("no folder")
    (out / "folder").mkdir()
    await store.open()
    sha256 = await store.put_blob(b"new", "text/plain")
    names = ("a.txt", "b.txt", "linked/c.txt", "file/d.txt", "folder", "/../../e.txt", "x/../../f.txt")
    files = [RunFile(name=one, sha256=sha256) for one in names]
    saved = await save(store, [*files, RunFile(name="lost", sha256="0" * 64)], out)
    assert [str(Path(one.path or "").relative_to(out)) for one in saved.files] == [
        "a-2.txt",
        "b-2.txt",
        "linked-2/c.txt",
        "file-2/d.txt",
        "folder-2",
        "e.txt",
        "x/f.txt",
    ]
    assert (saved.written, saved.missing) == (6, ("lost",))
    assert (out / "a.txt").read_text() == "mine"
    assert [*outside.iterdir()] == []
    assert [one.name for one in tmp_path.iterdir() if one.name not in ("out", "outside")] == []
    await store.close()


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("chart.png", "chart.png"),
        ("a/b c/ü.txt", "a/b c/ü.txt"),
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("..", "file"),
        ("", "file"),
        ("a\x00b\x1b[2J\u202e.png", "a_b_[2J_.png"),
        ("half \ud800.txt", "half ?.txt"),
        ("x" * 300 + ".png", "x" * 196 + ".png"),
        ("d/" * 100 + "a", "d/" * 39 + "a"),
    ],
)
def test_a_name_leads_nowhere_else(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned
    assert clean_name(cleaned) == cleaned


def record(seq: int, *refs: ArtifactRef, kind: str = "invoke_tool", value: Any = None, **effect: Any) -> Record:
    stored = {"kind": kind, "component": "draw@1", **effect}
    return Record(fingerprint="", effect=stored, outcome=Outcome(artifacts=refs, value=value), seq=seq)


def ref(name: str, content: str, **more: Any) -> ArtifactRef:
    return ArtifactRef(name=name, sha256=content * 64, size=1, **more)


def test_what_the_run_kept_for_itself_and_what_rivals_left_are_no_files() -> None:
    ledger = Ledger()
    ledger.records = {
        EffectKey("/1.a", 1): record(1, ref("page.md", "1", made_for="run"), ref("old.md", "2")),
        EffectKey("/1.a", 2): record(2, ref("rival.png", "3", made_for="user"), world="/1.a/9.0"),
        EffectKey("/1.a", 3): record(3, ref("mine.png", "4", made_for="user")),
        EffectKey("/1.a/4.python", 1): record(
            4, ref("of-before.png", "5"), kind=EffectKind.RUN_CODE.value, value={"removed": []}
        ),
    }
    assert [one.name for one in made_files(ledger)] == ["mine.png", "of-before.png"]


def test_no_name_is_a_files_and_a_folders() -> None:
    folder = [RunFile(name=name, sha256=content * 64) for name, content in (("a/b", "1"), ("c", "2"))]
    ledger = Ledger()
    ledger.records = {
        EffectKey("/1.a", n): record(n, ref(name, str(n), made_for="user"))
        for n, name in enumerate(("a", "c/d", "c"), start=3)
    }
    assert [one.name for one in made_files(ledger, folder)] == ["a-2", "a/b", "c", "c-2", "c-3/d"]


def test_logs_from_before_are_read_and_replayed_alike() -> None:
    assert RunEnded.model_validate({"status": "completed", "active_s": 1}).files == ()
    assert ArtifactRef.model_validate({"name": "a", "sha256": "0", "size": 1}).made_for == ""
    stored = AgentResult(artifacts=(ref("a", "0", made_for="run"),)).log_json()
    # The value of a sub-agent's effect, which a replay compares.
    assert stored["artifacts"] == [
        {"name": "a", "sha256": "0" * 64, "size": 1, "media_type": "application/octet-stream"}
    ]
