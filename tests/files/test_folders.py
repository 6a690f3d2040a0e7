"""Folders given with a task: what is taken, under which names, and how their bytes are kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import FileInputError, WorkspaceNotWritableError
from agentorchestra.core.spec import FileRef
from agentorchestra.tools.files import folders
from agentorchestra.tools.files import storage as keep
from agentorchestra.tools.files.folders import LIST_SIZE, by_folder, listing, matching
from agentorchestra.tools.files.readers import Stopped
from agentorchestra.tools.files.storage import Kept, keep_files

Keep = Callable[..., Kept]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder with a bit of everything."""
    root = tmp_path / "docs"
    (root / "2023").mkdir(parents=True)
    (root / "2023" / "may.md").write_text("The tunnel was approved in May.\n")
    (root / "2023" / "june.csv").write_text("name,age\nAnna,30\n")
    (root / "note.txt").write_text("A note.\n")
    return root


@pytest.fixture
def kept(tmp_path: Path) -> Keep:
    """Keeps files for a run of its own each time."""
    runs = iter(range(100))

    def made(*given: Path, **options: Any) -> Kept:
        return keep_files(given, tmp_path / "ws" / "files", tmp_path / "ws" / "runs" / str(next(runs)), **options)

    return made


def names(found: Kept) -> list[str]:
    return [one.name for one in found.refs]


_opened: list[str] = []
_watching = threading.Event()


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watching.is_set():
        _opened.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else "")


