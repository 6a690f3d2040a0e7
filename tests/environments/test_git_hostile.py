"""Repositories, remotes and servers that are made to do harm: one sentence each, nothing outside is touched."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from loopback_github import LoopbackGitHub
from tests.environments.gits import TOKEN, Bench, bench_at, git
from tests.support.patience import LONGEST_S

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.git import remotes, shell
from agentorchestra.environments.git.remotes import LocalRemote


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench_at(tmp_path, max_pack_mib=1, local=[str(tmp_path)]) as made:
        yield made


def bare(place: Path) -> Path:
    place.mkdir(parents=True)
    git(place, "init", "--bare", "--quiet", "--initial-branch=main")
    return place


# -- repositories ------------------------------------------------------------------------------------------------------


async def test_hooks_run_in_the_sandbox(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    heard: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append("called")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await bench.commit({"a.txt": "a\n"}, "First")
    outside = tmp_path / "outside"
    attack = (
        f"#!/bin/bash\ntouch {outside} 2>&1\ncat {tmp_path}/ws/* 2>&1 | head -n 1\n"
        f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo REACHED >&2\nenv >&2\nid -u >&2\necho WAS-HERE > was-here\n"
    )
    bench.write(".git/hooks/post-commit", attack, mode=0o755)
    await bench.commit({"b.txt": "b\n"}, "Second")
    assert bench.read("was-here") == "WAS-HERE\n"  # it ran
    assert not outside.exists() and heard == []
    bench.write(".git/hooks/pre-commit", "#!/bin/bash\nenv | grep HUB || echo no token\nexit 1\n", mode=0o755)
    refused = await bench.refused("commit", message="No", all_changes=True)
    assert refused == "git commit failed: no token; correct it and try again"
    server.close()
    await server.wait_closed()


async def test_the_configuration_of_a_repository_reaches_nothing_outside(bench: Bench, tmp_path: Path) -> None:
    target, elsewhere = bare(tmp_path / "target.git"), bare(tmp_path / "elsewhere.git")
    marker = tmp_path / "marker"
    await bench.commit({"a.txt": "a\n"}, "First")
    evil = f"touch {marker}; echo $0 >> .git/ran #"
    bench.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
    config = "\n".join(
        [
            "[core]",
            *(f'\t{name} = "{evil}"' for name in ("fsmonitor", "sshCommand", "pager", "editor", "gitProxy", "askPass")),
            f'[credential]\n\thelper = "!{evil}"',
            f'[url "{elsewhere}"]\n\tinsteadOf = {target}\n\tpushInsteadOf = {target}',
            f'[filter "evil"]\n\tclean = "cat; {evil}"\n\tsmudge = "cat; {evil}"',
            f'[diff]\n\texternal = "{evil}"\n[diff "evil"]\n\ttextconv = "{evil}"\n\tcommand = "{evil}"',
            f'[remote "origin"]\n\turl = ext::sh -c "{evil}"\n\treceivepack = "{evil}"\n\tuploadpack = "{evil}"',
            f'[alias]\n\tstatus = "!{evil}"',
            f'[protocol "ext"]\n\tallow = always\n[uploadpack]\n\tpackObjectsHook = "{evil}"',
        ]
    )
    with (bench.folder / ".git/config").open("a") as file:
        file.write(config.replace("\\", "\\\\") + "\n")
    bench.write("a.txt", "changed\n")
    for action in ("status", "diff"):
        await bench.do(action)
    await bench.do("commit", message="Second", all_changes=True)
    await bench.do("push", remote=str(target))
    await bench.do("fetch", remote=str(target))
    assert git(target, "rev-parse", "main") == git(bench.folder, "rev-parse", "main")
    assert git(elsewhere, "for-each-ref") == ""
    assert not marker.exists()
    sentence = await bench.refused("push", remote="origin")
    assert sentence.startswith("give the address itself: 'origin' is ext::sh")


@pytest.mark.parametrize("form", ["link", "file"])
async def test_a_git_folder_that_lies_elsewhere_is_none(bench: Bench, tmp_path: Path, form: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    git(outside, "init", "--quiet")
    before = sorted(one.name for one in outside.rglob("*"))
    await bench.do("init", repository="own")
    place = bench.folder / "trap"
    place.mkdir()
    if form == "link":
        (place / ".git").symlink_to(outside / ".git")
    else:
        (place / ".git").write_text(f"gitdir: {outside}/.git\n")
    sentence = await bench.refused("commit", message="x", repository="trap", all_changes=True)
    assert "not a git repository" in sentence
    assert sorted(one.name for one in outside.rglob("*")) == before
    assert "leads out of the folder" in await bench.refused("init", repository="../x")
    assert "outside of the folder" in await bench.refused("status", repository=str(outside))


async def test_what_is_no_repository_is_said_to_be_none(bench: Bench, tmp_path: Path) -> None:
    await bench.do("init", repository="own")
    bench.write("plain/a.txt", "a\n")
    assert (await bench.refused("status", repository="plain")).endswith(
        "make one with init, or name its folder with `repository`"
    )
    bench.write("broken/.git/HEAD", "nonsense")
    assert "not a git repository" in await bench.refused("status", repository="broken")
    assert "is no bare repository" in await bench.refused("clone", remote=str(tmp_path / "ws").replace("/ws", ""))
    assert "commit something first" in await bench.refused(
        "push", remote=str(bare(tmp_path / "t.git")), repository="own"
    )
    assert "names no commit" in await bench.refused("merge", revision="--upload-pack=x", repository="own")
    assert "is no name of a branch" in await bench.refused("switch", branch="-f", repository="own")


async def test_submodules_are_named_and_not_fetched(bench: Bench, tmp_path: Path) -> None:
    source, marker = tmp_path / "source", tmp_path / "marker"
    source.mkdir()
    git(source, "init", "--quiet", "--initial-branch=main")
    (source / ".gitmodules").write_text(f'[submodule "m"]\n\tpath = m\n\turl = ext::sh -c "touch {marker}"\n')
    git(source, "add", ".gitmodules")
    git(source, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},m")
    git(source, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "First")
    git(tmp_path, "clone", "--quiet", "--bare", str(source), "bare.git")
    done = await bench.do("clone", remote=str(tmp_path / "bare.git"), repository="copy")
    assert done["submodules_left_out"] == ["m"] and not marker.exists()


@pytest.mark.long
async def test_a_repository_that_is_too_large_leaves_nothing_behind(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "--quiet", "--initial-branch=main")
    (source / "big").write_bytes(os.urandom(3 << 20))
    git(source, "add", "big")
    git(source, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "Big")
    big = tmp_path / "big.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(source), "big.git")
    assert "more than" in await bench.refused("clone", remote=str(big), repository="copy")
    assert [one.name for one in bench.folder.iterdir()] == []
    await bench.do("init", repository="own")
    (bench.folder / "own" / "big").write_bytes(os.urandom(2 << 20))
    await bench.do("commit", message="Big", repository="own", all_changes=True)
    sentence = await bench.refused("push", remote=str(bare(tmp_path / "t.git")), repository="own")
    assert sentence == "it has more than 1 MiB; push less at once, or raise git.max_pack_mib"


async def test_a_local_remote_that_says_too_much_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads the rest of its pipe, which is full: waiting for its end alone would last for ever."""
    flood = tmp_path / "bin" / "git"
    flood.parent.mkdir()
    flood.write_text(
        f"#!{sys.executable}\nimport fcntl, os, time\n"
        "fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\nos.write(1, bytes(1 << 20))\ntime.sleep(600)\n"
    )
    flood.chmod(0o755)
    monkeypatch.setenv("PATH", str(flood.parent))
    async with asyncio.timeout(LONGEST_S):
        with pytest.raises(ToolError, match=r"^there is more than 0 MiB to read; give a depth"):
            await LocalRemote(tmp_path, 600).exchange("git-upload-pack", b"", 1)


