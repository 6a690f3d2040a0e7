"""Societies of the user's own: who takes part, who may write to whom, who leads, what is refused (docs/coral.md)."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Agent, AgentResult, AgentSpec, RunContext, Settings
from agentorchestra.core.errors import AgentOrchestraError, SettingsError, SystemDefinitionError, UnknownComponentError
from agentorchestra.core.events import Event
from agentorchestra.core.settings import SocietySettings, TeamSettings
from agentorchestra.core.spec import RunManifest, RunResult, RunStatus
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace, load_settings
from tests.chaos.support import python
from tests.support.runs import whole_runs
from tests.systems import harbours
from tests.systems.harbours import AGENTS, PANEL, TASK, TOGETHER, landing, leads, scripted
from tests.systems.test_coral import sent

EDITOR = """---
name: editor
version: 1.0.0
description: System prompt of the editor.
variables: [native, code, fields, max_tools, tools, members, minutes]
---
You edit. You have {{ minutes }} minutes, and can ask:
{% for one in members %}
- {{ one.name }}: {{ one.description }}
{% endfor %}
{% include "tool_rules" %}

{% include "decision_format" %}
"""


def workspace(folder: Path, model: ScriptedModel, text: str = "", **more: Any) -> Workspace[None]:
    """A workspace with the agents of the harbours; `text` is its settings file."""
    folder.mkdir(exist_ok=True)
    if text:
        (folder / "agentorchestra.toml").write_text(text)
    more = {"agents": AGENTS, "models": {model.name: model}, "tools": [landing]} | more
    return Workspace(folder / "ws", **more)


async def run(ws: Workspace[None], **options: Any) -> tuple[RunResult, list[Event]]:
    """The run of the task, which a replay repeats, and its log."""
    async with ws:
        result = await ws.run(TASK, system="panel", **options)
        replayed = await ws.replay(result.run_id)
        assert (replayed.answer, replayed.status) == (result.answer_text, result.status)
        return result, await ws.log.events(result.run_id)


def ways(events: list[Event]) -> list[tuple[str, str]]:
    """Who wrote to whom, in order."""
    return [(one["sender"], *one["to"]) for one in sent(events)]


STAR = [("panel", "clerk"), ("clerk", "panel"), ("panel", "auditor"), ("auditor", "panel")]
MESH = [("panel", "clerk"), ("clerk", "auditor"), ("auditor", "clerk"), ("clerk", "panel")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("topology", "expected"), [("star", STAR), ("mesh", MESH)])
async def test_a_society_of_the_settings_file(tmp_path: Path, topology: str, expected: Any) -> None:
    """Whom an agent may ask stands in its prompt, in a mesh alone."""
    ws = workspace(tmp_path, scripted(), f'{PANEL}topology = "{topology}"\ndescription = "Knows landings."\n')
    result, events = await run(ws)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, TOGETHER)
    assert ways(events) == expected
    async with ws.copy() as other:
        assert other.catalog.systems["panel"].description == "Knows landings."


async def test_an_agent_of_the_users_leads(tmp_path: Path) -> None:
    """With its own prompt, tools and model; it is no member of those that it leads."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "editor.md").write_text(EDITOR)
    strong, weak = scripted("strong"), scripted("weak")
    editor = Agent("editor", "Asks others.", tools=("landing",), prompt="editor", role="editor")
    panel = SocietySettings(agents=("editor", "clerk", "auditor"), leader="editor", minutes=7)
    ws = workspace(
        tmp_path,
        weak,
        agents=[*AGENTS[:2], editor],
        models={"strong": strong, "weak": weak},
        prompts=[tmp_path / "prompts"],
        settings=Settings(societies={"panel": panel}),
    )
    result, events = await run(ws, model="weak", roles={"editor": "strong"})
    assert (result.status, result.answer, ways(events)) == (RunStatus.COMPLETED, TOGETHER, STAR)
    assert {leads(one) for one in strong.requests} == {True} and {leads(one) for one in weak.requests} == {False}
    assert "You have 7 minutes, and can ask:\n- clerk: Looks" in strong.requests[0].messages[0].text
    assert "- editor" not in strong.requests[0].messages[0].text
    assert {"landing", "create_thread", "submit_answer"} <= {one.name for one in strong.requests[0].tools}


