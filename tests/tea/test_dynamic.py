"""Source texts become modules, tools and classes; what is wrong with one is a sentence, and nothing of it stays."""

from __future__ import annotations

import inspect
import linecache
import sys

import pytest

from agentorchestra.core.errors import SourceError, ToolDefinitionError
from agentorchestra.tea.programs.dynamic import class_from_source, load_module, load_source, member, tools_from_source
from agentorchestra.tea.programs.imports import check_imports, complete_imports
from agentorchestra.tea.programs.sources import module_text, pin_of, pinned_tool

SHOUT = '''"""Tools for texts."""

from agentorchestra import tool


@tool(effect="pure")
def shout(text: str, times: int = 1) -> str:
    """Say it louder.

    Args:
        text: what to say.
    """
    return text.upper() + "!" * times
'''


def virtual() -> set[str]:
    return {name for name in [*sys.modules, *linecache.cache] if "agentorchestra_source_" in name}


def test_a_text_is_loaded_once_and_its_source_is_found() -> None:
    module = load_module(SHOUT)
    assert module is load_module(SHOUT) and sys.modules[module.__name__] is module
    assert "return text.upper()" in inspect.getsource(module.shout)
    assert load_module(SHOUT + "\n") is not module


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = = 2\n", r"is not Python: line 2: invalid syntax: y = = 2"),
        ("x = 1\n\nraise ValueError('no good')\n", r"cannot be loaded: line 3: ValueError: no good; correct it"),
        ("import no_such_module_here\n", r"line 1: ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("def f():\n    return 1 / 0\n\nf()\n", r"line 2: ZeroDivisionError"),
        ("raise SystemExit(3)\n", r"line 1: SystemExit: 3"),
        ("return 1\n", r"line 1: SyntaxError: 'return' outside function"),
        ("x = '\0'\n", r"null bytes"),
        ("(" * 5000 + "1" + ")" * 5000, r"is not Python"),
        ("-" * 100_000 + "1", r"is not Python|cannot be loaded"),
        ("x" * 1_000_001, r"has 1,000,001 characters; at most 1,000,000"),
    ],
)
def test_a_text_that_fails_leaves_nothing_behind(text: str, said: str) -> None:
    before = virtual()
    with pytest.raises(SourceError, match=said) as caught:
        load_module(text)
    assert virtual() == before
    assert "\n" not in str(caught.value)


def test_a_line_is_that_of_the_text_as_it_was_given() -> None:
    with pytest.raises(SourceError, match="line 4: ZeroDivisionError"):
        load_source('"""Doc\nstring."""\n\njson.dumps(1 / 0)\n')


def test_an_interrupted_load_is_no_loaded_module() -> None:
    before = virtual()
    with pytest.raises(KeyboardInterrupt):
        load_module("raise KeyboardInterrupt\n")
    assert virtual() == before


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("def f(a: Any) -> str:\n    return json.dumps(a)\n", ("import json", "from typing import Any")),
        ("x = math.pi\n", ("import math",)),
        ("from __future__ import annotations\nx: Literal['a'] = 'a'\n", ("from typing import Literal",)),
        ("def f(a: 'Optional[int]' = None): ...\n", ("from typing import Optional",)),
        ("@tool\ndef f() -> int: ...\n", ("from agentorchestra import tool",)),
        ("x = datetime.now()\n", ("from datetime import datetime",)),
        ("x = copy.deepcopy([])\n", ()),
        ("x = np.arange(3)\n", ("import numpy as np",)),
        # Bound: by an import, a value, a parameter, in the scope that counts.
        ("import json\njson.dumps(1)\n", ()),
        ("import os.path\nos.path\n", ()),
        ("def f(json):\n    return json\n", ()),
        ("json = 3\ndef f():\n    return json\n", ()),
        ("def set_it():\n    global re\n    re = 3\ndef f():\n    return re\n", ()),
        ("x = [math for math in range(3)]\n", ()),
        ("try:\n    pass\nexcept Exception as re:\n    re\n", ()),
        ("from somewhere import *\njson.dumps(1)\n", ()),
        ("x = unknown_thing\n", ()),
        ("x = 'json.dumps'\n", ()),
        # A local of one function is not the module of another.
        ("def f():\n    json = 1\n    return json\ndef g():\n    return json.dumps(1)\n", ("import json",)),
    ],
)
def test_missing_imports_of_known_names_are_added(text: str, added: tuple[str, ...]) -> None:
    found = complete_imports(text)
    assert found.added == added
    assert (found.text == text) == (not added)
    assert complete_imports(found.text).added == ()


