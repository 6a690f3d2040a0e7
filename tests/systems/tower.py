"""A question with an old and a new answer: one agent finds the old one, another the new one."""

from __future__ import annotations

import json
import re
from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import call, decide
from tests.site.pages import Page
from tests.systems.planning import done, results, shown

OLD, NEW = "/tower/1998", "/tower/2021"
SCOUT = Agent("scout", "Reads pages of the web and says what stands there.", tools=("fetch",), prompt="worker")
AUDITOR = Agent("auditor", "Looks claims up on pages of the web.", tools=("fetch",), prompt="worker")
TOWER = {
    OLD: Page("The tower of Arn", "<p>The tower has 112 steps, as of 1998.</p>"),
    NEW: Page("The tower of Arn today", "<p>Since 2021 the tower has 212 steps.</p>"),
}
TOLD = re.compile(r"has (\d+) steps")


def task(address: str) -> str:
    """The question, with the pages of a site."""
    return f"How many steps has the tower of Arn today? See {address}{OLD} and {address}{NEW}"


def page(request: ModelRequest, path: str) -> str:
    """The address of a page, as it stands in the prompt."""
    found = re.search(rf"http://127\.0\.0\.1:\d+{path}", shown(request))
    assert found is not None
    return found[0]


def scout(request: ModelRequest) -> ModelResponse:
    """Reads the first page that it is told of, and believes it."""
    read = results(request)
    if not read:
        return decide(calls=[call("fetch", url=page(request, OLD))])
    (steps,) = set(TOLD.findall(read[-1]))
    quote = f"The tower has {steps} steps, as of 1998."
    return done(f"{steps} steps", {"source": page(request, OLD), "place": "line 3", "quote": quote})


def auditor(request: ModelRequest) -> ModelResponse:
    """Reads the other page; what it says to the claim depends on what stands in both."""
    read = results(request)
    if not read:
        return decide(calls=[call("fetch", url=page(request, NEW))])
    claim = re.search(r"Claim:\n(?:It has )?(\d+) steps", shown(request))
    assert claim is not None and "material" in shown(request)
    (steps,) = set(TOLD.findall(read[-1]))
    cited = {"source": page(request, NEW), "place": "line 3", "quote": f"Since 2021 the tower has {steps} steps."}
    if claim[1] == steps:
        return done("It is right.", cited, output={"reason": "It stands there.", "verdict": "confirmed"})
    problem = f"since 2021 the tower has {steps} steps, says {page(request, NEW)}"
    return done("It is wrong.", cited, output={"reason": problem, "verdict": "contradicted"})


def planner(words: str = "") -> Any:
    """Gives the scout the task, or a part of it, and answers with the newest number of steps that it is shown."""

    def lead(request: ModelRequest) -> ModelResponse:
        asked = re.search(r"<task>\n(.*?)\n</task>", request.messages[1].text, re.DOTALL)
        assert asked is not None
        if not results(request):
            return decide(calls=[call("scout", task=words or asked[1])])
        found = re.findall(r"since 2021 the tower has (\d+) steps, says (\S+?)(?:\s|$)", shown(request))
        if found:
            steps, place = found[-1]
            quote = {"source": place, "place": "line 3", "quote": f"Since 2021 the tower has {steps} steps."}
            return done(f"It has {steps} steps.", quote)
        given = json.loads(results(request)[-1])
        return done(f"It has {given['answer']}.", *given["sources"])

    return lead


def settings(address: str, **team: Any) -> Settings:
    """Settings in which a site of this machine may be read."""
    return Settings.model_validate({"web": {"private": [address.removeprefix("http://")]}, "team": team})
