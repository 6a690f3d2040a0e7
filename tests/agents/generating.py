"""A model that generates tools, as a function of what its prompts show; and the code it may write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace

TASK = "Write the number 1994 as a Roman numeral."
TENS = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X")]
ONES = [(9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def numeral(number: int) -> str:
    """What is right, computed by the test."""
    text = ""
    for value, letters in [*TENS, *ONES]:
        text, number = text + letters * (number // value), number % value
    return text


RIGHT = f'''
def roman(number: int) -> str:
    """Write a number as a Roman numeral.

    Args:
        number: from 1 to 3999.
    """
    if not 0 < number < 4000:
        raise ValueError("only 1 to 3999 can be written")
    text = ""
    for value, letters in {[*TENS, *ONES]!r}:
        text += letters * (number // value)
        number %= value
    return text
'''


def section(text: str, name: str) -> str:
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", text, re.DOTALL)
    return found[1] if found else ""


def specified(system: str, material: str) -> Any:
    """What the task in the prompt wants; nothing where it does not name a number."""
    number = re.search(r"\d+", section(system, "task"))
    if number is None:
        return {"reason": "no number is given", "possible": False}
    return {
        "reason": "it can be counted",
        "possible": True,
        "name": "roman",
        "title": "Roman numerals",
        "description": "Writes a number as a Roman numeral.",
        "parameters": json.dumps(
            {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
        ),
        "returns": '{"type": "string"}',
        "plan": ["Take the largest letters first."],
        "examples": [{"arguments": json.dumps({"number": one}), "expected": numeral(one)} for one in (1, 4)],
        "case": {"arguments": json.dumps({"number": int(number[0])}), "stated_as": "", "expected": ""},
    }


def fitting(system: str, material: str) -> Any:
    """Tools whose descriptions speak of Roman numerals, by the names of their own parameters."""
    wanted = json.loads(section(system, "wanted"))
    numbers = [one["arguments"]["number"] for one in wanted["examples"]] + [wanted["case"]["number"]]
    fits = []
    for name, parameter in re.findall(
        r"^(\w+): [^\n]*Roman[^\n]*\n\s*\{.*?\"properties\": \{\"(\w+)\"", material, re.M
    ):
        fits.append({"tool": name, "calls": [json.dumps({parameter: one}) for one in numbers]})
    return {"fits": fits}


def written(system: str, material: str) -> Any:
    """The code for a specification of Roman numerals."""
    spec = json.loads(section(system, "specification"))
    assert "1994" not in system  # whoever writes the code never sees the case
    return {"code": RIGHT.replace("roman(", f"{spec['name']}(") if "Roman" in spec["description"] else ""}


def judged(system: str, material: str) -> Any:
    """The result that is shown, against the test's own."""
    number = json.loads(section(system, "called_with"))
    assert "def " not in system + material  # the judge never sees the code
    (value,) = number.values()
    right = json.dumps(numeral(value)) in material
    return {
        "reason": f"it is {numeral(value)}",
        "right": right,
        "problem": "" if right else "the letters do not add up to the number",
    }


ASKED = {
    "You specify a tool": specified,
    "You look for an existing tool": fitting,
    "You write the code": written,
    "You check the result": judged,
}


class Model:
    """Counts what was asked, by the names of the functions above.

    Args:
        changed: other functions, by those names.
    """

    def __init__(self, **changed: Any) -> None:
        self.asked: list[str] = []
        self.changed = changed
        self.client = ScriptedModel(self.answer)

    def answer(self, request: ModelRequest) -> ModelResponse:
        system = request.messages[0].text
        if request.tools:  # the caller
            if any(message.role == "tool" for message in request.messages):
                return decide(calls=[call("done", answer="asked")])
            return decide(calls=[call("tool_generator", task=TASK)])
        name, reply = next((one.__name__, one) for start, one in ASKED.items() if start in system)
        self.asked.append(name)
        told = request.messages[-1]
        asked = f"{system}\n{render_message(told.model_copy(update={'content': told.content[:1]}))}"
        return say(json.dumps(self.changed.get(name, reply)(asked, render_message(told))))


def writes(*codes: str) -> Any:
    """One code after the other, the next only when the prompt shows what was wrong with the one before."""

    def reply(system: str, material: str) -> Any:
        shown = section(system, "your_last_code")
        done = [index for index, one in enumerate(codes) if one.strip() == shown.strip()] if shown else []
        return {"code": codes[min(done[-1] + 1, len(codes) - 1)] if done else codes[0]}

    return reply


def limited(**generator: Any) -> Settings:
    """Settings of a workspace that keeps what is generated, unless another `keep` is given."""
    generator = {"keep": "workspace", **generator}
    return Settings.model_validate({"generator": generator, "sandbox": {"backend": "bubblewrap", "memory_mib": 256}})


async def generated(
    folder: Path, model: Model, task: str = TASK, *, tools: Sequence[Any] = (), replay: bool = True, **generator: Any
) -> Any:
    """A run of the generator: its result, the phases in its log, and what its trials gave."""
    given: dict[str, Any] = {"models": {"scripted": model.client}, "settings": limited(**generator)}
    async with Workspace(folder, tools=tools, **given) as ws:
        result = await ws.run(task, system="tool_generator", model="scripted")
        events = await ws.log.events(result.run_id)
        if replay:
            assert (await ws.replay(result.run_id)).answer == result.answer_text
    return result, phases(events), events


def phases(events: Sequence[Any]) -> list[tuple[str, str, list[str]]]:
    """Phase, outcome and reasons, in order."""
    found = []
    for event in events:
        effect = event.body.get("effect") or {}
        if event.type == "completed" and str(effect.get("component", "")).startswith("tool_phase@"):
            said: Mapping[str, Any] = effect["arguments"]
            found.append((said["phase"], said["outcome"], said.get("reasons", [])))
    return found


def called(events: Sequence[Any], name: str) -> list[int]:
    """The numbers that a tool was called with, in order."""
    found = []
    for event in events:
        effect = event.body.get("effect") or {}
        if str(effect.get("component", "")).startswith(f"{name}@"):  # of what is pure only the end is written down
            found += [one for one in effect["arguments"].values() if isinstance(one, int)]
    return found
