"""A recorded run with a team, an environment and tools that happen once; models that are functions of the prompt."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile, Price
from agentorchestra.core.spec import AgentSpec
from agentorchestra.testing import ScriptedModel, call, decide
from tests.runtime.counter import Counter

TASK = "Count and write down."
_SIDES = re.compile(r"(?:left by \w+|port) and right by \w+", re.IGNORECASE)
CAPITALS = "Write your answer in capitals."


def text_of(request: ModelRequest) -> str:
    """Everything that a model is shown."""
    return "\n".join(message.text for message in request.messages)


def answering(name: str) -> Callable[[ModelRequest], ModelResponse]:
    """What a model of this name decides, from what it is shown and nothing else."""

    def answer(request: ModelRequest) -> ModelResponse:
        shown = request.messages[-1].text
        step = re.findall(r"Step (\d+) of", shown)
        if not step:  # asked for a summary
            return ModelResponse(text=" ".join(re.findall(r"left by \w+ and right by \w+|wrote \w+", shown)))
        steps = int(step[-1]) - 1
        first = next(message.text for message in request.messages if message.role == "user")
        side = next((one for one in ("left", "right") if f"the {one} side" in first), "")
        calls = _side(side, steps, name) if side else _top(steps, request, name)
        if CAPITALS in request.messages[0].text:
            calls = [_loud(one) if one.name == "done" else one for one in calls]
        return decide(memory=f"step {steps} by {name}", calls=calls)

    return answer


def _loud(one: ToolCall) -> ToolCall:
    assert isinstance(one.arguments, dict)
    return one.model_copy(update={"arguments": {"answer": str(one.arguments["answer"]).upper()}})


def _top(steps: int, request: ModelRequest, name: str) -> list[ToolCall]:
    match steps:
        case 0:
            return [call("counter_add", by=1), call("note", text="begin")]
        case 1:
            return [call("team")]
        case 2:
            return [call("counter_add", by=2), call("note", text="middle")]
        case 3:
            return [call("note", text=f"end, says {name}")]
        case _:
            counted = re.findall(r"value (\d+)", request.messages[-1].text)[-1]
            sides = (*_SIDES.findall(text_of(request)), "nobody")[0]
            return [call("done", answer=f"{name} counted {counted} with {sides}")]


def _side(side: str, steps: int, name: str) -> list[ToolCall]:
    if steps < 2:
        return [call("note", text=f"{side} {steps}")]
    return [call("done", answer=f"{side} by {name}")]


@tool(effect="write")
def note(text: str, ctx: RunContext[Path]) -> str:
    """Write something down; twice would be written twice.

    Args:
        text: what to write.
    """
    with ctx.deps.open("a", encoding="utf-8") as file:
        file.write(f"{ctx.run_id} {text}\n")
    return f"wrote {text}"


@tool(effect="composite")
async def team(ctx: RunContext[Path]) -> str:
    """Let two agents work at the same time."""
    specs = [AgentSpec(name=side, instruction=f"the {side} side", tools=("note",)) for side in ("left", "right")]
    return " and ".join(result.answer for result in await ctx.call_agents(specs))


def model(name: str, **options: Any) -> ScriptedModel:
    """A model that counts and writes down."""
    price = Price(input=1.0, output=1.0)
    profile = options.pop("profile", None) or ModelProfile(model=name, price=price)
    return ScriptedModel(answering(name), name=name, profile=profile, **options)


def workspace(folder: Path, *models: ScriptedModel, **options: Any) -> Workspace[Path]:
    """A workspace with the tools, the environment and the models."""
    given = models or (model("one"),)
    options.setdefault("environments", {"counter": Counter})
    return Workspace(
        folder / "ws", tools=[note, team], deps=folder / "notes.txt", models={one.name: one for one in given}, **options
    )


def notes(folder: Path, run_id: str) -> list[str]:
    """What a run wrote down, in order."""
    path = folder / "notes.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.removeprefix(f"{run_id} ") for line in lines if line.startswith(run_id)]


def written_by(events: list[Event]) -> int:
    """How many notes a log has the outcome of."""
    started = {
        (e.branch, e.n)
        for e in events
        if e.type == "started" and str(e.body["effect"].get("component", "")).startswith("note@")
    }
    return len({(e.branch, e.n) for e in events if e.type == "completed"} & started)
