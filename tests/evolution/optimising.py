"""Models for optimisers, each a function of what it reads: a worker that does what its prompt says, and an optimiser
that looks for the line which says what was criticised.

The world: a shop's prices, which a task wants in euros. The worker names the currency that its prompt's rule names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentorchestra.agents.optimiser.evidence import Evidence, Node, Variable
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.evolution.evidence import evidence_of
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace, packaged_prompts
from tests.systems.support import seen

TASK = "What does the lamp cost? Give the price in euros."
WRONG = "- Give every price in pounds."
RIGHT = "- Give every price in the currency that the task names."


def prompt_file(folder: Path, *rules: str) -> None:
    """Write the workspace's own prompt `react`, whose part `task_rules` has these rules."""
    packaged = next(one for one in packaged_prompts() if one.joinpath("react.md").is_file())
    text = packaged.joinpath("react.md").read_text(encoding="utf-8")
    start = text.index("{# part: task_rules #}")
    place = folder / "ws" / "prompts"
    place.mkdir(parents=True, exist_ok=True)
    body = "\n".join(["{# part: task_rules #}", *rules, ""])
    (place / "react.md").write_text(text[:start] + body + text[text.index("{# end #}", start) :], encoding="utf-8")


def worker(request: ModelRequest) -> ModelResponse:
    """Answer in the currency that the rules name; in that of the task where they say so."""
    rules = request.messages[0].text
    words = next((line for line in rules.splitlines() if "every price in" in line), "")
    currency = "pounds" if "pounds" in words else "euros"
    return decide("The list says 30.", calls=[call("done", answer=f"30 {currency}")])


def shown(request: ModelRequest) -> list[tuple[str, str]]:
    """Return the material of a request: each heading with the words below it."""
    found: list[tuple[str, str]] = []
    head = ""
    for message in request.messages:
        for block in message.content:
            if isinstance(block, TextBlock) and block.trust is Trust.SYSTEM:
                head = block.text
            elif isinstance(block, TextBlock):
                found.append((head, block.text))
    return found


def under(request: ModelRequest, heading: str) -> str:
    """Return the words below a heading that begins so, "" without one."""
    return "\n".join(text for head, text in shown(request) if head.startswith(heading))


PARTS = {
    "loss": "You criticise how a run",
    "backward": "You look at one step",
    "gradient": "You look at one text",
    "step": "You improve one text",
    "diagnosis": "You diagnose a run",
}


@dataclass
class Critic:
    """An optimiser's model. It criticises what the task does not name, and finds the line that names it.

    Attributes:
        asked: the requests of each part, in order.
        writes: makes the new text of the old one and the words that it is to lose; the careful way by default.
    """

    writes: Callable[[str, str], str] | None = None
    asked: dict[str, list[ModelRequest]] = field(default_factory=dict)

    def model(self, name: str = "optimiser") -> ScriptedModel:
        """Return the model."""
        return ScriptedModel(self.reply, name=name)

    def reply(self, request: ModelRequest) -> ModelResponse:
        """Reply to the part that is asked."""
        system = request.messages[0].text
        part = next(name for name, begins in PARTS.items() if system.startswith(begins))
        self.asked.setdefault(part, []).append(request)
        return ModelResponse(text=json.dumps(getattr(self, f"_{part}")(request)))

    def _loss(self, request: ModelRequest) -> dict[str, Any]:
        task, answer = seen(request).casefold(), under(request, "The answer").casefold()
        strange = [word for word in ("pounds", "dollars") if word in answer and f"in {word}" not in task]
        failed = under(request, "Steps that failed")
        problems = [f"The answer says '{word}', which the task did not ask for." for word in strange]
        return {"problems": problems + ([f"A step failed: {failed}"] if failed else [])}

    def _backward(self, request: ModelRequest) -> dict[str, Any]:
        said, out = under(request, "What is said of"), under(request, "What came out")
        words = re.findall(r"'(\w+)'", said)
        named = [word for word in words if word in out]
        return {"feedback": f"The output says '{named[0]}'; it should not." if named else ""}

    def _gradient(self, request: ModelRequest) -> dict[str, Any]:
        words = re.findall(r"'(\w+)'", under(request, "What is said of this step"))
        lines = under(request, "The text:").splitlines()
        guilty = [line for line in lines for word in words if word in line]
        return {"feedback": f"The line «{guilty[0].strip()}» led to it." if guilty else ""}

    def _step(self, request: ModelRequest) -> dict[str, Any]:
        text = under(request, "The text as it is now")
        said = under(request, "What was said of a run")
        guilty = re.findall(r"«(.*?)»", said)
        write = self.writes or (lambda old, line: old.replace(line, RIGHT))
        return {"reason": f"«{guilty[0]}» named a currency", "text": write(text, guilty[0])}


def variables_of(found: Sequence[Any], component: str, **more: Any) -> list[Variable]:
    """Return what `vars` gives as variables of a component."""
    return [Variable(component=component, variable=one.name, text=one.value, role=one.role, **more) for one in found]


async def priced(ws: Workspace[Any], task: str = TASK, score: float | None = 0.0, *, times: int = 1) -> list[Evidence]:
    """Have the worker do a task; return the evidence, with the variables of the prompt `react`."""
    given = variables_of(await ws.components.prompts.vars("react"), "prompt:react")
    found = []
    for _ in range(times):
        result = await ws.run(task, model="worker", system="react")
        found.append(evidence_of(await ws.log.events(result.run_id), given, score=score))
    return found


def options(variables: Sequence[Variable], evidence: Sequence[Evidence], **more: Any) -> dict[str, Any]:
    """Return the options of an optimiser's run."""
    return {
        "variables": [one.model_dump(mode="json", exclude_defaults=True) for one in variables],
        "evidence": [one.model_dump(mode="json", exclude_defaults=True) for one in evidence],
        **more,
    }


def shop(folder: Path, critic: Critic, *rules: str, **more: Any) -> Workspace[Any]:
    """A workspace with a worker, an optimiser, and a prompt with these rules."""
    prompt_file(folder, *(rules or (WRONG,)))
    models = {"worker": ScriptedModel(worker, name="worker"), "optimiser": critic.model()}
    return Workspace(folder / "ws", **{"models": models, **more})


def two_prompts() -> tuple[list[Variable], list[Evidence]]:
    """Two requests of which only one leads to the answer; each has a prompt of its own."""
    nodes = (
        Node(key="a", kind="RequestModel", given="Which list?", gave="the pounds list", uses=("prompt:lists/rules",)),
        Node(key="b", kind="InvokeTool", component="read@1.0.0", given='"the pounds list"', gave="30 pounds"),
        Node(key="c", kind="RequestModel", given="30 pounds", gave="30 pounds", uses=("prompt:answers/rules",)),
        Node(key="d", kind="RequestModel", given="pounds", gave="pounds", uses=("prompt:aside/rules",)),
    )
    edges = (("a", "b"), ("b", "c"), ("c", "outcome"))
    variables = [
        Variable(component=f"prompt:{name}", variable="rules", text=f"- {words}.", role="prompt")
        for name, words in (("lists", "Take the list in pounds"), ("answers", "Say what is there"), ("aside", "pounds"))
    ]
    return variables, [
        Evidence(run="run_1", task=TASK, status="completed", answer="30 pounds", score=0.0, nodes=nodes, edges=edges)
    ]