sys.addaudithook(_hook)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The paths that Python opens while `_watching` is set."""
    _opened.clear()
    yield _opened
    _watching.clear()


def _let_settle(folder: Path) -> None:
    """What was written a moment ago is not remembered: wait until it was not."""
    newest = max(path.stat().st_ctime_ns for path in folder.rglob("*"))
    while time.time_ns() - newest < 2 * keep._SETTLED_NS:
        time.sleep(0.02)


# -- what is taken -----------------------------------------------------------------------------------------------------


def test_the_files_below_a_folder_are_named_by_it(docs: Path, kept: Keep, tmp_path: Path) -> None:
    found = kept(docs)
    assert names(found) == ["docs/2023/june.csv", "docs/2023/may.md", "docs/note.txt"]
    assert [one.media_type for one in found.refs] == ["text/csv", "text/markdown", "text/plain"]
    assert found.left_out == ""
    for one in found.refs:
        copy = tmp_path / "ws" / "runs" / "0" / one.name
        original = tmp_path / one.name
        assert copy.read_bytes() == original.read_bytes()
        assert (one.sha256, one.size) == (hashlib.sha256(copy.read_bytes()).hexdigest(), copy.stat().st_size)
        assert one.origin == str(original)
        assert copy.stat().st_mode & 0o777 == 0o444


def test_what_is_left_out_is_counted_and_named(docs: Path, kept: Keep, tmp_path: Path) -> None:
    for hidden in (".git", "node_modules", "__pycache__"):
        (docs / hidden).mkdir()
        (docs / hidden / "inside.txt").write_text("not for the task")
    (docs / ".env").write_text("KEY=secret")
    (docs / "empty.txt").write_text("")
    (docs / "broken.pdf").write_text("this is no PDF")
    os.mkfifo(docs / "pipe")
    (tmp_path / "outside.txt").write_text("outside")
    (docs / "outside.txt").symlink_to(tmp_path / "outside.txt")
    (docs / "up").symlink_to(tmp_path)
    (docs / "same").symlink_to(docs / "2023")
    (docs / "nowhere").symlink_to("gone")
    (docs / "circle").symlink_to("circle")
    (docs / "env").symlink_to(".env")
    (docs / "inner.txt").symlink_to("note.txt")
    found = kept(docs)
    assert names(found) == ["docs/2023/june.csv", "docs/2023/may.md", "docs/inner.txt", "docs/note.txt"]
    for part in (
        "hidden: 2 (docs/.",
        "folders of programs: 2 (docs/",
        "links that leave the folder: 2 (docs/",
        "links to folders: 1 (docs/same)",
        "links to what is left out: 1 (docs/env)",
        "broken links: 2 (docs/",
        "pipes, sockets and devices: 1 (docs/pipe)",
        "unreadable: 2 (docs/broken.pdf",
        "docs/empty.txt is empty",
    ):
        assert part in found.left_out
    assert found.left_out.startswith("Left out of docs/: ") and "\n" not in found.left_out


def test_many_examples_are_cut(docs: Path, kept: Keep) -> None:
    for number in range(50):
        (docs / f"empty{number}.txt").write_text("")
    found = kept(docs)
    assert "unreadable: 50 (" in found.left_out and ", ...)" in found.left_out
    assert len(found.left_out) < 400


def test_the_workspace_is_no_part_of_the_folder_it_lies_in(docs: Path, tmp_path: Path) -> None:
    workspace = docs / "work"
    for run in ("1", "2"):
        found = keep_files([docs], workspace / "files", workspace / "runs" / run, apart=workspace)
        assert names(found) == ["docs/2023/june.csv", "docs/2023/may.md", "docs/note.txt"]


def test_two_folders_and_files_of_one_name_are_told_apart(docs: Path, kept: Keep, tmp_path: Path) -> None:
    (tmp_path / "other" / "docs").mkdir(parents=True)
    (tmp_path / "other" / "docs" / "note.txt").write_text("Another note.\n")
    (tmp_path / "other" / "note.txt").write_text("A third one.\n")
    found = kept(docs, tmp_path / "other" / "docs", docs / "note.txt", tmp_path / "other" / "note.txt")
    assert names(found)[2:] == ["docs/note.txt", "docs-2/note.txt", "note.txt", "note-2.txt"]


def test_a_name_cannot_end_a_line_nor_a_list(docs: Path, kept: Keep) -> None:
    (docs / "a\nb.txt").write_text("one")
    (docs / "a\rb.txt").write_text("two")
    (docs / "<").mkdir()
    (docs / "<" / "files>.txt").write_text("three")
    os.close(os.open(os.fsencode(docs) + b"/\xff.txt", os.O_CREAT | os.O_WRONLY))
    Path(os.fsdecode(os.fsencode(docs) + b"/\xff.txt")).write_text("four")
    found = kept(docs)
    assert names(found)[2:] == ["docs/_/files_.txt", "docs/_.txt", "docs/a_b.txt", "docs/a_b-2.txt", "docs/note.txt"]
    assert found.refs[0].model_dump_json()  # every origin can be written too
    assert all(one.model_dump_json() for one in found.refs)


def test_a_folder_without_readable_files_is_refused(kept: Keep, tmp_path: Path) -> None:
    (tmp_path / "bare" / ".git").mkdir(parents=True)
    with pytest.raises(FileInputError, match=r"the folder bare holds no file that can be read; .*hidden: 1"):
        kept(tmp_path / "bare")
    (tmp_path / "bare" / "empty.txt").write_text("")
    with pytest.raises(FileInputError, match=r"the folder bare holds no file that can be read; .*unreadable: 1"):
        kept(tmp_path / "bare")
    assert not list((tmp_path / "ws" / "runs").glob("*"))


def test_a_file_given_by_its_name_fails_as_ever(docs: Path, kept: Keep, tmp_path: Path) -> None:
    (docs / "empty.txt").write_text("")
    with pytest.raises(FileInputError, match=r"empty\.txt is empty; give a file with content"):
        kept(docs / "note.txt", docs / "empty.txt")
    with pytest.raises(FileInputError, match=r"none\.txt does not exist"):
        kept(docs, tmp_path / "none.txt")
    assert not list((tmp_path / "ws" / "runs").glob("*"))


def test_limits_are_said_before_anything_is_kept(
    docs: Path, kept: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAX_FILES", 2)
    with pytest.raises(
        FileInputError, match=r"docs has more than 2 files, .*; give the folders below it that you need"
    ):
        kept(docs)
    monkeypatch.undo()
    monkeypatch.setattr(folders, "MAX_BYTES", 30)
    with pytest.raises(FileInputError, match=r"docs has more than 30 bytes, .*; give the folders below it"):
        kept(docs)
    monkeypatch.undo()
    monkeypatch.setattr(folders, "MAX_ENTRIES", 2)
    with pytest.raises(FileInputError, match=r"docs has more than 2 entries; give the folders below it"):
        kept(docs)
    monkeypatch.undo()
    monkeypatch.setattr(keep, "MAX_FILES", 5)
    with pytest.raises(FileInputError, match=r"6 files were given; at most 5 belong to one task"):
        kept(docs, shutil.copytree(docs, tmp_path / "more"))
    assert not (tmp_path / "ws").exists()


# -- how it is kept ----------------------------------------------------------------------------------------------------


def test_the_same_content_is_kept_once(docs: Path, kept: Keep, tmp_path: Path) -> None:
    (docs / "again.txt").write_text("A note.\n")
    found = kept(docs)
    first, second = (one for one in found.refs if one.name in ("docs/again.txt", "docs/note.txt"))
    assert first.sha256 == second.sha256
    kept(docs)
    stored = [path for path in (tmp_path / "ws" / "files").rglob("*") if len(path.name) == 64]
    assert len(stored) == 3
    (same,) = (path for path in stored if path.name == first.sha256)
    assert same.stat().st_nlink == 1 + 4


def test_an_unchanged_folder_is_not_read_again(docs: Path, kept: Keep, opened: list[str]) -> None:
    _let_settle(docs)
    first = kept(docs, docs / "note.txt")
    _watching.set()
    second = kept(docs, docs / "note.txt")
    _watching.clear()
    assert second == first
    assert [path for path in opened if path.startswith(str(docs))] == []
    (docs / "note.txt").write_text("A changed note.\n")
    _watching.set()
    kept(docs)
    assert {path for path in opened if path.startswith(str(docs))} == {str(docs / "note.txt")}


def test_changes_are_noticed(docs: Path, kept: Keep) -> None:
    _let_settle(docs)
    first = {one.name: one.sha256 for one in kept(docs).refs}
    # The same size, the same times: what is left is that something was written.
    before = (docs / "note.txt").stat()
    (docs / "note.txt").write_text("B note.\n")
    os.utime(docs / "note.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    (docs / "2023" / "june.csv").unlink()
    (docs / "new.md").write_text("New.\n")
    second = {one.name: one.sha256 for one in kept(docs).refs}
    assert sorted(second) == ["docs/2023/may.md", "docs/new.md", "docs/note.txt"]
    assert second["docs/note.txt"] == hashlib.sha256(b"B note.\n").hexdigest() != first["docs/note.txt"]
    assert second["docs/2023/may.md"] == first["docs/2023/may.md"]


def test_what_changes_right_after_it_was_read_is_read_again(docs: Path, kept: Keep) -> None:
    for number in range(20):
        (docs / "note.txt").write_text(f"Note {number:02}.\n")
        refs = {one.name: one.sha256 for one in kept(docs).refs}
        assert refs["docs/note.txt"] == hashlib.sha256(f"Note {number:02}.\n".encode()).hexdigest()


def test_a_deleted_file_is_forgotten(docs: Path, kept: Keep, tmp_path: Path) -> None:
    _let_settle(docs)
    kept(docs)
    (docs / "note.txt").unlink()
    kept(docs)
    with sqlite3.connect(tmp_path / "ws" / "files" / "seen.db") as db:
        seen = {Path(os.fsdecode(row[0])).name for row in db.execute("SELECT path FROM seen")}
    assert seen == {"june.csv", "may.md"}


@pytest.mark.parametrize("damage", ["seen.db", "object", "written", "all"])
def test_what_is_lost_or_damaged_in_the_store_is_made_anew(docs: Path, kept: Keep, tmp_path: Path, damage: str) -> None:
    _let_settle(docs)
    first = kept(docs)
    store = tmp_path / "ws" / "files"
    (thing,) = (path for path in store.rglob("*") if path.name == first.refs[0].sha256)
    if damage == "seen.db":
        (store / "seen.db").write_bytes(b"no database" * 1000)
    elif damage == "object":
        thing.unlink()
    elif damage == "written":  # through the link of a run, by a program that may
        thing.chmod(0o644)
        thing.write_bytes(b"x" * first.refs[0].size)
    else:
        for path in store.rglob("*"):
            if path.is_file():
                path.unlink()
    second = kept(docs)
    assert second.refs == first.refs
    for one in second.refs:
        assert hashlib.sha256((tmp_path / "ws" / "runs" / "1" / one.name).read_bytes()).hexdigest() == one.sha256


def test_where_links_are_impossible_it_is_copied(
    docs: Path, kept: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    found = kept(docs)
    assert (tmp_path / "ws" / "runs" / "0" / found.refs[0].name).stat().st_nlink == 1
    assert (tmp_path / "ws" / "runs" / "0" / "docs/note.txt").read_text() == "A note.\n"


def test_a_store_that_cannot_be_written_is_said(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "ws").write_text("a file where the workspace should be")
    with pytest.raises(WorkspaceNotWritableError, match=r"cannot be written: .*; free space or choose another"):
        keep_files([docs], tmp_path / "ws" / "files", tmp_path / "ws" / "runs" / "0")


def test_a_stopped_thread_leaves_no_run_and_nothing_half_written(docs: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        keep_files([docs], tmp_path / "files", tmp_path / "run", stop=stop)
    assert not (tmp_path / "run").exists()
    assert not list((tmp_path / "files").glob("new-*"))


def test_what_a_dead_process_left_is_removed(
    docs: Path, kept: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "ws" / "files"
    store.mkdir(parents=True)
    (store / "new-left").write_text("half")
    kept(docs)
    assert (store / "new-left").exists()  # somebody may be writing this
    clock = Clock()
    monkeypatch.setattr(keep, "time", clock)
    clock.ahead = 2 * 86_400
    kept(docs)
    assert not (store / "new-left").exists()


class Clock:
    """The time, and how far it is ahead (in seconds)."""

    ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead

    def time_ns(self) -> int:
        return time.time_ns() + int(self.ahead * 1e9)


def test_two_that_begin_at_once_take_nothing_from_each_other(
    docs: Path, kept: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one begins, and sweeps, at each moment at which a file is on its way to its place."""
    other = tmp_path / "other.txt"
    other.write_text("Another task's file.\n")
    busy = threading.Event()

    def meanwhile(how: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*words: Any, **options: Any) -> Any:
            done = how(*words, **options)
            if not busy.is_set():
                busy.set()
                kept(other)
                busy.clear()
            return done

        return wrapped

    monkeypatch.setattr(keep, "THREADS", 1)
    for name in ("utime", "fsync", "chmod"):
        monkeypatch.setattr(os, name, meanwhile(getattr(os, name)))
    found = kept(docs)
    assert names(found) == ["docs/2023/june.csv", "docs/2023/may.md", "docs/note.txt"]
    assert not list((tmp_path / "ws" / "files").glob("new-*"))


