"""The files of a run on the command line: copied, listed, saved, shown."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from agentorchestra.cli.view.html import MOST_PICTURE_BYTES, pictures
from agentorchestra.core.errors import StoreError
from agentorchestra.core.spec import RunFile
from tests.cli.support import Folder

OUT = "agentorchestra-out"
WRITE = 'call files_write(path="notes/a.txt", content="hello")'


def made(folder: Folder, *more: str | Path) -> tuple[str, ...]:
    return ("run", WRITE, "--environment", "files", "--system", "react", *map(str, more))


def test_files_are_copied_and_the_last_line_says_so(folder: Folder) -> None:
    done = folder.run(*made(folder))
    (run_id,) = folder.ids()
    assert done.code == 0
    assert done.err.splitlines()[-1] == f"1 file in {OUT}/{run_id}: notes/a.txt"
    assert (folder.path / OUT / run_id / "notes/a.txt").read_text() == "hello"
    again = folder.run("resume", run_id, "--json")
    (file,) = again.json["files"]
    assert (file["name"], file["path"]) == ("notes/a.txt", f"{OUT}/{run_id}/notes/a.txt")
    assert (file["media_type"], file["size"], file["made_by"]) == ("text/plain", 5, "files")
    assert again.json["folder"].endswith(f"{run_id}/environments/main/folder")
    listed = folder.run("files", run_id)
    assert listed.out == "notes/a.txt  5 bytes  text/plain  files\n"
    assert "\nmade: notes/a.txt (5 bytes)\n" in folder.run("show", run_id).out
    saved = folder.run("files", "last", "--save", "kept", "--json")
    assert [one["path"] for one in saved.json["files"]] == ["kept/notes/a.txt"]
    assert (folder.path / "kept/notes/a.txt").read_text() == "hello"


@pytest.mark.long
def test_no_out_copies_nothing_and_a_run_without_files_makes_no_folder(folder: Folder) -> None:
    done = folder.run(*made(folder, "--no-out"))
    (run_id,) = folder.ids()
    assert done.err.splitlines()[-1] == f"1 file, not copied: agentorchestra files {run_id} --save DIR"
    assert folder.run("run", "What is 12.5% of 840?", "--system", "react").code == 0
    assert not (folder.path / OUT).exists()
    none = folder.run("files", "last")
    assert (none.code, none.out) == (0, "")
    assert "made no file" in none.err


def test_a_folder_that_was_named_gets_the_files_beside_what_is_there(folder: Folder) -> None:
    (folder.path / "mine/notes").mkdir(parents=True)
    folder.write("mine/notes/a.txt", "my own")
    done = folder.run(*made(folder, "--out", "mine"))
    assert done.err.splitlines()[-1] == "1 file in mine: notes/a-2.txt"
    assert (folder.path / "mine/notes/a.txt").read_text() == "my own"


@pytest.mark.parametrize("command", ["run", "resume", "answer"])
def test_a_file_is_no_folder_for_them(folder: Folder, command: str) -> None:
    words = {"run": ["run", "x"], "resume": ["resume", "last"], "answer": ["answer", "last", "yes"]}[command]
    done = folder.run(*words, "--out", "lease.txt")
    assert done.code == 2
    assert done.err == (
        "error: lease.txt cannot be the folder for the files: lease.txt is no folder; name another folder\n"
    )
    assert not folder.workspace.exists()
    both = folder.run(*words, "--out", "a", "--no-out")
    assert both.code == 2
    assert "--out and --no-out exclude each other" in both.err


def test_where_the_default_folder_is_taken_the_answer_stands(folder: Folder) -> None:
    folder.write(OUT, "a file of mine")
    done = folder.run(*made(folder))
    assert done.code == 0
    assert done.out.startswith("wrote notes/a.txt")
    last = done.err.splitlines()[-1]
    assert last.startswith("error: the files were not copied: ") and last.endswith("--save DIR")
    assert (folder.path / OUT).read_text() == "a file of mine"


def test_pictures_stand_in_the_page(folder: Folder) -> None:
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    write = f'call files_write(path="a.svg", content="{svg}")'
    folder.run("run", write, "--environment", "files", "--system", "react", "--no-out")
    page = folder.run("show", "last", "--html", "-").out
    assert f'<img src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}" alt="a.svg">' in page
    assert svg not in page


def test_a_page_has_pictures_alone_and_none_that_is_too_large() -> None:
    large = MOST_PICTURE_BYTES + 1

    async def read(sha256: str) -> bytes:
        if sha256 == "lost":
            raise StoreError("it is gone")
        return b"x" * large if sha256 == "liar" else sha256.encode()

    def file(name: str, media_type: str = "image/png", size: int = 1) -> RunFile:
        return RunFile(name=name, sha256=name, media_type=media_type, size=size)

    files = [file("a"), file("b", "text/html"), file("lost"), file("liar"), file("large", size=large)]
    assert asyncio.run(pictures(files, read)) == {"a": "data:image/png;base64,YQ=="}
