"""What is too large to be looked at at once: tables for programs in the sandbox, long recordings, videos in parts."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import subprocess
import wave
from array import array
from itertools import pairwise
from math import pi, sin
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.testing import call, decide
from agentorchestra.workspace import Workspace
from tests.agents.analysing import Reader, drawn, town_of
from tests.files import makers

CHANCE = random.Random(2506)
"""Seeded: the same tests in every run."""


with_ffmpeg = pytest.mark.skipif(not makers.has_ffmpeg(), reason=makers.NEEDS_FFMPEG)
with_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
TOWN = "Kelmar"
TASK = f"What is the code of {TOWN}?"


@pytest.fixture
def code() -> str:
    return f"{CHANCE.randrange(2000, 10_000)}"


async def analysed(folder: Path, model: Reader, path: Path, **settings: Any) -> tuple[RunResult, str]:
    """The result, and all that was recorded of the run; a replay runs and asks nothing."""
    async with Workspace(folder / "ws", models={"reader": model}, settings=Settings(**settings)) as ws:
        result = await ws.run(TASK, files=[path], system="deep_analyzer", model="reader")
        count = len(model.requests)
        assert (await ws.replay(result.run_id)).answer == result.answer_text and len(model.requests) == count
        records = Ledger.of(await ws.store.load(result.run_id)).records.values()
    return result, "\n".join(json.dumps(one.outcome.value) for one in records if one.outcome is not None)


# -- tables ------------------------------------------------------------------------------------------------------------


class Programmer(Reader):
    """Writes programs over a file that it is told the name of; the codes are those of the largest town of a name."""

    def program(self, system: str, material: str) -> Any:
        opened = re.search(r'open the file "([^"]+)" with', system)
        assert opened and "`tables` is there" not in system and '"people"' in material, "it is told what there is"
        member = re.search(r'this member of the file: "([^"]+)"', system)
        file = f"zipfile.ZipFile({opened[1]!r}).open({member[1]!r})" if member else repr(opened[1])
        lines = [
            "import zipfile, pandas",
            f"table = pandas.read_csv({file}, dtype=str)",
            f"mine = table[table.town == {town_of(system)!r}]",
            "best = mine.people.astype(int).idxmax()",
            "print('the code is', mine.code[best], 'in row', best + 2)",
        ]
        return {"code": "\n".join(lines)}


def table(code: str) -> bytes:
    """More than 400,000 characters, in which the right row is told by a comparison over many."""
    rows = [f"Town{number},{number},{CHANCE.randrange(1000, 2000)}" for number in range(40_000)]
    for index in CHANCE.sample(range(len(rows)), 50):
        rows[index] = f"{TOWN},{index % 900},{CHANCE.randrange(1000, 2000)}"
    rows[CHANCE.randrange(30_000, 39_000)] = f"{TOWN},901,{code}"
    data = "\n".join(["town,people,code", *rows]).encode()
    assert len(data) > 400_000
    return data


@pytest.mark.long
@with_sandbox
@pytest.mark.parametrize("zipped", [False, True], ids=["file", "member"])
async def test_a_large_table_is_computed_in_the_sandbox(tmp_path: Path, code: str, zipped: bool) -> None:
    path = tmp_path / ("codes.zip" if zipped else "codes.csv")
    path.write_bytes(makers.zipped({"in/codes.csv": table(code)}) if zipped else table(code))
    model = Programmer()
    if zipped:
        usual = model.act
        asks = decide(calls=[call("analyze_file", file="codes.zip!in/codes.csv", question=TASK)])
        model.act = lambda request: (  # type: ignore[method-assign]
            usual(request) if any(one.role == "tool" for one in request.messages) else asks
        )
    result, _ = await analysed(tmp_path, model, path)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, code), result.report
    assert model.asked.count("You answer a question about tables") == 1
    assert not any("one part" in one for one in model.asked), "its rows were not read"


@pytest.mark.long
@with_sandbox
@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ("import pandas\n", "it printed nothing"),
        ("import pandas, sys\nprint('the code is 1111', flush=True)\nsys.exit(3)\n", "[exit code 3]"),
    ],
)
async def test_a_program_that_fails_in_the_sandbox_is_written_again(
    tmp_path: Path, code: str, first: str, problem: str
) -> None:
    """One that prints nothing, and one that ends badly without a traceback, gave no result."""

    class Careless(Programmer):
        def program(self, system: str, material: str) -> Any:
            if "Your last program gave no result" not in system:
                return {"code": first}
            assert problem in material
            return super().program(system, material)

    (tmp_path / "codes.csv").write_bytes(table(code))
    result, _ = await analysed(tmp_path, Careless(), tmp_path / "codes.csv")
    assert result.answer == code


# -- recordings --------------------------------------------------------------------------------------------------------


RATE = 2_000


def tones(code: str) -> array[int]:
    """A tone of a second for each digit."""
    return array(
        "h", (int(9_000 * sin(2 * pi * (200 + 60 * int(one)) * at / RATE)) for one in code for at in range(RATE))
    )


def recording(code: str, at_s: int, seconds: int) -> bytes:
    """Silence with the tones."""
    samples = array("h", bytes(2 * RATE * seconds))
    said = tones(code)
    samples[at_s * RATE : at_s * RATE + len(said)] = said
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return out.getvalue()


def tones_heard(data: bytes) -> str:
    """The digits in a recording of any form, "" where all is silent."""
    made = ["-i", "-", "-f", "s16le", "-ac", "1", "-ar", str(RATE), "-"]
    raw = subprocess.run(["ffmpeg", "-v", "error", *made], input=data, capture_output=True, check=True).stdout
    samples = array("h", raw)
    begins = next((index for index, one in enumerate(samples) if abs(one) > 4_000), None)
    if begins is None:
        return ""
    found = ""
    for number in range(4):
        heard = samples[begins + number * RATE + RATE // 4 : begins + number * RATE + 3 * RATE // 4]
        crossed = sum((one < 0) != (other < 0) for one, other in pairwise(heard))
        found += str(round((crossed - 200) / 60))
    return found


class Listener(Reader):
    """Hears the tones."""

    def look(self, system: str, material: str) -> Any:
        for media_type, data in self._bytes:
            if media_type.startswith("audio/") and (digits := tones_heard(data)):
                return {"found": True, "answer": digits, "seen": f"the digits {digits}"}
        return {"found": False, "seen": ""}


@pytest.mark.long
@with_ffmpeg
async def test_a_long_recording_is_heard_part_by_part(tmp_path: Path, code: str) -> None:
    (tmp_path / "talk.wav").write_bytes(recording(code, 1_800, 2_500))
    model = Listener(audio=True)
    result, said = await analysed(tmp_path, model, tmp_path / "talk.wav")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, code), result.report
    assert model.given == [["audio/mpeg"]] * 2, "twenty minutes at a time, and no more once it is found"
    assert "seconds 1200-2400" in said


# -- videos ------------------------------------------------------------------------------------------------------------


def film(folder: Path, code: str) -> None:
    """24 seconds in which the digits are to be seen for one."""
    (folder / "code.png").write_bytes(drawn(code, size=(320, 200), square=20, at=(40, 60)))
    (folder / "white.png").write_bytes(drawn("", size=(320, 200)))
    stills = [part for name in ("white", "code") for part in ("-loop", "1", "-r", "5", "-i", f"{name}.png")]
    shown = ["-filter_complex", "overlay=enable='between(t,11.9,12.5)'", "-t", "24", "-pix_fmt", "yuv420p"]
    made = ["ffmpeg", "-v", "error", "-y", *stills, *shown, "film.mp4"]
    subprocess.run(made, check=True, cwd=folder, stdin=subprocess.DEVNULL)


@pytest.mark.long
@with_ffmpeg
@pytest.mark.parametrize("direct", [True, False], ids=["as it is", "frames"])
async def test_a_video_is_looked_at_again_in_four_parts(tmp_path: Path, code: str, direct: bool) -> None:
    """Neither twelve pictures of the whole nor its beginning show the digits; those of its third quarter do."""
    film(tmp_path, code)
    model = Reader(vision=True, video=direct)
    result, said = await analysed(tmp_path, model, tmp_path / "film.mp4")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, code), result.report
    assert len(model.given) == 4 and "seconds 12-18" in said
    assert {one.partition("/")[0] for given in model.given for one in given} == {"video" if direct else "image"}
