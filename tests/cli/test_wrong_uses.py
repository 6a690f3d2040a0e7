"""Wrong uses end with a sentence that says what to type instead, and spend nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import LEASE, QUESTION, Folder
from tests.cli.wrong_uses import ROWS, VARIANTS, Wrong


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """The folder that the table speaks of."""
    folder = Folder(tmp_path_factory.mktemp("used"))
    for name in ("notes", "void", "lost"):
        (folder.path / name).mkdir()
    for name, content in (
        ("lease.txt", LEASE),
        ("notes/a.txt", "The roof was mended in May.\n"),
        ("empty.txt", ""),
        ("meeting notes.txt", "The roof was mended in May.\n"),
        ("weights.gguf", b"GGUF\0\0"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\xff"),
        ("lost/workspace.db", ""),
    ):
        folder.write(name, content)
    assert folder.run("run", "What is 2+2?").code == 0
    assert folder.run("run", QUESTION, "-f", "lease.txt", "--session", "offers").code == 0
    yield folder


def test_the_table_is_long_and_without_doubles() -> None:
    assert len(ROWS) >= 150
    keys = [(one.typed, one.settings, one.stdin) for one in (*ROWS, *VARIANTS)]
    assert len({*keys}) == len(keys)


def _name(row: Wrong) -> str:
    return f"{row.typed} [{row.settings}]" if row.settings else row.typed


@pytest.mark.sampled(5)
@pytest.mark.parametrize("row", [*ROWS, *(pytest.param(one, marks=pytest.mark.long) for one in VARIANTS)], ids=_name)
def test_a_wrong_use_says_what_to_type(used: Folder, row: Wrong) -> None:
    before = used.ids()
    settings = used.path / "agentorchestra.toml"
    if row.settings:
        settings.write_text(row.settings, encoding="utf-8")
    try:
        done = used.call(*shlex.split(row.typed), stdin=row.stdin)
    finally:
        settings.unlink(missing_ok=True)
    assert (done.code, row.says in " ".join(done.err.split())) == (row.code, True), done.err or done.out
    assert done.out == ""
    assert used.ids() == before


def test_nothing_was_made_beside_the_workspace(used: Folder) -> None:
    assert {one.name for one in Path(used.path).iterdir()} - {"notes", "void", "lost", ".agentorchestra"} == {
        "lease.txt",
        "empty.txt",
        "meeting notes.txt",
        "weights.gguf",
        "picture.png",
    }
    assert not any((used.path / "void").iterdir())
