"""A model that answers right exactly when a certain number stands in its request; it knows no part and no heading.

Where it acts, it weighs the things that it is told to weigh and that no weight stands there for, one in each step, and
says a weight that stands there. Where it fills a form, it writes down what follows: two weights have a sum.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide
from tests.systems.support import seen

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
        text = seen(request)
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
