"""The terminal's machine: what commands write outside of the folder lives on, over this host's /usr or an image."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.environments.gits import SANDBOX
from tests.environments.test_terminal import LIMITS, act, do, drive
from tests.runtime.support import Bench
from tests.sandbox.images import write_image

from agentorchestra.core.errors import ImageError, SandboxUnavailableError, SettingsError
from agentorchestra.core.settings import FolderSettings, Settings, TerminalCopy, TerminalMount, TerminalSettings
from agentorchestra.environments.base import Base, base_for
from agentorchestra.environments.manifest import FolderLimits
from agentorchestra.environments.terminal.environment import Terminal
from agentorchestra.log.folders import world_folder
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.sandbox.shell_driver import World
from agentorchestra.workspace import Workspace

pytestmark = pytest.mark.skipif(
    getattr(SANDBOX, "name", "") != "bubblewrap", reason="machines need bubblewrap (apt-get install bubblewrap)"
)


def terminal(base: Base) -> Callable[[], Terminal]:
    def make() -> Terminal:
        made = Terminal(sandbox=SANDBOX, limits=LIMITS)
        made.base = base
        return made

    return make


async def bench_on(base: Base, folder: Path) -> AsyncIterator[Bench]:
    store = MemoryStore()
    await store.open()
    made = Bench(store, {}, environments={"terminal": terminal(base)}, folder=folder)
    await made.create()
    yield made
    await store.close()


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Bench]:
    async for made in bench_on(base_for(TerminalSettings(), tmp_path / "images"), tmp_path):
        yield made


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image(tmp_path_factory.mktemp("image"), form="docker.tar")


@pytest.fixture
async def small(image: Path, tmp_path: Path) -> AsyncIterator[Bench]:
    async for made in bench_on(base_for(TerminalSettings(image=str(image)), tmp_path / "images"), tmp_path):
        yield made


MADE = "mkdir ~/x /opt/tool; echo kept >~/x/f; ln -s ../x/f ~/x/l; chmod 750 /opt/tool; echo t >/tmp/t; echo w >w"
LOOK = "cat ~/x/l /tmp/t w; stat -c %a /opt/tool; cd /workspace && cat w"
SEEN = "kept\nt\nw\n750\nw"


async def test_what_lies_outside_the_folder_lives_on_and_in_a_resume(host: Bench, tmp_path: Path) -> None:
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        assert await do(root, "run", command=MADE) == "(no output)"
        assert await do(root, "run", command=LOOK) == SEEN
        await do(
            root, "run", command="cd /work; python3 -m venv --without-pip ~/v; ~/v/bin/python -c 'import numpy'; true"
        )
        if crash:
            raise RuntimeError("the process ends here")
        assert await do(root, "run", command=LOOK) == SEEN
        said = await do(root, "run", command="~/v/bin/python -c 'import sys; print(sys.prefix)'; whoami; touch /usr/x")
        return said

    assert (await host.drive(main)).error is not None
    layer = world_folder(tmp_path / "run_test", "main") / "layer"
    (layer / "home/agent/x/f").write_text("changed by nobody that was recorded")
    (layer / "tmp/more").write_text("left")
    crash = False
    said = await drive(host, main)
    assert said.startswith("/home/agent/v\nagent\ntouch: cannot touch '/usr/x'"), said
    assert (layer / "home/agent/x/f").read_text() == "kept\n" and not (layer / "tmp/more").exists()
    assert await host.replay(main) is not None


async def test_rivals_have_machines_of_their_own(host: Bench, tmp_path: Path) -> None:
    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command=MADE)
        left, right = root.candidates(2)

        async def go(ctx: BranchContext[Any], name: str) -> str:
            return await do(ctx, "run", command=f"echo {name} >>~/x/f; rm /tmp/t; cat ~/x/f; ls /tmp")

        seen = await root.rivals([lambda: go(left, "left"), lambda: go(right, "right")])
        assert seen == ["kept\nleft", "kept\nright"]
        await root.adopt(right)
        return await do(root, "run", command="cat ~/x/f; ls /tmp")

    assert await drive(host, main) == "kept\nright"


async def test_links_that_commands_leave_lead_nobody_out(host: Bench, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir(mode=0o777)

    async def main(root: BranchContext[Any]) -> str:
        await do(
            root, "run", command=f"rm -rf ~; ln -s {tmp_path}/outside /home/agent; ln -s {tmp_path}/outside /tmp/o"
        )
        await do(root, "run", command="exit 1")
        left = root.candidates(1)[0]  # a new machine, made from a snapshot with these links
        return await do(left, "run", command="kill -9 $PPID; true") + await do(
            left, "run", command="readlink /home/agent"
        )

    assert str(tmp_path / "outside") in await drive(host, main)
    assert [*(tmp_path / "outside").iterdir()] == []


async def test_an_image_is_the_root_and_what_changes_in_it_is_kept(small: Bench, tmp_path: Path) -> None:
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        seen = await do(root, "run", command="pwd; id -u; ls; cat /etc/motd /etc/os-release; echo $GREETING; ./run.sh")
        assert seen == (
            '/app\n0\nmotd\nold\nrun.sh\nsame.sh\ntask.txt\nfrom the image\nNAME="Small"\nhello\nfrom the image'
        ), seen
        changes = (
            "rm /etc/motd; rm -r /root; mkdir /root; touch /root/new; echo x >>/etc/os-release; chmod 700 /usr/lib"
        )
        await do(root, "run", command=f"{changes}; ln -s /etc/os-release /link; rm task.txt; echo solved >answer")
        if crash:
            raise RuntimeError("the process ends here")
        look = "ls /etc /root; stat -c %a /usr/lib; cat /link; ls; cat answer"
        return await do(root, "run", command=look)

    assert (await small.drive(main)).error is not None
    layer = world_folder(tmp_path / "run_test", "main") / "layer"
    whiteout = (layer / "etc/motd").lstat()
    assert whiteout.st_rdev == 0 and os.getxattr(layer / "root", "user.overlay.opaque") == b"y"
    (layer / "etc/motd").unlink()
    os.removexattr(layer / "root", "user.overlay.opaque")
    crash = False
    assert await drive(small, main) == (
        '/etc:\nhosts\nos-release\npasswd\n\n/root:\nnew\n700\nNAME="Small"\nx\nanswer\nmotd\nold\nrun.sh\nsame.sh\nsolved'
    )
    assert os.getxattr(layer / "root", "user.overlay.opaque") == b"y"


async def test_another_base_is_a_lost_environment(small: Bench, image: Path, tmp_path: Path) -> None:
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command="touch /new")
        if crash:
            raise RuntimeError("the process ends here")
        outcome = await root.perform(act("run", command="true"))
        return f"{outcome.status}: {outcome.error}"

    await small.drive(main)
    crash = False
    small.services.environments["terminal"] = terminal(base_for(TerminalSettings(), tmp_path / "images"))  # type: ignore[index]
    said = await drive(small, main)
    assert said.startswith("environment_lost: the machine of this run lay on 'image "), said
    assert said.endswith("set terminal.image as it was, or start a new run")


async def test_a_machine_that_is_filled_is_ended_and_can_be_emptied(image: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    base = base_for(TerminalSettings(image=str(image)), tmp_path / "images")

    def make() -> Terminal:
        made = Terminal(sandbox=SANDBOX, limits=replace(LIMITS, work_bytes=24 << 20))
        made.base, made.limits = base, FolderLimits(bytes=24 << 20)
        return made

    store = MemoryStore()
    await store.open()
    bench = Bench(store, {}, environments={"terminal": make}, folder=tmp_path)
    await bench.create()

    async def main(root: BranchContext[Any]) -> str:
        fill = "for n in 1 2 3 4 5 6 7 8 9; do head -c 4000000 /dev/zero >/big$n; sleep 0.2; done; sleep 20"
        assert "MiB; at most 24 are allowed" in await do(root, "run", command=fill)
        await do(root, "run", command="rm /big*")
        return await do(root, "run", command="ls /app/task.txt")

    assert await drive(bench, main) == "/app/task.txt"
    await store.close()


async def test_a_file_too_large_for_a_snapshot_is_named_and_the_output_is_there(tmp_path: Path) -> None:
    settings = Settings(model="offline", folder=FolderSettings(max_file_mib=1))
    async with Workspace(tmp_path, settings=settings) as ws:

        async def run(command: str) -> str:
            outcome = await ws.ecp.invoke("terminal", "run", {"command": command})
            assert outcome.ok, outcome.error
            return str(outcome.value)

        said = await run("head -c 2000000 /dev/zero >large; echo printed")
        assert said.startswith(
            "printed\n[large has 2,000,000 bytes; files of more than 1,048,576 bytes are in no snapshot"
        )
        assert await run("wc -c <large") == "2000000"


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"image": "/nowhere.tar"}, ImageError, "'/nowhere.tar' does not exist"),
        ({"workdir": "/usr/app"}, SettingsError, "commands cannot work in '/usr/app'"),
        ({"workdir": "/home/app"}, SettingsError, "commands cannot work in '/home/app'"),
        ({"image": "IMAGE", "copies": [{"source": "/etc"}]}, SettingsError, "without terminal.image"),
        ({"copies": [{"source": "a", "to": "../a"}]}, SettingsError, "has to = '../a', which leads out"),
        ({"image": "IMAGE", "workdir": "/proc/x"}, SettingsError, "commands cannot work in '/proc/x'"),
        ({"image": "IMAGE", "workdir": "app"}, SettingsError, "commands cannot work in 'app'"),
    ],
    ids=str,
)
def test_a_machine_that_cannot_be_is_refused(
    given: dict[str, Any], error: type[Exception], sentence: str, image: Path, tmp_path: Path
) -> None:
    given = {name: str(image) if value == "IMAGE" else value for name, value in given.items()}
    with pytest.raises(error, match=sentence):
        base_for(TerminalSettings(**given), tmp_path)


async def test_a_folder_seen_elsewhere_begins_with_copies_and_needs_bubblewrap(tmp_path: Path) -> None:
    (tmp_path / "given/b").mkdir(parents=True)
    (tmp_path / "given/a").write_text("a")
    copies = (TerminalCopy(source=f"{tmp_path}/given"), TerminalCopy(source=f"{tmp_path}/given/a", to="c/d"))
    base = base_for(TerminalSettings(workdir="/srv/app", copies=copies), tmp_path)
    async for made in bench_on(base, tmp_path / "ws"):

        async def main(root: BranchContext[Any]) -> str:
            return await do(root, "run", command="find | sort; pwd; cd /workspace; pwd -P; ls -ld /srv")

        said = (await drive(made, main)).splitlines()
    assert said[:-1] == [".", "./a", "./b", "./c", "./c/d", "/srv/app", "/srv/app"]
    assert said[-1].startswith("drwxr-xr-x")
    (tmp_path / "given/b/l").symlink_to("/etc")
    for source, sentence in ((f"{tmp_path}/none", "does not exist; put it there"), (f"{tmp_path}/given", "is a link")):
        with pytest.raises(SettingsError, match=sentence):
            base_for(TerminalSettings(copies=(TerminalCopy(source=source),)), tmp_path)
    world = World(tmp_path, LIMITS, machine=base.machine(tmp_path / "layer"))
    with pytest.raises(SandboxUnavailableError, match=r"terminal\.workdir needs the sandbox bubblewrap"):
        world.without_machine("docker")


async def test_mounts_are_seen_and_a_writable_one_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_text("given")
    mount = TerminalMount(folder=str(tmp_path / "data"), inside="/data")
    settings = Settings(model="offline", terminal=TerminalSettings(mounts=(mount,)))
    async with Workspace(tmp_path / "ws", settings=settings) as ws:
        outcome = await ws.ecp.invoke("terminal", "run", {"command": "cat /data/a; touch /data/b"})
        assert str(outcome.value).startswith("giventouch: cannot touch '/data/b'"), outcome
    gone = TerminalSettings(mounts=(mount.model_copy(update={"folder": str(tmp_path / "gone")}),))
    async with Workspace(tmp_path / "ws", settings=Settings(model="offline", terminal=gone)) as ws:
        with pytest.raises(SettingsError, match="which is no folder; make it first"):
            await ws.ecp.invoke("terminal", "run", {"command": "true"})
    assert Terminal(sandbox=SANDBOX).repeatable("run")


@pytest.mark.long
async def test_twenty_worlds_work_at_the_same_time(small: Bench) -> None:
    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command="echo before >/kept")
        rivals = root.candidates(20)

        async def go(ctx: BranchContext[Any], number: int) -> str:
            await do(ctx, "run", command=f"echo {number} >>/kept")
            await asyncio.sleep(0)
            return await do(ctx, "run", command="cat /kept")

        return " ".join(
            "".join(one.split("\n")[1:])
            for one in await root.rivals([lambda s=one, n=n: go(s, n) for n, one in enumerate(rivals)])  # type: ignore[misc]
        )

    assert await drive(small, main) == " ".join(str(number) for number in range(20))
