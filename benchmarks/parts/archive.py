"""An archive whose drawers are drawn by seed: small tasks on which one part of test-time scaling decides each.

The model is one function of what it is shown. It gives the mark that stands there and knows no part; without a mark it
opens a drawer, which one follows from the words of its request alone. As the verifier it tells a letter with the right
mark from others, and errs at a stated rate. `truth` is what only the archive and the verifier know.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.parts.task import Found, Task

from agentorchestra import Workspace, tool
from agentorchestra.agents.parts.verifier import form_of
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import PartSettings, Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide, say

PLACES = ("attic", "cellar", "gallery", "hall", "loft", "vault")
QUESTION = "Find the mark of volume {}. It stands in a letter in one of the drawers."


def drawn(count: int, *about: object) -> int:
    """Return a number below `count` that follows from what it is about."""
    return int.from_bytes(hashlib.sha256(repr(about).encode()).digest()[:8], "big") % count


@dataclass(frozen=True)
class Volume:
    """One task: where the letter with its mark lies, and what lies elsewhere."""

    seed: int

    @property
    def truth(self) -> str:
        """The mark: four digits, not round."""
        return str(1001 + drawn(8000, self.seed, "mark"))

    @property
    def forms(self) -> tuple[str, ...]:
        """The ways in which the mark is written."""
        return (self.truth, f"{int(self.truth):,}", f"{self.truth}.0")

    def holds(self, place: str) -> bool:
        """Return True for the two drawers that have the letter."""
        return (PLACES.index(place) + drawn(len(PLACES), self.seed, "place")) % 3 == 0


def empty(volume: Volume, place: str) -> str:
    """Drawers with the letter, or with nothing."""
    return f"A letter: the mark is {volume.truth}." if volume.holds(place) else "The drawer is empty."


def high(volume: Volume, place: str) -> str:
    """The letter lies in a place that one of two models never looks into."""
    return empty(volume, place) if place in PLACES[3:] else "The drawer is empty."


def signed(volume: Volume, place: str) -> str:
    """Every other drawer has the letter, each in another form; in the others stand marks of other volumes."""
    at = PLACES.index(place) + drawn(2, volume.seed, "half")
    mark = volume.forms[at // 2 % 3] if at % 2 else str(9001 + drawn(900, volume.seed, place))
    return f"A letter: the mark is {mark}."


def moved(volume: Volume, place: str) -> str:
    """Empty drawers say where the letter is, in words that only who looks back on the step takes for a hint."""
    where = next(one for one in PLACES if volume.holds(one))
    return f"A letter: the mark is {volume.truth}." if place == where else f"Empty. Old list, see: {where}."


@dataclass(frozen=True)
class Search:
    """A search for the mark of a volume, for `react`.

    Attributes:
        drawers: what lies where.
        errs: how often the verifier errs.
        max_steps: decisions that the agent may take.
        mixed: of the two models each looks into one half of the places.
    """

    drawers: Callable[[Volume, str], str]
    errs: float = 0.2
    max_steps: int = 2
    mixed: bool = False

    async def __call__(self, parts: PartSettings, seeds: range, folder: Path) -> list[Found]:
        """Do it, in one workspace."""
        halves = [model(self, "low", PLACES[:3]), model(self, "high", PLACES[3:])] if self.mixed else [model(self)]
        settings = Settings(model=halves[0].name, system="react", parts=parts)
        models = {one.name: one for one in halves}
        options: dict[str, Any] = {"settings": settings, "models": models, "store": MemoryStore(), "environ": {}}
        found = []
        async with Workspace(folder, tools=tools(self), **options) as ws:
            for seed in seeds:
                begin = {one.name: len(one.requests) for one in halves}
                result = await ws.run(QUESTION.format(seed), max_steps=self.max_steps, seed=str(seed))
                asked = [request for one in halves for request in one.requests[begin[one.name] :]]
                shown = [message.text for request in asked if request.tools for message in request.messages]
                seen = any(form in text for text in shown for form in Volume(seed).forms)
                found.append(Found(form_of(result.answer_text) == Volume(seed).truth, seen, len(asked)))
        return found


def part(name: str, parts: Mapping[str, Any], search: Search) -> Task:
    """Return a part of test-time scaling with its task; without it the run is plain."""
    return Task(name, parts, search, {}, errs=search.errs)


TASKS = (
    part("reward of a step", {"candidates": 4, "choose": "process"}, Search(empty)),
    part("reward of the outcome", {"candidates": 4, "choose": "outcome"}, Search(empty)),
    part("list-wise choice", {"candidates": 4, "choose": "listwise"}, Search(empty)),
    part("pairwise choice", {"candidates": 4, "choose": "pairwise"}, Search(empty)),
    part("beam of 2", {"candidates": 2, "width": 2, "choose": "process"}, Search(empty)),
    part("best of 4 runs", {"rollouts": 4}, Search(empty)),
    part("vote of 7 runs", {"rollouts": 7, "choose": "vote"}, Search(signed, errs=0.0)),
    part("reflection", {"threshold": 5}, Search(moved, max_steps=3)),
    part("mixture", {"candidates": 4, "mixture": {"low": 1, "high": 1}}, Search(high, mixed=True)),
)


def tools(search: Search) -> list[Any]:
    """Return the one tool: a drawer."""

    @tool(effect="read")
    async def open_drawer(volume: int, place: str) -> str:
        """Open a drawer of the archive.

        Args:
            volume: The volume that is looked for.
            place: Where the drawer is.
        """
        return search.drawers(Volume(volume), place)

    return [open_drawer]


def model(search: Search, name: str = "scripted", places: tuple[str, ...] = PLACES) -> ScriptedModel:
    """Return the model, which opens drawers in these places only."""

    def reply(request: ModelRequest) -> ModelResponse:
        text = "\n".join(message.text for message in request.messages)
        found = re.search(r"volume (\d+)", text)
        assert found is not None
        volume = Volume(int(found[1]))
        if request.settings.output_schema is not None:
            return say(json.dumps(judged(search, volume, text, {*request.settings.output_schema["properties"]})))
        mark = re.search(r"the mark is ([\d.,]*\d)", text)
        hint = re.search(r"Open the drawer in the (\w+)", text)
        if mark or "<last_step>" in text:
            return decide(calls=[call("done", answer=mark[1] if mark else "unknown")])
        place = hint[1] if hint else places[drawn(len(places), text)]
        return decide(calls=[call("open_drawer", volume=volume.seed, place=place)])

    return ScriptedModel(reply, name=name)


def judged(search: Search, volume: Volume, text: str, wanted: set[str]) -> dict[str, Any]:
    """Return what the verifier says; it errs at the rate of the search, by what it is shown."""
    errs = drawn(1000, text, "errs") < search.errs * 1000
    if "score" in wanted:
        shown = text.rpartition("The step:")[2]
        good = f"is {volume.truth}." in shown or volume.truth in shown.rpartition("Its answer")[2]
        return {"analysis": "", "score": 9 if good is not errs else 2}
    if "index" in wanted:
        rivals = re.split(r"Candidate \d+:", text)[1:]
        right = next((n for n, one in enumerate(rivals, start=1) if volume.truth in one), 1)
        return {"analysis": "", "index": 1 + drawn(len(rivals), text) if errs else right}
    seen = re.findall(r"Old list, see: (\w+)", text)
    place = PLACES[drawn(len(PLACES), text)] if errs or not seen else seen[-1]
    lesson = f"Open the drawer in the {place}."
    return {"experience_summary": "The drawer was empty.", "confidence_assessment": "low", "lessons_learned": lesson}
