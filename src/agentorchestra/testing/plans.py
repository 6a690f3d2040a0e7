"""What a model is shown when it is asked what the user's words call for: for tests, and to see how a plan is stated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from agentorchestra.agents.policy_plan import plan_messages, shown_tools
from agentorchestra.core.messages import ModelRequest, ModelSettings
from agentorchestra.core.policy import PLAN
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.prompts.catalog import PromptLibrary
from agentorchestra.trust.plan import SCHEMA
from agentorchestra.workspace.catalog import packaged_prompts


def plan_request(*words: str, tools: Collection[Tool[..., Any]], earlier: Sequence[str] = ()) -> ModelRequest:
    """Return the request for a plan, as a run with these tools makes it (besides those that every workspace has).

    Its messages are what the model sees, `settings.output_schema` is the form of the reply, which `ScriptedModel(...,
    plan=REPLY)` then gives.

    Args:
        words: the user's: the task, then what was said since.
        tools: those of the run.
        earlier: the tasks of the session before this one.
    """
    acting, reading = shown_tools(tools)
    prompt = PromptLibrary(packaged_prompts()).get(PLAN)
    messages = plan_messages(prompt, acting, reading, words, earlier=earlier)
    return ModelRequest(model="", messages=messages, settings=ModelSettings(output_schema=SCHEMA))
