"""The environment `git`: repositories in the run's folder, and the remotes they come from and go to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import GitSettings
from agentorchestra.environments.folder import rules_text
from agentorchestra.environments.git.remotes import Remotes
from agentorchestra.environments.git.repositories import NAMED_INSIDE, Repositories, Repository
from agentorchestra.environments.git.shell import GitShell, name_of, path_of, plain
from agentorchestra.environments.git.transfer import Fetched, fetch, push, remotes_of
from agentorchestra.environments.git.wire import Remote
from agentorchestra.environments.registry import EnvironmentParts
from agentorchestra.sandbox.base import Sandbox, SandboxLimits
from agentorchestra.tea.calling.environment import action
from agentorchestra.tools.web.http import WebClient

NewFolder = Annotated[
    str, Field(description="The folder; the name in the address by default.", json_schema_extra=NAMED_INSIDE)
]
Branch = Annotated[str, Field(json_schema_extra=NAMED_INSIDE)]
Address = Annotated[str, Field(description="Address of the remote, `https://…`; not its name.")]

_FETCH: Sequence[Literal["read", "network"]] = ("read", "network")
_PUSH: Sequence[Literal["send", "network"]] = ("send", "network")


class Git(Repositories):
    """Git repositories in the folder: commits, branches, merges; clone, fetch, pull and push to given remotes."""

    name = "git"
    version = "1.0.0"

    def __init__(
        self,
        settings: GitSettings | None = None,
        *,
        sandbox: Sandbox | None,
        web: WebClient | None = None,
        limits: SandboxLimits | None = None,
    ) -> None:
        given = settings or GitSettings()
        super().__init__(given, sandbox, limits)
        self._remotes = Remotes(given, web or WebClient())

    @classmethod
    def packaged(cls, parts: EnvironmentParts) -> Git:
        """As a workspace has it."""
        settings = parts.settings
        return cls(settings.git, sandbox=parts.sandbox, web=WebClient(settings.web), limits=parts.limits)

    def repeatable(self, action: str) -> bool:
        """All but a push touch the folder only, which a resume first puts back to how it stood."""
        return self.walled and action != "push"

    def rules(self) -> str:
        """State, vision and interaction, see 000, app. H."""
        return rules_text(self.name)

    @action(tags=_FETCH)
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
        git = await self.git_shell()
        quoted = shlex.quote("./" + "/".join(path_of(place)))
        said = await git.script("", f"mkdir -p -- {quoted} && ls -A -- {quoted} | head -n 1", "clone")
        if said.code or said.out.strip():
            raise ToolError(f"{place!r} is no empty folder; clone into another one")
        try:
            await git.run(place, "init", "--template=", "--initial-branch=main")
            fetched = await self._fetched(git, place, source, branch=branch, depth=depth)
            start = branch or (fetched.head if fetched.head in fetched.branches else next(iter(fetched.branches), ""))
            if start:
                await self._check_out_first(git, place, fetched, start)
        except BaseException:
            await git.script("", f"rm -rf -- {quoted}", "clone")
            raise
        modules = (await git.run(place, "ls-files", "--stage")).out.splitlines()
        left: list[JsonValue] = []
        left += [line.partition("\t")[2] for line in modules if line.startswith("160000 ")]
        shown: dict[str, JsonValue] = {"repository": place, "branch": start, "commit": fetched.branches.get(start)}
        return shown | ({"submodules_left_out": left} if left else {})

    async def _check_out_first(self, git: GitShell, place: str, fetched: Fetched, start: str) -> None:
        name_of(start, "branch")
        await git.run(place, "symbolic-ref", "HEAD", f"refs/heads/{start}")
        await git.run(place, "reset", "--hard", "--quiet", fetched.branches[start])
        await git.run(place, "branch", f"--set-upstream-to={fetched.name}/{start}", ok=(0, 1, 128))

    # -- remotes -----------------------------------------------------------------------------------------------------

    @action(mutates=False)
    async def list_remotes(self, repository: Repository = ".") -> dict[str, JsonValue]:
        """The remotes that the repository names, with their addresses."""
        return dict(await remotes_of(await self.git_shell(), repository))

    @action
    async def add_remote(self, name: str, remote: Address, repository: Repository = ".") -> str:
        """Note a remote's address under a name; nothing is sent."""
        await (await self.git_shell()).run(
            repository, "remote", "add", "--", name_of(name, "remote"), _plain_address(remote)
        )
        return f"{name} is {remote}"

    @action(tags=_FETCH)
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
        git = await self.git_shell()
        source = await self._remote(ctx, git, repository, remote)
        fetched = await self._fetched(git, repository, source, branch=branch, depth=depth)
        return {"remote": fetched.name, "new": dict(fetched.moved)}

    @action(tags=_FETCH)
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
        git = await self.git_shell()
        source = await self._remote(ctx, git, repository, remote)
        wanted = branch or await self._current(git, repository)
        fetched = await self._fetched(git, repository, source, branch=wanted)
        return await self.merged(git, repository, f"{fetched.name}/{wanted}", unrelated=unrelated)

    @action(tags=_PUSH)
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
        git = await self.git_shell()
        target = await self._remote(ctx, git, repository, remote)
        chosen = name_of(branch, "branch") if branch else await self._current(git, repository)
        if to:
            name_of(to, "branch")
        moved = await push(
            git,
            repository,
            target,
            branch=chosen,
            to=to,
            tags=[name_of(one, "tag") for one in tags or ()],
            force=force,
            max_bytes=self._settings.max_pack_mib << 20,
        )
        return (
            {"remote": target.shown, "pushed": dict(moved)} if moved else {"remote": target.shown, "up_to_date": True}
        )

    async def _fetched(
        self, git: GitShell, repository: str, source: Remote, *, branch: str = "", depth: int = 0
    ) -> Fetched:
        most = self._settings.max_pack_mib << 20
        return await fetch(git, repository, source, branch=branch, depth=max(0, depth), max_bytes=most)

    async def _current(self, git: GitShell, repository: str) -> str:
        found = (await git.run(repository, "branch", "--show-current")).out.strip()
        if not found:
            raise ToolError("no branch is checked out; name one with `branch`, or switch to one")
        return found

    async def _remote(self, ctx: RunContext[Any], git: GitShell, repository: str, remote: str) -> Remote:
        """The remote of an address. A name is not enough: whoever allows the call sees where it goes."""
        if "/" not in remote and ":" not in remote:
            known = await remotes_of(git, repository)
            if remote in known:
                raise ToolError(f"give the address itself: {remote!r} is {plain(known[remote])}")
            raise ToolError(f"{remote[:100]!r} is no address; give one like https://github.com/owner/name.git")
        return self._remotes.find(ctx, remote)


def _plain_address(remote: str) -> str:
    if not remote.strip() or remote.startswith("-") or not remote.isprintable():
        raise ToolError(f"{remote[:100]!r} is no address; give one like https://github.com/owner/name.git")
    return remote.strip()


__all__ = ["Git"]
