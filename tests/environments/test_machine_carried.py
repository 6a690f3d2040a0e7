"""A machine on its way: bundles, forks and rivals take along what a run has changed outside of its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.environments.gits import SANDBOX
from tests.environments.test_machine import bench_on
from tests.environments.test_terminal import do, drive
from tests.sandbox.images import write_image
from tests.systems.support import seen

from agentorchestra.core.settings import Settings, TerminalSettings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.environments.base import base_for
from agentorchestra.log.folders import world_folder
from agentorchestra.log.retention import Retention
from agentorchestra.runtime.context import BranchContext
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

pytestmark = pytest.mark.skipif(
    getattr(SANDBOX, "name", "") != "bubblewrap", reason="machines need bubblewrap (apt-get install bubblewrap)"
)

CHANGES = {
    "host": (
        "mkdir -p /opt/tool/bin ~/closed; echo tool >/opt/tool/bin/tool; chmod 4750 /opt/tool/bin/tool; "
        "ln -s bin/tool /opt/tool/link; ln -s nowhere ~/dangling; echo s >~/closed/s; chmod 500 ~/closed; "
        "chmod 2770 /opt/tool; touch -d @86400 /tmp/old; rm ~/.local/lib/*/site-packages/*.pth; echo w >w"
    ),
    "image": (
        "rm /etc/motd; rm -r /root; mkdir /root; touch /root/new; chmod 4700 /usr/bin/cat; chmod 2711 /usr/lib; "
        "ln -s /etc/os-release /link; mkdir /opt; ln -s nowhere /opt/dangling; echo x >>/etc/os-release; "
        "ln /etc/os-release /etc/other; touch -d @86400 /tmp/old; rm task.txt; echo w >w"
    ),
}
LOOK = {
    "host": (
        "cd /; stat -c '%A %N' /opt/tool /opt/tool/* /opt/tool/bin/* ~/dangling ~/closed; cat ~/closed/s "
        "/opt/tool/link; stat -c %Y /tmp/old; ls ~/.local/lib/*/site-packages; cat /work/w"
    ),
    "image": (
        "stat -c '%A %N' /usr/bin/cat /usr/lib /link /opt/dangling; ls -A /etc /root /app; cat /link /etc/other;"
        " stat -c %Y /tmp/old; cat w"
    ),
}
OTHER = {"host": "image", "image": "host"}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"host": "", "image": str(write_image(tmp_path_factory.mktemp("image"), form="docker.tar"))}


def workspace(folder: Path, image: str, steps: list[Any]) -> tuple[Workspace[None], ScriptedModel]:
    model = ScriptedModel(steps, name="hand")
    settings = Settings(model="hand", system="react", terminal=TerminalSettings(image=image))
    return Workspace(folder, models={"hand": model}, settings=settings), model


def run(command: str) -> Any:
    return decide(calls=[call("terminal_run", command=command)])


def done() -> Any:
    return decide(calls=[call("done", answer="done")])


def shown(model: ScriptedModel) -> str:
    """What the last command gave."""
    return [one.text for one in model.requests[-1].messages if one.role == "tool"][-1]


async def changed(folder: Path, kind: str, images: dict[str, str]) -> tuple[RunResult, str, int]:
    """A run that changes its machine and looks at it: its result, what it saw, and the event of the change."""
    ws, model = workspace(folder, images[kind], [run(CHANGES[kind]), run(LOOK[kind]), run("rm -rf /tmp/*"), done()])
    async with ws:
        result = await ws.run("change it", environments=["terminal"])
        assert result.status is RunStatus.COMPLETED, result.error
        said = [one.text for one in model.requests[-1].messages if one.role == "tool"]
        assert "(no output)" in said[0], said[0]
        events = await ws.log.events(result.run_id)
        first = next(e for e in events if e.body and "env:folder" in e.body.get("outcome", {}).get("writes", {}))
        await ws.log.export(result.run_id, folder.parent / f"{kind}.zip")
        return result, said[1], first.seq


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["host", "image"])
async def test_a_bundle_and_a_fork_take_the_machine_along(kind: str, images: dict[str, str], tmp_path: Path) -> None:
    result, looked, at = await changed(tmp_path / "here", kind, images)
    ws, model = workspace(tmp_path / "there", images[kind], [run(LOOK[kind]), done()])
    async with ws:
        await ws.log.import_file(tmp_path / f"{kind}.zip")
        assert (await ws.replay(result.run_id)).answer == "done"
        forked = await ws.fork(result.run_id, at=at)
        again = await ws.resume(forked)
        assert again.status is RunStatus.COMPLETED, again.error
        assert shown(model) == looked
        layer = world_folder(ws.files.root / forked, "main") / "layer"
        if kind == "image":
            assert (layer / "etc/motd").lstat().st_rdev == 0 and (layer / "etc/motd").is_char_device()
            assert os.getxattr(layer / "root", "user.overlay.opaque") == b"y"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["host", "image"])
async def test_on_another_base_a_bundle_says_that_its_machine_is_lost(
    kind: str, images: dict[str, str], tmp_path: Path
) -> None:
    result, _, at = await changed(tmp_path / "here", kind, images)

    def look(request: Any) -> Any:
        said = seen(request)
        assert "the machine of this run lay on" in said, said
        assert "set terminal.image as it was, or start a new run" in said
        return done()

    ws, _ = workspace(tmp_path / "there", images[OTHER[kind]], [run(LOOK[kind]), look])
    async with ws:
        await ws.log.import_file(tmp_path / f"{kind}.zip")
        again = await ws.resume(await ws.fork(result.run_id, at=at))
        assert again.status is RunStatus.COMPLETED, again.error


async def test_a_winner_brings_what_it_hid_and_linked_in_an_image(images: dict[str, str], tmp_path: Path) -> None:
    base = base_for(TerminalSettings(image=images["image"]), tmp_path / "images")

    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command="rm -r old; ln -s /etc/passwd /etc/users")
        left, right = root.candidates(2)

        async def go(ctx: BranchContext[Any], name: str) -> None:
            await do(ctx, "run", command=f"rm /etc/motd /etc/passwd; ln -s {name} /etc/motd; rm -r /root")

        await root.rivals([lambda: go(left, "left"), lambda: go(right, "right")])
        await root.adopt(right)
        return await do(root, "run", command="ls -d old /root /etc/passwd; readlink /etc/motd /etc/users")

    async for made in bench_on(base, tmp_path):
        said = (await drive(made, main)).splitlines()
    assert [one.endswith("No such file or directory") for one in said] == [True] * 3 + [False] * 2
    assert said[3:] == ["right", "/etc/passwd"]
    layer = world_folder(tmp_path / "run_test", "main") / "layer"
    assert (layer / "root").is_char_device() and (layer / "etc/passwd").is_char_device()


async def test_an_unpacked_image_goes_with_the_last_run_that_lies_on_it(images: dict[str, str], tmp_path: Path) -> None:
    step = [run("echo x >/new"), done()]
    ws, _ = workspace(tmp_path / "ws", images["image"], [*step, *step])
    async with ws:
        first = await ws.run("work", environments=["terminal"])
        second = await ws.run("work", environments=["terminal"])
        (unpacked,) = (tmp_path / "ws/images").iterdir()
        (unpacked / "app").chmod(0o500)
        for one in (tmp_path / "ws/images/.unpacking-left", unpacked):  # by a process that was killed, and long ago
            one.mkdir(exist_ok=True)
            os.utime(one, (0, 0))
        assert (await ws.log.gc(dry_run=True)).images == 1
        assert (await ws.log.gc()).images == 1 and [*(tmp_path / "ws/images").iterdir()] == [unpacked]
        collected = await ws.log.gc(Retention(keep=1), grace_s=0)
        assert (collected.runs, collected.images) == ((first.run_id,), 0)
        again = await ws.log.gc(Retention(keep=0), grace_s=0, dry_run=True)
        assert (again.runs, again.images) == ((second.run_id,), 1) and unpacked.is_dir()
        assert (await ws.log.gc(Retention(keep=0))).images == 1 and [*(tmp_path / "ws/images").iterdir()] == []
