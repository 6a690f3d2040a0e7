"""Control groups: the kernel holds memory and number of the processes of a sandbox, where groups can be made."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.cli.commands import doctor
from agentorchestra.sandbox import Sandbox, SandboxLimits, cgroup
from agentorchestra.sandbox.base import MIB
from agentorchestra.sandbox.cgroup import ControlGroup, Group, new_group, parent_group
from agentorchestra.sandbox.driver import SupervisorPaths
from tests.sandbox.support import run
from tests.support.patience import LONGEST_S

FORKS = """
import os, time
made, pids = 0, []
try:
    while made < 60:
        pids.append(os.fork())
        if not pids[-1]: time.sleep(60); os._exit(0)
        made += 1
except OSError: pass
print(made, flush=True)
for pid in pids: os.kill(pid, 9)
for pid in pids: os.wait()
"""


def needed(controller: Any) -> None:
    if parent_group(controller) is None:
        pytest.skip(f"no control group that counts {controller} can be made here")


def test_the_number_of_processes_is_held_by_the_kernel() -> None:
    needed("pids")
    command = [sys.executable, "-c", FORKS]
    outside = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)
    assert int(outside.stdout) == 60
    group = new_group(64 * MIB, 10)
    assert group is not None
    inside = subprocess.run(group.inside(command), capture_output=True, text=True, check=False, start_new_session=True)
    paths = [one.path for one in group.places.values()]
    group.remove()
    assert 0 < int(inside.stdout) < 20, inside
    assert not any(path.exists() for path in paths)


async def test_a_sandbox_has_so_many_processes_without_a_limit_of_its_user(
    bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("pids")
    asked: list[Group] = []

    def noted(memory: int, processes: int) -> Group | None:
        asked.append(new_group(memory, processes) or pytest.fail("no group"))
        return asked[-1]

    monkeypatch.setattr("agentorchestra.sandbox.bubblewrap.new_group", noted)
    # As where the kernel counts another number for the user: the supervisor sets none.
    monkeypatch.setattr("agentorchestra.sandbox.bubblewrap.SupervisorPaths", partial(SupervisorPaths, own_user=False))
    ran = await run(bubblewrap, FORKS, SandboxLimits(seconds=LONGEST_S, processes=20))
    made = int(ran.stdout)
    assert 0 < made < 30, ran
    assert asked[0].places["pids"].path.name.startswith("agentorchestra-")


async def test_without_groups_the_limit_of_the_user_holds(bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentorchestra.sandbox.bubblewrap.new_group", lambda *_: None)
    ran = await run(bubblewrap, FORKS, SandboxLimits(seconds=LONGEST_S, processes=20))
    assert 0 < int(ran.stdout) < 30, ran


def test_a_process_is_in_one_group_of_version_2_and_in_one_of_each_kind_of_version_1() -> None:
    one, other = ControlGroup(Path("/one"), 2), ControlGroup(Path("/other"), 2)
    group = Group({"memory": ControlGroup(Path("/one/x"), 2)})
    assert group.elsewhere(other) and not group.elsewhere(one)
    assert not Group({"memory": ControlGroup(Path("/one/x"), 1)}).elsewhere(ControlGroup(Path("/other"), 1))
    unified, memory, pids = ControlGroup(Path("/a"), 2), ControlGroup(Path("/a"), 1), ControlGroup(Path("/b"), 1)
    assert Group({"memory": unified, "pids": unified}).inside(["x"])[3:] == ["/a", "x"]
    assert Group({"memory": memory, "pids": pids}).inside(["x"])[3:] == ["/a", "/b", "x"]


@pytest.mark.parametrize("there", [True, False])
def test_doctor_says_who_holds_the_limits(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "parent_group", lambda _: ControlGroup(Path("/x"), 2) if there else None)
    memory, processes = doctor._limits("bubblewrap")
    if there:
        assert [memory.detail, processes.detail] == ["held by the kernel (control groups, version 2)"] * 2
    else:
        assert memory.detail.startswith("added up 20 times a second")
        assert processes.detail == (
            "held for the user that each sandbox has (RLIMIT_NPROC): no control group can be made here"
        )
        assert processes.hint == "a unit to which pids is delegated has one"