@pytest.mark.long
async def test_what_unpacks_to_more_than_there_is_room_for_leaves_nothing_behind(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "--quiet", "--initial-branch=main")
    with (source / "zeros").open("wb") as file:
        file.truncate(64 << 20)
    git(source, "add", "zeros")
    git(source, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "Zeros")
    git(tmp_path, "clone", "--quiet", "--bare", str(source), "small.git")
    async with bench_at(tmp_path, local=[str(tmp_path / "small.git")], max_pack_mib=1, folder_mib=16) as bench:
        sentence = await bench.refused("clone", remote=str(tmp_path / "small.git"), repository="copy")
        assert "larger files than the sandbox allows" in sentence
        assert [one.name for one in bench.folder.iterdir()] == []
        await bench.commit({"a.txt": "a\n"}, "First")


# -- remotes -----------------------------------------------------------------------------------------------------------


async def test_addresses_that_may_not_be_used(bench: Bench, tmp_path: Path) -> None:
    await bench.commit({"a.txt": "a\n"}, "First")
    inside = bench.folder / "trap.git"
    git(bench.folder, "init", "--bare", "--quiet", "trap.git")
    marker = tmp_path / "marker"
    expected = {
        f"ext::sh -c touch% {marker}": "is no address of a repository that may be used",
        "--upload-pack=touch x/y": "is no address of a repository that may be used",
        "fd::17/x": "is no address of a repository that may be used",
        "git@github.com:octocat/game.git": "use https://github.com/octocat/game.git",
        "ssh://git@github.com/octocat/game.git": "use https://github.com/octocat/game.git",
        "git://github.com/octocat/game.git": "only https:// is spoken",
        "https://me:secret@github.com/x/y": "tokens are named in the settings, git.tokens",
        "http://127.0.0.1:1/x/y.git": "not on the public network",
        "http://[::1]:1/x.git": "not on the public network",
        "http://169.254.169.254/x.git": "not on the public network",
        "/etc": "may not be used",
        "file://otherhost/x.git": "names a file of another machine",
        str(tmp_path / "none.git"): "there is no repository at",
        # The user named a folder above the workspace; what agents write below it is not the user's all the same.
        str(inside): "may not be used",
        "nowhere": "is no address",
    }
    for address, why in expected.items():
        assert why in await bench.refused("push", remote=address), address
    assert not marker.exists()


