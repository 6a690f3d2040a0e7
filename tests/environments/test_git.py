"""`git` in a real sandbox: every action with its effect seen from outside, in the folder and in bare repositories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from loopback_github import LoopbackGitHub
from tests.environments.gits import TOKEN, Bench, bench_at, git

from agentorchestra.core.effects import Provenance, Tag
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.policy import PolicyView
from agentorchestra.core.settings import GitSettings
from agentorchestra.environments.git.environment import Git
from agentorchestra.environments.git.shell import GitOutput, failure
from agentorchestra.sandbox.local import UnsafeLocal
from agentorchestra.tea.calling.actions import action_effect, action_tags
from agentorchestra.trust.policy import DefaultPolicy


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench_at(tmp_path) as made:
        yield made


async def test_a_repository_from_init_to_history(bench: Bench) -> None:
    await bench.do("init", repository="game")
    bench.write("game/a.txt", "eins\n")
    bench.write("game/ü b.txt", "zwei\n")
    assert "ü b.txt" in await bench.do("status", repository="game")
    await bench.terminal("git -C game add a.txt")
    assert "+eins" in await bench.do("diff", repository="game", staged=True)
    made = await bench.do("commit", message="First\n\nWhy it is there", repository="game")
    assert git(bench.folder / "game", "log", "-1", "--format=%H %an <%ae> %s") == (
        f"{made['commit']} AgentOrchestra <agent@localhost> First"
    )
    bench.write("game/a.txt", "eins\nzwei\n")
    assert "+zwei" in await bench.do("diff", repository="game")
    await bench.do("commit", message="Second", repository="game", all_changes=True)
    assert "-zwei" in await bench.do("diff", repository="game", between="HEAD..HEAD~1")
    assert (await bench.terminal("git -C game log --format=%s")).splitlines() == ["Second", "First"]


async def test_branches_and_merges(bench: Bench) -> None:
    await bench.commit({"a.txt": "a\n"}, "First")
    await bench.do("switch", branch="next", create=True)
    await bench.commit({"b.txt": "b\n"}, "On next")
    assert "already exists; choose another name" in await bench.refused("switch", branch="main", create=True)
    await bench.do("switch", branch="main")
    assert not (bench.folder / "b.txt").exists()
    assert (await bench.do("merge", revision="next"))["merged"]
    assert bench.read("b.txt") == "b\n"
    assert git(bench.folder, "branch", "--format=%(refname:short)").split() == ["main", "next"]


async def test_the_terminal_has_the_rest_of_git(bench: Bench) -> None:
    await bench.commit({"a.txt": "a\n"}, "First")
    bench.write("a.txt", "broken\n")
    assert "On branch main" in await bench.terminal("git restore a.txt && git tag v1 && git branch kept && git status")
    assert bench.read("a.txt") == "a\n"
    assert git(bench.folder, "tag", "--list") == "v1"
    assert git(bench.folder, "branch", "--format=%(refname:short)").split() == ["kept", "main"]
    assert "main" in await bench.do("status")


async def test_a_conflict_is_told_with_its_hunks_and_can_be_solved_or_taken_back(bench: Bench) -> None:
    await bench.commit({"a.txt": "one\n", "b.txt": "same\n"}, "First")
    await bench.do("switch", branch="theirs", create=True)
    await bench.commit({"a.txt": "their line\n"}, "Theirs")
    await bench.do("switch", branch="main")
    await bench.commit({"a.txt": "our line\n"}, "Ours")
    told = await bench.do("merge", revision="theirs")
    assert (told["merged"], told["conflicts"]) == (False, ["a.txt"])
    assert "our line" in told["hunks"] and "their line" in told["hunks"]
    await bench.terminal("git merge --abort")
    assert bench.read("a.txt") == "our line\n"
    await bench.do("merge", revision="theirs")
    bench.write("a.txt", "both lines\n")
    await bench.do("commit", message="Merge theirs", all_changes=True)
    assert len(git(bench.folder, "log", "-1", "--format=%P").split()) == 2


@pytest.mark.long
async def test_local_remotes_that_the_user_named(tmp_path: Path) -> None:
    bare = tmp_path / "srv" / "game.git"
    bare.mkdir(parents=True)
    git(bare, "init", "--bare", "--quiet", "--initial-branch=main")
    async with bench_at(tmp_path, local=[str(tmp_path / "srv")]) as bench:
        await bench.commit({"a.txt": "a\n"}, "First")
        await bench.terminal(f"git remote add origin {bare} && git tag v1")
        await bench.terminal("git -c user.name=a -c user.email=a@localhost tag v1-notes -m 'With a message'")
        pushed = await bench.do("push", remote=str(bare), tags=["v1"])
        tip = git(bench.folder, "rev-parse", "main")
        assert pushed["pushed"] == {"refs/heads/main": tip, "refs/tags/v1": tip}
        assert git(bare, "rev-parse", "main", "v1").split() == [tip, tip]
        assert git(bench.folder, "rev-parse", "origin/main") == tip
        await bench.do("push", remote=str(bare), tags=["v1-notes"])
        assert git(bare, "cat-file", "-t", "v1-notes") == "tag"
        git(bench.folder, "tag", "--force", "v1", "v1-notes")
        assert "tags are not moved" in await bench.refused("push", remote=str(bare), tags=["v1"])
        assert (await bench.do("push", remote=f"file://{bare}"))["up_to_date"] is True
        assert "give the address itself: 'origin' is" in await bench.refused("push", remote="origin")

        await bench.do("clone", remote=str(bare), repository="copy")
        assert bench.read("copy/a.txt") == "a\n"
        await bench.commit({"copy/b.txt": "b\n"}, "Second", repository="copy")
        await bench.do("push", remote=str(bare), repository="copy")
        got = await bench.do("fetch", remote=str(bare))
        assert got["new"] == {"origin/main": git(bare, "rev-parse", "main")}
        assert (await bench.do("pull", remote=str(bare)))["merged"]
        assert bench.read("b.txt") == "b\n"

        # A push that would lose commits is not made; after a pull it is.
        await bench.commit({"copy/c.txt": "c\n"}, "Third", repository="copy")
        await bench.do("push", remote=str(bare), repository="copy")
        await bench.commit({"d.txt": "d\n"}, "Elsewhere")
        sentence = await bench.refused("push", remote=str(bare))
        assert sentence.endswith("pull them (or fetch and merge), resolve conflicts, and push again")
        assert (await bench.do("pull", remote=str(bare)))["merged"]
        await bench.do("push", remote=str(bare), branch="main", to="other")
        await bench.do("push", remote=str(bare))
        assert (
            git(bare, "rev-parse", "main") == git(bare, "rev-parse", "other") == git(bench.folder, "rev-parse", "main")
        )
        lost = git(bare, "rev-parse", "main")
        await bench.terminal("git branch back HEAD~1")
        await bench.do("push", remote=str(bare), branch="back", to="main", force=True)
        assert git(bare, "rev-parse", "main") != lost


async def test_over_http_with_a_token_for_its_host(tmp_path: Path) -> None:
    async with LoopbackGitHub(tmp_path / "hub", token=TOKEN) as server:
        address = f"{server.url}/octocat/game.git"
        async with bench_at(tmp_path, tokens={server.place: "HUB_TOKEN"}, environ={"HUB_TOKEN": TOKEN}) as bench:
            await bench.commit({"a.txt": "a\n" * 1000}, "First")
            missing = await bench.refused("push", remote=address)
            assert missing == (
                f"there is no repository at {server.url}/octocat/game.git, or the token may not see it (it says "
                '"Repository not found."): create it first, or check owner and name'
            )
            made = await server.create("octocat/game", private=True)
            await bench.do("push", remote=address)
            assert git(made.folder, "rev-parse", "main") == git(bench.folder, "rev-parse", "main")
            assert all(one.token for one in server.requests)

            await bench.commit({"c.txt": "c\n"}, "Before")
            await bench.do("push", remote=address)
            await bench.do("clone", remote=address, depth=1)
            assert git(bench.folder / "game", "rev-list", "--count", "HEAD") == "1"
            await bench.terminal("git branch older HEAD~1")
            await bench.do("push", remote=address, branch="older")
            await bench.do("fetch", remote=address, repository="game")
            assert git(bench.folder / "game", "fsck", "--connectivity-only") == ""
            await bench.do("switch", branch="older", repository="game")
            assert git(bench.folder / "game", "log", "--format=%s") == "First"
            await bench.do("switch", branch="main", repository="game")
            await bench.commit({"game/b.txt": "b\n"}, "Second", repository="game")
            await bench.do("push", remote=address, repository="game")
            assert (await bench.do("pull", remote=address))["merged"]
            assert bench.read("b.txt") == "b\n"
            assert TOKEN not in await bench.everything_kept()


def test_policy_sees_what_reaches_the_network() -> None:
    made = Git(sandbox=None)
    sends = {schema.name for schema in made.actions() if Tag.SEND in action_tags(made, schema.name)}
    reads = {schema.name for schema in made.actions() if Tag.NETWORK in action_tags(made, schema.name)} - sends
    assert (sends, reads) == ({"push"}, {"clone", "fetch", "pull"})
    # After a crash a push may have happened; all else is done again, on the folder as it was.
    modes = {schema.name: str(action_effect(made, schema.name, {}).mode) for schema in made.actions()}
    assert {name for name, mode in modes.items() if mode == "once"} == {"push"}
    assert set(modes.values()) == {"once", "repeatable"}


def test_policy_asks_where_a_push_goes_and_not_where_a_clone_lies() -> None:
    made = Git(sandbox=None)
    schemas = {one.name: one for one in made.actions()}
    policy, seen = DefaultPolicy(), (Provenance(kind="file", ref="a.txt"),)

    def decided(action: str, task: str, **arguments: str) -> str:
        effect = action_effect(made, action, arguments, provenance=seen, schema=schemas[action])
        return policy.decide(effect, PolicyView(user_content=(task,), links=frozenset)).action

    address = "https://git.example.org/team/game.git"
    assert decided("clone", f"Look into {address}", remote=address, repository="a/b", branch="v1.0") == "allow"
    assert decided("clone", "Look into the game", remote=address) == "ask"
    assert decided("push", f"Push to {address}", remote=address) == "allow"
    assert decided("push", "Push it", remote=address) == "ask"
    assert decided("commit", "Work", message="it is done", repository="../x") == "allow"


def test_without_a_sandbox_every_action_is_judged_as_code_with_a_network() -> None:
    made = Git(sandbox=UnsafeLocal())
    for schema in made.actions():
        effect = action_effect(made, schema.name, {})
        assert {Tag.EXECUTE, Tag.NETWORK} <= effect.tags and not effect.confined, schema.name
        assert (effect.mode == "once") == made.mutates(schema.name), schema.name


def test_a_sandbox_without_git_is_told() -> None:
    said = failure("status", GitOutput(127, "", "bash: line 1: git: command not found"))
    assert "install git where the sandbox finds it" in said
    with pytest.raises(SettingsError, match=r"git\.local names 'srv/git'; give absolute paths"):
        Git(GitSettings(local=("srv/git",)), sandbox=None)
    with pytest.raises(SettingsError, match=r"git\.remotes: "):
        Git(GitSettings(remotes=("git@github.com:team",)), sandbox=None)
