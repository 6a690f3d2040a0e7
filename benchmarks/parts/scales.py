"""Things with weights that a seed draws: small tasks on which one part of planning decides each.

The model answers right exactly when a certain number stands in its request; it knows no part and no heading. Where it
acts, it weighs the things that it is told to weigh and that no weight stands there for, one in each step, and says a
weight that stands there. Where it fills a form, it writes down what follows: two weights have a sum.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.parts.task import Found, Task

from agentorchestra import Workspace, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import PartSettings, Settings
from agentorchestra.models.render import render_message
from agentorchestra.tea.memory.base import Entry, Happening, Memory
from agentorchestra.testing import ScriptedModel, call, decide

WEIGHT = re.compile(r"\b(\w+): (\d{5}) kg")
ORDER = re.compile(r"\b[Ww]eigh the (\w+)")
NOT_KNOWN = "I do not know."


@dataclass
class Weigher:
    """The model.

    Attributes:
        fact: the number.
        shown: what it was shown, request by request.
    """

    fact: str
    shown: list[str] = field(default_factory=list)

    def model(self) -> ScriptedModel:
        """The model."""
        return ScriptedModel(self.reply)

    def reply(self, request: ModelRequest) -> ModelResponse:
        """Fill the form, where there is one, else act."""
        text = "\n".join(render_message(message) for message in request.messages)
        self.shown.append(text)
        form = request.settings.output_schema
        if form is not None:
            return ModelResponse(text=json.dumps(filled(form, text)))
        known = dict(WEIGHT.findall(text))
        left = [one for one in dict.fromkeys(ORDER.findall(text)) if one not in known]
        if self.fact in text:
            return decide(calls=[call("done", answer=f"{_thing_of(self.fact, known)}: {self.fact} kg")])
        if left and "weigh" in [one.name for one in request.tools]:
            return decide(calls=[call("weigh", thing=left[0])])
        said = [f"{thing}: {weight} kg" for thing, weight in known.items()]
        return decide(calls=[call("done", answer=said[-1] if said else NOT_KNOWN)])


def _thing_of(weight: str, known: dict[str, str]) -> str:
    return next((thing for thing, one in known.items() if one == weight), "together")


def filled(form: dict[str, Any], text: str) -> Any:
    """A value of a schema, from what is shown."""
    known = dict(WEIGHT.findall(text))
    if form.get("type") == "object":
        return {name: filled(one, text) for name, one in form["properties"].items()}
    if form.get("type") == "boolean":
        return True
    if form.get("type") != "array":
        return ""
    said = [f"{thing}: {weight} kg" for thing, weight in known.items()]
    if form["items"].get("type") == "object":
        lines = said or [f"Weigh the {one}." for one in dict.fromkeys(ORDER.findall(text))]
        return [{**filled(form["items"], text), _first_text(form["items"]): one} for one in lines]
    if form["items"].get("type") != "string":
        return []
    return [f"together: {sum(map(int, known.values())):05} kg"] if len(known) > 1 else said


def _first_text(form: dict[str, Any]) -> str:
    return next(str(name) for name, one in form["properties"].items() if one.get("type") == "string")


@dataclass
class Scale:
    """Things with weights that a seed draws, and a tool that weighs one of them."""

    weights: dict[str, int]
    beside: str = ""

    @classmethod
    def drawn(cls, seed: int, beside: str = "") -> Scale:
        """Draw it."""
        chance = random.Random(seed)
        return cls({one: chance.randrange(10_000, 40_000) for one in ("bell", "rope", "oar")}, beside)

    def tool(self) -> Any:
        """The tool."""

        @tool(effect="read")
        def weigh(thing: str) -> str:
            """Weigh a thing.

            Args:
                thing: Its name.
            """
            more = f" {'The pointer swings. ' * 60} {self.said(self.beside)}" if self.beside else ""
            return f"{self.said(thing)}{more}"

        return weigh

    def said(self, thing: str) -> str:
        """A sentence with a weight."""
        return f"{thing}: {self.weights[thing]} kg."

    def sum(self, *things: str) -> str:
        """The weight of things together."""
        return str(sum(self.weights[one] for one in things))


class Diary:
    """Keeps what a task came to as an insight."""

    name = "diary"
    version = "1.0.0"
    description = "Keeps each answer as an insight."

    async def begin(self, memory: Memory) -> Sequence[Entry]:
        """Nothing is told."""
        return ()

    async def step(self, memory: Memory, event: Happening) -> None:
        """Nothing is kept."""

    async def end(self, memory: Memory, event: Happening) -> None:
        """The answer is kept."""
        await memory.write("insight", f"Of the harbour: {event.text}", of=[event])


@dataclass(frozen=True)
class Weighing:
    """A task about things with weights.

    Attributes:
        asks: the task and the number that its answer rests on.
        weighs: the agent has the scale.
        beside: the thing that lies beside whatever is weighed, and is named at the end of a long result; "" for none.
        before: a task that was done earlier, with the scale; "" for none.
        noted: it was done with a diary; else with the part `retrieval`, in the same session.
        max_steps: decisions that the agent may take.
        system: that does it.
    """

    asks: Callable[[Scale], tuple[str, str]]
    weighs: bool = False
    beside: str = ""
    before: str = ""
    noted: bool = True
    max_steps: int = 20
    system: str = "react"

    async def __call__(self, parts: PartSettings, seeds: range, folder: Path) -> list[Found]:
        """Do it, in a workspace for each seed."""
        return [await self.done(parts, Scale.drawn(seed, self.beside), folder / str(seed)) for seed in seeds]

    async def done(self, parts: PartSettings, scale: Scale, folder: Path) -> Found:
        """Do it with these things."""
        task, fact = self.asks(scale)
        weigher = Weigher(fact)
        model = weigher.model()
        options: dict[str, Any] = {"models": {model.name: model}, "environ": {}}
        session = None if self.noted else "of the harbour"
        if self.before:
            given = PartSettings() if self.noted else PartSettings(retrieval=True)
            first = {"tools": [scale.tool()], "memories": {"diary": Diary}, "settings": Settings(parts=given)}
            earlier = Weigher(NOT_KNOWN).model()
            async with Workspace(folder, **options | first | {"models": {earlier.name: earlier}}) as ws:
                kept = {"memory": "diary"} if self.noted else {"session": session}
                await ws.run(self.before, model=earlier.name, system="react", **kept)
        options |= {"memories": {"diary": Diary}, "settings": Settings(model=model.name, parts=parts)}
        options |= {"tools": [scale.tool()] if self.weighs else []}
        async with Workspace(folder, **options) as ws:
            # In a session the part is compared on what the conversation does not show: a memory takes its place,
            # which tells nothing.
            memory: dict[str, Any] = {} if self.noted else {"memory": "diary"}
            result = await ws.run(task, system=self.system, max_steps=self.max_steps, session=session, **memory)
        return Found(fact in result.answer_text, any(fact in one for one in weigher.shown), len(weigher.shown))


def _sum_of_the_given(scale: Scale) -> tuple[str, str]:
    return f"{scale.said('bell')} {scale.said('rope')} What do both weigh together?", scale.sum("bell", "rope")


def _sum_of_the_weighed(scale: Scale) -> tuple[str, str]:
    return "Weigh the bell, weigh the rope, and say what both weigh together.", scale.sum("bell", "rope")


def _sum_with_what_lies_beside(scale: Scale) -> tuple[str, str]:
    return "Weigh the bell, and say what it weighs together with what lies beside it.", scale.sum("bell", "rope")


def _the_third(scale: Scale) -> tuple[str, str]:
    return "Weigh the bell, weigh the rope, weigh the oar. What does the oar weigh?", str(scale.weights["oar"])


def _the_bell_of_the_harbour(scale: Scale) -> tuple[str, str]:
    return "What does the bell of the harbour weigh?", str(scale.weights["bell"])


def _the_bell(scale: Scale) -> tuple[str, str]:
    return "What does the bell weigh?", str(scale.weights["bell"])


ONCE, REVIEWED = ({"plan": plan, "planning_interval": 2} for plan in ("once", "reviewed"))

SUMMED = {"summary": True}
ALL = "Weigh the bell, weigh the oar, and weigh the rope."

TASKS = (
    # What follows from the facts of the task is written down before the agent acts.
    Task("facts survey", {"plan": "once"}, Weighing(_sum_of_the_given), {"plan": "none"}),
    # What follows from what was observed is written down while the agent is at work.
    Task("plan review", REVIEWED, Weighing(_sum_of_the_weighed, weighs=True, max_steps=5), ONCE),
    # Who has steps for one thing only is told of all three.
    Task("parallel subtasks", {"subtasks": True}, Weighing(_the_third, weighs=True, max_steps=2), {}),
    # What an earlier task of the workspace found out.
    Task(
        "tips",
        {"tips": True},
        Weighing(_the_bell_of_the_harbour, before="Weigh the bell of the harbour."),
        {"tips": False},
    ),
    # What follows from a long result is written down, also from its end.
    Task("summary of a step", {"summary": True}, Weighing(_sum_with_what_lies_beside, weighs=True, beside="rope"), {}),
    # A step of the session's earlier task, of which its answer says nothing, comes back when it is asked for.
    Task("retrieval", {"retrieval": True}, Weighing(_the_bell, before=ALL, noted=False), {}),
    # What follows from several steps is written down, which no summary of one step has.
    Task("long-term memory", {"summary": True, "long_term": True}, Weighing(_sum_of_the_weighed, weighs=True), SUMMED),
)
