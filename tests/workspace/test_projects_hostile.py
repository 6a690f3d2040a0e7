"""Repositories that are made to do harm, as projects: none of their programs runs outside of the sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentorchestra.core.errors import ProjectError
from agentorchestra.environments.manifest import FolderLimits
from agentorchestra.environments.project import Copier, survey
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.changes import commit
from tests.support.projects import changes, files_below, git, repository, write
from tests.workspace.test_projects import model, needs_bubblewrap, printed

PROGRAMS = ("fsmonitor", "sshCommand", "pager", "editor", "gitProxy", "askPass", "alternateRefsCommand")


class Trap:
    """A program that notes that it ran."""

    def __init__(self, place: Path) -> None:
        self.program, self._note = place / "trap.sh", place / "ran"
        self.program.write_text(f'#!/bin/sh\necho "$@" >>{self._note}\ntimeout 1 cat\n')
        self.program.chmod(0o755)
        self.hooks = place / "hooks"
        self.hooks.mkdir()
        for name in ("post-index-change", "reference-transaction", "pre-commit", "post-commit", "post-checkout"):
            (self.hooks / name).symlink_to(self.program)

    def filter(self) -> str:
        return f'[filter "evil"]\n\tclean = {self.program} clean\n\tsmudge = {self.program} smudge\n'

    def configure(self, user: Path, more: str = "") -> None:
        """Name the program in the configuration of a repository wherever git would run one."""
        lines = [f"[core]\n\thooksPath = {self.hooks}", *(f"\t{one} = {self.program} {one}" for one in PROGRAMS)]
        lines += [f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {self.program}", "[submodule]\n\trecurse = true"]
        lines += [f'[diff]\n\texternal = {self.program}\n[diff "evil"]\n\ttextconv = {self.program}']
        lines += ["[alias]", *(f"\t{one} = !{self.program}" for one in ("ls-files", "rev-parse", "hash-object"))]
        with (user / ".git/config").open("a") as file:
            file.write("\n".join([*lines, more, ""]))

    @property
    def ran(self) -> str:
        return self._note.read_text() if self._note.exists() else ""


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def copied(user: Path, place: Path) -> Copier:
    copier = Copier(survey(user, FolderLimits()), place, FolderLimits())
    for _, count in copier.packs():
        copier.note("0" * 64, count)
    return copier


@needs_bubblewrap
async def test_no_program_of_a_repository_runs_at_start_nor_where_its_changes_are_applied(
    tmp_path: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = repository(tmp_path / "user", {"a.txt": "1\n", ".gitattributes": "*.txt filter=evil diff=evil\n"})
    trap.configure(repository(user / "sub", {"b": ""}), trap.filter())
    write(user, {".gitmodules": f'[submodule "s"]\n\tpath = sub\n\turl = ext::{trap.program}\n'})
    git(user, "add", "-A")
    git(user, "commit", "-q", "-m", "sub")
    (tmp_path / "included").write_text(trap.filter())
    trap.configure(user, f"[include]\n\tpath = {tmp_path}/included\n")
    other = repository(tmp_path / "other", {"other.txt": ""})
    for name, place in (("GIT_DIR", other / ".git"), ("GIT_WORK_TREE", other), ("GIT_INDEX_FILE", other / "index")):
        monkeypatch.setenv(name, str(place))
    async with Workspace(
        tmp_path / "ws",
        models={"m": model("ls -A; git status --short --ignore-submodules; git log --format=%s; echo 2 >a.txt")},
    ) as ws:
        result = await ws.run("Look", model="m", system="react", project=user)
        (words,) = await printed(ws, result.run_id)
        assert words.split() == [".git", ".gitattributes", ".gitmodules", "a.txt", "sub", "sub", "begin"]
        with pytest.raises(ProjectError, match="names the programs of the filter 'evil', and they are not run: apply"):
            await ws.files.apply(result.run_id, branch="fix")
        await ws.files.apply(result.run_id)
    assert files_below(user)["a.txt"] == b"2\n"
    assert trap.ran == ""
    git(user, "status")
    assert "fsmonitor" in trap.ran and "clean" in trap.ran  # git alone does run them


def test_a_filter_of_the_users_own_configuration_is_run(
    tmp_path: Path, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = repository(tmp_path / "user", {"a.txt": "1\n", ".gitattributes": "*.txt filter=evil\n"})
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(trap.filter())
    commit(changes(user, ("b.txt", None, "2\n")), "fix", "Fix it")
    assert trap.ran == "clean\n"
    assert git(user, "show", "fix:b.txt") == "2"


@pytest.mark.parametrize("missing", ["HEAD", "HEAD:a.txt"])
def test_what_a_partial_clone_lacks_is_not_fetched(tmp_path: Path, trap: Trap, missing: str) -> None:
    user = repository(tmp_path / "user", {"a.txt": "1\n"})
    promised = '[remote "origin"]\n\turl = ssh://host/x\n\tpromisor = true\n'
    trap.configure(user, f"[extensions]\n\tpartialClone = origin\n{promised}\tuploadpack = {trap.program}\n")
    name = git(user, "rev-parse", missing)
    (user / ".git/objects" / name[:2] / name[2:]).unlink()
    made = changes(user, ("b", None, "2\n"))
    assert copied(user, tmp_path / "copy").project("").repository
    if missing == "HEAD":
        with pytest.raises(ProjectError, match="has no commit yet"):
            commit(made, "fix", "Fix it")
    else:
        commit(made, "fix", "Fix it")
        assert git(user, "ls-tree", "--name-only", "fix").split() == ["a.txt", "b"]
    assert trap.ran == ""


@pytest.mark.parametrize("name", ["index", "info/exclude", "shallow"])
def test_a_link_in_gits_own_folder_shows_nothing_of_the_users(tmp_path: Path, name: str) -> None:
    user = repository(tmp_path / "user", {"a.txt": "1\n"})
    (tmp_path / "secret").write_bytes((user / ".git/index").read_bytes())  # git would take the link for its own
    (user / ".git" / name).unlink(missing_ok=True)
    (user / ".git" / name).symlink_to(tmp_path / "secret")
    copied(user, tmp_path / "copy")
    assert not (tmp_path / "copy/folder/.git" / name).exists()


def test_what_git_cannot_or_must_not_read_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    secret = {".env": "SECRET", ".gitignore": ".env\n"}
    write(tmp_path / "nowhere", {**secret, ".git": f"gitdir: {tmp_path}/none\n"})
    write(tmp_path / "deep", {"/".join("d" * 70): ""})
    cases = [("nowhere", "git cannot read .*nowhere: fatal: not a git repository:"), ("deep", "63 folders deep")]
    if os.geteuid() == 0:
        foreign = repository(tmp_path / "foreign", secret)
        for place in (foreign, foreign / ".git"):
            os.chown(place, 12345, 12345)
        cases.append(("foreign", "detected dubious ownership"))
    for name, sentence in cases:
        with pytest.raises(ProjectError, match=sentence):
            survey(tmp_path / name, FolderLimits())
