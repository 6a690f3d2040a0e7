"""The offline model acting by programs: the same answers as with tools, on the same path as a real model."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.models.offline.code import offered_functions, printed_calls, program
from agentorchestra.workspace import Workspace

LEASE = "The rent is 900 euros.\nThe deposit is 1284 euros.\n"
ANNEX = "The garage costs 75 euros.\n"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("system", ["react", "agentorchestra"])
@pytest.mark.parametrize(
    "task",
    [
        "What is the deposit?",
        "What is the sum of the rent and the garage costs?",
        "What is 17 * 23?",
        "Who is the landlord?",
        'double(number=21, unit="euros")',
    ],
)
async def test_the_same_answers_as_with_tools(tmp_path: Path, system: str, task: str) -> None:
    def double(number: int, unit: str) -> str:
        """Double a number."""
        return f"{2 * number} {unit}"

    for name, text in (("lease.txt", LEASE), ("annex.txt", ANNEX)):
        (tmp_path / name).write_text(text)
    files = [tmp_path / "lease.txt", tmp_path / "annex.txt"]
    async with Workspace(tmp_path / "ws", tools=[double]) as ws:
        one = await ws.run(task, files=files, system=system)
        other = await ws.run(task, files=files, system=system, action="code")
        assert (other.status, other.answer_text, other.sources) == (one.status, one.answer_text, one.sources)
        await ws.replay(other.run_id)
        made = [e.body["effect"]["kind"] for e in await ws.log.events(other.run_id) if e.body.get("effect")]
    assert "RunCode" in made


def test_functions_are_read_from_the_prompt() -> None:
    system = (
        "<functions>\ndef f(a: str, *, b: Literal['x', 'y'] = 'x', c: int | None = None):\n    '''Doc.'''\n</functions>"
    )
    assert offered_functions(system) == {"f": {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["a"]}}
    assert offered_functions("no functions") is None
    assert offered_functions("<functions>\ndef (\n</functions>") == {}


def test_what_a_program_told_is_read_back_and_what_was_cut_is_left_out() -> None:
    lines = [
        '{"call": "f", "arguments": {"a": 1}, "result": "x"}',
        '{"call": "f", "error": "no"}',
        '{"call": "f", "res',
    ]
    found = printed_calls("Result of program (call_0_0):\n" + "\n".join(lines))
    assert [(one.name, one.text, one.is_error) for one in found] == [("f", "x", False), ("f", "no", True)]
    assert printed_calls("anything else\n" + lines[0]) == []
    assert program([("done", {"answer": "a"})]) == "done(**{'answer': 'a'})"
