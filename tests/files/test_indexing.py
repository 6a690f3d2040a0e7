"""Searches over many files: read once, going on where the last one stopped, within a time, with progress."""

from __future__ import annotations

import asyncio
import importlib
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.file_tools import Watched, place, search
from tests.support.files import FakeContext

from agentorchestra.core.content import TextBlock
from agentorchestra.core.errors import ToolError
from agentorchestra.tools.files import file_tools
from agentorchestra.tools.files import indexer as indexing
from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.indexer import bring_up

COUNT = 450


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    """Small files, of which number 321 holds a fact."""
    folder = tmp_path / "docs"
    folder.mkdir()
    paths = []
    for number in range(COUNT):
        path = folder / f"note{number:03}.md"
        fact = "The heron of Arn was drawn by Ilse Brandt.\n" if number == 321 else ""
        path.write_text(f"# Note {number}\n\nOtter number {number} swims.\n\n{fact}")
        paths.append(path)
    return paths


def documents(folder: Path) -> dict[str, float]:
    """What is in the index, and when it was added."""
    with sqlite3.connect(folder / "index.db") as db:
        return dict(db.execute("SELECT sha256, at FROM documents WHERE problem IS NULL"))


async def test_a_fact_among_many_files_is_found_and_nothing_is_read_twice(many: list[Path], tmp_path: Path) -> None:
    ctx: Any = Watched(many, tmp_path / "run")
    blocks = await search(ctx, tmp_path, query="heron of Arn")
    assert place(blocks[0]) == ("note321.md", "line 5")
    assert blocks[-1].text == f"Searched {COUNT} of {COUNT} files."
    assert ctx.told == [f"read {n} of {COUNT} new files" for n in (100, 200, 300, 400, 450)]
    added = documents(tmp_path)
    for path in many:
        path.unlink()  # nothing is left to be read
    assert place((await search(ctx, tmp_path, query="heron of Arn"))[0]) == ("note321.md", "line 5")
    assert documents(tmp_path) == added and len(ctx.told) == 5


async def test_only_new_and_changed_files_are_read(many: list[Path], tmp_path: Path) -> None:
    await search(Watched(many, tmp_path / "run"), tmp_path, query="otter")
    before = documents(tmp_path)
    changed = tmp_path / "changed" / "note007.md"
    changed.parent.mkdir()
    changed.write_text("The kingfisher of Ulm.\n")
    new = tmp_path / "new.md"
    new.write_text("The platypus of Ulm.\n")
    now = Watched([*many[:7], changed, *many[8:300], new], tmp_path / "run")
    blocks = await search(now, tmp_path, query="Ulm 7")
    assert {place(block)[0] for block in blocks[:2]} == {"note007.md", "new.md"}
    after = documents(tmp_path)
    assert len(after) == len(before) + 2 and before.items() <= after.items()
    # What is no file of the run is not found, though it is in the index.
    blocks = await search(now, tmp_path, query="heron")
    assert blocks[0].text == "No passage of 301 files holds a word of the query 'heron'."


async def test_a_pattern_narrows(many: list[Path], tmp_path: Path) -> None:
    ctx = Watched(many, tmp_path / "run")
    blocks = await search(ctx, tmp_path, query="otter", files="note32?.md", limit=50)
    assert {place(block)[0] for block in blocks if block.source} == {f"note32{n}.md" for n in range(10)}
    assert len(documents(tmp_path)) == 10
    with pytest.raises(
        ToolError, match=r"No file of this task matches 'x/\*'; give e\.g\. .* There are: in no folder: 450"
    ):
        await search(ctx, tmp_path, query="otter", files="x/*")


async def test_a_cancelled_search_keeps_what_was_read_and_the_next_goes_on(many: list[Path], tmp_path: Path) -> None:
    reached = asyncio.Event()
    ctx = Watched(many, tmp_path / "run", lambda _: reached.set())
    task = asyncio.create_task(search(ctx, tmp_path, query="heron"))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kept = documents(tmp_path)
    assert 100 <= len(kept) < COUNT
    blocks = await search(Watched(many, tmp_path / "run"), tmp_path, query="heron")
    assert place(blocks[0]) == ("note321.md", "line 5")
    assert kept.items() <= documents(tmp_path).items()


