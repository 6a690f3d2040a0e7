"""The sandboxed interpreter: values, errors, limits, what it cannot reach, and what it leaves behind."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from agentorchestra.core.content import Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.tea.programs.monty import MODULES
from agentorchestra.tools.python import MONTY, Limits, PythonTool
from tests.support.interpreters import ended, interpreters
from tests.support.patience import LONGEST_S
from tests.tea.support import ToolBench

NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
SMALL = Limits(seconds=60.0, memory=20_000_000, depth=50, printed=1_000, processes=2)
HURRIED = replace(SMALL, seconds=1.0)
"""For programs without end."""


async def at_work() -> set[int]:
    """Wait for an interpreter that runs a program without end: one that only starts never needs so much time."""
    while not (found := {pid for pid in interpreters() if psutil.Process(pid).cpu_times().user > 0.5}):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return found


@pytest.fixture
async def hurried() -> AsyncIterator[PythonTool]:
    made = PythonTool(HURRIED)
    yield made
    await made.aclose()


@pytest.fixture
async def python() -> AsyncIterator[PythonTool]:
    made = PythonTool(SMALL)
    yield made
    await made.aclose()


async def run(python: PythonTool, code: str, *, seed: int = 1) -> str:
    fed = await python.run(code, now=NOW, seed=seed)
    assert not fed.error, fed.error
    return fed.printed


async def fails(python: PythonTool, code: str) -> str:
    try:
        return (await python.run(code, now=NOW, seed=1)).error or "it ran to its end"
    except ToolError as exc:
        return str(exc)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("2 + 2", "4"),
        ("print('a')\nprint('b', 1)", "a\nb 1"),
        ("print('a')\n'b'", "a\n'b'"),
        ("x = 5", "(no output)"),
        ("print()", "(no output)"),
        ("print(end='no newline')\n[1, 2]", "no newline[1, 2]"),
        ("10 ** 30", "1" + "0" * 30),
        ("{'a': (1, {2}), 'b': None}", "{'a': (1, {2}), 'b': None}"),
        ("def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nf(20)", "2432902008176640000"),
        ("import json, math\njson.dumps({'x': math.sqrt(9)})", "'{\"x\": 3.0}'"),
        ("import sys\nprint('warning', file=sys.stderr)", "warning"),
        ("import datetime\n(datetime.date(2024, 3, 1) - datetime.date(2024, 2, 1)).days", "29"),
        ("x = []\nx.append(x)\nx", "['[...]']"),
    ],
)
async def test_values_and_prints(python: PythonTool, code: str, result: str) -> None:
    assert await run(python, code) == result


@pytest.mark.parametrize("code", ["", "  \n"])
async def test_empty_code_is_refused_without_an_interpreter(python: PythonTool, code: str) -> None:
    assert await fails(python, code) == "the code is empty; give a program, e.g. print(2 + 2)"
    assert not interpreters()


async def test_an_error_names_its_line_and_keeps_what_was_printed(python: PythonTool) -> None:
    said = await fails(python, "print('before')\ndef f(x):\n    return 1 / x\nf(0)")
    assert said.startswith("before\nTraceback")
    assert "line 4" in said and "line 3, in f" in said
    assert said.endswith("ZeroDivisionError: division by zero")


async def test_a_syntax_error_names_its_line(python: PythonTool) -> None:
    said = await fails(python, "x = 1\ny = (")
    assert "line 2" in said and "SyntaxError" in said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("[0] * 10 ** 9", "MemoryError"),
        ("x = []\nwhile True:\n    x.append('a' * 1000000)", "MemoryError"),
        ("def f():\n    return f()\nf()", "RecursionError"),
    ],
)
async def test_limits(python: PythonTool, code: str, said: str) -> None:
    assert said in await fails(python, code)
    assert await run(python, "1 + 1") == "2"  # the next program is not affected


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "open('made.txt', 'w').write('x')",
        "from pathlib import Path\nPath('/etc/passwd').read_text()",
        "from pathlib import Path\nlist(Path('/').iterdir())",
        "import os\nos.environ",
        "import os\nos.getenv('HOME')",
        "import os\nos.listdir('/')",
        "import os\nos.system('true')",
        "import subprocess",
        "import socket",
        "import urllib.request",
        "import ctypes",
        "__import__('os')",
        "().__class__.__base__.__subclasses__()",
        "input()",
    ],
)
async def test_nothing_outside_is_reached(
    python: PythonTool, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await fails(python, code)
    assert list(tmp_path.iterdir()) == []


async def test_a_missing_module_names_those_there_are(python: PythonTool) -> None:
    said = await fails(python, "import statistics")
    assert "No module named 'statistics'" in said
    for name in MODULES.split(", "):
        assert name in said
        importlib.import_module(name)  # Python's own, under Python's name
        assert await run(python, f"import {name}") == "(no output)"


async def test_a_missing_part_of_the_language_says_what_to_do(python: PythonTool) -> None:
    said = await fails(python, "def f():\n    yield 1\nlist(f())")
    assert "line 2" in said
    assert "write it with plain functions" in said


async def test_a_flood_is_cut_and_counted(python: PythonTool) -> None:
    said = await run(python, "for i in range(1000):\n    print('x' * 9)")
    assert said == ("x" * 9 + "\n") * 100 + "\n[9,000 further characters left out]"
    assert await run(python, "'y' * 5000") == "'" + "y" * 999 + "\n[4,002 further characters left out]"


async def test_time_is_limited(hurried: PythonTool) -> None:
    assert "TimeoutError" in await fails(hurried, "while True:\n    pass")
    assert await run(hurried, "1 + 1") == "2"


@pytest.mark.long
async def test_an_endless_flood_stays_small(hurried: PythonTool) -> None:
    said = await fails(hurried, "while True:\n    print('x' * 10000)")
    assert "TimeoutError" in said
    assert len(said) < 2_000


async def test_a_long_error_is_cut_in_the_middle(python: PythonTool) -> None:
    said = await fails(python, "raise ValueError('y' * 1000000 + 'end')")
    assert said.startswith("Traceback") and said.endswith("yend") and "[...]" in said
    assert len(said) < 10_000


async def test_its_clock_and_chance_are_the_runs(python: PythonTool) -> None:
    code = "import datetime, random, time\nprint(datetime.datetime.now(), time.time())\nrandom.random()"
    first = await run(python, code, seed=7)
    assert first.startswith("2025-01-02 03:04:05 1735787045.0\n")
    assert await run(python, code, seed=7) == first
    assert await run(python, code, seed=8) != first


async def test_sleep_takes_no_time_and_cannot_hold_an_interpreter(python: PythonTool) -> None:
    assert await run(python, "import time\ntime.sleep(10 ** 6)\n'awake'") == "'awake'"


async def test_a_program_sees_the_variables_of_the_one_it_is_given(python: PythonTool) -> None:
    first = await python.run("x = 1\ndef f():\n    return x + 1", now=NOW, seed=1)
    assert first.dump is not None
    second = await python.run("x += 40\n1 / 0", now=NOW, seed=1, dump=first.dump)
    assert "ZeroDivisionError" in second.error and second.dump is not None, "what it did before its error is kept"
    assert (await python.run("f()", now=NOW, seed=1, dump=second.dump)).printed == "42"
    assert (await python.run("2 + 2", now=NOW, seed=1)).dump is None, "nothing is kept where nothing is assigned"
    assert "NameError" in await fails(python, "x")


async def test_parallel_calls_are_all_answered(python: PythonTool) -> None:
    results = await asyncio.gather(*(run(python, f"print({n})\n{n} * {n}") for n in range(20)))
    assert results == [f"{n}\n{n * n}" for n in range(20)]
    assert len(interpreters()) <= SMALL.processes


async def test_a_cancelled_call_kills_its_interpreter() -> None:
    """And the loop goes on while a program runs and prints: otherwise nothing here could cancel it."""
    patient = PythonTool(Limits(seconds=60.0, processes=1))
    work = asyncio.ensure_future(run(patient, "while True:\n    print('x')"))
    busy = await at_work()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await ended(busy)
    assert await run(patient, "2") == "2"
    await patient.aclose()


async def test_a_call_waits_for_a_free_interpreter_and_gives_it_back() -> None:
    patient = PythonTool(Limits(seconds=60.0, processes=1))
    first = asyncio.ensure_future(run(patient, "while True:\n    pass"))
    await at_work()
    second = asyncio.ensure_future(run(patient, "'second'"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "'second'"
    await patient.aclose()


@pytest.mark.long
async def test_a_call_cancelled_while_its_interpreter_starts_gives_it_back() -> None:
    for moment in range(60):  # whichever it is: nothing may be lost
        patient = PythonTool(Limits(seconds=60.0, processes=1))
        first = asyncio.ensure_future(run(patient, "while True:\n    pass"))
        await asyncio.sleep(moment / 10_000)
        first.cancel()
        async with asyncio.timeout(LONGEST_S):
            assert await run(patient, "'second'") == "'second'"
        await patient.aclose()


async def test_nothing_is_left_after_close() -> None:
    python = PythonTool(SMALL)
    await asyncio.gather(*(run(python, str(n)) for n in range(4)))
    pids = interpreters()
    assert pids
    await python.aclose()
    await python.aclose()
    await ended(pids)


async def test_close_without_a_call() -> None:
    await PythonTool().aclose()


async def test_through_the_door(tmp_path: Path) -> None:
    made = PythonTool(SMALL)
    bench = ToolBench([made.tool], tmp_path, interpreters={MONTY: made})
    code = "import random, datetime\n(random.random(), datetime.datetime.now().year)"
    first, second, wrong = await bench.call(
        (made.tool, {"code": code}), (made.tool, {"code": code}), (made.tool, {"code": "1 / 0"})
    )
    assert first.ok and second.ok and first.value != second.value  # chance comes from the key of the call
    assert wrong.status == "error" and "ZeroDivisionError" in str(wrong.error)
    assert first.trust is Trust.AGENT  # computed from what the agent wrote, nothing from outside
    assert set(made.tool.schema.parameters["properties"]) == {"code"}
    await made.aclose()
