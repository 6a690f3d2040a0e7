"""A model for all roles of a team, and what its log says."""

from __future__ import annotations

import re
from typing import Any

from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.systems.support import seen

DEPOSIT = {"source": "lease.txt", "place": "line 2", "quote": "The deposit is 1284 euros."}


def role_of(request: ModelRequest) -> str:
    """Who is asked, by what the prompt offers."""
    names = {schema.name for schema in request.tools}
    if "deep_analyzer" in names or "You lead a team" in request.messages[0].text:
        return "planner"
    if not names:
        return "judge" if "<found_by_the_team>" in seen(request) else "formatter"
    if "search_files" in names or "You analyse files" in request.messages[0].text:
        return "analyzer"
    return "reporter" if "You write the report" in request.messages[0].text else "worker"


def task_of(request: ModelRequest) -> str:
    """The task that the asked agent was given."""
    found = re.search(r"<task>\n(.*?)\n</task>", request.messages[1].text, re.DOTALL)
    assert found is not None
    return found[1]


def analyzer(request: ModelRequest) -> ModelResponse:
    """Reads the file that its task names, and answers with the line that holds a word of the task."""
    task = task_of(request)
    name = "annex.txt" if "annex.txt" in task else "lease.txt"
    if request.messages[-2].role != "tool":
        return decide(calls=[call("read_file", name=name)])
    for number, line in re.findall(r"^(\d+)\t(.*)$", request.messages[-2].text, re.MULTILINE):
        asked = set(re.findall(r"\w{4,}", task.replace(name, "").lower()))
        if asked & set(re.findall(r"\w{4,}", line.lower())):
            cited: Any = {"source": name, "place": f"line {number}", "quote": line}
            return decide(calls=[call("done", answer=line, sources=[cited])])
    return decide(calls=[call("done", answer=f"{name} holds nothing on it", status="blocked")])


def team(planner: Any, **others: Any) -> ScriptedModel:
    """A model for all roles: the planner's script, and those that are not the usual ones."""
    usual: dict[str, Any] = {
        "analyzer": analyzer,
        "judge": lambda request: say('{"supported": true, "problem": ""}'),
        "formatter": lambda request: say("KEEP"),
    }
    roles = {**usual, "planner": planner, **others}
    return ScriptedModel(lambda request: roles[role_of(request)](request))


def results(request: ModelRequest) -> list[str]:
    """What came back to the asked agent so far."""
    return [message.text for message in request.messages if message.role == "tool"]


def done(answer: str, *sources: Any, **rest: Any) -> ModelResponse:
    """A decision that finishes."""
    return decide(calls=[call("done", answer=answer, sources=list(sources), **rest)])


def requests_of(events: list[Event]) -> list[tuple[str, str]]:
    """Actor and purpose of the model requests, in the order in which they started."""
    found = [(event.actor, event.body["effect"]) for event in events if event.type == "started"]
    return [(actor, effect["purpose"]) for actor, effect in found if effect["kind"] == "RequestModel"]
