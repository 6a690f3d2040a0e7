"""Code with tests: a slip to be found, a function to be written, an order that is the wrong way round.

The check runs tests of its own in the sandbox, with other values than the tests that the system sees: a module that
only gives the expected values of those does not pass.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from agentorchestra.core.errors import SandboxUnavailableError
from agentorchestra.core.settings import SandboxSettings
from agentorchestra.sandbox import Program, SandboxLimits
from agentorchestra.sandbox.factory import sandbox_for

from .task import Task, names, write

Cases = Sequence[tuple[object, ...]]
"""Arguments of calls."""


def mend(chance: random.Random, folder: Path) -> Task:
    """A function with one slip."""
    module, function = (one.lower() for one in names(chance, 2))
    many, percent = chance.randint(5, 12), chance.choice([5, 10, 15, 20])
    rule = ("count >= {many}", "total - total * {percent} // 100")
    slips = [
        ("count > {many}", rule[1]),
        ("count <= {many}", rule[1]),
        (rule[0], "total + total * {percent} // 100"),
        (rule[0], "total - count * {percent} // 100"),
    ]
    condition, discount = (one.format(many=many, percent=percent) for one in chance.choice(slips))
    text = (
        f"def {function}(count, each):\n"
        f'    """Return what `count` pieces cost at `each` cents; from {many} pieces on {percent} percent less."""\n'
        "    total = count * each\n"
        f"    if {condition}:\n"
        f"        total = {discount}\n"
        "    return total\n"
    )

    def right(count: int, each: int) -> int:
        total = count * each
        return total - total * percent // 100 if count >= many else total

    shown = [(count, 100 * chance.randint(2, 9)) for count in (1, many - 1, many, many + 1, 3 * many)]
    hidden = [(count, 100 * chance.randint(11, 30)) for count in (2, many - 2, many - 1, many, many + 2, 5 * many)]
    return _task("mend", module, function, text, right, shown, hidden, folder)


def fill_in(chance: random.Random, folder: Path) -> Task:
    """A function that is not written yet: its docstring says what it gives."""
    module, function = (one.lower() for one in names(chance, 2))
    base, each, far = chance.randint(11, 39), chance.randint(2, 9), chance.randint(2, 9)
    while far == each:
        far = chance.randint(2, 9)
    text = (
        f"def {function}(boxes, km):\n"
        f'    """Return the price of a delivery: {base} euros, {each} more for each box, {far} more for each km."""\n'
        "    raise NotImplementedError\n"
    )
    shown = [(chance.randint(1, 20), chance.randint(1, 60)) for _ in range(5)]
    hidden = [(0, 0), *((chance.randint(21, 90), chance.randint(61, 200)) for _ in range(5))]
    return _task("fill_in", module, function, text, lambda a, b: base + each * a + far * b, shown, hidden, folder)


def turn_round(chance: random.Random, folder: Path) -> Task:
    """A list in the wrong order, from which the wrong ones are taken."""
    module, function = (one.lower() for one in names(chance, 2))
    most = chance.random() < 0.5
    which, wrong = ("highest", "") if most else ("lowest", ", reverse=True")
    text = (
        f"def {function}(points, count):\n"
        f'    """Return the names of the `count` players with the {which} points, the {which} first."""\n'
        f"    ranked = sorted(points, key=points.get{wrong})\n"
        "    return ranked[:count]\n"
    )

    def right(points: dict[str, int], count: int) -> list[str]:
        return sorted(points, key=lambda one: points[one], reverse=most)[:count]

    def game(players: int) -> dict[str, int]:
        return dict(zip(names(chance, players), chance.sample(range(10, 500), players), strict=True))

    shown, hidden = ([(game(players), 3), (game(players), 1)] for players in (5, 9))
    return _task("turn_round", module, function, text, right, shown, hidden, folder)


def _task(
    name: str,
    module: str,
    function: str,
    text: str,
    right: Callable[..., object],
    shown: Cases,
    hidden: Cases,
    folder: Path,
) -> Task:
    """Return a task about one module and its tests."""
    files = (
        write(folder, f"{module}.py", text),
        write(folder, f"test_{module}.py", _tests(module, function, right, shown)),
    )
    instruction = (
        f"The function {function} in {module}.py does not do what its docstring says: the tests in test_{module}.py "
        f"fail. Write a corrected {module}.py into the working folder, with which they pass, and leave the tests as "
        "they are. Answer in one sentence: what did you change?"
    )
    judged = _tests(module, function, right, [*shown, *hidden])

    def check(_: str, made: Path) -> list[str]:
        file = made / f"{module}.py"
        if not file.is_file():
            return [f"the run made no {module}.py"]
        return asyncio.run(_run(judged, {file.name: file.read_bytes()}))

    return Task("code", name, instruction, check, files=files, environments=("terminal",))


def _tests(module: str, function: str, right: Callable[..., object], cases: Cases) -> str:
    """Return a file of unit tests: one for each case, with what is right there."""
    lines = ["import unittest", "", f"from {module} import {function}", "", "", "class Tests(unittest.TestCase):"]
    for number, case in enumerate(cases, 1):
        given = ", ".join(map(repr, case))
        lines += [
            f"    def test_{number}(self):",
            f"        self.assertEqual({function}({given}), {right(*case)!r})",
            "",
        ]
    return "\n".join([*lines, "", 'if __name__ == "__main__":', "    unittest.main()", ""])


async def _run(tests: str, kept: dict[str, bytes]) -> list[str]:
    """Run tests over files in the sandbox: nobody knows what a model wrote there."""
    sandbox = sandbox_for(SandboxSettings())
    assert sandbox is not None
    program = Program("bash", "python3 -m unittest judged", kept={**kept, "judged.py": tests.encode()})
    try:
        ran = await sandbox.run(program, SandboxLimits(seconds=20))
    except SandboxUnavailableError as exc:
        return [f"the tests cannot be run: {exc}"]
    every = f"Ran {tests.count('def test_')} test"
    if ran.ending == "exited" and ran.exit_code == 0 and every in ran.stderr:
        return []
    return [f"the check's tests fail: {(ran.stderr or ran.stdout).strip().splitlines()[-1:]}"]
