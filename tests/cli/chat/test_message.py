"""What is typed in a chat, and what is refused before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agentorchestra.cli.chat.message import MessageCompleter, files_here, files_in, files_named, kept_as_file
from agentorchestra.core.errors import ChatError
from tests.cli.support import Folder


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is in @a.txt?", ["a.txt"]),
        ("@a.txt and @a.txt, @docs/.", ["a.txt", "docs/"]),
        ('Compare @"my file.pdf" with (nothing)', ["my file.pdf"]),
        ("write to ann@example.org, at 3 @ noon", []),
    ],
)
def test_files_are_named_with_an_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for name in ("a.txt", "my file.pdf"):
        (tmp_path / name).touch()
    assert files_in(text) == [Path(name) for name in names]


@pytest.mark.parametrize("name", ["gone.txt", "x" * 5000])
def test_a_file_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ChatError, match=f"there is no file '{name}' to attach; correct its path"):
        files_in(f"Read @{name}")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is in a.csv?", ["a.csv"]),
        ('Compare `a.csv`, docs/b.md and "my file.pdf".', ["a.csv", "docs/b.md", "my file.pdf"]),
        ("What is in @a.csv? I mean a.csv", []),
        ("aa.csv, a.csv.old, a.csvs, README, docs, gone.txt", []),
        ("Not .hidden.txt, large.txt, link.txt, ../x/a.csv, /etc/hosts.conf", []),
        ("x" * 5000 + ".txt", []),
    ],
)
def test_files_of_the_folder_that_a_message_names_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for name in ("a.csv", "docs/b.md", "my file.pdf", "README", ".hidden.txt", "agentorchestra.toml"):
        (tmp_path / name).touch()
    with (tmp_path / "large.txt").open("wb") as large:
        large.truncate(10_000_001)
    (tmp_path / "link.txt").symlink_to(".hidden.txt")
    assert files_named(text) == [Path(name) for name in names]
    assert list(files_here()) == [Path("a.csv"), Path("my file.pdf")]


def test_a_long_text_becomes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = kept_as_file("long \ud800 text", tmp_path)
    (path,) = files_in(text)
    assert path.read_text() == "long ? text"
    assert kept_as_file("long text", tmp_path / "gone") == ""
    assert "the pasted text cannot be kept in" in capsys.readouterr().err


def test_commands_and_paths_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lease.txt", "my lease.txt"):
        (tmp_path / name).touch()
    completer = MessageCompleter(lambda: ["fork", "files", "greet"])

    def completed(text: str) -> list[str]:
        found = completer.get_completions(Document(text), CompleteEvent())
        return [text[: len(text) + one.start_position] + one.text for one in found]

    assert completed("/f") == ["/fork", "/files"]
    assert completed("read @le") == ["read @lease.txt"]
    assert completed("read @my") == ['read @"my lease.txt"']
    assert completed('read @"my l') == ['read @"my lease.txt"']
    assert completed("read le") == completed("ann@le") == completed("and /f") == []


def test_a_chat_without_a_terminal_is_refused(folder: Folder) -> None:
    result = folder.call("chat", "--model", "offline")
    assert result.code == 2
    assert 'without one each turn is a command: agentorchestra run --session NAME "..."' in result.error
