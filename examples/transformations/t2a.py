"""T2A, and A2T after it: tools become the hands of an agent, which becomes a tool again.

    python examples/transformations/t2a.py

The agent turns a goal into calls with parameters: whoever gives it the goal sees neither the tools nor their arguments.
No key is needed: a function stands in for the model. It takes the parameters from the goal and from what the tools
said.
"""

from __future__ import annotations

import asyncio
import re
import tempfile

from agentorchestra import Workspace, a2t, compose, t2a, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide

STOCK = {"pear": 12, "apple": 3}


@tool(effect="read")
def in_stock(item: str) -> int:
    """How many of an item there are."""
    return STOCK.get(item, 0)


@tool(effect="write")
def reserve(item: str, count: int) -> str:
    """Put some of an item aside."""
    STOCK[item] -= count
    return f"{count} {item} put aside"


keeper = compose(t2a.using(name="keeper", description="Keeps the stock: puts aside what is asked for."), a2t)


def model(request: ModelRequest) -> ModelResponse:
    """The caller hands its task on; the keeper looks how many there are before it puts any aside."""
    results = [one.text for one in request.messages if one.role == "tool"]
    task = next(one.text for one in request.messages if one.role == "user")
    if "You turn a goal into calls" not in request.messages[0].text:
        goal = re.search(r"Put aside [^.]*", task)
        return decide(
            calls=[call("done", answer=results[0]) if results else call("keeper", task=goal[0] if goal else "")]
        )
    wanted = re.search(r"Put aside (\d+) (\w+)", task)
    assert wanted is not None
    count, item = int(wanted[1]), wanted[2]
    if not results:
        return decide(calls=[call("in_stock", item=item)])
    if len(results) == 1 and int(results[0]) >= count:
        return decide(calls=[call("reserve", item=item, count=count)])
    return decide(calls=[call("done", answer=results[-1] if len(results) > 1 else f"only {results[0]} {item} left")])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(folder, tools=keeper([in_stock, reserve])) as ws:
            for task in ("Put aside 5 pear.", "Put aside 5 apple."):
                result = await ws.run(task, system="react", model=ScriptedModel(model))
                print(f"{task} -> {result.answer_text}; left: {STOCK}")


if __name__ == "__main__":
    asyncio.run(main())
