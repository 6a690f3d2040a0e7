"""`run --file FOLDER`."""

from __future__ import annotations

from tests.cli.support import Folder


def test_a_folder_is_searched_and_what_is_left_out_is_said(folder: Folder) -> None:
    minutes = folder.path / "minutes"
    (minutes / "2023").mkdir(parents=True)
    (minutes / ".git").mkdir()
    (minutes / "2023" / "may.md").write_text("The tunnel of Arn was approved by Ilse Brandt.\n")
    (minutes / "june.md").write_text("Nothing of note.\n")
    (minutes / "empty.txt").write_text("")
    done = folder.run("run", "Who approved the tunnel of Arn?", "--file", "minutes/", "--model", "offline")
    assert done.code == 0 and "Ilse Brandt" in done.out
    assert "(minutes/2023/may.md, line 1)" in done.err
    assert "files: 2 files\n" in done.err
    assert "Left out of minutes/: hidden: 1 (minutes/.git); unreadable: 1 (minutes/empty.txt is empty" in done.err
    (row,) = folder.run("runs", "--json").json
    assert row["files"] == ["minutes/2023/may.md", "minutes/june.md"]
    shown = folder.run("show", row["run_id"]).out
    assert "files: minutes/2023/may.md (47 bytes), minutes/june.md (17 bytes)" in shown
    assert "Left out of minutes/: " in shown


def test_a_folder_without_files_is_refused(folder: Folder) -> None:
    (folder.path / "bare").mkdir()
    done = folder.run("run", "What?", "--file", "bare")
    assert done.code == 2
    assert done.err.strip() == "error: the folder bare holds no file that can be read; give one that does."
    assert folder.ids() == []
