"""`ctx.ask_model`: a component's own question to a model, by the role, through the door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra.core.budget import Budget
from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import ModelProfile, RoleSettings, Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.models.render import parse_contents
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

PROMPT = """---
name: grade
version: 1.0.0
description: How an essay is graded.
variables: [scale]
---
Give a grade on the scale {{ scale }}.
"""


@tool(effect="composite")
async def grade(ctx: RunContext[Any], essay: str, model: str = "") -> str:
    """Grade an essay.

    Args:
        essay: Its text.
        model: Who grades it.
    """
    material = TextBlock(text=essay, source=Source(kind="task"), trust=Trust.UNTRUSTED)
    outcome = await ctx.ask_model("grade", [material], role="judge", model=model, scale="1 to 5")
    return f"{outcome.trust}: {outcome.response.text}" if outcome.ok else f"{outcome.error_type}: {outcome.error}"


def asking(**arguments: Any) -> ScriptedModel:
    return ScriptedModel(
        [
            decide(calls=[call("grade", essay="Dogs bark.", **arguments)]),
            lambda request: decide(calls=[call("done", answer=request.messages[-2].text)]),
        ]
    )


def workspace(tmp_path: Path, server: LoopbackModelServer, **profile: Any) -> Workspace[Any]:
    (tmp_path / "prompts").mkdir(exist_ok=True)
    (tmp_path / "prompts" / "grade.md").write_text(PROMPT)
    strict = ModelProfile(model="openai:strict", base_url=server.base_url, **profile)
    settings = Settings(
        models={"strict": strict, "other": strict.model_copy(update={"model": "openai:other"})},
        roles={"judge": RoleSettings(temperature=0.25, max_tokens=77)},
        system="react",
    )
    folders = [tmp_path / "prompts"]
    return Workspace(tmp_path / "ws", settings=settings, tools=[grade], prompts=folders, store=MemoryStore())


async def test_the_roles_model_and_parameters_answer(tmp_path: Path) -> None:
    async with LoopbackModelServer("Four.") as server, workspace(tmp_path, server) as ws:
        result = await ws.run("Grade it.", model=asking(), roles={"judge": "strict"}, budget=Budget(tokens=90_000))
        assert result.answer == "untrusted: Four.", result.error
        (asked,) = server.requests
        assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("strict", 0.25, 77)
        assert asked["messages"][0]["content"] == "Give a grade on the scale 1 to 5."
        (given,) = parse_contents(asked["messages"][1]["content"])
        assert (given.kind, given.text) == ("task", "Dogs bark.")
        assert result.usage_by_model["openai:strict"].requests == 1
        assert (await ws.replay(result.run_id)).answer == result.answer and server.count == 1


async def test_a_model_that_cannot_be_asked_is_an_outcome_and_the_run_goes_on(tmp_path: Path) -> None:
    async with LoopbackModelServer("Four.") as server, workspace(tmp_path, server) as ws:
        unpriced = await ws.run("Grade it.", model=asking(model="other"), budget=Budget(cost_usd=1.0))
        assert unpriced.answer.startswith("BudgetError: the price of model 'other' is unknown"), unpriced.error
        assert (await ws.replay(unpriced.run_id)).answer == unpriced.answer
        nobody = await ws.run("Grade it.", model=asking(model="nobody"))
        assert nobody.answer.startswith("UnknownModelError: no model 'nobody'"), nobody.error
        assert server.count == 0
