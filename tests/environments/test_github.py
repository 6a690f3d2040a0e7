"""`github` against the stand-in: every action with its effect seen at the server, and what can go wrong."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from loopback_github import LoopbackGitHub
from tests.environments.gits import SANDBOX, TOKEN, Bench

from agentorchestra import Workspace
from agentorchestra.core.effects import Outcome, Provenance, Tag
from agentorchestra.core.errors import ForkError, SettingsError
from agentorchestra.core.policy import PolicyView
from agentorchestra.core.settings import GitHubSettings, GitSettings, Settings
from agentorchestra.environments.github import api
from agentorchestra.environments.github.api import parts
from agentorchestra.environments.github.environment import GitHub
from agentorchestra.log.store import MemoryStore
from agentorchestra.tea.calling.actions import action_effect, action_tags
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.trust.policy import AllowAll, DefaultPolicy

NAME = "octocat/game"


class Hub:
    """A stand-in, and a workspace whose calls reach it."""

    def __init__(self, server: LoopbackGitHub, ws: Workspace) -> None:
        self.server, self.ws = server, ws

    async def outcome(self, action: str, **arguments: Any) -> Outcome:
        return await self.ws.ecp.invoke("github", action, arguments)

    async def do(self, action: str, **arguments: Any) -> Any:
        done = await self.outcome(action, **arguments)
        assert done.ok, done.error
        return done.value

    async def refused(self, action: str, **arguments: Any) -> str:
        done = await self.outcome(action, **arguments)
        assert done.status == "error", done
        assert TOKEN not in str(done)
        return str(done.error)

    def git(self, *words: str, name: str = NAME) -> str:
        """What the bare repository says."""
        folder = self.server.repositories[name].folder
        return subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    monkeypatch.setattr(api, "MOST_WAIT_S", 2)
    async with LoopbackGitHub(tmp_path / "hub", token=TOKEN) as server:
        settings = GitHubSettings(base_url=server.base_url)
        ws = Workspace(
            tmp_path / "ws",
            store=MemoryStore(),
            policy=AllowAll(),
            environ={"GITHUB_TOKEN": TOKEN},
            settings=Settings(github=settings, max_result_chars=200_000),
        )
        async with ws:
            yield Hub(server, ws)


async def test_repositories_branches_and_files(hub: Hub) -> None:
    made = await hub.do("create_repository", name="game", description="A small game")
    assert made["full_name"] == NAME and made["private"] is True
    assert hub.server.repositories[NAME].description == "A small game"
    asked = hub.server.requests[-1]
    assert (asked.method, asked.path, asked.token) == ("POST", "/api/v3/user/repos", True)

    first = await hub.do("write_file", repository=NAME, path="src/a b.txt", content="eins\n", message="First")
    assert hub.git("show", "main:src/a b.txt") == "eins"
    assert hub.git("log", "-1", "--format=%H %s", "main") == f"{first['commit']} First"

    read = await hub.do("read_file", repository=NAME, path="src/a b.txt")
    assert (read["content"], read["sha"]) == ("eins\n", first["sha"])
    second = await hub.do(
        "write_file", repository=NAME, path="src/a b.txt", content="zwei\n", message="Second", sha=read["sha"]
    )
    assert hub.git("rev-list", "--count", "main") == "2"
    listed = await hub.do("list_files", repository=NAME)
    assert [(one["path"], one["type"]) for one in listed] == [("src", "dir")]
    inner = await hub.do("list_files", repository=NAME, path="src", ref="main")
    assert inner == [{"path": "src/a b.txt", "type": "file", "size": 5, "sha": second["sha"]}]

    await hub.do("create_branch", repository=NAME, branch="fix/colour")
    assert hub.git("rev-parse", "fix/colour") == second["commit"]
    shown = await hub.do("get_repository", repository=NAME)
    assert shown["default_branch"] == "main" and shown["clone_url"] == f"{hub.server.url}/{NAME}.git"


async def test_a_file_that_was_changed_meanwhile_is_not_overwritten(hub: Hub) -> None:
    await hub.do("create_repository", name="game")
    await hub.do("write_file", repository=NAME, path="a.txt", content="mine", message="1")
    sentence = await hub.refused("write_file", repository=NAME, path="a.txt", content="other", message="2")
    assert sentence.startswith(f"GitHub answered 422 to PUT /repos/{NAME}/contents/a.txt") and "sha" in sentence
    sentence = await hub.refused(
        "write_file", repository=NAME, path="a.txt", content="other", message="2", sha="0" * 40
    )
    assert sentence.endswith("it was changed meanwhile: read it again and repeat with its present sha")
    assert hub.git("show", "main:a.txt") == "mine"


async def test_issues(hub: Hub) -> None:
    await hub.do("create_repository", name="game")
    made = await hub.do("create_issue", repository=NAME, title="It hangs", body="On level 2", labels=["bug"])
    assert made["number"] == 1 and made["labels"] == ["bug"]
    await hub.do("comment", repository=NAME, number=1, body="Seen here too")
    kept = hub.server.repositories[NAME]
    assert kept.issues[0]["body"] == "On level 2" and kept.comments[1][0]["body"] == "Seen here too"
    shown = await hub.do("get_issue", repository=NAME, number=1)
    assert (shown["body"], [one["body"] for one in shown["comments"]]) == ("On level 2", ["Seen here too"])
    await hub.do("close_issue", repository=NAME, number=1, reason="not_planned")
    assert (kept.issues[0]["state"], kept.issues[0]["state_reason"]) == ("closed", "not_planned")
    assert (await hub.do("list_issues", repository=NAME))["issues"] == []
    assert [one["title"] for one in (await hub.do("list_issues", repository=NAME, state="all"))["issues"]] == [
        "It hangs"
    ]


async def test_a_pull_request_from_branch_to_merge(hub: Hub) -> None:
    await hub.do("create_repository", name="game", with_readme=True)
    await hub.do("create_branch", repository=NAME, branch="next")
    await hub.do("write_file", repository=NAME, path="b.txt", content="b\n", message="b", branch="next")
    made = await hub.do("create_pull_request", repository=NAME, title="Add b", head="next", base="main", body="Why")
    await hub.do("comment", repository=NAME, number=made["number"], body="Looks good")
    line = {"id": 7, "path": "b.txt", "line": 1, "body": "Why b?", "user": {"login": "ann"}}
    hub.server.repositories[NAME].remarks[1] = [line]
    shown = await hub.do("get_pull_request", repository=NAME, number=made["number"])
    assert shown["mergeable"] is True and shown["files"][0]["filename"] == "b.txt"
    assert shown["files"][0]["patch"] == "@@ -0,0 +1 @@\n+b"
    (remark,) = shown["remarks"]
    assert (remark["path"], remark["line"], remark["author"], remark["body"]) == ("b.txt", 1, "ann", "Why b?")
    assert shown["comments"][0]["body"] == "Looks good"
    assert [one["number"] for one in (await hub.do("list_pull_requests", repository=NAME))["pull_requests"]] == [1]
    sentence = await hub.refused("merge_pull_request", repository=NAME, number=1, sha="0" * 40)
    assert "409" in sentence and "Head branch was modified" in sentence
    done = await hub.do("merge_pull_request", repository=NAME, number=1, sha=shown["head_sha"])
    assert hub.git("rev-parse", "main") == done["sha"] and hub.git("show", "main:b.txt") == "b"
    again = await hub.refused("merge_pull_request", repository=NAME, number=1)
    assert again.endswith("it cannot be done in its present state: look at it again")
    same = await hub.refused("create_pull_request", repository=NAME, title="Again", head="next", base="main")
    assert "No commits between main and next" in same
    assert (await hub.do("list_issues", repository=NAME, state="all"))["issues"] == []  # a pull request is none


async def test_releases(hub: Hub) -> None:
    await hub.do("create_repository", name="game", with_readme=True)
    assert "404" in await hub.refused("latest_release", repository=NAME)
    await hub.do("create_release", repository=NAME, tag="v1.0", name="One", body="The first")
    assert hub.git("rev-parse", "v1.0") == hub.git("rev-parse", "main")
    assert (await hub.do("latest_release", repository=NAME))["name"] == "One"
    assert [one["tag_name"] for one in (await hub.do("list_releases", repository=NAME))["releases"]] == ["v1.0"]
    assert "already_exists" in await hub.refused("create_release", repository=NAME, tag="v1.0")


async def test_pages_are_read_until_there_are_enough(hub: Hub) -> None:
    made = await hub.server.create(NAME)
    made.releases.extend({"id": n, "tag_name": f"v{n}"} for n in range(230))
    found = await hub.do("list_releases", repository=NAME, limit=220)
    assert [one["tag_name"] for one in found["releases"]] == [f"v{n}" for n in range(220)] and found["more"]
    assert sum("/releases?" in one.path for one in hub.server.requests) == 3
    # The address of the next page in an answer is never asked for: only its number is ours to choose.
    assert not any("elsewhere" in one.path for one in hub.server.requests)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


async def test_what_is_refused_is_one_sentence_with_what_to_do(hub: Hub) -> None:
    await hub.do("create_repository", name="game")
    assert (await hub.refused("get_repository", repository="octocat/none")) == (
        'GitHub answered 404 to GET /repos/octocat/none: "Not Found"; there is no such thing, or the token in '
        "GITHUB_TOKEN may not see it: check owner, name, number, path and ref"
    )
    taken = await hub.refused("create_repository", name="game")
    assert "422" in taken and "name already exists on this account" in taken and "\n" not in taken
    assert await hub.refused("get_repository", repository="game") == "'game' is no repository; write owner/name"
    assert "is no name on GitHub" in await hub.refused("read_file", repository=NAME, path="../../user")
    hub.server.fail_next(502, "<html>\x1b[31mbad gateway")
    down = await hub.refused("get_repository", repository=NAME)
    hub.server.fail_next(200, "no list")
    assert "is no list" in await hub.refused("list_issues", repository=NAME)
    hub.server.fail_next(200, "no file")
    assert "is no file" in await hub.refused("read_file", repository=NAME, path="a.txt")
    assert "502" in down and "\x1b" not in down and down.endswith("it failed by itself: try again later")


async def test_the_limit_of_requests_is_waited_for_a_bounded_time(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    await hub.do("create_repository", name="game")
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr("agentorchestra.environments.github.api.asyncio.sleep", sleep)
    hub.server.fail_next(429, "slow down", {"Retry-After": "1"})
    assert (await hub.do("create_issue", repository=NAME, title="Once"))["number"] == 1
    assert 1.0 in slept and len(hub.server.repositories[NAME].issues) == 1

    server_time = {"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "X-RateLimit-Remaining": "0"}
    hub.server.fail_next(403, "API rate limit exceeded", {**server_time, "X-RateLimit-Reset": "1445412780"})
    sentence = await hub.refused("get_repository", repository=NAME)
    assert sentence.startswith("GitHub allows no further requests for 300 seconds") and "at most 2" in sentence


async def test_the_token_goes_to_no_other_host(hub: Hub, tmp_path: Path) -> None:
    await hub.do("create_repository", name="game")
    async with LoopbackGitHub(tmp_path / "other", token=TOKEN) as other:
        hub.server.fail_next(301, "", {"Location": f"{other.base_url}/repos/{NAME}"})
        sentence = await hub.refused("get_repository", repository=NAME)
        assert "not on the public network" in sentence or "another host" in sentence
        hub.server.fail_next(307, "", {"Location": f"{other.base_url}/repos/{NAME}/issues"})
        await hub.refused("create_issue", repository=NAME, title="Elsewhere")
        assert other.requests == []


async def test_a_change_that_is_sent_on_is_not_taken_for_done(hub: Hub) -> None:
    await hub.do("create_repository", name="game")
    # 301 makes a client go on with GET: nothing would have been created, and the answer would look like a success.
    hub.server.fail_next(301, "", {"Location": f"{hub.server.base_url}/repos/{NAME}/issues"}, path="/issues")
    assert "may or may not have been made" in await hub.refused("create_issue", repository=NAME, title="Lost")
    assert hub.server.repositories[NAME].issues == []


async def test_the_token_is_seen_nowhere(hub: Hub) -> None:
    await hub.server.create(NAME)
    assert TOKEN not in str(await hub.do("create_issue", repository=NAME, title=f"{TOKEN} before it is used"))
    hub.server.fail_next(422, f"bad token {TOKEN}")
    assert "secret:GITHUB_TOKEN" in await hub.refused("create_issue", repository=NAME, title="T")
    await hub.do("create_issue", repository=NAME, title=f"my token is {TOKEN}")
    runs = await hub.ws.store.list_runs()
    log = [event.model_dump(mode="json") for event in await hub.ws.store.load(runs[0].id)]
    assert TOKEN not in json.dumps(log) and "secret:GITHUB_TOKEN" in json.dumps(log)


async def test_without_a_token_what_is_public_is_read(tmp_path: Path) -> None:
    async with LoopbackGitHub(tmp_path / "hub", token=TOKEN) as server:
        await server.create("octocat/open")
        await server.create("octocat/closed", private=True)
        settings = GitHubSettings(base_url=server.base_url)
        made = {"github": lambda: GitHub(settings)}
        async with Workspace(
            tmp_path / "ws", environments=made, store=MemoryStore(), policy=AllowAll(), environ={}
        ) as ws:
            hub = Hub(server, ws)
            assert (await hub.do("get_repository", repository="octocat/open"))["private"] is False
            assert "without a token" in await hub.refused("get_repository", repository="octocat/closed")
            before = len(server.requests)
            sentence = await hub.refused("create_issue", repository="octocat/open", title="Hello")
            assert sentence == "GitHub lets nobody write without a token; export GITHUB_TOKEN=... before the run"
            assert len(server.requests) == before


class Silent(LoopbackGitHub):
    """Does what it is asked, and goes away without a word."""

    async def _api(self, request: Any) -> Any:
        answer = await super()._api(request)
        if request.method == "POST":
            request.transport.close()
        return answer

    async def _git_http(self, request: Any) -> Any:
        answer = await super()._git_http(request)
        if "receive-pack" in request.path:
            request.transport.close()
        return answer


async def test_a_change_without_an_answer_may_have_been_made(tmp_path: Path) -> None:
    async with Silent(tmp_path / "hub", token=TOKEN) as server:
        made = await server.create(NAME)
        settings = Settings(
            github=GitHubSettings(base_url=server.base_url), git=GitSettings(tokens={server.place: "GITHUB_TOKEN"})
        )
        ws = Workspace(
            tmp_path / "ws",
            store=MemoryStore(),
            policy=AllowAll(),
            settings=settings,
            environ={"GITHUB_TOKEN": TOKEN},
            sandbox=SANDBOX,
        )
        async with ws:
            hub, git = Hub(server, ws), Bench(ws)
            sentence = await hub.refused("create_issue", repository=NAME, title="Once")
            assert sentence.endswith("the change may or may not have been made: look before doing it again")
            assert len(made.issues) == 1
            if SANDBOX is not None:
                await git.commit({"a.txt": "a\n"}, "First")
                address = f"{server.url}/{NAME}.git"
                sentence = await git.refused("push", remote=address)
                assert sentence.endswith("the push may or may not have been made: fetch it before pushing again")
                assert (await git.do("push", remote=address))["up_to_date"]


async def test_a_run_is_forked_before_its_first_change_and_not_behind_it(hub: Hub) -> None:
    await hub.server.create(NAME)
    steps = [
        call("github_list_issues", repository=NAME),
        call("github_create_issue", repository=NAME, title="Once"),
        call("done", answer="ok"),
    ]
    result = await hub.ws.run("Go.", model=ScriptedModel(steps), system="react", environments=["github"])
    assert result.answer == "ok" and len(hub.server.repositories[NAME].issues) == 1
    with pytest.raises(ForkError, match=r"environment 'github' \(create_issue\), which keeps no snapshots"):
        await hub.ws.fork(result.run_id)
    done = [event for event in await hub.ws.log.events(result.run_id) if event.type == "completed"]
    looked = next(event for event in done if "more" in str(event.body["outcome"].get("value")))
    assert await hub.ws.fork(result.run_id, at=looked.seq)


async def test_a_server_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    async with LoopbackGitHub(tmp_path / "hub", token=TOKEN) as server:
        settings = Settings(github=GitHubSettings(base_url=server.base_url))
    async with Workspace(tmp_path / "ws", store=MemoryStore(), policy=AllowAll(), settings=settings, environ={}) as ws:
        done = await ws.ecp.invoke("github", "get_repository", {"repository": NAME})
        assert done.status == "error" and "cannot be reached" in str(done.error)


@pytest.mark.parametrize(
    ("base_url", "why"),
    [
        ("api.github.com", "give an address like"),
        ("ftp://api.github.com", "give an address like"),
        ("http://github.example.com/api/v3", "the token goes over https:// only"),
        ("https://user:pw@github.example.com", "give an address like"),
    ],
)
def test_an_address_that_no_token_may_go_to_is_refused(base_url: str, why: str) -> None:
    with pytest.raises(SettingsError, match=r"github\.base_url is") as caught:
        GitHub(GitHubSettings(base_url=base_url))
    assert why in str(caught.value)


def test_policy_sees_reads_of_the_network_and_sending() -> None:
    github = GitHub()
    for schema in github.actions():
        tags = action_tags(github, schema.name)
        expected = {Tag.WRITE, Tag.SEND, Tag.NETWORK} if github.mutates(schema.name) else {Tag.READ, Tag.NETWORK}
        assert tags == expected, schema.name
    assert action_effect(github, "create_issue", {}).mode == "once"
    assert (github.branching, github.durable) == ("none", True)
    assert parts("a b", 7) == "/a%20b/7"


def test_policy_asks_what_is_written_and_not_which_file_is_read() -> None:
    github, policy, seen = GitHub(), DefaultPolicy(), (Provenance(kind="file", ref="a.txt"),)
    schemas = {one.name: one for one in github.actions()}

    def decided(action: str, task: str, **arguments: str) -> str:
        effect = action_effect(github, action, arguments, provenance=seen, schema=schemas[action])
        return policy.decide(effect, PolicyView(user_content=(task,), links=frozenset)).action

    # The host is the one of the settings, whatever looks like an address in a path.
    assert decided("read_file", "Look", repository="octocat/game", path="evil.example/x.md", ref="v1.0") == "allow"
    assert decided("list_issues", "Look", repository="octocat/game") == "allow"
    assert (
        decided("create_issue", "Open an issue in octocat/game: it hangs", repository="octocat/game", title="it hangs")
        == "allow"
    )
    assert decided("create_issue", "Open an issue in octocat/game", repository="octocat/game", title="secret") == "ask"
