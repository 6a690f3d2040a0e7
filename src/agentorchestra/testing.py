"""The public test doubles: fake only the model, and let it fail loudly.

`ScriptedModel` answers in place of a model; `LoopbackModelServer` answers in place of a provider, over real HTTP.
"""

from __future__ import annotations

from agentorchestra.models.scripted import Reply, ScriptedModel, ScriptFunction, call, decide, say

__all__ = ["Reply", "ScriptFunction", "ScriptedModel", "call", "decide", "say"]
