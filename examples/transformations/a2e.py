"""A2E: an agent as an environment that others act in: a market, and a human.

    python examples/transformations/a2e.py

The market is an agent: it sets its price by what it was told before, and shows it. As an environment it has actions
(`buy`, `sell`), rules and a state; traders act in it without knowing that an agent is behind it. A human is an agent
too: acting in `editor` is asking somebody, and the run waits until there is an answer. No key is needed: a function
stands in for the model. It answers from what it is shown, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile

from agentorchestra import Agent, Workspace, a2e
from agentorchestra.agents.transformations.a2e import human
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolSchema
from agentorchestra.testing import ScriptedModel, call, decide


def trade(name: str, description: str) -> ToolSchema:
    shares = {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many shares."}
    parameters = {"type": "object", "properties": {"shares": shares}, "required": ["shares"]}
    return ToolSchema(name=name, description=description, parameters=parameters)


MARKET = a2e(
    Agent(name="market_maker", description="Makes the price of one share by supply and demand.", prompt="worker"),
    name="market",
    actions=[trade("buy", "Buy shares at the market's price."), trade("sell", "Sell shares at the market's price.")],
    rules="A share costs 100 at first. Each one that is bought makes it dearer by 1, each that is sold cheaper by 1.",
)
EDITOR = a2e(human("reader", "Reads a draft and says what is wrong with it."), name="editor")


def model(request: ModelRequest) -> ModelResponse:
    """The market adds up what it was told; the trader buys, sells, and shows the editor what it paid."""
    text = "\n".join(one.text for one in request.messages)
    if "You carry out one part of a task" in request.messages[0].text:
        moves = [json.loads(one) for one in re.findall(r'\{"action":.*?\}\}', text)]
        signs = {"buy": 1, "sell": -1}
        price = 100 + sum(signs[one["action"]] * one["arguments"]["shares"] for one in moves)
        return decide(calls=[call("done", answer=f"the price is {price}")])
    replies = [one.text for one in request.messages if one.role == "tool"]
    steps = [call("market_buy", shares=10), call("market_sell", shares=3)]
    if len(replies) < len(steps):
        return decide(calls=[steps[len(replies)]])
    if len(replies) == len(steps):
        return decide(calls=[call("editor_tell", message=f"I saw: {'; '.join(replies)}. Is that clear?")])
    return decide(calls=[call("done", answer="\n".join(replies))])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(folder, environments={"market": MARKET, "editor": EDITOR}) as ws:
            result = await ws.run("Trade, then ask the editor.", system="react", model=ScriptedModel(model))
            (question,) = result.questions
            print(f"{result.status}: {question.question}")
            await ws.answer(result.run_id, "Yes.", question=question.key)
            result = await ws.resume(result.run_id, model=ScriptedModel(model))
            print(f"{result.status}: {result.answer_text}")
            await ws.replay(result.run_id, model=ScriptedModel(model))  # nothing is asked again


if __name__ == "__main__":
    asyncio.run(main())
