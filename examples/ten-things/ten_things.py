"""Ten everyday programs, each of a few lines: `python examples/ten-things/ten_things.py` runs nine, pytest the tenth.

The models are scripts here, or the one without a model, so that nothing costs; name yours in their place.
"""

# fmt: off
# The marks `#= N TITLE` stay as they are: the lines of each program are counted between them.

#= imports
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from agentorchestra import ActionEnvironment, Agent, Message, RunContext, ToolCall, ToolSchema, Workspace, action, tool
from agentorchestra.testing import ScriptedModel, call

FOLDER = Path(tempfile.mkdtemp())


def calls(name: str, answer: str, **arguments: str) -> ScriptedModel:
    """Return a model that makes one call and then gives the answer."""
    return ScriptedModel([call(name, **arguments), call("done", answer=answer)])


def team(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> ToolCall:
    """Lead the clerk, and work as the clerk: give the last result, else ask the clerk, else the tool."""
    if messages[-2].role == "tool":
        return call("done", answer="0.4")
    leads = "clerk" in [one.name for one in tools]
    return call("clerk", task="The price of an apple?") if leads else call("price", item="apple")


#= 1 tool with deps
@tool(effect="read")
def price(ctx: RunContext[dict[str, float]], item: str) -> float:
    """Return the price of an item."""
    return ctx.deps[item]


def one() -> None:
    ws = Workspace(FOLDER / "1", tools=[price], deps={"apple": 0.4})
    print(ws.run_sync("An apple?", system="react", model=calls("price", "0.4", item="apple")).answer)


#= 2 structured output
class Out(BaseModel):
    name: str
    price: float


def two() -> None:
    model = ScriptedModel([call("done", answer="0.4", output={"name": "apple", "price": 0.4})])
    print(Workspace(FOLDER / "2").run_sync("An apple?", system="react", output_type=Out, model=model).output.price)


#= 3 sub-agents
clerk = Agent(name="clerk", description="Knows prices.", tools=("price",))


def three() -> None:
    ws = Workspace(FOLDER / "3", tools=[price], deps={"apple": 0.4}, agents=[clerk])
    print(ws.run_sync("The price of an apple?", model=team).answer)


#= 4 streaming tokens
async def four() -> None:
    async with Workspace(FOLDER / "4") as ws:
        async for notice in ws.stream("2+2?", system="react", model="offline"):
            print(notice.text if notice.kind == "delta" else "", end="")


#= 5 approval always
@tool(effect="spend", approval="always")
def pay(to: str) -> str:
    """Pay."""
    return "paid " + to


async def five() -> None:
    async with Workspace(FOLDER / "5", tools=[pay]) as ws:
        waiting = await ws.run("Pay Bob.", system="react", model=calls("pay", "Bob is paid.", to="Bob"))
        await ws.approve(waiting.run_id)
        print(waiting.questions[0].question, (await ws.resume(waiting.run_id)).answer)


#= 6 memory across sessions
async def six() -> None:
    async with Workspace(FOLDER / "6") as ws:
        await ws.session("ada").run("My name is Ada.", system="react", model="offline")
        print((await ws.session("ada").run("What is my name?", system="react", model="offline")).answer)


#= 7 custom model
async def mine(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
    return "from mine"


def seven() -> None:
    print(Workspace(FOLDER / "7").run_sync("x", system="react", model=mine).answer)


#= 8 custom environment
class Lamp(ActionEnvironment):
    """A lamp."""

    name = "lamp"
    on = False

    @action
    def switch(self) -> bool:
        """Switch it."""
        self.on = not self.on
        return self.on


def eight() -> None:
    ws = Workspace(FOLDER / "8", environments={"lamp": Lamp})
    print(ws.run_sync("Switch.", system="react", environments=["lamp"], model=calls("lamp_switch", "on")).answer)


#= 9 hooks
def nine() -> None:
    Workspace(FOLDER / "9", on_step=print, on_tool=print).run_sync("2+2?", system="react", model="offline")


#= 10 test own agent
def test_price(tmp_path: Path) -> None:
    ws = Workspace(tmp_path, tools=[price], deps={"apple": 0.4})
    assert ws.run_sync("An apple?", system="react", model=calls("price", "0.4", item="apple")).answer == "0.4"


#= end
if __name__ == "__main__":
    for program in (one, two, three, seven, eight, nine):
        program()
    for waited in (four, five, six):
        asyncio.run(waited())
