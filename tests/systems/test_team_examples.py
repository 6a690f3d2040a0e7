"""The five examples after the paper (000, app. F): the real team, its tools and the browser; only the model is ours.

The model of each is a function of what it is shown. So with other data there is another answer, and where the needed
fact is not shown there is none.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.browser import find_chromium
from tests.files.makers import NEEDS_FFMPEG, has_ffmpeg
from tests.support.patience import LONGEST_S

FOLDER = Path(__file__).parents[2] / "examples" / "team"
MODULES = ("archive", "audio", "image", "letters", "support", "text", "video")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As when the program is started in its folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def example(name: str) -> ModuleType:
    if name in ("text", "image"):
        find_chromium()
    if name == "video" and not has_ffmpeg():
        pytest.skip(NEEDS_FFMPEG)
    if name == "audio" and shutil.which("espeak-ng") is None:
        sentence = "espeak-ng is not installed (scripts/setup-system.sh)"
        if os.geteuid() == 0 and Path("/etc/debian_version").exists():
            pytest.fail(sentence)
        pytest.skip(sentence)
    return importlib.import_module(name)


async def solved(module: ModuleType, folder: Path, **changes: Any) -> tuple[str, list[str]]:
    support = importlib.import_module("support")
    result, agents = await support.solve(replace(module.EXAMPLE, **changes), folder)
    assert result.error is None, result.error
    return result.answer_text, agents


async def test_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = example("archive")
    assert await solved(module, tmp_path) == ("Pulses", ["deep_analyzer"])
    printed = capsys.readouterr().out
    assert "0. [✓] Find the food without a second name, and its category @deep_analyzer" in printed
    assert "deep_analyzer: analyze_file foods.zip" in printed


@pytest.mark.long
def test_archive_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "archive.py"), str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "check:  right"
    assert (tmp_path / "kept" / "foods.zip").exists()


@pytest.mark.long
async def test_archive_with_another_food(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("archive")
    monkeypatch.setattr(module, "ALONE", "molasses")
    assert (await solved(module, tmp_path))[0] == "Sweets"


@pytest.mark.long
async def test_archive_without_its_xml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("archive")
    monkeypatch.setattr(module, "FOODS", {"Pulses": ()})
    assert "Pulses" not in (await solved(module, tmp_path))[0]


@pytest.mark.long
@pytest.mark.real
async def test_text(tmp_path: Path) -> None:
    answer, agents = await solved(example("text"), tmp_path)
    assert answer == "17"
    # two figures and the calculation; the quotes hold in the pages as the browser showed them
    assert agents == ["browser_use", "browser_use", "deep_analyzer"]


@pytest.mark.long
@pytest.mark.real
async def test_text_with_another_distance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("text")
    pages = module.PAGES | {"/moon": module.PAGES["/moon"].replace("356,400", "712,800")}
    monkeypatch.setattr(module, "NEAREST", module.NEAREST.replace("356,400", "712,800"))
    assert (await solved(module, tmp_path, pages=pages))[0] == "34"


@pytest.mark.long
@pytest.mark.real
async def test_image(tmp_path: Path) -> None:
    answer, agents = await solved(example("image"), tmp_path)
    assert answer == "26"
    assert agents == ["deep_analyzer", "browser_use", "deep_analyzer"]


@pytest.mark.long
@pytest.mark.real
async def test_image_with_a_program_that_arranges_otherwise(tmp_path: Path) -> None:
    module = example("image")
    pages = {"/cpp/sorter": module.CPP.replace(b"v[i] > pivot", b"v[i] < pivot")}
    assert (await solved(module, tmp_path, pages=pages))[0] == "120"


@pytest.mark.long
async def test_audio(tmp_path: Path) -> None:
    module = example("audio")
    assert await solved(module, tmp_path) == ("132, 133, 197, 245", ["deep_analyzer"])


@pytest.mark.long
async def test_audio_with_other_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("audio")
    monkeypatch.setattr(module, "SAID", "read page nine and page eight zero and page seven one")
    assert (await solved(module, tmp_path))[0] == "9, 71, 80"


@pytest.mark.long
async def test_video(tmp_path: Path) -> None:
    assert await solved(example("video"), tmp_path) == ("5", ["deep_analyzer"])


@pytest.mark.long
async def test_video_with_another_phrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("video")
    monkeypatch.setattr(module, "SCENES", (module.SCENES[0], ("NOTHING OF THE KIND", "darkred"), module.SCENES[2]))
    assert (await solved(module, tmp_path))[0] == "1"


def test_the_eyes_read_what_is_written() -> None:
    letters = example("letters")
    lines = ['parts = ["sort", "er", "/", "cpp"]', 'print("".join(parts[i] for i in order))', "NEXT 0123456789"]
    assert letters.read(letters.png(letters.written(["", *lines], "white", "darkred"))) == lines
