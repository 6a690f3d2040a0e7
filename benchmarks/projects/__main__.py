"""What the start of a run on a project of many files costs, as CPU seconds and as a multiple of `cp -r`.

    python -m benchmarks.projects [--files 50000]

A repository is generated. `create` is the survey, the copy and what is kept of it; `begin` lays the run's folder and
starts the terminal, up to the end of a first `true`. Both are compared with `cp -r` of the same files, measured before
and after, since sharing the machine makes everything dearer.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.testing import ScriptedModel, call


def cpu() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def generate(folder: Path, files: int) -> None:
    """Write a repository of texts of 0.3 to 4 KB, 100 in a folder."""
    chance = random.Random(1)
    words = [f"{chance.getrandbits(40):x}" for _ in range(2000)]
    for number in range(files):
        place = folder / f"p{number // 2500}" / f"m{number // 100 % 25}"
        if number % 100 == 0:
            place.mkdir(parents=True, exist_ok=True)
        lines = (" ".join(chance.choices(words, k=8)) for _ in range(chance.randint(3, 40)))
        (place / f"f{number}.py").write_text("\n".join(lines))
    for command in ("init -q", "add .", "-c user.name=u -c user.email=u@localhost commit -q -m begin", "gc -q"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)


def copied(folder: Path, target: Path) -> float:
    """Return what `cp -r` of the files takes."""
    target.mkdir()
    before = cpu()
    subprocess.run(["cp", "-r", *(str(one) for one in folder.iterdir() if one.name != ".git"), target], check=True)
    used = cpu() - before
    shutil.rmtree(target)
    return used


async def measure(place: Path, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of `create` and of `begin`."""
    model = ScriptedModel([call("bash", command="true"), call("done", answer="done")])
    async with Workspace(place / "workspace", models={"m": model}) as ws:
        await ws.create("warm", model="m", system="react")
        before = cpu()
        run_id = await ws.create("x", model="m", system="mini_swe", project=folder)
        created = cpu() - before
        before = cpu()
        result = await ws.resume(run_id)
        assert result.status == "completed", result.error
        return created, cpu() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000)
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        place = Path(name)
        generate(place / "project", files)
        first = copied(place / "project", place / "copy")
        created, begun = asyncio.run(measure(place, place / "project"))
        reference = (first + copied(place / "project", place / "copy")) / 2
    print(f"{files:,} files: cp -r {reference:.2f} s of CPU")
    for what, used in (("create", created), ("begin", begun), ("together", created + begun)):
        print(f"{what:10}{used:8.2f} s of CPU {used / reference:6.1f} times cp -r")


if __name__ == "__main__":
    main()
