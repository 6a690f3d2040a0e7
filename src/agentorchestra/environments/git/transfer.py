"""Fetch and push between a repository in the sandbox and a remote; packs are made and unpacked inside."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.git.shell import GitShell, failure, name_of
from agentorchestra.environments.git.wire import NO_COMMIT, Refs, Remote, Update, fetch_pack, push_pack, read_refs

MOST_BRANCHES = 2_000
_PACK = "objects.pack"


@dataclass(frozen=True)
class Fetched:
    name: str  # of the remote in the repository
    moves: dict[str, str]  # branch or tag to its commit there, of those that are new or elsewhere than before
    branches: dict[str, str]  # all that were fetched
    head: str  # the remote's main branch, "" where it does not say


async def fetch(
    git: GitShell, repository: str, remote: Remote, *, branch: str = "", depth: int = 0, max_bytes: int
) -> Fetched:
    """Bring a remote's branches (or `branch` alone, without tags) to `refs/remotes/NAME/`, its tags to `refs/tags/`."""
    refs = await read_refs(remote, "git-upload-pack")
    branches = _branches_of(refs, branch, remote)
    name = await _name_of_remote(git, repository, remote.url)
    tags = {} if branch else refs.tags
    present = await _present(git, repository, [*branches.values(), *tags.values()])
    if missing := [sha for sha in (*branches.values(), *tags.values()) if sha not in present]:
        log = await git.run(repository, "rev-list", "--all", "--max-count=256")
        cut = await git.script(repository, 'cat "$(git rev-parse --git-dir)/shallow" 2>/dev/null', "rev-parse")
        pack, shallow = await fetch_pack(
            remote,
            refs,
            missing,
            log.out.split(),
            cut_at=[sha for sha in cut.out.split() if len(sha) == 40],
            depth=depth,
            max_bytes=max_bytes,
        )
        path = await git.put(_PACK, pack)
        await _index(git, repository, path, shallow, remote)
    targets = {f"refs/remotes/{name}/{head}": sha for head, sha in branches.items()}
    targets |= {f"refs/tags/{tag}": sha for tag, sha in tags.items()}
    before = await _refs_here(git, repository)
    # A tag that is here already stays as it is: they are not moved by a fetch.
    moves = {
        ref: sha
        for ref, sha in targets.items()
        if before.get(ref) != sha and not (ref.startswith("refs/tags/") and ref in before)
    }
    if moves:
        updates = "".join(f"update {ref} {sha}\n" for ref, sha in moves.items())
        await git.run(repository, "update-ref", "--stdin", stdin=updates)
    by_name = {ref.removeprefix("refs/remotes/").removeprefix("refs/tags/"): sha for ref, sha in moves.items()}
    return Fetched(name, by_name, branches, refs.head.removeprefix("refs/heads/"))


def _branches_of(refs: Refs, branch: str, remote: Remote) -> dict[str, str]:
    branches = refs.branches
    if not branch:
        if len(branches) > MOST_BRANCHES:
            raise ToolError(f"{remote.url} has {len(branches):,} branches; name the one to fetch with `branch`")
        return branches
    if branch not in branches:
        names = ", ".join(sorted(branches)[:20]) or "none"
        raise ToolError(f"{remote.url} has no branch {branch!r}; its branches: {names}")
    return {branch: branches[branch]}


async def _index(git: GitShell, repository: str, path: str, shallow: Sequence[str], remote: Remote) -> None:
    """Unpack what came, in the sandbox: a pack may be made to do harm, or lie."""
    cut = ""
    if shallow:
        lines = shlex.quote("".join(f"{sha}\n" for sha in shallow))
        cut = f'printf %s {lines} >> "$(git rev-parse --git-dir)/shallow" && '
    result = await git.script(repository, f"{cut}git index-pack --stdin --fix-thin < {shlex.quote(path)}", "index-pack")
    await git.clear()
    if result.code:
        raise ToolError(f"{remote.url} sent objects that cannot be used: {failure('index-pack', result)}")


