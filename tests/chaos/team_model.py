"""The model of the team: a function of the prompt.

What it answers names the request it answers (`thinking`), so that a log tells which requests it holds the answers of.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Self

from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.testing import LoopbackModelServer, call, decide

TASK = "Describe the tides."
ANSWER = "team: left: noted left, port; right: noted right, starboard | top: noted top, mast"
ANSWER_OF_THREE = ANSWER.replace(" |", "; rear: noted rear, stern |")
UNCERTAIN = "uncertain note"


def answer(body: dict[str, Any]) -> ModelResponse:
    """The next decision of whoever asks, from the JSON of a request."""
    said = [_text(message) for message in body["messages"] if message["role"] == "tool"]
    steps = steps_of(body)
    actor = actor_of(body)
    calls = _top(steps, said) if actor == "top" else _side(actor, steps, said)
    mark = digest(body)
    named = [one.model_copy(update={"id": f"call_{mark[:12]}_{index}"}) for index, one in enumerate(calls)]
    return decide(thinking=mark, memory=f"{actor} after {steps} steps", calls=named)


def scripted(request: ModelRequest) -> ModelResponse:
    """The same as a script for a ScriptedModel."""
    return answer(body_of(request))


def body_of(request: ModelRequest) -> dict[str, Any]:
    """A request as a server sees it, as far as it matters here."""
    return {"messages": [{"role": one.role, "content": one.text} for one in request.messages]}


def steps_of(body: dict[str, Any]) -> int:
    """How many decisions stand behind whoever asks."""
    return sum(1 for message in body["messages"] if message["role"] == "assistant")


def digest(body: dict[str, Any]) -> str:
    """Which request it is; the model's name, which tells the cases of a test apart, is no part of it."""
    return sha256_json(body["messages"])


def actor_of(body: dict[str, Any]) -> str:
    """Whose request it is: top, left or right."""
    first = next(_text(message) for message in body["messages"] if message["role"] == "user")
    found = re.search(r"the (left|right|rear) of", first)
    return found.group(1) if found else "top"


def answered(response: dict[str, Any]) -> str:
    """The digest of the request that a recorded response answered."""
    return str(json.loads(response["text"])["thinking"])


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)
    if message["role"] == "tool" and "may have happened" in text:
        return UNCERTAIN
    return re.sub(r"</?content[^>]*>", "", text).strip()


def _top(steps: int, said: list[str]) -> list[ToolCall]:
    if steps == 0:
        return [call("team", topic="the tides")]
    if steps == 1:
        return [call("note", x="top"), call("lookup", word="top")]
    return [call("done", answer=f"team: {said[0]} | top: {', '.join(said[1:3])}")]


def _side(actor: str, steps: int, said: list[str]) -> list[ToolCall]:
    if steps == 0:
        return [call("note", x=actor)]
    if steps == 1:
        return [call("lookup", word=actor)]
    return [call("done", answer=f"{actor}: {', '.join(said[:2])}")]


class Served:
    """A LoopbackModelServer of this model, and the requests it saw.

    Args:
        holds: how many of the second requests of sub-agents are kept waiting until `release` is set.
    """

    def __init__(self, *, holds: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.holds = holds
        self.held = 0
        self.release = asyncio.Event()
        self._server = LoopbackModelServer(self.script)

    async def script(self, body: dict[str, Any]) -> ModelResponse:
        """Keep the request and answer it."""
        self.bodies.append(body)
        if self.held < self.holds and steps_of(body) == 1 and actor_of(body) != "top":
            self.held += 1
            await self.release.wait()
        return answer(body)

    @property
    def base_url(self) -> str:
        """The address for a profile."""
        return self._server.base_url

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.release.set()
        await self._server.__aexit__(*error)
