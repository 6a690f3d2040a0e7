"""What a tool is to do, and whether code has the structure of one: nothing is executed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agentorchestra.agents.generation.specification import SpecificationError, read_specification, same
from agentorchestra.agents.generation.structure import imported_modules, problems_of
from agentorchestra.core.settings import GeneratorSettings
from tests.agents.generating import RIGHT, TASK, specified

SPEC = specified(f"<task>\n{TASK}\n</task>", "")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import requests\n" + RIGHT, "imports 'requests' in line 1"),
        (RIGHT.replace("number: int", "number: int, base: int"), "'base' is not specified"),
        ("print('imported')\n" + RIGHT, "line 1: at the top of the code stand imports and the one function"),
        (RIGHT.replace("    text =", "    open('/etc/passwd')\n    text =", 1), r"open\(\) may not be used"),
        (RIGHT.replace("    text =", "    text = os.environ['HOME']\n    text =", 1), "imports 'os'"),
        (RIGHT.replace("    text =", "    tools.send_mail(to='x')\n    text =", 1), "calls tools.send_mail"),
        (RIGHT.replace("-> str", ""), "does not say what it returns"),
        ("def roman(number: int) -> str:\n    return 'I'\n", "has no docstring"),
        ("def roman(number: int -> str:", "is not Python"),
    ],
)
def test_structure_is_refused_with_its_reason(code: str, reason: str) -> None:
    spec = read_specification(specified(f"<task>\n{TASK}\n</task>", ""), TASK, 2)
    assert problems_of(RIGHT, spec, GeneratorSettings()) == []
    assert re.search(reason, "; ".join(problems_of(code, spec, GeneratorSettings())))


def test_libraries_of_the_settings_are_allowed_and_named() -> None:
    spec = read_specification(SPEC, TASK, 2)
    code = "import sklearn.metrics\nimport json\n" + RIGHT
    assert "imports 'sklearn.metrics'" in problems_of(code, spec, GeneratorSettings())[0]
    assert problems_of(code, spec, GeneratorSettings(libraries=("sklearn",))) == []
    assert imported_modules(code) == ["json", "sklearn"]
    assert "imports 'numpy'" in problems_of("import numpy\n" + RIGHT, spec, GeneratorSettings(libraries=()))[0]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": "done"}, "reserved"),
        ({"name": "two words"}, "two words"),
        ({"name": "a-b"}, "no name for a Python function"),
        ({"description": " "}, "no description"),
        ({"parameters": {"type": "array"}}, '"type": "object"'),
        ({"parameters": {"type": 3, "properties": {}}}, "no JSON schema|`parameters`"),
        ({"returns": {}}, "`returns` is missing"),
        ({"examples": SPEC["examples"][:1]}, "1 different examples besides the case; 2 are needed"),
        ({"examples": [*SPEC["examples"][:1], SPEC["case"] | {"expected": "M"}]}, "1 different examples"),
        ({"examples": [*SPEC["examples"], {"arguments": {"number": "x"}, "expected": "I"}]}, "example 3 do not fit"),
        ({"examples": [*SPEC["examples"], {"arguments": {"number": 2}, "expected": 2}]}, "result of example 3"),
        ({"case": {"arguments": {"n": 2}}}, "the case do not fit"),
    ],
)
def test_a_specification_by_which_no_tool_could_be_judged_is_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecificationError, match=reason):
        read_specification({**SPEC, **changed}, TASK, 2)


def test_a_result_counts_as_stated_only_where_the_task_states_it() -> None:
    task = f"{TASK} The result must be MCMXCIV."

    def known(expected: str, words: str) -> bool:
        case = {**SPEC["case"], "expected": expected, "stated_as": words}
        return read_specification({**SPEC, "case": case}, task, 2).case.known

    assert known("MCMXCIV", "must be  MCMXCIV")
    assert not known("MIM", "must be MCMXCIV") and not known("MIM", "must be MIM") and not known("MCMXCIV", "")


def test_results_are_the_same_when_their_values_are() -> None:
    assert same({"a": [0.1 + 0.2, "x"]}, {"a": [0.3, "x"]}) and same(2, 2.0)
    assert not same(1, True) and not same([1], [1, 2]) and not same("1", 1) and not same(None, 0)
    assert not same({"a": 1}, {"b": 1}) and not same(1.0, 1.001)
