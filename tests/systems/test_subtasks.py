"""Subtasks: a graph whose ready ones are done at the same time, whose results are checked and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.settings import PartSettings, Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.tea.calling.tool import tool_from_schema
from tests.systems.graphs import GOAL, Divider
from tests.systems.support import seen, workspace

SETTINGS = Settings(parts=PartSettings(subtasks=True))


async def divided(tmp_path: Path, model: Divider, **options: Any) -> tuple[RunResult, list[tuple[str, int, int]]]:
    """Run it in `react`; return the result, and of each sub-agent name, first and last place in the log."""
    async with workspace(tmp_path, model.model(), settings=SETTINGS) as ws:
        result = await ws.run(GOAL, model="scripted", system="react", **options)
        events = await ws.log.events(result.run_id)
        if result.status is RunStatus.COMPLETED:
            assert (await ws.replay(result.run_id)).answer == result.answer_text
    records = Ledger.of(events).records
    places: list[tuple[str, int, int]] = []
    for key, record in sorted(records.items()):
        if record.kind is EffectKind.INVOKE_AGENT and key.branch != "/":
            of_it = [one.seq for one in events if (one.branch, one.n) == (key.branch, key.n)]
            places.append((str(record.effect["arguments"]["instruction"]), min(of_it), max(of_it)))
    return result, places


def piece(task: str, *needs: int) -> dict[str, Any]:
    return {"task": task, "needs": [*needs]}


async def test_the_ready_ones_begin_before_any_ends_and_the_others_after_what_they_need(tmp_path: Path) -> None:
    model = Divider([piece("bell"), piece("rope"), piece("sum", 1, 2), piece("oar")])
    result, places = await divided(tmp_path, model)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "all")
    began = {task: first for task, first, _ in places}
    ended = {task: last for task, _, last in places}
    assert max(began[one] for one in ("bell", "rope", "oar")) < min(ended.values())
    assert began["sum"] > max(ended["bell"], ended["rope"])
    (child,) = model.asked["sum"]
    assert "bell: known (scale)" in seen(child) and "rope: known (scale)" in seen(child)
    assert "oar" not in seen(child) and GOAL not in seen(child)
    assert "In kilograms." in seen(child) and all("In kilograms." in seen(one) for one in model.asked["valid"])
    shown = seen(model.asked["lead"][0])
    for word in ("bell", "rope", "sum", "oar"):
        assert f"(checked): {word}" in shown and f"{word}: known (scale)" in shown


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", ["agentorchestra", "aorchestra"])
async def test_a_setting_puts_subtasks_into_other_systems(tmp_path: Path, system: str) -> None:
    model = Divider([piece("bell"), piece("sum", 1)])
    async with workspace(tmp_path, model.model(), settings=SETTINGS) as ws:
        result = await ws.run(GOAL, model="scripted", system=system)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "all")
    assert "python" in [one.name for one in model.asked["bell"][0].tools]
    assert "Subtask 2 (checked): sum" in seen(model.asked["lead"][0])


async def test_a_fork_behind_the_subtasks_does_none_of_them_again(tmp_path: Path) -> None:
    model = Divider([piece("bell"), piece("rope"), piece("sum", 1, 2)])
    async with workspace(tmp_path, model.model(), settings=SETTINGS) as ws:
        result = await ws.run(GOAL, model="scripted", system="react")
        fork = await ws.fork(result.run_id, at="/1.react#4")  # bell and rope were done, not checked
        assert (await ws.resume(fork)).answer == "all"
    assert {kind: len(model.asked[kind]) for kind in ("subtasks", "bell", "rope", "sum", "valid", "lead")} == {
        "subtasks": 1, "bell": 1, "rope": 1, "sum": 2, "valid": 6, "lead": 2,
    }  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ([piece("bell"), piece("rope", 2)], ["Subtask 2 (not begun): rope\nProblem: it needs itself"]),
        ([piece("bell"), piece("rope", 7)], ["Problem: it needs subtask 7, which there is not"]),
        (
            [piece("bell"), piece("rope", 3), piece("oar", 2)],
            ["Problem: it waits for subtask 3, which cannot begin", "it waits for subtask 2, which cannot begin"],
        ),
    ],
)
async def test_what_can_never_begin_is_named_and_the_rest_is_done(tmp_path: Path, graph: Any, said: list[str]) -> None:
    model = Divider(graph)
    result, places = await divided(tmp_path, model)
    assert result.status is RunStatus.COMPLETED
    assert [task for task, _, _ in places] == ["bell"]
    shown = seen(model.asked["lead"][0])
    assert "Subtask 1 (checked): bell" in shown
    for one in said:
        assert one in shown


async def test_a_result_that_breaks_a_constraint_is_refused_with_why(tmp_path: Path) -> None:
    broken = {"facts": [], "valid": False, "problem": "It is in pounds."}
    model = Divider([piece("bell"), piece("sum", 1), piece("oar")], checks={"bell": broken})
    _, places = await divided(tmp_path, model)
    assert [task for task, _, _ in places] == ["bell", "oar"]
    shown = seen(model.asked["lead"][0])
    assert "Subtask 1 (refused): bell\nProblem: It is in pounds.\nResult: bell is done" in shown
    assert "Subtask 2 (not begun): sum\nProblem: it needs subtask 1, which has no result that holds" in shown


async def test_a_subtask_that_nobody_can_do_leaves_what_it_came_to(tmp_path: Path) -> None:
    failed = {"bell": {"answer": "About 3.", "status": "blocked", "report": "The scale is gone."}}
    model = Divider([piece("bell"), piece("rope")], results=failed)
    result, _ = await divided(tmp_path, model)
    assert result.status is RunStatus.COMPLETED
    shown = seen(model.asked["lead"][0])
    assert "Subtask 1 (failed): bell\nProblem: The scale is gone.\nResult: About 3." in shown
    assert len(model.asked["valid"]) == 1


async def test_a_result_that_nobody_could_check_is_passed_on_as_such(tmp_path: Path) -> None:
    model = Divider([piece("bell"), piece("sum", 1)], checks={"bell": "Fine!"})
    _, places = await divided(tmp_path, model)
    assert [task for task, _, _ in places] == ["bell", "sum"]
    assert "Subtask 1 (unchecked): bell\nResult: bell is done" in seen(model.asked["sum"][0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reply", [[], [piece("bell")], "bell", [{"needs": []}], [{"task": "bell", "needs": ["x"]}]])
async def test_a_task_that_is_not_divided_is_the_agents_own(tmp_path: Path, reply: Any) -> None:
    model = Divider(reply)
    result, places = await divided(tmp_path, model)
    assert (result.status, places) == (RunStatus.COMPLETED, [])
    assert "Subtask" not in seen(model.asked["lead"][0])


async def test_no_more_subtasks_are_done_than_the_prompt_allows(tmp_path: Path) -> None:
    _, places = await divided(tmp_path, Divider([piece(f"thing {n}") for n in range(12)]))
    assert len(places) == 8


async def test_the_end_of_the_budget_keeps_what_was_done(tmp_path: Path) -> None:
    for steps in range(1, 7):
        model = Divider([piece("bell"), piece("rope"), piece("sum", 1, 2)])
        result, _ = await divided(tmp_path / str(steps), model, budget=Budget(steps=steps))
        enough = steps == 6  # the division, three subtasks, the answer, and room for a last one
        assert result.status is (RunStatus.COMPLETED if enough else RunStatus.BUDGET_EXHAUSTED), steps
        assert result.answer == "all", steps
        assert ("(checked): bell" in seen(model.asked["lead"][-1])) is (steps > 2), steps


async def test_what_a_tool_from_outside_says_of_itself_makes_subtasks_untrusted(tmp_path: Path) -> None:
    """An orchestrator sees no tool of its own; but whoever divides its task is told what each is for."""
    schema = ToolSchema(name="depth", description="Sounds lakes.", parameters={"type": "object", "properties": {}})
    for trust in (Trust.SYSTEM, Trust.UNTRUSTED):
        outside = tool_from_schema(lambda: "3 m", schema, effect="pure", trust=trust)
        model = Divider([piece("bell"), piece("rope")])
        async with workspace(tmp_path / trust, model.model(), tools=[outside], settings=SETTINGS) as ws:
            run = (await ws.run(GOAL, model="scripted", system="coral")).run_id
            ledger = Ledger.of(await ws.log.events(run))
        assert "depth: Sounds lakes." in seen(model.asked["subtasks"][0])
        first = min(
            key for key, one in ledger.records.items() if one.effect.get("arguments", {}).get("name") == "subtask_1"
        )
        told = ledger.codec.decode(ledger.records[first].effect).lowest_trust
        assert told is (Trust.AGENT if trust is Trust.SYSTEM else Trust.UNTRUSTED)
