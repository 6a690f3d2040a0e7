"""A worker on a machine of its own (a network namespace), whose cable is cut: nothing is closed, nothing arrives."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentorchestra.core.spec import RunStatus
from tests.chaos.support import until
from tests.cluster.support import Model, Site
from tests.cluster.test_many import Proxy
from tests.cluster.test_stopped import DAY_S, LOST
from tests.postgres import NAME, PASSWORD, USER, postgres

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]  # many processes, on a machine that may be busy


def ip(*words: str) -> None:
    """Call `ip`; its complaint is the error."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Machine:
    """A network namespace at the other end of a cable."""

    def __init__(self) -> None:
        number = os.getpid() % 60_000
        self.name = f"ao-{number}"
        net = f"10.{77 + number // 16_000}.{number // 64 % 250}.{number % 64 * 4}"
        base, _, last = net.rpartition(".")
        self.here, self.there = f"{base}.{int(last) + 1}", f"{base}.{int(last) + 2}"
        self._cable = f"ao{number}"

    def lay(self) -> None:
        """Make the namespace and the cable to it."""
        ip("netns", "add", self.name)
        ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("address", "add", f"{self.here}/30", "dev", self._cable)
        ip("link", "set", self._cable, "up")
        ip("-n", self.name, "address", "add", f"{self.there}/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", self.name, "link", "set", device, "up")

    def cut(self) -> None:
        """Pull the cable."""
        ip("-n", self.name, "link", "set", "eth0", "down")

    def mend(self) -> None:
        """Put it back."""
        ip("-n", self.name, "link", "set", "eth0", "up")

    def remove(self) -> None:
        """Remove the namespace; the cable goes with it."""
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self._cable], capture_output=True, check=False)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Another machine, where this user may make one."""
    if shutil.which("ip") is None:
        sentence = "`ip` is not installed: scripts/setup-system.sh (Debian: iproute2)"
        if os.geteuid() == 0 and Path("/etc/debian_version").exists():
            pytest.fail(sentence)
        pytest.skip(sentence)
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces, and these tests do not run as root")
    made = Machine()
    try:
        made.lay()
    except RuntimeError as exc:
        made.remove()
        pytest.skip(f"no network namespace can be made here: {exc}")
    yield made
    made.remove()


class Reached(Model):
    """A model whose server is reached over the cable too."""

    address = ""

    @property
    def base_url(self) -> str:
        """The address for a profile."""
        return self.address or super().base_url


async def test_a_worker_whose_cable_is_cut_is_followed_and_fenced(tmp_path: Path, machine: Machine) -> None:
    with postgres(settings=(f"listen_addresses='127.0.0.1,{machine.here}'",)) as server:
        with (server.data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {machine.there}/32 scram-sha-256\n")
        server.sql("SELECT pg_reload_conf()")
        async with Reached() as model:
            model.hold = {1}
            at = int(model.base_url.split(":")[2].partition("/")[0])
            proxy = Proxy(at, machine.here)
            async with proxy.running():
                model.address = model.base_url.replace(f"127.0.0.1:{at}", f"{machine.here}:{proxy.port}")
                async with Site(tmp_path / "site", model, server.url, "cable", ("lease_s = 86400",)) as site:
                    await followed(site, model, machine, server.port)


async def followed(site: Site, model: Model, machine: Machine, port: int) -> None:
    """Cut the cable of the worker that drives a run, and put it back when another one has ended the run."""
    password = PASSWORD.replace("/", "%2F").replace("@", "%40")
    over = {"AGENTORCHESTRA_DATABASE": f"postgresql://{USER}:{password}@{machine.here}:{port}/{NAME}"}
    here, site.python = site.python, ("ip", "netns", "exec", machine.name, sys.executable)
    first = await site.worker(environ=over)
    site.python = here
    (run_id,) = await site.submit([1])
    await until(lambda: model.held[1] == 2, first)
    second = await site.worker()
    model.hold = set()
    machine.cut()
    await site.silent(first, DAY_S)
    await site.reached(RunStatus.COMPLETED, [run_id])
    before = await site.ws.log.events(run_id)
    assert first.poll() is None, "it waits for its database"
    machine.mend()
    model.release.set()
    _, said = await asyncio.to_thread(first.communicate)
    assert first.returncode == 1 and LOST in said and "Traceback" not in said, said
    assert await site.ws.log.events(run_id) == before
    assert site.notes() == {"left-1": 1, "right-1": 1, "top-1": 1}
    assert second.poll() is None
