"""A model for the parts of an OWL workforce: which part is asked shows in the form of the reply, or in the tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide

WORD = "What is the capital of the land north of the river?"


@dataclass
class Workforce:
    """What each part says, by turns; the last one again where there are more turns.

    Attributes:
        plans: the subtasks of each plan, or any other reply.
        workers: names that the coordinator gives.
        results: the arguments of `done` of each worker.
        answers: replies of the answerer.
        asked: what each part was shown.
    """

    plans: Sequence[Any] = (["Find the land."],)
    workers: Sequence[str] = ("web_agent",)
    results: Sequence[dict[str, Any]] = ({"answer": "Norland"},)
    answers: Sequence[Any] = ({"answer": "Northam"},)
    asked: dict[str, list[ModelRequest]] = field(default_factory=dict)

    def model(self, name: str = "scripted") -> ScriptedModel:
        """The model."""
        return ScriptedModel(self.reply, name=name)

    def reply(self, request: ModelRequest) -> ModelResponse:
        """Reply as the part that is asked."""
        part = part_of(request)
        self.asked.setdefault(part, []).append(request)
        given = getattr(self, part)
        turn = given[min(len(self.asked[part]), len(given)) - 1]
        if part == "results":
            return decide(calls=[call("done", **turn)])
        value = {"subtasks": turn} if isinstance(turn, list) else {"worker": turn} if part == "workers" else turn
        return ModelResponse(text=value if part != "workers" and isinstance(value, str) else json.dumps(value))


def part_of(request: ModelRequest) -> str:
    """The part that a request is for."""
    wanted = (request.settings.output_schema or {}).get("properties", {})
    return next((part for part, name in FORMS.items() if name in wanted), "results")


FORMS = {"plans": "subtasks", "workers": "worker", "answers": "answer"}
