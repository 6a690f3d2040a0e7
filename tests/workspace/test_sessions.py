"""A session goes on from its earlier tasks and answers; roles choose models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ModelRequestError, SettingsError, UnknownModelError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import ModelProfile, RoleSettings, Settings
from agentorchestra.core.spec import AgentSpec, RunSpec, RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.support.runs import whole_runs


def notary(request: ModelRequest) -> ModelResponse:
    """Knows only what it is shown: the number it chose before, if that is in view."""
    tasks = [message.text for message in request.messages if "<task>" in message.text]
    found = re.findall(r"the number (\d+)", "".join(str(message.tool_calls) for message in request.messages))
    answer = "the number 4711" if "Choose" in tasks[-1] else f"you had {found[-1:]}"
    return decide(calls=[call("done", answer=answer)])


async def test_a_session_goes_on_from_its_earlier_answers(tmp_path: Path) -> None:
    model = ScriptedModel(notary)
    async with Workspace(tmp_path / "ws") as ws:
        options: dict[str, Any] = {"model": model, "system": "react"}
        await ws.run("Choose a number.", session="dice", **options)
        second = await ws.run("Which one was it?", session="dice", **options)
        other = await ws.run("Which one was it?", session="cards", **options)
        alone = await ws.run("Which one was it?", **options)
        assert (second.answer, other.answer, alone.answer) == ("you had ['4711']", "you had []", "you had []")
        assert [one.content[0].trust.value for one in model.requests[1].messages if one.name == "task"] == ["user"]
        assert (await ws.replay(second.run_id)).answer == second.answer
        records = {record.id: record.manifest for record in await whole_runs(ws)}
        assert [one.task for one in records[second.run_id].earlier] == ["Choose a number."]
    async with Workspace(tmp_path / "ws") as again:  # in another process too: it is in the log
        third = await again.run("And again, which one?", session="dice", model=ScriptedModel(notary), system="react")
        assert third.answer == "you had ['4711']"


async def test_a_turn_goes_on_from_one_that_failed(tmp_path: Path) -> None:
    def fails(request: ModelRequest) -> ModelResponse:
        raise ModelRequestError("broken")

    async with Workspace(tmp_path / "ws") as ws:
        failed = await ws.run("Choose a number.", session="s", model=ScriptedModel(fails), system="react")
        assert failed.status is RunStatus.FAILED
        result = await ws.run("Which?", session="s", model=ScriptedModel(notary), system="react")
        assert result.answer == "you had []"
        begins = (await ws.log.events(result.run_id))[0].body["begins"]
        said = [one["content"][0]["text"] for one in begins["messages"]]
        assert "Choose a number." in said[1] and said[2:] == ["The work on this task stopped here (failed)."]


async def test_a_session_needs_a_name(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        with pytest.raises(SettingsError, match=r"the session has no name; give one, e\.g\. --session contract"):
            await ws.run("Choose.", session=" ", model=ScriptedModel(notary))


@tool(effect="composite")
async def judge(ctx: RunContext[Any], what: str) -> str:
    """Let a judge look.

    Args:
        what: at what.
    """
    result = await ctx.call_agent(AgentSpec(name="judge", instruction=what, role="judge", max_steps=2))
    return result.answer


def who(name: str) -> ScriptedModel:
    """A model that says its own name, and asks the judge first where it can."""

    def model(request: ModelRequest) -> ModelResponse:
        results = [message.text for message in request.messages if message.role == "tool"]
        can_ask = any(schema.name == "judge" for schema in request.tools)
        if can_ask and not results:
            return decide(calls=[call("judge", what="look")])
        words = f"{name} {request.settings.temperature}"
        return decide(calls=[call("done", answer=" <- ".join([words, *results]))])

    return ScriptedModel(model, name=name)


ROLES = {"judge": RoleSettings(model="strict", temperature=0.0)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "main None <- strict 0.0"),
        ({"model": "other"}, "other None <- other 0.0"),  # one model for all, the role's temperature stays
        ({"model": "other", "roles": {"judge": "strict"}}, "other None <- strict 0.0"),
        ({"roles": {"agent": "other"}}, "other None <- strict 0.0"),
    ],
)
async def test_models_by_role(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    models = {name: who(name) for name in ("main", "other", "strict")}
    settings = Settings(model="main", roles=ROLES, system="react")
    async with Workspace(tmp_path / "ws", tools=[judge], models=models, settings=settings) as ws:
        result = await ws.run("Judge.", **given)
        assert result.answer == said
        assert (await ws.replay(result.run_id)).answer == said


async def test_a_role_with_an_unknown_model_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    settings = Settings(models={"main": ModelProfile(model="offline")}, model="main")
    async with Workspace(tmp_path / "ws", settings=settings) as ws:
        with pytest.raises(UnknownModelError, match="no model 'mian', did you mean 'main'"):
            await ws.run("Judge.", roles={"judge": "mian"})
        assert await ws.runs.list() == []


async def test_a_run_is_described_by_a_spec_and_its_fields_are_replaced_by_arguments(tmp_path: Path) -> None:
    models = {name: who(name) for name in ("main", "other")}
    spec = RunSpec(task="Judge.", system="react", model="main", labels={"team": "law"})
    async with Workspace(tmp_path / "ws", tools=[judge], models=models) as ws:
        first = await ws.run(spec)
        second = await ws.run(spec, model="other")
        assert (first.answer[:4], second.answer[:5]) == ("main", "other")
        described = [await ws.store.get_run(one.run_id) for one in (first, second)]
        assert [one.manifest.labels for one in described if one is not None] == [{"team": "law"}] * 2
        with pytest.raises(TypeError, match="no option 'tasks'; its options: files, system"):
            await ws.run(spec, tasks=2)  # type: ignore[call-arg]
        with pytest.raises(SettingsError, match="max_steps = 'many' does not fit"):
            await ws.run(spec, max_steps="many")  # type: ignore[arg-type]
