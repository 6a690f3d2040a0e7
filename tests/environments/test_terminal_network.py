"""The hosts that commands reach: those that the settings name, through the proxy, and nothing else."""

from __future__ import annotations

import functools
import http.server
import threading
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.environments.gits import SANDBOX
from tests.environments.test_machine import bench_on
from tests.environments.test_terminal import LIMITS, do, drive
from tests.runtime.support import Bench
from tests.sandbox.images import write_image

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Mode, Provenance, Tag
from agentorchestra.core.errors import SandboxUnavailableError, SettingsError
from agentorchestra.core.policy import PolicyView
from agentorchestra.core.settings import TerminalSettings, WebSettings
from agentorchestra.environments.base import base_for
from agentorchestra.environments.terminal.environment import Terminal
from agentorchestra.environments.terminal.network import Reach, TerminalProxy, _apt_hosts, reach_of
from agentorchestra.runtime.context import BranchContext
from agentorchestra.sandbox.factory import shell_in
from agentorchestra.sandbox.local import UnsafeLocal
from agentorchestra.sandbox.shell import Gate
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.trust.policy import DefaultPolicy

pytestmark = pytest.mark.skipif(
    getattr(SANDBOX, "name", "") != "bubblewrap", reason="a way out needs bubblewrap (apt-get install bubblewrap)"
)


