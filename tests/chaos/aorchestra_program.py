"""Three things weighed by three sub-agents at once; the models write down what they are asked and what it cost.

What a model answers names the request that it answers, so that a log tells which requests it holds the answers of.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from agentorchestra import Workspace, tool
from agentorchestra.core.budget import Usage
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import AOrchestraSettings, ModelProfile, Price, RoleSettings, Settings
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.chaos.killing import hooks
from tests.systems.planning import results

THINGS = ("bell", "rope", "wheel")
TASK = "What do a bell, a rope and a wheel weigh together?"
ANSWER = "13"
PRICES = {"lead": Price(input=3, output=15), "hand": Price(input=1, output=5), "eye": Price(input=0.5, output=2)}


@tool(effect="read")
def weigh(thing: str) -> str:
    """Weigh a thing.

    Args:
        thing: its name.
    """
    return f"{thing}: {len(thing)} kg"


def lead(request: ModelRequest, mark: str) -> ModelResponse:
    """Delegates the three, and adds up what comes back."""
    weights = [int(one) for text in results(request) for one in re.findall(r'"result":"\w+: (\d+) kg"', text)]
    if not weights:
        return decide(mark, calls=[_delegate(one) for one in re.findall(r"an? (\w+)[, ]", TASK)])
    return decide(mark, calls=[call("complete", answer=str(sum(weights)))])


def _delegate(thing: str) -> ToolCall:
    return call("delegate_task", task_instruction=f"Weigh the {thing}.", tools=["weigh"])


def hand(request: ModelRequest, mark: str) -> ModelResponse:
    """Weighs what it is told to weigh."""
    if said := results(request):
        (weight,) = re.findall(r"\w+: \d+ kg", said[-1])
        return decide(mark, calls=[call("done", answer=weight)])
    (thing,) = re.findall(r"Weigh the (\w+)\.", request.messages[1].text)
    return decide(mark, calls=[call("weigh", thing=thing)])


def eye(request: ModelRequest, mark: str) -> ModelResponse:
    """Says that it has read a log."""
    return say(json.dumps({"points": [f"Read as {mark}."], "issues": []}))


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)

    def model(name: str, script: Callable[[ModelRequest, str], ModelResponse]) -> ScriptedModel:
        async def answer(request: ModelRequest) -> ModelResponse:
            mark = sha256_text("\n".join(one.text for one in request.messages))
            tokens = Usage(requests=1, input_tokens=100 + int(mark[:2], 16), output_tokens=10 + int(mark[2:4], 16))
            with folder.with_suffix(".asked").open("a", encoding="utf-8") as file:
                file.write(f"{name} {mark[:12]} {tokens.input_tokens} {tokens.output_tokens}\n")
            await asyncio.sleep(0.02)  # so that several are under way when it dies
            return script(request, mark[:12]).model_copy(update={"usage": tokens})

        return ScriptedModel(answer, name=name, profile=ModelProfile(model="scripted", price=PRICES[name]))

    models = {"lead": model("lead", lead), "hand": model("hand", hand), "eye": model("eye", eye)}
    settings = Settings(
        model="lead",
        system="aorchestra",
        roles={"reviewer": RoleSettings(model="eye")},
        aorchestra=AOrchestraSettings(models=("hand",), review_from=1),
    )
    return Workspace(folder, models=models, settings=settings, tools=[weigh], store=store, handlers=wrap, environ={})


async def main(folder: Path, run: str) -> None:
    async with workspace(folder) as ws:
        await (ws.resume(run) if run else ws.run(TASK))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