async def test_only_the_remotes_that_the_settings_allow(tmp_path: Path) -> None:
    async with bench_at(tmp_path, remotes=("https://git.example.org/team/",)) as bench:
        await bench.commit({"a.txt": "a\n"}, "First")
        for address in (
            "https://git.example.org/other/x.git",
            "https://git.example.org/team/../other/x.git",
            "https://git.example.org/team%2f..%2fother/x.git",
            "https://git.example.org/team/..%2fother/x.git",
            "https://git.example.org/team.evil/x.git",
            "https://git.example.org/teams/x.git",
            "https://git.example.org.evil.example/team/x.git",
            "http://git.example.org/team/x.git",
        ):
            assert "may not be used: the settings allow" in await bench.refused("push", remote=address), address


async def test_a_push_that_the_remote_refuses_says_what_to_do(bench: Bench, tmp_path: Path) -> None:
    target = bare(tmp_path / "target.git")
    hook = target / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nprintf 'no \\033[31mred\\033[0m commits\\nsecond line\\n' >&2\nexit 1\n")
    hook.chmod(0o755)
    await bench.commit({"a.txt": "a\n"}, "First")
    sentence = await bench.refused("push", remote=str(target))
    assert sentence == (
        f"{target} refused the push to refs/heads/main (pre-receive hook declined), it says "
        '"no [31mred [0m commits second line"; do what its rules ask for, then commit and push again'
    )
    assert git(target, "for-each-ref") == ""


class Impostor:
    """A server that answers whatever it is told to."""

    def __init__(self) -> None:
        self.replies: dict[str, web.Response] = {}
        self.requests: list[tuple[str, str]] = []
        self.port = 0
        self._over = asyncio.Event()

    async def __aenter__(self) -> Impostor:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.path, request.headers.get("Authorization", "")))
        if "hangs" in request.path:
            await self._over.wait()
        for word, reply in self.replies.items():
            if word in request.path:
                return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
        return web.Response(status=404, text="nothing")

    def refs(self, *lines: str, service: str = "git-upload-pack", extra: str = "") -> web.Response:
        data = f"# service={service}\n".encode()
        body = f"{len(data) + 4:04x}".encode() + data + b"0000"
        for number, one in enumerate(lines):
            text = (
                one.encode()
                + (f"\0side-band-64k ofs-delta report-status {extra}".encode() if number == 0 else b"")
                + b"\n"
            )
            body += f"{len(text) + 4:04x}".encode() + text
        return web.Response(body=body + b"0000", content_type=f"application/x-{service}-advertisement")


