"""A model for debates that knows only what its prompt shows. Its experts have opinions of their own, nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide, say

TOPIC = "Is the stock of AAPL a good investment?"

OPINIONS: Mapping[str, tuple[str, ...]] = {
    "finance_expert": ("Cash flow is strong.", "Services grow.", "The price is fair for what is earned."),
    "mathematics_expert": ("The variance of one stock is high.", "Past growth is no proof.", "Spread the money."),
}
"""What each expert brings, one argument in each turn."""

Speak = Callable[[str, int, list[tuple[str, str]]], dict[str, Any]]
"""From a name, how much it has said itself, and what of others it was shown (mark, text), to an output."""

Answer = Callable[[str, str], dict[str, Any]]
"""Of the manager: from its system prompt and what else it is shown."""


def shown(text: str) -> list[tuple[str, str]]:
    """The arguments that stand in a prompt: mark and words."""
    return re.findall(r"^\[([A-Z]\d+)\](?: \(answers [^)]*\))? (.*)$", text, re.MULTILINE)


def speak(name: str, own: int, others: list[tuple[str, str]]) -> dict[str, Any]:
    """Its next opinion, the second one as a rebuttal of what somebody else said last; at the end it accepts that."""
    opinions = OPINIONS.get(name, (f"{name} has a view.",))
    last = others[-1:]
    if own < len(opinions):
        rebuts = own == 1 and last
        answers = [mark for mark, _ in last] if rebuts else []
        against = f" That stands against “{last[0][1]}”" if rebuts else ""
        return {
            "position": f"{name} holds: {opinions[own]}",
            "arguments": [{"text": opinions[own] + against, "answers": answers}],
        }
    return {"position": f"{name} stays.", "arguments": [], "accepts": [mark for mark, _ in last]}


def planned(system: str, material: str) -> dict[str, Any]:
    """One issue; of the agents that it may choose from those whose description has a word of the topic's."""
    topic = re.search(r"<topic>\n(.*?)\n</topic>", material, re.DOTALL)
    words = {*re.findall(r"\w{5,}", topic[1].lower() if topic else "")} - {"question"}
    listed = re.findall(r"^- (\w+): (.*)$", material, re.MULTILINE)
    fitting = [name for name, said in listed if words & {*re.findall(r"\w{5,}", said.lower())}]
    return {"issues": ["Does it pay?"], "experts": fitting}


def judged(system: str, material: str) -> dict[str, Any]:
    """Agreed when the last turn that is shown accepts something."""
    marks = [mark for mark, _ in shown(material)]
    last = material.rstrip().splitlines()
    agreed = any(line.startswith("Accepts") for line in last[-3:])
    return {"summary": f"Said so far: {', '.join(marks)}.", "agreed": agreed, "new": True, "focus": f"Why {marks[-1]}?"}


def concluded(system: str, material: str) -> dict[str, Any]:
    """Names an agreement only where it was shown both arguments that it stands on."""
    by_text = {text.partition(" That stands")[0]: mark for mark, text in shown(material)}
    one, other = by_text.get("The price is fair for what is earned."), by_text.get("Spread the money.")
    both = ["finance_expert", "mathematics_expert"]
    agreements = []
    if one and other:
        said = "A share of it belongs into a spread portfolio."
        agreements = [{"statement": said, "experts": both, "arguments": [one, other]}]
    if one:
        agreements.append({"statement": "Its price is fair.", "experts": both, "arguments": [one]})
    first = [mark for mark in by_text.values() if mark.endswith("1")]
    sides = [{"statement": f"what {mark} says", "experts": [mark[0]], "arguments": [mark]} for mark in first]
    return {
        "conclusion": f"It may be held. {''.join(f'[{mark}]' for mark in first)}[Z9]",
        "agreements": agreements,
        "disagreements": [{"about": "whether it pays", "sides": sides, "why": "other aims"}],
        "open_questions": ["What will it earn?"],
    }


ASKED: Mapping[str, Answer] = {"You lead debates": planned, "After each round": judged, "conclude it": concluded}


def turn(text: str, speaks: Speak) -> ModelResponse:
    """An expert's decision."""
    name, letter = re.findall(r"in a debate as (\w+) \((\w)\)", text)[0]
    said = shown(text)
    own = sum(mark.startswith(letter) for mark, _ in said)
    output = speaks(name, own, [one for one in said if not one[0].startswith(letter)])
    if "done" in output:
        return decide(calls=[call("done", **output["done"])])
    return decide(calls=[call("done", answer="", output=output)])


def reply_to(system: str, text: str, speaks: Speak = speak, **changed: Answer) -> ModelResponse:
    """What is answered to a prompt, to its first message and all others."""
    if "in a debate as" in text:
        return turn(text, speaks)
    answer = next((one for start, one in ASKED.items() if start in system), None)
    assert answer is not None, system
    return say(json.dumps(changed.get(answer.__name__, answer)(system, text)))


def debater(speaks: Speak = speak, **changed: Answer) -> ScriptedModel:
    """The model.

    Args:
        speaks: for the experts.
        changed: other answers of the manager, by the names of the functions above.
    """

    def answer(request: ModelRequest) -> ModelResponse:
        rest = "\n".join(message.text for message in request.messages[1:])
        return reply_to(request.messages[0].text, rest, speaks, **changed)

    return ScriptedModel(answer)
