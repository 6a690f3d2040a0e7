"""The public test doubles: fake only the model, and let it fail loudly.

`ScriptedModel` answers in place of a model. `LoopbackModelServer` answers in place of a provider, over real HTTP, so
that the real client, its time limits and its errors are tested too:

    async with LoopbackModelServer(lambda body: call("done", answer="4")) as server:
        profile = ModelProfile(model="openai:test", base_url=server.base_url)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentorchestra.models.render import render_message
from agentorchestra.models.scripted import Reply, ScriptedModel, ScriptFunction, call, decide, say
from agentorchestra.models.serving.completions import Body
from agentorchestra.testing.servers import (
    LoopbackModelServer,
    ServerReply,
    ServerScript,
    garbage,
    html,
    http_error,
    silence,
)

if TYPE_CHECKING:
    from agentorchestra.testing.obedient import obedient_model
    from agentorchestra.testing.plans import plan_request

__all__ = [
    "Body",
    "LoopbackModelServer",
    "Reply",
    "ScriptFunction",
    "ScriptedModel",
    "ServerReply",
    "ServerScript",
    "call",
    "decide",
    "garbage",
    "html",
    "http_error",
    "obedient_model",
    "plan_request",
    "render_message",
    "say",
    "silence",
]


def __getattr__(name: str) -> Any:
    module = {"obedient_model": "obedient", "plan_request": "plans"}.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
