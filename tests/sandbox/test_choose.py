"""Which sandbox the settings mean: names, entry points, the first that works, and none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentorchestra.core.errors import SandboxUnavailableError, SettingsError
from agentorchestra.core.settings import SandboxSettings
from agentorchestra.sandbox import HostCall, Program, Ran, SandboxLimits
from agentorchestra.sandbox.base import MIB
from agentorchestra.sandbox.bubblewrap import Bubblewrap
from agentorchestra.sandbox.docker import Docker
from agentorchestra.sandbox.factory import AnySandbox, limits_for, sandbox_for, shell_in
from agentorchestra.sandbox.libraries import library_paths
from agentorchestra.sandbox.local import UnsafeLocal

REMOTE = """
from agentorchestra.sandbox.local import UnsafeLocal


class Remote(UnsafeLocal):
    name, safe = "far-away", True

    def __init__(self, settings):
        self.settings = settings


def broken(settings):
    return "no sandbox"
"""


class Missing:
    """A backend that cannot be used here."""

    def __init__(self, why: str) -> None:
        self.name, self.safe, self.why = "missing", True, why

    async def problem(self) -> str:
        return self.why

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
        raise AssertionError("it must not be asked")

    async def aclose(self) -> None:
        pass


def test_by_name() -> None:
    assert isinstance(sandbox_for(SandboxSettings()), AnySandbox)
    assert isinstance(sandbox_for(SandboxSettings(backend="bubblewrap")), Bubblewrap)
    assert isinstance(sandbox_for(SandboxSettings(backend="docker")), Docker)
    unsafe = sandbox_for(SandboxSettings(backend="unsafe-local"))
    assert isinstance(unsafe, UnsafeLocal) and not unsafe.safe
    assert sandbox_for(SandboxSettings(backend="none")) is None


def test_a_name_that_nothing_has() -> None:
    with pytest.raises(SettingsError, match=r"sandbox.backend is 'dokcer'; it can be one of: auto, bubblewrap, docker"):
        sandbox_for(SandboxSettings(backend="dokcer"))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that brings two backends."""
    (tmp_path / "far_away.py").write_text(REMOTE)
    metadata = tmp_path / "far_away-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: far-away\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[agentorchestra.sandboxes]\nfar-away = far_away:Remote\nbroken = far_away:broken\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "far_away", raising=False)


@pytest.mark.usefixtures("installed")
async def test_a_backend_of_another_distribution() -> None:
    chosen = sandbox_for(SandboxSettings(backend="far-away", timeout_s=7))
    assert chosen is not None and chosen.name == "far-away"
    ran = await chosen.run(Program("python", "6 * 7"), SandboxLimits())
    assert ran.stdout == "42\n"
    with pytest.raises(SettingsError, match=r"the entry point 'broken' of agentorchestra.sandboxes gave 'no sandbox'"):
        sandbox_for(SandboxSettings(backend="broken"))


async def test_the_first_that_works_is_used() -> None:
    chosen = AnySandbox((Missing("the first is not installed"), UnsafeLocal()))
    assert chosen.name == "auto"
    assert await chosen.problem() == ""
    assert chosen.name == "unsafe-local"


async def test_where_none_works_nothing_runs() -> None:
    chosen = AnySandbox((Missing("the first is not installed"), Missing("the second does not answer")))
    said = "there is no sandbox here: the first is not installed; or the second does not answer"
    with pytest.raises(SandboxUnavailableError, match=said):
        await chosen.run(Program("bash", "echo"), SandboxLimits())


async def test_shells_of_the_one_that_is_used(tmp_path: Path) -> None:
    chosen = AnySandbox((Missing("the first is not installed"), UnsafeLocal()))
    shell = await chosen.shell(tmp_path)
    assert (await shell.run("echo here; pwd")).stdout == f"here\n{tmp_path}\n"
    await shell.close()
    with pytest.raises(SandboxUnavailableError, match="there is no sandbox here: the first is not installed"):
        await AnySandbox((Missing("the first is not installed"),)).shell(tmp_path)
    said = "the sandbox 'missing' has no shells; set sandbox.backend to bubblewrap or docker"
    with pytest.raises(SandboxUnavailableError, match=said):
        await shell_in(Missing(""), tmp_path)


def test_limits() -> None:
    limits = limits_for(SandboxSettings(timeout_s=5, memory_mib=100, processes=9, files_mib=20))
    assert (limits.seconds, limits.cpu_seconds, limits.processes) == (5, 11, 9)
    assert (limits.memory_bytes, limits.work_bytes) == (100 * MIB, 20 * MIB)


def test_libraries_with_all_they_require_and_nothing_else() -> None:
    found, missing = library_paths(("pandas", "no-such-distribution"))
    assert missing == ("no-such-distribution",)
    assert {"pandas", "numpy", "dateutil", "six.py"} <= set(found)
    assert not {"pydantic", "openai", "pytest", "agentorchestra"} & set(found)
    assert all(path.exists() for path in found.values())
