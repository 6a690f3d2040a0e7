"""The benchmark of finding runs; no time is judged."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "retrieval"
THINGS = ("ferry", "invoice", "meadow", "lantern", "compass", "harbour", "quarry", "violin", "glacier", "orchard")


def _set(folder: Path) -> None:
    folder.mkdir()
    tools = [
        {
            "id": f"{act} {thing}",
            "name": f"{act}.{thing}",
            "description": f"{act.capitalize()} one {thing}. " + "It takes the place, and says what came of it. " * 20,
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        }
        for thing in THINGS
        for act in ("book", "cancel", "count", "measure")
    ]
    questions = [{"id": thing, "query": f"measure the {thing}", "relevant": [f"measure {thing}"]} for thing in THINGS]
    for name, lines in (("tools", tools), ("queries_dev", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.long
def test_every_part_is_measured(tmp_path: Path) -> None:
    _set(tmp_path / "made")
    words = [str(tmp_path), "--many", "50", "--questions", "3", "--sizes", "5,60", "--python", sys.executable]
    done = subprocess.run(
        [sys.executable, BENCHMARK, *words], capture_output=True, text=True, timeout=LONGEST_S, check=True
    )
    found, built, query, more, *prompts = done.stdout.splitlines()[1:]
    # 40 tools, 10 questions, each answered by the one whose words it has.
    assert re.findall(r"\S+", found)[:7] == ["made", "40", "10", "1.000", "1.000", "1.000", "1.000"]
    assert built.startswith("50 tools: built in ")
    assert query.startswith("50 tools: a query takes (ms of CPU, median and p99) ")
    assert more.startswith("50 tools: one more takes ")
    few, many = (re.findall(r"[\d,.]+", line) for line in prompts[1:])
    assert (few[0], few[-2:]) == ("5", ["1.000", "1.000"])
    assert (many[0], many[-2:]) == ("60", ["1.000", "1.000"])
    assert int(many[4]) < 60  # schemas


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    _set(tmp_path / "made")
    for folder, words, sentence in (
        (empty, (), "empty holds no set (SET/tools.jsonl)"),
        (tmp_path, ("--sizes", "0,x"), "--sizes 0,x is no list of numbers above 0"),
        (tmp_path, ("--parts", "all"), "--parts all names something else than found, many, prompts"),
    ):
        words_ = [sys.executable, BENCHMARK, folder, *words]
        done = subprocess.run(words_, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and sentence in done.stderr
