"""Presets: the limits of the papers under the user's settings, and what they govern."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentorchestra import Workspace
from agentorchestra.cli.group import cli
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import AgentSettings, ResearchSettings, SearchSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import load_settings
from agentorchestra.workspace.agents import builtin_agents
from agentorchestra.workspace.presets import find_preset, preset_names, with_preset
from agentorchestra.workspace.presets.sheet import sheet, value_of
from tests.agents.researching import TASK, lines_with, model
from tests.browser import find_chromium
from tests.support.runs import whole_runs
from tests.systems.workforce import WORD, Workforce

DOCS = Path(__file__).resolve().parents[2] / "docs" / "presets"

STATED: dict[str, dict[str, Any]] = {
    "paper-000": {
        "finish": "done",
        "max_steps": 50,
        "memory": "workflow",
        "reasoning": "fields",
        "in_view_chars": 0,
        "research.rounds": 3,
        "analysis.rounds": 3,
        "generator.keep": "workspace",
        "generator.attempts": 10,
        "browser.rounds": 5,
        "agents.browser_use.max_steps": 50,
    },
    "paper-001": {
        "finish": "done",
        "max_steps": 20,
        "reasoning": "fields",
        "in_view_chars": 0,
        "research.rounds": 3,
        "research.depth": 2,
        "research.follow_ups": 3,
        "research.branches": 2,
        "research.insights_per_page": 3,
        "research.insights": 20,
        "research.seconds": 60,
        "analysis.rounds": 3,
        "generator.keep": "workspace",
        "generator.attempts": 10,
        "browser.rounds": 5,
        "agents.browser_use.max_steps": 50,
    },
}
"""What the papers state (000, sec. 5 and app. D.5; 001, sec. 4.4, and its authors' program), as it is set here."""

ORCHESTRATED: dict[str, Any] = {
    "system": "aorchestra",
    "max_steps": 11,
    "in_view_chars": 0,
    "memory": "none",
    "aorchestra.attempts": 10,
    "aorchestra.parallel": 1,
    "aorchestra.child_steps": 50,
    "aorchestra.context": "curated",
    "aorchestra.question": False,
    "aorchestra.executor": "react",
    "aorchestra.review_from": 1,
}
STATED_002: dict[str, dict[str, Any]] = {
    "paper-002-gaia": {
        **ORCHESTRATED,
        "aorchestra.toolset": "gaia",
        "aorchestra.child_steps": 30,
        "search.timeout_s": 30,
        "web.timeout_s": 50,
        "sandbox.timeout_s": 10,
    },
    "paper-002-terminal": {**ORCHESTRATED, "aorchestra.toolset": "terminal", "sandbox.timeout_s": 600},
    "paper-002-swe": {**ORCHESTRATED, "aorchestra.toolset": "swe", "sandbox.timeout_s": 300},
}
"""What 002 states (table 6, app. D.3), and attempts and steps as its public code has them."""

STATED_004: dict[str, dict[str, Any]] = {
    "paper-004-fac": {
        "system": "oagents",
        "finish": "done",
        "action": "code",
        "memory": "none",
        "parts.tips": True,
        "parts.reflect": False,
        "parts.expand": 0,
        "search.engines": ["google", "wikipedia", "duckduckgo", "bing", "baidu", "archive"],
        "search.most": 6,
        "search.choice": "rules",
    },
    "paper-004-lrf": {
        "system": "oagents",
        "finish": "done",
        "memory": "none",
        "parts.tips": False,
        "parts.reflect": False,
        "parts.expand": 0,
        "search.engines": ["google"],
        "search.most": 1,
        "search.choice": "rules",
    },
}
"""The two bases of 004's evaluations (sec. 4.1; tables 3 and 4 are without the queries of table 5); archives: 3.1.2."""


ROLES_003 = ("main", "worker", "summariser", "search", "vision", "hearing", "video")
STATED_003: dict[str, Any] = {
    "system": "coral",
    "in_view_chars": 0,
    "memory": "none",
    "coral.minutes": 30,
    "coral.topology": "star",
    "owl.replans": 3,
    **{f"roles.{role}.temperature": 0 for role in ROLES_003},
}
"""What 003 states (sec. 3, 4.2)."""


def leaves(table: dict[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= leaves(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return found


@pytest.mark.parametrize("name", preset_names())
def test_limits_are_the_papers(name: str) -> None:
    stated = STATED | STATED_002 | {"paper-003": STATED_003} | STATED_004
    assert leaves(find_preset(name).settings) == stated[name]


@pytest.mark.parametrize("name", sorted(STATED))
async def test_workspaces_have_the_limits(name: str, tmp_path: Path) -> None:
    async with Workspace(tmp_path / "w", preset=name) as ws:
        assert ws.settings.preset == name
        assert {path: value_of(path, ws.settings) for path in STATED[name]} == STATED[name]
        agents: dict[str, Any] = ws.catalog.agents
        assert agents["deep_researcher"].drive.limits == ws.settings.research
        assert agents["deep_analyzer"].drive.limits == ws.settings.analysis
        assert agents["tool_generator"].drive.limits == ws.settings.generator
        assert agents["browser_use"].drive.rounds == 5
        assert agents["browser_use"].max_steps == 50


@pytest.mark.parametrize("name", sorted(STATED_002))
async def test_workspaces_orchestrate_with_the_limits(name: str, tmp_path: Path) -> None:
    async with Workspace(tmp_path / "w", preset=name) as ws:
        assert {path: value_of(path, ws.settings) for path in STATED_002[name]} == STATED_002[name]


@pytest.mark.parametrize("name", sorted(STATED_004))
async def test_runs_have_the_parts_of_their_preset(name: str, tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> ToolCall | str:
        asked.append(request)
        return call("done", answer="yes") if request.tools else json.dumps({"given": [], "steps": ["Look."]})

    async with Workspace(tmp_path / "w", preset=name) as ws:
        engines = STATED_004[name]["search.engines"]
        assert {path: value_of(path, ws.settings) for path in STATED_004[name]} == {
            **STATED_004[name],
            "search.engines": tuple(engines),
        }
        if name == "paper-004-lrf":  # the other one acts by programs
            result = await ws.run("Is it so?", model=ScriptedModel(model))
            (record,) = await whole_runs(ws)
            assert (result.answer, record.manifest.system, record.manifest.parts.tips) == ("yes", "oagents", False)
            assert "1. Look." in asked[-1].messages[-1].text


async def test_the_orchestrator_has_ten_attempts_and_the_end(tmp_path: Path) -> None:
    """The run's system, its limit and the tools that it can give away are the preset's; the last decision must end."""
    decided: list[str] = []

    def never_done(request: ModelRequest) -> ToolCall | str:
        if not request.tools:  # the reviewer
            return json.dumps({"points": ["nothing"], "issues": []})
        shown = "\n".join(one.text for one in request.messages)
        if not any(one.name == "delegate_task" for one in request.tools):
            return call("done", answer="nothing yet", status="partial")
        decided.append(shown)
        if "last allowed step" in request.messages[-1].text:
            return call("complete", answer="unknown", status="partial")
        return call("delegate_task", task_instruction=f"Look again, {len(decided)}.", tools=["python"])

    async with Workspace(tmp_path / "w", preset="paper-002-gaia") as ws:
        result = await ws.run("What is it?", model=ScriptedModel(never_done))
        (record,) = await ws.runs.list()
    assert (record.manifest.system, result.answer, len(decided)) == ("aorchestra", "unknown", 11)
    assert "You have 10 delegations in all." in decided[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", [None, "owl"])
async def test_both_systems_of_003_ask_at_temperature_zero(system: str | None, tmp_path: Path) -> None:
    """One model for all, or two: the parameters are the roles', whatever their models are."""
    workforce = Workforce()

    def reply(request: ModelRequest) -> ModelResponse:
        names = {one.name for one in request.tools}
        if "submit_answer" not in names:
            return say("Northam") if "wait_for_mention" in names else workforce.reply(request)
        back = [one.text for one in request.messages if one.role == "tool"]
        turns = [
            call("create_thread", thread="t", participants=["web_agent"]),
            call("send_message", thread="t", content=WORD, mentions=["web_agent"]),
            call("wait_for_mention"),
        ]
        done = call("submit_answer", answer=back[-1].splitlines()[-1] if back else "")
        return decide(calls=[[*turns, done][len(back)]])

    strong, weak = ScriptedModel(reply, name="strong"), ScriptedModel(reply, name="weak")
    async with Workspace(tmp_path / "w", preset="paper-003", models={"strong": strong, "weak": weak}) as ws:
        result = await ws.run(WORD, system=system, model="weak", roles={"main": "strong"})
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "Northam")
    asked = [*strong.requests, *weak.requests]
    assert strong.requests and weak.requests and {one.settings.temperature for one in asked} == {0}


def test_without_a_preset_nothing_changes(tmp_path: Path) -> None:
    assert load_settings(tmp_path).model_dump() == Settings().model_dump()
    assert with_preset(Settings()) == Settings()
    assert builtin_agents()["browser_use"].content_hash == builtin_agents(Settings())["browser_use"].content_hash


def test_the_file_and_the_environment_win_key_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agentorchestra.toml").write_text(
        'preset = "paper-001"\n[research]\ndepth = 4\n[agents.worker]\nmax_steps = 7\n'
    )
    monkeypatch.setenv("AGENTORCHESTRA_RESEARCH__SECONDS", "90")
    settings = load_settings(tmp_path)
    assert (settings.research.depth, settings.research.seconds, settings.research.insights) == (4, 90, 20)
    assert settings.agents == {"worker": AgentSettings(max_steps=7), "browser_use": AgentSettings(max_steps=50)}
    assert settings.max_steps == 20
    monkeypatch.setenv("AGENTORCHESTRA_PRESET", "paper-000")
    assert load_settings(tmp_path).max_steps == 50
    assert load_settings(tmp_path).research.seconds == 90
    assert load_settings(tmp_path, "none").max_steps == Settings().max_steps
    assert load_settings(tmp_path, "paper-001").max_steps == 20


def test_given_settings_win_too() -> None:
    given = Settings(preset="paper-001", max_steps=3, research=ResearchSettings(insights=5))
    settings = with_preset(given)
    assert (settings.max_steps, settings.research.insights, settings.research.seconds) == (3, 5, 60)
    assert with_preset(settings) == settings
    assert with_preset(given, "none").research == ResearchSettings(insights=5)


def test_an_unknown_preset_is_refused(tmp_path: Path) -> None:
    said = r"no preset 'paper-9'; the presets: paper-000, paper-001, paper-002-gaia, .*, or 'none'"
    with pytest.raises(SettingsError, match=said):
        load_settings(tmp_path, "paper-9")


async def test_an_agent_that_is_the_system_keeps_its_own_steps(tmp_path: Path) -> None:
    """The planner's limit is not that of an agent of the team."""
    scripted = ScriptedModel([call("done", answer="yes")])
    async with Workspace(
        tmp_path / "w", preset="paper-001", settings=Settings(agents={"worker": AgentSettings(max_steps=33)})
    ) as ws:
        result = await ws.run("Is it so?", system="worker", model=scripted)
        (record,) = await whole_runs(ws)
        assert (result.answer, record.manifest.max_steps, record.manifest.preset) == ("yes", 33, "paper-001")


@pytest.mark.long
def test_a_run_goes_on_with_its_preset_only(tmp_path: Path) -> None:
    async def begun() -> str:
        async with Workspace(tmp_path / "w", preset="paper-001") as ws:
            run_id = await ws.create("What is 2+2?", model="offline")
        async with Workspace(tmp_path / "w") as ws:
            with pytest.raises(SettingsError, match=r"with the preset 'paper-001'.*'none'; open it with Workspace"):
                await ws.resume(run_id)
        return run_id

    run_id = asyncio.run(begun())
    done = CliRunner().invoke(cli, ["resume", run_id, "--json", "--workspace", str(tmp_path / "w")])
    assert (done.exit_code, json.loads(done.stdout)["run_id"]) == (0, run_id), done.output


@pytest.mark.long
@pytest.mark.parametrize(("preset", "steps"), [("paper-000", 50), ("paper-001", 20), ("none", Settings().max_steps)])
async def test_the_planner_ends_after_its_steps(tmp_path: Path, preset: str, steps: int) -> None:
    asked = 0

    def never_done(request: ModelRequest) -> ToolCall | str:
        nonlocal asked
        if not request.tools:  # the memory of the preset
            return json.dumps({})
        asked += 1
        return call("todo", action="add", steps=[f"step {asked}"])

    async with Workspace(tmp_path / "w", preset=preset) as ws:
        result = await ws.run("Count.", model=ScriptedModel(never_done))
    assert (result.status, asked) == (RunStatus.PARTIAL, steps)


async def test_the_analyzer_ends_after_its_rounds(tmp_path: Path) -> None:
    rounds = 0

    def never_sure(request: ModelRequest) -> ToolCall | str:
        nonlocal rounds
        if not request.tools:  # whether another round is worth it
            return json.dumps({"go_on": True, "missing": "everything", "strategy": "think"})
        rounds += 1
        return call("done", answer="I do not know.", status="blocked")

    async with Workspace(tmp_path / "w", preset="paper-000") as ws:
        await ws.run("Who goes first?", system="deep_analyzer", model=ScriptedModel(never_sure))
    assert rounds == 3


@pytest.mark.long
async def test_the_researcher_ends_after_its_rounds(tmp_path: Path) -> None:
    (tmp_path / "tower.txt").write_text("The lighthouse of Skerrow has a tower.\n")
    judged = 0

    def never_complete(system: str, material: str) -> dict[str, Any]:
        nonlocal judged
        judged += 1
        return {"complete": False, "missing": ["the town"], "follow_ups": [{"query": f"tower {judged}", "follows": 1}]}

    given = Settings(search=SearchSettings(engines=("local",)))
    async with Workspace(tmp_path / "w", settings=given, preset="paper-000") as ws:
        researcher = model(taken=lines_with("tower"), judged=never_complete)
        result = await ws.run(TASK, files=[tmp_path / "tower.txt"], system="deep_researcher", model=researcher)
    assert (judged, "The search ended after 3 rounds." in result.report) == (3, True), result.report


@pytest.mark.long
async def test_the_browser_agent_ends_after_its_rounds(tmp_path: Path) -> None:
    """Five rounds of as many steps as it has; what one came to, the next one is told."""
    find_chromium()
    told: list[bool] = []

    def never_there(request: ModelRequest) -> ToolCall | str:
        text = "\n".join(one.text for one in request.messages)
        if not request.tools:  # the memory of the preset
            return json.dumps({})
        told.append("nothing yet" in text)
        last = "Step 2 of 2" in text
        return call("done", answer="nothing yet", status="partial") if last else call("browser_wait", seconds=0.1)

    given = Settings(agents={"browser_use": AgentSettings(max_steps=2)})
    async with Workspace(tmp_path / "w", settings=given, preset="paper-000") as ws:
        result = await ws.run("Look.", system="browser_use", model=ScriptedModel(never_there), max_steps=2)
    assert (result.status, result.steps, len(told)) == (RunStatus.PARTIAL, 10, 10)
    assert told == [False] * 2 + [True] * 8


@pytest.mark.parametrize("name", preset_names())
def test_the_sheet_is_up_to_date(name: str) -> None:
    shown = CliRunner().invoke(cli, ["presets", "show", name])
    assert shown.exit_code == 0
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert shown.stdout == page, f"agentorchestra presets show {name} > docs/presets/{name}.md"


@pytest.mark.parametrize("name", preset_names())
def test_the_sheet_has_a_row_for_every_setting(name: str) -> None:
    preset = find_preset(name)
    rows = {path for row in preset.rows for path in row.settings}
    assert {*leaves(preset.settings)} <= rows
    page = sheet(preset)
    for path, value in leaves(preset.settings).items():
        said = ", ".join(value) if isinstance(value, list) else value if isinstance(value, str) else json.dumps(value)
        assert f"`{path}` = **{said}**" in page


def test_a_sheet_has_a_column_of_the_public_code_where_a_row_tells_of_it() -> None:
    def heads(name: str) -> list[str]:
        table = [line for line in sheet(find_preset(name)).splitlines() if line.startswith("|")]
        assert len({line.count(" | ") for line in table if not line.startswith("|---")}) == 1
        return table[0].strip("| ").split(" | ")

    with_code = ["what", "the paper states", "where", "its public code", "neither says", "here", "settings"]
    assert heads("paper-002-gaia") == with_code
    assert heads("paper-001") == ["what", "the paper states", "where", "it leaves open", "here", "settings"]


def test_the_example_of_a_sheet_names_a_role_of_the_system() -> None:
    assert "[roles.main]" in sheet(find_preset("paper-002-swe"))
    assert "[roles.planner]" in sheet(find_preset("paper-001"))


def test_list_names_the_papers() -> None:
    shown = CliRunner().invoke(cli, ["presets", "list"])
    assert shown.stdout.splitlines()[0].startswith("paper-000  AgentOrchestra with the Tool-Environment-Agent")


def test_an_unknown_sheet_is_refused() -> None:
    shown = CliRunner().invoke(cli, ["presets", "show", "paper-2"])
    assert isinstance(shown.exception, SettingsError)
    assert "the presets: paper-000, paper-001" in str(shown.exception)
