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
    from agentorchestra.agents.agent import Agent, Relationship
    from agentorchestra.agents.transformations.a2e import a2e, human
    from agentorchestra.agents.transformations.a2t import a2t
    from agentorchestra.agents.transformations.e2a import e2a
    from agentorchestra.agents.transformations.t2a import t2a
    from agentorchestra.agents.types import Kit
    from agentorchestra.core.budget import Budget, Usage
    from agentorchestra.core.conditions import Condition, Conditions
    from agentorchestra.core.content import MediaBlock, Source, TextBlock, Trust, Trusted, Untrusted
    from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Tag
    from agentorchestra.core.errors import AgentOrchestraError, RunNotCompleted, ToolError, UsageError
    from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ToolCall, ToolSchema
    from agentorchestra.core.policy import Policy, PolicyView, Verdict
    from agentorchestra.core.protocols import Engine, Environment, Handler, RunContext, Store
    from agentorchestra.core.settings import ModelProfile, Price, RoleSettings, Settings
    from agentorchestra.core.spec import (
        AgentResult,
        AgentSpec,
        Citation,
        Question,
        RunFile,
        RunResult,
        RunSpec,
        RunStatus,
    )
    from agentorchestra.environments.folder import FolderEnvironment
    from agentorchestra.environments.nested import NestedEnvironment
    from agentorchestra.log.store import MemoryStore, PostgresStore, SqliteStore
    from agentorchestra.models.scripted import call
    from agentorchestra.runtime.bus import Notice
    from agentorchestra.runtime.hooks import ModelAsked, StepTaken, ToolCalled
    from agentorchestra.runtime.results import ToolResult
    from agentorchestra.tea.calling.environment import ActionEnvironment, action
    from agentorchestra.tea.calling.tool import Tool, tool
    from agentorchestra.tea.transformations.base import Transformation, compose
    from agentorchestra.tea.transformations.compound import Given, Result, Step, compound
    from agentorchestra.tea.transformations.e2t import e2t
    from agentorchestra.tea.transformations.t2e import Rule, t2e
    from agentorchestra.tools.mcp import mcp
    from agentorchestra.trust.policy import AllowAll, DefaultPolicy
    from agentorchestra.workspace import ReplayReport, Workspace, open_workspace

_HOMES = {
    "agents.agent": ("Agent", "Relationship"),
    "agents.transformations.a2e": ("a2e", "human"),
    "agents.transformations.a2t": ("a2t",),
    "agents.transformations.e2a": ("e2a",),
    "agents.transformations.t2a": ("t2a",),
    "agents.types": ("Kit",),
    "core.budget": ("Budget", "Usage"),
    "core.conditions": ("Condition", "Conditions"),
    "core.content": ("MediaBlock", "Source", "TextBlock", "Trust", "Trusted", "Untrusted"),
    "core.effects": ("Effect", "EffectKind", "Mode", "Outcome", "Tag"),
    "core.errors": ("AgentOrchestraError", "RunNotCompleted", "ToolError", "UsageError"),
    "core.messages": ("Message", "ModelRequest", "ModelResponse", "ToolCall", "ToolSchema"),
    "core.policy": ("Policy", "PolicyView", "Verdict"),
    "core.protocols": ("Engine", "Environment", "Handler", "RunContext", "Store"),
    "core.settings": ("ModelProfile", "Price", "RoleSettings", "Settings"),
    "core.spec": ("AgentResult", "AgentSpec", "Citation", "Question", "RunFile", "RunResult", "RunSpec", "RunStatus"),
    "environments.folder": ("FolderEnvironment",),
    "environments.nested": ("NestedEnvironment",),
    "trust.policy": ("AllowAll", "DefaultPolicy"),
    "models.scripted": ("call",),
    "runtime.bus": ("Notice",),
    "runtime.hooks": ("ModelAsked", "StepTaken", "ToolCalled"),
    "log.store": ("MemoryStore", "PostgresStore", "SqliteStore"),
    "tea.transformations.compound": ("Given", "Result", "Step", "compound"),
    "tea.calling.environment": ("ActionEnvironment", "action"),
    "tea.calling.tool": ("Tool", "ToolResult", "tool"),
    "tea.transformations.base": ("Transformation", "compose"),
    "tea.transformations.e2t": ("e2t",),
    "tea.transformations.t2e": ("Rule", "t2e"),
    "tools.mcp": ("mcp",),
    "workspace": ("ReplayReport", "Workspace", "open_workspace"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ActionEnvironment",
    "Agent",
    "AgentOrchestraError",
    "AgentResult",
    "AgentSpec",
    "AllowAll",
    "Budget",
    "Citation",
    "Condition",
    "Conditions",
    "DefaultPolicy",
    "Effect",
    "EffectKind",
    "Engine",
    "Environment",
    "FolderEnvironment",
    "Given",
    "Handler",
    "Kit",
    "MediaBlock",
    "MemoryStore",
    "Message",
    "Mode",
    "ModelAsked",
    "ModelProfile",
    "ModelRequest",
    "ModelResponse",
    "NestedEnvironment",
    "Notice",
    "Outcome",
    "Policy",
    "PolicyView",
    "PostgresStore",
    "Price",
    "Question",
    "Relationship",
    "ReplayReport",
    "Result",
    "RoleSettings",
    "Rule",
    "RunContext",
    "RunFile",
    "RunNotCompleted",
    "RunResult",
    "RunSpec",
    "RunStatus",
    "Settings",
    "Source",
    "SqliteStore",
    "Step",
    "StepTaken",
    "Store",
    "Tag",
    "TextBlock",
    "Tool",
    "ToolCall",
    "ToolCalled",
    "ToolSchema",
    "ToolError",
    "ToolResult",
    "Transformation",
    "Trust",
    "Trusted",
    "Usage",
    "Untrusted",
    "UsageError",
    "Verdict",
    "Workspace",
    "a2e",
    "a2t",
    "action",
    "call",
    "compose",
    "compound",
    "e2a",
    "e2t",
    "human",
    "mcp",
    "open_workspace",
    "t2a",
    "t2e",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