class Site:
    """A server of this machine with files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "page.txt").write_text("from the site")
        self.folder, self.asked = folder, []  # type: ignore[var-annotated]
        asked = self.asked

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                asked.append(self.path)

        handler = functools.partial(Handler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.place = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "other")
    yield made
    made.close()


def terminal(reach: Reach, *private: str) -> Terminal:
    return Terminal(sandbox=SANDBOX, limits=LIMITS, reach=reach, web=WebSettings(private=private))


async def bench_of(reach: Reach, folder: Path, *private: str, image: str = "") -> AsyncIterator[Bench]:
    base = base_for(TerminalSettings(image=image), folder / "images")
    async for bench in bench_on(base, folder):

        def make() -> Terminal:
            made = terminal(reach, *private)
            made.base = base
            return made

        bench.services.environments["terminal"] = make  # type: ignore[index]
        yield bench


def read(url: str) -> str:
    program = f"import urllib.request as u\ntry: print(u.urlopen('{url}').read().decode())\nexcept Exception as e: "
    return f"unset no_proxy NO_PROXY; python3 -c \"{program}print(e, getattr(e, 'read', bytes)().decode())\""


async def test_a_host_that_is_named_is_reached_and_no_other(site: Site, other: Site, tmp_path: Path) -> None:
    both = (site.place, other.place)

    async def main(root: BranchContext[Any]) -> str:
        assert await do(root, "run", command=read(f"http://{site.place}/page.txt")) == "from the site"
        said = await do(root, "run", command=read(f"http://{other.place}/page.txt"))
        assert f"{other.place} is not visited: terminal.hosts does not name it" in said
        assert f"[commands have no network here but for the hosts that terminal.hosts names: {site.place}]" in said
        past = "import socket; socket.create_connection(('127.0.0.1', {}), 1)"
        around = await do(root, "run", command=f'python3 -c "{past.format(other.place.partition(":")[2])}"')
        assert "ConnectionRefusedError" in around
        await do(root, "run", command="kill -9 $PPID; true")  # a new shell has the way out too
        return await do(root, "run", command=read(f"http://{site.place}/page.txt"))

    async for bench in bench_of(Reach((site.place,)), tmp_path, *both):
        assert await drive(bench, main) == "from the site"
    assert site.asked == ["/page.txt", "/page.txt"] and other.asked == []


async def test_without_hosts_it_fails_at_once_with_a_sentence(tmp_path: Path) -> None:
    async def main(root: BranchContext[Any]) -> str:
        return await do(root, "run", command="python3 -m pip download nothing-like-this 2>&1 | tail -3")

    async for bench in bench_of(Reach(), tmp_path):
        said = await drive(bench, main)
        assert "[commands have no network here but for the hosts that terminal.hosts names: none]" in said, said


def test_such_a_command_is_once_tagged_and_not_asked_about(tmp_path: Path) -> None:
    command = {"command": "pip install x"}
    page = (Provenance(kind="page", ref="http://b.example", trust=Trust.UNTRUSTED),)
    policy, view = DefaultPolicy(folder=tmp_path), PolicyView(user_content=("Mend it.",))
    allowed = action_effect(terminal(Reach(("packages.example",))), "run", command, provenance=page)
    assert allowed.mode is Mode.ONCE and Tag.NETWORK in allowed.tags
    assert policy.decide(allowed, view).action == "allow"
    whole = action_effect(Terminal(sandbox=SANDBOX, network=True), "run", command, provenance=page)
    assert policy.decide(whole, view).action == "ask"


def test_pip_without_an_index_of_its_own_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentorchestra.environments.terminal.network._PIP_FILES", (str(tmp_path / "none"),))
    with pytest.raises(
        SettingsError, match="pip has no index of its own on this machine: set one with `pip config set"
    ):
        reach_of(("pip",), {})


def test_pip_and_apt_are_reached_where_this_machine_reaches_them(tmp_path: Path) -> None:
    found = reach_of(("pip",), {"PIP_INDEX_URL": "https://me:secret@pip.example.org/simple"})
    assert found.hosts[0] == "pip.example.org:443" and found.private[0] == "pip.example.org:443"
    assert found.environment["PIP_INDEX_URL"] == "https://pip.example.org/simple" and "secret" not in str(found)
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("# deb http://old.example/ x\ndeb http://deb.example.org/debian y main\n")
    (tmp_path / "sources.list.d/a.sources").write_text("Types: deb\nURIs: https://more.example.org/debian\n")
    (tmp_path / "sources.list.d/b.disabled").write_text("deb http://no.example/ x\n")
    assert _apt_hosts(tmp_path) == ["deb.example.org", "more.example.org"]
    with pytest.raises(SettingsError, match=r"terminal\.hosts holds 'no host', which is no host"):
        TerminalProxy(Reach(("no host",)), WebSettings())


@pytest.mark.long
async def test_other_backends_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match=r"terminal\.hosts needs the sandbox bubblewrap, and this"):
        await shell_in(UnsafeLocal(), tmp_path, gate=Gate(tmp_path / "proxy"))
    image = write_image(tmp_path / "image")
    machine = base_for(TerminalSettings(image=str(image)), tmp_path / "images").machine(tmp_path / "layer")
    with pytest.raises(SandboxUnavailableError, match=r"terminal\.image needs the sandbox bubblewrap, and this"):
        await shell_in(UnsafeLocal(), tmp_path, machine=machine)


@pytest.mark.long
async def test_pip_installs_into_a_virtual_environment(site: Site, tmp_path: Path) -> None:
    index = site.folder / "simple" / "small"
    index.mkdir(parents=True)
    with zipfile.ZipFile(index / "small-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small.py", "print('installed')\n")
        wheel.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        wheel.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("small-1.0.dist-info/RECORD", "")
    (index / "index.html").write_text('<a href="small-1.0-py3-none-any.whl">small</a>')
    reach = reach_of(("pip",), {"PIP_INDEX_URL": f"http://{site.place}/simple"})

    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command="unset no_proxy NO_PROXY; python3 -m venv --without-pip ~/v")
        pip = "python3 -m pip --python ~/v/bin/python install -q --trusted-host 127.0.0.1 small"
        said = await do(root, "run", command=pip)
        assert "rror" not in said, said
        return await do(root, "run", command="~/v/bin/python -c 'import small'")

    async for bench in bench_of(reach, tmp_path):
        assert await drive(bench, main) == "installed"


@pytest.mark.long
async def test_the_way_out_is_there_over_an_image_too(site: Site, tmp_path: Path) -> None:
    image = str(write_image(tmp_path / "image"))

    async def main(root: BranchContext[Any]) -> str:
        asked = f"echo -e 'GET http://{site.place}/page.txt HTTP/1.1\\r\\nHost: x\\r\\n\\r' >&3"
        return await do(root, "run", command=f"exec 3<>/dev/tcp/127.0.0.1/3128; {asked}; cat <&3")

    async for bench in bench_of(Reach((site.place,)), tmp_path, site.place, image=image):
        assert (await drive(bench, main)).endswith("from the site")
