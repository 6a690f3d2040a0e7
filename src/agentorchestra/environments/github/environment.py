"""The environment `github`: repositories, files, issues, pull requests and releases, over GitHub's REST API."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import GitHubSettings
from agentorchestra.environments.folder import rules_text
from agentorchestra.environments.github.api import GitHubApi, parts
from agentorchestra.environments.registry import EnvironmentParts
from agentorchestra.tea.calling.environment import ActionEnvironment, action
from agentorchestra.tools.web.http import WebClient
from agentorchestra.trust.arguments import INSIDE

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
_MOST_TEXT = 400_000
_BODY_CHARS = 20_000

# Names inside GitHub: they choose no host, whatever they look like.
_INSIDE: dict[str, JsonValue] = {"format": INSIDE}
Repository = Annotated[str, Field(description="`owner/name`.", json_schema_extra=_INSIDE)]
Ref = Annotated[str, Field(description="Branch, tag or commit; the main branch by default.", json_schema_extra=_INSIDE)]
FilePath = Annotated[
    str, Field(description="Path in the repository, without a slash at the start.", json_schema_extra=_INSIDE)
]
Limit = Annotated[int, Field(ge=1, le=300, description="At most so many.")]
State = Literal["open", "closed", "all"]


class GitHub(ActionEnvironment):
    """GitHub: repositories, files, issues, pull requests and releases, over its REST API."""

    name = "github"
    branching: Literal["stateless", "snapshot", "none"] = (
        "none"  # the world outside has no rivals: they only look, forks stop before its changes
    )
    durable = True  # and is there after a crash as it was

    def __init__(self, settings: GitHubSettings | None = None, web: WebClient | None = None) -> None:
        self._settings = settings or GitHubSettings()
        self._api = GitHubApi(self._settings, web or WebClient())

    @classmethod
    def from_parts(cls, parts: EnvironmentParts) -> GitHub:
        return cls(parts.settings.github, WebClient(parts.settings.web))

    def rules(self) -> str:
        return rules_text(self.name)

    async def state(self) -> tuple[Block, ...]:
        """Return the address and whose token is used; it costs no request."""
        name = self._settings.token_env
        access = f"with the token in {name}, where it is set" if name else "without a token: reading what is public"
        return (TextBlock(text=f"{self._api.base_url}, {access}", source=Source(kind="environment", ref=self.name)),)

    # -- repositories ------------------------------------------------------------------------------------------------

    @action(effect=("read", "network"))
    async def get_repository(self, ctx: RunContext[Any], repository: Repository) -> dict[str, JsonValue]:
        """A repository: description, address, main branch, whether it is private, empty or archived."""
        return _repository(await self._api.get(ctx, _at(repository)))

    @action(effect=("write", "send", "network"))
    async def create_repository(
        self,
        ctx: RunContext[Any],
        name: str,
        description: str = "",
        private: bool = True,
        organization: str = "",
        with_readme: bool = False,
    ) -> dict[str, JsonValue]:
        """Create a repository of the token's owner, or of an organization.

        Args:
            name: without an owner.
            description: one line.
            private: whether only its members see it.
            organization: whose it is; empty for the token's owner.
            with_readme: begin with a commit that holds a README; without it the repository is empty.
        """
        path = parts("orgs", organization, "repos") if organization else "/user/repos"
        body = {"name": name, "description": description, "private": private, "auto_init": with_readme}
        return _repository(await self._api.send(ctx, "POST", path, body))

    @action(effect=("write", "send", "network"))
    async def create_branch(
        self, ctx: RunContext[Any], repository: str, branch: str, source: str = ""
    ) -> dict[str, JsonValue]:
        """Create a branch.

        Args:
            repository: `owner/name`.
            branch: its name.
            source: the branch it begins at; the main branch by default.
        """
        place = _at(repository)
        if not source:
            source = str((await self._api.get(ctx, place)).get("default_branch", "main"))
        start = await self._api.get(ctx, place + parts("git/ref/heads", source))
        sha = start.get("object", {}).get("sha") if isinstance(start, dict) else None
        answer = await self._api.send(ctx, "POST", f"{place}/git/refs", {"ref": f"refs/heads/{branch}", "sha": sha})
        return {"branch": branch, "from": source, "sha": _of(answer, "object").get("sha")}

    # -- files -------------------------------------------------------------------------------------------------------

    @action(effect=("read", "network"))
    async def list_files(
        self, ctx: RunContext[Any], repository: Repository, path: FilePath = "", ref: Ref = ""
    ) -> list[JsonValue]:
        """The files and folders in a folder of a repository: path, type, size in bytes, sha."""
        entries = await self._api.get(ctx, _contents(repository, path), ref=ref or None)
        if not isinstance(entries, list):
            raise ToolError(f"{path!r} in {repository} is a file; read it with read_file")
        return [_pick(entry, "path", "type", "size", "sha") for entry in entries]

    @action(effect=("read", "network"))
    async def read_file(
        self, ctx: RunContext[Any], repository: Repository, path: FilePath, ref: Ref = ""
    ) -> dict[str, JsonValue]:
        """A text file of a repository: `content`, and `sha` to give to write_file."""
        if not path.strip("/"):
            raise ToolError("read_file needs the path of a file; list_files shows what there is")
        file = await self._api.get(ctx, _contents(repository, path), ref=ref or None)
        if not isinstance(file, dict) or file.get("type") != "file":
            raise ToolError(f"{path!r} in {repository} is no file; list it with list_files")
        if file.get("encoding") != "base64":
            raise ToolError(f"{path!r} in {repository} is too large to be read here; clone the repository with git")
        try:
            data = base64.b64decode(str(file.get("content", "")))
            text = data.decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            raise ToolError(f"{path!r} in {repository} is no text; clone the repository with git") from None
        return {**_pick(file, "path", "sha", "size"), "content": text[:_MOST_TEXT]}

    @action(effect=("write", "send", "network"))
    async def write_file(
        self,
        ctx: RunContext[Any],
        repository: str,
        path: str,
        content: str,
        message: str,
        branch: str = "",
        sha: str = "",
    ) -> dict[str, JsonValue]:
        """Write a text file in a commit of its own.

        Args:
            repository: `owner/name`.
            path: in the repository.
            content: the whole text.
            message: of the commit.
            branch: the main branch by default.
            sha: of the file that is replaced, as read_file gives it; empty for a new file.
        """
        body = {
            "message": message,
            "content": base64.b64encode(content.encode()).decode("ascii"),
            "branch": branch or None,
            "sha": sha or None,
        }
        answer = await self._api.send(ctx, "PUT", _contents(repository, path), body)
        return {"path": path, "sha": _of(answer, "content").get("sha"), "commit": _of(answer, "commit").get("sha")}

    # -- issues ------------------------------------------------------------------------------------------------------

    @action(effect=("read", "network"))
    async def list_issues(
        self, ctx: RunContext[Any], repository: Repository, state: State = "open", limit: Limit = 30
    ) -> dict[str, JsonValue]:
        """Issues, newest first, without pull requests."""
        # GitHub lists pull requests among them: a page may hold fewer issues than entries.
        entries, more = await self._api.pages(ctx, f"{_at(repository)}/issues", limit, state=state)
        issues: list[JsonValue] = [_issue(entry) for entry in entries if "pull_request" not in entry]
        return {"issues": issues, "more": more}

    @action(effect=("read", "network"))
    async def get_issue(self, ctx: RunContext[Any], repository: Repository, number: int) -> dict[str, JsonValue]:
        """An issue with its comments."""
        place = _at(repository) + parts("issues", number)
        issue = await self._api.get(ctx, place)
        comments, more = await self._api.pages(ctx, f"{place}/comments", 100)
        return {**_issue(issue), "body": _text(issue), "comments": [_comment(note) for note in comments], "more": more}

    @action(effect=("write", "send", "network"))
    async def create_issue(
        self,
        ctx: RunContext[Any],
        repository: str,
        title: str,
        body: str = "",
        labels: list[str] | None = None,
        assignees: list[str] | None = None,
    ) -> dict[str, JsonValue]:
        """Open an issue."""
        fields = {"title": title, "body": body or None, "labels": labels, "assignees": assignees}
        return _issue(await self._api.send(ctx, "POST", f"{_at(repository)}/issues", fields))

    @action(effect=("write", "send", "network"))
    async def comment(self, ctx: RunContext[Any], repository: str, number: int, body: str) -> dict[str, JsonValue]:
        """Comment on an issue or a pull request."""
        place = _at(repository) + parts("issues", number, "comments")
        return _comment(await self._api.send(ctx, "POST", place, {"body": body}))

    @action(effect=("write", "send", "network"))
    async def close_issue(
        self,
        ctx: RunContext[Any],
        repository: str,
        number: int,
        reason: Literal["completed", "not_planned"] = "completed",
    ) -> dict[str, JsonValue]:
        """Close an issue."""
        place = _at(repository) + parts("issues", number)
        return _issue(await self._api.send(ctx, "PATCH", place, {"state": "closed", "state_reason": reason}))

    # -- pull requests -----------------------------------------------------------------------------------------------

    @action(effect=("read", "network"))
    async def list_pull_requests(
        self, ctx: RunContext[Any], repository: Repository, state: State = "open", limit: Limit = 30
    ) -> dict[str, JsonValue]:
        """Pull requests, newest first."""
        pulls, more = await self._api.pages(ctx, f"{_at(repository)}/pulls", limit, state=state)
        return {"pull_requests": [_pull(pull) for pull in pulls], "more": more}

    @action(effect=("read", "network"))
    async def get_pull_request(self, ctx: RunContext[Any], repository: Repository, number: int) -> dict[str, JsonValue]:
        """A pull request with its changes, the comments on it, and those on its lines (`remarks`)."""
        place = _at(repository) + parts("pulls", number)
        pull = await self._api.get(ctx, place)
        files, more_files = await self._api.pages(ctx, f"{place}/files", 100)
        comments, more = await self._api.pages(ctx, _at(repository) + parts("issues", number, "comments"), 100)
        remarks, more_remarks = await self._api.pages(ctx, f"{place}/comments", 100)
        changed = [_pick(file, "filename", "status", "additions", "deletions", "patch") for file in files]
        return {
            **_pull(pull),
            "body": _text(pull),
            "mergeable": pull.get("mergeable"),
            "files": changed,
            "more_files": more_files,
            "comments": [_comment(comment) for comment in comments],
            "remarks": [{**_comment(remark), **_pick(remark, "path", "line")} for remark in remarks],
            "more": more or more_remarks,
        }

    @action(effect=("write", "send", "network"))
    async def create_pull_request(
        self,
        ctx: RunContext[Any],
        repository: str,
        title: str,
        head: str,
        base: str,
        body: str = "",
        draft: bool = False,
    ) -> dict[str, JsonValue]:
        """Ask for commits to be taken over.

        Args:
            repository: `owner/name`.
            title: one line.
            head: the branch with the commits; `owner:branch` where it lies in a fork.
            base: the branch that is to take them.
            body: what it changes and why.
            draft: not yet to be merged.
        """
        fields = {"title": title, "head": head, "base": base, "body": body or None, "draft": draft}
        return _pull(await self._api.send(ctx, "POST", f"{_at(repository)}/pulls", fields))

    @action(effect=("write", "send", "network"))
    async def merge_pull_request(
        self,
        ctx: RunContext[Any],
        repository: str,
        number: int,
        method: Literal["merge", "squash", "rebase"] = "merge",
        sha: str = "",
    ) -> dict[str, JsonValue]:
        """Merge a pull request.

        Args:
            repository: `owner/name`.
            number: of the pull request.
            method: how its commits are taken over.
            sha: of its last commit as you saw it; if there are later ones, nothing is merged.
        """
        place = _at(repository) + parts("pulls", number, "merge")
        done = await self._api.send(ctx, "PUT", place, {"merge_method": method, "sha": sha or None})
        return _pick(done, "merged", "sha", "message")

    # -- releases ----------------------------------------------------------------------------------------------------

    @action(effect=("read", "network"))
    async def list_releases(
        self, ctx: RunContext[Any], repository: Repository, limit: Limit = 30
    ) -> dict[str, JsonValue]:
        """Releases, newest first."""
        releases, more = await self._api.pages(ctx, f"{_at(repository)}/releases", limit)
        return {"releases": [_release(release) for release in releases], "more": more}

    @action(effect=("read", "network"))
    async def latest_release(self, ctx: RunContext[Any], repository: Repository) -> dict[str, JsonValue]:
        """The newest release that is neither a draft nor a trial."""
        return _release(await self._api.get(ctx, f"{_at(repository)}/releases/latest"))

    @action(effect=("write", "send", "network"))
    async def create_release(
        self,
        ctx: RunContext[Any],
        repository: str,
        tag: str,
        name: str = "",
        body: str = "",
        target: str = "",
        draft: bool = False,
        prerelease: bool = False,
    ) -> dict[str, JsonValue]:
        """Publish a release.

        Args:
            repository: `owner/name`.
            tag: its tag; made if there is none of this name.
            name: its title.
            body: what is new.
            target: branch or commit of a new tag; the main branch by default.
            draft: not yet seen by others.
            prerelease: a trial.
        """
        fields = {
            "tag_name": tag,
            "name": name or tag,
            "body": body or None,
            "target_commitish": target or None,
            "draft": draft,
            "prerelease": prerelease,
        }
        return _release(await self._api.send(ctx, "POST", f"{_at(repository)}/releases", fields))


# -- what is shown of an answer --------------------------------------------------------------------------------------


def _at(repository: str) -> str:
    if _REPOSITORY.fullmatch(repository) is None or repository.endswith(("/.", "/..")):
        raise ToolError(f"{repository[:100]!r} is no repository; write owner/name")
    return f"/repos/{repository}"


def _contents(repository: str, path: str) -> str:
    return _at(repository) + "/contents" + (parts(path) if path.strip("/") else "")


def _of(value: Any, name: str) -> dict[str, Any]:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _pick(value: Any, *names: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise ToolError("GitHub answered in another form than its documentation says; check github.base_url")
    return {name: value.get(name) for name in names}


def _text(value: dict[str, Any]) -> str:
    return str(value.get("body") or "")[:_BODY_CHARS]


def _repository(value: Any) -> dict[str, JsonValue]:
    return _pick(
        value,
        *("full_name", "description", "private", "html_url", "clone_url", "default_branch", "language", "size"),
        *("archived", "open_issues_count"),
    )


def _issue(value: Any) -> dict[str, JsonValue]:
    labels = value.get("labels") if isinstance(value, dict) else None
    return {
        **_pick(value, "number", "title", "state", "html_url", "created_at"),
        "author": _of(value, "user").get("login"),
        "labels": [str(label.get("name", "")) for label in labels or () if isinstance(label, dict)],
    }


def _comment(value: Any) -> dict[str, JsonValue]:
    fields = _pick(value, "id", "html_url", "created_at")
    return {**fields, "author": _of(value, "user").get("login"), "body": _text(value)}


def _pull(value: Any) -> dict[str, JsonValue]:
    return {
        **_pick(value, "number", "title", "state", "html_url", "draft"),
        "merged": bool(value.get("merged") or value.get("merged_at")),
        "author": _of(value, "user").get("login"),
        "head": _of(value, "head").get("ref"),
        "head_sha": _of(value, "head").get("sha"),
        "base": _of(value, "base").get("ref"),
    }


def _release(value: Any) -> dict[str, JsonValue]:
    fields = _pick(value, "id", "tag_name", "name", "html_url", "draft", "prerelease", "published_at")
    return {**fields, "body": _text(value)}
