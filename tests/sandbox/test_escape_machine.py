"""The attempts of `attempts.py` again, as commands of a shell: over this host, over an image, both with a gate."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentorchestra.core.settings import TerminalSettings, WebSettings
from agentorchestra.environments.base import base_for
from agentorchestra.environments.terminal.network import Reach, TerminalProxy
from agentorchestra.sandbox.ground import IMAGE_USER, chooses_users
from agentorchestra.sandbox.shell import ShellSandbox
from tests.sandbox.attempts import ATTEMPTS, Attempt
from tests.sandbox.images import libraries, system, write_image
from tests.sandbox.world import BEGAN, World, world

PYTHON = Path("/usr/bin/python3").resolve()
LIBRARY = Path("/usr/lib") / PYTHON.name


def _python(tar: tarfile.TarFile) -> None:
    """Add Debian's Python."""
    tar.add(PYTHON, "usr/bin/python3")
    tar.add(LIBRARY, f"usr/lib/{LIBRARY.name}", filter=lambda one: None if "__pycache__" in one.name else one)
    libraries(tar, [PYTHON, *(LIBRARY / "lib-dynload").glob("*.so")])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (LIBRARY / "lib-dynload").is_dir():
        pytest.skip("the image of this test needs Debian's Python (apt-get install python3)")
    return write_image(tmp_path_factory.mktemp("image"), (system, _python), form="docker.tar")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world() as made:
        monkeypatch.setenv("AGENTORCHESTRA_SECRET", made.token)
        yield made


# The short tier has those of bash over an image: of its ways out an overlay is the newest.
def _case(kind: str, one: Attempt) -> object:
    short = kind == "image" and one.language == "bash" and "memory" not in one.name
    return pytest.param(kind, one, id=f"{kind}: {one.language}: {one.name}", marks=() if short else pytest.mark.long)


# Left out: what reaches the shell, its terminal and its output, which are of the attempt's own world and user; and what
# an image has or is of its own (users, a root inside).
OWN = {
    *("trace", "memory of processes", "memory of processes, by a call", "keys in a terminal"),
    *("output of the parent", "output of the first process"),
}
# A shell holds these limits in another way, which test_shell.py has: the kernel ends the largest process and the shell
# goes on; files lie on the disk, and are looked at now and then.
HELD_OTHERWISE = {
    *("memory shared by processes", "memory in files of all folders"),
    *("many large files", "many files", "many folders"),
}
OF_AN_IMAGE = {"users of the host", "become root", "program with the rights of its owner"}
CASES = [
    _case(kind, one)
    for kind, left_out in (("host", OWN | HELD_OTHERWISE), ("image", OWN | HELD_OTHERWISE | OF_AN_IMAGE))
    for one in ATTEMPTS
    if one.name not in left_out
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("kind", "attempt"), CASES)
async def test_no_way_out_of_a_machine(
    kind: str, attempt: Attempt, bubblewrap: ShellSandbox, around: World, image: Path, images: Path, tmp_path: Path
) -> None:
    machine = base_for(TerminalSettings(image=str(image) if kind == "image" else ""), images).machine(
        tmp_path / "layer"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    script = folder / ("script.py" if attempt.language == "python" else "script.sh")
    script.write_text(around.code(attempt.language, attempt.code))
    async with TerminalProxy(Reach(("nowhere.invalid",)), WebSettings()) as proxy:
        shell = await bubblewrap.shell(folder, attempt.limits, inputs=around.folder, machine=machine, gate=proxy.gate)
        try:
            ran = await shell.run(f"{'python3' if script.suffix == '.py' else 'bash'} {script.name}", together=True)
        finally:
            await shell.close()
    assert ran.stdout.startswith(BEGAN), f"the attempt was not made: {ran}"
    assert await asyncio.to_thread(_holding, around.token, folder, machine.layer) == []
    assert around.evidence(f"{ran.stdout}{ran.stderr}{ran.detail}".encode("utf-8", "replace")) == "", ran


def _holding(token: str, *folders: Path) -> list[str]:
    """The files below that hold a token: what an attempt brought home."""
    grep = ["grep", "--recursive", "--files-with-matches", "--devices=skip", token, *map(str, folders)]
    return subprocess.run(grep, capture_output=True, text=True, check=False).stdout.split()


async def test_variables_of_an_image_reach_no_program_with_more_rights(
    bubblewrap: ShellSandbox, images: Path, tmp_path: Path
) -> None:
    """The dynamic loader obeys its variables: what starts the commands as another user must not have them."""
    config = {"WorkingDir": "/app", "Env": ["LD_DEBUG=files", "LD_DEBUG_OUTPUT=/told", "GREETING=hello"]}
    image = write_image(tmp_path / "image", (system,), form="docker.tar", config=config)
    machine = base_for(TerminalSettings(image=str(image)), images).machine(tmp_path / "layer")
    (tmp_path / "folder").mkdir()
    shell = await bubblewrap.shell(tmp_path / "folder", machine=machine)
    try:
        ran = await shell.run('echo "$GREETING"; cat /etc/motd')
    finally:
        await shell.close()
    assert ran.stdout == "hello\nfrom the image\n"
    told = [*machine.layer.glob("told.*")]
    assert told, "the loader obeyed nobody"
    assert {one.lstat().st_uid for one in told} == {IMAGE_USER if chooses_users() else os.geteuid()}
