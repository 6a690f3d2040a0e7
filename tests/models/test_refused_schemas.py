"""A tool whose schema a provider refuses is left out with a warning; the request and the other tools are not lost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ModelRequestError, ModelSchemaError
from agentorchestra.core.messages import ModelRequest, ToolSchema, user
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.failures import refused_tools
from agentorchestra.models.handler import RequestModelHandler
from agentorchestra.models.manager import ModelManager
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import LoopbackModelServer, ServerReply, call, decide
from agentorchestra.workspace import Workspace
from tests.models.support import Context, effect_of, schema
from tests.support.formats import LoopbackAnthropicServer, LoopbackGoogleServer

SERVERS: dict[str, tuple[type[LoopbackModelServer], str]] = {
    "openai": (LoopbackModelServer, "openai:gpt-5"),
    "anthropic": (LoopbackAnthropicServer, "anthropic:claude-opus-4-5"),
    "google": (LoopbackGoogleServer, "google:gemini-2.5-flash"),
}
TOOLS = (schema("add"), schema("convert"), schema("done"))


@pytest.mark.parametrize(
    ("said", "blamed"),
    [
        ("Invalid schema for function 'convert': In context=(), object schema missing properties.", ["convert"]),
        ('{"message": "bad schema", "param": "tools[1].function.parameters"}', ["convert"]),
        ("tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12", ["convert"]),
        (
            "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[x].items: missing field.",
            ["convert"],
        ),
        ('{"message": "Invalid schema for function \\"add\\""}', ["add"]),
        ("Tool choice 'done' is no function: see tool_choice", []),
        ("please add a message and convert the rest", []),
        ("tools[7].function.name: too long", []),
    ],
)
def test_who_is_blamed(said: str, blamed: list[str]) -> None:
    assert list(refused_tools(said, TOOLS)) == blamed


@tool(effect="pure")
def convert(amount: float, unit: str = "m") -> str:
    """Convert an amount.

    Args:
        amount: how much.
        unit: of what.
    """
    return f"{amount} {unit}"


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: one.
        b: another.
    """
    return a + b


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", list(SERVERS))
async def test_a_run_goes_on_without_the_tool(tmp_path: Path, format_: str) -> None:
    make, model = SERVERS[format_]
    replies = iter([decide(calls=[call("add", a=2, b=3)]), decide(calls=[call("done", answer="5")])])

    def strict(body: dict[str, Any]) -> ServerReply:
        if '"convert"' in json.dumps(body.get("tools")):
            return server.error(400, "Invalid schema for function 'convert': 'unit' may not have a default")
        return ServerReply(answer=next(replies))

    async with make(strict) as server:
        models = {"m": ModelProfile(model=model, base_url=server.base_url, max_attempts=1)}
        settings = Settings(models=models, model="m", system="react")
        async with Workspace(tmp_path / "ws", settings=settings, tools=[add, convert]) as ws:
            result = await ws.run("What is 2 + 3?")
            events = await ws.log.events(result.run_id)
            replayed = await ws.replay(result.run_id)
    assert (result.status, result.answer, replayed.answer) == (RunStatus.COMPLETED, "5", "5")
    assert server.count == 3, "the second step leaves the tool out by itself"
    (failed,) = [event.body for event in events if event.type == "attempt_failed"]
    assert "refuses the schema of convert" in failed["error"] and failed["error_type"] == "ModelSchemaError"
    notes = [event.body["message"] for event in events if event.type == "noted"]
    assert [note for note in notes if "goes without convert" in note], notes
    assert result.usage.requests == 2


async def test_many_that_are_refused_at_the_same_time(tmp_path: Path) -> None:
    """What one request learnt does not leave the others, already on their way, without a second try."""

    async def strict(body: dict[str, Any]) -> ServerReply:
        if '"convert"' in json.dumps(body["tools"]):
            waiting.append(1)
            if len(waiting) == 5:
                all_there.set()
            await all_there.wait()
            return server.error(400, "Invalid schema for function 'convert'")
        return ServerReply(answer="5")

    waiting: list[int] = []
    all_there = asyncio.Event()
    async with LoopbackModelServer(strict) as server:
        profile = ModelProfile(model="openai:gpt-5", base_url=server.base_url, max_attempts=1)
        manager = ModelManager(Settings(models={"local": profile}), {})
        handler = RequestModelHandler(manager)
        request = ModelRequest(model="local", messages=(user("x"),), tools=TOOLS)
        outcomes = await asyncio.gather(*(handler.execute(effect_of(request), Context()) for _ in range(5)))
        await manager.aclose()
    assert [outcome.response.text for outcome in outcomes] == ["5"] * 5
    assert server.count == 10


@pytest.mark.parametrize(("system", "name"), [("react", "done"), ("aorchestra", "complete")])
async def test_a_refused_finishing_tool_is_not_left_out(tmp_path: Path, system: str, name: str) -> None:
    """Without it no agent could finish: the request fails, and says why."""
    refusal = f"Invalid schema for function '{name}': no"
    async with LoopbackModelServer(lambda body: server.error(400, refusal)) as server:
        models = {"m": ModelProfile(model="openai:gpt-5", base_url=server.base_url)}
        async with Workspace(tmp_path / "ws", settings=Settings(models=models, model="m", system=system)) as ws:
            result = await ws.run("What is 2 + 3?")
    assert (result.status, server.count) == (RunStatus.FAILED, 1)
    assert f"refuses the schema of {name}" in (result.error or "")


@pytest.mark.parametrize("format_", list(SERVERS))
async def test_what_the_library_cannot_write_is_left_out_too(format_: str) -> None:
    """Nothing was sent: the attempt costs nothing."""
    make, model = SERVERS[format_]
    broken = ToolSchema(name="broken", description="x", parameters={"type": "object", "properties": []})
    async with make(["5"]) as server:
        manager = ModelManager(Settings(models={"local": ModelProfile(model=model, base_url=server.base_url)}), {})
        request = ModelRequest(model="local", messages=(user("What is 2 + 3?"),), tools=(broken, schema("add")))
        context = Context()
        outcome = await RequestModelHandler(manager).execute(effect_of(request), context)
        await manager.aclose()
    assert outcome.ok and outcome.response.text == "5"
    assert (server.count, context.attempts) == (1, 2)
    (failure,) = context.failures
    assert isinstance(failure[1], ModelSchemaError) and failure[1].tools == ("broken",)
    assert context.spent[0].requests == 0
    sent = json.dumps(server.requests[0]["tools"])
    assert '"add"' in sent and '"broken"' not in sent


async def test_other_refusals_are_told_as_they_are() -> None:
    async with LoopbackModelServer([]) as server:
        reply = server.error(400, "messages must alternate")
        server._function = lambda body: reply
        manager = ModelManager(
            Settings(models={"local": ModelProfile(model="openai:gpt-5", base_url=server.base_url)}), {}
        )
        request = ModelRequest(model="local", messages=(user("x"),), tools=TOOLS)
        with pytest.raises(ModelRequestError, match="messages must alternate") as raised:
            await RequestModelHandler(manager).execute(effect_of(request), Context())
        await manager.aclose()
    assert not isinstance(raised.value, ModelSchemaError)
    assert server.count == 1
