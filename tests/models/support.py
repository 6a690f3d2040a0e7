"""What the tests of models share: a client over a loopback server, and as much of a context as a handler needs."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentorchestra.core.budget import Usage
from agentorchestra.core.effects import Effect, EffectKind, Provenance
from agentorchestra.core.messages import Message, ModelRequest, ModelSettings, ToolSchema, system, user
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.models.client import ModelClient
from agentorchestra.models.manager import ModelManager
from agentorchestra.testing import LoopbackModelServer, ServerScript

KEY = "loc4l-secret-0123456789"  # unlike any provider's, so that no pattern finds it


class Pieces(list[str]):
    """Keeps the words of an answer that is streamed, and beside them its thoughts and the arguments of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.thoughts = ""
        self.arguments: dict[str, str] = {}

    def __call__(self, text: str, part: str = "text", call: str = "") -> None:
        """Take a piece."""
        if part == "text":
            self.append(text)
        elif part == "thought":
            self.thoughts += text
        else:
            self.arguments[call] = self.arguments.get(call, "") + text


async def no_media(sha256: str) -> bytes:
    raise AssertionError(f"nobody should have asked for {sha256}")


@asynccontextmanager
async def serving(script: ServerScript, **profile: Any) -> AsyncIterator[tuple[LoopbackModelServer, ModelClient]]:
    """A server and the real client of a profile that points at it; both are closed at the end."""
    async with LoopbackModelServer(script) as server:
        fields = {"model": "local-model", "base_url": server.base_url, "api_key_env": "LOCAL_KEY", **profile}
        manager = ModelManager(Settings(models={"local": ModelProfile(**fields)}), {"LOCAL_KEY": KEY})
        try:
            yield server, manager.client("local")
        finally:
            await manager.aclose()


def asking(*messages: Message, tools: tuple[ToolSchema, ...] = (), **settings: Any) -> ModelRequest:
    """A request of the profile `local`."""
    given = messages or (system("Be brief."), user("What is 2 + 3?"))
    return ModelRequest(model="local", messages=given, tools=tools, settings=ModelSettings(**settings))


def schema(name: str = "add") -> ToolSchema:
    """A tool with two numbers, one of them with a default, which strict mode would take away."""
    properties = {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}}
    parameters = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False}
    return ToolSchema(name=name, description=f"{name} two numbers", parameters=parameters)


def effect_of(
    request: ModelRequest | None, *, purpose: str = "decision", provenance: tuple[Provenance, ...] = ()
) -> Effect:
    """RequestModel."""
    return Effect(
        kind=EffectKind.REQUEST_MODEL, component="model@1", request=request, purpose=purpose, provenance=provenance
    )


class Context:
    """The part of a RunContext that the handler uses; keeps what it was told."""

    def __init__(self, *, listening: bool = False, blobs: dict[str, bytes] | None = None) -> None:
        self.random = random.Random(1)
        self.listening = listening
        self.deltas = Pieces()
        self.failures: list[tuple[int, Exception, str, float | None]] = []
        self.spent: list[Usage] = []
        self.attempts = 0
        self._blobs = blobs or {}

    def reply_stream(self, purpose: str) -> Pieces | None:
        return self.deltas if self.listening else None

    async def blob(self, sha256: str) -> bytes:
        return self._blobs[sha256]

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[Any]:
        self.attempts += 1
        yield _Attempt(self, self.attempts)


class _Attempt:
    def __init__(self, context: Context, number: int) -> None:
        self._context = context
        self.number = number

    async def fail(
        self, error: Exception, *, usage: Usage | None = None, target: str = "", retry_in_s: float | None = None
    ) -> None:
        self._context.failures.append((self.number, error, target, retry_in_s))
        self._context.spent.append(usage or Usage())
