"""The folders of a run's worlds: where its environments keep what they have on disk."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

MAIN = "main"  # the world that is the run's: the user finds its folder after the run
WORLDS = "environments"  # the folder of environments below a run's folder, with a folder for each world
WORKED_ON = "folder"  # the folder in a world's folder that the environments `files`, `terminal` and `git` work on

_OF_A_PROCESS = ("temporary", "display", "overlay", "verifier")
"""Names in a world's folder that are there only while a process works in it."""


def world_folder(run_folder: Path, world: str) -> Path:
    if world == MAIN:
        return run_folder / WORLDS / MAIN
    mark = hashlib.sha256(world.encode()).hexdigest()[:12]
    return run_folder / WORLDS / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', world)[:60]}-{mark}"


def left_behind(run_folder: Path) -> list[Path]:
    """Return what killed processes left of a run that nobody drives: rival worlds, half-made files. Blocks."""
    try:
        worlds = [*(run_folder / WORLDS).iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    half = [world_folder(run_folder, MAIN) / name for name in _OF_A_PROCESS]
    return [*(world for world in worlds if world.name != MAIN), *(path for path in half if path.exists())]


def clear_up(run_folder: Path) -> None:
    """Remove what was left behind. Blocks."""
    for path in left_behind(run_folder):
        shutil.rmtree(path, ignore_errors=True)
