"""What `show` and the lines of a run say of sub-agents that have one name and work at the same time."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import AOrchestraSettings, RoleSettings, Settings
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.cli.team import price_of
from tests.support.cli_reading import WS, here, invoke
from tests.support.team import results

__all__ = ["here"]


def _reply(request: ModelRequest) -> Any:
    """Hands out two parts; the one about A comes to an end, the other one asks the same for ever."""
    names, said = {one.name for one in request.tools}, results(request)
    if "delegate_task" in names and not said:
        parts = [call("delegate_task", task_instruction=f"Price {one}.", tools=["price_of"]) for one in "AB"]
        return decide(calls=parts)
    if "complete" in names:
        return decide(calls=[call("complete", answer="120 euros", status="partial")])
    if "done" in names and said and "Price A." in request.messages[1].text:
        return decide(calls=[call("done", answer=said[-1])])
    return decide(calls=[call("price_of", offer="A" if "Price A." in request.messages[1].text else "B")])


def _run() -> None:
    async def work() -> None:
        model = ScriptedModel(_reply)
        eye = ScriptedModel(lambda request: say('{"points": ["B costs 100 euros."], "issues": []}'), name="eye")
        settings = Settings(
            model="scripted",
            aorchestra=AOrchestraSettings(child_steps=3, models=("scripted",)),
            roles={"reviewer": RoleSettings(model="eye")},
        )
        models = {"scripted": model, "eye": eye}
        async with Workspace(Path(WS), models=models, tools=[price_of], settings=settings) as ws:
            await ws.run("What does the offer cost?", system="aorchestra")

    asyncio.run(work())


def test_show_has_an_agents_own_status_and_who_reviewed_it() -> None:
    _run()
    lines = invoke("show", "last", "--effects").stdout.splitlines()
    shown = [line for line in lines if "agent sub_agent: " in line or " model eye " in line]
    assert [re.sub(r" {2,}\d.*", "", line.partition("#")[2][3:]) for line in shown] == [
        "agent sub_agent: Price A.  ok",
        "agent sub_agent: Price B.  partial",
        "model eye (reviewer)  ok",
    ]
    (top,) = [line for line in lines if line.startswith("/#1  agent aorchestra")]
    assert "?  partial  " in top


def test_the_lines_of_a_run_tell_two_agents_of_one_name_apart() -> None:
    _run()
    lines = invoke("tail", "last").stdout.splitlines()
    begun = [match for line in lines if (match := re.fullmatch(r"  agent (.*): Price (A|B)\.", line))]
    named = {match[1]: match[2] for match in begun}
    assert {*named} == {"sub_agent", "sub_agent 2"}
    for agent, offer in named.items():
        assert f'  price_of(offer="{offer}")  ({agent})' in lines
    assert [line for line in lines if " ends: " in line] == [
        f"  {next(agent for agent, offer in named.items() if offer == 'B')} ends: partial"
    ]