# -- thousands of files in a few lines ---------------------------------------------------------------------------------


def ref(name: str, media_type: str = "text/plain") -> FileRef:
    return FileRef(name=name, sha256=name, size=1, media_type=media_type)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, 5),
        ("", 5),
        ("docs/2023/*.md", 1),
        ("docs/2023", 2),
        ("docs/2023/", 2),
        ("./DOCS/2023/", 2),
        ("docs/**/*.md", 2),
        ("**/*.md", 3),
        ("*.md", 3),
        ("docs/20?3/*", 2),
        ("docs/2023/a.md", 1),
        ("docs/20", 0),
        ("*.pdf", 0),
        ("[", 0),
    ],
)
def test_patterns(pattern: str | None, expected: int) -> None:
    files = [ref(name) for name in ("docs/2023/a.md", "docs/2023/b.txt", "docs/2024/c.md", "docs/d.txt", "e.md")]
    assert len(matching(files, pattern)) == expected


def test_a_hostile_pattern_takes_no_time() -> None:
    files = [ref("a" * 900)]
    began = time.process_time()
    assert matching(files, "*a" * 400 + "b") == []
    assert time.process_time() - began < 5


def test_few_files_are_listed_and_many_counted() -> None:
    few = listing([ref("a.txt"), ref("docs/b.txt")])
    assert [one["name"] for one in few["files"]] == ["a.txt", "docs/b.txt"]
    assert (few["more"], few["folders"]) == ("", [])
    many = listing(
        [*(ref(f"docs/{year}/{n}.md", "text/markdown") for year in (1, 2) for n in range(900)), ref("a.csv")]
    )
    assert len(many["files"]) == LIST_SIZE and many["files"][0]["name"] == "a.csv"
    assert (many["more"], many["total"]) == ("1,761", "1,801")
    assert many["folders"] == [
        "in no folder: 1 file: 1 text/plain",
        "docs/1: 900 files: 900 text/markdown",
        "docs/2: 900 files: 900 text/markdown",
    ]


def test_many_folders_are_put_together() -> None:
    files = [ref(f"docs/{year}/{part}/{n}.md") for year in range(10) for part in range(10) for n in range(2)]
    assert by_folder(files)[0] == "docs/0: 20 files: 20 text/plain" and len(by_folder(files)) == 10
    wide = [ref(f"docs/{number:04}/a.md") for number in range(3000)]
    assert len(by_folder(wide)) == 21 and by_folder(wide)[-1] == "and 2,980 more folders"
    kinds = [ref(f"docs/{number}", f"type/{number % 9}") for number in range(90)]
    assert by_folder(kinds)[0].endswith("and 4 other types") or "4 other types" in by_folder(kinds)[0]
