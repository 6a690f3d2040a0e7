"""`lacks` against the Monty that is installed: what it says is missing is, what it lets pass runs."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterator

import pytest
from pydantic_monty import Monty, MontyError

from agentorchestra.tea.programs.monty import MISSING_BUILTINS, MISSING_METHODS, NAMES, lacks

Run = Callable[[str], str | None]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with Monty(max_processes=1) as pool:

        def tried(code: str) -> str | None:
            """The error of a program in the real Monty, None where it runs."""
            with pool.checkout(limits={"max_feed_duration_secs": 60}) as session:
                try:
                    session.feed_run(code, print_callback=lambda _, text: None)
                except MontyError as exc:
                    return str(exc)
            return None

        yield tried


RUNS = [
    "class A:\n    def __init__(self): self.x = 1\n    def __add__(self, o): return 5\nprint(A() + A())",
    "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: list = field(default_factory=list)\nA()",
    "match 3:\n    case 3: pass",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print(e)\nfinally:\n    pass",
    "import asyncio\nasync def f(x): return x\nawait asyncio.gather(f(1), f(2))",
    "import os\nprint(os.path.join('a', 'b'), os.path.splitext('a.b'))",
    "from os import path\npath.basename('a/b')",
    "import re as r\nr.findall('a', 'b')",
    "try:\n    import numpy\nexcept ImportError:\n    numpy = None",
    "try:\n    from enum import Enum\nexcept (ValueError, ModuleNotFoundError):\n    pass",
    "def dir(x): return x\ndir(1)",
    "x = [n for n in range(3) if n]\nsum(n for n in x)",
    "with_open = {'open': 1}\nwith_open['open']",
    "from collections import Counter\nCounter('aab').most_common(1)",
    "def f(*a, **k): return a, k\nf(*[1], **{'b': 2})",
    "from pathlib import Path\nPath('a/b.txt').suffix",
    "lambda open: open",
]
LACKING = {
    "class A(object): pass": "class inheritance",
    "class E(Exception): pass": "class inheritance",
    "class A(metaclass=type): pass": "class inheritance",
    "def g():\n    yield 1": "yield",
    "def g():\n    yield from [1]": "yield",
    "x = 1\ndel x": "del",
    "d = {1: 2}\ndel d[1]": "del",
    "class A:\n    @property\n    def x(self): return 1": "property",
    "class A:\n    @staticmethod\n    def x(): return 1": "staticmethod",
    "from functools import cache\nclass A:\n    @cache\n    def f(self): return 1": "decorated methods",
    "from dataclasses import dataclass\n@dataclass(order=True)\nclass A:\n    x: int": "order of dataclass",
    "async def f(x):\n    async with x: pass": "async with",
    "async def f(x):\n    async for y in x: pass": "async for",
    "async def f(x):\n    return [y async for y in x]": "asynchronous comprehensions",
    "try:\n    pass\nexcept* ValueError:\n    pass": "except*",
    "from math import *": "wildcard",
    "from . import x": "relative",
    "import numpy as np\nnp.zeros(3)": "the module numpy",
    "import json, pandas": "the module pandas",
    "def f():\n    import enum\nf()": "the module enum",
    "from collections.abc import Sequence": "the module collections.abc",
    "from collections import OrderedDict": "collections.OrderedDict",
    "import re\nre.compile('a', re.VERBOSE)": "re.VERBOSE",
    "import sys\nsys.exit(0)": "sys.exit",
    "import os\nos.listdir('.')": "os.listdir",
    "import os\nos.environ['HOME']": "os.environ",
    "print(dir())": "the builtin dir",
    "callable(print)": "the builtin callable",
    "open('a.txt').read()": "files (open)",
    "from pathlib import Path\nPath('a.txt').read_text()": "files (Path.read_text)",
    "next(x for x in [1, 2])": "generator expressions",
    "str.maketrans('a', 'b')": "str.maketrans",
    "class A:\n    def __len__(self): return 3\nlen(A())": "__len__",
    "class A:\n    def __lt__(self, o): return True\nsorted([A(), A()])": "__lt__",
}  # fmt: skip


@pytest.mark.parametrize("code", RUNS)
def test_what_is_let_pass_runs(run: Run, code: str) -> None:
    assert lacks(code) is None
    assert run(code) is None


@pytest.mark.parametrize("code", LACKING)
def test_what_is_said_to_be_missing_is(run: Run, code: str) -> None:
    said = lacks(code)
    assert said is not None and LACKING[code] in said and "(line " in said
    assert run(code) is not None


def test_the_first_of_several_is_named_with_its_line() -> None:
    assert lacks("x = 1\nimport numpy\ndel x") == "the module numpy (line 2)"


@pytest.mark.parametrize("code", ["1 +", "\0", "(" * 5000 + ")" * 5000, "x = " + "-" * 20_000 + "1", "print('\ud800')"])
def test_text_that_is_no_python_or_too_deep_is_left_to_the_interpreter(code: str) -> None:
    assert lacks(code) is None


def test_every_module_and_name(run: Run) -> None:
    """The whole standard library of this Python, as Monty has it: the tables are complete and hold nothing else."""
    for module in sorted({*sys.stdlib_module_names, *NAMES}):
        if module.startswith("_"):
            continue
        assert (run(f"import {module}") is None) == (module in NAMES), module
    for module, names in NAMES.items():
        if module in ("os", "os.path", "posixpath"):
            continue  # of these only what needs no file is let pass
        for name in dir(importlib.import_module(module)):
            if not name.startswith("_"):
                has = run(f"from {module} import {name}") is None
                assert has == (name in names.split()), f"{module}.{name}"


def test_every_builtin(run: Run) -> None:
    for name in dir(builtins):
        # Compiled libraries that other tests import leave marks of their own among the builtins.
        if name not in ("open", "super", "__debug__") and not name.startswith("__pybind11"):
            assert (run(name) is None) == (name not in MISSING_BUILTINS), name


def test_special_methods_that_are_never_called(run: Run) -> None:
    uses = {"__len__": "len(a)", "__bool__": "1 / (not a)", "__ne__": "1 / (not (a != 5))", "__lt__": "a < 5",
            "__le__": "a <= 5", "__gt__": "a > 5", "__ge__": "a >= 5", "__getattr__": "a.foo",
            "__getattribute__": "a.foo", "__format__": "f'{a:x}'", "__bytes__": "bytes(a)",
            "__reversed__": "reversed(a)", "__class_getitem__": "A[1]"}  # fmt: skip
    uses |= {name: f"a {op}= 1" for name, op in zip(
        ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__imod__", "__ipow__", "__iand__",
         "__ior__", "__ixor__"), ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^"), strict=True)}  # fmt: skip
    assert uses.keys() == MISSING_METHODS
    for name, use in uses.items():
        assert run(f"class A:\n    def {name}(self, *o): return False\na = A()\n{use}") is not None, name
