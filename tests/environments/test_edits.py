"""Changes of files: lines put in, patches, syntax errors that are told, and changes that are taken back."""

from __future__ import annotations

import difflib
import random
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.environments.test_files import Used

from agentorchestra.core.errors import AmbiguousTextError, PatchError
from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.environments.files.patch import apply_hunks, parse_patch
from agentorchestra.environments.files.syntax import MOST_CHECKED, syntax_problem
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.trust.policy import AllowAll
from agentorchestra.workspace import Workspace

SHOP = "def price(item):\n    return 3\n\n\ndef tax(item):\n    return 1\n"


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Used]:
    (tmp_path / "ws").mkdir()
    async with Workspace(tmp_path / "ws", settings=Settings(model="offline"), store=MemoryStore()) as ws:
        yield Used(ws)


# -- lines that are put in ---------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        (b"one\ntwo\n", 0, "zero", b"zero\none\ntwo\n"),
        (b"one\ntwo\n", 1, "and\nmore\n", b"one\nand\nmore\ntwo\n"),
        (b"one\ntwo\n", 2, "three", b"one\ntwo\nthree\n"),
        (b"one\ntwo", 2, "three", b"one\ntwo\nthree"),
        (b"one\r\ntwo\r\n", 1, "and\nmore", b"one\r\nand\r\nmore\r\ntwo\r\n"),
        (b"", 0, "first", b"first\n"),
    ],
)
async def test_lines_go_where_they_are_wanted(files: Used, before: bytes, line: int, text: str, after: bytes) -> None:
    await files("make_folder", path="x")
    path = files.folder / "a.txt"
    path.write_bytes(before)
    assert await files("insert", path="a.txt", line=line, text=text) == f"put text behind line {line} of a.txt"
    assert path.read_bytes() == after
    await files("undo", path="a.txt")
    assert path.read_bytes() == before


# -- patches -----------------------------------------------------------------------------------------------------------


