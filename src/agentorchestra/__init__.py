"""AgentOrchestra: teams of language-model agents whose every part is a versioned component.

    async with Workspace("project") as ws:
        result = await ws.run("What does the contract say about notice?", files=["contract.pdf"])
        print(result.answer, result.sources)

Names are loaded when they are first used; importing this package reads no file and starts nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentorchestra.agents.agent import Agent
    from agentorchestra.agents.transformations.a2e import a2e
    from agentorchestra.agents.transformations.a2t import a2t
    from agentorchestra.agents.transformations.e2a import e2a
    from agentorchestra.agents.transformations.t2a import t2a
    from agentorchestra.agents.types import Kit
    from agentorchestra.core.budget import Budget
    from agentorchestra.core.conditions import Condition
    from agentorchestra.core.content import Source, TextBlock, Trust, Trusted, Untrusted
    from agentorchestra.core.effects import Effect
    from agentorchestra.core.errors import AgentOrchestraError, RunNotCompleted, ToolError
    from agentorchestra.core.events import Event
    from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ToolCall, ToolSchema
    from agentorchestra.core.policy import Policy, PolicyView, Verdict
    from agentorchestra.core.protocols import Environment, RunContext
    from agentorchestra.core.settings import ModelProfile, Settings
    from agentorchestra.core.spec import AgentResult, AgentSpec, RunResult, RunStatus
    from agentorchestra.evaluation.evaluate import Evaluation
    from agentorchestra.evolution.evolver import evolve
    from agentorchestra.models.client import ModelClient
    from agentorchestra.runtime.hooks import ToolCalled
    from agentorchestra.runtime.results import ToolResult
    from agentorchestra.tea.calling.environment import ActionEnvironment, action
    from agentorchestra.tea.calling.tool import Tool, tool
    from agentorchestra.tea.transformations.base import compose
    from agentorchestra.tea.transformations.e2t import e2t
    from agentorchestra.tea.transformations.t2e import t2e
    from agentorchestra.tools.mcp import mcp
    from agentorchestra.trust.policy import DefaultPolicy
    from agentorchestra.workspace import Workspace, open_workspace

_HOMES = {
    "agents.agent": ("Agent",),
    "agents.transformations.a2e": ("a2e",),
    "agents.transformations.a2t": ("a2t",),
    "agents.transformations.e2a": ("e2a",),
    "agents.transformations.t2a": ("t2a",),
    "agents.types": ("Kit",),
    "core.budget": ("Budget",),
    "core.conditions": ("Condition",),
    "core.content": ("Source", "TextBlock", "Trust", "Trusted", "Untrusted"),
    "core.effects": ("Effect",),
    "core.errors": ("AgentOrchestraError", "RunNotCompleted", "ToolError"),
    "core.events": ("Event",),
    "core.messages": ("Message", "ModelRequest", "ModelResponse", "ToolCall", "ToolSchema"),
    "core.policy": ("Policy", "PolicyView", "Verdict"),
    "core.protocols": ("Environment", "RunContext"),
    "core.settings": ("ModelProfile", "Settings"),
    "core.spec": ("AgentResult", "AgentSpec", "RunResult", "RunStatus"),
    "evaluation.evaluate": ("Evaluation",),
    "evolution.evolver": ("evolve",),
    "models.client": ("ModelClient",),
    "runtime.hooks": ("ToolCalled",),
    "runtime.results": ("ToolResult",),
    "tea.calling.environment": ("ActionEnvironment", "action"),
    "tea.calling.tool": ("Tool", "tool"),
    "tea.transformations.base": ("compose",),
    "tea.transformations.e2t": ("e2t",),
    "tea.transformations.t2e": ("t2e",),
    "tools.mcp": ("mcp",),
    "trust.policy": ("DefaultPolicy",),
    "workspace": ("Workspace", "open_workspace"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# fmt: off
__all__ = [
    "ActionEnvironment", "Agent", "AgentOrchestraError", "AgentResult", "AgentSpec", "Budget", "Condition",
    "DefaultPolicy", "Effect", "Environment", "Evaluation", "Event", "Kit", "Message", "ModelClient",
    "ModelProfile", "ModelRequest", "ModelResponse", "Policy", "PolicyView", "RunContext", "RunNotCompleted",
    "RunResult", "RunStatus", "Settings", "Source", "TextBlock", "Tool", "ToolCall", "ToolCalled", "ToolError",
    "ToolResult", "ToolSchema", "Trust", "Trusted", "Untrusted", "Verdict", "Workspace", "a2e", "a2t", "action",
    "compose", "e2a", "e2t", "evolve", "mcp", "open_workspace", "t2a", "t2e", "tool",
]
# fmt: on


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
