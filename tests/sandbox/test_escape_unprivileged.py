"""The attempts to get out once more, by a user without rights: where root makes two stages, that user makes one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
USER = "nobody"  # a user with a name: PostgreSQL runs as no other


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of that user; pytest's own is closed to others."""
    made = Path(tempfile.mkdtemp(prefix="unprivileged-"))
    shutil.chown(made, USER)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def as_user(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python as that user: this interpreter, or one of the system where this one lies in a closed folder."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path.endswith(("src", "site-packages"))),
    }
    change = ["setpriv", "--reuid", USER, "--regid", str(Path(home).stat().st_gid), "--clear-groups"]
    # A link out of a closed folder may start what lies elsewhere: the sandbox needs the interpreter itself.
    check = "import agentorchestra, os, psutil, pytest_asyncio, pytest_timeout, sys; os.stat(sys._base_executable)"
    said = ""
    for python in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        if python is None:
            continue
        tried = subprocess.run(
            [*change, python, "-c", check], cwd=PROJECT, env=environ, capture_output=True, text=True, check=False
        )
        said += tried.stderr
        if tried.returncode == 0:
            return subprocess.run(
                [*change, python, *words], cwd=PROJECT, env=environ, capture_output=True, text=True, check=False
            )
    pytest.skip(f"no Python {version} that another user may execute has what the tests need: {said[-300:]}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("tier", ["not long", pytest.param("long or not long", marks=pytest.mark.long)])
def test_no_way_out_for_another_user(home: Path, tier: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests run as a user without rights already")
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/sandbox/test_escape.py", "-m", tier]
    done = as_user(home, *suite)
    if found := re.search(r"not run: bubblewrap .*", done.stdout):
        pytest.skip(f"another user has no sandbox here: {found[0]}")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) > (150 if tier != "not long" else 20), done.stdout[-500:]