def test_added_imports_stand_behind_the_docstring_and_future() -> None:
    text = '"""Doc."""\nfrom __future__ import annotations  # comment\n\nx = json.dumps(1)\n'
    found = complete_imports(text)
    assert found.text.split("\n")[2] == "import json"
    compile(found.text, "x", "exec")
    assert [found.line(one) for one in (1, 2, 4, 5)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import json\nimport socket\n", r"imports 'socket' in line 2"),
        ("import os, subprocess\n", r"imports 'subprocess' in line 1"),
        ("def f():\n    from ctypes import CDLL\n", r"imports 'ctypes.CDLL' in line 2"),
        ("from urllib import request\n", r"imports 'urllib.request'"),
        ("import urllib.request\n", r"imports 'urllib.request'"),
        ("from . import other\n", r"imports '\.' in line 1"),
        ("x = __import__('socket')\n", r"imports '__import__' in line 1"),
        ("x = __builtins__\n", r"imports '__builtins__' in line 1"),
    ],
)
def test_a_forbidden_import_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        check_imports(text)


@pytest.mark.parametrize(
    "text", ["import os.path\n", "from urllib.parse import quote\n", "from urllib import parse\n", "import xml.dom\n"]
)
def test_what_lies_below_an_allowed_module_is_allowed(text: str) -> None:
    check_imports(text)


def test_tools_of_a_text() -> None:
    (found,) = tools_from_source(SHOUT)
    assert found.name == "shout" and found("a", 2) == "A!!"
    assert found.schema.parameters["properties"]["text"]["description"] == "what to say."
    # It is pinned like a tool from a file, and comes back from the kept text.
    pin = pin_of(found)
    assert module_text(found) == SHOUT
    assert pinned_tool("shout", pin, SHOUT).content_hash == found.content_hash


def test_plain_functions_are_tools_and_imports_are_added() -> None:
    text = 'def one(a: int) -> str:\n    """One."""\n    return json.dumps(a)\n\n\ndef _two(b): ...\n'
    (found,) = tools_from_source(text)
    assert found.name == "one" and found(3) == "3"
    assert module_text(found).startswith("import json\n")
    assert tools_from_source(text, name="one")[0].content_hash == found.content_hash


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("x = 1\n", None, "defines no function"),
        ("def shout(a: int): ...\n", "shot", "does not define 'shot'; did you mean 'shout'"),
        ("def f(a: int): ...\n", "zzz", "does not define 'zzz'; it defines f"),
        ("x = 1\n", "x", "'x' in the source is a int; a tool is a function"),
        ("from agentorchestra import tool\n@tool\ndef f(a): ...\n", None, "line 2: ToolDefinitionError: parameter 'a'"),
    ],
)
def test_a_text_without_that_tool(text: str, name: str | None, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        tools_from_source(text, name=name)


def test_a_plain_function_without_types_is_no_tool() -> None:
    with pytest.raises(ToolDefinitionError, match="parameter 'a' of tool 'f' has no type"):
        tools_from_source("def f(a): ...\n")


def test_classes_of_a_text_and_what_they_lack() -> None:
    text = "class Box:\n    name = 'box'\n    def put(self): ...\n\n\nclass Other: ...\n"
    assert class_from_source(text, has=("name", "put")).__name__ == "Box"
    assert class_from_source(text, "Other").__name__ == "Other"
    with pytest.raises(SourceError, match="the class 'Other' lacks name, put; it needs name, put"):
        class_from_source(text, "Other", has=("name", "put"))
    with pytest.raises(SourceError, match=r"defines 0 classes with take \(Box, Other\)"):
        class_from_source(text, has=("take",))
    with pytest.raises(SourceError, match="'name_' in the source is a int, and a class is needed"):
        class_from_source("name_ = 1\n", "name_")
    with pytest.raises(SourceError, match="does not define 'Bxo'; did you mean 'Box'"):
        member(load_source(text), "Bxo")
