"""A request that asks for JSON of a schema: natively where the provider can, by its prompt elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.requests import ask_model
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import OutputError
from agentorchestra.core.messages import ModelRequest, ModelSettings, user
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.models.handler import RequestModelHandler
from agentorchestra.models.manager import ModelManager
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.structured_output import read_output
from agentorchestra.testing import LoopbackModelServer, ServerReply, ServerScript
from agentorchestra.workspace import Workspace
from tests.models.support import Context, asking, effect_of
from tests.support.formats import LoopbackAnthropicServer, LoopbackGoogleServer

SERVERS: dict[str, tuple[type[LoopbackModelServer], str]] = {
    "openai": (LoopbackModelServer, "openai:gpt-5"),
    "anthropic": (LoopbackAnthropicServer, "anthropic:claude-opus-4-5"),
    "google": (LoopbackGoogleServer, "google:gemini-2.5-flash"),
}
VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "number", "maximum": 10}, "why": {"type": "string"}},
    "required": ["score", "why"],
    "additionalProperties": False,
}
LABELS: dict[str, Any] = {
    "type": "object",
    "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}},
    "required": ["labels"],
}
"""A map of free names, which strict structured output would empty."""

REPLY = '{"score": 7, "why": "short"}'
NATIVE = ("response_format", "output_config", "responseJsonSchema", "responseSchema")


async def asked(
    format_: str, script: ServerScript, settings: ModelSettings
) -> tuple[LoopbackModelServer, str, Context]:
    """One request through the handler: the server, the reply, what the context was told."""
    make, model = SERVERS[format_]
    async with make(script) as server:
        manager = ModelManager(Settings(models={"local": ModelProfile(model=model, base_url=server.base_url)}), {})
        context = Context()
        request = ModelRequest(model="local", messages=(user("Judge it."),), settings=settings)
        outcome = await RequestModelHandler(manager).execute(effect_of(request, purpose="judge"), context)
        await manager.aclose()
    assert outcome.ok, outcome.error
    return server, outcome.response.text, context


def schema_sent(body: dict[str, Any]) -> bool:
    """Whether the provider's own parameter holds a schema."""
    whole = {**body, **body.get("generationConfig", {})}
    return any('"properties"' in json.dumps(whole.get(name)) for name in NATIVE)


@pytest.mark.parametrize("format_", list(SERVERS))
async def test_the_providers_own_way_is_used(format_: str) -> None:
    server, text, _ = await asked(format_, [REPLY], ModelSettings(output_schema=VERDICT))
    assert schema_sent(server.requests[0])
    assert read_output(text, VERDICT) == {"score": 7, "why": "short"}


@pytest.mark.parametrize("format_", list(SERVERS))
async def test_a_prompt_asks_where_the_way_is_not_wanted(format_: str) -> None:
    server, text, _ = await asked(format_, [REPLY], ModelSettings(output_schema=VERDICT, output_mode="prompted"))
    assert not schema_sent(server.requests[0])
    assert "maximum" in json.dumps(server.requests[0]), "the schema stands in the prompt"
    assert read_output(text, VERDICT) == {"score": 7, "why": "short"}


@pytest.mark.parametrize("format_", list(SERVERS))
async def test_a_schema_keeps_its_meaning(format_: str) -> None:
    """Free names are not forbidden on the way: a provider that would forbid them is asked by the prompt."""
    server, *_ = await asked(format_, ['{"labels": {"a": "b"}}'], ModelSettings(output_schema=LABELS))
    sent = json.dumps(server.requests[0]).replace('\\"', '"')
    assert '"additionalProperties": {"type": "string"}' in sent
    assert schema_sent(server.requests[0]) is (format_ != "anthropic")


async def test_a_server_that_refuses_it_is_asked_by_the_prompt() -> None:
    def old(body: dict[str, Any]) -> ServerReply:
        if schema_sent(body):
            return server.error(400, "This model does not support response_format of type json_schema")
        return ServerReply(answer=REPLY)

    server = LoopbackModelServer(old)
    async with server:
        manager = ModelManager(
            Settings(models={"local": ModelProfile(model="openai:old", base_url=server.base_url)}), {}
        )
        handler, context = RequestModelHandler(manager), Context()
        request = asking(user("Judge it."), output_schema=VERDICT)
        for _ in range(2):
            outcome = await handler.execute(effect_of(request, purpose="judge"), context)
            assert read_output(outcome.response.text, VERDICT)
        await manager.aclose()
    assert len(context.failures) == 1 and "the schema of the output" in str(context.failures[0][1])
    assert server.count == 3, "the second request knows it"


async def judging(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """A system that asks for JSON, and once more with what was wrong."""
    prompt = spec.instruction
    for _ in range(2):
        said = await ask_model("judge", prompt, ctx, kit, purpose="judge", trust=Trust.USER, output_schema=VERDICT)
        try:
            verdict = read_output(said, VERDICT)
        except OutputError as exc:
            prompt = f"{spec.instruction}\n{exc}"
        else:
            return AgentResult(status=RunStatus.COMPLETED, answer=json.dumps(verdict))
    return AgentResult(status=RunStatus.BLOCKED, report=prompt)


async def test_a_caller_asks_once_more_and_it_replays(tmp_path: Path) -> None:
    async with LoopbackModelServer(["seven, I would say", REPLY]) as server:
        models = {"m": ModelProfile(model="openai:gpt-5", base_url=server.base_url)}
        settings = Settings(models=models, model="m", system="judging")
        async with Workspace(tmp_path / "ws", settings=settings, systems={"judging": judging}) as ws:
            result = await ws.run("Judge it.")
            assert json.loads(result.answer) == json.loads(REPLY)
            assert (await ws.replay(result.run_id)).answer == result.answer
    assert [schema_sent(body) for body in server.requests] == [True, True]
    assert "holds no JSON but 'seven, I would say'" in json.dumps(server.requests[1])


def test_requests_without_it_are_what_they_were() -> None:
    """Recorded runs go on: the fingerprint of a request changes only where the option is used."""
    plain = asking(user("x"))
    assert plain.settings.model_dump(exclude_defaults=True) == {}
    assert plain.digest == "8a799f06b1470574ef5f43da89464dcd9d1fd9bdee26eb5533f6cd0e7c89bfbe"
    assert plain.digest != asking(user("x"), output_schema=VERDICT).digest


@pytest.mark.parametrize(
    "text",
    [
        REPLY,
        f"```json\n{REPLY}\n```",
        f"Here you are: {REPLY} I hope it helps {{always}}.",
        f"I first thought [1, 2], then {REPLY}",
    ],
)
def test_words_around_it_are_forgiven(text: str) -> None:
    assert read_output(text, VERDICT) == {"score": 7, "why": "short"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I would give it a seven.", "holds no JSON but 'I would give it a seven.'"),
        ("", "holds no JSON but 'nothing'"),
        ('{"score": 11, "why": ""}', "score: 11 is greater than the maximum of 10"),
        ('{"score": "7"}', "does not fit the schema"),
        ('{"score": NaN, "why": "x"}', "'NaN' is not of type 'number'"),
        ("[" * 5000, "holds no JSON"),
    ],
)
def test_what_does_not_fit_is_a_sentence(text: str, says: str) -> None:
    with pytest.raises(OutputError, match=says.replace("(", r"\(")):
        read_output(text, VERDICT)
