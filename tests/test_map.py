"""The map of the package answers the five questions in three files at most, with functions that a run really passes."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agentorchestra import RunStatus, Workspace, tool
from agentorchestra.testing import ScriptedModel, call, decide

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "agentorchestra"
ROWS = re.findall(r"^\| (Where [^|]+\?) \| (.+) \|$", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
ANSWERS = {question: re.findall(r"`([\w/]+\.py)`: `([\w.]+)`", answer) for question, answer in ROWS}

GREETING = "---\nname: greeting\nversion: 1.0.0\ndescription: Greets.\nvariables: []\n---\nSay hello.\n"


def defined(file: Path) -> set[str]:
    """Return the qualified names of the functions and methods of a file."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return names


def test_the_map_has_the_five_questions() -> None:
    words = ["tool executed", "dollar counted", "prompt versioned", "crash survived", "new system added"]
    assert len(ANSWERS) == 5 and all(word in question for word, question in zip(words, ANSWERS, strict=True))


def test_the_page_on_the_architecture_has_the_same_answers() -> None:
    page = (PACKAGE.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert all(f"| {question} | {answer} |" in page for question, answer in ROWS)


@pytest.mark.parametrize("question", ANSWERS)
def test_an_answer_names_at_most_three_files_and_functions_that_are_there(question: str) -> None:
    answer = ANSWERS[question]
    assert answer and len({file for file, _ in answer}) <= 3
    for file, name in answer:
        assert name in defined(PACKAGE / file), f"{file} has no {name}"


class Passed:
    """Notes which functions of the package were called while it is open."""

    def __init__(self) -> None:
        self.names: set[tuple[str, str]] = set()

    def __enter__(self) -> set[tuple[str, str]]:
        sys.setprofile(self._note)
        return self.names

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            self.names.add((str(Path(code.co_filename).relative_to(PACKAGE)), code.co_qualname))


async def test_a_run_passes_the_functions_of_the_map(tmp_path: Path) -> None:
    @tool(effect="read")
    def weigh(item: str) -> str:
        """Weigh an item."""
        return "100 g"

    model = ScriptedModel([decide(calls=[call("weigh", item="pear")]), decide(calls=[call("done", answer="100 g")])])
    with Passed() as passed:
        async with Workspace(tmp_path / "ws", tools=[weigh]) as ws:
            await ws.components.prompts.register(source=GREETING)
            result = await ws.run("Weigh the pear.", model=model, system="react")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "100 g")
    expected = {one for answer in ANSWERS.values() for one in answer}
    assert expected <= passed, expected - passed