async def test_servers_that_answer_with_something_else(tmp_path: Path) -> None:
    sha = "1" * 40
    async with Impostor() as server:
        place = f"127.0.0.1:{server.port}"
        async with bench_at(tmp_path, tokens={place: "HUB_TOKEN"}, environ={"HUB_TOKEN": TOKEN}) as bench:

            async def clone() -> str:
                return await bench.refused("clone", remote=f"http://{place}/x.git", repository="copy")

            def packed(data: bytes, *, band: int = 1) -> web.Response:
                body = b"0008NAK\n" + f"{len(data) + 5:04x}".encode() + bytes([band]) + data + b"0000"
                return web.Response(body=body, content_type="application/x-git-upload-pack-result")

            server.replies["info/refs"] = web.Response(text="<html>Hello</html>", content_type="text/html")
            assert "is no git repository (it answers with text/html)" in await clone()
            for broken in (b"zzzz", b"ffff" + b"x" * 10, b"0005a", b"\xff" * 100):
                server.replies["info/refs"] = web.Response(
                    body=broken, content_type="application/x-git-upload-pack-advertisement"
                )
                assert "does not answer as a git repository does" in await clone()
            server.replies["info/refs"] = server.refs("ERR no \x1b[31mway")
            assert "refuses: no [31mway; check the address" in await clone()

            # Names that would lead out of the repository's refs are no refs to git in the sandbox.
            server.replies["info/refs"] = server.refs(f"{sha} refs/heads/../../../etc/x", f"{sha} refs/heads/-f")
            server.replies["git-upload-pack"] = packed(b"PACK\0\0\0\2\0\0\0\1garbage garbage garbage garbage")
            sentence = await clone()
            assert "sent objects that cannot be used: git index-pack failed" in sentence
            server.replies["git-upload-pack"] = packed(b"<html>")
            assert "does not answer as a git repository does" in await clone()
            server.replies["git-upload-pack"] = packed(b"out of disk", band=3)
            assert "broke off: out of disk; try again" in await clone()
            server.replies["git-upload-pack"] = web.Response(text="<html>", content_type="text/html")
            assert "answered with text/html in place of what git answers" in await clone()
            server.replies["info/refs"] = server.refs("1" * 64 + " refs/heads/main", extra="object-format=sha256")
            assert "names its commits by SHA-256" in await clone()
            many = (f"{sha} refs/heads/b{n}" for n in range(2_100))
            server.replies["info/refs"] = server.refs(*many)
            assert "has 2,100 branches; name the one to fetch" in await clone()
            assert [one.name for one in bench.folder.iterdir()] == []


async def test_a_token_goes_to_the_host_it_is_for(tmp_path: Path) -> None:
    async with Impostor() as server, LoopbackGitHub(tmp_path / "hub", token=TOKEN) as hub:
        await hub.create("octocat/game", private=True)
        named, other = f"127.0.0.1:{server.port}", f"127.0.0.1:{hub.port}"
        server.replies["info/refs"] = web.Response(
            status=302, headers={"Location": f"{hub.url}/octocat/game.git/info/refs?service=git-receive-pack"}
        )
        options: dict[str, Any] = {"tokens": {named: "HUB_TOKEN"}, "environ": {"HUB_TOKEN": TOKEN}}
        async with bench_at(tmp_path, remotes=(f"http://{named}/", f"http://{other}/"), **options) as bench:
            await bench.commit({"a.txt": "a\n"}, "First")
            await bench.refused("push", remote=f"http://{named}/x.git")
            assert server.requests[0][1] and not any(one.token for one in hub.requests)
            sentence = await bench.refused("push", remote=f"{hub.url}/octocat/game.git")
            assert "wants a token for a push" in sentence and f"git.tokens = {{ '{other}' = ... }}" in sentence
            server.replies["info/refs"] = web.Response(status=401, text=f"bad token {TOKEN}")
            sentence = await bench.refused("push", remote=f"http://{named}/x.git")
            assert 'does not accept the token in HUB_TOKEN (it says "bad token secret:HUB_TOKEN")' in sentence
            server.replies["info/refs"] = web.Response(status=403, text="")
            assert "lets the token in HUB_TOKEN not push" in await bench.refused("push", remote=f"http://{named}/x.git")
            assert TOKEN not in await bench.everything_kept()


@pytest.mark.long
async def test_what_hangs_is_ended_and_the_next_action_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limit in ((shell, "COMMAND_S"), (remotes, "COMMAND_S"), (remotes, "TRANSFER_S")):
        monkeypatch.setattr(module, limit, 5)
    target = bare(tmp_path / "target.git")
    hook = target / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    async with Impostor() as server:
        place = f"127.0.0.1:{server.port}"
        async with bench_at(tmp_path, local=[str(target)], remotes=(f"http://{place}",)) as bench:
            await bench.commit({"a.txt": "a\n"}, "First")
            bench.write(".git/hooks/pre-commit", "#!/bin/bash\nsleep 1000\n", mode=0o755)
            assert await bench.refused("commit", message="No", all_changes=True) == (
                "git commit did not end within 5 s and was ended: a hook of the repository may hang, look in .git/hooks"
            )
            (bench.folder / ".git/hooks/pre-commit").unlink()
            (bench.folder / ".git/index.lock").unlink(missing_ok=True)
            await bench.commit({"b.txt": "b\n"}, "Second")
            assert git(bench.folder, "log", "-1", "--format=%s") == "Second"

            hook.write_text("#!/bin/sh\nsleep 1000\n")
            hook.chmod(0o755)
            assert "did not answer within 5 s" in await bench.refused("push", remote=str(target))
            hook.unlink()
            await bench.do("push", remote=str(target))
            assert "was not read within 5 s" in await bench.refused("push", remote=f"http://{place}/hangs.git")
