"""A team whose planner and agents act by writing programs. The models answer from what their prompts show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, say
from agentorchestra.workspace import Workspace
from tests.support.programs import effects, printed, program
from tests.systems.support import seen

LEASE = "The rent is 900 euros.\nThe deposit is 1284 euros.\n"
ANNEX = "The garage costs 75 euros.\n"


_ROLES = {"planner": "You lead a team", "analyzer": "You analyse files", "reporter": "You write the report"}


def role_of(request: ModelRequest) -> str:
    """Who is asked."""
    system = request.messages[0].text
    for role, words in _ROLES.items():
        if words in system:
            return role
    return "judge" if "<found_by_the_team>" in seen(request) else "formatter"


def analyzer(request: ModelRequest) -> ModelResponse:
    """One program: it reads the file its task names, and finishes with the line that holds the word asked for."""
    assert "You act by writing Python" in request.messages[0].text
    task = re.search(r"<task>\n(\w+) in (\S+)\n", request.messages[1].text)
    assert task is not None, request.messages[1].text
    return program(
        f"piece = read_file(name={task[2]!r})[0]\n"
        "for number, line in enumerate(piece['text'].splitlines(), start=1):\n"
        f"    if {task[1]!r} in line:\n"
        "        cited = {'source': piece['source'], 'place': f'line {number}', 'quote': line}\n"
        "        done(answer=line, sources=[cited])"
    )


def team(planner: Any, **others: Any) -> ScriptedModel:
    """A model for all roles."""
    usual: dict[str, Any] = {
        "analyzer": analyzer,
        "judge": lambda request: say('{"supported": true}'),
        "formatter": lambda request: say("KEEP"),
    }
    roles = {**usual, "planner": planner, **others}
    return ScriptedModel(lambda request: roles[role_of(request)](request))


def _files(folder: Path) -> list[Path]:
    found = []
    for name, text in (("lease.txt", LEASE), ("annex.txt", ANNEX)):
        (folder / name).write_text(text)
        found.append(folder / name)
    return found


ASK_BOTH = """
import asyncio
found = await asyncio.gather(
    deep_analyzer(task="deposit in lease.txt"), deep_analyzer(task="garage in annex.txt")
)
for one in found:
    print(one["status"], one["answer"])
"""


async def test_a_planner_delegates_from_a_program_and_its_sources_hold(tmp_path: Path) -> None:
    def planner(request: ModelRequest) -> ModelResponse:
        assert "def deep_analyzer(task: str | None = None, context: str | None = None)" in seen(request)
        assert "def search_files" not in seen(request)
        if not request.messages[-2].text.startswith("Result of program"):
            return program(ASK_BOTH)
        assert printed(request) == "completed The deposit is 1284 euros.\ncompleted The garage costs 75 euros."
        return program(
            "said = ' '.join(one['answer'] for one in found)\n"
            "done(answer=said, sources=[source for one in found for source in one['sources']])"
        )

    model = team(planner)
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("Deposit and garage?", files=_files(tmp_path), model=model, action="code")
        assert (result.status, result.answer) == (
            RunStatus.COMPLETED, "The deposit is 1284 euros. The garage costs 75 euros."
        ), result.report  # fmt: skip
        assert [(one.source, one.place) for one in result.sources] == [("lease.txt", "line 2"), ("annex.txt", "line 1")]
        made = effects(list(await ws.log.events(result.run_id)))
        agents = [key for key, name in made.items() if name == "deep_analyzer"]
        assert sorted(agents) == ["/1.agentorchestra/4.program#1", "/1.agentorchestra/4.program#2"]
        await ws.replay(result.run_id, model=model)


async def test_an_answer_that_no_agent_found_goes_back_to_the_planner(tmp_path: Path) -> None:
    def planner(request: ModelRequest) -> ModelResponse:
        if "<problem>" in seen(request):
            return program("done(answer=one['answer'], sources=one['sources'])")
        return program(
            "one = deep_analyzer(task='deposit in lease.txt')\n"
            "done(answer='9999 euros', sources=[{'source': 'lease.txt', 'place': 'line 1', 'quote': '9999 euros'}])"
        )

    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("The deposit?", files=_files(tmp_path), model=team(planner), action="code")
    assert (result.answer, result.steps) == ("The deposit is 1284 euros.", 3)  # two of them the planner's


async def test_a_report_is_written_from_what_programs_found(tmp_path: Path) -> None:
    """The reporter is asked in the same program as the analyzer before it, and sees what that one found."""

    def reporter(request: ModelRequest) -> ModelResponse:
        assert "[E1] lease.txt, line 2: “The deposit is 1284 euros.”" in seen(request)
        return program("done(answer='The deposit is 1284 euros [E1].')")

    def planner(request: ModelRequest) -> ModelResponse:
        return program(
            "one = deep_analyzer(task='deposit in lease.txt')\nreporter(task='Write it up.')\n"
            "done(answer=one['answer'], sources=one['sources'])"
        )

    async with Workspace(tmp_path / "ws") as ws:
        model = team(planner, reporter=reporter)
        result = await ws.run("A report on the deposit.", files=_files(tmp_path), model=model, action="code")
        await ws.replay(result.run_id, model=model)
    assert result.answer == "The deposit is 1284 euros."
    assert "The deposit is 1284 euros [1]" in result.report and "lease.txt" in result.report