async def test_a_search_ends_in_time_and_says_how_far_it_came(
    many: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx: Any = Watched(many, tmp_path / "run")
    with PassageIndex(tmp_path) as index:
        await bring_up(ctx, index, ctx.manifest.files[:30])
        monkeypatch.setattr(indexing, "SECONDS", 0.0)
        standing = await bring_up(ctx, index, ctx.manifest.files)
        assert standing.left > 0 and len(standing.readable) + standing.left == COUNT
    blocks = await search(ctx, tmp_path, query="otter 12")
    assert place(blocks[0])[0] == "note012.md"
    assert f"of {COUNT} files are read so far; search again to go on with the others" in blocks[-1].text


@pytest.mark.long
async def test_bad_files_are_a_note_and_are_not_tried_at_each_search(many: list[Path], tmp_path: Path) -> None:
    for path in many[:12]:
        path.rename(path.with_suffix(".pdf"))
    bad = [path.with_suffix(".pdf") for path in many[:12]]
    for number, path in enumerate(bad):
        path.write_bytes(b"%PDF-1.4\n" + f"broken {number}\n%%EOF\n".encode())
    good: Any = Watched(many[12:], tmp_path / "run")
    ctx: Any = Watched(many[12:], tmp_path / "run")
    # Checked as a folder is: by their first bytes.
    refs = [
        good.manifest.files[0].model_copy(
            update={"name": path.name, "sha256": path.name, "media_type": "application/pdf"}
        )
        for path in bad
    ]
    ctx.manifest.files = (*refs, *good.manifest.files)
    ctx._paths |= {path.name: path for path in bad}
    blocks = await search(ctx, tmp_path, query="heron")
    assert place(blocks[0]) == ("note321.md", "line 5")
    notes = [block.text for block in blocks if block.text.startswith("Not searched: ")]
    assert len(notes) == 6 and notes[0].startswith("Not searched: note000.pdf is corrupt")
    assert notes[-1] == "Not searched: 7 more files that hold no text or cannot be read."
    assert str(tmp_path) not in "".join(notes)
    assert blocks[-1].text == f"Searched {COUNT - 12} of {COUNT} files."
    for path in bad:
        path.write_text("Readable now.")  # would be found, were it tried again
    again = await search(ctx, tmp_path, query="heron")
    assert [block.text for block in again] == [block.text for block in blocks]
    with pytest.raises(ToolError, match=r"note000\.pdf is corrupt.*7 more files"):
        await search(ctx, tmp_path, query="heron", files="*.pdf")


async def test_the_same_content_is_read_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"copy{number}.md" for number in range(20)]
    for path in paths:
        path.write_text("The otter swims.\n")
    blocks = await search(Watched(paths, tmp_path / "run"), tmp_path, query="otter")
    assert [place(block) for block in blocks if block.source] == [("copy0.md", "line 1")]
    assert len(documents(tmp_path)) == 1
    blocks = await search(Watched(paths, tmp_path / "run"), tmp_path, query="otter", files="copy1?.md")
    assert [place(block) for block in blocks if block.source] == [("copy10.md", "line 1")]


_OTHER = """
import asyncio, sys
from pathlib import Path
from tests.support.file_tools import Watched, search
folder = Path(sys.argv[1])
files = sorted((folder / "docs").iterdir())
blocks = asyncio.run(search(Watched(files, folder / "run"), folder, query="heron of Arn"))
print(blocks[0].source.ref, blocks[-1].text)
"""


@pytest.mark.long
async def test_processes_share_an_index(many: list[Path], tmp_path: Path) -> None:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", _OTHER, str(tmp_path), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        for _ in range(2)
    ]
    said = [(await process.communicate())[0].decode().strip() for process in processes]
    assert said == [f"note321.md Searched {COUNT} of {COUNT} files."] * 2
    with sqlite3.connect(tmp_path / "index.db") as db:
        assert db.execute("SELECT count(*) FROM documents").fetchone() == (COUNT,)
        assert db.execute(
            "SELECT count(*), count(DISTINCT body) FROM passages WHERE body LIKE 'Otter%'"
        ).fetchone() == (COUNT, COUNT)


# -- the other tools with many files -----------------------------------------------------------------------------------


def folder_of(ctx: Any, paths: list[Path], names: list[str]) -> None:
    """The files of a run under names with folders."""
    refs = FakeContext(paths, ctx.folder).manifest.files
    ctx.manifest.files = tuple(ref.model_copy(update={"name": name}) for ref, name in zip(refs, names, strict=True))
    ctx._paths = dict(zip(names, paths, strict=True))


async def use(ctx: Any, tool_name: str, folder: Path, **arguments: Any) -> list[str]:
    tool = next(one for one in file_tools(folder) if one.name == tool_name)
    return [block.text for block in (await tool.call(arguments, ctx)).content if isinstance(block, TextBlock)]


async def test_many_files_are_described_by_folder_and_none_is_read(many: list[Path], tmp_path: Path) -> None:
    ctx: Any = Watched([], tmp_path / "run")
    folder_of(ctx, many, [f"docs/{number % 3}/{path.name}" for number, path in enumerate(many)])
    for path in many[12:]:
        path.unlink()
    (said,) = await use(ctx, "describe_files", tmp_path)
    lines = said.split("\n")
    assert lines[0].startswith("docs/0/note000.md: text/markdown, ") and len(lines) == 40 + 1 + 3 + 1
    assert lines[40] == "and 410 more of 450 files. By folder:"
    assert lines[41] == "docs/0: 150 files: 150 text/markdown"
    described = await use(ctx, "describe_files", tmp_path, files="docs/0/note00*")
    assert len(described) == 4 and described[1].endswith("bytes; lines 1-4")


async def test_what_takes_too_long_to_describe_is_named(
    many: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("agentorchestra.tools.files.description"), "SECONDS", -1.0)
    described = await use(Watched(many[:2], tmp_path / "run"), "describe_files", tmp_path)
    assert [text.partition("; ")[2] for text in described] == [
        "not looked into: the files before it took too long; ask for it alone"
    ] * 2


async def test_a_file_of_a_folder_is_found_by_the_end_of_its_name(many: list[Path], tmp_path: Path) -> None:
    ctx: Any = Watched([], tmp_path / "run")
    folder_of(ctx, many[:3], ["docs/a/note.md", "docs/b/note.md", "docs/b/other.md"])
    assert "Otter number 1 swims." in "".join(await use(ctx, "read_file", tmp_path, name="b/note.md"))
    assert "Otter number 2 swims." in "".join(await use(ctx, "read_file", tmp_path, name="Other.md"))
    with pytest.raises(
        ToolError, match=r"Several files could be 'note\.md': docs/a/note\.md, docs/b/note\.md; give the"
    ):
        await use(ctx, "read_file", tmp_path, name="note.md")