async def test_an_agent_without_a_prompt_of_its_own_leads_with_the_orchestrators(tmp_path: Path) -> None:
    model = scripted()
    text = PANEL.replace('"auditor"]', '"auditor", "editor"]\nleader = "editor"')
    result, _ = await run(workspace(tmp_path, model, text))
    assert result.answer == TOGETHER
    assert "Monitor: hold each reply against the conditions" in model.requests[0].messages[0].text


async def test_an_agent_whose_work_is_a_workflow_does_each_message_as_a_task(tmp_path: Path) -> None:
    asked: list[str] = []

    async def adds(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
        asked.append(spec.instruction)
        return AgentResult(answer=str(sum(map(int, re.findall(r"\d+", spec.instruction)))))

    auditor = Agent("auditor", "Adds figures up.", drive=adds)
    result, events = await run(workspace(tmp_path, scripted(), PANEL, agents=[AGENTS[0], auditor]))
    assert (result.answer, ways(events)) == (TOGETHER, STAR)
    assert asked[0] == "Add 17 and 24."


async def test_agents_of_certain_systems_take_part_where_they_are_named(tmp_path: Path) -> None:
    """The packaged ones, which work for `coral` and `owl`, and the user's that work for this society alone."""
    clerk = Agent("clerk", "Looks up what harbours landed.", tools=("landing",), within=("panel",))
    text = PANEL.replace('"auditor"]', '"auditor", "planner", "web_agent"]')
    async with workspace(tmp_path, scripted(), text, agents=[clerk, AGENTS[1]]) as ws:
        panel = await ws.create(TASK, system="panel")
        other = await ws.create(TASK)
        named = {one.id: {*one.manifest.agents} for one in await whole_runs(ws)}
        assert {"clerk", "planner", "web_agent"} <= named[panel] and "document_agent" not in named[panel]
        assert not {"clerk", "planner", "web_agent"} & named[other]
        assert (await ws.resume(panel)).answer == TOGETHER


async def test_a_run_goes_on_with_the_society_that_it_was_started_with(tmp_path: Path) -> None:
    async with workspace(tmp_path, scripted(), f'{PANEL}topology = "mesh"\n') as ws:
        run_id = await ws.create(TASK, system="panel")
    other = PANEL.replace('"clerk", "auditor"', '"editor", "planner"')
    async with workspace(tmp_path, scripted(), other) as ws:
        result = await ws.resume(run_id)
        assert (result.answer, ways(await ws.log.events(run_id))) == (TOGETHER, MESH)
        assert (await ws.replay(run_id)).answer == TOGETHER
        fork = await ws.fork(run_id, at=1)
        assert ((await ws.resume(fork)).answer, ways(await ws.log.events(fork))) == (TOGETHER, MESH)
    async with workspace(tmp_path, scripted(), 'model = "scripted"') as ws:
        with pytest.raises(UnknownComponentError, match="this process does not have panel, which the run was started"):
            await ws.replay(run_id)


@pytest.mark.parametrize(
    "point", [pytest.param("after_record:/1.panel#9", marks=pytest.mark.long), "after_record:/1.panel/2.clerk#6"]
)
async def test_killed_and_resumed_it_sends_no_message_twice(tmp_path: Path, point: str) -> None:
    """After the leader's message to the clerk, and after the clerk's answer."""
    words = ["-m", harbours.__name__, str(tmp_path)]
    ws = workspace(tmp_path, scripted(), PANEL)
    await asyncio.to_thread(python, [*words, "run"], kill_at=point)
    told = await asyncio.to_thread(python, [*words, "resume"])
    assert told.startswith(f"completed: {TOGETHER}: ")
    async with ws:
        (record,) = await ws.runs.list()
        assert ways(await ws.log.events(record.id)) == STAR


async def test_a_society_that_was_recorded_with_a_setting_that_went_is_opened(tmp_path: Path) -> None:
    async with workspace(tmp_path, scripted(), PANEL) as ws:
        await ws.create(TASK, system="panel")
        (record,) = await whole_runs(ws)
    manifest = record.manifest
    recorded = manifest.model_dump(mode="json")
    recorded["society"]["steps"] = 60
    assert RunManifest.model_validate(recorded) == manifest
    assert RunManifest.model_validate_json(json.dumps(recorded)) == manifest


async def test_a_second_society_in_one_run_is_refused(tmp_path: Path) -> None:
    async def twice(task: str, ctx: RunContext[Any]) -> str:
        spec = AgentSpec(name="panel", instruction=task, system="panel", tools=("landing",))
        first, second = await ctx.call_agent(spec), await ctx.call_agent(spec)
        return f"{first.answer}; {second.status}: {second.report}"

    async with workspace(tmp_path, scripted(), PANEL, systems={"twice": twice}) as ws:
        result = await ws.run(TASK, system="twice")
    assert result.answer == f"{TOGETHER}; blocked: Nothing was done: panel leads the agents of this run already."


async def test_a_planner_that_delegates_to_a_society_delegates_to_all_of_it(tmp_path: Path) -> None:
    settings = Settings(model="scripted", team=TeamSettings(systems=("coral",)))
    model = ScriptedModel([call("submit_answer", answer=TOGETHER)], name="scripted")
    async with workspace(tmp_path, model, settings=settings) as ws:
        await ws.create(TASK)
        (record,) = await whole_runs(ws)
        result = await ws.run(TASK, system="coral")
        assert result.answer == TOGETHER
    assert "landing" not in {one.name for one in model.requests[0].tools}  # the orchestrator is no agent with tools
    assert {"planner", "web_agent", "document_agent", "coding_agent"} <= {*record.manifest.agents}


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("agents = []", r"societies.panel.agents = \[\].*nobody takes part; name the agents"),
        ('agents = ["clerk", "auditor", "clerk"]', "'clerk' is named twice; an agent takes part once"),
        ('agents = ["clerk"]\nleader = "editor"', r"'editor' is none of its agents \(clerk\); name one of them, or"),
        ('agents = ["clerk"]\nleader = "clerk"', "there is nobody for 'clerk' to lead; name further agents"),
        ('agents = ["clerk"]\ntopology = "ring"', "societies.panel.topology = 'ring'.*'star' or 'mesh'"),
        ('agents = ["clerk"]\nminutes = 0', "societies.panel.minutes = 0.*greater than 0"),
        ("minutes = 5", "societies.panel.agents = .*Field required"),
        ('members = ["clerk"]', "societies.panel"),
    ],
)
def test_a_society_that_none_could_be_is_refused(tmp_path: Path, values: str, said: str) -> None:
    (tmp_path / "agentorchestra.toml").write_text(f"[societies.panel]\n{values}\n")
    with pytest.raises(SettingsError, match=said):
        load_settings(tmp_path)


