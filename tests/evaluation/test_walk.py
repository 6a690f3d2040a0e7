"""A set in GAIA's format through every system, from its questions to a report in a browser; only the model is ours.

The model is a function of the prompt (`tests/support/solver.py`): it finds answers by using tools on the files, and is
wrong by its own rules on some questions.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.evaluation.support import gaia_over_files, over_files
from tests.evaluation.test_command import folder_with, shown_page
from tests.sandbox.support import usable
from tests.support import solver

SYSTEMS = ("react", "agentorchestra", "aorchestra", "mini_swe", "oagents", "owl", "coral", "static", "direct", "debate")
UNABLE = {"direct", "debate"}
"""One has no tools, the other argues about opinions: neither computes over files with this model."""

HARD = {"q4", "q9", "q14", "q19"}
"""The model reads them wrongly, whatever the system."""


@pytest.mark.long
@pytest.mark.timeout(900)  # 200 runs, on a machine that may be busy
def test_twenty_questions_through_every_system(tmp_path: Path) -> None:
    usable("bubblewrap")
    gaia_over_files(tmp_path / "data", 20)
    named = [word for one in SYSTEMS for word in ("--system", one)]
    with solver.serving() as server:
        folder = folder_with(tmp_path, server.base_url)
        done = folder.run("eval", "run", "gaia-validation", "--data", "data", *named, "--name", "walk")
        assert (done.code, "refused" in done.err) == (0, False), done.err
        scored = folder.run("eval", "score", "walk")
        assert scored.code == 0, scored.err
    lines = [json.loads(one) for one in folder.run("eval", "export", "walk").out.splitlines()]
    assert len(lines) == 20 * len(SYSTEMS)
    for one in lines:
        right = one["arm"] not in UNABLE and one["question"] not in HARD
        assert one["score"]["score"] == right, folder.run("show", one["result"]["run_id"]).out
    report = folder.run("eval", "report", "walk").out
    accuracy = report.partition("## What came of it")[0]
    for name in SYSTEMS:
        all_right = "0.0" if name in UNABLE else "80.0"
        assert re.search(rf"^\| {name} \| {all_right} \[[\d.]+, [\d.]+\] of 20 \| ", accuracy, re.MULTILINE), accuracy
    assert "| arm | all | level 1 | level 2 | level 3 |" in accuracy
    assert re.search(r"^\| react - direct \| \+80\.0 \[.*\] \| 16 \| 0 \| 20 \| 0\.000 \|", report, re.MULTILINE)
    assert folder.run("eval", "report", "walk", "--html", "walk.html").code == 0
    shown, circles, others = asyncio.run(shown_page(tmp_path / "walk.html"))
    assert "accuracy, percent" in shown
    assert shown.count("80.0 [58.4, 91.9] of 20") == len(SYSTEMS) - len(UNABLE)
    assert (circles, others) == (len(SYSTEMS), [])


def test_three_questions_through_two_systems(tmp_path: Path) -> None:
    usable("bubblewrap")
    over_files(tmp_path / "data", 3)
    with solver.serving() as server:
        folder = folder_with(tmp_path, server.base_url)
        systems = ("--system", "react", "--system", "direct")
        done = folder.run("eval", "run", "local", "--data", "data", *systems, "--name", "walk")
        assert done.code == 0, done.err
    assert folder.run("eval", "score", "walk").out.strip() == "3 ok, 3 wrong"
    report = folder.run("eval", "report", "walk").out
    assert re.search(r"^\| react \| 100\.0 \[[\d.]+, 100\.0\] of 3 \|", report, re.MULTILINE), report
    assert re.search(r"^\| direct \| 0\.0 \[0\.0, [\d.]+\] of 3 \|", report, re.MULTILINE), report
