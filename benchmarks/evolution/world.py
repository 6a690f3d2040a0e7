"""A noisy task whose success depends on the instructions that a prompt holds, and a model that improves prompts.

Nobody is told which instructions help. An answer that fails shows a symptom of one instruction that is missing; whoever
reads it may guess the instruction, or be wrong about it.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.evolution.optimiser import Improvement, Proposal, TextChange
from agentorchestra.testing import call

HELPFUL = {
    "no unit": "- State the unit of every number.",
    "no check": "- Check the result by the inverse operation.",
    "rounded early": "- Round only at the end.",
    "a step is missing": "- Write every step down.",
    "the wrong row": "- Read the row's heading before its value.",
}
"""What helps, by the symptom of its absence."""

IDLE = ("- Be polite.", "- Use short sentences.", "- Use British spelling.", "- Number your paragraphs.", "- Be brief.")
HARMFUL = ("- Answer in one word.", "- Never use a tool.", "- Answer before you read the table.")
POOL = (*HELPFUL.values(), *IDLE, *HARMFUL)
START, HELP, HARM = 0.15, 0.16, 0.2
PLACE = "prompt:react/task_rules"


def success(rules: str) -> float:
    """Return how often a prompt with these rules succeeds."""
    helped = sum(one in rules for one in HELPFUL.values())
    harmed = sum(one in rules for one in HARMFUL)
    return min(0.97, max(0.02, START + HELP * helped - HARM * harmed))


@dataclass
class Worker:
    """The task's model: right as often as the rules of its prompt make it.

    Attributes:
        seed: of the noise.
        asked: how often it was.
    """

    seed: int
    asked: int = 0
    _times: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: ModelRequest) -> ModelResponse:
        """Answer with the true value, or with one that shows a symptom."""
        self.asked += 1
        rules = request.messages[0].text
        (item,) = {*re.findall(r"value of item (\d+)", "\n".join(one.text for one in request.messages))}
        present = "|".join(one for one in POOL if one in rules)
        self._times[f"{item} {present}"] += 1
        drawn = f"{self.seed} {item} {present} {self._times[f'{item} {present}']}"
        chance = random.Random(hashlib.sha256(drawn.encode()).hexdigest())
        if chance.random() < success(rules):
            return call("done", answer=str(int(item) * 10))
        missing = [symptom for symptom, one in HELPFUL.items() if one not in rules] or ["bad luck"]
        return call("done", answer=f"about {int(item) * 10 + 1} <{chance.choice(missing)}>")


@dataclass
class Improver:
    """The optimisers' model: it reads symptoms, and finds the instruction against one in `insight` of all cases.

    Attributes:
        seed: of its guesses.
        insight: how often a symptom leads it to the right instruction; else it takes any.
    """

    seed: int
    insight: float = 0.6

    def __call__(self, request: ModelRequest) -> ModelResponse:
        """Reply to a form of an optimiser, or to GEPA."""
        words = "\n".join(message.text for message in request.messages)
        system = request.messages[0].text
        symptoms = [one for one in re.findall(r"<([a-z ]+)>", words) if one in {*HELPFUL, "bad luck"}]
        if system.startswith("You criticise how a run"):
            return _json({"problems": [f"The answer shows <{one}>." for one in symptoms[:1]]})
        if system.startswith(("You look at one step", "You look at one text")):
            return _json({"feedback": f"It led to <{symptoms[0]}>." if symptoms else ""})
        if system.startswith("You diagnose a run"):
            cause = {"variable": PLACE, "part": 8, "why": f"It led to <{symptoms[0]}>." if symptoms else ""}
            return _json({"failures": [f"<{one}>" for one in symptoms[:1]], "causes": [cause] if symptoms else []})
        if system.startswith("You improve one text"):
            text = _text_below(request, "The text as it is now")
            return _json({"reason": "against what was seen", "text": self.written(text, symptoms)})
        (text,) = re.findall(r"```\n(.*?)\n```", words, re.DOTALL)[:1]  # GEPA shows the text first
        return ModelResponse(text=f"```\n{self.written(text, symptoms)}\n```")

    def written(self, text: str, symptoms: Sequence[str]) -> str:
        """Return the rules with an instruction against each symptom, as it believes."""
        chance = random.Random(f"{self.seed} {text} {sorted({*symptoms})}")
        lines = text.strip("\n").splitlines()
        for one in dict.fromkeys(symptoms):
            knows = one in HELPFUL and chance.random() < self.insight
            lines.append(HELPFUL[one] if knows else chance.choice(POOL))
        return "\n".join(dict.fromkeys(lines)) + "\n"


def _json(reply: dict[str, object]) -> ModelResponse:
    return ModelResponse(text=json.dumps(reply))


def _text_below(request: ModelRequest, heading: str) -> str:
    """Return the material below a heading."""
    head = ""
    for message in request.messages:
        for block in message.content:
            if isinstance(block, TextBlock) and block.trust is Trust.SYSTEM:
                head = block.text
            elif isinstance(block, TextBlock) and head.startswith(heading):
                return block.text
    raise ValueError(f"no material below {heading!r}")


def random_edits(seed: int) -> Callable[[Improvement], Awaitable[Proposal]]:
    """Return an optimiser that reads nothing: it adds instructions, and now and then takes one out."""

    async def propose(task: Improvement) -> Proposal:
        chance = random.Random(f"{seed} {task.seed}")
        lines = task.variables[PLACE].value.strip("\n").splitlines()
        ours = [one for one in lines if one in POOL]
        if ours and chance.random() < 0.25:
            lines.remove(chance.choice(ours))
        lines += chance.sample(POOL, 3)
        component, _, variable = PLACE.partition("/")
        text = "\n".join(dict.fromkeys(lines)) + "\n"
        return Proposal(changes=(TextChange(component=component, variable=variable, text=text, reason="drawn"),))

    return propose
