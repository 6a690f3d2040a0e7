"""What logs add to a report: agents that were asked, and how tables and figures show it."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import Price
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.evaluation.courses import course
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evaluation.report import bars, distribution, figures, html, plot
from agentorchestra.evaluation.results import (
    ATTEMPTS,
    PARTINGS,
    CostPoint,
    Table,
    published_points,
    report_tables,
    tables,
    tokens,
)
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.cli.support import Folder
from tests.evaluation.support import Trial, adds, adds_small, sums


def named(name: str, instruction: str, system: str = "direct") -> AgentSpec:
    return AgentSpec(name=name, role="adder", instruction=instruction, system=system)


async def leader(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
    """Ask as many agents as the question's first number says, and a helper who asks another one; take the last."""
    count = int(re.findall(r"What is (\d+)", spec.instruction)[0])
    asked = [named("adder", spec.instruction) for _ in range(count)]
    results = await session.call_agents([*asked, named("helper", spec.instruction, "helper")])
    return AgentResult(answer=results[-1].answer)


async def helper(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
    """Ask one agent, and give its answer."""
    (result,) = await session.call_agents([named("under", spec.instruction)])
    return AgentResult(answer=result.answer)


def x_of(svg: str, y: float) -> list[float]:
    """Where the first line of a figure is at a height."""
    (line,) = re.findall(r'<polyline points="([^"]*)"', svg)[:1]
    places = [tuple(map(float, one.split(","))) for one in line.split()]
    return [a for a, b in places if abs(b - y) < 0.1]


async def test_a_tool_without_arguments_is_counted(tmp_path: Path) -> None:
    @tool(effect="read")
    def tide() -> str:
        """Tell the tide."""
        return "high"

    model = ScriptedModel([decide(calls=[call("tide")]), decide(calls=[call("done", answer="high")])])
    async with Workspace(tmp_path, tools=[tide]) as ws:
        ran = await ws.run("How is the tide?", model=model, system="react")
        found = course(await ws.log.events(ran.run_id))
    assert found.calls == {"tide", "done"}
    assert not found.tools and not found.delegations


async def test_agents_that_were_asked_are_counted_without_those_below_them(tmp_path: Path) -> None:
    sums(tmp_path / "data", 8)
    systems = {"leader": leader, "helper": helper}
    trial = Trial(tmp_path, {"good": adds, "poor": adds_small}, systems=systems, price=Price(input=1, output=2))
    plan = trial.plan(
        Arm(name="led", system="leader"), Arm(name="alone"), Arm(name="poor", model="poor"), suite="002-c1"
    )
    await trial.run(plan)
    scores = await trial.score(plan)
    assert [one.delegations for one in scores if one.arm == "led"] == [*range(1, 9)]
    assert {one.delegations for one in scores if one.arm != "led"} == {0}
    found = {one.title: one for one in tables(plan, scores)}
    attempts = found[ATTEMPTS]
    assert attempts.head == ("arm", "solved", "0", "1", "2", "3", "4", "5", "more than 5", "median", "most")
    assert attempts.rows == (
        ("led", "8", "0", "1", "1", "1", "1", "1", "3", "4.5", "8"),
        ("alone", "8", "8", "0", "0", "0", "0", "0", "0", "0", "0"),
        ("poor", "5", "5", "0", "0", "0", "0", "0", "0", "0", "0"),
    )
    beside = found["Beside the paper"]
    assert beside.head == ("arm", "row", "agents>5")
    assert beside.rows[0][2].startswith("37.5 [")  # three of eight
    page = html(plan, tables(plan, scores), figures(plan, scores))
    assert page.count("<svg") == 3
    assert page.count("<rect") == 8 + 1 + 1
    assert "<title>led: 1 after 8</title>" in page and "<title>poor: 5 after 0</title>" in page
    spent = tokens(plan, scores)
    assert {name: len(each) for name, each in spent.items()} == {"led": 8, "alone": 8, "poor": 8}
    assert spent["led"] == sorted(one.tokens for one in scores if one.arm == "led")


def test_half_of_the_answers_stand_at_half_the_height() -> None:
    svg = distribution({"one": [10, 20, 30, 100]})
    low, high, left, right = 320, 30, 60, 600
    assert x_of(svg, (low + high) / 2) == [left + 0.2 * (right - left), left + 0.3 * (right - left)]
    assert x_of(svg, high) == [right, right]
    assert ">100</text>" in svg and "<script" not in distribution({"<script>": [1]})


def test_what_was_published_stands_in_the_plot(tmp_path: Path) -> None:
    sums(tmp_path / "data", 2)
    plan = Trial(tmp_path, {"good": adds}).plan(Arm(name="react"), suite="002-table3")
    others = published_points(plan)
    assert CostPoint("Ours, Gemini-3-Flash", 0.79, 0.8) in others
    assert len(others) == 13
    svg = plot([CostPoint("react", 0.1, 0.5)], others)
    assert svg.count("<circle") == 14
    assert "empty circles: published" in svg
    assert published_points(plan.model_copy(update={"suite": "004-table7"})) == []


def test_a_bar_is_as_high_as_its_number() -> None:
    svg = bars({"one": Counter({0: 4, 2: 1}), "two": Counter({2: 2})})
    heights = {title: float(height) for height, title in re.findall(r'height="([\d.]+)"[^>]*><title>([^<]*)', svg)}
    assert heights == {"one: 4 after 0": 290, "one: 1 after 2": 72.5, "two: 2 after 2": 145}


def by_the_prompt(request: ModelRequest) -> Any:
    """A model that adds, and is wrong on 2 where the prompt asks for fields of reasoning."""
    text = "\n".join(one.text for one in request.messages)
    first, other = map(int, re.findall(r"What is (\d+) \+ (\d+)\?", text)[0])
    wrong = first == 2 and "evaluation" in text
    return decide(calls=[call("done", answer=str(other if wrong else first + other))])


@pytest.mark.long
def test_where_two_settings_of_one_system_first_differ_is_said_of_each_question(tmp_path: Path) -> None:
    sums(tmp_path / "data", 4)
    trial = Trial(tmp_path, {"m": by_the_prompt})
    fields = Arm(name="fields", system="react", settings={"reasoning": "fields"})
    arms = [Arm(name=name, system="react") for name in ("plain", "again")]
    plan = trial.plan(*arms, fields, Arm(name="direct", system="direct"))

    async def evaluated() -> dict[str, Table]:
        await trial.run(plan)
        scores = await trial.score(plan)
        async with trial.workspace(trial.folder) as workspace:
            return {one.title: one for one in await report_tables(workspace, plan, scores)}

    parted = asyncio.run(evaluated())[PARTINGS]
    assert parted.head == ("id", "plain and again", "plain and fields")
    assert [row[1] for row in parted.rows] == ["equal"] * 4
    assert [row[2].partition(": ")[0] for row in parted.rows] == ["/1.react#2"] * 4
    folder = Folder(tmp_path)

    def compared(*arms: str) -> str:
        done = folder.run("eval", "compare", "trial", *arms, "--workspace", str(trial.folder))
        assert done.code == 0, done.err
        return done.out

    said = compared("plain", "fields")
    assert said.count("first differ at /1.react#2: ") == 4
    assert "q2, repeat 1\n  plain: right: " in said
    assert "q1, repeat 1: the same came of it; first differ at /1.react#2: " in said
    assert compared("plain", "again").count("the same came of it; the runs are equal") == 4
    assert "the same came of it" not in compared("plain", "direct")
