"""A stand-in for GitHub on 127.0.0.1: its REST API as far as the environment `github` uses it, and git over HTTP.

It keeps state and answers in GitHub's format; behind it lie real bare repositories, served by `git http-backend`:

    async with LoopbackGitHub(folder, token="...") as server:
        settings = Settings(github=GitHubSettings(base_url=server.base_url), ...)

It is no copy of GitHub: names, permissions and what is refused follow its documentation where a test looks at them.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from repositories import CLEAN, Body, Refused, Repository, run

if TYPE_CHECKING:
    from aiohttp import web

Answer = tuple[int, Any]
Pieces = tuple[str, ...]

_WHEN = "2026-01-02T03:04:05Z"
_NO_ENTRY = {"WWW-Authenticate": 'Basic realm="GitHub"'}


class LoggedRequest(NamedTuple):
    """A request that came."""

    # `method`, `path`: with the query
    method: str
    path: str
    token: bool  # whether the right token came along
    body: Any = None  # of the API; None where it is no JSON


class LoopbackGitHub:
    """GitHub on the loopback address; use it as `async with`.

    Args:
        folder: where the bare repositories are made.
        token: the one that is accepted.
        login: whose token it is.

    Attributes:
        requests: what came, in order.
        repositories: by full name.
    """

    def __init__(self, folder: Path, *, token: str, login: str = "octocat") -> None:
        self._folder, self._token, self.login = folder, token, login
        self.requests: list[LoggedRequest] = []
        self.repositories: dict[str, Repository] = {}
        self.port = 0
        self._faults: list[tuple[str, int, Mapping[str, str], str]] = []
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Return where repositories are: `URL/owner/name.git`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def place(self) -> str:
        """Return `HOST:PORT`, for `git.tokens`."""
        return f"127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """Return the address of the API, for `github.base_url`."""
        return f"{self.url}/api/v3"

    def fail_next(self, status: int, message: str, headers: Mapping[str, str] | None = None, *, path: str = "") -> None:
        """Answer the next request whose path holds `path` so, once."""
        self._faults.append((path, status, headers or {}, message))

    async def __aenter__(self) -> Self:
        from aiohttp import web

        app = web.Application(client_max_size=256 << 20)
        app.router.add_route("*", "/api/v3/{path:.*}", self._api)
        app.router.add_route("*", "/{owner}/{name}.git/{path:.*}", self._git_http)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    # -- git over HTTP -----------------------------------------------------------------------------------------------

    async def _git_http(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        allowed = self._basic(request.headers.get("Authorization", ""))
        self.requests.append(LoggedRequest(request.method, request.path_qs, allowed is True))
        fault = self._fault(request.path)
        if fault is not None:
            return web.Response(status=fault[1], headers=fault[2], text=fault[3])
        repository = self.repositories.get(f"{request.match_info['owner']}/{request.match_info['name']}")
        pushes = "receive-pack" in request.path_qs
        if allowed is None and (repository is None or repository.private or pushes):
            return web.Response(status=401, headers=_NO_ENTRY, text="no credentials")
        if allowed is False:
            return web.Response(status=401, headers=_NO_ENTRY, text="Bad credentials")
        if repository is None:
            return web.Response(status=404, text="Repository not found.")
        environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            **CLEAN,
            "GIT_PROJECT_ROOT": str(self._folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": "/" + str(repository.folder.relative_to(self._folder)) + "/" + request.match_info["path"],
            "QUERY_STRING": request.query_string,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "REMOTE_USER": self.login,
        }
        head, _, body = (await run(["git", "http-backend"], await request.read(), environ)).partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(status=status, headers=headers, body=body)

    def _basic(self, header: str) -> bool | None:
        """Return True if the password is the token; None where none came."""
        kind, _, value = header.partition(" ")
        if kind.lower() != "basic":
            return None
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2] == self._token
        except (binascii.Error, UnicodeDecodeError):
            return False

    def _fault(self, path: str) -> tuple[str, int, Mapping[str, str], str] | None:
        for one in self._faults:
            if one[0] in path:
                self._faults.remove(one)
                return one
        return None

    # -- the API -----------------------------------------------------------------------------------------------------

    async def _api(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        raw = await request.read()
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        given = request.headers.get("Authorization", "")
        self.requests.append(LoggedRequest(request.method, request.path_qs, given == f"Bearer {self._token}", body))
        fault = self._fault(request.path)
        if fault is not None:
            return web.json_response({"message": fault[3]}, status=fault[1], headers=fault[2])
        try:
            if given and given != f"Bearer {self._token}":
                raise Refused(401, "Bad credentials")
            pieces = tuple(request.match_info["path"].split("/"))
            status, answer, headers = await self._answered(request, pieces, bool(given), body or {})
        except Refused as exc:
            told: Body = {"message": exc.message, "documentation_url": "https://docs.github.com/rest"}
            return web.json_response(told | ({"errors": exc.errors} if exc.errors else {}), status=exc.status)
        return web.json_response(answer, status=status, headers=headers)

    async def _answered(
        self, request: web.Request, pieces: Pieces, known: bool, body: Body
    ) -> tuple[int, Any, dict[str, str]]:
        if request.method != "GET" and not known:
            raise Refused(401, "Requires authentication")
        if request.method == "POST" and pieces in (("user", "repos"), ("orgs", pieces[1], "repos")):
            owner = self.login if pieces[0] == "user" else pieces[1]
            made = await self.create(f"{owner}/{body['name']}", private=bool(body.get("private")), body=body)
            return 201, await self._shown(made), {}
        if len(pieces) < 3 or pieces[0] != "repos":
            raise Refused(404, "Not Found")
        repository = self.repositories.get("/".join(pieces[1:3]))
        if repository is None or (repository.private and not known):
            raise Refused(404, "Not Found")
        rest = pieces[3:]
        what = rest[0] if rest else ""
        acts: dict[str, Callable[..., Awaitable[Answer]]] = {
            "": self._one,
            "contents": self._contents,
            "git": self._refs,
            "issues": self._issues,
            "pulls": self._pulls,
            "releases": self._releases,
        }
        if what not in acts:
            raise Refused(404, "Not Found")
        status, answer = await acts[what](repository, request.method, rest[1:], body, dict(request.query))
        if request.method == "GET" and isinstance(answer, list) and what != "contents":
            page, size = int(request.query.get("page", 1)), int(request.query.get("per_page", 30))
            more = len(answer) > page * size
            link = {"Link": f'<{self.base_url}/elsewhere?page={page + 1}>; rel="next"'} if more else {}
            return status, answer[(page - 1) * size : page * size], link
        return status, answer, {}

    async def create(self, full_name: str, *, private: bool = False, body: Body | None = None) -> Repository:
        """Make a new repository; raise Refused where there is one of this name."""
        if full_name in self.repositories:
            named = {"resource": "Repository", "code": "custom", "field": "name"}
            named["message"] = "name already exists on this account"
            raise Refused(422, "Repository creation failed.", named)
        folder = self._folder / f"{full_name}.git"
        folder.mkdir(parents=True)
        made = Repository(full_name, folder, private, str((body or {}).get("description") or ""))
        await made.git("init", "--bare", "--quiet", "--initial-branch=main")
        self.repositories[full_name] = made
        if (body or {}).get("auto_init"):
            await made.commit("main", "README.md", f"# {full_name}\n".encode(), "Initial commit")
        return made

    async def _one(self, repository: Repository, method: str, rest: Any, body: Body, query: Body) -> Answer:
        return 200, await self._shown(repository)

    async def _shown(self, repository: Repository) -> Body:
        name = repository.full_name
        size = sum(one.stat().st_size for one in repository.folder.rglob("*") if one.is_file()) // 1024
        names = (await repository.git("ls-tree", "-r", "--name-only", "main", check=False)).split("\n")
        language = "JavaScript" if any(one.endswith(".js") for one in names) else None
        return {
            "full_name": name,
            "description": repository.description,
            "private": repository.private,
            "html_url": f"{self.url}/{name}",
            "clone_url": f"{self.url}/{name}.git",
            "default_branch": "main",
            "language": language,
            "size": size,
            "archived": False,
            "open_issues_count": sum(one["state"] == "open" for one in repository.issues),
        }

    async def _contents(self, repository: Repository, method: str, rest: Pieces, body: Body, query: Body) -> Answer:
        path = "/".join(rest)
        if method == "PUT":
            branch = body.get("branch") or "main"
            known = await repository.git("rev-parse", f"{branch}:{path}", check=False)
            if known and not body.get("sha"):
                raise Refused(422, 'Invalid request.\n\n"sha" wasn\'t supplied.')
            if known and body["sha"] != known:
                raise Refused(409, f"{path} does not match {body['sha']}")
            data = base64.b64decode(body["content"])
            commit = await repository.commit(branch, path, data, body["message"])
            sha = await repository.git("rev-parse", f"{commit}:{path}")
            return 200 if known else 201, {"content": {"path": path, "sha": sha}, "commit": {"sha": commit}}
        ref = query.get("ref") or "main"
        kind = await repository.git("cat-file", "-t", f"{ref}:{path}", check=False)
        if kind == "blob":
            sha = await repository.git("rev-parse", f"{ref}:{path}")
            data = await run(["git", "-C", str(repository.folder), "cat-file", "blob", sha], b"", None)
            shown = {"type": "file", "path": path, "sha": sha, "size": len(data), "encoding": "base64"}
            return 200, {**shown, "content": base64.encodebytes(data).decode("ascii")}
        if kind != "tree":
            raise Refused(404, "Not Found")
        listed = await repository.git("ls-tree", "-l", f"{ref}:{path}")
        return 200, [
            {
                "path": f"{path}/{name}".strip("/"),
                "type": "file" if meta.split()[1] == "blob" else "dir",
                "sha": meta.split()[2],
                "size": int(meta.split()[3]) if meta.split()[3].isdigit() else 0,
            }
            for meta, _, name in (line.partition("\t") for line in listed.splitlines())
        ]

    async def _refs(self, repository: Repository, method: str, rest: Pieces, body: Body, query: Body) -> Answer:
        name = "/".join(("refs", *rest[1:])) if method == "GET" else str(body.get("ref", ""))
        known = await repository.git("rev-parse", "--verify", "--quiet", name, check=False)
        if method == "GET" and not known:
            raise Refused(404, "Not Found")
        if method == "POST":
            if known:
                raise Refused(422, "Reference already exists")
            await repository.git("update-ref", name, str(body["sha"]))
            known = str(body["sha"])
        return 200 if method == "GET" else 201, {"ref": name, "object": {"sha": known, "type": "commit"}}

    async def _issues(self, repository: Repository, method: str, rest: Pieces, body: Body, query: Body) -> Answer:
        if not rest and method == "GET":
            wanted = query.get("state", "open")
            return 200, [one for one in reversed(repository.issues) if wanted in ("all", one["state"])]
        if not rest:
            if not body.get("title"):
                raise Refused(422, "Validation Failed", {"resource": "Issue", "code": "missing", "field": "title"})
            return 201, self._opened(repository, body, "issues")
        issue = repository.issue(rest[0])
        if rest[1:] == ("comments",):
            listed = repository.comments.setdefault(issue["number"], [])
            if method == "GET":
                return 200, listed
            made = {"id": len(listed) + 1, "body": body["body"], "user": {"login": self.login}, "created_at": _WHEN}
            made["html_url"] = f"{issue['html_url']}#issuecomment-{made['id']}"
            listed.append(made)
            return 201, made
        if method == "PATCH":
            issue.update({key: body[key] for key in ("state", "state_reason", "title", "body") if key in body})
        return 200, issue

    def _opened(self, repository: Repository, body: Body, kind: str) -> Body:
        number = len(repository.issues) + 1
        made: Body = {
            "number": number,
            "title": body["title"],
            "body": body.get("body"),
            "state": "open",
            "html_url": f"{self.url}/{repository.full_name}/{kind}/{number}",
            "created_at": _WHEN,
            "user": {"login": self.login},
            "labels": [{"name": one} for one in body.get("labels") or ()],
        }
        repository.issues.append(made)
        return made

    async def _pulls(self, repository: Repository, method: str, rest: Pieces, body: Body, query: Body) -> Answer:
        if not rest and method == "GET":
            wanted = query.get("state", "open")
            pulls = [one for one in reversed(repository.issues) if "pull_request" in one]
            return 200, [one for one in pulls if wanted in ("all", one["state"])]
        if not rest:
            head, base = str(body["head"]).rpartition(":")[2], str(body["base"])
            tips = [await repository.git("rev-parse", "-q", "--verify", one, check=False) for one in (head, base)]
            for tip, where in zip(tips, ("head", "base"), strict=True):
                if not tip:
                    named = {"resource": "PullRequest", "field": where, "code": "invalid"}
                    raise Refused(422, "Validation Failed", named)
            if not await repository.git("rev-list", f"{base}..{head}"):
                named = {"resource": "PullRequest", "code": "custom"}
                raise Refused(422, "Validation Failed", named | {"message": f"No commits between {base} and {head}"})
            made = self._opened(repository, body, "pull")
            made |= {"pull_request": {}, "head": {"ref": head, "sha": tips[0]}, "base": {"ref": base}}
            made |= {"draft": bool(body.get("draft")), "merged": False}
            repository.issues[-1] = made
            return 201, made
        pull = repository.issue(rest[0])
        if "pull_request" not in pull:
            raise Refused(404, "Not Found")
        head, base = pull["head"]["ref"], pull["base"]["ref"]
        if rest[1:] == ("files",):
            listed = await repository.git("diff", "--numstat", f"{base}...{head}")
            rows = [line.split("\t") for line in listed.splitlines()]
            patches = [await repository.git("diff", f"{base}...{head}", "--", name) for _, _, name in rows]
            return 200, [
                {"filename": name, "status": "modified", "additions": int(plus), "deletions": int(minus)}
                | {"patch": patch[patch.find("@@") :]}
                for (plus, minus, name), patch in zip(rows, patches, strict=True)
            ]
        if rest[1:] == ("comments",):
            return 200, repository.remarks.get(pull["number"], [])
        if rest[1:] == ("merge",):
            return 200, await self._merged(repository, pull, head, base, str(body.get("sha") or ""))
        mergeable = await self._tree(repository, head, base) is not None if pull["state"] == "open" else None
        return 200, {**pull, "mergeable": mergeable}

    async def _merged(self, repository: Repository, pull: Body, head: str, base: str, sha: str) -> Body:
        tip = await repository.git("rev-parse", head)
        if pull["state"] != "open":
            raise Refused(405, "Pull Request is not mergeable")
        if sha and sha != tip:
            raise Refused(409, "Head branch was modified. Review and try the merge again.")
        tree = await self._tree(repository, head, base)
        if tree is None:
            raise Refused(405, "Pull Request is not mergeable")
        words = f"Merge pull request #{pull['number']}"
        commit = await repository.git("commit-tree", tree, "-p", base, "-p", head, "-m", words)
        await repository.git("update-ref", f"refs/heads/{base}", commit)
        pull |= {"state": "closed", "merged": True}
        return {"sha": commit, "merged": True, "message": "Pull Request successfully merged"}

    async def _tree(self, repository: Repository, head: str, base: str) -> str | None:
        """Return the tree of a merge, None where there are conflicts."""
        try:
            return (await repository.git("merge-tree", "--write-tree", base, head)).splitlines()[0]
        except Refused:
            return None

    async def _releases(self, repository: Repository, method: str, rest: Pieces, body: Body, query: Body) -> Answer:
        if method == "POST":
            tag = str(body["tag_name"])
            if any(one["tag_name"] == tag for one in repository.releases):
                named = {"resource": "Release", "code": "already_exists", "field": "tag_name"}
                raise Refused(422, "Validation Failed", named)
            await repository.git("update-ref", f"refs/tags/{tag}", body.get("target_commitish") or "main")
            made = {"id": len(repository.releases) + 1, "html_url": f"{self.url}/{repository.full_name}/releases/{tag}"}
            made |= {key: body.get(key) for key in ("tag_name", "name", "body", "draft", "prerelease")}
            repository.releases.insert(0, {**made, "published_at": _WHEN})
            return 201, repository.releases[0]
        if rest == ("latest",):
            found = [one for one in repository.releases if not one["draft"] and not one["prerelease"]]
            if not found:
                raise Refused(404, "Not Found")
            return 200, found[0]
        return 200, repository.releases
