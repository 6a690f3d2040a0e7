"""An image of Debian's own packages: another C library and layout than this machine's, with all that packages hold."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from functools import partial
from pathlib import Path

import pytest

from agentorchestra.core.settings import TerminalSettings
from agentorchestra.environments.base import base_for
from agentorchestra.sandbox.shell import ShellSandbox
from tests.sandbox.images import write_image
from tests.support.patience import LONGEST_S

LIBRARIES = ("libc6", "libtinfo6", "libselinux1", "libpcre2-8-0", "libacl1", "libattr1", "libgmp10", "zlib1g")
PROGRAMS = ("base-files", "bash", "coreutils", "dash", "debianutils", "findutils", "grep", "libc-bin", "sed")


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders, of libraries and of programs, as Debian's packages have them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("the image of this test is made of Debian's packages, and this is no Debian")
    place = tmp_path_factory.mktemp("packages")
    place.chmod(0o755)
    command = ["apt-get", "download", "--quiet", *LIBRARIES, *PROGRAMS]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if done.returncode:
        pytest.skip(f"apt cannot fetch the packages of this test (apt-get update): {done.stderr.strip()[-200:]}")
    made = []
    for names in (LIBRARIES, PROGRAMS):
        made.append(place / f"with-{names[0]}")
        for name in names:
            (file,) = place.glob(f"{name}_*.deb")
            subprocess.run(["dpkg-deb", "-x", str(file), str(made[-1])], check=True)
    return made


def _packed(root: Path, tar: tarfile.TarFile) -> None:
    tar.add(root, ".")


@pytest.mark.long
async def test_a_system_of_debians_packages(roots: list[Path], bubblewrap: ShellSandbox, tmp_path: Path) -> None:
    image = write_image(tmp_path / "image", [partial(_packed, one) for one in roots], form="layout.tar", config={})
    machine = base_for(TerminalSettings(image=str(image)), tmp_path / "images").machine(tmp_path / "layer")
    (tmp_path / "folder").mkdir()
    shell = await bubblewrap.shell(tmp_path / "folder", machine=machine)
    try:
        ran = await shell.run(
            "id -u; pwd; cat /etc/debian_version; readlink -f /proc/$$/exe; stat -c %a /tmp; "
            "sha256sum /lib/*-linux-gnu/libc.so.6 | cut -c1-64; echo made | sed s/made/kept/ > /usr/share/made; "
            "rm /bin/dash; find /bin/bash /bin/dash 2>/dev/null; getent hosts localhost"
        )
    finally:
        await shell.close()
    lines = ran.stdout.splitlines()
    version = (roots[1] / "etc/debian_version").read_text().strip()
    digest = hashlib.sha256(next((roots[0] / "lib").glob("*-linux-gnu/libc.so.6")).read_bytes()).hexdigest()
    assert lines[:-1] == ["0", "/work", version, "/bin/bash", "1777", digest, "/bin/bash"], (lines, ran.stderr)
    assert lines[-1].split()[1] == "localhost"
    assert (machine.layer / "usr/share/made").read_text() == "kept\n" and (machine.layer / "bin/dash").is_char_device()
