"""A model for subtasks: it divides as told, and does, checks and answers as functions of what it is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide
from tests.systems.support import seen

GOAL = "How much do the three things weigh together?"


@dataclass
class Divider:
    """Replies by what is asked: a form by its properties; an agent by its first words.

    Attributes:
        subtasks: the division, as its form wants it, or any other reply.
        results: the arguments of `done` by a word of the subtask; else the word is done.
        checks: the reply of a check by a word of the subtask; else it is valid.
        asked: what was shown, by kind: `subtasks`, `valid`, a subtask's words, `lead`.
    """

    subtasks: Any
    results: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    checks: Mapping[str, Any] = field(default_factory=dict)
    asked: dict[str, list[ModelRequest]] = field(default_factory=dict)

    def model(self) -> ScriptedModel:
        """The model."""
        return ScriptedModel(self.reply)

    def reply(self, request: ModelRequest) -> ModelResponse:
        """Reply to a request."""
        form = (request.settings.output_schema or {}).get("properties", {})
        text = seen(request)
        words = [one for one in self.words if f"<task>\n{one}\n" in text or f"<subtask>\n{one}\n" in text]
        kind = next((name for name in ("subtasks", "valid") if name in form), words[0] if words else "lead")
        self.asked.setdefault(kind, []).append(request)
        if kind == "subtasks":
            return ModelResponse(text=json.dumps({"constraints": ["In kilograms."], "subtasks": self.subtasks}))
        if kind == "valid":
            facts = [{"fact": f"{words[0]}: known", "source": "scale"}]
            said = self.checks.get(words[0], {"facts": facts, "valid": True, "problem": ""})
            return ModelResponse(text=said if isinstance(said, str) else json.dumps(said))
        if kind == "lead":
            end = next(one.name for one in request.tools if one.name in ("done", "complete", "submit_answer"))
            return decide(calls=[call(end, answer="all")])
        return decide(calls=[call("done", **self.results.get(kind, {"answer": f"{kind} is done"}))])

    @property
    def words(self) -> Sequence[str]:
        """The subtasks' words."""
        given = self.subtasks if isinstance(self.subtasks, list) else []
        return [str(one["task"]) for one in given if "task" in one]