async def test_a_patch_changes_several_files_or_none(files: Used) -> None:
    await files("write", path="shop.py", content=SHOP)
    await files("write", path="old.txt", content="gone\n")
    folder = files.folder
    patch = """diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -1,2 +1,2 @@
 def price(item):
-    return 3
+    return 4
@@ -40,9 +40,9 @@ the counts and the line are wrong

 def tax(item):
-    return 1
+    return 2
--- /dev/null
+++ b/docs/new.md
@@ -0,0 +1,2 @@
+# New
+text
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
"""
    wrong = patch.replace("-gone", "-here")
    said = await files.outcome("patch", patch=wrong)
    assert said.error == (
        "hunk 1 of old.txt does not apply: its line 'here' stands nowhere behind line 0; read the file, write the "
        "patch anew"
    )
    assert said.error_type == "PatchError" and (folder / "shop.py").read_text() == SHOP
    done = await files("patch", patch=patch)
    assert done == "patched shop.py\nmade docs/new.md\ndeleted old.txt; undelete brings it back"
    assert (folder / "shop.py").read_text() == SHOP.replace("3", "4").replace("1", "2")
    assert (folder / "docs/new.md").read_text() == "# New\ntext\n" and not (folder / "old.txt").exists()
    await files("undo", path="shop.py")
    assert (folder / "shop.py").read_text() == SHOP
    await files("undo", path="docs/new.md")
    assert not (folder / "docs/new.md").exists()
    await files("undelete", path="old.txt")
    assert (folder / "old.txt").read_text() == "gone\n"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("patch", "kind", "said"),
    [
        ("say hello", "PatchError", "there is no change in the patch; give a unified diff: a line '--- a/PATH'"),
        ("--- a/a.txt\n+++ b/a.txt\n", "PatchError", "there is no change in the patch"),
        ("--- a/a.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two", "PatchError", "renames a.txt to b.txt; use move"),
        ("--- a/no.txt\n+++ b/no.txt\n@@ -1 +1 @@\n-one\n+two", "PatchError", "there is no file no.txt to patch"),
        ("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+two", "PatchError", "a.txt is there already; patch it as it is"),
        ("--- a/a.txt\n+++ b/a.txt\n@@ @@\n-one\n+1\nwhat", "PatchError", "line 6 of the patch is 'what'; begin it"),
        ("--- a/a.txt\n+++ b/a.txt\n@@ @@\n-one\n+1", "AmbiguousTextError", "stand 2 times (lines 1, 3)"),
        ("--- a/a.txt\n+++ b/a.txt\n@@ @@\n one\n-2\n+1", "PatchError", "line 2 is 'two', not '2'; read the file"),
        (
            "--- a/a.txt\n+++ b/a.txt\n@@ -9,0 +9 @@\n+1",
            "PatchError",
            "hunk 1 of a.txt has only new lines and names no",
        ),
        ("--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one", "PatchError", "deletes a.txt but for some lines; use del"),
        ("--- a/bin\n+++ b/bin\n@@ -1 +1 @@\n-one\n+1", "NotTextError", "bin holds binary data, not text"),
        ("--- a/../a\n+++ b/../a\n@@ -1 +1 @@\n-one\n+1", "ToolError", "leads out of the folder"),
        ("rename from a.txt\nrename to b.txt", "PatchError", "line 1 of the patch is 'rename from a.txt'; use move"),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(files: Used, patch: str, kind: str, said: str) -> None:
    await files("write", path="a.txt", content="one\ntwo\none\n")
    (files.folder / "bin").write_bytes(b"\x00\x01\xff")
    outcome = await files.outcome("patch", patch=patch)
    assert said in str(outcome.error) and outcome.error_type == kind, outcome
    assert (files.folder / "a.txt").read_text() == "one\ntwo\none\n"


def test_ends_of_lines_and_files_are_as_the_patch_and_the_file_say() -> None:
    def after(text: str, patch: str) -> str:
        (one,) = parse_patch(f"--- a/x\n+++ b/x\n{patch}")
        return apply_hunks(text, one.hunks, "x")

    assert after("a\r\nb\nc\r\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c") == "a\r\nB\r\nc\r\n"
    assert after("a\nb", "@@ -2 +2 @@\n-b\n+c") == "a\nc", "as it was"
    assert after("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c") == "a\nc\n"
    assert after("a\nb\n", "@@ -2 +2 @@\n-b\n+c\n\\ No newline at end of file") == "a\nc"
    assert after("a\nb\nc\n", "@@ -1,3 +1,2 @@\n a\n-b\n c") == "a\nc\n"
    assert after("a\n\n\nb\n", "@@ @@\n a\n\n\n-b\n+c\n\n") == "a\n\n\nc\n", "spaces of empty lines were lost"
    assert after("a\n", "```diff\n@@ -1,0 +2 @@\n+b\n```") == "a\nb\n"
    assert after("a\nx\na\nx\n", "@@ -3,2 +3,2 @@\n a\n-x\n+y") == "a\nx\na\ny\n", "the line it names decides"


def test_patches_do_what_the_program_patch_does(tmp_path: Path) -> None:
    """Against git, which makes them; the seed stands here."""
    draw = random.Random(23)
    for _ in range(60):
        ends = draw.choice(["\n", ""])
        before = "\n".join(draw.choice("abcd") for _ in range(draw.randrange(0, 30))) + ends
        lines = before.splitlines()
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(0, len(lines) + 1)
            lines[at : at + draw.randrange(0, 3)] = [draw.choice("xyz") for _ in range(draw.randrange(0, 3))]
        after = "\n".join(lines) + (draw.choice(["\n", ""]) if lines else "")
        if before == after or not before or not after:
            continue
        (tmp_path / "before").write_text(before)
        (tmp_path / "after").write_text(after)
        made = subprocess.run(
            ["git", "diff", "--no-index", f"-U{draw.randrange(0, 4)}", "before", "after"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        ).stdout.replace("b/after", "b/before")  # fmt: skip
        (one,) = parse_patch(made)
        assert apply_hunks(before, one.hunks, "before") == after, made


def test_a_hunk_is_looked_for_behind_the_one_before() -> None:
    text = "".join(f"{one}\n" for one in "abcabcabc")
    (one,) = parse_patch("--- a/x\n+++ b/x\n@@ -4,2 +4,2 @@\n a\n-b\n+B\n@@ @@\n b\n-c\n+C\n")
    assert apply_hunks(text, one.hunks, "x") == "a\nb\nc\na\nB\nc\na\nb\nC\n"
    (one,) = parse_patch("--- a/x\n+++ b/x\n@@ @@\n-b\n+B\n")
    with pytest.raises(AmbiguousTextError, match=r"hunk 1 of x stand 3 times \(lines 2, 5, 8\)"):
        apply_hunks(text, one.hunks, "x")
    (one,) = parse_patch("".join(difflib.unified_diff(["a\n", "b\n"], ["a\n", "c\n"], "a/x", "b/x")))
    with pytest.raises(PatchError, match="line 2 is not there, not 'b'"):
        apply_hunks("a\n", one.hunks, "x")


# -- syntax ------------------------------------------------------------------------------------------------------------


async def test_a_syntax_error_is_told_and_the_change_stays(files: Used) -> None:
    await files("write", path="shop.py", content=SHOP)
    said = await files("edit", path="shop.py", old="def tax(item):", new="def tax(item)")
    assert said == (
        "replaced 1 place in shop.py\nIt has a syntax error, line 5: expected ':'. The change stays: mend it, or "
        "take it back by undo."
    )
    assert "def tax(item)\n" in (files.folder / "shop.py").read_text()
    mended = await files("edit", path="shop.py", old="def tax(item)", new="def tax(item):")
    assert mended == "replaced 1 place in shop.py"
    assert "line 1: " in await files("write", path="a.json", content="{'a': 1}")
    assert "syntax error" in await files("insert", path="shop.py", line=1, text="  x = 1")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.py", "x = (1,\n", "line 1: '(' was never closed"),
        ("a.py", "x = '\\d'\n", ""),
        ("a.py", "x = 1\0", "null bytes"),
        ("a.PYI", "def f(: ...", "line 1: "),
        ("a.py", "(" * 5_000 + ")" * 5_000, "too many nested parentheses"),
        ("a.py", "-" * 100_000 + "1", "nested too deep"),
        ("a.json", '{"a": [1, 2}', "line 1: Expecting ',' delimiter"),
        ("a.json", "[" * 100_000, "nested too deep"),
        ("a.toml", "a = \n", "line 1"),
        ("a.toml", 'a = "1"\n', ""),
        ("a.yaml", "a: [1, 2\nb: 3\n", "line 2: "),
        ("a.yml", "a: &x [1]\nb: *x\n---\nc: !!python/object:os.system {}\n", ""),
        ("a.txt", "def f(:", ""),
        ("a.py", "(" + " " * MOST_CHECKED, ""),
    ],
)
def test_files_are_read_by_their_own_parsers(name: str, text: str, said: str) -> None:
    found = syntax_problem(name, text)
    assert said in found and bool(said) == bool(found), found


# -- undo --------------------------------------------------------------------------------------------------------------


async def test_changes_are_taken_back_one_after_the_other(files: Used) -> None:
    await files("write", path="a.txt", content="one\n")
    path = files.folder / "a.txt"
    path.chmod(0o755)
    await files("edit", path="a.txt", old="one", new="two")
    await files("insert", path="a.txt", line=1, text="three")
    await files("write", path="b.txt", content="b\n")
    await files("read", path="a.txt")
    await files("write", path="a.txt", content="other\n")
    states = []
    for _ in range(3):
        assert "a.txt is as it was before its last change" in await files("undo", path="a.txt")
        states.append(path.read_text())
    assert states == ["two\nthree\n", "two\n", "one\n"] and path.stat().st_mode & 0o777 == 0o755
    assert await files("undo", path="a.txt") == "a.txt, which was made then, is gone; undelete brings it back"
    assert not path.exists()
    nothing = await files.outcome("undo", path="a.txt")
    assert nothing.error == "there is no change of a.txt to take back; what can be taken back: b.txt"
    assert nothing.error_type == "UndoError"


async def test_what_something_else_changed_is_not_taken_back(files: Used) -> None:
    await files("write", path="a.txt", content="one\n")
    await files("edit", path="a.txt", old="one", new="two")
    path = files.folder / "a.txt"
    path.write_text("two, and more\n")
    said = await files.refused("undo", path="a.txt")
    assert said.startswith("a.txt was changed by something else since its last change here")
    assert path.read_text() == "two, and more\n"
    path.unlink()
    assert (await files.refused("undo", path="a.txt")).startswith("a.txt is gone since its last change here")


async def test_kinds_of_errors_of_edits(files: Used) -> None:
    await files("write", path="a.txt", content="one\none\n")
    (files.folder / "bin").write_bytes(b"\x00\x01\xff")
    for arguments, kind in (
        ({"old": "one", "new": "two"}, "AmbiguousTextError"),
        ({"old": "three", "new": "two"}, "EditError"),
        ({"old": "", "new": "two"}, "EditError"),
        ({"path": "bin", "old": "a", "new": "b"}, "NotTextError"),
        ({"path": "no.txt", "old": "a", "new": "b"}, "EditError"),
    ):
        assert (await files.outcome("edit", **{"path": "a.txt", **arguments})).error_type == kind
    far = await files.outcome("insert", path="a.txt", line=3, text="x")
    assert (far.error, far.error_type) == (
        "a.txt has 2 lines; give a line from 0 (before the first) to 2, not 3",
        "EditError",
    )


async def test_a_fork_in_another_process_takes_back_what_was_changed_before_it(tmp_path: Path) -> None:
    """What can be taken back is part of the snapshot."""

    def opened(*steps: ModelResponse) -> Workspace[None]:
        return Workspace(tmp_path / "ws", models={"scripted": ScriptedModel([*steps])}, policy=AllowAll())

    write = decide(calls=[call("files_write", path="a.txt", content="one\n")])
    edit = decide(calls=[call("files_edit", path="a.txt", old="one", new="two")])
    async with opened(write, edit, decide(calls=[call("done", answer="two")])) as ws:
        result = await ws.run("Edit.", system="react", model="scripted", environments=["files"])
        assert (await ws.replay(result.run_id)).answer == "two"
        events = await ws.log.events(result.run_id)
        changed = [one.seq for one in events if one.type == "completed" and "replaced 1 place" in str(one.body)]
    undo = decide(calls=[call("files_undo", path="a.txt")])
    async with opened(undo, decide(calls=[call("done", answer="one")])) as ws:
        fork = await ws.fork(result.run_id, at=changed[0])
        assert (await ws.resume(fork)).answer == "one"
        assert (ws.files.folder(fork) / "a.txt").read_text() == "one\n"
        assert (ws.files.folder(result.run_id) / "a.txt").read_text() == "two\n"