async def push(
    git: GitShell,
    repository: str,
    remote: Remote,
    *,
    branch: str,
    to: str = "",
    tags: Sequence[str] = (),
    force: bool = False,
    max_bytes: int,
) -> dict[str, str]:
    """Give a remote a branch (as `to`) and tags; with `force` also where commits there would be lost.

    Returns each ref that was moved, and the commit it stands at now.
    """
    locals_ = await _refs_here(git, repository)
    if (sha := locals_.get(f"refs/heads/{branch}")) is None:
        here = sorted(local.removeprefix("refs/heads/") for local in locals_ if local.startswith("refs/heads/"))
        hint = f"its branches: {', '.join(here)}" if here else "commit something first"
        raise ToolError(f"there is no branch {branch!r} to push; {hint}")
    targets = {f"refs/heads/{to or branch}": sha}
    for tag in tags:
        if f"refs/tags/{tag}" not in locals_:
            raise ToolError(f"there is no tag {tag!r} to push; make it with `git tag` in the terminal")
        targets[f"refs/tags/{tag}"] = locals_[f"refs/tags/{tag}"]
    refs = await read_refs(remote, "git-receive-pack")
    updates = [
        Update(ref, refs.tips.get(ref, NO_COMMIT), sha) for ref, sha in targets.items() if refs.tips.get(ref) != sha
    ]
    if not updates:
        return {}
    of_remote = [*(update.old for update in updates if update.old != NO_COMMIT), *refs.tips.values()]
    present = await _present(git, repository, of_remote[:MOST_BRANCHES])
    for update in updates:
        if update.old != NO_COMMIT and not force:
            await _check_forward(git, repository, update, present, remote)
    path = await git.place(_PACK)
    revs = "".join(f"{update.new}\n" for update in updates) + "".join(f"^{sha}\n" for sha in sorted(present))
    script = (
        f"printf %s {shlex.quote(revs)} | "
        f"git pack-objects --revs --stdout --quiet --delta-base-offset > {shlex.quote(path)}"
    )
    result = await git.script(repository, script, "pack-objects")
    if result.code:
        raise ToolError(failure("pack-objects", result))
    pack = await git.take(_PACK, max_bytes)
    await push_pack(remote, refs, updates, pack)
    await _note_pushed(git, repository, remote.url, updates)
    return {update.ref: update.new for update in updates}


async def _check_forward(git: GitShell, repository: str, update: Update, present: set[str], remote: Remote) -> None:
    """Refuse what would lose commits: most servers leave that to whoever pushes."""
    if update.ref.startswith("refs/tags/"):
        raise ToolError(
            f"{remote.url} has another {update.ref.removeprefix('refs/tags/')!r} already; tags are not moved: choose "
            "another name"
        )
    question = ("merge-base", "--is-ancestor", update.old, update.new)
    if update.old not in present or (await git.run(repository, *question, ok=(0, 1))).code == 1:
        raise ToolError(
            f"the push to {update.ref.removeprefix('refs/heads/')} of {remote.url} was not made: it has commits that "
            "are not in this branch; pull them (or fetch and merge), resolve conflicts, and push again"
        )


async def _note_pushed(git: GitShell, repository: str, address: str, updates: Sequence[Update]) -> None:
    """Set the remote-tracking branches of the remote with this address, if the repository has it."""
    names = [name for name, url in (await remotes_of(git, repository)).items() if url.rstrip("/") == address]
    lines = "".join(
        f"update refs/remotes/{name}/{update.ref.removeprefix('refs/heads/')} {update.new}\n"
        for name in names
        for update in updates
        if update.ref.startswith("refs/heads/")
    )
    if lines:
        await git.run(repository, "update-ref", "--stdin", stdin=lines)


async def remotes_of(git: GitShell, repository: str) -> dict[str, str]:
    """Return the remotes of a repository: name to address. Agents can write there whatever they like."""
    result = await git.run(repository, "config", "--local", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1))
    remotes = {}
    for line in result.out.splitlines():
        key, _, address = line.partition(" ")
        remotes[key.removeprefix("remote.").removesuffix(".url")] = address.strip()
    return remotes


async def _name_of_remote(git: GitShell, repository: str, address: str) -> str:
    """Return the name of the remote with this address; add one where there is none."""
    remotes = await remotes_of(git, repository)
    for name, url in remotes.items():
        if url.rstrip("/") == address:
            return name_of(name, "remote")
    name = next(free for free in ("origin", "upstream", *(f"remote{n}" for n in range(2, 999))) if free not in remotes)
    await git.run(repository, "remote", "add", name, address)
    return name


async def _refs_here(git: GitShell, repository: str) -> dict[str, str]:
    result = await git.run(
        repository, "for-each-ref", "--format=%(objectname) %(refname)", f"--count={MOST_BRANCHES * 2}"
    )
    pairs = (line.partition(" ") for line in result.out.splitlines())
    return {ref: sha for sha, _, ref in pairs if len(sha) == 40}


async def _present(git: GitShell, repository: str, commits: Sequence[str]) -> set[str]:
    if not commits:
        return set()
    lines = "".join(f"{sha}\n" for sha in dict.fromkeys(commits))
    result = await git.run(repository, "cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=lines)
    return {line.split()[0] for line in result.out.splitlines() if line and not line.endswith(" missing")}
