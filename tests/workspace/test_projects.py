"""A run on a copy of the user's folder: what is copied and seen, its diff, and its changes on their way back."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ApplyConflictError, ProjectError
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import FolderSettings, Settings, TerminalMount, TerminalSettings
from agentorchestra.core.spec import RunStatus
from agentorchestra.environments.manifest import FolderLimits
from agentorchestra.environments.project import survey
from agentorchestra.log.folders import MAIN, world_folder
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.changes import FileChange, apply, check_branch, commit
from tests.environments.gits import SANDBOX
from tests.support.projects import changes, files_below, git, repository, state, write

needs_bubblewrap = pytest.mark.skipif(
    getattr(SANDBOX, "name", "") != "bubblewrap", reason="machines need bubblewrap (apt-get install bubblewrap)"
)
CALC = {"calc.py": "def add(a, b):\n    return a - b\n", ".gitignore": ".env\n.venv/\n"}


def model(*commands: str) -> ScriptedModel:
    """A model that runs commands in the terminal, then is done."""
    return ScriptedModel([*(call("terminal_run", command=one) for one in commands), call("done", answer="done")])


async def printed(ws: Workspace[Any], run_id: str) -> list[str]:
    """What the commands of a run printed."""
    events = [one.data for one in await ws.log.events(run_id) if one.type in ("started", "completed")]
    texts = [getattr(one, "outcome", {}).get("value") for one in events]
    return [one for one in texts if isinstance(one, str)]


@needs_bubblewrap
async def test_a_run_works_on_a_copy_of_a_dirty_repository_and_its_changes_are_applied_once(tmp_path: Path) -> None:
    user = repository(tmp_path / "user", CALC | {"old.txt": "old\n", "run.sh": "#!/bin/sh\n"})
    write(user, {"calc.py": "# mine\n" + CALC["calc.py"], "new.txt": "not added\n", ".env": "SECRET=1\n"})
    (user / "out").symlink_to("/etc/hostname")
    venv.create(user / ".venv", symlinks=True)
    before = files_below(user)
    look = (
        "pwd; git log --oneline | wc -l; git status --short; ls .env; test -e out || echo nowhere; touch .venv/x; "
        ".venv/bin/python -c 'import sys; print(sys.prefix)'"
    )
    change = (
        "sed -i 's/a - b/a + b/' calc.py; rm old.txt; chmod +x run.sh; "
        "mkdir -p deep/er .git/hooks; printf 'a\\0b' >deep/er/bin; "
        "git add -A; git commit -q -m mine; echo true >.git/hooks/mine; python3 -c 'import calc; print(calc.add(1, 2))'"
    )
    async with Workspace(tmp_path / "ws", models={"m": model(look, change)}) as ws:
        result = await ws.run("Fix it", model="m", system="react", project=user)
        assert (result.status, result.files) == (RunStatus.COMPLETED, ())
        looked, changed = await printed(ws, result.run_id)
        assert looked.splitlines() == [
            str(user),
            "1",
            " M calc.py",
            "?? new.txt",
            "?? out",
            "ls: cannot access '.env': No such file or directory",
            "nowhere",
            "touch: cannot touch '.venv/x': Read-only file system",
            str(user / ".venv"),
        ]
        assert changed == "3"
        assert files_below(user) == before
        assert [
            line for line in result.diff.splitlines() if line.startswith(("diff", "-", "+", "old", "new", "B"))
        ] == [
            "diff --git a/calc.py b/calc.py",
            "--- a/calc.py",
            "+++ b/calc.py",
            "-    return a - b",
            "+    return a + b",
            "diff --git a/deep/er/bin b/deep/er/bin",
            "new file mode 100644",
            "Binary files /dev/null and b/deep/er/bin differ",
            "diff --git a/old.txt b/old.txt",
            "--- a/old.txt",
            "+++ /dev/null",
            "-old",
            "diff --git a/run.sh b/run.sh",
            "old mode 100644",
            "new mode 100755",
        ]
        applied = await ws.files.apply(result.run_id)
        assert (applied.changed, applied.written) == (("calc.py", "deep/er/bin", "old.txt", "run.sh"), 4)
        fixed = {"calc.py": b"# mine\ndef add(a, b):\n    return a + b\n", "deep/er/bin": b"a\0b"}
        assert files_below(user) == {name: data for name, data in before.items() if name != "old.txt"} | fixed
        assert os.access(user / "run.sh", os.X_OK)
        assert git(user, "log", "--oneline").count("\n") == 0
        assert (await ws.files.apply(result.run_id)).written == 0
        with pytest.raises(ProjectError, match=r"calc.py had changes that were not committed when the run began"):
            await ws.files.apply(result.run_id, branch="fix")
        write(user, {"calc.py": "mine again\n"})
        with pytest.raises(ApplyConflictError, match=r"was changed there: calc.py. Put it back"):
            await ws.files.apply(result.run_id)


@pytest.mark.long
@needs_bubblewrap
async def test_python_and_bash_work_in_the_folder_of_the_terminal(tmp_path: Path) -> None:
    user = repository(tmp_path / "user", CALC)
    (tmp_path / "sales.csv").write_text("a,b\n1,2\n")
    write_it = "import calc, pandas\ntotal = calc.add(5, 2)\nopen('made.txt', 'w').write(f'{total}\\n')"
    steps = [
        call("python", code=write_it),
        call("bash", command="cat made.txt; exit 3"),
        call("python", code="print(total + 1)\nopen('sales.csv')"),
        call("python", code="tools.todo()"),
        call("terminal_run", command="cat made.txt; git status --short"),
        call("done", answer="done"),
    ]
    seen: list[str] = []

    def decide(request: ModelRequest) -> ToolCall:
        seen[:] = [one.text for one in request.messages if one.role == "tool"]
        return steps[len(seen)]

    async with Workspace(tmp_path / "ws", models={"m": ScriptedModel(decide)}) as ws:
        result = await ws.run("Fix it", model="m", system="react", project=user, files=[tmp_path / "sales.csv"])
        made, read, missing, calls, looked = seen
        assert (made, read, looked) == ("2", "3\n[exit code 3]", "3\n?? files/\n?? made.txt")
        assert missing.startswith("4\n") and missing.endswith("(there is files/sales.csv)\n[exit code 1]")
        assert "ToolError: a program in the terminal calls no tools: call todo yourself" in calls
        assert result.diff.endswith("+++ b/made.txt\n@@ -0,0 +1 @@\n+3\n")
        assert (await ws.replay(result.run_id)).answer == "done"
        first = [
            one for one in await ws.log.events(result.run_id) if one.type == "completed" and one.branch.count("/") == 1
        ]
        fork = await ws.fork(result.run_id, at=first[3].seq)  # after the second call: variables and file are those
        assert (await ws.resume(fork)).diff == result.diff
        assert seen == [made, read, missing, calls, looked]


@pytest.mark.long
@needs_bubblewrap
async def test_the_agent_is_told_which_command_decides(tmp_path: Path) -> None:
    user, told = repository(tmp_path / "user", CALC), list[str]()

    def decide(request: ModelRequest) -> ToolCall:
        told.extend(one.text for one in request.messages if one.role == "user")
        return call("done", answer="done")

    async with Workspace(tmp_path / "ws", models={"m": ScriptedModel(decide)}) as ws:
        await ws.run("Fix it", model="m", system="mini_swe", project=user, tests="sh check.sh")
        await ws.run("Fix it", model="m", system="mini_swe", project=user)
    assert "The work is done when this command ends with exit code 0. Run it before you finish: sh check.sh" in told[0]
    assert "this command decides" not in told[-1]


@pytest.mark.long
@needs_bubblewrap
async def test_the_copy_is_made_anew_where_it_is_gone(tmp_path: Path) -> None:
    user = repository(tmp_path / "user", CALC | {f"data/{n}.bin": bytes([n]) * 300_000 for n in range(5)})
    (user / "large.bin").write_bytes(os.urandom(5 << 20))
    async with Workspace(tmp_path / "ws", models={"m": model("sha256sum */*.bin *.bin; echo b >>calc.py")}) as ws:
        run_id = await ws.create("Look", model="m", system="react", project=user)
        shutil.rmtree(world_folder(ws.files.root / run_id, MAIN))  # as on another machine with the same store
        result = await ws.resume(run_id)
        (printed_sums,) = await printed(ws, run_id)
        sums = dict(line.split()[::-1] for line in printed_sums.splitlines())
        here = {name: data for name, data in files_below(user).items() if name.endswith(".bin")}
        assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in here.items()}
        assert result.diff.endswith("@@ -1,2 +1,3 @@\n def add(a, b):\n     return a - b\n+b\n")


@needs_bubblewrap
async def test_a_folder_that_the_settings_mount_writable_is_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o777)
    (tmp_path / "shared").chmod(0o777)
    mount = TerminalMount(folder=str(tmp_path / "shared"), inside="/shared", writable=True)
    settings = Settings(model="m", terminal=TerminalSettings(mounts=(mount,)), on_ask="wait")
    async with Workspace(tmp_path / "ws", settings=settings, models={"m": model("ls; echo made >/shared/a")}) as ws:
        result = await ws.run("Look around", system="react", environments=["files", "terminal"])
        assert (result.status, result.questions) == (RunStatus.COMPLETED, ())
    assert (tmp_path / "shared/a").read_text() == "made\n"


# -- what is copied ----------------------------------------------------------------------------------------------------


def test_without_git_all_is_copied_but_installed_packages_and_caches(tmp_path: Path) -> None:
    user = tmp_path / "user"
    write(user, {"a.py": "", ".env": "", "web/node_modules/x/i.js": "", "env/pyvenv.cfg": "", "env/lib/y.py": ""})
    write(user, {"__pycache__/a.pyc": "", "sub/.pytest_cache/CACHEDIR.TAG": "", "sub/.pytest_cache/v/x": ""})
    (user / "out/er").mkdir(parents=True)
    (user / "web/to").symlink_to("/etc")
    held = survey(user, FolderLimits())
    assert sorted(held.files) == [".env", "a.py", "web/to"]
    assert (held.seen, held.empty) == (["env", "web/node_modules"], ["out/er"])


def test_of_a_repository_ignored_files_stay_and_packages_are_seen(tmp_path: Path) -> None:
    user = repository(tmp_path / "user", {".gitignore": "build/\nvendor/\n*.log\nnode_modules/\n", "sub/a.py": ""})
    repository(user / "other", {"b.py": ""})
    write(
        user, {"build/x": "", "vendor/y": "", "z.log": "", "sub/node_modules/q/i.js": "", "v/pyvenv.cfg": "", "v/l": ""}
    )
    write(user, {".agentorchestra/log.db": "", "__pycache__/a.pyc": "", "sub/cache/CACHEDIR.TAG": ""})
    for name in ("sub/in", "new/in", "build/in", "other/in", ".agentorchestra/in", "v/in"):
        (user / name).mkdir(parents=True)
    held = survey(user, FolderLimits(), ("vendor",), apart=user / ".agentorchestra")
    assert (sorted(held.files), held.seen) == ([".gitignore", "sub/a.py"], ["other", "sub/node_modules", "v", "vendor"])
    assert sorted(held.empty) == ["new/in", "sub/in"]
    below = survey(user / "sub", FolderLimits())
    assert (below.files, below.seen) == (["a.py"], ["node_modules"])


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            FolderLimits(bytes=1000),
            r"has 2,500 bytes in 3 files to copy.*1,000 bytes.*largest in it: big \(2,400 bytes, 1",
        ),
        (
            FolderLimits(entries=2),
            r"works on 2 files at most; the largest in it: .*raise the setting folder.max_entries",
        ),
    ],
)
def test_a_project_that_is_too_large_is_refused(tmp_path: Path, limits: FolderLimits, sentence: str) -> None:
    write(tmp_path / "user", {"big/a": "x" * 2400, "b": "x" * 100, "c": ""})
    with pytest.raises(ProjectError, match=sentence):
        survey(tmp_path / "user", limits)


async def test_an_empty_folder_is_worked_on(tmp_path: Path) -> None:
    (tmp_path / "user" / "build").mkdir(parents=True)
    writes = ScriptedModel([call("files_write", path="hello.txt", content="hello"), call("done", answer="done")])
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("x", system="react", model=writes, environments=["files"], project=tmp_path / "user")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "done"), result.error
        await ws.files.apply(result.run_id)
    assert (tmp_path / "user" / "hello.txt").read_text() == "hello"


@pytest.mark.parametrize("below", ["", "lib"])
async def test_caches_and_ignored_files_that_a_run_made_are_no_changes(tmp_path: Path, below: str) -> None:
    user = repository(tmp_path / "user", {".gitignore": "dist/\n", "lib/a.py": "", "lib/dist/kept.js": "1"})
    git(user, "add", "-f", "lib/dist/kept.js")
    (user / "lib/out").mkdir()
    work = user / below
    made = {
        "__pycache__/a.pyc": "",
        "x/.mypy_cache/CACHEDIR.TAG": "",
        "x/.mypy_cache/3.12/a.json": "",
        "env/pyvenv.cfg": "",
        "dist/:made [1].js": "",
        "new.log": "",
        "new.py": "",
        ("" if below else "lib/") + "dist/kept.js": "2",
    }
    writes = [call("files_write", path=path, content=text, overwrite=True) for path, text in made.items()]
    writer = ScriptedModel([*writes, call("done", answer="done")])
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("x", system="react", model=writer, environments=["files"], project=work)
        assert result.folder is not None and (Path(result.folder) / ("out" if below else "lib/out")).is_dir()
        changed = await ws.files.changes(result.run_id)
        wanted = sorted(["new.log", "new.py", [*made][-1]])
        assert [one.path for one in changed.files] == wanted
        assert changed.ignored == ("dist/:made [1].js",)
        assert "kept.js" in result.diff and "made" not in result.diff
        assert (await ws.files.apply(result.run_id)).changed == tuple(wanted)


async def test_what_is_no_project_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    write(tmp_path / "user", {"files/a": ""})
    given = tmp_path / "given.txt"
    given.write_text("given")
    async with Workspace(tmp_path / "ws", settings=Settings(model="offline", folder=FolderSettings())) as ws:
        for project, files, sentence in (
            (tmp_path / "none", [], "does not exist; name the folder"),
            (given, [], "is no folder; name the folder"),
            (Path("/"), [], "is the root of this machine"),
            (tmp_path / "user", [given], "where agents see the files that are given with a task"),
        ):
            with pytest.raises(ProjectError, match=sentence):
                await ws.create("x", project=project, files=files, system="react")
        plain = await ws.create("x", system="react")
        with pytest.raises(ProjectError, match="works on no folder of yours"):
            (await ws.files.changes(plain)).diff()


# -- what comes back ---------------------------------------------------------------------------------------------------


def test_nothing_is_applied_where_anything_was_changed_meanwhile(tmp_path: Path) -> None:
    user = tmp_path / "user"
    write(user, {"a": "1", "b": "mine", "c/taken": "mine", "outside/x": "1"})
    (tmp_path / "elsewhere").mkdir()
    (user / "link").symlink_to(tmp_path / "elsewhere")
    before = files_below(user)
    made = changes(
        user, ("a", "1", "2"), ("b", "1", "2"), ("c/taken", None, "2"), ("link/x", None, "2"), ("gone", "1", None)
    )
    with pytest.raises(ApplyConflictError) as raised:
        apply(made, tmp_path / "run")
    assert raised.value.paths == ("b", "c/taken", "link/x")  # what is to be deleted may be deleted already
    assert files_below(user) == before
    assert not [*(tmp_path / "elsewhere").iterdir()]
    assert not (tmp_path / "run/apply.json").exists()


def test_files_and_folders_change_places_and_modes_stay(tmp_path: Path) -> None:
    user = tmp_path / "user"
    write(user, {"file": "1", "folder/x": "1", "folder/y/z": "1", "kept": "1"})
    (user / "kept").chmod(0o640)
    made = changes(
        user,
        ("file", "1", None),
        ("file/now/folder", None, "2"),
        ("folder", None, "2"),
        ("folder/x", "1", None),
        ("folder/y/z", "1", None),
    )
    made = made._replace(files=(*made.files, FileChange("kept", state("1"), state("2", runs=True))))
    assert apply(made, tmp_path / "run").written == 6
    assert files_below(user) == {"file/now/folder": b"2", "folder": b"2", "kept": b"2"}
    assert (user / "kept").stat().st_mode & 0o777 == 0o750
    assert apply(made, tmp_path / "run").written == 0


def test_a_branch_is_committed_beside_what_the_user_has(tmp_path: Path) -> None:
    user = repository(tmp_path / "user", {"a.txt": "1\n", "old": "1\n", "sub/b": "1\n"})
    write(user, {"a.txt": "mine\n", "staged": "mine\n"})
    git(user, "add", "staged")
    status = git(user, "status", "--short")
    made = changes(user, ("old", "1\n", None), ("sub/new", None, b"\0"), ("sub/b", "1\n", "2\n"))
    applied = commit(made, "fix", "Fix it")
    assert git(user, "show", "--stat", "--format=%s", "fix").splitlines()[0] == "Fix it"
    assert git(user, "ls-tree", "-r", "--name-only", "fix").split() == ["a.txt", "sub/b", "sub/new"]
    assert (git(user, "show", "fix:sub/b"), applied.commit) == ("2", git(user, "rev-parse", "fix"))
    assert git(user, "status", "--short") == status
    commit(changes(user, ("sub/b", "1\n", None), ("sub", None, "2\n")), "file", "A file in a folder's place")
    assert git(user, "ls-tree", "--name-only", "file").split() == ["a.txt", "old", "sub"]
    with pytest.raises(ProjectError, match=r"there is a branch 'fix' already; give another name"):
        commit(made, "fix", "again")
    with pytest.raises(ProjectError, match=r"a.txt had changes that were not committed when the run began"):
        commit(changes(user, ("a.txt", "mine\n", "2\n")), "other", "x")


def test_branches_that_cannot_be_made_are_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    git(unborn, "init", "-q")
    user = repository(tmp_path / "user", {"a": ""})
    for folder, name, sentence in (
        (tmp_path / "plain", "fix", "is in no git repository"),
        (unborn, "fix", "has no commit yet"),
        (user, "a..b", "is no name that a branch can have"),
        (user, "-d", "is no name that a branch can have"),
        (user, "main", "there is a branch 'main' already"),
    ):
        with pytest.raises(ProjectError, match=sentence):
            check_branch(folder, name)


def test_two_cannot_apply_at_once_to_one_folder(tmp_path: Path) -> None:
    user = tmp_path / "user"
    write(user, {"a": "1"})
    made = [changes(user, ("a", "1", str(number))) for number in (2, 3)]

    async def both() -> list[Any]:
        work = (asyncio.to_thread(apply, one, tmp_path / str(number)) for number, one in enumerate(made))
        return await asyncio.gather(*work, return_exceptions=True)

    results = asyncio.run(both())
    assert sorted(type(one).__name__ for one in results) == ["Applied", "ApplyConflictError"]


@pytest.mark.long
@needs_bubblewrap
async def test_the_turns_of_a_session_share_a_project_and_what_was_applied_of_the_first_counts(tmp_path: Path) -> None:
    user = repository(tmp_path / "user", CALC | {"old.txt": "old\n"})
    commands = ["sed -i 's/a - b/a + b/' calc.py; rm old.txt", "sed -i '1i # sums' calc.py; pwd", "git status --short"]
    steps = [step for one in commands for step in (call("terminal_run", command=one), call("done", answer="done"))]
    async with Workspace(tmp_path / "ws", models={"m": ScriptedModel(steps)}) as ws:
        session = ws.session("calc")
        first = await session.run("Fix it", model="m", system="react", project=user)
        await ws.files.apply(first.run_id)
        second = await session.run("Say what it is", project=user)  # the rest is as in the turn before
        assert (await printed(ws, second.run_id))[0].strip() == str(user)
        assert "+    return a + b" in second.diff and "+# sums" in second.diff
        assert (await ws.files.apply(second.run_id)).written == 1
        assert files_below(user)["calc.py"] == b"# sums\ndef add(a, b):\n    return a + b\n"
        third = await session.run("What is different?")
        write(user, {"calc.py": "mine\n"})
        with pytest.raises(ApplyConflictError, match=r"calc\.py"):
            await ws.files.apply(third.run_id)
        other = repository(tmp_path / "other", CALC)
        with pytest.raises(ProjectError, match=r"works on a copy of .*user, and its turns share it"):
            await session.run("Fix that one", project=other)


@pytest.mark.long
@needs_bubblewrap
async def test_a_fork_has_the_folder_of_its_event_and_changes_of_its_own(tmp_path: Path) -> None:
    user = repository(tmp_path / "user", CALC)
    commands = ["sed -i 's/a - b/a + b/' calc.py", "echo '# first' >>calc.py", "echo '# second' >>calc.py"]
    first_two, last = ([call("terminal_run", command=one) for one in some] for some in (commands[:2], commands[2:]))
    steps = [*first_two, call("done", answer="done"), *last, call("done", answer="done")]
    async with Workspace(tmp_path / "ws", models={"m": ScriptedModel(steps)}) as ws:
        first = await ws.run("Fix it", model="m", system="react", project=user)
        keys = [
            one for one in await ws.log.events(first.run_id) if one.type == "completed" and one.branch == "/1.react"
        ]
        done = next(one for one in keys if "env:folder" in str(one.body))
        fork = await ws.fork(first.run_id, at=done.seq)
        assert (
            "+    return a + b" in (await ws.files.changes(fork)).diff()
            and "# first" not in (await ws.files.changes(fork)).diff()
        )
        await ws.store.delete_runs([first.run_id])
        result = await ws.resume(fork)
        assert (result.status, "# first" in result.diff, "+# second" in result.diff) == (
            RunStatus.COMPLETED,
            False,
            True,
        )
        await ws.files.apply(fork)
        assert files_below(user)["calc.py"] == b"def add(a, b):\n    return a + b\n# second\n"


APPLY = """
import sys
from pathlib import Path
from agentorchestra.core.errors import ProjectError
from agentorchestra.workspace.changes import apply
from tests.support.projects import changes
user = Path(sys.argv[1])
made = changes(user, ("a", "1", "2"), (sys.argv[2], sys.argv[3] or None, "2"), ("z", "1", None))
try:
    apply(made, user.parent / "run")
except ProjectError as exc:
    print(exc)
"""


@needs_bubblewrap
@pytest.mark.parametrize(("path", "old"), [("mounted/b", "1"), pytest.param("mounted/new", "", marks=pytest.mark.long)])
def test_nothing_is_applied_where_a_part_of_the_folder_is_another_file_system(
    tmp_path: Path, path: str, old: str
) -> None:
    user, elsewhere = tmp_path / "user", tmp_path / "elsewhere"
    write(user, {"a": "1", "z": "1", "mounted/here": ""})
    write(elsewhere, {"b": "1"})
    mounted = ["bwrap", "--dev-bind", "/", "/", "--bind", str(elsewhere), str(user / "mounted"), "--"]
    words = [*mounted, sys.executable, "-c", APPLY, str(user), path, old]
    done = subprocess.run(
        words, cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True
    )
    assert "cannot be written: Invalid cross-device link; nothing of it was changed" in done.stdout, done
    assert files_below(user) == {"a": b"1", "z": b"1", "mounted/here": b""}
    assert files_below(elsewhere) == {"b": b"1"}
    assert not (tmp_path / "run/apply.json").exists()
