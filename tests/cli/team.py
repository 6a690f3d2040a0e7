"""A team for the tests of what is shown of runs: a planner whose tool sets two sub-agents to work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import ModelUnavailableError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import Price
from agentorchestra.core.spec import AgentSpec
from agentorchestra.log.store import MemoryStore
from agentorchestra.models.client import Media, OnDelta
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

TASK = "Compare the two offers."
ANSWER = "Offer B is cheaper."
STEPS = ["read both offers", "compare the prices"]


class Gate:
    """Holds tools and models until a test has seen what it wants to see."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def passed(self) -> None:
        """Wait until it is opened; then it stays so."""
        await self.opened.wait()


@tool(effect="composite")
async def study(ctx: RunContext[Any], offers: list[str]) -> list[str]:
    """Let one agent for each offer read it.

    Args:
        offers: their names.
    """
    specs = [
        AgentSpec(name=f"reader-{one}", instruction=f"Read offer {one}.", tools=("price_of", "todo"), role="analyzer")
        for one in offers
    ]
    return [result.answer for result in await ctx.call_agents(specs)]


@tool(effect="read")
async def price_of(offer: str, ctx: RunContext[Any]) -> str:
    """The price of an offer.

    Args:
        offer: its name.
    """
    ctx.progress(f"looking {offer} up")
    if isinstance(ctx.deps, Gate):
        await ctx.deps.passed()
    return {"A": "120 euros", "B": "100 euros"}[offer]


@tool(effect="composite")
async def consult(ctx: RunContext[Any], question: str) -> str:
    """Ask the user.

    Args:
        question: what to ask.
    """
    return await ctx.ask(question)


class TeamModel:
    """Decides from the task it sees and from how many results it has: the same for every process."""

    def __init__(self, *, fail_first: bool = False, asks: bool = False) -> None:
        self.fails = 1 if fail_first else 0
        self.asks = asks

    def __call__(self, request: ModelRequest) -> Any:
        results = [message.text for message in request.messages if message.role == "tool"]
        task = request.messages[1].text
        if "Read offer" in task:
            return self._reader("A" if "offer A" in task else "B", results)
        return self._planner(results)

    def _reader(self, offer: str, results: list[str]) -> Any:
        if offer == "A" and self.fails:
            self.fails -= 1
            raise ModelUnavailableError("the server is overloaded", retry_after_s=0.0)
        if not results:
            return decide(next_goal=f"find the price of {offer}", calls=[call("price_of", offer=offer)])
        return decide(calls=[call("done", answer=f"{offer} costs {results[-1]}")])

    def _planner(self, results: list[str]) -> Any:
        calls = [
            call("todo", action="create", plan_id="offers", title="Compare", steps=[*STEPS]),
            call("study", offers=["A", "B"]),
            call("todo", action="complete", step_index=0),
            *([call("consult", question="In euros?")] if self.asks else []),
        ]
        if len(results) < len(calls):
            return decide(memory="two offers", calls=[calls[len(results)]])
        return decide(calls=[call("done", answer=ANSWER)])


class Streamer(ScriptedModel):
    """Streams the beginning of its answer, and goes on when the gate is opened."""

    def __init__(self, steps: Any, gate: Gate, *, price: Price) -> None:
        super().__init__(steps, price=price)
        self._gate = gate

    async def request(
        self, request: ModelRequest, *, media: Media | None = None, on_delta: OnDelta | None = None
    ) -> ModelResponse:
        """The next step of the script."""
        if on_delta is not None:
            on_delta("First I look\nat the prices of")
        await self._gate.passed()
        return await super().request(request, media=media, on_delta=on_delta)


def team(
    folder: Path,
    *,
    in_memory: bool = True,
    tools: Gate | None = None,
    stream: Gate | None = None,
    fail_first: bool = False,
    asks: bool = False,
) -> Workspace[Any]:
    """A workspace with the team; the model has a price, so that there is something to count.

    Args:
        folder: of the workspace.
        in_memory: keep nothing.
        tools: where the prices wait.
        stream: where the model waits, in the middle of its answers.
        fail_first, asks: of the model.
    """
    price = Price(input=1.0, output=5.0)
    script = TeamModel(fail_first=fail_first, asks=asks)
    model = ScriptedModel(script, price=price) if stream is None else Streamer(script, stream, price=price)
    store = MemoryStore() if in_memory else None
    return Workspace(folder, tools=[study, price_of, consult], deps=tools, models={"scripted": model}, store=store)
