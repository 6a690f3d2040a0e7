"""Planners and agents for tests, as functions of what stands in their prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel, call, decide, say

Script = Callable[[ModelRequest], ModelResponse | Awaitable[ModelResponse]]

THINGS = ("ferry", "invoice", "meadow", "lantern", "compass", "harbour", "quarry", "violin", "glacier", "orchard")
PLACES = ("east", "lakes", "islands", "north", "south", "west", "centre", "coast", "hills", "plains")
ACTS = ("books", "cancels", "counts", "describes", "measures", "repairs", "paints", "sells", "moves", "weighs")


def experts(count: int) -> list[Agent]:
    """So many agents, of which each is for something else; none of their names says what for."""
    made = [
        Agent(f"agent_{number}", f"It {act} the {thing} of the {place}. Say which one.")
        for number, (thing, place, act) in enumerate(
            (thing, place, act) for act in ACTS for place in PLACES for thing in THINGS
        )
    ]
    return made[:count]


def shown(request: ModelRequest) -> str:
    """All that a model sees: the messages, and what it may call."""
    tools = [f"{one.name}: {one.description} {json.dumps(one.parameters)}" for one in request.tools]
    return "\n".join([*map(render_message, request.messages), *tools])


def results(request: ModelRequest) -> list[str]:
    """What came back from its calls so far."""
    return [message.text for message in request.messages if message.role == "tool"]


def done(answer: str, *sources: Any, **rest: Any) -> ModelResponse:
    """A decision that finishes."""
    return decide(calls=[call("done", answer=answer, sources=list(sources), **rest)])


def fitting(request: ModelRequest, wanted: Sequence[str]) -> str:
    """The agent whose description, as it stands in the prompt, has all these words; "" for none."""
    named = [one.name for one in request.tools if all(word in one.description for word in wanted)]
    return named[0] if named else ""


def by_prompt(**scripts: Script) -> ScriptedModel:
    """One model for all: whose script answers is said by the words `planner`, `judge` or others of its first lines."""

    def reply(request: ModelRequest) -> Any:
        text = request.messages[0].text
        if "You lead a team" in text:
            return scripts["planner"](request)
        if not request.tools:
            judge = "<found_by_the_team>" in text
            return scripts.get("judge" if judge else "formatter", _content if judge else _kept)(request)
        task = re.search(r"<task>\n(.*?)\n</task>", request.messages[1].text, re.DOTALL)
        name = "verifier" if task is not None and task[1].startswith("Verify a claim") else "agent"
        return scripts[name](request)

    return ScriptedModel(reply)


def _content(request: ModelRequest) -> ModelResponse:
    return say('{"supported": true, "problem": ""}')


def _kept(request: ModelRequest) -> ModelResponse:
    return say("KEEP")


__all__ = ["by_prompt", "done", "experts", "fitting", "results", "shown"]
