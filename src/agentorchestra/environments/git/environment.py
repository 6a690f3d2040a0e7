"""The environment `git`: repositories in the run's folder, and the remotes they come from and go to.

It has what a sandbox without a network cannot do (clone, fetch, pull, push) and the commands that a task with a remote
is made of. All else of git is the terminal's.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from pydantic import Field, JsonValue

from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.effects import Tag
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import GitSettings
from agentorchestra.environments.folder import FolderEnvironment, rules_text
from agentorchestra.environments.git.remotes import EXAMPLE, Remotes
from agentorchestra.environments.git.shell import GitShell, failure, name_of, path_of, revision_of, shorten
from agentorchestra.environments.git.transfer import Fetched, fetch, push, remotes_of
from agentorchestra.environments.git.wire import Remote
from agentorchestra.environments.registry import EnvironmentParts
from agentorchestra.sandbox.base import Sandbox, SandboxLimits
from agentorchestra.sandbox.factory import shell_in
from agentorchestra.sandbox.shell import Shell
from agentorchestra.tea.calling.environment import action
from agentorchestra.tools.web.http import WebClient
from agentorchestra.trust.arguments import INSIDE

_TEXT_CHARS = 60_000
_MOST_CONFLICTS = 50

_NAMED_INSIDE: dict[str, JsonValue] = {"format": INSIDE}  # a name in the folder: it chooses no host
Repository = Annotated[
    str, Field(description="Folder of the repository; `.` is the whole folder.", json_schema_extra=_NAMED_INSIDE)
]
NewFolder = Annotated[
    str, Field(description="The folder; the name in the address by default.", json_schema_extra=_NAMED_INSIDE)
]
Branch = Annotated[str, Field(json_schema_extra=_NAMED_INSIDE)]
Address = Annotated[str, Field(description="Address of the remote, `https://…`; not its name.")]


class Git(FolderEnvironment):
    """Git repositories in the folder: commits, branches, merges; clone, fetch, pull and push to given remotes."""

    name = "git"
    begins_with = frozenset({"status", "diff", "commit"})

    def __init__(
        self,
        settings: GitSettings | None = None,
        *,
        sandbox: Sandbox | None,
        web: WebClient | None = None,
        limits: SandboxLimits | None = None,
    ) -> None:
        self._settings = settings or GitSettings()
        self._sandbox, self._limits = sandbox, limits
        self._shell: Shell | None = None
        self._remotes = Remotes(self._settings, web or WebClient())

    @classmethod
    def from_parts(cls, parts: EnvironmentParts) -> Git:
        settings = parts.settings
        return cls(settings.git, sandbox=parts.sandbox, web=WebClient(settings.web), limits=parts.limits)

    @property
    def confined(self) -> bool:
        """Return True if what a repository makes git run (hooks, filters) reaches nothing but the folder.

        Commands run in the sandbox; this process takes out and puts in one file, and follows no link.
        """
        return self._sandbox is None or self._sandbox.safe

    def repeatable(self, action: str) -> bool:
        """Return True for all but a push: they touch the folder only, which a resume first puts back."""
        return self.confined and action != "push"

    def tags(self, action: str) -> frozenset[Tag]:
        """Return what an action touches; without a sandbox any of them may run what the repository names."""
        tags = super().tags(action)
        return tags if self.confined else tags | {Tag.EXECUTE, Tag.NETWORK}

    def rules(self) -> str:
        return rules_text(self.name)

    # -- life --------------------------------------------------------------------------------------------------------

    async def _git(self) -> GitShell:
        """Return git in the sandbox, which the first command starts."""
        if self._shell is None:
            if self._sandbox is None:
                raise ToolError("git works in a sandbox, and the settings want none: set sandbox.backend to auto")
            self._shell = await shell_in(
                self._sandbox, self.folder, self._limits, inputs=self.files, mounts=await self.seen()
            )
        return GitShell(self._shell, self.folder, self._stands_on.temporary, self._settings)

    async def leave(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            await shell.close()

    async def close(self) -> None:
        await self.leave()
        await super().close()

    async def state(self) -> tuple[Block, ...]:
        """Return where repositories are; looking costs no command."""
        places = sorted(str(path.parent.relative_to(self.folder)) for path in self.folder.glob("*/.git"))[:20]
        places = [".", *places] if (self.folder / ".git").is_dir() else places
        text = f"repositories: {', '.join(places) or 'none'}"
        return (TextBlock(text=text, source=Source(kind="environment", ref=self.name)),)

    # -- repositories ------------------------------------------------------------------------------------------------

    @action
    async def init(self, repository: Repository = ".", branch: str = "main") -> str:
        """Make a folder a repository.

        Args:
            repository: the folder, which is made if it is not there.
            branch: the name of its first branch.
        """
        git = await self._git()
        place = "/".join(path_of(repository))
        name_of(branch, "branch")
        result = await git.script("", f"mkdir -p -- {shlex.quote('./' + place)}", "init")
        if result.code:
            raise ToolError(failure("init", result))
        return (await git.run(repository, "init", "--template=", f"--initial-branch={branch}")).out.strip()

    @action(effect="read")
    async def status(self, repository: Repository = ".") -> str:
        """The branch, and what is changed, staged, new or in conflict."""
        return (await (await self._git()).run(repository, "status")).out[:_TEXT_CHARS]

    @action(effect="read")
    async def diff(
        self, repository: Repository = ".", staged: bool = False, between: str = "", files: list[str] | None = None
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
        result = await (await self._git()).run(repository, *words, "--", *(files or []))
        return result.out[:_TEXT_CHARS] or "nothing is changed"

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
        git = await self._git()
        if all_changes:
            await git.run(repository, "add", "--all")
        result = await git.run(repository, "commit", "--message", message, "--cleanup=strip", ok=(0, 1))
        if result.code:
            raise ToolError(failure("commit", result))
        tip = (await git.run(repository, "rev-parse", "HEAD")).out.strip()
        branch = (await git.run(repository, "branch", "--show-current")).out.strip()
        return {"commit": tip, "branch": branch, "said": shorten(result.out)}

    @action
    async def switch(self, branch: str, repository: Repository = ".", create: bool = False) -> str:
        """Check a branch out; one that only a remote has is made here.

        Args:
            branch: its name.
            repository: its folder.
            create: make it, at the commit that is checked out.
        """
        words = ["switch", *(["--create"] if create else [])]
        result = await (await self._git()).run(repository, *words, name_of(branch, "branch"))
        return shorten(result.err or result.out)

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
        return await self._merge(await self._git(), repository, revision, message, unrelated=unrelated)

    async def _merge(
        self, git: GitShell, repository: str, revision: str, message: str = "", *, unrelated: bool = False
    ) -> dict[str, JsonValue]:
        """Merge a commit into the checked-out branch; see `merge`."""
        words = ["merge", "--no-edit", *(["--message", message] if message else [])]
        words += [*(["--allow-unrelated-histories"] if unrelated else []), revision_of(revision)]
        result = await git.run(repository, *words, ok=(0, 1))
        if result.code == 0:
            tip = (await git.run(repository, "rev-parse", "HEAD")).out.strip()
            return {"merged": True, "commit": tip, "said": shorten(result.out)}
        listing = await git.run(repository, "diff", "--name-only", "--diff-filter=U", "-z")
        conflicts: list[JsonValue] = []
        conflicts += [name for name in listing.out.split("\0") if name][:_MOST_CONFLICTS]
        if not conflicts:
            raise ToolError(failure("merge", result))
        hunks = await git.run(repository, "diff", "--no-ext-diff", "--no-textconv", "--diff-filter=U")
        return {
            "merged": False,
            "conflicts": conflicts,
            "hunks": hunks.out[:_TEXT_CHARS],
            "next": "write these files as they should be, without the marks, and commit with all_changes; or take the "
            "merge back with `git merge --abort` in the terminal",
        }

    # -- remotes -----------------------------------------------------------------------------------------------------

    @action(effect=("write", "read", "network"))
    async def clone(
        self, ctx: RunContext[Any], remote: Address, repository: NewFolder = "", branch: Branch = "", depth: int = 0
    ) -> dict[str, JsonValue]:
        """Copy a remote repository into a new folder.

        Args:
            remote: its address.
            repository: the folder; the name in the address by default.
            branch: only this one, and check it out; all and the remote's main one by default.
            depth: only so many commits of each history; 0 for all.
        """
        source = self._remotes.find(ctx, remote)
        place = repository or remote.rstrip("/").rpartition("/")[2].removesuffix(".git")
        if not path_of(place):
            raise ToolError("clone needs a folder of its own; name it with `repository`")
        git = await self._git()
        folder = shlex.quote("./" + "/".join(path_of(place)))
        result = await git.script("", f"mkdir -p -- {folder} && ls -A -- {folder} | head -n 1", "clone")
        if result.code or result.out.strip():
            raise ToolError(f"{place!r} is no empty folder; clone into another one")
        try:
            await git.run(place, "init", "--template=", "--initial-branch=main")
            history = await self._fetch(git, place, source, branch=branch, depth=depth)
            start = branch or (history.head if history.head in history.branches else next(iter(history.branches), ""))
            if start:
                await self._check_out_first(git, place, history, start)
        except BaseException:
            await git.script("", f"rm -rf -- {folder}", "clone")
            raise
        modules = (await git.run(place, "ls-files", "--stage")).out.splitlines()
        left: list[JsonValue] = []
        left += [line.partition("\t")[2] for line in modules if line.startswith("160000 ")]
        reply: dict[str, JsonValue] = {"repository": place, "branch": start, "commit": history.branches.get(start)}
        return reply | ({"submodules_left_out": left} if left else {})

    async def _check_out_first(self, git: GitShell, place: str, history: Fetched, start: str) -> None:
        name_of(start, "branch")
        await git.run(place, "symbolic-ref", "HEAD", f"refs/heads/{start}")
        await git.run(place, "reset", "--hard", "--quiet", history.branches[start])
        await git.run(place, "branch", f"--set-upstream-to={history.name}/{start}", ok=(0, 1, 128))

    @action(effect=("write", "read", "network"))
    async def fetch(
        self, ctx: RunContext[Any], remote: Address, repository: Repository = ".", branch: Branch = "", depth: int = 0
    ) -> dict[str, JsonValue]:
        """Bring the branches and tags of a remote; nothing that is checked out changes.

        Args:
            remote: its address.
            repository: the folder to bring them to.
            branch: only this one; all by default.
            depth: only so many commits of each history; 0 for all.
        """
        git = await self._git()
        source = await self._remote(ctx, git, repository, remote)
        history = await self._fetch(git, repository, source, branch=branch, depth=depth)
        return {"remote": history.name, "new": dict(history.moves)}

    @action(effect=("write", "read", "network"))
    async def pull(
        self,
        ctx: RunContext[Any],
        remote: Address,
        repository: Repository = ".",
        branch: Branch = "",
        unrelated: bool = False,
    ) -> dict[str, JsonValue]:
        """Fetch a branch of a remote and merge it into the one that is checked out; conflicts are shown.

        Args:
            remote: its address.
            repository: the folder.
            branch: of the remote; the one that is checked out by default.
            unrelated: also where the two have no commit in common, as with a remote that was begun by itself.
        """
        git = await self._git()
        source = await self._remote(ctx, git, repository, remote)
        name = branch or await self._current(git, repository)
        history = await self._fetch(git, repository, source, branch=name)
        return await self._merge(git, repository, f"{history.name}/{name}", unrelated=unrelated)

    @action(effect=("write", "send", "network"))
    async def push(
        self,
        ctx: RunContext[Any],
        remote: Address,
        repository: Repository = ".",
        branch: str = "",
        to: str = "",
        tags: list[str] | None = None,
        force: bool = False,
    ) -> dict[str, JsonValue]:
        """Send a branch and tags to a remote.

        Args:
            remote: its address.
            repository: the folder.
            branch: the branch; the one that is checked out by default.
            to: its name at the remote; the same by default.
            tags: go along.
            force: also where commits of the remote would be lost.
        """
        git = await self._git()
        target = await self._remote(ctx, git, repository, remote)
        name = name_of(branch, "branch") if branch else await self._current(git, repository)
        if to:
            name_of(to, "branch")
        moves = await push(
            git,
            repository,
            target,
            branch=name,
            to=to,
            tags=[name_of(tag, "tag") for tag in tags or ()],
            force=force,
            max_bytes=self._settings.max_pack_mib << 20,
        )
        return {"remote": target.url, **({"pushed": dict(moves)} if moves else {"up_to_date": True})}

    async def _fetch(
        self, git: GitShell, repository: str, source: Remote, *, branch: str = "", depth: int = 0
    ) -> Fetched:
        most = self._settings.max_pack_mib << 20
        return await fetch(git, repository, source, branch=branch, depth=max(0, depth), max_bytes=most)

    async def _current(self, git: GitShell, repository: str) -> str:
        branch = (await git.run(repository, "branch", "--show-current")).out.strip()
        if not branch:
            raise ToolError("no branch is checked out; name one with `branch`, or switch to one")
        return branch

    async def _remote(self, ctx: RunContext[Any], git: GitShell, repository: str, remote: str) -> Remote:
        """Return the remote of an address. A name is not enough: whoever allows the call sees where it goes."""
        if "/" not in remote and ":" not in remote:
            remotes = await remotes_of(git, repository)
            if remote in remotes:
                raise ToolError(f"give the address itself: {remote!r} is {shorten(remotes[remote])}")
            raise ToolError(f"{remote[:100]!r} is no address; {EXAMPLE}")
        return self._remotes.find(ctx, remote)
