"""The places of a task's tests on its machine: `/tests` and `/logs`, which hold nothing while the agent works.

They are there from the first command on, because nothing can be mounted into a sandbox that runs. The tests come when
the agent has ended; what it left running by then finds them, as in every machine of this format.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from agentorchestra.sandbox.shell import Mount

TESTS, LOGS = "/tests", "/logs"
PLACE = "verifier"
"""The name, beside the run's folder, of what is seen at these places."""


def mounts(place: Path) -> list[Mount]:
    """Return the mounts of a world whose folder is `place`, and make what is seen there. Blocks."""
    places = [Mount(place / PLACE / inside.lstrip("/"), inside, writable=True) for inside in (TESTS, LOGS)]
    for mount in places:
        mount.folder.mkdir(parents=True, exist_ok=True)
        mount.folder.chmod(0o555)
    return places


def bring(tests: Path, place: Path) -> Path:
    """Put the tests and an empty folder for their log where commands see them; return the latter. Blocks.

    Programs of the agent may be at work there: what is new is made elsewhere and moved in by its name.
    """
    new = place / PLACE / "new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(tests, new / "tests", symlinks=True)
    (new / "logs" / "verifier").mkdir(parents=True)
    for path in (new, *new.rglob("*")):  # the commands' user is another one where root runs the sandbox
        if not path.is_symlink():
            path.chmod(0o777)
    for mount in mounts(place):
        mount.folder.chmod(0o755)
        for left in mount.folder.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        for path in (new / mount.folder.name).iterdir():
            path.rename(mount.folder / path.name)
        mount.folder.chmod(0o777)
    return place / PLACE / "logs" / "verifier"
