"""What the environment `git` does in the folder: repositories, commits, branches, merges, all inside the sandbox."""

from __future__ import annotations

import shlex
from typing import Annotated

from pydantic import Field, JsonValue

from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.effects import Tag
from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import GitSettings
from agentorchestra.environments.folder import FolderEnvironment
from agentorchestra.environments.git.shell import GitShell, failure, name_of, path_of, plain, revision_of
from agentorchestra.sandbox.base import Sandbox, SandboxLimits
from agentorchestra.sandbox.factory import shell_in
from agentorchestra.sandbox.shell import Shell
from agentorchestra.tea.calling.environment import action
from agentorchestra.trust.arguments import INSIDE

_TEXT_CHARS = 60_000
_MOST_CONFLICTS = 50

NAMED_INSIDE: dict[str, JsonValue] = {"format": INSIDE}  # a name in the folder: it chooses no host
Repository = Annotated[
    str, Field(description="Folder of the repository; `.` is the whole folder.", json_schema_extra=NAMED_INSIDE)
]
Files = Annotated[list[str], Field(description="Paths in the repository.", min_length=1, max_length=1000)]


class Repositories(FolderEnvironment):
    """Git repositories in the folder, without remotes."""

    name = "git"

    def __init__(self, settings: GitSettings, sandbox: Sandbox | None, limits: SandboxLimits | None) -> None:
        self._settings = settings
        self._sandbox, self._limits = sandbox, limits
        self._shell: Shell | None = None

    @property
    def walled(self) -> bool:
        """Whether what a repository makes git run (hooks, filters) reaches nothing but the folder."""
        return self._sandbox is None or self._sandbox.safe

    @property
    def confined(self) -> bool:
        """Commands run in the sandbox; this process takes out and puts in one file, and follows no link."""
        return self.walled

    def tags(self, action: str) -> frozenset[Tag]:
        """What an action touches; without a sandbox any of them may run what the repository names."""
        declared = super().tags(action)
        return declared if self.walled else declared | {Tag.EXECUTE, Tag.NETWORK}

    # -- life --------------------------------------------------------------------------------------------------------

    async def git_shell(self) -> GitShell:
        """Git in the sandbox, which is started by the first command."""
        if self._shell is None:
            if self._sandbox is None:
                raise ToolError("git works in a sandbox, and the settings want none: set sandbox.backend to auto")
            self._shell = await shell_in(self._sandbox, self.folder, self._limits, inputs=self.files)
        return GitShell(self._shell, self.folder, self._stands_on.temporary, self._settings)

    async def leave(self) -> None:
        """End what works in the folder: it is put back to a snapshot."""
        shell, self._shell = self._shell, None
        if shell is not None:
            await shell.close()

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.leave()
        await super().close()

    async def state(self) -> tuple[Block, ...]:
        """Where repositories are; looking costs no command."""
        found = sorted(str(one.parent.relative_to(self.folder)) for one in self.folder.glob("*/.git"))[:20]
        found = [".", *found] if (self.folder / ".git").is_dir() else found
        text = f"repositories: {', '.join(found) or 'none'}"
        return (TextBlock(text=text, source=Source(kind="environment", ref=self.name)),)

    # -- repositories ------------------------------------------------------------------------------------------------

    @action
    async def init(self, repository: Repository = ".", branch: str = "main") -> str:
        """Make a folder a repository.

        Args:
            repository: the folder, which is made if it is not there.
            branch: the name of its first branch.
        """
        git = await self.git_shell()
        place = "/".join(path_of(repository))
        name_of(branch, "branch")
        said = await git.script("", f"mkdir -p -- {shlex.quote('./' + place)}", "init")
        if said.code:
            raise ToolError(failure("init", said))
        return (await git.run(repository, "init", "--template=", f"--initial-branch={branch}")).out.strip()

    @action(mutates=False)
    async def status(self, repository: Repository = ".") -> str:
        """The branch, and what is changed, staged, new or in conflict."""
        return (await (await self.git_shell()).run(repository, "status")).out[:_TEXT_CHARS]

    @action(mutates=False)
    async def diff(
        self,
        repository: Repository = ".",
        staged: bool = False,
        between: str = "",
        files: list[str] | None = None,
    ) -> str:
        """What is changed, as a patch.

        Args:
            repository: its folder.
            staged: what is added already, instead of what is not.
            between: two commits with two dots between them (`main..next`), or one to compare with.
            files: only these.
        """
        words = ["diff", "--no-ext-diff", "--no-textconv", *(["--staged"] if staged else [])]
        words += [revision_of(between)] if between else []
        said = await (await self.git_shell()).run(repository, *words, "--", *(files or []))
        return said.out[:_TEXT_CHARS] or "nothing is changed"

    @action(mutates=False)
    async def log(
        self,
        repository: Repository = ".",
        revision: str = "HEAD",
        limit: Annotated[int, Field(ge=1, le=500)] = 20,
        file: str = "",
    ) -> list[JsonValue]:
        """Commits, the newest first: hash, author, date, subject, and what points at them.

        Args:
            repository: its folder.
            revision: where to begin; `--all` branches with `all`.
            limit: at most so many.
            file: only those that changed this file.
        """
        start = "--all" if revision == "all" else revision_of(revision)
        form = "--format=%H%x00%an%x00%aI%x00%s%x00%D"
        words = ["log", f"--max-count={limit}", form, start, "--", *([file] if file else [])]
        said = await (await self.git_shell()).run(repository, *words)
        rows = [line.split("\0") for line in said.out.splitlines()]
        names = ("commit", "author", "date", "subject", "refs")
        return [dict(zip(names, row, strict=False)) for row in rows if len(row) == len(names)]

    @action(mutates=False)
    async def show(self, repository: Repository = ".", revision: str = "HEAD", file: str = "") -> str:
        """A commit with its patch; or a file as it is in a commit.

        Args:
            repository: its folder.
            revision: the commit.
            file: show this file's content in that commit.
        """
        what = f"{revision_of(revision)}:{file}" if file else revision_of(revision)
        return (await (await self.git_shell()).run(repository, "show", "--no-ext-diff", "--no-textconv", what)).out[
            :_TEXT_CHARS
        ]

    # -- changes -----------------------------------------------------------------------------------------------------

    @action
    async def add(self, files: Files, repository: Repository = ".") -> str:
        """Stage files, or folders with all in them; deletions too."""
        git = await self.git_shell()
        await git.run(repository, "add", "--all", "--", *files)
        return (await git.run(repository, "status", "--short")).out[:_TEXT_CHARS] or "nothing to commit"

    @action
    async def commit(
        self, message: str, repository: Repository = ".", all_changes: bool = False
    ) -> dict[str, JsonValue]:
        """Commit what is staged.

        Args:
            message: what and why; the first line is the subject.
            repository: its folder.
            all_changes: stage everything first, new files too.
        """
        if not message.strip():
            raise ToolError("a commit needs a message; say what it changes and why")
        git = await self.git_shell()
        if all_changes:
            await git.run(repository, "add", "--all")
        said = await git.run(repository, "commit", "--message", message, "--cleanup=strip", ok=(0, 1))
        if said.code:
            raise ToolError(failure("commit", said))
        tip = (await git.run(repository, "rev-parse", "HEAD")).out.strip()
        branch = (await git.run(repository, "branch", "--show-current")).out.strip()
        return {"commit": tip, "branch": branch, "said": plain(said.out)}

    @action
    async def restore_files(
        self, files: Files, repository: Repository = ".", source: str = "", staged: bool = False
    ) -> str:
        """Take files back to how they were; what is changed in them is lost.

        Args:
            files: paths in the repository.
            repository: its folder.
            source: the commit to take them from; what is staged by default.
            staged: unstage them instead, and leave the files as they are.
        """
        words = ["restore", *(["--staged"] if staged else []), *([f"--source={revision_of(source)}"] if source else [])]
        git = await self.git_shell()
        await git.run(repository, *words, "--", *files)
        return (await git.run(repository, "status", "--short")).out[:_TEXT_CHARS] or "nothing is changed"

    # -- branches and tags -------------------------------------------------------------------------------------------

    @action(mutates=False)
    async def list_branches(self, repository: Repository = ".") -> list[JsonValue]:
        """The branches, remote ones too: name, commit, subject, and which one is checked out."""
        form = "--format=%(refname:short)%00%(objectname)%00%(contents:subject)%00%(HEAD)"
        said = await (await self.git_shell()).run(
            repository, "for-each-ref", form, "--count=500", "refs/heads", "refs/remotes"
        )
        rows = [line.split("\0") for line in said.out.splitlines()]
        return [
            {"branch": row[0], "commit": row[1], "subject": row[2], "current": row[3] == "*"}
            for row in rows
            if len(row) == 4
        ]

    @action
    async def create_branch(
        self, branch: str, repository: Repository = ".", start: str = "HEAD", switch: bool = True
    ) -> str:
        """Create a branch.

        Args:
            branch: its name.
            repository: its folder.
            start: the commit it begins at.
            switch: check it out.
        """
        words = ["switch", "--create"] if switch else ["branch", "--"]
        git = await self.git_shell()
        said = await git.run(repository, *words, name_of(branch, "branch"), revision_of(start))
        return plain(said.err or said.out) or f"branch {branch} begins at {start}"

    @action
    async def switch(self, branch: str, repository: Repository = ".") -> str:
        """Check a branch out; one that only a remote has is made here."""
        said = await (await self.git_shell()).run(repository, "switch", name_of(branch, "branch"))
        return plain(said.err or said.out)

    @action
    async def delete_branch(self, branch: str, repository: Repository = ".", force: bool = False) -> str:
        """Delete a branch; with `force` also one whose commits are in no other."""
        words = ["branch", "--delete", *(["--force"] if force else []), "--", name_of(branch, "branch")]
        return plain((await (await self.git_shell()).run(repository, *words)).out)

    @action
    async def create_tag(
        self, tag: str, repository: Repository = ".", revision: str = "HEAD", message: str = ""
    ) -> str:
        """Make a tag; with a message an annotated one."""
        words = ["tag", *(["--annotate", "--message", message] if message else []), "--"]
        await (await self.git_shell()).run(repository, *words, name_of(tag, "tag"), revision_of(revision))
        return f"tag {tag} at {revision}"

    @action(mutates=False)
    async def list_tags(self, repository: Repository = ".") -> list[JsonValue]:
        """The tags, with the commits they name."""
        said = await (await self.git_shell()).run(
            repository, "for-each-ref", "--format=%(refname:short)%00%(objectname)", "--count=500", "refs/tags"
        )
        rows = [line.split("\0") for line in said.out.splitlines()]
        return [{"tag": row[0], "commit": row[1]} for row in rows if len(row) == 2]

    # -- merging -----------------------------------------------------------------------------------------------------

    @action
    async def merge(
        self, revision: str, repository: Repository = ".", message: str = "", unrelated: bool = False
    ) -> dict[str, JsonValue]:
        """Merge a branch or commit into the branch that is checked out; conflicts are shown.

        Args:
            revision: what is merged.
            repository: its folder.
            message: of the merge commit.
            unrelated: also where the two have no commit in common.
        """
        return await self.merged(await self.git_shell(), repository, revision, message, unrelated=unrelated)

    async def merged(
        self, git: GitShell, repository: str, revision: str, message: str = "", *, unrelated: bool = False
    ) -> dict[str, JsonValue]:
        """Merge, and what came of it; see `merge`."""
        words = ["merge", "--no-edit", *(["--message", message] if message else [])]
        words += [*(["--allow-unrelated-histories"] if unrelated else []), revision_of(revision)]
        said = await git.run(repository, *words, ok=(0, 1))
        if said.code == 0:
            tip = (await git.run(repository, "rev-parse", "HEAD")).out.strip()
            return {"merged": True, "commit": tip, "said": plain(said.out)}
        listed = await git.run(repository, "diff", "--name-only", "--diff-filter=U", "-z")
        conflicts: list[JsonValue] = []
        conflicts += [one for one in listed.out.split("\0") if one][:_MOST_CONFLICTS]
        if not conflicts:
            raise ToolError(failure("merge", said))
        hunks = await git.run(repository, "diff", "--no-ext-diff", "--no-textconv", "--diff-filter=U")
        return {
            "merged": False,
            "conflicts": conflicts,
            "hunks": hunks.out[:_TEXT_CHARS],
            "next": "write these files as they should be, without the marks, add them and commit; or abort_merge",
        }

    @action
    async def abort_merge(self, repository: Repository = ".") -> str:
        """Go back to before a merge that has conflicts."""
        await (await self.git_shell()).run(repository, "merge", "--abort")
        return "the merge was taken back"


__all__ = ["NAMED_INSIDE", "Repositories", "Repository"]