async def _workflow(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
    raise AssertionError("nobody asks it")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("agents", "leader", "error", "said"),
    [
        (["clerk", "auditr"], "coral", UnknownComponentError, "the agent 'auditr', which is not there; did you mean"),
        (["clerk", "zzz"], "coral", UnknownComponentError, "the agent 'zzz', which is not there; the agents: audit"),
        (["clerk", "web_agnt"], "coral", UnknownComponentError, "did you mean 'web_agent'?"),
        (["clerk", "browser_use"], "coral", UnknownComponentError, "is there in runs that have browser; name environ"),
        (["clerk", "flow"], "flow", SettingsError, "'flow' cannot lead the society 'panel': its work is a fixed work"),
    ],
)
async def test_agents_that_a_run_does_not_have_are_refused_before_it_begins(
    tmp_path: Path, agents: list[str], leader: str, error: type[AgentOrchestraError], said: str
) -> None:
    panel = SocietySettings(agents=tuple(agents), leader=leader)
    given = [*AGENTS, Agent("flow", "Flows.", drive=_workflow)]
    async with workspace(
        tmp_path, scripted(), agents=given, settings=Settings(model="scripted", societies={"panel": panel})
    ) as ws:
        with pytest.raises(error, match=said):
            await ws.run(TASK, system="panel")
        assert not await ws.runs.list()


@pytest.mark.parametrize(
    ("name", "said"),
    [("coral", "a system or agent has that name"), ("web_agent", "has that name"), ("My Panel", "lower case letters")],
)
async def test_a_name_that_is_taken_or_is_none(tmp_path: Path, name: str, said: str) -> None:
    settings = Settings(societies={name: SocietySettings(agents=("clerk",))})
    with pytest.raises(SystemDefinitionError, match=rf"societies\.{name}\): .*{said}"):
        await workspace(tmp_path, scripted(), settings=settings).open()
