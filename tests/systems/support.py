"""Workspaces for tests: a real store, real tools, a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace


def seen(request: ModelRequest) -> str:
    """Everything the model is shown, as text."""
    return "\n".join(render_message(message) for message in request.messages)


def workspace(folder: Path, model: Any, **options: Any) -> Workspace[Any]:
    """A workspace whose default model is the scripted one."""
    return Workspace(folder / "ws", **{"models": {model.name: model}, **options})


def text_model(steps: Any) -> ScriptedModel:
    """A scripted model without native tool calls."""
    return ScriptedModel(steps, native_tools=False)


__all__ = ["ModelProfile", "ScriptedModel", "seen", "text_model", "workspace"]
