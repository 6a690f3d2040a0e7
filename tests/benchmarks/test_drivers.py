"""The benchmarks run: our drivers beside another's, each over a real server; no time is judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

COMMON = '''
"""A small stand-in for the shared part of the side-by-side benchmark: three sums, checked, over a real server."""

import asyncio
import json
import os
from types import SimpleNamespace

from agentorchestra.testing import LoopbackModelServer, call, http_error

MODEL = "scripted"


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def reply(body):
    results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
    if any(str(1000 + 8 * n) not in text for n, text in enumerate(results)):
        return http_error(400, f"wrong results: {results}")
    n = len(results)
    return call("add", a=1000 + n, b=7 * n) if n < 3 else f"DONE {n}"


def main(build):
    async def measure():
        async with LoopbackModelServer(reply) as server:
            ctx = SimpleNamespace(base_url=server.base_url, steps=3, functions=lambda: [add])
            run_task = build(ctx)
            answers = await asyncio.gather(run_task("Add."), run_task("Add again."))
            print(json.dumps({"answers": answers, "requests": server.count}), flush=True)
            os._exit(0)

    asyncio.run(measure())
'''

RUN = """
import pathlib, subprocess, sys

here = pathlib.Path(__file__).resolve().parent
venvs = pathlib.Path(sys.argv[sys.argv.index("--venvs") + 1])
for driver in sorted((here / "drivers").glob("[a-z]*.py")):
    python = venvs / driver.read_text().split("\\n")[0].removeprefix("# venv:").strip() / "bin" / "python"
    print(driver.stem, flush=True)
    subprocess.run([python, driver], check=True, timeout=300)
print(sys.argv[3:])
"""


def _folder(tmp_path: Path) -> Path:
    """A benchmark of others, with one driver of its own."""
    bench = tmp_path / "bench"
    (bench / "drivers").mkdir(parents=True)
    for name, text in {"common.py": COMMON, "run.py": RUN, "server.py": ""}.items():
        (bench / name).write_text(text)
    path = "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))\n"
    (bench / "drivers" / "_path.py").write_text(path)
    (bench / "drivers" / "other.py").write_text("# venv: theirs\nprint('other ran')\n")
    theirs = tmp_path / "venvs" / "theirs" / "bin"
    theirs.mkdir(parents=True)
    (theirs / "python").symlink_to(sys.executable)
    return bench


def _overhead(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, BENCHMARKS / "overhead", *arguments, "--python", sys.executable]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)


@pytest.mark.long
def test_our_drivers_run_beside_the_others(tmp_path: Path) -> None:
    bench = _folder(tmp_path)
    before = sorted(path.relative_to(bench) for path in bench.rglob("*") if "__pycache__" not in path.parts)
    done = _overhead(bench, "--rounds", "1")
    answered = '{"answers": ["DONE 3", "DONE 3"], "requests": 8}'
    assert done.stdout.splitlines() == [
        "agentorchestra_durable",
        answered,
        "agentorchestra_memory",
        answered,
        "other",
        "other ran",
        "['--rounds', '1']",
    ], done.stderr
    after = sorted(path.relative_to(bench) for path in bench.rglob("*") if "__pycache__" not in path.parts)
    assert after == before, "the folder of the others is not changed"


def test_a_folder_that_is_no_benchmark_is_refused(tmp_path: Path) -> None:
    done = _overhead(tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path} lacks run.py, server.py, common.py, drivers; give the folder of the side-by-side" in done.stderr


@pytest.mark.long
def test_startup_prints_ratios() -> None:
    command: list[str | Path] = [sys.executable, BENCHMARKS / "startup", "--repeat", "1", "--python", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=True)
    lines = {line[:38].strip(): re.findall(r"\d+(?:\.\d+)?", line[38:]) for line in done.stdout.splitlines()[1:]}
    assert {name: len(cells) for name, cells in lines.items()} == dict.fromkeys(
        [
            "import nothing",
            "import agentorchestra",
            "from agentorchestra import Workspace",
            "agentorchestra --help",
            "import pydantic_ai",
        ],
        4,
    )
    assert lines["import pydantic_ai"][1] == "1.00"


@pytest.mark.long
def test_search_prints_its_stages() -> None:
    command: list[str | Path] = [BENCHMARKS / "search", "--files", "100", "--queries", "1", "--python", sys.executable]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=LONGEST_S, check=True)
    lines = {line[:42].strip(): re.findall(r"\d+\.\d+", line[42:]) for line in done.stdout.splitlines()}
    assert {name: len(cells) for name, cells in lines.items() if len(cells) == 2} == dict.fromkeys(
        [
            "keep and check the files",
            "the same again, unchanged",
            "a run that builds the index",
            "a run that finds the index",
            "a query of 3 words (median of 1)",
            "a query of 12 words (median of 1)",
        ],
        2,
    )
    refused = subprocess.run(
        [sys.executable, BENCHMARKS / "search", "--files", "3"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert refused.returncode == 2 and "--files is 3" in refused.stderr


@pytest.mark.long
def test_sandbox_prints_ratios() -> None:
    command: list[str | Path] = [sys.executable, BENCHMARKS / "sandbox", "--repeat", "1", "--python", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if "cannot be measured here" in done.stderr:
        pytest.skip(done.stderr.strip())
    lines = {line[:20].strip(): line[20:].split() for line in done.stdout.splitlines()[1:]}
    assert {name: len(cells) for name, cells in lines.items()} == dict.fromkeys(
        ["print(42)", "import numpy", "import pandas", "true (bash)"], 4
    ), done.stderr


@pytest.mark.long
def test_terminal_prints_ratios() -> None:
    command: list[str | Path] = [sys.executable, BENCHMARKS / "terminal", "--repeat", "2", "--python", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if "cannot be measured here" in done.stderr:
        pytest.skip(done.stderr.strip())
    lines = {line[:14].strip(): line[14:].split() for line in done.stdout.splitlines()}
    assert {name: len(lines[name]) for name in ("true", "1,000 lines", "10 processes")} == {
        "true": 5, "1,000 lines": 5, "10 processes": 5
    }, done.stderr  # fmt: skip
    assert all(len(lines[name]) == 2 for name in ("python3", "cat", "bash"))
