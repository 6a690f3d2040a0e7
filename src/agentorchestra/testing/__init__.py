"""The public test doubles: fake only the model, and let it fail loudly.

`ScriptedModel` answers in place of a model. `LoopbackModelServer` answers in place of a provider, over real HTTP, so
that the real client, its time limits and its errors are tested too:

    async with LoopbackModelServer(lambda body: call("done", answer="4")) as server:
        profile = ModelProfile(model="openai:test", base_url=server.base_url)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentorchestra.models.render import render_message
from agentorchestra.models.scripted import Reply, ScriptedModel, ScriptFunction, call, decide, say
from agentorchestra.testing.servers import (
    Body,
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
    if name == "obedient_model":
        from agentorchestra.testing import obedient

        return obedient.obedient_model
    if name == "plan_request":
        from agentorchestra.testing import plans

        return plans.plan_request
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
